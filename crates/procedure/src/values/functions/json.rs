//! Functions of JSON and JSONB that look into a value. The normal form of JSONB is JSON, too, so both types
//! share what reads them.
//! Source: PostgreSQL 15's documentation, "JSON Functions and Operators"; its `jsonfuncs.c`.

use super::{BuiltIn, Call, Form, Kind};
use crate::query::{JsonRows, TableFunction};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Json, json_elements, json_members, json_text};

const BOOL: Kind = Kind::BOOL;
const INT4: Kind = Kind::INT4;
const JSON: Kind = Kind::JSON;
const JSONB: Kind = Kind::JSONB;
const TEXT: Kind = Kind::TEXT;
const TEXTS: Kind = Kind::TEXTS;

const fn rows(name: &'static str, argument: &'static [Kind], result: Kind, rows: JsonRows) -> BuiltIn {
    BuiltIn::new(name, argument, result, Form::Rows(TableFunction::Json(rows)))
}

pub(super) static JSONS: &[BuiltIn] = &[
    rows("json_array_elements", &[JSON], JSON, JsonRows::elements(false, false)),
    rows("json_array_elements_text", &[JSON], TEXT, JsonRows::elements(true, false)),
    BuiltIn::of("json_array_element", &[JSON, INT4], JSON, |call| element(call, false)),
    BuiltIn::of("json_array_element_text", &[JSON, INT4], TEXT, |call| element(call, true)),
    BuiltIn::of("json_array_length", &[JSON], INT4, length),
    rows("json_each", &[JSON], JSON, JsonRows::members(false, false)),
    rows("json_each_text", &[JSON], TEXT, JsonRows::members(true, false)),
    BuiltIn::of("json_extract_path", &[JSON, TEXTS], JSON, |call| at_path(call, false)).for_variadic(),
    BuiltIn::of("json_extract_path", &[JSON, TEXT], JSON, |call| at_path(call, false)).variadic(),
    BuiltIn::of("json_extract_path_text", &[JSON, TEXTS], TEXT, |call| at_path(call, true)).for_variadic(),
    BuiltIn::of("json_extract_path_text", &[JSON, TEXT], TEXT, |call| at_path(call, true)).variadic(),
    BuiltIn::of("json_object_field", &[JSON, TEXT], JSON, |call| field(call, false)),
    BuiltIn::of("json_object_field_text", &[JSON, TEXT], TEXT, |call| field(call, true)),
    rows("json_object_keys", &[JSON], TEXT, JsonRows::keys(false)),
    rows("json_to_record", &[JSON], Kind::Record, JsonRows::object(false)),
    rows("json_to_recordset", &[JSON], Kind::Record, JsonRows::objects(false)),
    rows("jsonb_to_record", &[JSONB], Kind::Record, JsonRows::object(true)),
    rows("jsonb_to_recordset", &[JSONB], Kind::Record, JsonRows::objects(true)),
    BuiltIn::of("json_typeof", &[JSON], TEXT, type_name),
    rows("jsonb_array_elements", &[JSONB], JSONB, JsonRows::elements(false, true)),
    rows("jsonb_array_elements_text", &[JSONB], TEXT, JsonRows::elements(true, true)),
    BuiltIn::of("jsonb_array_element", &[JSONB, INT4], JSONB, |call| element_or_scalar(call, false)),
    BuiltIn::of("jsonb_array_element_text", &[JSONB, INT4], TEXT, |call| element_or_scalar(call, true)),
    BuiltIn::of("jsonb_array_length", &[JSONB], INT4, length),
    BuiltIn::of("jsonb_contained", &[JSONB, JSONB], BOOL, |call| contains(&call, 1, 0)),
    BuiltIn::of("jsonb_contains", &[JSONB, JSONB], BOOL, |call| contains(&call, 0, 1)),
    rows("jsonb_each", &[JSONB], JSONB, JsonRows::members(false, true)),
    rows("jsonb_each_text", &[JSONB], TEXT, JsonRows::members(true, true)),
    BuiltIn::of("jsonb_exists", &[JSONB, TEXT], BOOL, |call| {
        let json = Json::read(call.text(0))?;
        Ok(Datum::boolean(json.has(call.text(1))))
    }),
    BuiltIn::of("jsonb_exists_all", &[JSONB, TEXTS], BOOL, |call| {
        exist(&call, |found| found.iter().all(|has| *has))
    }),
    BuiltIn::of("jsonb_exists_any", &[JSONB, TEXTS], BOOL, |call| {
        exist(&call, |found| found.contains(&true))
    }),
    BuiltIn::of("jsonb_extract_path", &[JSONB, TEXTS], JSONB, |call| at_path(call, false)).for_variadic(),
    BuiltIn::of("jsonb_extract_path", &[JSONB, TEXT], JSONB, |call| at_path(call, false)).variadic(),
    BuiltIn::of("jsonb_extract_path_text", &[JSONB, TEXTS], TEXT, |call| at_path(call, true)).for_variadic(),
    BuiltIn::of("jsonb_extract_path_text", &[JSONB, TEXT], TEXT, |call| at_path(call, true)).variadic(),
    BuiltIn::of("jsonb_object_field", &[JSONB, TEXT], JSONB, |call| field(call, false)),
    BuiltIn::of("jsonb_object_field_text", &[JSONB, TEXT], TEXT, |call| field(call, true)),
    rows("jsonb_object_keys", &[JSONB], TEXT, JsonRows::keys(true)),
    BuiltIn::of("jsonb_typeof", &[JSONB], TEXT, type_name),
];

