//! The rows of a JSON value: its members, its elements or its keys.
//! Source: PostgreSQL 15, `jsonfuncs.c`: `each_worker`, `elements_worker`, `json_object_keys`.

use crate::values::functions::wrong_kind;
use crate::{Failure, Machine, SqlError};
use catalog::{Datum, ScalarType, Type, json_elements, json_members, json_text};

/// The parts of a JSON value that become rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Members,
    Elements,
    Keys,
    /// The value itself, which must be an object.
    Object,
    /// Its elements, which must be objects.
    Objects,
}

/// A function that returns the parts of a JSON value as rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JsonRows {
    part: Part,
    /// Whether values are texts.
    is_text: bool,
    /// Whether the value is a JSONB.
    is_normal: bool,
}

impl JsonRows {
    pub(crate) const fn members(is_text: bool, is_normal: bool) -> Self {
        Self { part: Part::Members, is_text, is_normal }
    }

    pub(crate) const fn elements(is_text: bool, is_normal: bool) -> Self {
        Self { part: Part::Elements, is_text, is_normal }
    }

    pub(crate) const fn keys(is_normal: bool) -> Self {
        Self { part: Part::Keys, is_text: true, is_normal }
    }

    pub(crate) const fn object(is_normal: bool) -> Self {
        Self { part: Part::Object, is_text: false, is_normal }
    }

    pub(crate) const fn objects(is_normal: bool) -> Self {
        Self { part: Part::Objects, is_text: false, is_normal }
    }

    /// Returns the type of the argument.
    pub fn argument(self) -> ScalarType {
        if self.is_normal { ScalarType::Jsonb } else { ScalarType::Json }
    }

    /// Returns the columns. A name is `None` where the column has the function's name.
    pub fn columns(self) -> Vec<(Option<&'static str>, Type)> {
        let value = if self.is_text { ScalarType::Text } else { self.argument() };
        match self.part {
            Part::Members => vec![(Some("key"), ScalarType::Text.into()), (Some("value"), value.into())],
            Part::Elements | Part::Object | Part::Objects => vec![(Some("value"), value.into())],
            Part::Keys => vec![(None, ScalarType::Text.into())],
        }
    }

    /// Returns the values of all rows, one row after the other.
    pub(super) fn of(self, json: Datum, machine: &mut Machine) -> Result<Vec<Datum>, Failure> {
        if json.is_null() {
            // A function that returns a record, not a set, has a row of NULL.
            return Ok(vec![Datum::Null; usize::from(self.part == Part::Object)]);
        }
        let text = String::from_utf8_lossy(machine.frame.arena.datum_bytes(json)).into_owned();
        machine.ask_text(text.len().saturating_mul(2)).map_err(Failure::from)?;
        let mut values = Vec::new();
        let wrong = || Failure::from(*self.wrong(&text));
        match self.part {
            Part::Elements => {
                for element in json_elements(&text).map_err(SqlError::from)?.ok_or_else(wrong)? {
                    values.push(self.value(element, machine)?);
                }
            }
            Part::Objects => {
                for element in json_elements(&text).map_err(SqlError::from)?.ok_or_else(wrong)? {
                    if !element.trim_start().starts_with('{') {
                        let message = format!("argument of {} must be an array of objects", self.name());
                        return Err(Failure::from(*wrong_kind(message)));
                    }
                    values.push(self.value(element, machine)?);
                }
            }
            Part::Object if text.trim_start().starts_with('{') => values.push(json),
            Part::Object => return Err(wrong()),
            Part::Members | Part::Keys => {
                for (key, value) in json_members(&text).map_err(SqlError::from)?.ok_or_else(wrong)? {
                    values.push(machine.frame.arena.push_bytes(key.as_bytes()));
                    if self.part == Part::Members {
                        values.push(self.value(value, machine)?);
                    }
                }
            }
        }
        machine.ask_elements(values.len()).map_err(Failure::from)?;
        Ok(values)
    }

    fn value(self, json: &str, machine: &mut Machine) -> Result<Datum, Failure> {
        if !self.is_text {
            return Ok(machine.frame.arena.push_bytes(json.as_bytes()));
        }
        let text = json_text(json).map_err(SqlError::from)?;
        Ok(text.map_or(Datum::Null, |text| machine.frame.arena.push_bytes(text.as_bytes())))
    }

    /// Returns the name of a function whose rows are records.
    fn name(self) -> &'static str {
        match (self.part == Part::Objects, self.is_normal) {
            (true, true) => "jsonb_to_recordset",
            (true, false) => "json_to_recordset",
            (false, true) => "jsonb_to_record",
            (false, false) => "json_to_record",
        }
    }

    /// Returns the error of a value of the wrong kind, which has no such parts.
    fn wrong(self, text: &str) -> Box<SqlError> {
        let kind = match text.trim_start().as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            _ => "a scalar",
        };
        let suffix = if self.is_text { "_text" } else { "" };
        wrong_kind(match (self.part, self.is_normal) {
            (Part::Object | Part::Objects, _) => format!("cannot call {} on {kind}", self.name()),
            (Part::Keys, true) => format!("cannot call jsonb_object_keys on {kind}"),
            (Part::Keys, false) => format!("cannot call json_object_keys on {kind}"),
            (Part::Elements, true) => format!("cannot extract elements from {kind}"),
            (Part::Elements, false) if kind == "a scalar" => {
                format!("cannot call json_array_elements{suffix} on a scalar")
            }
            (Part::Elements, false) => format!("cannot call json_array_elements{suffix} on a non-array"),
            (Part::Members, true) => format!("cannot call jsonb_each{suffix} on a non-object"),
            (Part::Members, false) if kind == "a scalar" => "cannot deconstruct a scalar".into(),
            (Part::Members, false) => "cannot deconstruct an array as an object".into(),
        })
    }
}
