//! The relations of `pg_catalog` that describe functions, operators and casts: the built-in ones from their
//! tables, and the routines of the schema.

use super::qualified::Named;
use super::routine_text::RoutineText;
use super::types::{type_oid, type_oids};
use super::{BOOL, Cell, INT, INTS, SYSTEM, SystemRelation, TEXT, TEXTS};
use crate::oids::routine_oid;
use crate::schema::Schema;
use crate::subject::Subject;
use crate::types::short;
use catalog::{ScalarType, Type};
use procedure::{
    BuiltIn, CASTS, CastContext, Form, Kind, Mode, OperatorForm, Procedure, Volatility, built_ins, operators,
};
use std::sync::Arc;

/// The OID of the first built-in function; the next ones follow.
pub(super) const FIRST_FUNCTION: i64 = 1_000;
/// The OID of the first operator; the next ones follow.
const FIRST_OPERATOR: i64 = 6_000;
/// The OID of the first cast; the next ones follow.
const FIRST_CAST: i64 = 10_000;
/// The OIDs of the languages: the one in which built-in functions are written, and PL/pgSQL.
const INTERNAL: i64 = 12;
const PLPGSQL: i64 = 13_500;
/// The languages: OID, name, whether every user may use it.
const LANGUAGES: [(i64, &str, bool); 3] =
    [(INTERNAL, "internal", false), (14, "sql", true), (PLPGSQL, "plpgsql", true)];
/// The OIDs of the pseudo-types of a trigger function, of a row, and of no value.
const TRIGGER: i64 = 2279;
/// The number of the extension, below those of a user's objects.
const PLPGSQL_EXTENSION: i64 = 13_000;
const RECORD: i64 = 2249;
const VOID: i64 = 2278;
const FLOAT: Type = Type::Scalar(ScalarType::Double);

