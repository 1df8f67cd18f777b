//! `to_char` of numbers: text by a template.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", table 9.28.

use crate::SqlError;
use catalog::Decimal;

/// What a template is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A digit, which is left out in front of the number.
    Nine,
    /// A digit, always.
    Zero,
    Comma,
    Point,
    /// Sign where it stands: `S`, `SG`, `MI`, `PL`.
    Sign(Sign),
    Dollar,
    Other(char),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Anchored,
    Always,
    Minus,
    Plus,
}

struct Template {
    parts: Vec<Part>,
    fills: bool,
    brackets: bool,
}

fn parse(template: &str) -> Result<Template, SqlError> {
    let (mut parts, mut fills, mut brackets) = (Vec::new(), true, false);
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let two = rest.get(..2).unwrap_or_default().to_uppercase();
        let (part, length) = match two.as_str() {
            "FM" => {
                fills = false;
                (None, 2)
            }
            "PR" => {
                brackets = true;
                (None, 2)
            }
            "MI" => (Some(Part::Sign(Sign::Minus)), 2),
            "PL" => (Some(Part::Sign(Sign::Plus)), 2),
            "SG" => (Some(Part::Sign(Sign::Always)), 2),
            "TH" | "RN" | "EE" => {
                let message = format!("the pattern {two} of to_char is not supported");
                return Err(SqlError::new("0A000", message));
            }
            _ => {
                let part = match first {
                    '9' => Part::Nine,
                    '0' => Part::Zero,
                    ',' | 'G' | 'g' => Part::Comma,
                    '.' | 'D' | 'd' => Part::Point,
                    'S' | 's' => Part::Sign(Sign::Anchored),
                    '$' | 'L' | 'l' => Part::Dollar,
                    '"' => {
                        let quoted = &rest[1..];
                        let end = quoted.find('"').unwrap_or(quoted.len());
                        parts.extend(quoted[..end].chars().map(Part::Other));
                        rest = quoted.get(end + 1..).unwrap_or_default();
                        continue;
                    }
                    'V' | 'v' | 'B' | 'b' => {
                        let message = format!("the pattern {first} of to_char is not supported");
                        return Err(SqlError::new("0A000", message));
                    }
                    other => Part::Other(other),
                };
                (Some(part), first.len_utf8())
            }
        };
        parts.extend(part);
        rest = &rest[length..];
    }
    if parts.iter().filter(|part| **part == Part::Point).count() > 1 {
        return Err(SqlError::new("42601", "multiple decimal points"));
    }
    Ok(Template { parts, fills, brackets })
}

/// `to_char` of a number.
pub(crate) fn to_text(value: Decimal, template: &str) -> Result<String, SqlError> {
    let Template { parts, fills, brackets } = parse(template)?;
    let point = parts.iter().position(|part| *part == Part::Point).unwrap_or(parts.len());
    let is_digit = |part: &&Part| matches!(part, Part::Nine | Part::Zero);
    let whole = parts[..point].iter().filter(is_digit).count();
    let decimals = parts[point..].iter().filter(is_digit).count();
    let scale = u8::try_from(decimals).unwrap_or(u8::MAX);
    let rounded = value.rescale(scale).map_err(|error| SqlError::new("22003", error.to_string()))?;
    let is_negative = rounded.mantissa < 0;
    let digits = format!("{:0>width$}", rounded.mantissa.unsigned_abs(), width = decimals + 1);
    let (before, after) = digits.split_at(digits.len() - decimals);
    let before = before.trim_start_matches('0');
    let overflows = before.len() > whole;
    // The first place that shows a digit: that of the number, or a zero before it.
    let first_zero = parts[..point].iter().filter(is_digit).position(|part| *part == Part::Zero);
    let own = whole - before.len().min(whole);
    let mut shown_from = first_zero.unwrap_or(whole).min(own);
    if before.is_empty() && decimals == 0 && first_zero.is_none() {
        // A zero alone is shown.
        shown_from = whole.saturating_sub(1);
    }
    // A sign in a place of its own; PL leaves that of negative numbers where it is.
    let anchors_sign = parts.iter().any(|part| matches!(part, Part::Sign(own) if *own != Sign::Plus));
    let sign_is_last = parts.iter().rposition(|part| matches!(part, Part::Sign(Sign::Anchored)))
        > parts.iter().position(|part| matches!(part, Part::Nine | Part::Zero));
    let (mut out, mut place, mut seen_sign) = (String::new(), 0usize, false);
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
        } else if !sign_is_last && parts.contains(&Part::Sign(Sign::Anchored)) {
            out.push(if is_negative { '-' } else { '+' });
        }
    };
    let mut fraction = after.chars();
    let mut last_shown = usize::MAX;
    if !fills && !overflows {
        // Without filling, zeros at the end of the fraction go, but for those that are asked for.
        let places: Vec<Part> = parts[point..].iter().filter(is_digit).copied().collect();
        let wanted = places.iter().rposition(|part| *part == Part::Zero).map_or(0, |at| at + 1);
        let used = after.trim_end_matches('0').len();
        last_shown = wanted.max(used);
        if last_shown == 0 && before.is_empty() {
            // A zero alone is shown, and not a point alone.
            shown_from = shown_from.min(whole.saturating_sub(1));
        }
    }
    let mut decimal = 0;
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Nine | Part::Zero if index < point => {
                if place < shown_from {
                    if fills {
                        out.push(' ');
                    }
                } else {
                    sign_before(&mut out, &mut seen_sign);
                    if overflows {
                        out.push('#');
                    } else {
                        let digit = place.checked_sub(own).and_then(|at| before.chars().nth(at));
                        out.push(digit.unwrap_or('0'));
                    }
                }
                place += 1;
            }
            Part::Nine | Part::Zero => {
                let digit = fraction.next().unwrap_or('0');
                if decimal < last_shown {
                    out.push(if overflows { '#' } else { digit });
                }
                decimal += 1;
            }
            Part::Comma if place <= shown_from && index < point => {
                if fills {
                    out.push(' ');
                }
            }
            Part::Comma => out.push(','),
            Part::Point => {
                sign_before(&mut out, &mut seen_sign);
                out.push('.');
            }
            Part::Sign(Sign::Anchored) if sign_is_last => out.push(if is_negative { '-' } else { '+' }),
            Part::Sign(Sign::Anchored) => {}
            Part::Sign(Sign::Always) => out.push(if is_negative { '-' } else { '+' }),
            Part::Sign(Sign::Minus) if is_negative => out.push('-'),
            Part::Sign(Sign::Plus) if !is_negative => out.push('+'),
            Part::Sign(_) => {
                if fills {
                    out.push(' ');
                }
            }
            Part::Dollar => out.push('$'),
            Part::Other(own) => out.push(*own),
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
