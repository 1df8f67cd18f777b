//! Aggregates whose rows are sorted: lists of values, JSON, percentiles, the most frequent value.

use crate::query::{Buffer, compare_keys};
use crate::values::functions::json_key;
use crate::{Aggregate, AggregateFunction, Machine, SqlError};
use catalog::{Datum, Json, push_json_string};

/// Returns the result of an aggregate of kept rows. A row is the argument, the second argument, if there is
/// one, and the sort keys.
pub(crate) fn result(aggregate: &Aggregate, rows: &Buffer, machine: &mut Machine) -> Result<Datum, SqlError> {
    // The order of the rows, and the temporary memory of the sort.
    machine.ask_kept(rows.len() * size_of::<(usize, Datum)>())?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let keys = 1 + usize::from(aggregate.second.is_some());
    order.sort_by(|a, b| compare_keys(&aggregate.order, &rows.row(*a)[keys..], &rows.row(*b)[keys..], rows));
    match aggregate.function {
        AggregateFunction::ArrayAgg => {
            machine.ask_memory(rows.arena.bytes_used() + rows.len() * size_of::<Datum>())?;
            let adopt = |row: usize| machine.frame.arena.adopt(rows.row(row)[0], &rows.arena);
            let elements: Vec<Datum> = order.into_iter().map(adopt).collect();
            Ok(machine.frame.arena.push_array(&elements))
        }
        AggregateFunction::StringAgg => concatenated(aggregate, rows, &order, machine),
        function if function.makes_json() => {
            machine.ask_text(rows.arena.bytes_used())?;
            let text = json_of(function, order, rows)?;
            Ok(machine.frame.arena.push_bytes(text.as_bytes()))
        }
        AggregateFunction::Mode => {
            Ok(machine.frame.arena.adopt(most_frequent(aggregate, rows, &order), &rows.arena))
        }
        function => {
            let is_between = function == AggregateFunction::PercentileCont;
            let Some(first) = order.first() else { return Ok(Datum::Null) };
            let Datum::Array(fractions) = rows.row(*first)[1] else {
                let value = percentile(rows, &order, rows.row(*first)[1], is_between)?;
                return Ok(machine.frame.arena.adopt(value, &rows.arena));
            };
            let mut values = Vec::new();
            for fraction in rows.arena.elements(fractions) {
                let value = percentile(rows, &order, *fraction, is_between)?;
                machine.ask_memory(rows.arena.bytes_used() / rows.len() + size_of::<Datum>())?;
                values.push(machine.frame.arena.adopt(value, &rows.arena));
            }
            Ok(machine.frame.arena.push_array(&values))
        }
    }
}

/// Returns the values, concatenated.
fn concatenated(
    aggregate: &Aggregate,
    rows: &Buffer,
    order: &[usize],
    machine: &mut Machine,
) -> Result<Datum, SqlError> {
    let bytes = rows.arena.bytes_used();
    machine.ask_text(bytes)?;
    Ok(machine.frame.arena.build_bytes(|out| {
        out.reserve(bytes);
        for (index, row) in order.iter().enumerate() {
            let row = rows.row(*row);
            if index > 0 && aggregate.second.is_some() {
                out.extend_from_slice(rows.arena.datum_bytes(row[1]));
            }
            out.extend_from_slice(rows.arena.datum_bytes(row[0]));
        }
    }))
}

/// Returns the value at a fraction of the rows, or between the values of two rows.
fn percentile(rows: &Buffer, order: &[usize], fraction: Datum, is_between: bool) -> Result<Datum, SqlError> {
    let Datum::Double(fraction) = fraction else { return Ok(Datum::Null) };
    if !(0.0..=1.0).contains(&fraction) {
        let message = format!("percentile value {fraction} is not between 0 and 1");
        return Err(SqlError::new("22003", message));
    }
    let value = |index: usize| rows.row(order[index])[0];
    if !is_between {
        return Ok(value((fraction * rows.len() as f64).ceil().max(1.0) as usize - 1));
    }
    let position = fraction * (order.len() - 1) as f64;
    Ok(match (value(position.floor() as usize), value(position.ceil() as usize)) {
        (Datum::Double(below), Datum::Double(above)) if position.floor() != position.ceil() => {
            Datum::Double(below + (position - position.floor()) * (above - below))
        }
        (below, _) => below,
    })
}

/// Returns the value that most rows have, the first of them in the order.
fn most_frequent(aggregate: &Aggregate, rows: &Buffer, order: &[usize]) -> Datum {
    let keys = 1 + usize::from(aggregate.second.is_some());
    let is_equal = |a: &usize, b: &usize| {
        compare_keys(&aggregate.order, &rows.row(*a)[keys..], &rows.row(*b)[keys..], rows).is_eq()
    };
    let mut best: &[usize] = &[];
    for run in order.chunk_by(is_equal) {
        if run.len() > best.len() {
            best = run;
        }
    }
    best.first().map_or(Datum::Null, |row| rows.row(*row)[0])
}

/// Returns rows of values that are JSON, or of keys and values, as one JSON.
fn json_of(function: AggregateFunction, order: Vec<usize>, rows: &Buffer) -> Result<String, SqlError> {
    let json = |datum: Datum| match datum {
        Datum::Null => "null".into(),
        datum => String::from_utf8_lossy(rows.arena.datum_bytes(datum)),
    };
    let is_object = matches!(function, AggregateFunction::JsonObject | AggregateFunction::JsonbObject);
    let mut out = String::from(if is_object { "{ " } else { "[" });
    for (index, row) in order.into_iter().enumerate() {
        let row = rows.row(row);
        out.push_str(if index > 0 { ", " } else { "" });
        if is_object {
            if row[0].is_null() {
                return Err(SqlError::new("22023", "field name must not be null"));
            }
            push_json_string(&json_key(&json(row[0])).map_err(|error| *error)?, &mut out);
            out.push_str(" : ");
            out.push_str(&json(row[1]));
            continue;
        }
        if index > 0 && function == (AggregateFunction::JsonArray { in_lines: true }) {
            out.push_str("\n ");
        }
        out.push_str(&json(row[0]));
    }
    out.push_str(if is_object { " }" } else { "]" });
    Ok(match function {
        AggregateFunction::JsonbArray | AggregateFunction::JsonbObject => Json::read(&out)?.text(),
        _ => out,
    })
}
