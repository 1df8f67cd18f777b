//! Functions of arrays. An array has one dimension, and begins at 1.
//! Source: PostgreSQL 15's documentation, "Array Functions and Operators".

use super::{BuiltIn, Call, Form, Kind};
use crate::ir::compare::compare;
use crate::query::{SeriesOf, TableFunction};
use crate::{CompareClass, Evaluated, SqlError};
use catalog::{Datum, Type, output_text};
use std::cmp::Ordering;

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const ELEMENT: Kind = Kind::AnyCompatible;
const ARRAY: Kind = Kind::AnyCompatibleArray;
const ANY_ARRAY: Kind = Kind::AnyArray;

pub(super) static ARRAYS: &[BuiltIn] = &[
    BuiltIn::of("array_append", &[ARRAY, ELEMENT], ARRAY, append).taking_null(),
    BuiltIn::of("array_cat", &[ARRAY, ARRAY], ARRAY, join).taking_null(),
    BuiltIn::of("array_dims", &[ANY_ARRAY], TEXT, |call| match call.elements(0).len() {
        0 => Ok(Datum::Null),
        length => call.made(format!("[1:{length}]")),
    }),
    BuiltIn::of("array_fill", &[Kind::AnyElement, Kind::INT4S], ANY_ARRAY, fill).taking_null(),
    BuiltIn::of("array_length", &[ANY_ARRAY, INT4], INT4, |call| bound(&call, call.elements(0).len())),
    BuiltIn::of("array_lower", &[ANY_ARRAY, INT4], INT4, |call| bound(&call, 1)),
    BuiltIn::of("array_ndims", &[ANY_ARRAY], INT4, |call| match call.elements(0) {
        [] => Ok(Datum::Null),
        _ => Ok(Datum::Int(1)),
    }),
    BuiltIn::of("array_out", &[ANY_ARRAY], TEXT, |call| {
        let ty = Type::Array(call.element);
        let text = output_text(call.values[0], ty, &call.machine.frame.arena);
        call.made(text)
    })
    .stable(),
    BuiltIn::of("array_position", &[ARRAY, ELEMENT], INT4, position).taking_null(),
    BuiltIn::of("array_position", &[ARRAY, ELEMENT, INT4], INT4, position).taking_null(),
    BuiltIn::of("array_positions", &[ARRAY, ELEMENT], Kind::INT4S, positions).taking_null(),
    BuiltIn::of("array_prepend", &[ELEMENT, ARRAY], ARRAY, prepend).taking_null(),
    BuiltIn::of("array_remove", &[ARRAY, ELEMENT], ARRAY, remove).taking_null(),
    BuiltIn::of("array_replace", &[ARRAY, ELEMENT, ELEMENT], ARRAY, replace).taking_null(),
    BuiltIn::of("array_to_string", &[ANY_ARRAY, TEXT], TEXT, to_text).taking_null().stable(),
    BuiltIn::of("array_to_string", &[ANY_ARRAY, TEXT, TEXT], TEXT, to_text).taking_null().stable(),
    BuiltIn::of("array_upper", &[ANY_ARRAY, INT4], INT4, |call| bound(&call, call.elements(0).len())),
    BuiltIn::of("arraycontained", &[ANY_ARRAY, ANY_ARRAY], Kind::BOOL, |call| Ok(contains(&call, 1, 0))),
    BuiltIn::of("arraycontains", &[ANY_ARRAY, ANY_ARRAY], Kind::BOOL, |call| Ok(contains(&call, 0, 1))),
    BuiltIn::of("arrayoverlap", &[ANY_ARRAY, ANY_ARRAY], Kind::BOOL, |call| {
        let has_common = call.elements(0).iter().any(|element| has(&call, 1, *element));
        Ok(Datum::boolean(has_common))
    }),
    BuiltIn::of("cardinality", &[ANY_ARRAY], INT4, |call| Ok(Datum::Int(call.elements(0).len() as i64))),
    BuiltIn::new(
        "generate_subscripts",
        &[ANY_ARRAY, INT4],
        INT4,
        Form::Rows(TableFunction::Series(SeriesOf::Integers)),
    ),
    series(&[INT4, INT4], INT4, SeriesOf::Integers),
    series(&[INT4, INT4, INT4], INT4, SeriesOf::Integers),
    series(&[INT8, INT8], INT8, SeriesOf::Integers),
    series(&[INT8, INT8, INT8], INT8, SeriesOf::Integers),
    series(&[Kind::NUMERIC, Kind::NUMERIC], Kind::NUMERIC, SeriesOf::Numerics),
    series(&[Kind::NUMERIC, Kind::NUMERIC, Kind::NUMERIC], Kind::NUMERIC, SeriesOf::Numerics),
    series(&[Kind::TIMESTAMP, Kind::TIMESTAMP, Kind::INTERVAL], Kind::TIMESTAMP, SeriesOf::Timestamps),
    series(&[Kind::TIMESTAMPTZ, Kind::TIMESTAMPTZ, Kind::INTERVAL], Kind::TIMESTAMPTZ, SeriesOf::Instants)
        .stable(),
    BuiltIn::of("num_nonnulls", &[Kind::Any], INT4, |call| Ok(count(&call, false))).taking_null().variadic(),
    BuiltIn::of("num_nulls", &[Kind::Any], INT4, |call| Ok(count(&call, true))).taking_null().variadic(),
    BuiltIn::of("string_to_array", &[TEXT, TEXT], Kind::TEXTS, parts).taking_null(),
    BuiltIn::of("string_to_array", &[TEXT, TEXT, TEXT], Kind::TEXTS, parts).taking_null(),
    BuiltIn::new("string_to_table", &[TEXT, TEXT], TEXT, Form::Elements(parts)).taking_null(),
    BuiltIn::new("string_to_table", &[TEXT, TEXT, TEXT], TEXT, Form::Elements(parts)).taking_null(),
    BuiltIn::of("trim_array", &[ANY_ARRAY, INT4], ANY_ARRAY, trim),
    BuiltIn::new("unnest", &[ANY_ARRAY], Kind::AnyElement, Form::Rows(TableFunction::Unnest)),
    BuiltIn::of("width_bucket", &[ELEMENT, ARRAY], INT4, bucket),
];

