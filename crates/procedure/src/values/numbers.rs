//! Templates of `to_char` and `to_number`, and `to_number`: reads a number by a template.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", table 9.28, and `formatting.c`.

use crate::SqlError;
use catalog::Numeric;

/// A pattern of a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
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
pub(super) enum Sign {
    Anchored,
    Always,
    Minus,
    Plus,
}

/// A template.
pub(super) struct Template {
    pub(super) patterns: Vec<Pattern>,
    /// Whether it lacks FM.
    pub(super) fills: bool,
    /// Whether it has PR.
    pub(super) brackets: bool,
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

/// Reads a quoted text of a template, in which a backslash quotes the next character. Returns what follows.
fn quoted<'t>(text: &'t str, patterns: &mut Vec<Pattern>) -> &'t str {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            '"' => break,
            '\\' => characters.next().unwrap_or('\\'),
            other => other,
        };
        patterns.push(Pattern::Literal(literal));
    }
    characters.as_str()
}

/// Reads a template of a function, which errors name.
pub(super) fn parse(template: &str, function: &str) -> Result<Template, SqlError> {
    let (mut patterns, mut fills, mut brackets) = (Vec::new(), true, false);
    let (mut remaining, mut signs) = (template, Signs::default());
    while let Some(first) = remaining.chars().next() {
        let two = remaining.get(..2).unwrap_or_default();
        let is_lower = two.chars().all(|letter| letter.is_ascii_lowercase());
        let two = if is_lower { two.to_uppercase() } else { two.to_owned() };
        let (pattern, length) = match two.as_str() {
            "\\\"" => (Some(Pattern::Literal('"')), 2),
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
            "TH" | "RN" => {
                let message = format!("pattern \"{two}\" of {function} is not supported");
                return Err(SqlError::new("0A000", message));
            }
            _ if ["EEEE", "eeee"].contains(&remaining.get(..4).unwrap_or_default()) => {
                let message = format!("pattern \"EEEE\" of {function} is not supported");
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
                        remaining = quoted(&remaining[1..], &mut patterns);
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
    Ok(Some(catalog::fitted(&value, precision.min(1000) as u16, scale as i16)?))
}