/// Returns a part of a value: as JSON, or as its text, which is NULL for `null`.
fn found(call: Call, part: Option<String>, is_text: bool) -> Evaluated {
    match part {
        None => Ok(Datum::Null),
        Some(part) if is_text => match json_text(&part)? {
            Some(text) => call.made(text),
            None => Ok(Datum::Null),
        },
        Some(part) => call.made(part),
    }
}

/// Returns the member of an object with a key; of several, the last one.
fn member(json: &str, key: &str) -> Result<Option<String>, Box<SqlError>> {
    let members = json_members(json)?.unwrap_or_default();
    Ok(members.into_iter().rfind(|(known, _)| known == key).map(|(_, value)| value.to_owned()))
}

/// Returns the element of an array at an index, which counts from the end if it is negative.
fn element_at(json: &str, index: i64) -> Result<Option<String>, Box<SqlError>> {
    let Some(elements) = json_elements(json)? else { return Ok(None) };
    let index = if index < 0 { index + elements.len() as i64 } else { index };
    Ok(usize::try_from(index).ok().and_then(|index| elements.get(index)).map(|element| (*element).to_owned()))
}

fn field(call: Call, is_text: bool) -> Evaluated {
    let part = member(call.text(0), call.text(1))?;
    found(call, part, is_text)
}

fn element(call: Call, is_text: bool) -> Evaluated {
    let part = element_at(call.text(0), call.int(1))?;
    found(call, part, is_text)
}

/// A scalar is an array of one element here, as in PostgreSQL.
fn element_or_scalar(call: Call, is_text: bool) -> Evaluated {
    let json = call.text(0);
    let is_first = matches!(call.int(1), 0 | -1) && !json.starts_with(['{', '[']);
    let part = if is_first { Some(json.to_owned()) } else { element_at(json, call.int(1))? };
    found(call, part, is_text)
}

/// Returns the texts of a path, which is an array or the arguments from the second on; `None` if one is NULL.
pub(super) fn path_of(call: &Call, first: usize) -> Option<Vec<String>> {
    let arena = &call.machine.frame.arena;
    let values = match call.array(first) {
        Some(span) => arena.elements(span),
        None => &call.values[first..],
    };
    let text = |value: &Datum| String::from_utf8_lossy(arena.datum_bytes(*value)).into_owned();
    values.iter().map(|value| (!value.is_null()).then(|| text(value))).collect()
}

fn at_path(call: Call, is_text: bool) -> Evaluated {
    let Some(path) = path_of(&call, 1) else { return Ok(Datum::Null) };
    let mut part = Some(call.text(0).to_owned());
    for step in path {
        let Some(json) = part else { break };
        part = match json.trim_start().starts_with('[') {
            true => match step.trim_start().parse::<i32>() {
                Ok(index) => element_at(&json, index.into())?,
                Err(_) => None,
            },
            false => member(&json, &step)?,
        };
    }
    found(call, part, is_text)
}

/// Returns the error of a function that takes another kind of JSON.
pub(crate) fn wrong_kind(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new("22023", message).into()
}

fn length(call: Call) -> Evaluated {
    match json_elements(call.text(0))? {
        Some(elements) => Ok(Datum::Int(elements.len() as i64)),
        None if call.text(0).trim_start().starts_with('{') => {
            Err(wrong_kind("cannot get array length of a non-array"))
        }
        None => Err(wrong_kind("cannot get array length of a scalar")),
    }
}

fn type_name(call: Call) -> Evaluated {
    let name = match call.text(0).trim_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    };
    call.made(name)
}

fn contains(call: &Call, outer: usize, inner: usize) -> Evaluated {
    let (outer, inner) = (Json::read(call.text(outer))?, Json::read(call.text(inner))?);
    Ok(Datum::boolean(outer.contains(&inner)))
}

fn exist(call: &Call, holds: fn(&[bool]) -> bool) -> Evaluated {
    let json = Json::read(call.text(0))?;
    let arena = &call.machine.frame.arena;
    let keys = call.elements(1).iter().filter(|key| !key.is_null());
    let found: Vec<bool> =
        keys.map(|key| json.has(std::str::from_utf8(arena.datum_bytes(*key)).unwrap_or_default())).collect();
    Ok(Datum::boolean(holds(&found)))
}
