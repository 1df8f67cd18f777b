//! Conversions between types, chosen when an expression is bound.

use catalog::{
    Arena, Datum, Interval, MICROSECONDS_PER_DAY, Numeric, ScalarType, SessionZone, TIMESTAMP_AFTER_ALL,
    TIMESTAMP_BEFORE_ALL, Value, ValueError, date_of, datum_from_value, double_datum, is_finite_timestamp,
    local_of, midnight_of, output_text, real_datum, rounded_timestamp, timestamp_plus, utc_of,
};

/// One conversion. NULL always converts to NULL.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Cast {
    /// Both types represent the value in the same way.
    Same,
    /// To an integer type with these bounds.
    Range {
        /// The target.
        to: ScalarType,
        /// Its least value.
        least: i64,
        /// Its greatest value.
        most: i64,
    },
    /// To a narrower integer type, as a key to look up. A value out of its range becomes NULL, because no row
    /// has it.
    Key {
        /// Least value of the key's type.
        least: i64,
        /// Greatest value of the key's type.
        most: i64,
    },
    /// Between scaled integers.
    Rescale {
        /// The factor.
        multiply: i64,
        /// The divisor; the quotient is rounded half away from zero.
        divide: i64,
        /// The magnitude of the result must be below this: a power of ten.
        limit: i64,
        /// Digits after the point of the result.
        scale: u8,
    },
    /// From an exact type (integer or decimal) to a decimal type.
    Decimal {
        /// Digits after the point of a scaled integer.
        from_scale: u8,
        /// The target.
        to: ScalarType,
    },
    /// From an exact type to an integer type.
    DecimalToInt {
        /// Digits after the point of a scaled integer.
        from_scale: u8,
        /// The target.
        to: ScalarType,
    },
    /// From an exact type to a double.
    ToDouble {
        /// Digits after the point of a scaled integer.
        from_scale: u8,
    },
    /// From a double to an integer type, rounded half to even.
    DoubleToInt {
        /// The target.
        to: ScalarType,
    },
    /// From a double to a decimal type.
    DoubleToDecimal {
        /// The target.
        to: ScalarType,
    },
    /// To a text type with a maximum length.
    Limit {
        /// The target.
        to: ScalarType,
        /// Maximum number of characters.
        characters: u32,
        /// Whether a longer text is cut (explicit cast) or refused.
        cut: bool,
    },
    /// Whether an integer is not 0.
    IntegerToBoolean,
    /// From an exact number to a REAL.
    ToReal {
        /// Digits after the point of the operand, if it is a scaled integer.
        from_scale: u8,
    },
    /// From a double to the nearest REAL.
    DoubleToReal,
    /// From a REAL to a decimal.
    RealToDecimal {
        /// The decimal type.
        to: ScalarType,
    },
    /// From a date to the timestamp of its midnight.
    DateToTimestamp,
    /// The time of day of a timestamp; NULL of an infinite one.
    TimestampToTime,
    /// The time of day of an interval.
    IntervalToTime,
    /// The interval from midnight to a time.
    TimeToInterval,
    /// To a timestamp of lower precision, rounded.
    RoundTimestamp {
        /// Digits after the second.
        precision: u8,
    },
    /// From a timestamp to its date.
    TimestampToDate,
    /// Between a timestamp with a zone and a local time, by the zone of the session.
    InZone(ZonedCast),
    /// From text, parsed as input of the type.
    FromText(ScalarType),
    /// From JSON in its normal form, which must be a number, or a boolean, as the target.
    OfJson(ScalarType),
    /// To text, formatted as output of the type.
    ToText(ScalarType),
}

