//! Groups rows by keys, also by several sets of keys.

use super::buffer::Buffer;
use super::key::write_distinct;
use super::run::{Sink, check_cancelled, run};
use super::{GroupingSet, Plan};
use crate::execution::rows::{Flow, add_row};
use crate::values::aggregate::Accumulator;
use crate::{Aggregate, Expression, Failure, Machine, Register, Transaction};
use catalog::Datum;
use std::collections::HashMap;

/// The keys that define the groups.
#[derive(Clone, Copy)]
pub(super) struct Keys<'p> {
    pub(super) values: &'p [(Register, Expression)],
    /// Keys whose equal values have different forms: the index of each, and the compared form, from its
    /// register.
    pub(super) forms: &'p [(usize, Expression)],
    pub(super) sets: &'p [GroupingSet],
}

impl Keys<'_> {
    /// Sets `forms` to the compared forms of the values.
    fn write_forms(
        self,
        values: &[Datum],
        forms: &mut Vec<Datum>,
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        forms.clear();
        forms.extend_from_slice(values);
        for (index, form) in self.forms {
            machine.set(self.values[*index].0, values[*index]);
            forms[*index] = form.evaluate(machine)?;
        }
        Ok(())
    }
}

/// The groups so far.
struct Groups<'p> {
    aggregates: &'p [Aggregate],
    /// The index of each group, by its set and its keys.
    indexes: HashMap<Vec<u8>, usize>,
    /// The keys of each group.
    rows: Buffer,
    /// For each group, its aggregates.
    running: Vec<Accumulator>,
    /// For each group, its set; empty where there is one.
    sets: Vec<u32>,
    is_split: bool,
    key: Vec<u8>,
}

impl Groups<'_> {
    /// Adds a group.
    fn begin(&mut self, set: u32, keys: &[Datum], machine: &Machine) -> Result<usize, Failure> {
        self.rows.push(keys.iter().copied(), &machine.frame.arena)?;
        self.running.extend(self.aggregates.iter().map(|_| Accumulator::new()));
        if self.is_split {
            self.sets.push(set);
        }
        Ok(self.rows.len() - 1)
    }

    /// Adds the row in the registers to the group of these keys, which are compared by their forms.
    fn add(
        &mut self,
        set: u32,
        keys: &[Datum],
        forms: &[Datum],
        machine: &mut Machine,
    ) -> Result<Flow, Failure> {
        self.key.clear();
        if self.is_split {
            self.key.extend_from_slice(&set.to_le_bytes());
        }
        forms.iter().for_each(|value| write_distinct(*value, &machine.frame.arena, &mut self.key));
        let group = match self.indexes.get(&self.key) {
            Some(group) => *group,
            None => {
                let group = self.begin(set, keys, machine)?;
                self.indexes.insert(self.key.clone(), group);
                group
            }
        };
        self.add_to(group, machine)
    }

    /// Adds the group of a set without keys.
    fn begin_whole(&mut self, set: u32, keys: usize, machine: &Machine) -> Result<(), Failure> {
        let nulls = vec![Datum::Null; keys];
        let group = self.begin(set, &nulls, machine)?;
        let mut key = set.to_le_bytes().to_vec();
        nulls.iter().for_each(|value| write_distinct(*value, &machine.frame.arena, &mut key));
        self.indexes.insert(key, group);
        Ok(())
    }

    fn add_to(&mut self, group: usize, machine: &mut Machine) -> Result<Flow, Failure> {
        let count = self.aggregates.len();
        add_row(&mut self.running[group * count..][..count], self.aggregates, machine)
    }

    /// Passes the groups to the sink, set by set.
    fn pass_on<D: Transaction>(
        self,
        keys: &[(Register, Expression)],
        sets: &[GroupingSet],
        machine: &mut Machine,
        data: &mut D,
        sink: &mut Sink<'_, D>,
    ) -> Result<Flow, Failure> {
        let registers: Vec<_> = keys.iter().map(|(register, _)| *register).collect();
        let mut order: Vec<usize> = (0..self.sets.len()).collect();
        order.sort_by_key(|row| self.sets[*row]);
        for position in 0..self.rows.len() {
            let row = order.get(position).copied().unwrap_or(position);
            check_cancelled(machine)?;
            let mark = machine.frame.arena.mark();
            self.rows.load(row, &registers, machine);
            if let Some(set) = self.sets.get(row) {
                let set = &sets[*set as usize];
                set.marks.iter().for_each(|(register, mark)| machine.set(*register, Datum::Int(*mark)));
            }
            let count = self.aggregates.len();
            let running = &self.running[row * count..][..count];
            for (accumulator, aggregate) in running.iter().zip(self.aggregates) {
                let value = accumulator.finish(aggregate, machine)?;
                machine.set(aggregate.target, value);
            }
            let flow = sink(machine, data)?;
            machine.frame.arena.release(mark);
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Runs a node of groups. Groups of one set come in the order of their first rows, and sets one after the
/// other.
pub(super) fn run_group<D: Transaction>(
    input: &Plan,
    by: Keys<'_>,
    aggregates: &[Aggregate],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Keys { values: keys, sets, .. } = by;
    let mut groups = Groups {
        aggregates,
        indexes: HashMap::new(),
        rows: Buffer::new(keys.len()),
        running: Vec::new(),
        sets: Vec::new(),
        is_split: !sets.is_empty(),
        key: Vec::new(),
    };
    let (mut members, mut values, mut forms) = (Vec::new(), Vec::new(), Vec::new());
    if keys.is_empty() && sets.is_empty() {
        groups.begin(0, &[], machine)?;
    }
    // A set without keys has one group, even if there are no rows.
    for (number, _) in sets.iter().enumerate().filter(|(_, set)| !set.has.contains(&true)) {
        groups.begin_whole(number as u32, keys.len(), machine)?;
    }
    run(input, machine, data, &mut |machine, _| {
        if keys.is_empty() && sets.is_empty() {
            return groups.add_to(0, machine);
        }
        values.clear();
        for (_, value) in keys {
            values.push(value.evaluate(machine)?);
        }
        if sets.is_empty() {
            by.write_forms(&values, &mut forms, machine)?;
            return groups.add(0, &values, &forms, machine);
        }
        for (number, set) in sets.iter().enumerate() {
            members.clear();
            members.extend(
                values.iter().zip(&set.has).map(|(value, has)| if *has { *value } else { Datum::Null }),
            );
            by.write_forms(&members, &mut forms, machine)?;
            groups.add(number as u32, &members, &forms, machine)?;
        }
        Ok(Flow::Continue)
    })?;
    groups.pass_on(keys, sets, machine, data, sink)
}
