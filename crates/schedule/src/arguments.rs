//! The arguments of the calls of a batch, decoded once for all pieces of a call.

use catalog::{Arena, Datum};
use procedure::{Machine, Register};

/// The arguments of the calls that have several pieces.
#[derive(Default)]
pub(crate) struct Arguments {
    /// By transaction, where its arguments begin; `None` if they are not kept.
    starts: Vec<Option<u32>>,
    values: Vec<Datum>,
    arena: Arena,
}

impl Arguments {
    /// Returns no arguments, for a number of transactions.
    pub(crate) fn of(transactions: usize) -> Self {
        Self { starts: vec![None; transactions], ..Self::default() }
    }

    /// Keeps the arguments of a call, which are in registers.
    pub(crate) fn keep(&mut self, transaction: u32, inputs: &[Option<Register>], machine: &Machine) {
        self.starts[transaction as usize] = Some(self.values.len() as u32);
        for input in inputs {
            let value = input.map_or(Datum::Null, |register| machine.get(register));
            let value = self.arena.adopt(value, &machine.frame.arena);
            self.values.push(value);
        }
    }

    /// Puts some arguments of a call into registers; returns false if they are not kept.
    #[inline]
    pub(crate) fn load(&self, transaction: u32, inputs: &[(usize, Register)], machine: &mut Machine) -> bool {
        let Some(Some(start)) = self.starts.get(transaction as usize) else { return false };
        for (index, register) in inputs {
            let value = self.values[*start as usize + index];
            let value = machine.frame.arena.adopt(value, &self.arena);
            machine.set(*register, value);
        }
        true
    }
}
