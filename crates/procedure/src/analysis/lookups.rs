//! The statements that a piece executes, and the rows that it looks up ahead.

use super::program::Program;
use super::step::{Step, lowered};
use crate::execution::ahead::{Accesses, plan_lookups_of};
use crate::{CompiledSlot, OperationId, Statement};

/// Statements, and the point reads whose keys are known before the first statement runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookups {
    pub(super) body: Vec<Statement>,
    pub(super) ahead: Vec<OperationId>,
    /// Whether a loop looks rows up ahead while it runs. These rows replace those announced before.
    pub(super) has_loops: bool,
    /// The compiled code of the statements.
    pub(super) compiled: CompiledSlot,
}

impl Lookups {
    /// Lowers steps. Looks up rows ahead only for operations for which `runs` is true.
    pub(super) fn of(steps: &[Step], program: &Program, runs: &dyn Fn(OperationId) -> bool) -> Self {
        let mut body = lowered(steps);
        let accesses = Accesses { operations: &program.operations, queries: &[] };
        let ahead = plan_lookups_of(&mut body, accesses, runs);
        let has_loops = has_lookups(&body);
        Self { body, ahead, has_loops, compiled: CompiledSlot::default() }
    }

    /// Lowers the steps of one round, which are a loop of one round (`rounds.rs`). The value of the loop's
    /// variable is known before the steps run, so the rows that the loop looks up are announced before, too.
    pub(super) fn of_round(steps: &[Step], program: &Program, runs: &dyn Fn(OperationId) -> bool) -> Self {
        let mut round = Self::of(steps, program, runs);
        if let Some(ahead) = ahead_of_last_loop(&mut round.body) {
            round.ahead.append(ahead);
        }
        round.has_loops = has_lookups(&round.body);
        round
    }
}

fn ahead_of_last_loop(statements: &mut [Statement]) -> Option<&mut Vec<OperationId>> {
    match statements.last_mut()? {
        Statement::Block { body, .. } => ahead_of_last_loop(body),
        Statement::ForRange { ahead, .. } => Some(ahead),
        _ => None,
    }
}

fn has_lookups(statements: &[Statement]) -> bool {
    let mut found = false;
    Statement::walk(statements, &mut |statement| {
        found |= matches!(statement, Statement::ForRange { ahead, .. } if !ahead.is_empty());
    });
    found
}
