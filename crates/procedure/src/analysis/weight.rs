//! The work of a piece, in operations, estimated from the call's arguments.

use super::need::Need;
use super::resolve::{Given, Resolver};
use super::step::Step;
use crate::{Expression, Machine, OperationId};
use catalog::Datum;

/// Assumed number of rounds of a loop whose bounds do not follow from the arguments.
const UNKNOWN_ROUNDS: u64 = 4;

/// A number of operations, as a function of the arguments.
#[derive(Clone, Debug, Default)]
pub struct Weight {
    /// For each operation, the bounds (least, greatest) of the loops around it, over the parameters; `None`
    /// for a loop whose bounds do not follow from them.
    operations: Vec<Vec<Option<(Expression, Expression)>>>,
}

impl Weight {
    pub(super) fn of(resolver: &Resolver<'_>, need: &Need) -> Self {
        let mut weight = Self::default();
        weight.add(resolver, need, &need.body, &mut Vec::new());
        weight
    }

    fn add(
        &mut self,
        resolver: &Resolver<'_>,
        need: &Need,
        statements: &[Step],
        around: &mut Vec<Option<(Expression, Expression)>>,
    ) {
        let runs = |id: &OperationId| need.executed.contains(id);
        for statement in statements {
            let bounds = match statement {
                Step::Execute(id) if runs(id) => {
                    self.operations.push(around.clone());
                    continue;
                }
                Step::ForRange { from, to, reverse, .. } => {
                    let (least, most) = if *reverse { (to, from) } else { (from, to) };
                    let bound = |value| Some(resolver.resolved(value, Given::ARGUMENTS)?.expression);
                    Some(bound(least).zip(bound(most)))
                }
                Step::ForRows { operation, .. } => {
                    if runs(operation) {
                        self.operations.push(around.clone());
                    }
                    Some(None)
                }
                Step::ForEach { .. } | Step::While { .. } => Some(None),
                _ => None,
            };
            let depth = around.len();
            around.extend(bounds);
            statement.bodies().into_iter().for_each(|body| self.add(resolver, need, body, around));
            around.truncate(depth);
        }
    }

    /// Returns the number of operations of a call whose arguments are in the registers.
    pub fn evaluate(&self, machine: &mut Machine) -> u64 {
        let mut rounds = |bounds: &Option<(Expression, Expression)>| {
            let (least, most) = bounds.as_ref()?;
            match (least.evaluate(machine), most.evaluate(machine)) {
                (Ok(Datum::Int(least)), Ok(Datum::Int(most))) => {
                    u64::try_from(most.saturating_sub(least).saturating_add(1)).ok()
                }
                _ => Some(0),
            }
        };
        let mut times = |around: &Vec<Option<(Expression, Expression)>>| {
            around.iter().map(|bounds| rounds(bounds).unwrap_or(UNKNOWN_ROUNDS)).fold(1, u64::saturating_mul)
        };
        self.operations.iter().map(&mut times).fold(0, u64::saturating_add)
    }
}
