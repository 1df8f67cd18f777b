//! The signatures of aggregates. `values::aggregate` evaluates them.
//! Source: PostgreSQL 15's documentation, "Aggregate Functions".

use super::{BuiltIn, Form, Kind};
use crate::AggregateFunction::{
    self, ArrayAgg, AverageDecimal, AverageDouble, AverageInterval, BitAnd, BitOr, BitXor, BoolAnd, BoolOr,
    Count, JsonArray, JsonObject, JsonbArray, JsonbObject, Max, Min, Mode, PercentileCont, PercentileDisc,
    StatisticDecimal, StatisticDouble, StringAgg, SumDecimal, SumDouble, SumInt, SumInterval, SumReal,
};
use crate::Statistic;

const BOOL: Kind = Kind::BOOL;
const FLOAT4: Kind = Kind::FLOAT4;
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

/// A statistic of a value.
const fn of_value(name: &'static str, argument: &'static [Kind], statistic: Statistic) -> BuiltIn {
    match argument[0] {
        FLOAT4 | FLOAT8 => aggregate(name, argument, FLOAT8, StatisticDouble(statistic)),
        _ => aggregate(name, argument, NUMERIC, StatisticDecimal(statistic)),
    }
}

/// A statistic of Y and X.
const fn of_pair(name: &'static str, statistic: Statistic) -> BuiltIn {
    aggregate(name, &[FLOAT8, FLOAT8], FLOAT8, StatisticDouble(statistic))
}

