//! Functions of rows side by side: in one list of targets, and in ROWS FROM.
//! Source: PostgreSQL 15, `nodeProjectSet.c`.

use super::Plan;
use super::buffer::Buffer;
use super::run::{Sink, check_cancelled, collect};
use crate::execution::rows::Flow;
use crate::{Failure, Machine, Register, Transaction};
use catalog::Datum;

/// One of the functions.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Makes its rows.
    pub plan: Plan,
    /// The registers of a row.
    pub registers: Vec<Register>,
}

/// Hands on as many rows as the longest has. One that has ended is NULL.
pub(super) fn together<D: Transaction>(
    parts: &[Beside],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let rows = parts.iter().map(|part| collect(&part.plan, &part.registers, machine, data));
    let rows: Vec<Buffer> = rows.collect::<Result<_, _>>()?;
    for row in 0..rows.iter().map(Buffer::len).max().unwrap_or(0) {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        for (part, rows) in parts.iter().zip(&rows) {
            if row < rows.len() {
                rows.load(row, &part.registers, machine);
            } else {
                part.registers.iter().for_each(|register| machine.set(*register, Datum::Null));
            }
        }
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
