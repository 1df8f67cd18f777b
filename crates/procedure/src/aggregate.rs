//! Aggregates over the rows of a SELECT.

use crate::expression::compare;
use crate::{Aggregate, AggregateFunction, Failure, Machine};
use catalog::{Datum, Decimal};
use std::collections::HashSet;

/// A running aggregate.
pub(crate) struct Accumulator {
    count: i64,
    sum: Decimal,
    double: f64,
    best: Datum,
    seen: HashSet<Vec<u8>>,
}

impl Accumulator {
    pub(crate) fn new() -> Self {
        Self { count: 0, sum: Decimal::from_int(0), double: 0.0, best: Datum::Null, seen: HashSet::new() }
    }

    /// Takes the row that the registers hold.
    pub(crate) fn add(&mut self, aggregate: &Aggregate, machine: &mut Machine) -> Result<(), Failure> {
        let Some(argument) = &aggregate.argument else {
            self.count += 1;
            return Ok(());
        };
        let value = argument.evaluate(machine)?;
        if value.is_null() || aggregate.distinct && !self.is_new(value, aggregate.scale, machine) {
            return Ok(());
        }
        self.count += 1;
        match (aggregate.function, value) {
            (AggregateFunction::Count, _) => {}
            (AggregateFunction::Min | AggregateFunction::Max, _) => {
                let replaces = self.best.is_null() || {
                    let order = compare(aggregate.class, value, self.best, machine);
                    if aggregate.function == AggregateFunction::Min { order.is_lt() } else { order.is_gt() }
                };
                if replaces {
                    self.best = value;
                }
            }
            (_, Datum::Double(value)) => self.double += value,
            _ => {
                if let Some(decimal) = machine.arena.decimal(value, aggregate.scale) {
                    self.sum = self.sum.plus(decimal)?;
                }
            }
        }
        Ok(())
    }

    fn is_new(&mut self, value: Datum, scale: u8, machine: &Machine) -> bool {
        let bytes = match value {
            Datum::Int(value) => value.to_le_bytes().to_vec(),
            Datum::Double(value) => value.to_bits().to_le_bytes().to_vec(),
            Datum::Wide(_) => {
                let text = machine.arena.decimal(value, scale).map(|d| d.to_string()).unwrap_or_default();
                text.trim_end_matches('0').trim_end_matches('.').as_bytes().to_vec()
            }
            other => machine.arena.datum_bytes(other).to_vec(),
        };
        self.seen.insert(bytes)
    }

    /// The result; of no rows it is NULL, or 0 for a count.
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
            AggregateFunction::SumDecimal => machine.arena.push_decimal(self.sum),
            AggregateFunction::AverageDecimal => {
                let mean = self.sum.over(Decimal::from_int(self.count))?;
                machine.arena.push_decimal(mean)
            }
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::Count => self.best,
        })
    }
}
