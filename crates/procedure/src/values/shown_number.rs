//! `to_char` of numbers: writes the digits of a number as a template says.
//! Source: PostgreSQL 15, `NUMDesc_prepare`, `NUM_processor` and `NUM_numpart_to_char` in formatting.c.

use super::numbers::{Pattern, Sign, Template, parse};
use crate::SqlError;
use catalog::Numeric;

/// Digits that a double shows at most.
pub(crate) const DOUBLE_DIGITS: usize = 15;
/// Digits that a REAL shows at most.
pub(crate) const REAL_DIGITS: usize = 6;

/// The counts of a template.
#[derive(Default)]
struct Shape {
    /// Digits before the point.
    whole: usize,
    /// Digits behind the point.
    decimals: usize,
    /// The digits before the first `0`; `None` without one before the point.
    zero_start: Option<usize>,
    /// The digits up to the last `0`.
    zero_end: usize,
    has_point: bool,
    /// Where the sign of `S` is.
    anchor: Option<Anchor>,
    has_plus: bool,
    has_minus: bool,
    brackets: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Before,
    Behind,
}

impl Shape {
    fn of(template: &Template) -> Self {
        let mut shape = Self { brackets: template.brackets, ..Self::default() };
        let mut before_sign = 0;
        for pattern in &template.patterns {
            match pattern {
                Pattern::Nine | Pattern::Zero => {
                    let is_zero = *pattern == Pattern::Zero;
                    if is_zero && !shape.has_point {
                        shape.zero_start = shape.zero_start.or(Some(shape.whole));
                    }
                    match shape.has_point {
                        true => shape.decimals += 1,
                        false => shape.whole += 1,
                    }
                    if is_zero {
                        shape.zero_end = shape.whole + shape.decimals;
                    }
                }
                Pattern::Point => shape.has_point = true,
                Pattern::Sign(Sign::Anchored) if !shape.has_point => {
                    shape.anchor = Some(Anchor::Before);
                    before_sign = shape.whole;
                }
                Pattern::Sign(Sign::Anchored) => shape.anchor = Some(Anchor::Behind),
                Pattern::Sign(sign) => {
                    shape.has_plus |= matches!(sign, Sign::Plus | Sign::Always);
                    shape.has_minus |= matches!(sign, Sign::Minus | Sign::Always);
                }
                Pattern::Comma | Pattern::Dollar | Pattern::Currency | Pattern::Literal(_) => {}
            }
        }
        if shape.anchor == Some(Anchor::Before) && shape.whole == before_sign {
            shape.anchor = Some(Anchor::Behind);
        }
        shape
    }
}

/// Evaluates `to_char` of an exact number.
pub(crate) fn exact_to_text(value: &Numeric, template: &str) -> Result<String, SqlError> {
    let template = parse(template, "to_char")?;
    let shape = Shape::of(&template);
    let written = match value.parts() {
        Some(parts) => {
            let decimals = shape.decimals;
            let rounded = parts.mantissa_at(i32::try_from(decimals).unwrap_or(i32::MAX));
            let mut digits = format!("{:0>width$}", rounded.magnitude().to_string(), width = decimals + 1);
            if decimals > 0 {
                digits.insert(digits.len() - decimals, '.');
            }
            let sign = if rounded.sign() == num_bigint::Sign::Minus { "-" } else { "" };
            format!("{sign}{digits}")
        }
        None => value.to_string(),
    };
    Ok(Writer::new(&template, shape, &written).written())
}

/// Evaluates `to_char` of a double or a REAL, which shows at most some digits.
pub(crate) fn float_to_text(value: f64, most: usize, template: &str) -> Result<String, SqlError> {
    let template = parse(template, "to_char")?;
    let mut shape = Shape::of(&template);
    let whole = float_text(value.abs(), 0).len();
    shape.decimals = shape.decimals.min(most.saturating_sub(whole));
    let written = float_text(value, shape.decimals);
    Ok(Writer::new(&template, shape, &written).written())
}

/// Writes a double with decimals, as C's `printf` does.
fn float_text(value: f64, decimals: usize) -> String {
    match value.is_infinite() {
        true if value < 0.0 => "-Infinity".into(),
        true => "Infinity".into(),
        false => format!("{value:.decimals$}"),
    }
}

/// The state of writing a number.
struct Writer<'t> {
    template: &'t Template,
    shape: Shape,
    /// The digits of the number with the point; `#` for those of a number that is too long.
    number: Vec<u8>,
    is_negative: bool,
    /// The position in `number`.
    position: usize,
    /// The digits and points of the template that are written.
    patterns: usize,
    /// The digits of the template before those of the number.
    spaces: usize,
    /// The position in `number` of the last digit that FM shows.
    last: Option<usize>,
    has_sign: bool,
    /// Whether the last digit or point of the template wrote a digit.
    has_digit: bool,
    /// The number of patterns of which the last has a sign behind it.
    count: usize,
    out: String,
}

