//! WITH RECURSIVE: a query that reads the rows which it found last, until it finds none. `subquery` runs it.

use super::{Plan, SlotId};
use crate::Register;

/// A recursive query.
#[derive(Clone, Debug)]
pub struct Recursive {
    /// The slot of the rows that were found last.
    pub slot: SlotId,
    /// The rows to begin with.
    pub base: Plan,
    /// Finds rows that follow from those in the slot.
    pub step: Plan,
    /// UNION ALL: a row may be found several times. With UNION, a row that was found before is left out.
    pub all: bool,
    /// The registers that both plans set.
    pub registers: Vec<Register>,
    /// The slots of results that the step computes once from the rows in `slot`. They are computed again for
    /// other rows.
    pub renewed: Vec<SlotId>,
}

impl Recursive {
    /// Returns the slots in which a step keeps results that depend on the rows of a slot.
    #[must_use]
    pub fn kept_within(step: &Plan, slot: SlotId) -> Vec<SlotId> {
        let reads = |plan: &Plan| {
            let mut reads = false;
            plan.walk(&mut |node| reads |= matches!(node, Plan::Named { slot: named, .. } if *named == slot));
            reads
        };
        let mut kept = Vec::new();
        step.walk(&mut |node| match node {
            Plan::Keep { slot, input, .. } if reads(input) => kept.push(*slot),
            Plan::Apply { subquery, .. } if reads(&subquery.plan) => kept.extend(subquery.kept),
            Plan::Hash(join) if reads(&join.build) => kept.extend(join.kept),
            _ => {}
        });
        kept
    }
}
