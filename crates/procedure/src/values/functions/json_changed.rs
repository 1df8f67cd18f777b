//! Functions that return a changed JSON.
//! Source: PostgreSQL 15, `jsonfuncs.c`: `setPath`, `IteratorConcat`, `jsonb_delete`.

use super::json::{path_of, wrong_kind};
use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Json, json_elements, json_members, json_text, push_json_string};

const BOOL: Kind = Kind::BOOL;
const INT4: Kind = Kind::INT4;
const JSON: Kind = Kind::JSON;
const JSONB: Kind = Kind::JSONB;
const TEXT: Kind = Kind::TEXT;
const TEXTS: Kind = Kind::TEXTS;

pub(super) static CHANGED_JSONS: &[BuiltIn] = &[
    BuiltIn::of("json_strip_nulls", &[JSON], JSON, |call| {
        let mut out = String::new();
        strip_text(call.text(0), &mut out)?;
        call.made(out)
    }),
    BuiltIn::of("jsonb_concat", &[JSONB, JSONB], JSONB, |call| {
        let joined = join(Json::read(call.text(0))?, Json::read(call.text(1))?);
        call.made(joined.text())
    }),
    BuiltIn::of("jsonb_delete", &[JSONB, TEXT], JSONB, |call| {
        let key = call.text(1).to_owned();
        without(call, &[key])
    }),
    BuiltIn::of("jsonb_delete", &[JSONB, INT4], JSONB, without_element),
    BuiltIn::of("jsonb_delete", &[JSONB, TEXTS], JSONB, |call| {
        let arena = &call.machine.frame.arena;
        let keys = call.elements(1).iter().filter(|key| !key.is_null());
        let keys: Vec<_> =
            keys.map(|key| String::from_utf8_lossy(arena.datum_bytes(*key)).into_owned()).collect();
        without(call, &keys)
    })
    .for_variadic(),
    BuiltIn::of("jsonb_delete_path", &[JSONB, TEXTS], JSONB, delete_path),
    BuiltIn::of("jsonb_insert", &[JSONB, TEXTS, JSONB], JSONB, |call| changed(call, Change::InsertBefore)),
    BuiltIn::of("jsonb_insert", &[JSONB, TEXTS, JSONB, BOOL], JSONB, |call| {
        let is_after = call.values[3].is_true();
        changed(call, if is_after { Change::InsertAfter } else { Change::InsertBefore })
    }),
    BuiltIn::of("jsonb_pretty", &[JSONB], TEXT, |call| {
        let mut out = String::new();
        write_pretty(&Json::read(call.text(0))?, 0, &mut out);
        call.made(out)
    }),
    BuiltIn::of("jsonb_set", &[JSONB, TEXTS, JSONB], JSONB, |call| change(call, true)),
    BuiltIn::of("jsonb_set", &[JSONB, TEXTS, JSONB, BOOL], JSONB, |call| {
        let creates = call.values[3].is_true();
        change(call, creates)
    }),
    BuiltIn::of("jsonb_strip_nulls", &[JSONB], JSONB, |call| {
        let stripped = strip(Json::read(call.text(0))?);
        call.made(stripped.text())
    }),
];

/// The change at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    /// Replaces a value, or adds it.
    Set,
    /// Replaces a value.
    Replace,
    /// Adds a value before an element.
    InsertBefore,
    /// Adds a value after an element.
    InsertAfter,
    /// Removes a value.
    Delete,
}

impl Change {
    fn creates(self) -> bool {
        matches!(self, Self::Set | Self::InsertBefore | Self::InsertAfter)
    }
}

/// Replaces the value at a path, or adds it.
pub(super) fn change(call: Call, creates: bool) -> Evaluated {
    changed(call, if creates { Change::Set } else { Change::Replace })
}

pub(super) fn delete_path(call: Call) -> Evaluated {
    changed(call, Change::Delete)
}

fn changed(call: Call, change: Change) -> Evaluated {
    let mut json = Json::read(call.text(0))?;
    let new = if change == Change::Delete { Json::Null } else { Json::read(call.text(2))? };
    if json.is_scalar() {
        let verb = if change == Change::Delete { "delete" } else { "set" };
        return Err(wrong_kind(format!("cannot {verb} path in scalar")));
    }
    let is_empty = matches!(&json, Json::Array(elements) if elements.is_empty())
        || matches!(&json, Json::Object(members) if members.is_empty());
    if !is_empty || change.creates() {
        let Some(path) = path_of(&call, 1) else {
            let elements = call.elements(1).iter();
            let null = elements.take_while(|element| !element.is_null()).count() + 1;
            let message = format!("path element at position {null} is null");
            return Err(SqlError::new("22004", message).into());
        };
        change_at(&mut json, &path, 0, &new, change)?;
    }
    call.made(json.text())
}

