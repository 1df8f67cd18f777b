//! Functions of enumerations.
//! Source: PostgreSQL 15's documentation, "Enum Support Functions".

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, EnumLabel};

const ANY_ENUM: Kind = Kind::AnyEnum;

pub(super) static ENUMERATIONS: &[BuiltIn] = &[
    BuiltIn::of("enum_first", &[ANY_ENUM], ANY_ENUM, |call| {
        let first = labels(&call).first();
        first.map(|label| Datum::Int(label.position)).ok_or_else(|| empty(&call))
    })
    .taking_null()
    .stable(),
    BuiltIn::of("enum_last", &[ANY_ENUM], ANY_ENUM, |call| {
        let last = labels(&call).last();
        last.map(|label| Datum::Int(label.position)).ok_or_else(|| empty(&call))
    })
    .taking_null()
    .stable(),
    BuiltIn::of("enum_range", &[ANY_ENUM], Kind::AnyArray, |call| between(call, [Datum::Null; 2]))
        .taking_null()
        .stable(),
    BuiltIn::of("enum_range", &[ANY_ENUM, ANY_ENUM], Kind::AnyArray, |call| {
        let bounds = [call.values[0], call.values[1]];
        between(call, bounds)
    })
    .taking_null()
    .stable(),
];

fn labels(call: &Call) -> &'static [EnumLabel] {
    call.element.enumeration().map_or(&[], |enumeration| &enumeration.labels)
}

fn empty(call: &Call) -> Box<SqlError> {
    SqlError::new("55000", format!("enum {} contains no values", call.element)).into()
}

/// Returns the values from one to another; NULL is no bound.
fn between(call: Call, [from, to]: [Datum; 2]) -> Evaluated {
    let is_within = |position: i64| {
        !matches!(from, Datum::Int(from) if position < from) && !matches!(to, Datum::Int(to) if position > to)
    };
    let positions = labels(&call).iter().map(|label| label.position).filter(|position| is_within(*position));
    let values: Vec<Datum> = positions.map(Datum::Int).collect();
    call.made_array(&values)
}
