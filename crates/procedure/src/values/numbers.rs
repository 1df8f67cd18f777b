//! `to_char` and `to_number`: formats and reads a number by a template.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", table 9.28, and `formatting.c`.

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
    /// `L`: the symbol of a currency, which the locale "C" does not have.
    Currency,
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

/// The signs and brackets that a template has had so far.
#[derive(Default)]
struct Signs {
    is_anchored: bool,
    has_plus: bool,
    has_minus: bool,
}

impl Signs {
    /// Notes a pattern, behind PR where `brackets` says so.
    ///
    /// # Errors
    /// `42601`: it cannot be used beside one of those before it.
    fn note(&mut self, pattern: Pattern, brackets: bool) -> Result<(), SqlError> {
        let together = |words: &str| Err(format!("cannot use {words} together"));
        let noted = match pattern {
            Pattern::Nine if brackets => Err("\"9\" must be ahead of \"PR\"".to_owned()),
            Pattern::Zero if brackets => Err("\"0\" must be ahead of \"PR\"".to_owned()),
            Pattern::Sign(Sign::Anchored) if self.is_anchored => Err("cannot use \"S\" twice".to_owned()),
            Pattern::Sign(Sign::Anchored) if self.has_plus || self.has_minus || brackets => {
                together("\"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\"")
            }
            Pattern::Sign(Sign::Minus) if self.is_anchored => together("\"S\" and \"MI\""),
            Pattern::Sign(Sign::Plus) if self.is_anchored => together("\"S\" and \"PL\""),
            Pattern::Sign(Sign::Always) if self.is_anchored => together("\"S\" and \"SG\""),
            _ => Ok(()),
        };
        noted.map_err(|message| SqlError::new("42601", message))?;
        self.is_anchored |= pattern == Pattern::Sign(Sign::Anchored);
        self.has_plus |= matches!(pattern, Pattern::Sign(Sign::Plus | Sign::Always));
        self.has_minus |= matches!(pattern, Pattern::Sign(Sign::Minus | Sign::Always));
        Ok(())
    }

    /// Notes PR.
    ///
    /// # Errors
    /// `42601`: the template has had a sign.
    fn note_brackets(&self) -> Result<(), SqlError> {
        match self.is_anchored || self.has_plus || self.has_minus {
            true => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                Err(SqlError::new("42601", message))
            }
            false => Ok(()),
        }
    }
}

/// Reads a template of a function, which errors name.
fn parse(template: &str, function: &str) -> Result<Template, SqlError> {
    let (mut patterns, mut fills, mut brackets) = (Vec::new(), true, false);
    let (mut remaining, mut signs) = (template, Signs::default());
    while let Some(first) = remaining.chars().next() {
        let two = remaining.get(..2).unwrap_or_default().to_uppercase();
        let (pattern, length) = match two.as_str() {
            "FM" => {
                fills = false;
                (None, 2)
            }
            "PR" => {
                signs.note_brackets()?;
                brackets = true;
                (None, 2)
            }
            "MI" => (Some(Pattern::Sign(Sign::Minus)), 2),
            "PL" => (Some(Pattern::Sign(Sign::Plus)), 2),
            "SG" => (Some(Pattern::Sign(Sign::Always)), 2),
            // As in PostgreSQL, `SP` stands for nothing.
            "SP" => (None, 2),
            "TH" | "RN" | "EE" => {
                let message = format!("pattern \"{two}\" of {function} is not supported");
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
                    'L' | 'l' => Pattern::Currency,
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
                        let message = format!("pattern \"{first}\" of {function} is not supported");
                        return Err(SqlError::new("0A000", message));
                    }
                    literal => Pattern::Literal(literal),
                };
                (Some(pattern), first.len_utf8())
            }
        };
        pattern.map_or(Ok(()), |own| signs.note(own, brackets))?;
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
    let Template { patterns, fills, brackets } = parse(template, "to_char")?;
    let point = patterns.iter().position(|pattern| *pattern == Pattern::Point).unwrap_or(patterns.len());
    let is_digit = |pattern: &&Pattern| matches!(pattern, Pattern::Nine | Pattern::Zero);
    let whole = patterns[..point].iter().filter(is_digit).count();
    let decimals = patterns[point..].iter().filter(is_digit).count();
    let (is_negative, digits) = digits_of(value, decimals);
    let (before, after) = digits.split_at(digits.len() - if value.is_finite() { decimals } else { 0 });
    let before = before.trim_start_matches('0');
    // As in PostgreSQL, a number below 1 has a digit before the point, too.
    let overflows = before.len() > whole || whole == 0;
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
    let anchored = patterns.iter().rposition(|pattern| matches!(pattern, Pattern::Sign(Sign::Anchored)));
    // Without digits it is not shown.
    let first = patterns.iter().position(|pattern| matches!(pattern, Pattern::Nine | Pattern::Zero));
    let sign_is_last = first.is_some_and(|first| anchored > Some(first));
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
            // Behind digits a point is shown if digits follow.
            Pattern::Point if whole > 0 && decimals == 0 && !overflows => {}
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
            Pattern::Currency => out.push(' '),
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

