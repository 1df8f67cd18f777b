//! The arguments of the calls of a batch, decoded once for all pieces of a call.

use catalog::{Arena, Datum};
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
    /// Where they end in the call's record, if that is known. Witness values follow there.
    end: Option<u32>,
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
        let kept = Kept { first: self.values.len() as u32, end: end.map(|end| end as u32) };
        self.kept[transaction as usize] = Some(kept);
        for input in inputs {
            let value = input.map_or(Datum::Null, |register| machine.get(register));
            let value = self.arena.adopt(value, &machine.frame.arena);
            self.values.push(value);
        }
    }

    /// Returns where the witness values of a call begin in its record, if its arguments are kept.
    #[inline]
    pub(crate) fn end(&self, transaction: u32) -> Option<usize> {
        self.kept.get(transaction as usize)?.as_ref()?.end.map(|end| end as usize)
    }

    /// Puts some arguments of a call into registers; returns false if they are not kept.
    #[inline]
    pub(crate) fn load(&self, transaction: u32, inputs: &[(usize, Register)], machine: &mut Machine) -> bool {
        let Some(Some(Kept { first, .. })) = self.kept.get(transaction as usize) else { return false };
        for (index, register) in inputs {
            let value = self.values[*first as usize + index];
            let value = machine.frame.arena.adopt(value, &self.arena);
            machine.set(*register, value);
        }
        true
    }
}
