//! The arguments of a call, which each execution of a statement evaluates.

use procedure::{Expression, Machine, SqlError};

/// The arguments of a call.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// Values, of the types of the procedure's inputs.
    values: Vec<Expression>,
    /// Number of registers that the evaluation needs; the first hold the statement's parameters.
    registers: usize,
    /// Whether they are the statement's parameters, in order and without a conversion.
    are_parameters: bool,
}

impl Arguments {
    pub(crate) fn new(values: Vec<Expression>, registers: usize, are_parameters: bool) -> Self {
        Self { values, registers, are_parameters }
    }

    /// Evaluates the arguments. `machine` has `registers` registers, and holds the statement's parameters in
    /// the first ones.
    ///
    /// # Errors
    /// The error of an expression.
    pub fn evaluate(&self, machine: &mut Machine) -> Result<Vec<catalog::Datum>, Box<SqlError>> {
        self.values.iter().map(|value| value.evaluate(machine)).collect()
    }

    /// Returns whether the arguments are the statement's parameters, in order and without a conversion.
    pub fn are_parameters(&self) -> bool {
        self.are_parameters
    }

    /// Returns the number of registers that the evaluation needs.
    pub fn registers(&self) -> usize {
        self.registers
    }
}
