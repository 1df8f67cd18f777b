//! Visits the registers that expressions, operations and statements use and define, in the order of
//! execution.

use crate::{
    Access, Aggregate, DomainValue, Expression, Operation, OperationKind, Path, Register, Select, Statement,
};
use std::sync::Arc;

/// The role of a register in an operation or statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Its value is read.
    Use,
    /// It is set to a value.
    Define,
    /// It is the first register of a window: registers that hold a row while an operation runs, and that only
    /// the operation uses.
    Window,
}

/// Is called with every register that is visited, and may replace it.
pub type Visitor<'v> = dyn FnMut(Role, &mut Register) + 'v;

impl Expression {
    /// Visits the registers that it uses.
    pub fn visit_registers(&mut self, visit: &mut Visitor<'_>) {
        if let Self::Register(register) = self {
            visit(Role::Use, register);
        }
        self.operands_mut().into_iter().for_each(|operand| operand.visit_registers(visit));
    }

    /// Returns its direct operands, in the order in which they are evaluated, to be changed.
    pub fn operands_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Register(_) | Self::Constant(_) | Self::Bytes(_) | Self::Numeric(_) | Self::Value => {
                Vec::new()
            }
            Self::Domain(own) => {
                let DomainValue { operand, constraints, .. } = &mut **own;
                let conditions = constraints.iter_mut().map(|constraint| &mut constraint.condition);
                std::iter::once(operand).chain(conditions).collect()
            }
            Self::Arithmetic { operands, .. }
            | Self::Compare { operands, .. }
            | Self::Distinct { operands, .. }
            | Self::And(operands)
            | Self::Or(operands)
            | Self::Element(operands)
            | Self::Quantified { operands, .. } => operands.iter_mut().collect(),
            Self::Not(operand) | Self::IsNull(operand) | Self::Cast { operand, .. } => vec![operand],
            Self::Watched(watched) => vec![&mut Arc::make_mut(watched).expression],
            Self::Case { branches, otherwise } => {
                let branches = branches.iter_mut().flat_map(|(condition, value)| [condition, value]);
                branches.chain([&mut **otherwise]).collect()
            }
            Self::Coalesce(items) | Self::Array(items) | Self::Function { arguments: items, .. } => {
                items.iter_mut().collect()
            }
        }
    }
}

impl Access {
    fn visit_registers(&mut self, visit: &mut Visitor<'_>) {
        match &mut self.path {
            Path::Point { key } => key.iter_mut().for_each(|value| value.visit_registers(visit)),
            Path::Range { prefix, lower, upper, .. } => {
                prefix.iter_mut().for_each(|value| value.visit_registers(visit));
                let bounds = lower.iter_mut().chain(upper);
                bounds.flat_map(|bound| bound.values_mut()).for_each(|value| value.visit_registers(visit));
            }
        }
        visit(Role::Window, &mut self.registers);
        for choice in &mut self.choices {
            choice.branches.iter_mut().for_each(|(condition, _)| condition.visit_registers(visit));
            visit(Role::Window, &mut choice.target);
        }
        self.filter.iter_mut().for_each(|filter| filter.visit_registers(visit));
    }
}

impl Access {
    fn visit_expressions(&self, visit: &mut dyn FnMut(&Expression)) {
        match &self.path {
            Path::Point { key } => key.iter().for_each(&mut *visit),
            Path::Range { prefix, lower, upper, .. } => {
                prefix.iter().for_each(&mut *visit);
                lower.iter().chain(upper).flat_map(|bound| bound.values()).for_each(&mut *visit);
            }
        }
        let conditions = self.choices.iter().flat_map(|choice| &choice.branches);
        conditions.for_each(|(condition, _)| visit(condition));
        self.filter.iter().for_each(visit);
    }
}

impl Select {
    fn visit_expressions(&self, visit: &mut dyn FnMut(&Expression)) {
        self.access.visit_expressions(visit);
        for aggregate in &self.aggregates {
            let Aggregate { argument, filter, second, order, .. } = aggregate;
            argument.iter().chain(filter).chain(second).for_each(&mut *visit);
            order.iter().for_each(|key| visit(&key.value));
        }
        self.outputs.iter().for_each(|(_, value)| visit(value));
        self.order.iter().for_each(|key| visit(&key.value));
        self.offset.iter().chain(&self.limit).for_each(visit);
    }

    fn visit_registers(&mut self, visit: &mut Visitor<'_>) {
        let ends = self.offset.iter_mut().chain(&mut self.limit);
        ends.for_each(|count| count.visit_registers(visit));
        self.access.visit_registers(visit);
        for aggregate in &mut self.aggregates {
            let Aggregate { argument, filter, second, order, target, .. } = aggregate;
            let parts = argument.iter_mut().chain(filter).chain(second);
            parts
                .chain(order.iter_mut().map(|key| &mut key.value))
                .for_each(|part| part.visit_registers(visit));
            visit(Role::Window, target);
        }
        self.outputs.iter_mut().for_each(|(_, value)| value.visit_registers(visit));
        self.order.iter_mut().for_each(|key| key.value.visit_registers(visit));
        self.outputs.iter_mut().for_each(|(target, _)| visit(Role::Define, target));
    }
}

