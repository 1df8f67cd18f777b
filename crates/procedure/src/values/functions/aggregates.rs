//! The signatures of aggregates. `values::aggregate` evaluates them.
//! Source: PostgreSQL 15's documentation, "Aggregate Functions".

use super::{BuiltIn, Form, Kind};
use crate::AggregateFunction::{
    self, ArrayAgg, AverageDecimal, AverageDouble, BoolAnd, BoolOr, Count, JsonArray, JsonObject, JsonbArray,
    JsonbObject, Max, Min, StringAgg, SumDecimal, SumDouble, SumInt,
};

const BOOL: Kind = Kind::BOOL;
const FLOAT8: Kind = Kind::FLOAT8;
const INT2: Kind = Kind::INT2;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const NUMERIC: Kind = Kind::NUMERIC;
const TEXT: Kind = Kind::TEXT;

const fn aggregate(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    function: AggregateFunction,
) -> BuiltIn {
    BuiltIn::new(name, arguments, result, Form::Aggregate(function)).taking_null()
}

const fn min(argument: &'static [Kind]) -> BuiltIn {
    aggregate("min", argument, argument[0], Min)
}

const fn max(argument: &'static [Kind]) -> BuiltIn {
    aggregate("max", argument, argument[0], Max)
}

pub(super) static AGGREGATES: &[BuiltIn] = &[
    aggregate("array_agg", &[Kind::AnyElement], Kind::AnyArray, ArrayAgg),
    aggregate("avg", &[INT2], NUMERIC, AverageDecimal),
    aggregate("avg", &[INT4], NUMERIC, AverageDecimal),
    aggregate("avg", &[INT8], NUMERIC, AverageDecimal),
    aggregate("avg", &[NUMERIC], NUMERIC, AverageDecimal),
    aggregate("avg", &[FLOAT8], FLOAT8, AverageDouble),
    aggregate("bool_and", &[BOOL], BOOL, BoolAnd),
    aggregate("bool_or", &[BOOL], BOOL, BoolOr),
    aggregate("count", &[], INT8, Count),
    aggregate("count", &[Kind::Any], INT8, Count),
    aggregate("every", &[BOOL], BOOL, BoolAnd),
    aggregate("json_agg", &[Kind::AnyAsJson], Kind::JSON, JsonArray { in_lines: false }),
    aggregate("json_object_agg", &[Kind::AnyAsJson, Kind::AnyAsJson], Kind::JSON, JsonObject),
    aggregate("jsonb_agg", &[Kind::AnyAsJson], Kind::JSONB, JsonbArray),
    aggregate("jsonb_object_agg", &[Kind::AnyAsJson, Kind::AnyAsJson], Kind::JSONB, JsonbObject),
    max(&[INT2]),
    max(&[INT4]),
    max(&[INT8]),
    max(&[NUMERIC]),
    max(&[FLOAT8]),
    max(&[TEXT]),
    max(&[Kind::BPCHAR]),
    max(&[Kind::DATE]),
    max(&[Kind::TIMESTAMP]),
    max(&[Kind::TIMESTAMPTZ]),
    max(&[Kind::AnyEnum]),
    min(&[INT2]),
    min(&[INT4]),
    min(&[INT8]),
    min(&[NUMERIC]),
    min(&[FLOAT8]),
    min(&[TEXT]),
    min(&[Kind::BPCHAR]),
    min(&[Kind::DATE]),
    min(&[Kind::TIMESTAMP]),
    min(&[Kind::TIMESTAMPTZ]),
    min(&[Kind::AnyEnum]),
    aggregate("string_agg", &[TEXT, TEXT], TEXT, StringAgg),
    aggregate("sum", &[INT2], INT8, SumInt),
    aggregate("sum", &[INT4], INT8, SumInt),
    aggregate("sum", &[INT8], NUMERIC, SumDecimal),
    aggregate("sum", &[NUMERIC], NUMERIC, SumDecimal),
    aggregate("sum", &[FLOAT8], FLOAT8, SumDouble),
];