pub(super) static AGGREGATES: &[BuiltIn] = &[
    aggregate("array_agg", &[Kind::AnyElement], Kind::AnyArray, ArrayAgg),
    aggregate("avg", &[INT2], NUMERIC, AverageDecimal),
    aggregate("avg", &[INT4], NUMERIC, AverageDecimal),
    aggregate("avg", &[INT8], NUMERIC, AverageDecimal),
    aggregate("avg", &[NUMERIC], NUMERIC, AverageDecimal),
    aggregate("avg", &[FLOAT4], FLOAT8, AverageDouble),
    aggregate("avg", &[FLOAT8], FLOAT8, AverageDouble),
    aggregate("avg", &[Kind::INTERVAL], Kind::INTERVAL, AverageInterval),
    aggregate("bit_and", &[INT2], INT2, BitAnd),
    aggregate("bit_and", &[INT4], INT4, BitAnd),
    aggregate("bit_and", &[INT8], INT8, BitAnd),
    aggregate("bit_or", &[INT2], INT2, BitOr),
    aggregate("bit_or", &[INT4], INT4, BitOr),
    aggregate("bit_or", &[INT8], INT8, BitOr),
    aggregate("bit_xor", &[INT2], INT2, BitXor),
    aggregate("bit_xor", &[INT4], INT4, BitXor),
    aggregate("bit_xor", &[INT8], INT8, BitXor),
    aggregate("bool_and", &[BOOL], BOOL, BoolAnd),
    aggregate("bool_or", &[BOOL], BOOL, BoolOr),
    of_pair("corr", Statistic::Corr),
    aggregate("count", &[], INT8, Count),
    aggregate("count", &[Kind::Any], INT8, Count),
    of_pair("covar_pop", Statistic::CovarPop),
    of_pair("covar_samp", Statistic::CovarSamp),
    aggregate("every", &[BOOL], BOOL, BoolAnd),
    aggregate("json_agg", &[Kind::AnyAsJson], Kind::JSON, JsonArray { in_lines: false }),
    aggregate("json_object_agg", &[Kind::AnyAsJson, Kind::AnyAsJson], Kind::JSON, JsonObject),
    aggregate("jsonb_agg", &[Kind::AnyAsJson], Kind::JSONB, JsonbArray),
    aggregate("jsonb_object_agg", &[Kind::AnyAsJson, Kind::AnyAsJson], Kind::JSONB, JsonbObject),
    max(&[INT2]),
    max(&[INT4]),
    max(&[INT8]),
    max(&[NUMERIC]),
    max(&[FLOAT4]),
    max(&[FLOAT8]),
    max(&[TEXT]),
    max(&[Kind::BPCHAR]),
    max(&[Kind::DATE]),
    max(&[Kind::TIMESTAMP]),
    max(&[Kind::TIMESTAMPTZ]),
    max(&[Kind::INTERVAL]),
    max(&[Kind::TIME]),
    max(&[Kind::OID]),
    max(&[Kind::AnyEnum]),
    max(&[Kind::AnyArray]),
    min(&[INT2]),
    min(&[INT4]),
    min(&[INT8]),
    min(&[NUMERIC]),
    min(&[FLOAT4]),
    min(&[FLOAT8]),
    min(&[TEXT]),
    min(&[Kind::BPCHAR]),
    min(&[Kind::DATE]),
    min(&[Kind::TIMESTAMP]),
    min(&[Kind::TIMESTAMPTZ]),
    min(&[Kind::INTERVAL]),
    min(&[Kind::TIME]),
    min(&[Kind::OID]),
    min(&[Kind::AnyEnum]),
    min(&[Kind::AnyArray]),
    aggregate("mode", &[Kind::AnyElement], Kind::AnyElement, Mode),
    aggregate("percentile_cont", &[FLOAT8, FLOAT8], FLOAT8, PercentileCont),
    aggregate("percentile_disc", &[FLOAT8, Kind::AnyElement], Kind::AnyElement, PercentileDisc),
    aggregate("percentile_cont", &[Kind::FLOAT8S, FLOAT8], Kind::FLOAT8S, PercentileCont),
    aggregate("percentile_disc", &[Kind::FLOAT8S, Kind::AnyElement], Kind::AnyArray, PercentileDisc),
    aggregate("regr_count", &[FLOAT8, FLOAT8], INT8, StatisticDouble(Statistic::RegrCount)),
    of_pair("regr_avgx", Statistic::RegrAvgX),
    of_pair("regr_avgy", Statistic::RegrAvgY),
    of_pair("regr_intercept", Statistic::RegrIntercept),
    of_pair("regr_r2", Statistic::RegrR2),
    of_pair("regr_slope", Statistic::RegrSlope),
    of_pair("regr_sxx", Statistic::RegrSxx),
    of_pair("regr_sxy", Statistic::RegrSxy),
    of_pair("regr_syy", Statistic::RegrSyy),
    of_value("stddev", &[INT2], Statistic::StddevSamp),
    of_value("stddev", &[INT4], Statistic::StddevSamp),
    of_value("stddev", &[INT8], Statistic::StddevSamp),
    of_value("stddev", &[NUMERIC], Statistic::StddevSamp),
    of_value("stddev", &[FLOAT4], Statistic::StddevSamp),
    of_value("stddev", &[FLOAT8], Statistic::StddevSamp),
    of_value("stddev_pop", &[INT2], Statistic::StddevPop),
    of_value("stddev_pop", &[INT4], Statistic::StddevPop),
    of_value("stddev_pop", &[INT8], Statistic::StddevPop),
    of_value("stddev_pop", &[NUMERIC], Statistic::StddevPop),
    of_value("stddev_pop", &[FLOAT4], Statistic::StddevPop),
    of_value("stddev_pop", &[FLOAT8], Statistic::StddevPop),
    of_value("stddev_samp", &[INT2], Statistic::StddevSamp),
    of_value("stddev_samp", &[INT4], Statistic::StddevSamp),
    of_value("stddev_samp", &[INT8], Statistic::StddevSamp),
    of_value("stddev_samp", &[NUMERIC], Statistic::StddevSamp),
    of_value("stddev_samp", &[FLOAT4], Statistic::StddevSamp),
    of_value("stddev_samp", &[FLOAT8], Statistic::StddevSamp),
    aggregate("string_agg", &[TEXT, TEXT], TEXT, StringAgg),
    aggregate("sum", &[Kind::INTERVAL], Kind::INTERVAL, SumInterval),
    aggregate("sum", &[INT2], INT8, SumInt),
    aggregate("sum", &[INT4], INT8, SumInt),
    aggregate("sum", &[INT8], NUMERIC, SumDecimal),
    aggregate("sum", &[NUMERIC], NUMERIC, SumDecimal),
    aggregate("sum", &[FLOAT4], FLOAT4, SumReal),
    aggregate("sum", &[FLOAT8], FLOAT8, SumDouble),
    of_value("var_pop", &[INT2], Statistic::VarPop),
    of_value("var_pop", &[INT4], Statistic::VarPop),
    of_value("var_pop", &[INT8], Statistic::VarPop),
    of_value("var_pop", &[NUMERIC], Statistic::VarPop),
    of_value("var_pop", &[FLOAT4], Statistic::VarPop),
    of_value("var_pop", &[FLOAT8], Statistic::VarPop),
    of_value("var_samp", &[INT2], Statistic::VarSamp),
    of_value("var_samp", &[INT4], Statistic::VarSamp),
    of_value("var_samp", &[INT8], Statistic::VarSamp),
    of_value("var_samp", &[NUMERIC], Statistic::VarSamp),
    of_value("var_samp", &[FLOAT4], Statistic::VarSamp),
    of_value("var_samp", &[FLOAT8], Statistic::VarSamp),
    of_value("variance", &[INT2], Statistic::VarSamp),
    of_value("variance", &[INT4], Statistic::VarSamp),
    of_value("variance", &[INT8], Statistic::VarSamp),
    of_value("variance", &[NUMERIC], Statistic::VarSamp),
    of_value("variance", &[FLOAT4], Statistic::VarSamp),
    of_value("variance", &[FLOAT8], Statistic::VarSamp),
];
