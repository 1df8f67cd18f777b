//! The state that compiled code and its host share during one execution.
//!
//! Invariant: `registers` and `elements` are valid whenever code runs. Held by: `Context::refresh`, which
//! every host call runs that may move them.
#![allow(unsafe_code)]

use catalog::Datum;
use procedure::{Expression, Failure, Host, Machine, Statement};
use std::any::Any;

/// The parts of a procedure that the host applies or interprets, by number.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) expressions: Vec<Expression>,
    pub(crate) statements: Vec<Statement>,
}

/// What code reads at fixed offsets comes first.
#[repr(C)]
pub(crate) struct Context<'a> {
    /// The registers of the running procedure.
    registers: *mut Datum,
    /// The elements of all arrays of the arena.
    elements: *const Datum,
    /// Number of rounds of loops so far.
    rounds: u64,
    /// The value of an expression.
    pub(crate) result: Datum,
    runs_in: RunsIn<'a>,
    pub(crate) parts: &'a Parts,
    /// Why the code has ended early.
    pub(crate) failure: Option<Failure>,
    /// A panic of the host, which goes on when the code has returned.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// What code runs in.
pub(crate) enum RunsIn<'a> {
    /// An execution. Code of statements and operations needs one.
    Host(&'a mut dyn Host),
    /// A machine alone, which evaluates an expression.
    Machine(&'a mut Machine),
}

/// Offset of the pointer to the registers, in bytes.
pub(crate) const REGISTERS: i32 = 0;
/// Offset of the pointer to the elements, in bytes.
pub(crate) const ELEMENTS: i32 = 8;
/// Offset of the number of rounds, in bytes.
pub(crate) const ROUNDS: i32 = 16;
/// Offset of the value of an expression, in bytes.
pub(crate) const RESULT: i32 = 24;

const _: () = assert!(std::mem::offset_of!(Context<'static>, result) == RESULT as usize);
const _: () = assert!(std::mem::offset_of!(Context<'static>, registers) == REGISTERS as usize);
const _: () = assert!(std::mem::offset_of!(Context<'static>, elements) == ELEMENTS as usize);
const _: () = assert!(std::mem::offset_of!(Context<'static>, rounds) == ROUNDS as usize);

impl<'a> Context<'a> {
    pub(crate) fn new(runs_in: RunsIn<'a>, parts: &'a Parts) -> Self {
        let mut context = Self {
            registers: std::ptr::null_mut(),
            elements: std::ptr::null(),
            rounds: 0,
            result: Datum::Null,
            runs_in,
            parts,
            failure: None,
            panic: None,
        };
        context.refresh();
        context
    }

    /// Returns the execution that the code of statements runs in.
    #[inline(always)]
    pub(crate) fn host(&mut self) -> &mut dyn Host {
        match &mut self.runs_in {
            RunsIn::Host(host) => *host,
            RunsIn::Machine(_) => unreachable!("the code of an expression runs no statement"),
        }
    }

    /// Returns the machine.
    #[inline(always)]
    pub(crate) fn machine(&mut self) -> &mut Machine {
        match &mut self.runs_in {
            RunsIn::Host(host) => host.machine(),
            RunsIn::Machine(machine) => machine,
        }
    }

    /// Finds the registers and elements again, which may have moved.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let frame = &mut self.machine().frame;
        let (elements, registers) = (frame.arena.all_elements().as_ptr(), frame.registers().as_mut_ptr());
        (self.elements, self.registers) = (elements, registers);
    }
}
