//! The signatures of window functions. `query::window` evaluates them.
//! Source: PostgreSQL 15's documentation, "Window Functions".

use super::{BuiltIn, Form, Kind};
use crate::query::WindowFunction::{
    self, CumeDist, DenseRank, FirstValue, Lag, LastValue, Lead, NthValue, Ntile, PercentRank, Rank,
    RowNumber,
};

const FLOAT8: Kind = Kind::FLOAT8;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const ANY: Kind = Kind::AnyElement;
const COMPATIBLE: Kind = Kind::AnyCompatible;

const fn window(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    function: WindowFunction,
) -> BuiltIn {
    BuiltIn::new(name, arguments, result, Form::Window(function))
}

pub(super) static WINDOWS: &[BuiltIn] = &[
    window("cume_dist", &[], FLOAT8, CumeDist),
    window("dense_rank", &[], INT8, DenseRank),
    window("first_value", &[ANY], ANY, FirstValue),
    window("lag", &[ANY], ANY, Lag),
    window("lag", &[ANY, INT4], ANY, Lag),
    window("lag", &[COMPATIBLE, INT4, COMPATIBLE], COMPATIBLE, Lag),
    window("last_value", &[ANY], ANY, LastValue),
    window("lead", &[ANY], ANY, Lead),
    window("lead", &[ANY, INT4], ANY, Lead),
    window("lead", &[COMPATIBLE, INT4, COMPATIBLE], COMPATIBLE, Lead),
    window("nth_value", &[ANY, INT4], ANY, NthValue),
    window("ntile", &[INT4], INT4, Ntile),
    window("percent_rank", &[], FLOAT8, PercentRank),
    window("rank", &[], INT8, Rank),
    window("row_number", &[], INT8, RowNumber),
];
