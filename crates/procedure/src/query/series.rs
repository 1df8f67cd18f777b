//! The values of `generate_series`.

use crate::{Failure, SqlError};
use catalog::{Arena, Datum, Interval, Numeric, later};

/// The type of the values of a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriesOf {
    /// Integers.
    Integers,
    /// Numerics.
    Numerics,
    /// Timestamps, an interval apart.
    Timestamps,
    /// Timestamps with a zone, an interval apart in the zone of the session.
    Instants,
}

/// The remaining values of a series.
#[derive(Clone)]
pub(super) enum Series {
    Integers { next: i64, last: i64, step: i64 },
    Numerics { next: Numeric, last: Numeric, step: Numeric },
    Timestamps { next: i64, last: i64, step: Interval },
    Instants { next: i64, last: i64, step: Interval },
    Ended,
}

/// Returns an argument of a series of numerics.
///
/// # Errors
/// `22023`: it is NaN or infinite.
fn finite(value: Datum, index: usize, arena: &Arena) -> Result<Numeric, Failure> {
    let value = arena.numeric(value, 0).unwrap_or_else(|| unreachable!("{value:?} is no numeric"));
    if value.is_finite() {
        return Ok(value);
    }
    let name = ["start value", "stop value", "step size"][index];
    let kind = if value.is_nan() { "NaN" } else { "infinity" };
    Err(SqlError::new("22023", format!("{name} cannot be {kind}")).into())
}

impl Series {
    /// Returns the series from a first value to a last one; it is empty if an argument is NULL.
    ///
    /// # Errors
    /// `22023`: the step is zero.
    pub(super) fn new(of: SeriesOf, values: &[Datum], arena: &Arena) -> Result<Self, Failure> {
        if values.iter().any(|value| value.is_null()) {
            return Ok(Self::Ended);
        }
        let int = |index: usize| match values.get(index) {
            Some(Datum::Int(value)) => *value,
            _ => 1,
        };
        let numeric = |index: usize| match values.get(index) {
            Some(value) => finite(*value, index, arena),
            None => Ok(Numeric::from(1)),
        };
        let series = match of {
            SeriesOf::Integers => Self::Integers { next: int(0), last: int(1), step: int(2) },
            SeriesOf::Numerics => Self::Numerics { next: numeric(0)?, last: numeric(1)?, step: numeric(2)? },
            SeriesOf::Timestamps | SeriesOf::Instants => {
                let step = Interval::from_bytes(arena.datum_bytes(values[2]));
                match of {
                    SeriesOf::Instants => Self::Instants { next: int(0), last: int(1), step },
                    _ => Self::Timestamps { next: int(0), last: int(1), step },
                }
            }
        };
        if series.direction() == 0 {
            return Err(SqlError::new("22023", "step size cannot equal zero").into());
        }
        Ok(series)
    }

    /// Returns the sign of the step.
    fn direction(&self) -> i128 {
        match self {
            Self::Integers { step, .. } => i128::from(step.signum()),
            Self::Numerics { step, .. } => step.sign() as i128,
            Self::Timestamps { step, .. } | Self::Instants { step, .. } => step.total().signum(),
            Self::Ended => 1,
        }
    }

    /// Returns the next value; `None` at the end.
    ///
    /// # Errors
    /// `22003`, `22008`: the value after it is out of range.
    pub(super) fn next(&mut self, arena: &mut Arena) -> Result<Option<Datum>, Failure> {
        let is_up = self.direction() > 0;
        let is_within = |order: std::cmp::Ordering| if is_up { order.is_le() } else { order.is_ge() };
        let value = match self {
            Self::Integers { next, last, .. } if is_within(Ord::cmp(next, last)) => Datum::Int(*next),
            Self::Timestamps { next, last, .. } | Self::Instants { next, last, .. }
                if is_within(Ord::cmp(next, last)) =>
            {
                Datum::Int(*next)
            }
            Self::Numerics { next, last, .. } if is_within(next.compare(last)) => {
                arena.push_numeric(next.clone())
            }
            _ => return Ok(None),
        };
        match self {
            // As in PostgreSQL, a series of integers ends at the last bigint.
            Self::Integers { next, step, .. } => match next.checked_add(*step) {
                Some(following) => *next = following,
                None => *self = Self::Ended,
            },
            Self::Numerics { next, step, .. } => *next = next.plus(step).map_err(Box::<SqlError>::from)?,
            Self::Timestamps { next, step, .. } => *next = step.after(*next).map_err(SqlError::from)?,
            Self::Instants { next, step, .. } => {
                *next = later(arena.zone(), *next, *step).map_err(SqlError::from)?;
            }
            Self::Ended => {}
        }
        Ok(Some(value))
    }
}
