//! Aggregates over the rows of a SELECT.
//!
//! An accumulator copies the values that it needs, because the next row overwrites the registers.

use crate::ir::compare::compare_across;
use crate::query::{Buffer, write_distinct, write_equal};
use crate::values::doubles::{arithmetic, real_arithmetic};
use crate::values::ordered;
use crate::values::statistics::{DoubleSums, Statistic, of_numerics};
use crate::{Aggregate, AggregateFunction, ArithmeticOperator, CompareClass, Failure, Machine, SqlError};
use catalog::{Arena, Datum, Interval, Numeric};
use std::collections::HashSet;

/// A running aggregate.
pub(crate) struct Accumulator {
    count: i64,
    sum: Numeric,
    double: f64,
    /// The least or greatest value so far, or the result of `bool_and` and `bool_or`.
    best: Datum,
    /// Holds `best`.
    arena: Arena,
    /// The encoded values so far, for DISTINCT.
    seen: HashSet<Vec<u8>>,
    /// The values with their second arguments and sort keys, for aggregates that sort them.
    rows: Option<Box<Buffer>>,
    /// The sum of the squares of exact numbers, and the sums of doubles, for statistics.
    statistics: Option<Box<(Numeric, DoubleSums)>>,
}

impl Accumulator {
    pub(crate) fn new() -> Self {
        Self {
            count: 0,
            sum: Numeric::from(0),
            double: 0.0,
            best: Datum::Null,
            arena: Arena::default(),
            seen: HashSet::new(),
            rows: None,
            statistics: None,
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
        let second = match &aggregate.second {
            Some(second) => second.evaluate(machine)?,
            None => Datum::Null,
        };
        let takes_null = aggregate.function == AggregateFunction::ArrayAgg || aggregate.function.makes_json();
        if value.is_null() && !takes_null {
            return Ok(());
        }
        if aggregate.distinct && !self.is_new([value, second], aggregate, machine) {
            return Ok(());
        }
        if let AggregateFunction::StatisticDecimal(_) | AggregateFunction::StatisticDouble(_) =
            aggregate.function
        {
            return self.add_statistic(aggregate, [value, second], machine);
        }
        self.count += 1;
        match (aggregate.function, value) {
            (AggregateFunction::Count, _) => {}
            (AggregateFunction::Min | AggregateFunction::Max, _) => {
                self.add_extreme(value, aggregate, machine);
            }
            (AggregateFunction::SumInterval | AggregateFunction::AverageInterval, _) => {
                self.add_interval(value, machine)?;
            }
            (AggregateFunction::BoolAnd, _) => {
                self.best = Datum::boolean(value.is_true() && self.best != Datum::Int(0));
            }
            (AggregateFunction::BoolOr, _) => {
                self.best = Datum::boolean(value.is_true() || self.best.is_true());
            }
            (AggregateFunction::BitAnd | AggregateFunction::BitOr | AggregateFunction::BitXor, _) => {
                self.best = match (self.best, value, aggregate.function) {
                    (Datum::Int(bits), Datum::Int(further), AggregateFunction::BitAnd) => {
                        Datum::Int(bits & further)
                    }
                    (Datum::Int(bits), Datum::Int(further), AggregateFunction::BitOr) => {
                        Datum::Int(bits | further)
                    }
                    (Datum::Int(bits), Datum::Int(further), _) => Datum::Int(bits ^ further),
                    (_, first, _) => first,
                };
            }
            (function, _) if function.is_list() => {
                self.keep(aggregate, [value, second], machine)?;
            }
            (_, Datum::Double(value)) => self.double = self.sum_with(aggregate.function, value)?,
            _ => {
                if let Some(value) = machine.frame.arena.numeric(value, aggregate.scale) {
                    self.sum = self.sum.plus(&value)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps a value if it is the least or the greatest one.
    fn add_extreme(&mut self, value: Datum, aggregate: &Aggregate, machine: &Machine) {
        let replaces = self.best.is_null() || {
            let best = (self.best, &self.arena);
            let order = compare_across(aggregate.class, (value, &machine.frame.arena), best);
            // As in PostgreSQL, the last one of equal intervals.
            let is_last = order.is_eq() && aggregate.class == CompareClass::Interval;
            let is_least = aggregate.function == AggregateFunction::Min;
            is_last || if is_least { order.is_lt() } else { order.is_gt() }
        };
        if replaces {
            self.arena.clear();
            self.best = self.arena.adopt(value, &machine.frame.arena);
        }
    }

    /// Returns the sum of doubles with one more, which has been counted.
    fn sum_with(&self, function: AggregateFunction, value: f64) -> Result<f64, Failure> {
        let sum = match function {
            // A sum begins with its first value, which may be a negative zero.
            AggregateFunction::SumDouble | AggregateFunction::SumReal if self.count == 1 => return Ok(value),
            AggregateFunction::SumReal => real_arithmetic(ArithmeticOperator::Add, self.double, value)?,
            _ => arithmetic(ArithmeticOperator::Add, self.double, value)?,
        };
        match sum {
            Datum::Double(sum) => Ok(sum),
            _ => unreachable!("the sum of doubles is one"),
        }
    }

    /// Adds an interval to the sum, which `best` holds.
    fn add_interval(&mut self, value: Datum, machine: &Machine) -> Result<(), Failure> {
        let interval = Interval::from_bytes(machine.frame.arena.datum_bytes(value));
        let sum = Interval::from_bytes(self.arena.datum_bytes(self.best));
        let sum = sum.plus(interval).map_err(SqlError::from)?;
        self.arena.clear();
        self.best = self.arena.push_bytes(&sum.to_bytes());
        Ok(())
    }

    /// Removes the row in the registers, which was added before. Only of an invertible aggregate.
    pub(crate) fn remove(&mut self, aggregate: &Aggregate, machine: &mut Machine) -> Result<(), Failure> {
        debug_assert!(aggregate.is_invertible());
        if let Some(filter) = &aggregate.filter
            && !filter.evaluate(machine)?.is_true()
        {
            return Ok(());
        }
        let Some(argument) = &aggregate.argument else {
            self.count -= 1;
            return Ok(());
        };
        let value = argument.evaluate(machine)?;
        if let Some(numeric) = machine.frame.arena.numeric(value, aggregate.scale)
            && aggregate.function != AggregateFunction::Count
        {
            self.sum = self.sum.minus(&numeric)?;
        }
        self.count -= i64::from(!value.is_null());
        Ok(())
    }

    /// Keeps a value with its second argument and its sort keys.
    fn keep(
        &mut self,
        aggregate: &Aggregate,
        [value, second]: [Datum; 2],
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        let mut row = vec![value];
        if aggregate.second.is_some() {
            row.push(second);
        }
        for key in &aggregate.order {
            row.push(key.value.evaluate(machine)?);
        }
        let rows = self.rows.get_or_insert_with(|| Box::new(Buffer::new(row.len())));
        rows.push(row, &machine.frame.arena)?;
        Ok(())
    }

    /// Adds a value, or Y and X, to the sums of a statistic.
    fn add_statistic(
        &mut self,
        aggregate: &Aggregate,
        [value, second]: [Datum; 2],
        machine: &Machine,
    ) -> Result<(), Failure> {
        if aggregate.second.is_some() && second.is_null() {
            return Ok(());
        }
        self.count += 1;
        let (squares, doubles) =
            &mut **self.statistics.get_or_insert_with(|| Box::new((Numeric::from(0), DoubleSums::default())));
        match (value, second) {
            (Datum::Double(y), Datum::Double(x)) => doubles.add_pair(y, x)?,
            (Datum::Double(value), _) => doubles.add(value)?,
            _ => {
                if let Some(value) = machine.frame.arena.numeric(value, aggregate.scale) {
                    self.sum = self.sum.plus(&value)?;
                    *squares = squares.plus(&value.times(&value)?)?;
                }
            }
        }
        Ok(())
    }

    fn is_new(&mut self, values: [Datum; 2], aggregate: &Aggregate, machine: &Machine) -> bool {
        let (mut bytes, arena) = (Vec::new(), &machine.frame.arena);
        for value in values {
            match aggregate.class {
                class @ (CompareClass::Json | CompareClass::Interval) => {
                    write_equal(value, class, true, arena, &mut bytes);
                }
                _ => write_distinct(value, arena, &mut bytes),
            }
        }
        self.seen.insert(bytes)
    }

    /// Returns whether no further row changes the result.
    pub(crate) fn is_final(&self, aggregate: &Aggregate) -> bool {
        aggregate.is_first && self.count > 0
    }

    /// Returns the result. Without rows it is NULL, or 0 for a count.
    pub(crate) fn finish(&self, aggregate: &Aggregate, machine: &mut Machine) -> Result<Datum, Failure> {
        if let AggregateFunction::Count | AggregateFunction::StatisticDouble(Statistic::RegrCount) =
            aggregate.function
        {
            return Ok(Datum::Int(self.count));
        }
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        Ok(match aggregate.function {
            AggregateFunction::SumInt => Datum::Int(self.sum.to_int()?),
            AggregateFunction::SumDouble | AggregateFunction::SumReal => Datum::Double(self.double),
            AggregateFunction::AverageDouble => Datum::Double(self.double / self.count as f64),
            AggregateFunction::SumDecimal => machine.frame.arena.push_numeric(self.sum.clone()),
            AggregateFunction::AverageDecimal => {
                let mean = self.sum.over(&Numeric::from(self.count))?;
                machine.frame.arena.push_numeric(mean)
            }
            function if function.is_list() => match &self.rows {
                Some(rows) => ordered::result(aggregate, rows, machine)?,
                None => Datum::Null,
            },
            AggregateFunction::StatisticDecimal(statistic) => {
                let squares = self.statistics.as_ref().map_or(Numeric::from(0), |sums| sums.0.clone());
                of_numerics(statistic, self.count, [&self.sum, &squares], &mut machine.frame.arena)?
            }
            AggregateFunction::StatisticDouble(statistic) => {
                self.statistics.as_ref().map_or(Datum::Null, |sums| sums.1.result(statistic))
            }
            AggregateFunction::AverageInterval => {
                let sum = Interval::from_bytes(self.arena.datum_bytes(self.best));
                let mean = sum.divided(self.count as f64).map_err(SqlError::from)?;
                machine.frame.arena.push_bytes(&mean.to_bytes())
            }
            _ => machine.frame.arena.adopt(self.best, &self.arena),
        })
    }
}
