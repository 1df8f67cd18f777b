//! Aggregates over the rows of a SELECT.
//!
//! An accumulator copies the values that it needs, because the next row overwrites the registers.

use crate::ir::expression::compare_across;
use crate::query::{Buffer, compare_keys, write_distinct, write_equal};
use crate::values::functions::json_key;
use crate::{Aggregate, AggregateFunction, CompareClass, Failure, Machine, SqlError};
use catalog::{Arena, Datum, Decimal, Json, push_json_string};
use std::collections::HashSet;

/// A running aggregate.
pub(crate) struct Accumulator {
    count: i64,
    sum: Decimal,
    double: f64,
    /// The least or greatest value so far, or the result of `bool_and` and `bool_or`.
    best: Datum,
    /// Holds `best`.
    arena: Arena,
    /// The encoded values so far, for DISTINCT.
    seen: HashSet<Vec<u8>>,
    /// The values with their separators and sort keys, for `string_agg` and `array_agg`.
    rows: Option<Box<Buffer>>,
}

impl Accumulator {
    pub(crate) fn new() -> Self {
        Self {
            count: 0,
            sum: Decimal::from_int(0),
            double: 0.0,
            best: Datum::Null,
            arena: Arena::default(),
            seen: HashSet::new(),
            rows: None,
        }
    }

    /// Adds the row in the registers.
    pub(crate) fn add(&mut self, aggregate: &Aggregate, machine: &mut Machine) -> Result<(), Failure> {
        if let Some(filter) = &aggregate.filter
            && !filter.evaluate(machine)?.is_true()
        {
            return Ok(());
        }
        let Some(argument) = &aggregate.argument else {
            self.count += 1;
            return Ok(());
        };
        let value = argument.evaluate(machine)?;
        let takes_null = aggregate.function.is_list() && aggregate.function != AggregateFunction::StringAgg;
        if value.is_null() && !takes_null || aggregate.distinct && !self.is_new(value, aggregate, machine) {
            return Ok(());
        }
        self.count += 1;
        match (aggregate.function, value) {
            (AggregateFunction::Count, _) => {}
            (AggregateFunction::Min | AggregateFunction::Max, _) => {
                let replaces = self.best.is_null() || {
                    let best = (self.best, &self.arena);
                    let order = compare_across(aggregate.class, (value, &machine.frame.arena), best);
                    if aggregate.function == AggregateFunction::Min { order.is_lt() } else { order.is_gt() }
                };
                if replaces {
                    self.arena.clear();
                    self.best = self.arena.adopt(value, &machine.frame.arena);
                }
            }
            (AggregateFunction::BoolAnd, _) => {
                self.best = Datum::boolean(value.is_true() && self.best != Datum::Int(0));
            }
            (AggregateFunction::BoolOr, _) => {
                self.best = Datum::boolean(value.is_true() || self.best.is_true());
            }
            (function, _) if function.is_list() => {
                let mut row = vec![value];
                if let Some(separator) = &aggregate.separator {
                    row.push(separator.evaluate(machine)?);
                }
                for key in &aggregate.order {
                    row.push(key.value.evaluate(machine)?);
                }
                let rows = self.rows.get_or_insert_with(|| Box::new(Buffer::new(row.len())));
                rows.push(row, &machine.frame.arena)?;
            }
            (_, Datum::Double(value)) => self.double += value,
            _ => {
                if let Some(decimal) = machine.frame.arena.decimal(value, aggregate.scale) {
                    self.sum = self.sum.plus(decimal)?;
                }
            }
        }
        Ok(())
    }

    fn is_new(&mut self, value: Datum, aggregate: &Aggregate, machine: &Machine) -> bool {
        let mut bytes = Vec::new();
        match aggregate.class {
            CompareClass::Json => {
                write_equal(value, CompareClass::Json, true, &machine.frame.arena, &mut bytes);
            }
            _ => write_distinct(value, &machine.frame.arena, &mut bytes),
        }
        self.seen.insert(bytes)
    }

