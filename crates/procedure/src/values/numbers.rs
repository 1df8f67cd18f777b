//! `to_char` of numbers: formats a number by a template.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", table 9.28.

use crate::SqlError;
use catalog::Numeric;

/// A pattern of a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    /// `9`: a digit; a leading zero is not shown.
    Nine,
    /// `0`: a digit; a leading zero is shown.
    Zero,
    Comma,
    Point,
    /// `S`, `SG`, `MI`, `PL`: a sign at this position.
    Sign(Sign),
    Dollar,
    Literal(char),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Anchored,
    Always,
    Minus,
    Plus,
}

struct Template {
    patterns: Vec<Pattern>,
    fills: bool,
    brackets: bool,
}

fn parse(template: &str) -> Result<Template, SqlError> {
    let (mut patterns, mut fills, mut brackets) = (Vec::new(), true, false);
    let mut remaining = template;
    while let Some(first) = remaining.chars().next() {
        let two = remaining.get(..2).unwrap_or_default().to_uppercase();
        let (pattern, length) = match two.as_str() {
            "FM" => {
                fills = false;
                (None, 2)
            }
            "PR" => {
                brackets = true;
                (None, 2)
            }
            "MI" => (Some(Pattern::Sign(Sign::Minus)), 2),
            "PL" => (Some(Pattern::Sign(Sign::Plus)), 2),
            "SG" => (Some(Pattern::Sign(Sign::Always)), 2),
            "TH" | "RN" | "EE" => {
                let message = format!("pattern \"{two}\" of to_char is not supported");
                return Err(SqlError::new("0A000", message));
            }
            _ => {
                let pattern = match first {
                    '9' => Pattern::Nine,
                    '0' => Pattern::Zero,
                    ',' | 'G' | 'g' => Pattern::Comma,
                    '.' | 'D' | 'd' => Pattern::Point,
                    'S' | 's' => Pattern::Sign(Sign::Anchored),
                    '$' => Pattern::Dollar,
                    // The locale "C" has no symbol of a currency.
                    'L' | 'l' => Pattern::Literal(' '),
                    '"' => {
                        let quoted = &remaining[1..];
                        let end = quoted.find('"').unwrap_or(quoted.len());
                        patterns.extend(quoted[..end].chars().map(Pattern::Literal));
                        remaining = quoted.get(end + 1..).unwrap_or_default();
                        continue;
                    }
                    // As in PostgreSQL, `C` stands for nothing.
                    'C' | 'c' => {
                        remaining = &remaining[1..];
                        continue;
                    }
                    'V' | 'v' | 'B' | 'b' => {
                        let message = format!("pattern \"{first}\" of to_char is not supported");
                        return Err(SqlError::new("0A000", message));
                    }
                    literal => Pattern::Literal(literal),
                };
                (Some(pattern), first.len_utf8())
            }
        };
        patterns.extend(pattern);
        remaining = &remaining[length..];
    }
    if patterns.iter().filter(|pattern| **pattern == Pattern::Point).count() > 1 {
        return Err(SqlError::new("42601", "multiple decimal points"));
    }
    Ok(Template { patterns, fills, brackets })
}

/// Returns whether a number is negative once it is rounded to digits after the point, and these digits and
/// those before the point; the letters of NaN or an infinity.
fn digits_of(value: &Numeric, decimals: usize) -> (bool, String) {
    let Some(parts) = value.parts() else {
        return (value.sign().is_lt(), value.magnitude().to_string());
    };
    let rounded = parts.mantissa_at(i32::try_from(decimals).unwrap_or(i32::MAX));
    let digits = format!("{:0>width$}", rounded.magnitude().to_string(), width = decimals + 1);
    (rounded.sign() == num_bigint::Sign::Minus, digits)
}

