//! How pieces of a procedure that run apart hand results of operations to each other.
//!
//! A piece has the control of the whole procedure around what it executes, so it meets the operations of other pieces where
//! these met them, equally often and in the same order. What the owner of an operation sent, one after the other, is
//! therefore what the others receive there.

use crate::OperationId;
use catalog::{Arena, Datum};

/// What a piece does where it meets an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Runs it.
    Run,
    /// Runs it, and sends what it found to other pieces.
    Send,
    /// Receives what another piece has sent.
    Receive,
}

/// What a piece sends and receives.
pub trait Tapes {
    /// What to do with an operation.
    fn part(&self, id: OperationId) -> Part;

    /// Sends one value of an operation.
    fn send(&mut self, id: OperationId, value: Datum, arena: &Arena);

    /// The next value that was sent of an operation, brought into an arena.
    fn receive(&mut self, id: OperationId, arena: &mut Arena) -> Datum;
}

/// Of a procedure that runs as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl Tapes for Whole {
    #[inline(always)]
    fn part(&self, _: OperationId) -> Part {
        Part::Run
    }

    fn send(&mut self, _: OperationId, _: Datum, _: &Arena) {}

    fn receive(&mut self, _: OperationId, _: &mut Arena) -> Datum {
        Datum::Null
    }
}