/// A conversion between a timestamp with a zone and a local time. Its result depends on the zone of the
/// session, which the arena holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ZonedCast {
    /// From a timestamp to one with a zone.
    OfTimestamp {
        /// Digits after the second.
        precision: u8,
    },
    /// From a date to its midnight.
    OfDate,
    /// To a timestamp without a zone.
    ToTimestamp {
        /// Digits after the second.
        precision: u8,
    },
    /// To the date.
    ToDate,
    /// To the time of day; NULL of an infinite timestamp.
    ToTime,
    /// To a local time above, or below, all local times that lie before, or after, the timestamp. Local times
    /// do not grow with time where a zone changes its offset.
    ToBound {
        /// Whether the result is above them.
        is_upper: bool,
    },
}

/// Microseconds by which a bound of local times is wider than the local time of its timestamp: no zone has
/// skipped or repeated as much.
const WIDER_US: i64 = 2 * MICROSECONDS_PER_DAY;

/// Returns a bound of the local times that lie before or after a timestamp.
fn bound_of(us: i64, is_upper: bool, zone: Option<&SessionZone>) -> i64 {
    if zone.is_none() || !is_finite_timestamp(us) {
        return us;
    }
    let (wider, beyond) = match is_upper {
        true => (WIDER_US, TIMESTAMP_AFTER_ALL),
        false => (-WIDER_US, TIMESTAMP_BEFORE_ALL),
    };
    let local = local_of(zone, us).and_then(|local| timestamp_plus(local, wider));
    local.unwrap_or(beyond)
}

/// Returns the time of day of a local time; NULL of an infinite one.
fn time_of(us: i64) -> Datum {
    match is_finite_timestamp(us) {
        true => Datum::Int(us.rem_euclid(MICROSECONDS_PER_DAY)),
        false => Datum::Null,
    }
}

impl ZonedCast {
    /// Returns the conversion of one type to another; `None` if the zone of the session does not matter.
    fn between(from: ScalarType, to: ScalarType) -> Option<Self> {
        let precision = to.timestamp_precision().unwrap_or(6);
        match (from.is_zoned(), to.is_zoned()) {
            (true, true) | (false, false) => None,
            (true, _) if to.is_timestamp() => Some(Self::ToTimestamp { precision }),
            (true, _) if to == ScalarType::Date => Some(Self::ToDate),
            (true, _) if to == ScalarType::Time => Some(Self::ToTime),
            (_, true) if from.is_timestamp() => Some(Self::OfTimestamp { precision }),
            (_, true) if from == ScalarType::Date => Some(Self::OfDate),
            _ => None,
        }
    }

    fn apply(self, value: i64, zone: Option<&SessionZone>) -> Result<Datum, ValueError> {
        Ok(match self {
            Self::OfTimestamp { precision } => {
                Datum::Int(rounded_timestamp(utc_of(zone, value)?, precision)?)
            }
            Self::OfDate => Datum::Int(utc_of(zone, midnight_of(value)?)?),
            Self::ToTimestamp { precision } => {
                Datum::Int(rounded_timestamp(local_of(zone, value)?, precision)?)
            }
            Self::ToDate => Datum::Int(date_of(local_of(zone, value)?).into()),
            Self::ToTime => time_of(local_of(zone, value)?),
            Self::ToBound { is_upper } => Datum::Int(bound_of(value, is_upper, zone)),
        })
    }
}