impl<'t> Writer<'t> {
    fn new(template: &'t Template, mut shape: Shape, written: &str) -> Self {
        let (is_negative, digits) = match written.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, written),
        };
        let whole = digits.find('.').unwrap_or(digits.len());
        let (mut number, mut spaces) = (digits.as_bytes().to_vec(), 0);
        if whole <= shape.whole {
            spaces = shape.whole - whole;
        } else {
            number = vec![b'#'; shape.whole + shape.decimals + 1];
            number[shape.whole] = b'.';
        }
        let has_sign = if shape.has_plus || shape.has_minus {
            shape.has_minus
        } else {
            shape.brackets &= is_negative || template.fills;
            !is_negative && !template.fills && shape.anchor.is_none()
        };
        let last = Self::last_shown(template, &shape, &number, spaces);
        let count = shape.decimals + shape.whole + usize::from(!has_sign && spaces == 0);
        Self {
            template,
            shape,
            number,
            is_negative,
            position: 0,
            patterns: 0,
            spaces,
            last,
            has_sign,
            has_digit: false,
            count,
            out: String::new(),
        }
    }

    fn last_shown(template: &Template, shape: &Shape, number: &[u8], spaces: usize) -> Option<usize> {
        if template.fills || !shape.has_point {
            return None;
        }
        let point = number.iter().position(|byte| *byte == b'.')?;
        let digit = number[point + 1..].iter().rposition(|byte| *byte != b'0');
        let last = digit.map_or(point, |digit| point + 1 + digit);
        // FM keeps the zeros up to the last `0` of the template.
        let zero = match shape.zero_end > spaces {
            true => (number.len() - 1).min(shape.zero_end - spaces),
            false => 0,
        };
        Some(last.max(zero))
    }

    /// Returns the text. As in PostgreSQL, it ends where digits are wanted that the number does not have.
    fn written(mut self) -> String {
        let template = self.template;
        for pattern in &template.patterns {
            match pattern {
                Pattern::Nine | Pattern::Zero | Pattern::Point => self.write_part(*pattern == Pattern::Zero),
                Pattern::Comma if self.has_digit => self.out.push(','),
                Pattern::Comma => self.fill(),
                Pattern::Sign(Sign::Anchored) => {}
                Pattern::Sign(Sign::Always) => self.out.push(if self.is_negative { '-' } else { '+' }),
                Pattern::Sign(Sign::Minus) if self.is_negative => self.out.push('-'),
                Pattern::Sign(Sign::Plus) if !self.is_negative => self.out.push('+'),
                Pattern::Sign(_) => self.fill(),
                Pattern::Dollar => self.out.push('$'),
                Pattern::Currency => self.out.push(' '),
                Pattern::Literal(character) => self.out.push(*character),
            }
        }
        if let Some(end) = self.out.find('\0') {
            self.out.truncate(end);
        }
        self.out
    }

    fn fill(&mut self) {
        if self.template.fills {
            self.out.push(' ');
        }
    }

    /// Returns the byte of the number at the position; 0 behind its end.
    fn next(&self) -> u8 {
        self.number.get(self.position).copied().unwrap_or(0)
    }

    /// Returns whether the number's only digit before the point is a zero that is not shown.
    fn is_hidden_zero(&self) -> bool {
        self.shape.zero_start.is_none()
            && self.position == 0
            && self.next() == b'0'
            && self.shape.decimals != 0
    }

    /// Returns whether FM shows no digit behind the point.
    fn ends_at_point(&self) -> bool {
        self.last.is_some_and(|last| self.number[last] == b'.')
    }

    /// Writes a digit or the point, with the sign before or behind it.
    fn write_part(&mut self, is_zero: bool) {
        self.has_digit = false;
        if !self.has_sign
            && (self.patterns >= self.spaces || self.shape.zero_start == Some(self.patterns))
            && (!self.is_hidden_zero() || self.ends_at_point())
        {
            self.write_sign();
        }
        let is_before = self.patterns < self.spaces;
        let is_filled = self.shape.zero_start.is_some_and(|start| start <= self.patterns);
        match (is_before, is_filled) {
            (true, false) => self.fill(),
            (true, true) => {
                self.out.push('0');
                self.has_digit = true;
            }
            (false, _) => self.write_digit(is_zero),
        }
        let mut end = self.count + usize::from(self.spaces > 0) + usize::from(self.shape.has_point);
        if self.last == Some(self.position) {
            end = self.patterns + 1;
        }
        if self.patterns + 2 == end {
            self.write_closing();
        }
        self.patterns += 1;
    }

    fn write_sign(&mut self) {
        let sign = if self.is_negative { '-' } else { '+' };
        match self.shape.anchor {
            Some(Anchor::Before) => self.out.push(sign),
            Some(Anchor::Behind) => return,
            None if self.shape.brackets => self.out.push(if self.is_negative { '<' } else { ' ' }),
            None if self.is_negative => self.out.push('-'),
            None => self.fill(),
        }
        self.has_sign = true;
    }

    fn write_digit(&mut self, is_zero: bool) {
        let next = self.next();
        if next == b'.' {
            if !self.ends_at_point() || !self.template.fills {
                self.out.push('.');
            }
        } else if self.last.is_some_and(|last| self.position > last) && !is_zero {
            // FM omits the zeros at the end.
        } else if self.is_hidden_zero() {
            match self.template.fills {
                true => self.out.push(' '),
                false if self.ends_at_point() => self.out.push('0'),
                false => {}
            }
        } else {
            self.out.push(next.into());
            self.has_digit = true;
        }
        if next != 0 {
            self.position += 1;
        }
    }

    /// Writes what is behind the last digit: a bracket, or the sign.
    fn write_closing(&mut self) {
        if self.has_sign && self.shape.brackets {
            self.out.push(if self.is_negative { '>' } else { ' ' });
        } else if self.shape.anchor == Some(Anchor::Behind) {
            self.out.push(if self.is_negative { '-' } else { '+' });
        }
    }
}
