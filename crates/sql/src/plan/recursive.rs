//! WITH RECURSIVE.

use super::{Binder, Bound, Named, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::types::object_name;
use catalog::Type;
use procedure::SqlError;
use procedure::query::{JoinKind, OutputColumn, Plan, Recursive, SlotId};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns the places at which a query names a relation.
fn references(node: &SyntaxNode, name: &str) -> usize {
    let paths = node.descendants().filter_map(ast::PathRef::cast);
    paths.filter(|path| path.qualifier().is_none() && object_name(path) == name).count()
}

fn reads(plan: &Plan, slot: SlotId) -> bool {
    let mut reads = false;
    plan.walk(&mut |node| reads |= matches!(node, Plan::Named { slot: own, .. } if *own == slot));
    reads
}

/// Returns where a recursive query must not read what it has found, but does.
fn wrong_place(plan: &Plan, slot: SlotId) -> Option<&'static str> {
    let mut place = None;
    plan.walk(&mut |node| {
        let (within, name): (Vec<&Plan>, _) = match node {
            Plan::Apply { subquery, .. } => (vec![&subquery.plan], "a subquery"),
            // A subquery of a condition may be a semi-join by now.
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
            place = Some(name);
        }
    });
    place
}

impl Binder<'_> {
    fn no_recursion(&self, node: &SyntaxNode, message: String) -> StatementError {
        self.error(node, SqlError::new("42P19", message))
    }

    /// Returns the parts of a query of WITH RECURSIVE that refers to itself; `None` if it does not.
    ///
    /// # Errors
    /// `42P19`: it refers to itself elsewhere than in the second part of a UNION.
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
        let operator = compound.as_ref().and_then(|own| own.op());
        let is_union =
            operator.is_some_and(|own| own.syntax().text().to_string().to_uppercase().starts_with("UNION"));
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

    /// Binds a recursive query. Its second part reads the rows that were found last.
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
        for place in 0..base.columns.len() {
            let (value, ty) = self.settle(base.typed(place), None, node)?;
            let register = self.new_register(ty);
            base_values.push((register, value));
            columns.push(OutputColumn { name: base.columns[place].name.clone(), ty, register });
        }
        let mut own: Vec<(String, Type)> = columns.iter().map(|own| (own.name.clone(), own.ty)).collect();
        self.rename(&mut own, names, name, node)?;
        let slot = self.new_slot();
        let origins = vec![None; own.len()];
        let working = Named { name: name.to_owned(), slot, columns: own, origins, lowest: None };
        self.queries.named.push(working);
        let step = self.bind_variant(&right);
        self.queries.named.pop();
        let step = step?;
        if step.columns.len() != columns.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        let mut step_values = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            let known = Typed::Known(procedure::Expression::Register(column.register), column.ty);
            let (mut items, ty) = self.unify("UNION", vec![known, step.typed(place)], node)?;
            if ty != column.ty {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {ty} \
                     overall",
                    place + 1,
                    column.ty
                );
                let error = SqlError::new("42804", message);
                let hint = "Cast the output of the non-recursive term to the correct type.";
                return Err(self.error(node, error.with_hint(hint)));
            }
            step_values.extend(items.pop().map(|item| (column.register, item)));
        }
        if let Some(place) = wrong_place(&step.plan, slot) {
            let message = format!("recursive reference to query \"{name}\" must not appear within {place}");
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