fn change_at(
    json: &mut Json,
    path: &[String],
    level: usize,
    new: &Json,
    change: Change,
) -> Result<(), Box<SqlError>> {
    let Some(step) = path.get(level) else { return Ok(()) };
    let is_last = level + 1 == path.len();
    match json {
        Json::Object(members) => match members.iter().position(|(key, _)| key == step) {
            Some(at) if !is_last => change_at(&mut members[at].1, path, level + 1, new, change)?,
            Some(at) => match change {
                Change::Delete => drop(members.remove(at)),
                Change::Set | Change::Replace => members[at].1 = new.clone(),
                Change::InsertBefore | Change::InsertAfter => {
                    let hint = "Try using the function jsonb_set to replace key value.";
                    let message = "cannot replace existing key";
                    return Err(SqlError::new("22023", message).with_hint(hint).into());
                }
            },
            None if is_last && change.creates() => {
                let mut members = std::mem::take(members);
                members.push((step.clone(), new.clone()));
                *json = Json::object(members);
            }
            None => {}
        },
        Json::Array(elements) => {
            let index: i32 = step.trim_start().parse().map_err(|_| {
                let position = level + 1;
                let message = format!("path element at position {position} is not an integer: \"{step}\"");
                SqlError::new("22P02", message)
            })?;
            change_element(elements, index.into(), path, level, new, change)?;
        }
        _ => {}
    }
    Ok(())
}

fn change_element(
    elements: &mut Vec<Json>,
    index: i64,
    path: &[String],
    level: usize,
    new: &Json,
    change: Change,
) -> Result<(), Box<SqlError>> {
    let is_last = level + 1 == path.len();
    let length = elements.len() as i64;
    let index = if index < 0 { index + length } else { index };
    if is_last && change.creates() && (index < 0 || length == 0) {
        elements.insert(0, new.clone());
        return Ok(());
    }
    match usize::try_from(index).ok().filter(|index| *index < elements.len()) {
        Some(at) if !is_last => change_at(&mut elements[at], path, level + 1, new, change)?,
        Some(at) => match change {
            Change::Delete => drop(elements.remove(at)),
            Change::Set | Change::Replace => elements[at] = new.clone(),
            Change::InsertBefore => elements.insert(at, new.clone()),
            Change::InsertAfter => elements.insert(at + 1, new.clone()),
        },
        None if is_last && change.creates() => elements.push(new.clone()),
        None => {}
    }
    Ok(())
}

fn join(left: Json, right: Json) -> Json {
    let elements = |json| match json {
        Json::Array(elements) => elements,
        other => vec![other],
    };
    match (left, right) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::object(left)
        }
        (left, right) => {
            let mut all = elements(left);
            all.extend(elements(right));
            Json::Array(all)
        }
    }
}

/// Removes the members with some keys, or the elements that are these strings.
fn without(call: Call, keys: &[String]) -> Evaluated {
    let is_kept = |text: &str| !keys.iter().any(|key| key == text);
    let changed = match Json::read(call.text(0))? {
        Json::Object(mut members) => {
            members.retain(|(key, _)| is_kept(key));
            Json::Object(members)
        }
        Json::Array(mut elements) => {
            elements.retain(|element| !matches!(element, Json::String(text) if !is_kept(text)));
            Json::Array(elements)
        }
        _ => return Err(wrong_kind("cannot delete from scalar")),
    };
    call.made(changed.text())
}

fn without_element(call: Call) -> Evaluated {
    match Json::read(call.text(0))? {
        Json::Array(mut elements) => {
            let index = call.int(1);
            let index = if index < 0 { index + elements.len() as i64 } else { index };
            if let Some(at) = usize::try_from(index).ok().filter(|at| *at < elements.len()) {
                elements.remove(at);
            }
            call.made(Json::Array(elements).text())
        }
        Json::Object(_) => Err(wrong_kind("cannot delete from object using integer index")),
        _ => Err(wrong_kind("cannot delete from scalar")),
    }
}

fn strip(json: Json) -> Json {
    match json {
        Json::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key, strip(value))).collect())
        }
        Json::Array(elements) => Json::Array(elements.into_iter().map(strip).collect()),
        other => other,
    }
}

/// Appends a JSON without the members that are `null`, and without blanks.
fn strip_text(json: &str, out: &mut String) -> Result<(), Box<SqlError>> {
    if let Some(members) = json_members(json)? {
        out.push('{');
        let kept = members.into_iter().filter(|(_, value)| *value != "null");
        for (index, (key, value)) in kept.enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            push_json_string(&key, out);
            out.push(':');
            strip_text(value, out)?;
        }
        out.push('}');
    } else if let Some(elements) = json_elements(json)? {
        out.push('[');
        for (index, element) in elements.into_iter().enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            strip_text(element, out)?;
        }
        out.push(']');
    } else {
        match json_text(json)? {
            Some(text) if json.trim_start().starts_with('"') => push_json_string(&text, out),
            _ => out.push_str(json.trim()),
        }
    }
    Ok(())
}

fn write_pretty(json: &Json, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    match json {
        Json::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(depth + 1, out);
                write_pretty(element, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(depth + 1, out);
                push_json_string(key, out);
                out.push_str(": ");
                write_pretty(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        scalar => scalar.write(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_nulls_go() {
        let mut out = String::new();
        strip_text(r#" {"a": null, "b" : [ null , {"c":null} ], "d": 1.50, "e": "x\n" } "#, &mut out)
            .unwrap();
        assert_eq!(out, r#"{"b":[null,{}],"d":1.50,"e":"x\n"}"#);
    }
}
