//! Watches the expressions of plans and of single statements that are evaluated for each row.

use super::{Delete, Insert, Plan, Query, Update};
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
    /// Returns the nodes directly below this node, to be changed.
    fn inputs_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::One
            | Self::Values { .. }
            | Self::Scan { .. }
            | Self::Function { .. }
            | Self::Rows { .. }
            | Self::Named { .. } => Vec::new(),
            Self::Filter { input, .. }
            | Self::Compute { input, .. }
            | Self::Hold { input, .. }
            | Self::Group { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Call { input, .. }
            | Self::Keep { input, .. }
            | Self::Insert(Insert { input, .. })
            | Self::Update(Update { input, .. })
            | Self::Delete(Delete { input, .. }) => vec![input],
            Self::Apply { input, subquery } => vec![input, &mut subquery.plan],
            Self::Loop { outer, inner, .. } => vec![outer, inner],
            Self::Hash { probe, build, .. } => vec![probe, build],
            Self::Union { inputs } => inputs.iter_mut().collect(),
            Self::Combine { inputs, .. } => inputs.iter_mut().collect(),
            Self::With { named, input } => {
                named.iter_mut().map(|(_, plan, _)| plan).chain([&mut **input]).collect()
            }
        }
    }

    fn watch(&mut self) {
        match self {
            Self::Scan { access, .. } => watch_access(access),
            Self::Filter { condition, .. } => condition.watch(),
            Self::Compute { values, .. } => values.iter_mut().for_each(|(_, value)| value.watch()),
            Self::Loop { condition, .. } => condition.iter_mut().for_each(Expression::watch),
            Self::Hash { condition, keys, .. } => {
                condition.iter_mut().for_each(Expression::watch);
                keys.iter_mut().flat_map(|key| [&mut key.probe, &mut key.build]).for_each(Expression::watch);
            }
            Self::Group { keys, aggregates, .. } => {
                keys.iter_mut().for_each(|(_, value)| value.watch());
                aggregates.iter_mut().for_each(watch_aggregate);
            }
            Self::Distinct { values, .. } => values.iter_mut().for_each(Expression::watch),
            Self::Sort { keys, .. } => watch_sort(keys),
            Self::Update(update) => update.assignments.iter_mut().for_each(|(_, value)| value.watch()),
            Self::Insert(insert) => insert.values.iter_mut().for_each(Expression::watch),
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