const fn series(arguments: &'static [Kind], result: Kind, of: SeriesOf) -> BuiltIn {
    BuiltIn::new("generate_series", arguments, result, Form::Rows(TableFunction::Series(of)))
}

/// Returns a bound of the first dimension; NULL for any other dimension, and for an empty array.
fn bound(call: &Call, bound: usize) -> Evaluated {
    let is_absent = call.int(1) != 1 || call.elements(0).is_empty();
    Ok(if is_absent { Datum::Null } else { Datum::Int(bound as i64) })
}

fn count(call: &Call, nulls: bool) -> Datum {
    Datum::Int((0..call.count()).filter(|index| call.is_null(*index) == nulls).count() as i64)
}

/// An array that is built piece by piece is not copied each time.
fn append(call: Call) -> Evaluated {
    let array = call.array(0);
    let length = array.map_or(0, |span| span.length as usize);
    call.machine.ask_elements(length + 1)?;
    Ok(call.machine.frame.arena.with_element(array, length, call.values[1]))
}

fn prepend(call: Call) -> Evaluated {
    let mut elements = vec![call.values[0]];
    elements.extend_from_slice(call.elements(1));
    call.made_array(&elements)
}

fn join(call: Call) -> Evaluated {
    match (call.array(0), call.array(1)) {
        (None, _) => Ok(call.values[1]),
        (_, None) => Ok(call.values[0]),
        _ => {
            call.machine.ask_elements(call.elements(0).len() + call.elements(1).len())?;
            let elements = [call.elements(0), call.elements(1)].concat();
            call.made_array(&elements)
        }
    }
}

fn fill(call: Call) -> Evaluated {
    let length = match call.elements(1) {
        _ if call.is_null(1) => {
            let message = "dimension array or low bound array cannot be null";
            return Err(SqlError::new("22004", message).into());
        }
        [] => 0,
        [Datum::Int(length)] => usize::try_from(*length)
            .map_err(|_| SqlError::new("54000", "array size exceeds the maximum allowed (134217727)"))?,
        [Datum::Null, ..] => {
            return Err(SqlError::new("22004", "dimension values cannot be null").into());
        }
        _ => return Err(SqlError::new("0A000", "an array of several dimensions is not supported").into()),
    };
    call.machine.ask_elements(length)?;
    let elements = vec![call.values[0]; length];
    call.made_array(&elements)
}

/// Returns whether an array has an element that is equal to a value. NULL equals no value.
fn has(call: &Call, index: usize, value: Datum) -> bool {
    !value.is_null() && call.elements(index).iter().any(|element| is_same(call, *element, value))
}

