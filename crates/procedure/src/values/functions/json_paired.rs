//! JSON objects of texts: `json_object`, `jsonb_object`; and `jsonb_set_lax`.
//! Source: PostgreSQL 15, `json.c` and `jsonb.c`, `json_object`; `jsonfuncs.c`, `jsonb_set_lax`.

use super::json_changed::{change, delete_path};
use super::json_made::normal;
use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, push_json_string};

const BOOL: Kind = Kind::BOOL;
const JSON: Kind = Kind::JSON;
const JSONB: Kind = Kind::JSONB;
const TEXT: Kind = Kind::TEXT;
const TEXTS: Kind = Kind::TEXTS;

pub(super) static PAIRED_JSONS: &[BuiltIn] = &[
    BuiltIn::of("json_object", &[TEXTS], JSON, |call| {
        let text = alternating(&call)?;
        call.made(text)
    }),
    BuiltIn::of("json_object", &[TEXTS, TEXTS], JSON, |call| {
        let text = paired(&call)?;
        call.made(text)
    }),
    BuiltIn::of("jsonb_object", &[TEXTS], JSONB, |call| {
        let text = alternating(&call)?;
        normal(call, &text)
    }),
    BuiltIn::of("jsonb_object", &[TEXTS, TEXTS], JSONB, |call| {
        let text = paired(&call)?;
        normal(call, &text)
    }),
    BuiltIn::of("jsonb_set_lax", &[JSONB, TEXTS, JSONB], JSONB, set).taking_null(),
    BuiltIn::of("jsonb_set_lax", &[JSONB, TEXTS, JSONB, BOOL], JSONB, set).taking_null(),
    BuiltIn::of("jsonb_set_lax", &[JSONB, TEXTS, JSONB, BOOL, TEXT], JSONB, set).taking_null(),
];

/// An object of an array of keys and values in turn.
fn alternating(call: &Call) -> Result<String, Box<SqlError>> {
    let elements = call.elements(0);
    if elements.len() % 2 == 1 {
        return Err(SqlError::new("2202E", "array must have even number of elements").into());
    }
    object(call, elements.chunks(2).map(|pair| (pair[0], pair[1])))
}

/// An object of an array of keys and one of values.
fn paired(call: &Call) -> Result<String, Box<SqlError>> {
    let (keys, values) = (call.elements(0), call.elements(1));
    if keys.len() != values.len() {
        return Err(SqlError::new("2202E", "mismatched array dimensions").into());
    }
    object(call, keys.iter().copied().zip(values.iter().copied()))
}

fn object(call: &Call, pairs: impl Iterator<Item = (Datum, Datum)>) -> Result<String, Box<SqlError>> {
    let arena = &call.machine.frame.arena;
    let mut out = String::from("{");
    for (index, (key, value)) in pairs.enumerate() {
        if key.is_null() {
            return Err(SqlError::new("22004", "null value not allowed for object key").into());
        }
        let text = |datum: Datum| String::from_utf8_lossy(arena.datum_bytes(datum)).into_owned();
        out.push_str(if index > 0 { ", " } else { "" });
        push_json_string(&text(key), &mut out);
        out.push_str(" : ");
        match value.is_null() {
            true => out.push_str("null"),
            false => push_json_string(&text(value), &mut out),
        }
        call.ask(out.len())?;
    }
    out.push('}');
    Ok(out)
}

/// Sets a member to a value that may be NULL. The last argument names the treatment of NULL.
fn set(call: Call) -> Evaluated {
    let is_null = |index: usize| index < call.count() && call.is_null(index);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Datum::Null);
    }
    let creates = call.count() < 4 || call.values[3].is_true();
    if !is_null(2) {
        return change(call, creates);
    }
    match if is_null(4) { "" } else { call.text_or(4, "use_json_null") } {
        "raise_exception" => {
            let error = SqlError::new("22004", "JSON value must not be null");
            let detail = "Exception was raised because null_value_treatment is \"raise_exception\".";
            let hint = "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL \
                        is not passed.";
            Err(error.with_detail(detail).with_hint(hint).into())
        }
        "use_json_null" => {
            let null = call.machine.frame.arena.push_bytes(b"null");
            let values = [call.values[0], call.values[1], null];
            change(Call { values: &values, ..call }, creates)
        }
        "delete_key" => delete_path(call),
        "return_target" => Ok(call.values[0]),
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \
                           \"use_json_null\", or \"raise_exception\"";
            Err(SqlError::new("22023", message).into())
        }
    }
}
