//! Binds queries of WITH RECURSIVE that refer to themselves.

use super::{Binder, Bound, Named, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::types::object_name;
use catalog::Type;
use procedure::SqlError;
use procedure::query::{JoinKind, OutputColumn, Plan, Recursive, SlotId};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns the number of references of a query to a relation.
fn references(node: &SyntaxNode, name: &str) -> usize {
    let paths = node.descendants().filter_map(ast::PathRef::cast);
    paths.filter(|path| path.qualifier().is_none() && object_name(path) == name).count()
}

fn reads(plan: &Plan, slot: SlotId) -> bool {
    let mut reads = false;
    plan.walk(&mut |node| reads |= matches!(node, Plan::Named { slot: read, .. } if *read == slot));
    reads
}

/// Returns the construct of the recursive term that refers to the recursive query although PostgreSQL does
/// not allow it there; `None` if all references are allowed.
fn forbidden_construct(plan: &Plan, slot: SlotId) -> Option<&'static str> {
    let mut construct = None;
    plan.walk(&mut |node| {
        let (within, name): (Vec<&Plan>, _) = match node {
            Plan::Apply { subquery, .. } => (vec![&subquery.plan], "a subquery"),
            // The plan may execute a subquery of a condition as a semi-join.
            Plan::Hash(join) => match join.kind {
                JoinKind::Semi | JoinKind::Anti => (vec![&join.build], "a subquery"),
                JoinKind::Left => (vec![&join.build], "an outer join"),
                JoinKind::Full => (vec![&join.probe, &join.build], "an outer join"),
                JoinKind::Inner => return,
            },
            Plan::Loop { inner, kind: JoinKind::Left, .. } => (vec![inner], "an outer join"),
            _ => return,
        };
        if within.into_iter().any(|plan| reads(plan, slot)) {
            construct = Some(name);
        }
    });
    construct
}

impl Binder<'_> {
    fn no_recursion(&self, node: &SyntaxNode, message: String) -> StatementError {
        self.error(node, SqlError::new("42P19", message))
    }

    /// Returns a query of WITH RECURSIVE that refers to itself, as a UNION; `None` if it does not refer to
    /// itself.
    ///
    /// # Errors
    /// `42P19`: it is no UNION, or it refers to itself outside the recursive term or more than once.
    pub(super) fn recursive_parts(
        &self,
        query: &ast::WithQuery,
        name: &str,
    ) -> Result<Option<ast::CompoundSelect>, StatementError> {
        let node = query.syntax();
        if references(node, name) == 0 {
            return Ok(None);
        }
        let compound = match ast::SelectVariant::cast(node.clone()) {
            Some(ast::SelectVariant::CompoundSelect(compound)) => Some(compound),
            _ => None,
        };
        let operator = compound.as_ref().and_then(|compound| compound.op());
        let is_union = operator
            .is_some_and(|operator| operator.syntax().text().to_string().to_uppercase().starts_with("UNION"));
        let Some(compound) = compound.filter(|_| is_union) else {
            let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
            return Err(self.no_recursion(node, format!("recursive query \"{name}\" {form}")));
        };
        let left = self.part(compound.lhs(), node)?;
        let reference = format!("recursive reference to query \"{name}\" must not appear");
        if references(left.syntax(), name) > 0 {
            return Err(self.no_recursion(node, format!("{reference} within its non-recursive term")));
        }
        if references(node, name) > 1 {
            return Err(self.no_recursion(node, format!("{reference} more than once")));
        }
        Ok(Some(compound))
    }

    /// Binds a recursive query. Each iteration of its recursive term reads the rows of the previous
    /// iteration.
    pub(super) fn bind_recursive(
        &mut self,
        compound: &ast::CompoundSelect,
        name: &str,
        names: Vec<String>,
    ) -> Result<Bound, StatementError> {
        let node = compound.syntax();
        if let Some(tail) = compound.tail_clauses().next() {
            return Err(self.unsupported(tail.syntax(), "ORDER BY, LIMIT or OFFSET of a recursive query"));
        }
        let (left, right) = (self.part(compound.lhs(), node)?, self.part(compound.rhs(), node)?);
        let operator = self.part(compound.op(), node)?.syntax().text().to_string().to_uppercase();
        let base = self.bind_variant(&left)?;
        let (mut columns, mut base_values) = (Vec::new(), Vec::new());
        for index in 0..base.columns.len() {
            let (value, ty) = self.settle(base.typed(index), None, node)?;
            let register = self.new_register(ty);
            if self.origins.is_computed(&value, ty) {
                self.origins.note_computed(register, ty);
            }
            base_values.push((register, value));
            columns.push(OutputColumn { name: base.columns[index].name.clone(), ty, register });
        }
        let mut visible_columns: Vec<(String, Type)> =
            columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
        self.rename(&mut visible_columns, names, name, node)?;
        let slot = self.new_slot();
        let origins = columns.iter().map(|column| self.origins.of(column.register)).collect();
        let working = Named { name: name.to_owned(), slot, columns: visible_columns, origins, lowest: None };
        self.queries.named.push(working);
        let step = self.bind_variant(&right);
        self.queries.named.pop();
        let step = step?;
        if step.columns.len() != columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        let mut step_values = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            let known = Typed::Known(procedure::Expression::Register(column.register), column.ty);
            let (mut items, ty) = self.unify("UNION", vec![known, step.typed(index)], node)?;
            if ty != column.ty {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {ty} \
                     overall",
                    index + 1,
                    column.ty
                );
                let error = SqlError::new("42804", message);
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(self.error(node, error.with_hint(hint)));
            }
            step_values.extend(items.pop().map(|item| (column.register, item)));
        }
        if let Some(construct) = forbidden_construct(&step.plan, slot) {
            let message =
                format!("recursive reference to query \"{name}\" must not appear within {construct}");
            return Err(self.no_recursion(node, message));
        }
        let registers = columns.iter().map(|column| column.register).collect();
        let step = compute(step.plan, step_values);
        let renewed = Recursive::kept_within(&step, slot);
        let base = compute(base.plan, base_values);
        let all = operator.ends_with("ALL");
        for column in columns.iter().filter(|_| !all) {
            self.check_grouped(column.ty, node)?;
        }
        let plan = Plan::Recursive(Box::new(Recursive { slot, base, step, all, registers, renewed }));
        Ok(Bound { plan, columns, ..Bound::default() })
    }
}