/// What `to_number` has read of a text.
struct Reading<'t> {
    template: &'t Template,
    left: &'t str,
    sign: Option<char>,
    digits: String,
    /// The number of digits behind the point; `None` before the point.
    decimals: Option<usize>,
}

impl Reading<'_> {
    fn next(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn skip(&mut self) {
        let mut chars = self.left.chars();
        chars.next();
        self.left = chars.as_str();
    }

    /// Skips a character that is part of no number.
    fn skip_other(&mut self) {
        if self.next().is_some_and(|next| !"0123456789.,+-".contains(next)) {
            self.skip();
        }
    }

    fn has(&self, wanted: impl Fn(&Pattern) -> bool) -> bool {
        self.template.patterns.iter().any(wanted)
    }

    /// Reads a character for a digit or the point of the template, and a sign at either end of the number.
    fn read_digit(&mut self, is_digit: bool) {
        if self.next() == Some(' ') {
            self.skip();
        }
        if self.sign.is_none() && is_digit && self.digits.is_empty() {
            match self.next() {
                Some('<') if self.template.brackets => self.take_sign('-'),
                Some(sign @ ('-' | '+')) => self.take_sign(sign),
                _ => {}
            }
        }
        let places = self.template.decimals();
        let Some(next) = self.next() else { return };
        let mut is_read = true;
        match (next, self.decimals) {
            ('0'..='9', Some(read)) if read == places => return self.skip(),
            ('0'..='9', read) => {
                self.digits.push(next);
                self.decimals = read.map(|read| read + 1);
            }
            ('.', None) if self.has(|own| *own == Pattern::Point) => {
                self.digits.push('.');
                self.decimals = Some(0);
            }
            _ => is_read = false,
        }
        let anchors = self.has(|own| *own == Pattern::Sign(Sign::Anchored));
        if self.sign.is_none() && self.digits.bytes().any(|byte| byte.is_ascii_digit()) {
            let behind = self.left.chars().nth(1);
            match behind {
                Some(sign @ ('-' | '+')) if anchors && is_read => {
                    self.skip();
                    self.sign = Some(sign);
                }
                _ if !is_read && !anchors && self.has(|own| matches!(own, Pattern::Sign(_))) => {
                    self.sign = Some(next).filter(|sign| matches!(sign, '-' | '+'));
                }
                _ => {}
            }
        }
        self.skip();
    }

    fn take_sign(&mut self, sign: char) {
        self.sign = Some(sign);
        self.skip();
    }
}

impl Template {
    fn places(&self) -> (usize, usize) {
        let point =
            self.patterns.iter().position(|own| *own == Pattern::Point).unwrap_or(self.patterns.len());
        let count =
            |part: &[Pattern]| part.iter().filter(|own| matches!(own, Pattern::Nine | Pattern::Zero)).count();
        (count(&self.patterns[..point]), count(&self.patterns[point..]))
    }

    /// Returns the number of digits behind the point.
    fn decimals(&self) -> usize {
        self.places().1
    }
}

/// Evaluates `to_number`; `None` for an empty template.
pub(crate) fn from_text(text: &str, template: &str) -> Result<Option<Numeric>, SqlError> {
    if template.is_empty() {
        return Ok(None);
    }
    let template = parse(template, "to_number")?;
    let mut reading =
        Reading { template: &template, left: text, sign: None, digits: String::new(), decimals: None };
    for pattern in &template.patterns {
        let Some(next) = reading.next() else { break };
        match pattern {
            Pattern::Nine | Pattern::Zero => reading.read_digit(true),
            Pattern::Point => reading.read_digit(false),
            Pattern::Comma if !template.fills || next != ',' => {}
            Pattern::Comma | Pattern::Dollar | Pattern::Literal(_) => reading.skip(),
            Pattern::Currency => reading.skip_other(),
            // It is read with the first or the last digit.
            Pattern::Sign(Sign::Anchored) => {}
            Pattern::Sign(sign) => match next {
                '-' if *sign != Sign::Plus => reading.take_sign('-'),
                '+' if *sign != Sign::Minus => reading.take_sign('+'),
                _ => reading.skip_other(),
            },
        }
    }
    let Reading { sign, digits, decimals, .. } = reading;
    let digits = digits.trim_end_matches('.');
    let written = format!("{}{digits}", sign.unwrap_or(' '));
    let invalid = || SqlError::new("22P02", format!("invalid input syntax for type numeric: \"{written}\""));
    let value: Numeric = written.trim().parse().map_err(|_| invalid())?;
    let scale = decimals.unwrap_or(0);
    let precision = template.places().0 + scale;
    let fitted = value.fit(precision.min(1000) as u16, scale as i16);
    fitted.map(Some).map_err(|_| {
        let most = precision - scale;
        SqlError::new("22003", "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {}.",
            if most == 0 { "1".to_owned() } else { format!("10^{most}") }
        ))
    })
}
