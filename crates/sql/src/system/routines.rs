//! The relations of `pg_catalog` about functions, operators and casts, both built-in and defined.

use super::qualified::Named;
use super::routine_text::RoutineText;
use super::types::{type_oid, type_oids};
use super::{BOOL, Cell, INT, INTS, SYSTEM, SystemRelation, TEXT, TEXTS};
use crate::full_names::short;
use crate::oids::routine_oid;
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{ScalarType, Type};
use procedure::{
    BuiltIn, CASTS, CastContext, Form, Kind, Mode, OperatorForm, Parameter, Procedure, Volatility, built_ins,
    operators,
};
use std::sync::Arc;

/// The OID of the first built-in function; the next ones follow.
pub(super) const FIRST_FUNCTION: i64 = 1_000;
/// The OID of the first operator; the next ones follow.
const FIRST_OPERATOR: i64 = 6_000;
/// The OID of the first cast; the next ones follow.
const FIRST_CAST: i64 = 10_000;
/// The OID of the language of built-in functions.
const INTERNAL: i64 = 12;
/// The OID of PL/pgSQL.
const PLPGSQL: i64 = 13_500;
/// The languages: OID, name, and whether all users may create routines in it.
const LANGUAGES: [(i64, &str, bool); 3] =
    [(INTERNAL, "internal", false), (14, "sql", true), (PLPGSQL, "plpgsql", true)];
/// The OID of the pseudo-type that a trigger function returns.
const TRIGGER: i64 = 2279;
/// The OID of the extension `plpgsql`. `pg_dump` leaves out objects whose OIDs are below 16384.
const PLPGSQL_EXTENSION: i64 = 13_000;
/// The OID of the pseudo-type of a row.
const RECORD: i64 = 2249;
/// The OID of the pseudo-type of a routine without a result.
const VOID: i64 = 2278;
const FLOAT: Type = Type::Scalar(ScalarType::Double);

