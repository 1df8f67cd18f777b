//! The input of a compiler.

use super::code::Code;
use crate::{OperationId, Part, Procedure, Register, Witnessed};

/// The input of a compiler.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The code.
    pub code: Code<'a>,
    /// The number of its registers.
    pub registers: usize,
    /// The registers that are read after it has run.
    pub outputs: &'a [Register],
    /// The part of the code in an operation: it runs it, sends its results, or receives them.
    pub part: &'a dyn Fn(OperationId) -> Part,
}

impl Procedure {
    /// Calls a compiler with the source of the procedure.
    pub fn with_source<R>(&self, compile: impl FnOnce(Source<'_>) -> R) -> R {
        let outputs: Vec<Register> = self.outputs().map(|(_, register, _)| register).collect();
        let witnesses = self.witnesses.of(Witnessed::NEWEST);
        let is_witness =
            |id: OperationId| witnesses.get(id.0 as usize).is_some_and(|registers| !registers.is_empty());
        let part = |id| if is_witness(id) { Part::Send } else { Part::Run };
        compile(Source { code: self.into(), registers: self.registers.len(), outputs: &outputs, part: &part })
    }
}
