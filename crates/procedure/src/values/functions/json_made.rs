//! Functions that make JSON of values of other types.
//! Source: PostgreSQL 15, `json.c` and `jsonb.c`, `datum_to_json`.

use super::json::wrong_kind;
use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Arena, Datum, Json, ScalarType, json_text, output_text, push_json_string};

const ANY: Kind = Kind::AnyAsJson;
const ANY_ARRAY: Kind = Kind::AnyArray;
const ANY_ELEMENT: Kind = Kind::AnyElement;
const JSON: Kind = Kind::JSON;
const JSONB: Kind = Kind::JSONB;
const BOOL: Kind = Kind::BOOL;

pub(super) static MADE_JSONS: &[BuiltIn] = &[
    BuiltIn::of("array_to_json", &[ANY_ARRAY], JSON, made_of_array).stable(),
    BuiltIn::of("array_to_json", &[ANY_ARRAY, BOOL], JSON, made_of_array).stable(),
    BuiltIn::of("json_build_array", &[], JSON, |call| call.made("[]")).stable(),
    BuiltIn::of("json_build_array", &[ANY], JSON, array).taking_null().variadic().stable(),
    BuiltIn::of("json_build_object", &[], JSON, |call| call.made("{}")).stable(),
    BuiltIn::of("json_build_object", &[ANY], JSON, object).taking_null().variadic().stable(),
    BuiltIn::of("jsonb_build_array", &[], JSONB, |call| call.made("[]")).stable(),
    BuiltIn::of("jsonb_build_array", &[ANY], JSONB, normal_array).taking_null().variadic().stable(),
    BuiltIn::of("jsonb_build_object", &[], JSONB, |call| call.made("{}")).stable(),
    BuiltIn::of("jsonb_build_object", &[ANY], JSONB, normal_object).taking_null().variadic().stable(),
    BuiltIn::of("to_json", &[ANY_ELEMENT], JSON, made).stable(),
    BuiltIn::of("to_json", &[ANY_ARRAY], JSON, made_of_array).stable(),
    BuiltIn::of("to_jsonb", &[ANY_ELEMENT], JSONB, |call| {
        let text = json_of(call.values[0], call.element, &call.machine.frame.arena);
        normal(call, &text)
    })
    .stable(),
    BuiltIn::of("to_jsonb", &[ANY_ARRAY], JSONB, |call| {
        let text = json_of_array(call.elements(0), call.element, &call.machine.frame.arena);
        normal(call, &text)
    })
    .stable(),
];

/// Returns a JSON text in the normal form as the result.
pub(super) fn normal(call: Call, text: &str) -> Evaluated {
    let text = Json::read(text)?.text();
    call.made(text)
}

/// Returns a value as JSON.
fn json_of(value: Datum, ty: ScalarType, arena: &Arena) -> String {
    let text = || output_text(value, ty.into(), arena);
    match (value, ty) {
        (Datum::Null, _) => "null".into(),
        (Datum::Int(value), ScalarType::Boolean) => (value != 0).to_string(),
        (Datum::Double(value), _) if !value.is_finite() => format!("\"{}\"", text()),
        (Datum::Wide(_), _) if !arena.numeric(value, 0).is_some_and(|number| number.is_finite()) => {
            format!("\"{}\"", text())
        }
        _ if ty.is_number() || ty.is_json() => text(),
        _ if ty.is_timestamp() => format!("\"{}\"", iso_text(text(), ty)),
        _ => {
            let mut out = String::new();
            push_json_string(&text(), &mut out);
            out
        }
    }
}

/// Returns the text of a timestamp in the form of ISO 8601, whose zone has minutes.
fn iso_text(text: String, ty: ScalarType) -> String {
    let mut text = text.replacen(' ', "T", 1);
    let end = text.find(" BC").unwrap_or(text.len());
    let clock = text.find('T').unwrap_or(end);
    if ty.is_zoned()
        && let Some(sign) = text[clock..end].find(['+', '-'])
        && !text[clock + sign..end].contains(':')
    {
        text.insert_str(end, ":00");
    }
    text
}

fn json_of_array(elements: &[Datum], ty: ScalarType, arena: &Arena) -> String {
    let elements: Vec<String> = elements.iter().map(|element| json_of(*element, ty, arena)).collect();
    format!("[{}]", elements.join(","))
}

fn made(call: Call) -> Evaluated {
    let text = json_of(call.values[0], call.element, &call.machine.frame.arena);
    call.made(text)
}

/// Writes each element on a line if the second argument is true.
fn made_of_array(call: Call) -> Evaluated {
    let text = json_of_array(call.elements(0), call.element, &call.machine.frame.arena);
    if call.count() > 1 && call.values[1].is_true() {
        let arena = &call.machine.frame.arena;
        let elements: Vec<String> =
            call.elements(0).iter().map(|element| json_of(*element, call.element, arena)).collect();
        return call.made(format!("[{}]", elements.join(",\n ")));
    }
    call.made(text)
}

/// Returns an argument, which is JSON already.
fn argument<'a>(call: &'a Call, index: usize) -> &'a str {
    if call.is_null(index) { "null" } else { call.text(index) }
}

/// Returns the text of a key of an object, which is JSON already.
pub(crate) fn json_key(json: &str) -> Result<String, Box<SqlError>> {
    if json.starts_with(['{', '[']) {
        return Err(wrong_kind("key value must be scalar, not array, composite, or json"));
    }
    Ok(json_text(json)?.unwrap_or_default())
}

fn array_text(call: &Call) -> Result<String, Box<SqlError>> {
    let elements: Vec<&str> = (0..call.count()).map(|index| argument(call, index)).collect();
    call.ask(elements.iter().map(|element| element.len() + 2).sum())?;
    Ok(format!("[{}]", elements.join(", ")))
}

/// Returns an object of alternating keys and values. The error of a NULL key differs between both types.
fn object_text(call: &Call, name: &str, no_key: fn(usize) -> Box<SqlError>) -> Result<String, Box<SqlError>> {
    if call.count() % 2 == 1 {
        let hint = format!("The arguments of {name}() must consist of alternating keys and values.");
        let message = "argument list must have even number of elements";
        return Err(SqlError::new("22023", message).with_hint(hint).into());
    }
    call.ask((0..call.count()).map(|index| argument(call, index).len() + 3).sum())?;
    let mut out = String::from("{");
    for index in (0..call.count()).step_by(2) {
        if call.is_null(index) {
            return Err(no_key(index + 1));
        }
        out.push_str(if index > 0 { ", " } else { "" });
        push_json_string(&json_key(argument(call, index))?, &mut out);
        out.push_str(" : ");
        out.push_str(argument(call, index + 1));
    }
    out.push('}');
    Ok(out)
}

fn array(call: Call) -> Evaluated {
    let text = array_text(&call)?;
    call.made(text)
}

fn normal_array(call: Call) -> Evaluated {
    let text = array_text(&call)?;
    normal(call, &text)
}

fn object(call: Call) -> Evaluated {
    let no_key = |position| {
        let message = format!("argument {position} cannot be null");
        SqlError::new("22023", message).with_hint("Object keys should be text.").into()
    };
    let text = object_text(&call, "json_build_object", no_key)?;
    call.made(text)
}

fn normal_object(call: Call) -> Evaluated {
    let no_key = |position| wrong_kind(format!("argument {position}: key must not be null"));
    let text = object_text(&call, "jsonb_build_object", no_key)?;
    normal(call, &text)
}