impl Schema {
    /// Returns a relation about routines, operators or casts; `None` for any other name.
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
        // A variadic function has two entries. The row is that of the entry that takes an array.
        let has_array = |built_in: &BuiltIn| {
            built_in.is_variadic && matches!(built_in.arguments.last(), Some(Kind::Of(_)))
        };
        let shown = numbered(FIRST_FUNCTION, built_ins()).filter(|(_, built_in)| !has_array(built_in));
        let mut rows: Vec<_> = shown.map(built_in_row).collect();
        rows.extend(self.procedures().map(|routine| self.routine_row(routine)));
        SystemRelation::new(&columns, rows)
    }

    /// Returns `reprise_procedures`: the results of the analysis of each routine.
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
        let row = |(routine, (oid, arguments)): (&Arc<Procedure>, (i64, Named))| {
            let logged = match routine.by_value {
                _ if routine.read_only => "not at all",
                Some(_) => "by value",
                None => "as a command",
            };
            let reason = routine.by_value.as_ref().filter(|_| !routine.read_only);
            vec![
                oid.into(),
                routine.name.as_str().into(),
                arguments.into(),
                if routine.is_function { "function" } else { "procedure" }.into(),
                logged.into(),
                reason.map_or(Cell::Null, |cause| format!("it {cause}").into()),
                (routine.operations.len() as i64).into(),
                (routine.queries.len() as i64).into(),
            ]
        };
        let rows = self.procedures().zip(self.routine_arguments(false)).map(row);
        SystemRelation::new(&columns, rows.collect())
    }

    /// Returns the results of the functions, by OID; empty for a procedure.
    pub(crate) fn routine_results(&self) -> Vec<(i64, Named)> {
        let of = |routine: &Arc<Procedure>| {
            let text = RoutineText::of(routine, self);
            (routine_oid(routine), Named::of(|is_qualified| text.result(routine, is_qualified)))
        };
        self.procedures().map(of).collect()
    }

    /// Returns the parameters of the routines, by OID.
    pub(crate) fn routine_arguments(&self, with_defaults: bool) -> Vec<(i64, Named)> {
        let of = |routine: &Arc<Procedure>| {
            let text = RoutineText::of(routine, self);
            let write = |is_qualified| text.arguments(routine, with_defaults, is_qualified);
            (routine_oid(routine), Named::of(write))
        };
        self.procedures().map(of).collect()
    }

    /// Returns the defaults of parameters: the OID of the routine, the position from 1, and the text.
    pub(crate) fn routine_defaults(&self) -> Vec<(i64, i64, String)> {
        let of = |routine: &Arc<Procedure>| {
            let (oid, text) = (routine_oid(routine), RoutineText::of(routine, self));
            let all = text.defaults.into_iter().zip(1..);
            all.filter_map(move |(default, place)| Some((oid, place, default?))).collect::<Vec<_>>()
        };
        self.procedures().flat_map(of).collect()
    }

    /// Returns the CREATE OR REPLACE statements of the routines, by OID.
    pub(crate) fn routine_definitions(&self) -> Vec<(i64, Named)> {
        let of = |routine: &Arc<Procedure>| {
            let text = RoutineText::of(routine, self);
            (routine_oid(routine), Named::of(|is_qualified| text.definition(routine, is_qualified)))
        };
        self.procedures().map(of).collect()
    }

    fn routine_row(&self, routine: &Procedure) -> Vec<Cell> {
        let text = RoutineText::of(routine, self);
        let of_type = |ty: Type, domain: Option<&str>| {
            let domain = domain.and_then(|name| self.catalog().domain(name));
            domain.map_or_else(|| type_oid(ty), |own| own.oid.into())
        };
        let returned =
            |position: usize, ty| of_type(ty, routine.domains.get(position).and_then(Option::as_deref));
        let of_parameter = |parameter: &Parameter| of_type(parameter.ty, parameter.domain());
        let types: Vec<i64> = routine.inputs().map(|(_, parameter)| of_parameter(parameter)).collect();
        let defaults = routine.parameters.iter().filter(|parameter| parameter.has_default()).count() as i64;
        let columns = text.columns(routine);
        let all = routine.parameters.iter().map(of_parameter);
        let of_columns = columns.iter().enumerate();
        let all = all.chain(of_columns.map(|(position, (_, ty))| returned(position, *ty)));
        let modes = routine.parameters.iter().map(|parameter| match parameter.mode {
            Mode::In if parameter.is_variadic => "v",
            Mode::In => "i",
            Mode::Out => "o",
            Mode::InOut => "b",
        });
        let modes = modes.chain(columns.iter().map(|_| "t")).map(str::to_owned);
        let names = routine.parameters.iter().map(|parameter| &parameter.name);
        let names: Vec<String> = names.chain(columns.iter().map(|(name, _)| name)).cloned().collect();
        let only_inputs =
            columns.is_empty() && routine.parameters.iter().all(|parameter| !parameter.is_output());
        let result = match (routine.result, &routine.rows) {
            (Some((_, ty)), _) if !routine.is_void => returned(0, ty),
            _ if routine.is_trigger => TRIGGER,
            (_, Some(columns)) => match columns.as_slice() {
                [(_, ty)] => returned(0, *ty),
                _ => RECORD,
            },
            (None, None) if routine.parameters.iter().any(|parameter| parameter.is_output()) => RECORD,
            _ => VOID,
        };
        vec![
            routine_oid(routine).into(),
            short(&routine.name).into(),
            self.namespace_oid(&routine.name).into(),
            self.owner_cell(&Subject::Routine(routine.name.clone())),
            LANGUAGES.iter().find(|known| known.1 == text.language).map_or(PLPGSQL, |known| known.0).into(),
            if routine.is_function { "f" } else { "p" }.into(),
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
            self.acl_cell(&Subject::Routine(routine.name.clone())),
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

fn built_in_row((oid, built_in): (i64, &BuiltIn)) -> Vec<Cell> {
    let kind = match built_in.form {
        Form::Aggregate(_) => "a",
        Form::Window(_) => "w",
        _ => "f",
    };
    let volatility = match built_in.volatility() {
        Volatility::Immutable => "i",
        Volatility::Stable => "s",
        Volatility::Volatile => "v",
    };
    let further = match built_in.arguments.last().copied() {
        Some(Kind::Of(Type::Array(element))) if built_in.is_for_variadic => Some(Kind::Of(element.into())),
        last => last.filter(|_| built_in.is_variadic),
    };
    vec![
        oid.into(),
        built_in.name.into(),
        SYSTEM.into(),
        10.into(),
        INTERNAL.into(),
        kind.into(),
        false.into(),
        false.into(),
        (!built_in.takes_null).into(),
        built_in.returns_rows().into(),
        volatility.into(),
        "s".into(),
        (built_in.arguments.len() as i64).into(),
        0.into(),
        further.map_or(0, kind_oid).into(),
        kind_oid(built_in.result).into(),
        Cell::Ints(built_in.arguments.iter().map(|kind| kind_oid(*kind)).collect()),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        built_in.name.into(),
        Cell::Null,
        Cell::Double(1.0),
        Cell::Double(if built_in.returns_rows() { 1000.0 } else { 0.0 }),
        Cell::Null,
    ]
}

fn pg_aggregate() -> SystemRelation {
    let columns = [("aggfnoid", INT), ("aggkind", TEXT), ("aggnumdirectargs", INT)];
    let row = |(oid, built_in): (i64, &BuiltIn)| {
        let Form::Aggregate(function) = built_in.form else { return None };
        let kind = if function.is_ordered_set() { "o" } else { "n" };
        let direct = if function.is_ordered_set() { built_in.arguments.len() as i64 - 1 } else { 0 };
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

/// Returns `pg_extension`. It has `plpgsql`, which each database has without CREATE EXTENSION.
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
    let row = |(oid, operator): (i64, &procedure::Operator)| {
        let (left, right) = match operator.operands {
            [left, right] => (kind_oid(*left), kind_oid(*right)),
            [right, ..] => (0, kind_oid(*right)),
            [] => (0, 0),
        };
        let code = match operator.form {
            OperatorForm::Function(name) => numbered(FIRST_FUNCTION, built_ins())
                .find(|(_, function)| function.name == name)
                .map_or(0, |function| function.0),
            _ => 0,
        };
        vec![
            oid.into(),
            operator.symbol.into(),
            SYSTEM.into(),
            10.into(),
            if left == 0 { "l" } else { "b" }.into(),
            left.into(),
            right.into(),
            kind_oid(operator.result).into(),
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
        let [from, to] = [*from, *to].map(|ty| i64::from(type_oids(ty).0));
        vec![oid.into(), from.into(), to.into(), 0.into(), context.into(), "f".into()]
    };
    SystemRelation::new(&columns, numbered(FIRST_CAST, CASTS.iter()).map(row).collect())
}
