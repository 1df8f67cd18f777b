//! One call of a built-in function: its arguments, and how it returns a value.

use crate::{Cast, Evaluated, Machine, SqlError};
use catalog::{Datum, Numeric, ScalarType, SessionZone, Span};

/// The arguments of a call. They have the types of the entry, so they are read without a check.
pub struct Call<'a> {
    /// The session that evaluates the call.
    pub(crate) machine: &'a mut Machine,
    /// The arguments. None is NULL, unless the function takes NULL.
    pub(crate) values: &'a [Datum],
    /// The type for which the polymorphic types of the entry stand: of a value, or of an element.
    pub(crate) element: ScalarType,
}

impl Call<'_> {
    /// Returns the time zone of the session; `None` is UTC.
    pub(super) fn zone(&self) -> Option<&SessionZone> {
        self.machine.frame.arena.zone()
    }

    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    pub(super) fn is_null(&self, index: usize) -> bool {
        self.values[index].is_null()
    }

    pub(super) fn bytes(&self, index: usize) -> &[u8] {
        self.machine.frame.arena.datum_bytes(self.values[index])
    }

    pub(super) fn text(&self, index: usize) -> &str {
        std::str::from_utf8(self.bytes(index)).unwrap_or_default()
    }

    /// Returns an argument that may be omitted.
    pub(super) fn text_or<'b>(&'b self, index: usize, otherwise: &'b str) -> &'b str {
        if index < self.count() { self.text(index) } else { otherwise }
    }

    pub(super) fn int(&self, index: usize) -> i64 {
        match self.values[index] {
            Datum::Int(value) => value,
            other => unreachable!("{other:?} is no integer"),
        }
    }

    pub(super) fn double(&self, index: usize) -> f64 {
        match self.values[index] {
            Datum::Double(value) => value,
            other => unreachable!("{other:?} is no double"),
        }
    }

    pub(super) fn numeric(&self, index: usize) -> Numeric {
        let value = self.values[index];
        self.machine.frame.arena.numeric(value, 0).unwrap_or_else(|| unreachable!("{value:?} is no numeric"))
    }

    pub(super) fn array(&self, index: usize) -> Option<Span> {
        match self.values[index] {
            Datum::Array(span) => Some(span),
            _ => None,
        }
    }

    pub(super) fn elements(&self, index: usize) -> &[Datum] {
        self.array(index).map_or(&[], |span| self.machine.frame.arena.elements(span))
    }

    /// Asks for the memory of a text, before it is made.
    pub(super) fn ask(&self, bytes: usize) -> Result<(), SqlError> {
        self.machine.ask_text(bytes)
    }

    /// Returns a text or bytes as the result.
    pub(super) fn made(self, bytes: impl AsRef<[u8]>) -> Evaluated {
        let bytes = bytes.as_ref();
        self.machine.ask_text(bytes.len())?;
        Ok(self.machine.frame.arena.push_bytes(bytes))
    }

    /// Returns a part of a text or of bytes as the result, without a copy.
    pub(super) fn part(self, index: usize, start: usize, length: usize) -> Evaluated {
        match self.values[index] {
            Datum::Bytes(span) => Ok(self.machine.frame.arena.subspan(span, start, length)),
            other => unreachable!("{other:?} is no text"),
        }
    }

    /// Returns a numeric as the result.
    pub(super) fn made_numeric(self, value: impl Into<Numeric>) -> Evaluated {
        Ok(self.machine.frame.arena.push_numeric(value))
    }

    /// Returns an array as the result.
    pub(super) fn made_array(self, elements: &[Datum]) -> Evaluated {
        self.machine.ask_elements(elements.len())?;
        Ok(self.machine.frame.arena.push_array(elements))
    }

    /// Returns an array of texts as the result; `None` is NULL.
    pub(super) fn made_texts(self, texts: &[Option<String>]) -> Evaluated {
        self.machine.ask_text(texts.iter().flatten().map(String::len).sum())?;
        let arena = &mut self.machine.frame.arena;
        let text = |text: &Option<String>| {
            text.as_ref().map_or(Datum::Null, |text| arena.push_bytes(text.as_bytes()))
        };
        let elements: Vec<Datum> = texts.iter().map(text).collect();
        self.made_array(&elements)
    }

    /// Returns the text form of an element, as the output of its type shows it.
    pub(super) fn printed(&mut self, value: Datum) -> Result<Vec<u8>, Box<SqlError>> {
        if self.element == ScalarType::Boolean {
            return Ok(if value.is_true() { b"t".to_vec() } else { b"f".to_vec() });
        }
        if let ScalarType::Char(length) = self.element {
            let mut text = String::from_utf8_lossy(self.machine.frame.arena.datum_bytes(value)).into_owned();
            let blanks = (length as usize).saturating_sub(text.chars().count());
            text.extend(std::iter::repeat_n(' ', if length == u32::MAX { 0 } else { blanks }));
            return Ok(text.into_bytes());
        }
        let cast = Cast::between(self.element, ScalarType::Text, true).unwrap_or(Cast::Same);
        let text = cast.apply(value, &mut self.machine.frame.arena)?;
        Ok(self.machine.frame.arena.datum_bytes(text).to_vec())
    }
}