/// Evaluates `to_char` of a number.
pub(crate) fn to_text(value: &Numeric, template: &str) -> Result<String, SqlError> {
    let Template { patterns, fills, brackets } = parse(template)?;
    let point = patterns.iter().position(|pattern| *pattern == Pattern::Point).unwrap_or(patterns.len());
    let is_digit = |pattern: &&Pattern| matches!(pattern, Pattern::Nine | Pattern::Zero);
    let whole = patterns[..point].iter().filter(is_digit).count();
    let decimals = patterns[point..].iter().filter(is_digit).count();
    let (is_negative, digits) = digits_of(value, decimals);
    let (before, after) = digits.split_at(digits.len() - if value.is_finite() { decimals } else { 0 });
    let before = before.trim_start_matches('0');
    let overflows = before.len() > whole;
    // As in PostgreSQL, NaN and the infinities have letters for digits, and neither point nor fraction.
    let has_fraction = value.is_finite() || overflows;
    // The first digit pattern that is shown: that of the number's first digit, or a `0` before it.
    let first_zero = patterns[..point].iter().filter(is_digit).position(|pattern| *pattern == Pattern::Zero);
    let first_digit = whole - before.len().min(whole);
    let mut shown_from = first_zero.unwrap_or(whole).min(first_digit);
    if before.is_empty() && decimals == 0 && first_zero.is_none() {
        // A number without digits is shown as one zero.
        shown_from = whole.saturating_sub(1);
    }
    // A sign pattern takes the sign away from the number, but PL does not take the minus.
    let takes_sign = |pattern: &Pattern| matches!(pattern, Pattern::Sign(sign) if *sign != Sign::Plus);
    let anchors_sign = patterns.iter().any(takes_sign);
    let sign_is_last = patterns.iter().rposition(|pattern| matches!(pattern, Pattern::Sign(Sign::Anchored)))
        > patterns.iter().position(|pattern| matches!(pattern, Pattern::Nine | Pattern::Zero));
    let (mut out, mut digit_index, mut seen_sign) = (String::new(), 0usize, false);
    let sign_before = |out: &mut String, seen: &mut bool| {
        if std::mem::replace(seen, true) {
            return;
        }
        if brackets {
            if is_negative {
                out.push('<');
            } else if fills {
                out.push(' ');
            }
        } else if !anchors_sign {
            if is_negative {
                out.push('-');
            } else if fills {
                out.push(' ');
            }
        } else if !sign_is_last && patterns.contains(&Pattern::Sign(Sign::Anchored)) {
            out.push(if is_negative { '-' } else { '+' });
        }
    };
    let mut fraction = after.chars();
    let mut last_shown = usize::MAX;
    if !fills && !overflows {
        // FM omits zeros at the end of the fraction, but not those up to the last `0` of the template.
        let places: Vec<Pattern> = patterns[point..].iter().filter(is_digit).copied().collect();
        let wanted = places.iter().rposition(|pattern| *pattern == Pattern::Zero).map_or(0, |at| at + 1);
        let used = after.trim_end_matches('0').len();
        last_shown = wanted.max(used);
        if last_shown == 0 && before.is_empty() {
            // Shows "0." instead of a point alone.
            shown_from = shown_from.min(whole.saturating_sub(1));
        }
    }
    let mut decimal = 0;
    for (index, pattern) in patterns.iter().enumerate() {
        match pattern {
            Pattern::Nine | Pattern::Zero if index < point => {
                if digit_index < shown_from {
                    if fills {
                        out.push(' ');
                    }
                } else {
                    sign_before(&mut out, &mut seen_sign);
                    if overflows {
                        out.push('#');
                    } else {
                        let digit =
                            digit_index.checked_sub(first_digit).and_then(|at| before.chars().nth(at));
                        out.push(digit.unwrap_or('0'));
                    }
                }
                digit_index += 1;
            }
            Pattern::Nine | Pattern::Zero | Pattern::Point if index >= point && !has_fraction => {}
            Pattern::Nine | Pattern::Zero => {
                let digit = fraction.next().unwrap_or('0');
                if decimal < last_shown {
                    out.push(if overflows { '#' } else { digit });
                }
                decimal += 1;
            }
            Pattern::Comma if digit_index <= shown_from && index < point => {
                if fills {
                    out.push(' ');
                }
            }
            Pattern::Comma => out.push(','),
            Pattern::Point => {
                sign_before(&mut out, &mut seen_sign);
                out.push('.');
            }
            Pattern::Sign(Sign::Anchored) if sign_is_last => out.push(if is_negative { '-' } else { '+' }),
            Pattern::Sign(Sign::Anchored) => {}
            Pattern::Sign(Sign::Always) => out.push(if is_negative { '-' } else { '+' }),
            Pattern::Sign(Sign::Minus) if is_negative => out.push('-'),
            Pattern::Sign(Sign::Plus) if !is_negative => out.push('+'),
            Pattern::Sign(_) => {
                if fills {
                    out.push(' ');
                }
            }
            Pattern::Dollar => out.push('$'),
            Pattern::Literal(character) => out.push(*character),
        }
    }
    if brackets {
        if is_negative {
            out.push('>');
        } else if fills {
            out.push(' ');
        }
    }
    Ok(out)
}
