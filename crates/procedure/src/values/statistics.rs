//! Variances, standard deviations, correlations and regressions.
//! Source: PostgreSQL 15: `float8_accum` and `float8_regr_accum` of `float.c` (the method of Youngs and
//! Cramer), and `numeric_stddev_internal` of `numeric.c`.

use super::decimals::square_root_to;
use crate::{Failure, SqlError};
use catalog::{Arena, Datum, Numeric};

/// A statistic of one value, or of Y and X.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are PostgreSQL's")]
pub enum Statistic {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    Corr,
    CovarPop,
    CovarSamp,
    RegrAvgX,
    RegrAvgY,
    RegrCount,
    RegrIntercept,
    RegrR2,
    RegrSlope,
    RegrSxx,
    RegrSxy,
    RegrSyy,
}

/// The sums of doubles: of one value, X, or of pairs.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DoubleSums {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

fn overflow() -> Failure {
    SqlError::new("22003", "value out of range: overflow").into()
}

impl DoubleSums {
    /// Adds a value.
    pub(crate) fn add(&mut self, x: f64) -> Result<(), Failure> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        if before.count > 0.0 {
            let distance = x * self.count - self.x;
            self.xx += distance * distance / (self.count * before.count);
            if self.x.is_infinite() || self.xx.is_infinite() {
                if !before.x.is_infinite() && !x.is_infinite() {
                    return Err(overflow());
                }
                self.xx = f64::NAN;
            }
        } else if !x.is_finite() {
            self.xx = f64::NAN;
        }
        Ok(())
    }

    /// Adds a pair.
    pub(crate) fn add_pair(&mut self, y: f64, x: f64) -> Result<(), Failure> {
        let before = *self;
        self.count += 1.0;
        self.x += x;
        self.y += y;
        if before.count > 0.0 {
            let (to_x, to_y) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before.count);
            self.xx += to_x * to_x * scale;
            self.yy += to_y * to_y * scale;
            self.xy += to_x * to_y * scale;
            let is_infinite = [self.x, self.xx, self.y, self.yy, self.xy].iter().any(|sum| sum.is_infinite());
            if is_infinite {
                let was_finite = ![before.x, x, before.y, y].iter().any(|sum| sum.is_infinite());
                if was_finite {
                    return Err(overflow());
                }
                let undefined = |sum: &mut f64| *sum = if sum.is_infinite() { f64::NAN } else { *sum };
                [&mut self.xx, &mut self.yy, &mut self.xy].into_iter().for_each(undefined);
            }
        } else {
            if !x.is_finite() {
                (self.xx, self.xy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.yy, self.xy) = (f64::NAN, f64::NAN);
            }
        }
        Ok(())
    }

    /// Returns a statistic.
    pub(crate) fn result(&self, statistic: Statistic) -> Datum {
        use Statistic as S;
        let Self { count, x, y, xx, yy, xy } = *self;
        let least = match statistic {
            S::RegrCount => return Datum::Int(count as i64),
            S::VarSamp | S::StddevSamp | S::CovarSamp => 2.0,
            _ => 1.0,
        };
        let is_vertical = matches!(statistic, S::RegrIntercept | S::RegrSlope | S::RegrR2) && xx == 0.0;
        let is_flat = statistic == S::Corr && (xx == 0.0 || yy == 0.0);
        if count < least || is_vertical || is_flat {
            return Datum::Null;
        }
        Datum::Double(match statistic {
            S::VarPop => xx / count,
            S::VarSamp => xx / (count - 1.0),
            S::StddevPop => (xx / count).sqrt(),
            S::StddevSamp => (xx / (count - 1.0)).sqrt(),
            S::Corr => xy / (xx * yy).sqrt(),
            S::CovarPop => xy / count,
            S::CovarSamp => xy / (count - 1.0),
            S::RegrAvgX => x / count,
            S::RegrAvgY => y / count,
            S::RegrIntercept => (y - x * xy / xx) / count,
            S::RegrR2 if yy == 0.0 => 1.0,
            S::RegrR2 => (xy * xy) / (xx * yy),
            S::RegrSlope => xy / xx,
            S::RegrSxx => xx,
            S::RegrSxy => xy,
            S::RegrSyy => yy,
            S::RegrCount => count,
        })
    }
}

/// Returns a variance or standard deviation of exact numbers, from their number, sum, and sum of squares.
pub(crate) fn of_numerics(
    statistic: Statistic,
    count: i64,
    [sum, squares]: [&Numeric; 2],
    arena: &mut Arena,
) -> Result<Datum, Failure> {
    let is_sample = matches!(statistic, Statistic::VarSamp | Statistic::StddevSamp);
    if count <= i64::from(is_sample) {
        return Ok(Datum::Null);
    }
    if !sum.is_finite() {
        return Ok(arena.push_numeric(Numeric::NaN));
    }
    let number = Numeric::from(count);
    let spread = squares.times(&number)?.minus(&sum.times(sum)?)?;
    if spread.sign().is_le() {
        return Ok(arena.push_numeric(0));
    }
    let pairs = number.times(&Numeric::from(count - i64::from(is_sample)))?;
    let variance = spread.over(&pairs)?;
    let result = match statistic {
        Statistic::StddevPop | Statistic::StddevSamp => square_root_to(&variance, variance.scale() as i32)?,
        _ => variance,
    };
    Ok(arena.push_numeric(result))
}