impl Schema {
    /// Returns a relation that describes routines, operators or casts; `None` for any other name.
    pub(super) fn routines_catalog(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "pg_proc" => self.pg_proc(),
            "reprise_procedures" => self.reprise_procedures(),
            "pg_aggregate" => pg_aggregate(),
            "pg_language" => pg_language(),
            "pg_extension" => pg_extension(),
            "pg_operator" => pg_operator(),
            "pg_cast" => pg_cast(),
            _ => return None,
        })
    }

    fn pg_proc(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("proname", TEXT),
            ("pronamespace", INT),
            ("proowner", INT),
            ("prolang", INT),
            ("prokind", TEXT),
            ("prosecdef", BOOL),
            ("proleakproof", BOOL),
            ("proisstrict", BOOL),
            ("proretset", BOOL),
            ("provolatile", TEXT),
            ("proparallel", TEXT),
            ("pronargs", INT),
            ("pronargdefaults", INT),
            ("provariadic", INT),
            ("prorettype", INT),
            ("proargtypes", INTS),
            ("proallargtypes", INTS),
            ("proargnames", TEXTS),
            ("proargmodes", TEXTS),
            ("prosrc", TEXT),
            ("proacl", TEXTS),
            ("procost", FLOAT),
            ("prorows", FLOAT),
            ("proconfig", TEXTS),
        ];
        // What takes its last arguments one by one is shown by the entry that takes them as an array.
        let has_array = |own: &BuiltIn| own.is_variadic && matches!(own.arguments.last(), Some(Kind::Of(_)));
        let shown = numbered(FIRST_FUNCTION, built_ins()).filter(|(_, own)| !has_array(own));
        let mut rows: Vec<_> = shown.map(built_in_row).collect();
        rows.extend(self.procedures().map(|own| self.routine_row(own)));
        SystemRelation::new(&columns, rows)
    }

    /// `reprise_procedures`: what the analysis of each routine has found.
    fn reprise_procedures(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("name", TEXT),
            ("arguments", TEXT),
            ("kind", TEXT),
            ("logged", TEXT),
            ("reason", TEXT),
            ("operations", INT),
            ("queries", INT),
        ];
        let row = |(own, (oid, arguments)): (&Arc<Procedure>, (i64, Named))| {
            let logged = match own.by_value {
                _ if own.read_only => "not at all",
                Some(_) => "by value",
                None => "as a command",
            };
            let reason = own.by_value.as_ref().filter(|_| !own.read_only);
            vec![
                oid.into(),
                own.name.as_str().into(),
                arguments.into(),
                if own.is_function { "function" } else { "procedure" }.into(),
                logged.into(),
                reason.map_or(Cell::Null, |cause| format!("it {cause}").into()),
                (own.operations.len() as i64).into(),
                (own.queries.len() as i64).into(),
            ]
        };
        let rows = self.procedures().zip(self.routine_arguments(false)).map(row);
        SystemRelation::new(&columns, rows.collect())
    }

    /// Returns the results of the functions, by OID; empty for a procedure.
    pub(crate) fn routine_results(&self) -> Vec<(i64, Named)> {
        let of = |own: &Arc<Procedure>| {
            let text = RoutineText::of(own, self);
            (routine_oid(own), Named::of(|is_qualified| text.result(own, is_qualified)))
        };
        self.procedures().map(of).collect()
    }

    /// Returns the parameters of the routines, by OID.
    pub(crate) fn routine_arguments(&self, with_defaults: bool) -> Vec<(i64, Named)> {
        let of = |own: &Arc<Procedure>| {
            let text = RoutineText::of(own, self);
            let write = |is_qualified| text.arguments(own, with_defaults, is_qualified);
            (routine_oid(own), Named::of(write))
        };
        self.procedures().map(of).collect()
    }

    /// Returns the CREATE OR REPLACE statements of the routines, by OID.
    pub(crate) fn routine_definitions(&self) -> Vec<(i64, Named)> {
        let of = |own: &Arc<Procedure>| {
            let text = RoutineText::of(own, self);
            (routine_oid(own), Named::of(|is_qualified| text.definition(own, is_qualified)))
        };
        self.procedures().map(of).collect()
    }

    fn routine_row(&self, own: &Procedure) -> Vec<Cell> {
        let text = RoutineText::of(own, self);
        let types: Vec<i64> = own.inputs().map(|(_, parameter)| type_oid(parameter.ty)).collect();
        let defaults = own.parameters.iter().filter(|own| own.has_default()).count() as i64;
        let columns = text.columns(own);
        let all = own.parameters.iter().map(|own| type_oid(own.ty));
        let all = all.chain(columns.iter().map(|(_, ty)| type_oid(*ty)));
        let modes = own.parameters.iter().map(|own| match own.mode {
            Mode::In if own.is_variadic => "v",
            Mode::In => "i",
            Mode::Out => "o",
            Mode::InOut => "b",
        });
        let modes = modes.chain(columns.iter().map(|_| "t")).map(str::to_owned);
        let names = own.parameters.iter().map(|own| &own.name);
        let names: Vec<String> = names.chain(columns.iter().map(|(name, _)| name)).cloned().collect();
        let only_inputs = columns.is_empty() && own.parameters.iter().all(|own| !own.is_output());
        let result = match (own.result, &own.rows) {
            (Some((_, ty)), _) if !own.is_void => type_oid(ty),
            _ if own.is_trigger => TRIGGER,
            (_, Some(columns)) => match columns.as_slice() {
                [(_, ty)] => type_oid(*ty),
                _ => RECORD,
            },
            (None, None) if own.parameters.iter().any(|own| own.is_output()) => RECORD,
            _ => VOID,
        };
        vec![
            routine_oid(own).into(),
            short(&own.name).into(),
            self.namespace_oid(&own.name).into(),
            self.owner_cell(&Subject::Routine(own.name.clone())),
            LANGUAGES.iter().find(|known| known.1 == text.language).map_or(PLPGSQL, |known| known.0).into(),
            if own.is_function { "f" } else { "p" }.into(),
            text.is_definer.into(),
            text.is_leakproof.into(),
            text.is_strict.into(),
            text.returns_rows().into(),
            text.volatility.into(),
            text.parallel.into(),
            (types.len() as i64).into(),
            defaults.into(),
            0.into(),
            result.into(),
            Cell::Ints(types),
            if only_inputs { Cell::Null } else { Cell::Ints(all.collect()) },
            if names.iter().all(String::is_empty) { Cell::Null } else { Cell::Texts(names) },
            if only_inputs { Cell::Null } else { Cell::Texts(modes.collect()) },
            text.body.clone().into(),
            self.acl_cell(&Subject::Routine(own.name.clone())),
            Cell::Double(text.cost),
            Cell::Double(text.rows),
            if text.settings.is_empty() { Cell::Null } else { Cell::Texts(text.settings.clone()) },
        ]
    }
}

fn numbered<T>(first: i64, all: impl Iterator<Item = T>) -> impl Iterator<Item = (i64, T)> {
    (first..).zip(all)
}

fn kind_oid(kind: Kind) -> i64 {
    match kind {
        Kind::Of(ty) => type_oid(ty),
        other => other.pseudo_oid().map_or(0, i64::from),
    }
}

