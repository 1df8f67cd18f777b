//! Numbers and offsets from UTC in the texts of dates and timestamps, and why a text is refused.
//! Source: PostgreSQL 15, `DecodeTimezone`.

/// Why a text is not a date or timestamp; the caller adds the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Syntax,
    Field,
    Displacement,
    Unsupported,
    /// No zone has this name.
    Zone(String),
}

pub(super) type Read<T> = Result<T, Refusal>;

pub(super) fn number_of(text: &str) -> Read<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Syntax);
    }
    text.parse::<i32>().map(i64::from).map_err(|_| Refusal::Field)
}

/// Reads `+HH[:MM[:SS]]` or `+HHMM` as seconds east of UTC: `DecodeTimezone`.
pub(super) fn offset_of(text: &str) -> Read<i64> {
    let (sign, body) = match text.split_at_checked(1) {
        Some(("-", body)) => (-1, body),
        Some(("+", body)) => (1, body),
        _ => return Err(Refusal::Syntax),
    };
    let parts: Vec<&str> = match body.split(':').collect::<Vec<_>>()[..] {
        [digits] if digits.len() > 2 && digits.is_char_boundary(digits.len() - 2) => {
            let (hour, minute) = digits.split_at(digits.len() - 2);
            vec![hour, minute]
        }
        ref parts => parts.to_vec(),
    };
    if parts.len() > 3 {
        return Err(Refusal::Syntax);
    }
    let number = |place: usize| parts.get(place).map_or(Ok(0), |part| number_of(part));
    let (hour, minute, second) = (number(0)?, number(1)?, number(2)?);
    if hour > 15 || minute > 59 || second > 59 {
        return Err(Refusal::Displacement);
    }
    Ok(sign * ((hour * 60 + minute) * 60 + second))
}
