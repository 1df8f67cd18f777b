//! The arguments of the calls of a batch, decoded once for all pieces of a call.

use catalog::{Arena, Datum, Span};
use procedure::{Machine, Register};

/// The arguments of the calls that have several pieces.
#[derive(Default)]
pub(crate) struct Arguments {
    /// By transaction; `None` if its arguments are not kept.
    kept: Vec<Option<Kept>>,
    values: Vec<Datum>,
    arena: Arena,
}

/// The arguments of a call.
#[derive(Clone, Copy)]
struct Kept {
    /// The index of the first one.
    first: u32,
    /// The elements of its arrays in the arena, from the first one to the one behind the last. Empty if an
    /// element refers to something else in the arena.
    elements: (u32, u32),
    /// Where they end in the call's record, if that is known. Witness values follow there.
    end: Option<u32>,
}

impl Kept {
    /// Copies all elements of its arrays into an arena at once. Returns the place of the first one there.
    #[inline]
    fn copy_elements(self, from: &Arena, to: &mut Arena) -> Option<u32> {
        let (first, end) = self.elements;
        let elements = &from.all_elements()[first as usize..end as usize];
        match to.push_array(elements) {
            Datum::Array(span) if !elements.is_empty() => Some(span.start),
            _ => None,
        }
    }
}

impl Arguments {
    /// Returns no arguments, for a number of transactions.
    pub(crate) fn of(transactions: usize) -> Self {
        Self { kept: vec![None; transactions], ..Self::default() }
    }

    /// Keeps the arguments of a call, which are in registers, and end somewhere in its record.
    pub(crate) fn keep(
        &mut self,
        transaction: u32,
        inputs: &[Option<Register>],
        end: Option<usize>,
        machine: &Machine,
    ) {
        let (first, start) = (self.values.len() as u32, self.arena.all_elements().len());
        for input in inputs {
            let value = input.map_or(Datum::Null, |register| machine.get(register));
            let value = self.arena.adopt(value, &machine.frame.arena);
            self.values.push(value);
        }
        let elements = &self.arena.all_elements()[start..];
        let is_plain = elements.iter().all(Datum::is_plain);
        let elements = if is_plain { (start as u32, (start + elements.len()) as u32) } else { (0, 0) };
        self.kept[transaction as usize] = Some(Kept { first, elements, end: end.map(|end| end as u32) });
    }

    /// Returns where the witness values of a call begin in its record, if its arguments are kept.
    #[inline]
    pub(crate) fn end(&self, transaction: u32) -> Option<usize> {
        self.kept.get(transaction as usize)?.as_ref()?.end.map(|end| end as usize)
    }

    /// Puts some arguments of a call into registers; returns false if they are not kept.
    #[inline]
    pub(crate) fn load(&self, transaction: u32, inputs: &[(usize, Register)], machine: &mut Machine) -> bool {
        let Some(Some(kept)) = self.kept.get(transaction as usize) else { return false };
        let copied = kept.copy_elements(&self.arena, &mut machine.frame.arena);
        for (index, register) in inputs {
            let value = match (self.values[kept.first as usize + index], copied) {
                (Datum::Array(span), Some(start)) => {
                    Datum::Array(Span { start: start + span.start - kept.elements.0, ..span })
                }
                (value, _) => machine.frame.arena.adopt(value, &self.arena),
            };
            machine.set(*register, value);
        }
        true
    }
}
