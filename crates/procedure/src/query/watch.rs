//! Watches the expressions of plans and of single statements that are evaluated for each row.

use super::{HashJoin, MergeAction, Plan, Query};
use crate::{Access, Aggregate, Expression, OperationKind, Procedure, Select, SortKey};

fn watch_access(access: &mut Access) {
    access.filter.iter_mut().for_each(Expression::watch);
}

fn watch_aggregate(aggregate: &mut Aggregate) {
    let Aggregate { argument, filter, .. } = aggregate;
    argument.iter_mut().chain(filter).for_each(Expression::watch);
}

fn watch_sort(keys: &mut [SortKey]) {
    keys.iter_mut().for_each(|key| key.value.watch());
}

impl Query {
    /// Watches the expressions that are evaluated for each row.
    pub fn watch(&mut self) {
        self.plan.watch();
    }
}

impl Plan {
    fn watch(&mut self) {
        match self {
            Self::Scan { access, .. } => watch_access(access),
            Self::Filter { condition, .. } => condition.watch(),
            Self::Compute { values, .. } => values.iter_mut().for_each(|(_, value)| value.watch()),
            Self::Loop { condition, .. } => condition.iter_mut().for_each(Expression::watch),
            Self::Hash(HashJoin { condition, keys, .. }) => {
                condition.iter_mut().for_each(Expression::watch);
                keys.iter_mut().flat_map(|key| [&mut key.probe, &mut key.build]).for_each(Expression::watch);
            }
            Self::Group { keys, aggregates, .. } => {
                keys.iter_mut().for_each(|(_, value)| value.watch());
                aggregates.iter_mut().for_each(watch_aggregate);
            }
            Self::Distinct { values, .. } => values.iter_mut().for_each(Expression::watch),
            Self::Sort { keys, .. } => watch_sort(keys),
            Self::Window(window) => watch_sort(&mut window.keys),
            Self::Update(update) => update.assignments.iter_mut().for_each(|(_, value)| value.watch()),
            Self::Insert(insert) => insert.values.iter_mut().for_each(Expression::watch),
            Self::Merge(merge) => {
                let expressions = merge.actions.iter_mut().flat_map(MergeAction::expressions_mut);
                expressions.for_each(Expression::watch);
            }
            _ => {}
        }
        self.inputs_mut().into_iter().for_each(Self::watch);
    }
}

impl Procedure {
    /// Watches the expressions of its operations that are evaluated for each row. Only for a statement of a
    /// client: procedures with a name are analysed, and compiled as a whole.
    pub fn watch_operations(&mut self) {
        for operation in &mut self.operations {
            match &mut operation.kind {
                OperationKind::Select(select) => {
                    let Select { access, aggregates, outputs, order, .. } = select;
                    watch_access(access);
                    aggregates.iter_mut().for_each(watch_aggregate);
                    outputs.iter_mut().for_each(|(_, value)| value.watch());
                    watch_sort(order);
                }
                OperationKind::Update { access, assignments, .. } => {
                    watch_access(access);
                    assignments.iter_mut().for_each(|(_, _, value)| value.watch());
                }
                OperationKind::Delete { access, .. } => watch_access(access),
                OperationKind::Insert { .. } => {}
            }
        }
    }
}
