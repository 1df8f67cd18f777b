//! The bounds and the step of `generate_series`.

use crate::{Failure, SqlError};
use catalog::Datum;

/// Returns the first and the last number of a series, and its step; `None` if one of them is NULL.
pub(super) fn bounds_of_series(values: &[Datum]) -> Result<Option<(i64, i64, i64)>, Failure> {
    let (Datum::Int(first), Datum::Int(last)) = (values[0], values[1]) else { return Ok(None) };
    match values.get(2) {
        None => Ok(Some((first, last, 1))),
        Some(Datum::Int(0)) => Err(SqlError::new("22023", "step size cannot equal zero").into()),
        Some(Datum::Int(step)) => Ok(Some((first, last, *step))),
        Some(_) => Ok(None),
    }
}