/// Returns the least and the greatest value of an integer type.
pub(crate) fn bounds(ty: ScalarType) -> (i64, i64) {
    match ty {
        ScalarType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
        ScalarType::Integer => (i32::MIN.into(), i32::MAX.into()),
        ScalarType::Oid => (0, u32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns a JSON number or boolean as a value of a type.
fn of_json(json: &str, to: ScalarType, arena: &mut Arena) -> Result<Datum, ValueError> {
    let kind = match json.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b'n') => "null",
        Some(b't' | b'f') if to == ScalarType::Boolean => return Ok(Datum::boolean(json == "true")),
        Some(b't' | b'f') => "boolean",
        _ if to == ScalarType::Boolean => "numeric",
        _ => {
            if to.is_float() {
                return datum_from_value(&Value::Text(json.into()), to.into(), arena);
            }
            let number: Numeric = json.parse().map_err(|error| match to.is_integer() {
                true => ValueError::out_of_range(to),
                false => ValueError::from(error),
            })?;
            return datum_from_value(&Value::Numeric(number), to.into(), arena);
        }
    };
    Err(ValueError::new("22023", format!("cannot cast jsonb {kind} to type {}", to.base())))
}

/// Returns the decimal of some significant digits, without zeros at its end.
fn decimal_of(text: &str, to: ScalarType, arena: &mut Arena) -> Result<Datum, ValueError> {
    let parsed: Numeric = text.parse().map_err(ValueError::from)?;
    datum_from_value(&Value::Numeric(parsed.trimmed()), to.into(), arena)
}

impl Cast {
    /// Returns the conversion of one type to another; `None` if there is none. Only an explicit cast cuts
    /// long texts, converts text to other types, and converts between BOOLEAN and INTEGER.
    pub fn between(from: ScalarType, to: ScalarType, explicit: bool) -> Option<Self> {
        use ScalarType as T;
        if from == to {
            return Some(Self::Same);
        }
        let from_scale = from.fixed_scale().unwrap_or(0);
        Some(match (from, to) {
            (T::SmallInt, T::Integer | T::BigInt) | (T::Integer | T::Oid, T::BigInt) => Self::Same,
            (T::SmallInt | T::Integer | T::BigInt, T::SmallInt | T::Integer | T::BigInt | T::Oid)
            | (T::Oid, T::Integer) => {
                let (least, most) = bounds(to);
                Self::Range { to, least, most }
            }
            (_, T::Numeric { precision, scale })
                if to.is_machine_numeric() && (from.is_machine_numeric() || from.is_integer()) =>
            {
                let power = |digits: u8| 10i64.pow(digits.into());
                Self::Rescale {
                    multiply: power(scale.saturating_sub(from_scale)),
                    divide: power(from_scale.saturating_sub(scale)),
                    limit: power(precision),
                    scale,
                }
            }
            _ if to.is_numeric() && from.is_exact() => Self::Decimal { from_scale, to },
            _ if from.is_numeric() && to.is_integer() => Self::DecimalToInt { from_scale, to },
            (_, T::Double) if from.is_exact() => Self::ToDouble { from_scale },
            (_, T::Real) if from.is_exact() => Self::ToReal { from_scale },
            (T::Real, T::Double) => Self::Same,
            (T::Double, T::Real) => Self::DoubleToReal,
            (T::Real | T::Double, _) if to.is_integer() => Self::DoubleToInt { to },
            (T::Real, _) if to.is_numeric() => Self::RealToDecimal { to },
            (T::Double, _) if to.is_numeric() => Self::DoubleToDecimal { to },
            (_, T::Text) if from.is_text() => Self::Same,
            (_, T::Varchar(characters) | T::Char(characters)) if from.is_text() => match from {
                T::Varchar(length) | T::Char(length)
                    if length <= characters && matches!(to, T::Varchar(_)) =>
                {
                    Self::Same
                }
                _ => Self::Limit { to, characters, cut: explicit },
            },
            _ if let Some(cast) = ZonedCast::between(from, to) => Self::InZone(cast),
            (_, T::ShortTimestamp { precision, .. })
                if from.timestamp_precision().is_some_and(|digits| digits > precision) =>
            {
                Self::RoundTimestamp { precision }
            }
            _ if from.is_timestamp() && to.is_timestamp() => Self::Same,
            (T::Date, _) if to.is_timestamp() => Self::DateToTimestamp,
            (_, T::Date) if from.is_timestamp() => Self::TimestampToDate,
            (_, T::Time) if from.is_timestamp() => Self::TimestampToTime,
            (T::Interval, T::Time) => Self::IntervalToTime,
            (T::Time, T::Interval) => Self::TimeToInterval,
            (T::Boolean, T::Integer) | (T::Integer, T::Boolean) if !explicit => return None,
            (T::Boolean, T::Integer) => Self::Same,
            (T::Integer, T::Boolean) => Self::IntegerToBoolean,
            (T::Jsonb, T::Json) => Self::Same,
            (T::Json, T::Jsonb) => Self::FromText(to),
            (T::Jsonb, _) if explicit && (to.is_number() || to == T::Boolean) => Self::OfJson(to),
            (_, T::Text) => Self::ToText(from),
            (T::Text | T::Varchar(_) | T::Char(_), _) if explicit => Self::FromText(to),
            _ => return None,
        })
    }

    /// Returns whether the result depends on the zone of the session.
    pub fn depends_on_zone(self) -> bool {
        match self {
            Self::InZone(_) => true,
            Self::FromText(ty) | Self::ToText(ty) => ty.is_zoned(),
            _ => false,
        }
    }

    /// Returns the conversion of an integer to the type of a key that is compared with it.
    pub fn to_key(to: ScalarType) -> Self {
        let (least, most) = bounds(to);
        Self::Key { least, most }
    }

    /// Converts a value.
    ///
    /// # Errors
    /// The value is out of range for the target type, too long for it, or malformed text.
    #[inline]
    pub fn apply(self, datum: Datum, arena: &mut Arena) -> Result<Datum, ValueError> {
        match (self, datum) {
            (_, Datum::Null) => Ok(Datum::Null),
            (Self::Same, _) => Ok(datum),
            (Self::Range { to, least, most }, Datum::Int(value)) => {
                if (least..=most).contains(&value) {
                    Ok(datum)
                } else {
                    Err(ValueError::out_of_range(to))
                }
            }
            (Self::Key { least, most }, Datum::Int(value)) => {
                Ok(if (least..=most).contains(&value) { datum } else { Datum::Null })
            }
            (Self::Rescale { multiply, divide: 1, limit, scale }, Datum::Int(value)) => {
                match value.checked_mul(multiply) {
                    Some(product) if -limit < product && product < limit => Ok(Datum::Int(product)),
                    _ => Err(ValueError::field_overflow(limit.ilog10().into(), scale.into())),
                }
            }
            (Self::Rescale { multiply, divide, limit, scale }, Datum::Int(value)) => {
                let product = i128::from(value) * i128::from(multiply);
                let half = i128::from(divide) / 2 * if product < 0 { -1 } else { 1 };
                let rounded = (product + half) / i128::from(divide);
                if rounded.abs() < i128::from(limit) {
                    Ok(Datum::Int(rounded as i64))
                } else {
                    Err(ValueError::field_overflow(limit.ilog10().into(), scale.into()))
                }
            }
            _ => self.apply_uncommon(datum, arena),
        }
    }

    /// Applies a conversion that is too rare to be inlined.
    fn apply_uncommon(self, datum: Datum, arena: &mut Arena) -> Result<Datum, ValueError> {
        let decimal = |arena: &Arena, scale| arena.numeric(datum, scale).unwrap_or(Numeric::from(0));
        match (self, datum) {
            (Self::Decimal { from_scale, to }, _) => {
                let value = decimal(arena, from_scale);
                datum_from_value(&Value::Numeric(value), to.into(), arena)
            }
            (Self::DecimalToInt { from_scale, to }, _) => {
                let value = decimal(arena, from_scale);
                datum_from_value(&Value::Numeric(value), to.into(), arena)
            }
            (Self::ToDouble { from_scale: 0 }, Datum::Int(value)) => Ok(Datum::Double(value as f64)),
            (Self::ToDouble { from_scale }, _) => double_datum(&decimal(arena, from_scale)),
            (Self::DoubleToInt { to }, Datum::Double(value)) => {
                let (least, most) = bounds(to);
                let rounded = value.round_ties_even();
                // The upper bound is a power of two, which a double represents exactly.
                if rounded >= least as f64 && rounded < most as f64 + 1.0 {
                    Ok(Datum::Int(rounded as i64))
                } else {
                    Err(ValueError::out_of_range(to))
                }
            }
            (Self::DoubleToDecimal { to }, Datum::Double(value)) => {
                // PostgreSQL converts by way of 15 significant digits.
                decimal_of(&format!("{value:.14e}"), to, arena)
            }
            (Self::RealToDecimal { to }, Datum::Double(value)) => {
                decimal_of(&format!("{value:.5e}"), to, arena)
            }
            (Self::ToReal { from_scale: 0 }, Datum::Int(value)) => Ok(Datum::Double((value as f32).into())),
            (Self::ToReal { from_scale }, _) => {
                let value = decimal(arena, from_scale);
                datum_from_value(&Value::Numeric(value), ScalarType::Real.into(), arena)
            }
            (Self::DoubleToReal, Datum::Double(value)) => real_datum(value),
            (Self::Limit { to, characters, cut }, Datum::Bytes(span)) => {
                let bytes = arena.bytes(span);
                let blank = matches!(to, ScalarType::Char(_));
                let kept = |bytes: &[u8]| {
                    let blanks = bytes.iter().rev().take_while(|byte| **byte == b' ').count();
                    bytes.len() - if blank { blanks } else { 0 }
                };
                if bytes.len() <= characters as usize {
                    return Ok(arena.subspan(span, 0, kept(bytes)));
                }
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                match text.char_indices().nth(characters as usize) {
                    None => Ok(arena.subspan(span, 0, kept(bytes))),
                    // Blanks beyond the limit are cut without an error, as the standard says.
                    Some((end, _)) if cut || bytes[end..].iter().all(|byte| *byte == b' ') => {
                        Ok(arena.subspan(span, 0, kept(&bytes[..end])))
                    }
                    Some(_) => Err(ValueError::too_long(to)),
                }
            }
            (Self::IntegerToBoolean, Datum::Int(value)) => Ok(Datum::boolean(value != 0)),
            (Self::DateToTimestamp, Datum::Int(days)) => Ok(Datum::Int(midnight_of(days)?)),
            (Self::RoundTimestamp { precision }, Datum::Int(us)) => {
                Ok(Datum::Int(rounded_timestamp(us, precision)?))
            }
            (Self::TimestampToTime, Datum::Int(us)) => Ok(time_of(us)),
            (Self::InZone(cast), Datum::Int(value)) => cast.apply(value, arena.zone()),
            (Self::IntervalToTime, Datum::Bytes(span)) => {
                let interval = Interval::from_bytes(arena.bytes(span));
                Ok(Datum::Int(interval.us.rem_euclid(MICROSECONDS_PER_DAY)))
            }
            (Self::TimeToInterval, Datum::Int(us)) => {
                Ok(arena.push_bytes(&Interval { us, ..Interval::default() }.to_bytes()))
            }
            (Self::TimestampToDate, Datum::Int(us)) => Ok(Datum::Int(date_of(us).into())),
            (Self::FromText(to), Datum::Bytes(span)) => {
                let text = String::from_utf8_lossy(arena.bytes(span)).into_owned();
                datum_from_value(&Value::Text(text), to.into(), arena)
            }
            (Self::OfJson(to), Datum::Bytes(span)) => {
                let json = String::from_utf8_lossy(arena.bytes(span)).into_owned();
                of_json(&json, to, arena)
            }
            (Self::ToText(from), _) => {
                let text = match (from, datum) {
                    (ScalarType::Boolean, Datum::Int(value)) => (value != 0).to_string(),
                    _ => output_text(datum, from.into(), arena),
                };
                Ok(arena.push_bytes(text.as_bytes()))
            }
            _ => unreachable!("{self:?} does not convert {datum:?}"),
        }
    }
}