    /// Returns whether no further row changes the result.
    pub(crate) fn is_final(&self, aggregate: &Aggregate) -> bool {
        aggregate.is_first && self.count > 0
    }

    /// Returns the result. Without rows it is NULL, or 0 for a count.
    pub(crate) fn finish(&self, aggregate: &Aggregate, machine: &mut Machine) -> Result<Datum, Failure> {
        if aggregate.function == AggregateFunction::Count {
            return Ok(Datum::Int(self.count));
        }
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        Ok(match aggregate.function {
            AggregateFunction::SumInt => Datum::Int(self.sum.to_int()?),
            AggregateFunction::SumDouble => Datum::Double(self.double),
            AggregateFunction::AverageDouble => Datum::Double(self.double / self.count as f64),
            AggregateFunction::SumDecimal => machine.frame.arena.push_decimal(self.sum),
            AggregateFunction::AverageDecimal => {
                let mean = self.sum.over(Decimal::from_int(self.count))?;
                machine.frame.arena.push_decimal(mean)
            }
            function if function.is_list() => self.list(aggregate, machine)?,
            _ => machine.frame.arena.adopt(self.best, &self.arena),
        })
    }

    /// Returns all values in order, as an array or a text.
    fn list(&self, aggregate: &Aggregate, machine: &mut Machine) -> Result<Datum, SqlError> {
        let Some(rows) = &self.rows else { return Ok(Datum::Null) };
        // The order of the rows, and the temporary memory of the sort.
        machine.ask_kept(rows.len() * size_of::<(usize, Datum)>())?;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let keys = 1 + usize::from(aggregate.separator.is_some());
        order.sort_by(|a, b| {
            compare_keys(&aggregate.order, &rows.row(*a)[keys..], &rows.row(*b)[keys..], rows)
        });
        if aggregate.function == AggregateFunction::ArrayAgg {
            machine.ask_memory(rows.arena.bytes_used() + rows.len() * size_of::<Datum>())?;
            let adopt = |row: usize| machine.frame.arena.adopt(rows.row(row)[0], &rows.arena);
            let elements: Vec<Datum> = order.into_iter().map(adopt).collect();
            return Ok(machine.frame.arena.push_array(&elements));
        }
        let bytes = rows.arena.bytes_used();
        machine.ask_text(bytes)?;
        if aggregate.function.makes_json() {
            let text = json_of(aggregate.function, order, rows)?;
            return Ok(machine.frame.arena.push_bytes(text.as_bytes()));
        }
        Ok(machine.frame.arena.build_bytes(|out| {
            out.reserve(bytes);
            for (place, row) in order.into_iter().enumerate() {
                let row = rows.row(row);
                if place > 0 && aggregate.separator.is_some() {
                    out.extend_from_slice(rows.arena.datum_bytes(row[1]));
                }
                out.extend_from_slice(rows.arena.datum_bytes(row[0]));
            }
        }))
    }
}

/// Returns rows of values that are JSON, or of keys and values, as one JSON.
fn json_of(function: AggregateFunction, order: Vec<usize>, rows: &Buffer) -> Result<String, SqlError> {
    let json = |datum: Datum| match datum {
        Datum::Null => "null".into(),
        datum => String::from_utf8_lossy(rows.arena.datum_bytes(datum)),
    };
    let is_object = matches!(function, AggregateFunction::JsonObject | AggregateFunction::JsonbObject);
    let mut out = String::from(if is_object { "{ " } else { "[" });
    for (place, row) in order.into_iter().enumerate() {
        let row = rows.row(row);
        out.push_str(if place > 0 { ", " } else { "" });
        if is_object {
            if row[0].is_null() {
                return Err(SqlError::new("22023", "field name must not be null"));
            }
            push_json_string(&json_key(&json(row[0])).map_err(|error| *error)?, &mut out);
            out.push_str(" : ");
            out.push_str(&json(row[1]));
            continue;
        }
        if place > 0 && function == (AggregateFunction::JsonArray { in_lines: true }) {
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