fn built_in_row((oid, own): (i64, &BuiltIn)) -> Vec<Cell> {
    let kind = match own.form {
        Form::Aggregate(_) => "a",
        Form::Window(_) => "w",
        _ => "f",
    };
    let volatility = match own.volatility() {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    };
    let further = match own.arguments.last().copied() {
        Some(Kind::Of(Type::Array(element))) if own.is_for_variadic => Some(Kind::Of(element.into())),
        last => last.filter(|_| own.is_variadic),
    };
    vec![
        oid.into(),
        own.name.into(),
        SYSTEM.into(),
        10.into(),
        INTERNAL.into(),
        kind.into(),
        false.into(),
        false.into(),
        (!own.takes_null).into(),
        own.returns_rows().into(),
        volatility.into(),
        "s".into(),
        (own.arguments.len() as i64).into(),
        0.into(),
        further.map_or(0, kind_oid).into(),
        kind_oid(own.result).into(),
        Cell::Ints(own.arguments.iter().map(|kind| kind_oid(*kind)).collect()),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        own.name.into(),
        Cell::Null,
        Cell::Double(1.0),
        Cell::Double(if own.returns_rows() { 1000.0 } else { 0.0 }),
        Cell::Null,
    ]
}

fn pg_aggregate() -> SystemRelation {
    let columns = [("aggfnoid", INT), ("aggkind", TEXT), ("aggnumdirectargs", INT)];
    let row = |(oid, own): (i64, &BuiltIn)| {
        let Form::Aggregate(function) = own.form else { return None };
        let kind = if function.is_ordered_set() { "o" } else { "n" };
        let direct = if function.is_ordered_set() { own.arguments.len() as i64 - 1 } else { 0 };
        Some(vec![oid.into(), kind.into(), direct.into()])
    };
    let rows = numbered(FIRST_FUNCTION, built_ins()).filter_map(row);
    SystemRelation::new(&columns, rows.collect())
}

fn pg_language() -> SystemRelation {
    let columns =
        [("oid", INT), ("lanname", TEXT), ("lanowner", INT), ("lanispl", BOOL), ("lanpltrusted", BOOL)];
    let row = |(oid, name, is_trusted): (i64, &str, bool)| {
        vec![oid.into(), name.into(), 10.into(), (oid == PLPGSQL).into(), is_trusted.into()]
    };
    SystemRelation::new(&columns, LANGUAGES.map(row).to_vec())
}

/// The language of routines, which is there without CREATE EXTENSION.
fn pg_extension() -> SystemRelation {
    let columns = [
        ("oid", INT),
        ("extname", TEXT),
        ("extowner", INT),
        ("extnamespace", INT),
        ("extrelocatable", BOOL),
        ("extversion", TEXT),
        ("extconfig", Type::Array(ScalarType::Integer)),
        ("extcondition", Type::Array(ScalarType::Text)),
    ];
    let row: [Cell; 8] = [
        PLPGSQL_EXTENSION.into(),
        "plpgsql".into(),
        10.into(),
        SYSTEM.into(),
        false.into(),
        "1.0".into(),
        Cell::Null,
        Cell::Null,
    ];
    SystemRelation::new(&columns, vec![row.into()])
}

fn pg_operator() -> SystemRelation {
    let columns = [
        ("oid", INT),
        ("oprname", TEXT),
        ("oprnamespace", INT),
        ("oprowner", INT),
        ("oprkind", TEXT),
        ("oprleft", INT),
        ("oprright", INT),
        ("oprresult", INT),
        ("oprcode", INT),
    ];
    let row = |(oid, own): (i64, &procedure::Operator)| {
        let (left, right) = match own.operands {
            [left, right] => (kind_oid(*left), kind_oid(*right)),
            [right, ..] => (0, kind_oid(*right)),
            [] => (0, 0),
        };
        let code = match own.form {
            OperatorForm::Function(name) => {
                numbered(FIRST_FUNCTION, built_ins()).find(|(_, own)| own.name == name).map_or(0, |own| own.0)
            }
            _ => 0,
        };
        vec![
            oid.into(),
            own.symbol.into(),
            SYSTEM.into(),
            10.into(),
            if left == 0 { "l" } else { "b" }.into(),
            left.into(),
            right.into(),
            kind_oid(own.result).into(),
            code.into(),
        ]
    };
    SystemRelation::new(&columns, numbered(FIRST_OPERATOR, operators().iter()).map(row).collect())
}

fn pg_cast() -> SystemRelation {
    let columns = [
        ("oid", INT),
        ("castsource", INT),
        ("casttarget", INT),
        ("castfunc", INT),
        ("castcontext", TEXT),
        ("castmethod", TEXT),
    ];
    let row = |(oid, (from, to, context)): (i64, &(_, _, CastContext))| {
        let context = match context {
            CastContext::Implicit => "i",
            CastContext::Assignment => "a",
            _ => "e",
        };
        let [from, to] = [*from, *to].map(|own| i64::from(type_oids(own).0));
        vec![oid.into(), from.into(), to.into(), 0.into(), context.into(), "f".into()]
    };
    SystemRelation::new(&columns, numbered(FIRST_CAST, CASTS.iter()).map(row).collect())
}
