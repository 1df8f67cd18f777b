//! The relations of `pg_catalog` that describe functions, operators and casts: the built-in ones from their
//! tables, and the routines of the schema.

use super::types::{type_oid, type_oids};
use super::{BOOL, Cell, INT, INTS, PUBLIC, SYSTEM, SystemRelation, TEXT, TEXTS};
use crate::oids::routine_oid;
use crate::schema::Schema;
use procedure::{
    BuiltIn, CASTS, CastContext, Form, Kind, OperatorForm, Procedure, Volatility, built_ins, operators,
};

/// The OID of the first built-in function; the next ones follow.
const FIRST_FUNCTION: i64 = 1_000;
/// The OID of the first operator; the next ones follow.
const FIRST_OPERATOR: i64 = 6_000;
/// The OID of the first cast; the next ones follow.
const FIRST_CAST: i64 = 10_000;
/// The OIDs of the languages: the one in which built-in functions are written, and PL/pgSQL.
const INTERNAL: i64 = 12;
const PLPGSQL: i64 = 13_500;
/// The OID of the pseudo-type of a trigger function.
const TRIGGER: i64 = 2279;

impl Schema {
    /// Returns a relation that describes routines, operators or casts; `None` for any other name.
    pub(super) fn routines_catalog(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "pg_proc" => self.pg_proc(),
            "pg_aggregate" => pg_aggregate(),
            "pg_language" => pg_language(),
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
        ];
        let mut rows: Vec<_> = numbered(FIRST_FUNCTION, built_ins()).map(built_in_row).collect();
        rows.extend(self.procedures().map(|own| routine_row(own)));
        SystemRelation::new(&columns, rows)
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
    let last = own.arguments.last().copied().filter(|_| own.is_variadic);
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
        matches!(own.form, Form::Rows(_)).into(),
        volatility.into(),
        "s".into(),
        (own.arguments.len() as i64).into(),
        0.into(),
        last.map_or(0, kind_oid).into(),
        kind_oid(own.result).into(),
        Cell::Ints(own.arguments.iter().map(|kind| kind_oid(*kind)).collect()),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        own.name.into(),
        Cell::Null,
    ]
}

fn routine_row(own: &Procedure) -> Vec<Cell> {
    let types: Vec<i64> = own.inputs().map(|(_, parameter)| type_oid(parameter.ty)).collect();
    let defaults = own.parameters.iter().filter(|own| own.default.is_some()).count() as i64;
    vec![
        routine_oid(own).into(),
        own.name.as_str().into(),
        PUBLIC.into(),
        10.into(),
        PLPGSQL.into(),
        if own.is_function { "f" } else { "p" }.into(),
        false.into(),
        false.into(),
        false.into(),
        own.rows.is_some().into(),
        "v".into(),
        "u".into(),
        (types.len() as i64).into(),
        defaults.into(),
        0.into(),
        match (own.result, &own.rows) {
            (Some((_, ty)), _) if !own.is_void => type_oid(ty),
            _ if own.is_trigger => TRIGGER,
            (_, Some(_)) => 2249,
            _ => 2278,
        }
        .into(),
        Cell::Ints(types),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        own.source.to_string().into(),
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
    let columns = [("oid", INT), ("lanname", TEXT), ("lanispl", BOOL), ("lanpltrusted", BOOL)];
    let rows = vec![
        vec![INTERNAL.into(), "internal".into(), false.into(), false.into()],
        vec![PLPGSQL.into(), "plpgsql".into(), true.into(), true.into()],
    ];
    SystemRelation::new(&columns, rows)
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
        ("oprcode", TEXT),
    ];
    let row = |(oid, own): (i64, &procedure::Operator)| {
        let (left, right) = match own.operands {
            [left, right] => (kind_oid(*left), kind_oid(*right)),
            [right, ..] => (0, kind_oid(*right)),
            [] => (0, 0),
        };
        let code = match own.form {
            OperatorForm::Function(name) => name,
            _ => "",
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
