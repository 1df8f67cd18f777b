//! The state that compiled code and its host share during one execution.
//!
//! Invariant: `registers` and `elements` are valid whenever code runs. Held by: `Context::refresh`, which
//! every host call runs that may move them.
#![allow(unsafe_code)]

use catalog::Datum;
use procedure::{Expression, Failure, Host, Statement};
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
    pub(crate) host: &'a mut dyn Host,
    pub(crate) parts: &'a Parts,
    /// Why the code has ended early.
    pub(crate) failure: Option<Failure>,
    /// A panic of the host, which goes on when the code has returned.
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// Offset of the pointer to the registers, in bytes.
pub(crate) const REGISTERS: i32 = 0;
/// Offset of the pointer to the elements, in bytes.
pub(crate) const ELEMENTS: i32 = 8;
/// Offset of the number of rounds, in bytes.
pub(crate) const ROUNDS: i32 = 16;

const _: () = assert!(std::mem::offset_of!(Context<'static>, registers) == REGISTERS as usize);
const _: () = assert!(std::mem::offset_of!(Context<'static>, elements) == ELEMENTS as usize);
const _: () = assert!(std::mem::offset_of!(Context<'static>, rounds) == ROUNDS as usize);

impl<'a> Context<'a> {
    pub(crate) fn new(host: &'a mut dyn Host, parts: &'a Parts) -> Self {
        let mut context = Self {
            registers: std::ptr::null_mut(),
            elements: std::ptr::null(),
            rounds: 0,
            host,
            parts,
            failure: None,
            panic: None,
        };
        context.refresh();
        context
    }

    /// Finds the registers and elements again, which may have moved.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        let frame = &mut self.host.machine().frame;
        self.elements = frame.arena.all_elements().as_ptr();
        self.registers = frame.registers().as_mut_ptr();
    }
}