/// Returns whether one array has all elements of another one.
fn contains(call: &Call, whole: usize, part: usize) -> Datum {
    Datum::boolean(call.elements(part).iter().all(|element| has(call, whole, *element)))
}

/// Returns whether an element is the same as a value; NULL is the same as NULL.
fn is_same(call: &Call, element: Datum, value: Datum) -> bool {
    match (element.is_null(), value.is_null()) {
        (false, false) => {
            let class = CompareClass::of(call.element);
            compare(class, element, value, &call.machine.frame.arena) == Ordering::Equal
        }
        (a, b) => a && b,
    }
}

fn positions_of(call: &Call) -> impl Iterator<Item = usize> {
    let value = call.values[1];
    let elements = call.elements(0).iter().enumerate();
    elements.filter(move |(_, element)| is_same(call, **element, value)).map(|(index, _)| index + 1)
}

fn position(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let start = match call.values.get(2) {
        Some(Datum::Int(start)) => *start,
        Some(_) => return Err(SqlError::new("22004", "initial position must not be null").into()),
        None => 1,
    };
    let found = positions_of(&call).find(|found_at| *found_at as i64 >= start);
    Ok(found.map_or(Datum::Null, |found_at| Datum::Int(found_at as i64)))
}

fn positions(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let found: Vec<Datum> = positions_of(&call).map(|found_at| Datum::Int(found_at as i64)).collect();
    call.made_array(&found)
}

fn remove(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let kept = |element: &&Datum| !is_same(&call, **element, call.values[1]);
    let elements: Vec<Datum> = call.elements(0).iter().filter(kept).copied().collect();
    call.made_array(&elements)
}

fn replace(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let replaced =
        |element: &Datum| if is_same(&call, *element, call.values[1]) { call.values[2] } else { *element };
    let elements: Vec<Datum> = call.elements(0).iter().map(replaced).collect();
    call.made_array(&elements)
}

/// `array_to_string(array, separator, text for NULL)`. NULLs are left out if there is no text for them.
fn to_text(mut call: Call) -> Evaluated {
    if call.is_null(0) || call.is_null(1) {
        return Ok(Datum::Null);
    }
    let for_null = if call.count() > 2 && !call.is_null(2) { Some(call.bytes(2).to_vec()) } else { None };
    let mut texts = Vec::new();
    for element in call.elements(0).to_vec() {
        if !element.is_null() {
            texts.push(call.printed(element)?);
        } else if let Some(text) = &for_null {
            texts.push(text.clone());
        }
    }
    call.ask(texts.iter().map(|text| text.len() + call.bytes(1).len()).sum())?;
    let joined = texts.join(call.bytes(1));
    call.made(joined)
}

/// `string_to_array(text, separator, text of NULL)`. A separator that is NULL splits the text into
/// characters.
fn parts(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let text = call.text(0);
    let of_null = if call.count() > 2 && !call.is_null(2) { Some(call.text(2)) } else { None };
    let parts: Vec<String> = match call.is_null(1) {
        _ if text.is_empty() => Vec::new(),
        true => text.chars().map(String::from).collect(),
        false if call.text(1).is_empty() => vec![text.to_owned()],
        false => text.split(call.text(1)).map(str::to_owned).collect(),
    };
    let parts: Vec<_> =
        parts.into_iter().map(|part| (Some(part.as_str()) != of_null).then_some(part)).collect();
    call.made_texts(&parts)
}

fn trim(call: Call) -> Evaluated {
    let (elements, cut) = (call.elements(0), call.int(1));
    let kept = usize::try_from(cut).ok().and_then(|cut| elements.len().checked_sub(cut));
    let Some(kept) = kept else {
        let message = format!("number of elements to trim must be between 0 and {}", elements.len());
        return Err(SqlError::new("2202E", message).into());
    };
    let elements = elements[..kept].to_vec();
    call.made_array(&elements)
}

/// `width_bucket(value, lower bounds)`: the number of lower bounds up to the value.
fn bucket(call: Call) -> Evaluated {
    let (value, bounds) = (call.values[0], call.elements(1));
    if bounds.iter().any(|bound| bound.is_null()) {
        return Err(SqlError::new("22004", "thresholds array must not contain NULLs").into());
    }
    let class = CompareClass::of(call.element);
    let arena = &call.machine.frame.arena;
    let count = bounds.partition_point(|bound| compare(class, *bound, value, arena).is_le());
    Ok(Datum::Int(count as i64))
}