fn visit_returning(returning: &mut [(Register, Expression)], visit: &mut Visitor<'_>) {
    for (target, value) in returning {
        value.visit_registers(visit);
        visit(Role::Define, target);
    }
}

impl OperationKind {
    /// Visits its registers, but for FOUND.
    pub fn visit_registers(&mut self, visit: &mut Visitor<'_>) {
        match self {
            Self::Select(select) => select.visit_registers(visit),
            Self::Insert { values, registers, checks, returning, .. } => {
                values.iter_mut().for_each(|value| value.visit_registers(visit));
                visit(Role::Window, registers);
                checks.iter_mut().for_each(|check| check.condition.visit_registers(visit));
                visit_returning(returning, visit);
            }
            Self::Update { access, assignments, checks, returning, .. } => {
                access.visit_registers(visit);
                for (_, register, value) in assignments {
                    value.visit_registers(visit);
                    visit(Role::Window, register);
                }
                checks.iter_mut().for_each(|check| check.condition.visit_registers(visit));
                visit_returning(returning, visit);
            }
            Self::Delete { access, returning } => {
                access.visit_registers(visit);
                visit_returning(returning, visit);
            }
        }
    }

    /// Returns the first register of each of its windows, with the window's number of registers.
    pub fn windows(&self) -> Vec<(Register, usize)> {
        fn of_access(access: &Access, windows: &mut Vec<(Register, usize)>) {
            windows.push((access.registers, access.table.columns.len()));
            windows.extend(access.choices.iter().map(|choice| (choice.target, 1)));
        }
        let mut windows = Vec::new();
        match self {
            Self::Select(select) => {
                of_access(&select.access, &mut windows);
                windows.extend(select.aggregates.iter().map(|aggregate| (aggregate.target, 1)));
            }
            Self::Insert { registers, values, .. } => windows.push((*registers, values.len())),
            Self::Update { access, assignments, .. } => {
                of_access(access, &mut windows);
                windows.extend(assignments.iter().map(|(_, register, _)| (*register, 1)));
            }
            Self::Delete { access, .. } => of_access(access, &mut windows),
        }
        windows
    }
}

impl Operation {
    /// Visits its registers.
    pub fn visit_registers(&mut self, visit: &mut Visitor<'_>) {
        self.kind.visit_registers(visit);
        visit(Role::Define, &mut self.found);
    }

    /// Returns the windows of its kind.
    pub fn windows(&self) -> Vec<(Register, usize)> {
        self.kind.windows()
    }

    /// Visits the expressions that it evaluates.
    pub fn visit_expressions(&self, visit: &mut dyn FnMut(&Expression)) {
        match &self.kind {
            OperationKind::Select(select) => select.visit_expressions(visit),
            OperationKind::Insert { values, checks, returning, .. } => {
                values.iter().chain(returning.iter().map(|(_, value)| value)).for_each(&mut *visit);
                checks.iter().for_each(|check| visit(&check.condition));
            }
            OperationKind::Update { access, assignments, checks, returning, .. } => {
                access.visit_expressions(visit);
                assignments.iter().for_each(|(.., value)| visit(value));
                checks.iter().for_each(|check| visit(&check.condition));
                returning.iter().for_each(|(_, value)| visit(value));
            }
            OperationKind::Delete { access, returning } => {
                access.visit_expressions(visit);
                returning.iter().for_each(|(_, value)| visit(value));
            }
        }
    }
}

impl Statement {
    /// Visits statements and all statements inside them, each before those inside it.
    pub fn walk<'s>(statements: &'s [Self], visit: &mut dyn FnMut(&'s Self)) {
        for statement in statements {
            visit(statement);
            statement.bodies().into_iter().for_each(|body| Self::walk(body, visit));
        }
    }

    /// Returns the lists of statements directly inside: branches, the body of a loop or block, handlers.
    pub fn bodies(&self) -> Vec<&[Self]> {
        match self {
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::ForRange { body, .. }
            | Self::ForEach { body, .. }
            | Self::ForRows { body, .. }
            | Self::ForQuery { body, .. }
            | Self::While { body, .. }
            | Self::Block { body, .. } => vec![body],
            Self::Guarded(guarded) => {
                let handlers = guarded.handlers.iter().map(|handler| &*handler.body);
                std::iter::once(&*guarded.body).chain(handlers).collect()
            }
            Self::Assign { .. }
            | Self::AssignElement { .. }
            | Self::RaiseAgain
            | Self::Opaque(_)
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Query(_)
            | Self::Call { .. }
            | Self::Raise(_)
            | Self::Return => Vec::new(),
        }
    }

    /// Returns the lists of statements directly inside, to be changed.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::ForRange { body, .. }
            | Self::ForEach { body, .. }
            | Self::ForRows { body, .. }
            | Self::ForQuery { body, .. }
            | Self::While { body, .. }
            | Self::Block { body, .. } => vec![body],
            Self::Guarded(guarded) => {
                let handlers = guarded.handlers.iter_mut().map(|handler| &mut handler.body);
                std::iter::once(&mut guarded.body).chain(handlers).collect()
            }
            Self::Assign { .. }
            | Self::AssignElement { .. }
            | Self::RaiseAgain
            | Self::Opaque(_)
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Query(_)
            | Self::Call { .. }
            | Self::Raise(_)
            | Self::Return => Vec::new(),
        }
    }
}
