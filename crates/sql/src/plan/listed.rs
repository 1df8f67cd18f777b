//! Conditions that a column equals one of several values: IN, `= ANY (array)`, OR of equalities, and IN of a
//! query with few rows.
//!
//! If an index leads from a single value to the rows, the values become a relation of their own: each value
//! once, in their order, joined with the table by the index. As in PostgreSQL, the rows are then visited in
//! the order of the index.

use super::conjunct::Conjunct;
use super::from::Source;
use super::join::score;
use super::{Applied, Binder, References, Relation, Relations, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::query::{Plan, Question, TableFunction};
use procedure::{CompareClass, CompareOperator, Expression, Register, SortKey};
use squawk_syntax::ast::AstNode;

/// Maximum number of relations of a level up to which lists of values become relations.
const MOST_RELATIONS: usize = 60;

/// Several values.
enum Values {
    Array(Expression),
    /// The rows of a query, and the register of its column.
    Query(Plan, Register),
}

/// A column, and the values of which it equals one.
struct Listed {
    relation: usize,
    column: Expression,
    class: CompareClass,
    values: Values,
    /// The type of the values.
    ty: ScalarType,
}

/// Returns the equalities of a chain of ORs; `None` if it has another part.
fn equalities<'e>(
    condition: &'e Expression,
    found: &mut Vec<(CompareClass, &'e [Expression; 2])>,
) -> Option<()> {
    match condition {
        Expression::Or(sides) => sides.iter().try_for_each(|side| equalities(side, found)),
        Expression::Compare { operator: CompareOperator::Equal, class, operands } => {
            found.push((*class, operands));
            Some(())
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// Replaces conditions with lists of values by joins with the values, where that finds the rows faster.
    pub(super) fn join_lists(
        &mut self,
        sources: &mut Vec<Source>,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        for place in 0..conjuncts.len() {
            let conjunct = &conjuncts[place];
            let listed = self.listed(conjunct).or_else(|| self.selected(conjunct));
            let Some(listed) = listed else { continue };
            let relation = listed.relation;
            let registers = self.registers.len();
            let is_joined = |source: &Source| matches!(source, Source::Relation(own) if *own == relation);
            if !sources.iter().any(is_joined) || self.level().relations.len() >= MOST_RELATIONS {
                continue;
            }
            let before = self.way_to(relation, 0, conjuncts, None)?.map(|way| score(&way.path));
            let (values, conjunct) = self.values_of(listed, conjuncts[place].refers)?;
            conjuncts.push(conjunct);
            let after = self.way_to(relation, 1 << values, conjuncts, None)?.map(|way| score(&way.path));
            if after > before {
                conjuncts.swap_remove(place);
                sources.push(Source::Relation(values));
            } else {
                conjuncts.pop();
                self.level().relations.pop();
                self.registers.truncate(registers);
            }
        }
        Ok(())
    }

    /// Returns the list of values of a condition.
    fn listed(&self, conjunct: &Conjunct) -> Option<Listed> {
        if !conjunct.applied.is_empty() || conjunct.comparison.is_some() {
            return None;
        }
        let (column, class, array) = match &conjunct.condition {
            Expression::Quantified { quantifier, operands } => {
                let [column, array] = &**operands;
                (column.clone(), quantifier.class_of_equals_any()?, array.clone())
            }
            condition => self.alternatives(condition)?,
        };
        let (relation, place) = self.table_column(&column)?;
        if conjunct.refers.own != 1 << relation || self.reads(&array, relation) {
            return None;
        }
        let ty = self.table_of(relation)?.columns[place].ty;
        let ty = match class {
            CompareClass::Decimal { .. } | CompareClass::Json => return None,
            _ if ty.is_integer() => ScalarType::BigInt,
            _ if ty.is_machine_numeric() => ty,
            _ => ty.unlimited(),
        };
        Some(Listed { relation, column, class, values: Values::Array(array), ty })
    }

    /// Returns the values of IN of a query that has few rows, which are the same for each row.
    fn selected(&self, conjunct: &Conjunct) -> Option<Listed> {
        let [Applied::Subquery(subquery)] = conjunct.applied.as_slice() else { return None };
        let Question::Quantified { target, operator: CompareOperator::Equal, class, value, row, all: false } =
            &subquery.question
        else {
            return None;
        };
        let is_condition = conjunct.condition == Expression::Register(*target);
        if matches!(class, CompareClass::Decimal { .. } | CompareClass::Json)
            || !is_condition
            || subquery.kept.is_none()
            || !Self::is_small(&subquery.plan)
        {
            return None;
        }
        let (relation, _) = self.table_column(value)?;
        let register = Self::register_of(row)?;
        let ty = self.registers[register.0 as usize].scalar()?;
        let values = Values::Query(subquery.plan.clone(), register);
        Some(Listed { relation, column: value.clone(), class: *class, values, ty })
    }

    /// Returns the column of a chain of ORs, with the array of the values that it is compared with.
    fn alternatives(&self, condition: &Expression) -> Option<(Expression, CompareClass, Expression)> {
        let mut found = Vec::new();
        equalities(condition, &mut found)?;
        let (class, [left, right]) = *found.first()?;
        let column = if self.table_column(left).is_some() { left } else { right };
        let values = found.iter().map(|(own, [left, right])| match own == &class {
            true if left == column => Some(right.clone()),
            true if right == column => Some(left.clone()),
            _ => None,
        });
        let values = values.collect::<Option<Vec<_>>>()?;
        Some((column.clone(), class, Expression::Array(values)))
    }

    /// Returns whether an expression reads a column of a table.
    fn reads(&self, expression: &Expression, relation: usize) -> bool {
        let mut reads = false;
        expression.walk(&mut |part| reads |= self.table_column(part).is_some_and(|own| own.0 == relation));
        reads
    }

    /// Adds a relation of the values. Returns it with the condition that joins it with the column.
    fn values_of(&mut self, listed: Listed, refers: References) -> Result<(usize, Conjunct), StatementError> {
        let Listed { relation, column, class, values, ty } = listed;
        let (plan, register) = match values {
            Values::Query(plan, register) => (plan, register),
            Values::Array(array) => {
                let register = self.new_register(ty);
                let (arguments, registers) = (vec![array], vec![register]);
                let function = TableFunction::Unnest;
                (Plan::Function { function, arguments, registers, ordinality: None }, register)
            }
        };
        let value = Expression::Register(register);
        let plan = Plan::Distinct { input: Box::new(plan), values: vec![value.clone()] };
        let key = SortKey { value: value.clone(), class, descending: false, nulls_first: false };
        let (input, registers) = (Box::new(plan), vec![register]);
        let plan = Plan::Sort { input, keys: vec![key], registers, wanted: [None, None] };
        let rows = Rows::Plan {
            plan: Some(Box::new(plan)),
            registers: vec![register],
            lateral: 0,
            outer: refers.outer,
        };
        let columns = vec![(String::new(), Type::Scalar(ty))];
        self.level().relations.push(Relation { alias: String::new(), columns, rows, is_plain: false });
        let values = self.level().relations.len() - 1;
        let own = |relation: usize| References { own: 1 << relation as Relations, outer: false };
        let node = self.source.file.syntax().clone();
        let sides =
            [(Typed::Known(column, ty.into()), own(relation)), (Typed::Known(value, ty.into()), own(values))];
        let [left, right] = sides;
        let conjunct = self.compared(CompareOperator::Equal, left, right, &node)?;
        Ok((values, conjunct))
    }

    /// Returns whether a plan has few rows for all that is known: it reads no whole table, or hands on only
    /// some rows.
    pub(super) fn is_small(plan: &Plan) -> bool {
        match plan {
            Plan::Limit { limit: Some(_), .. } => true,
            Plan::Group { keys, .. } if keys.is_empty() => true,
            Plan::Scan { access, .. } => score(&access.path) > 0,
            Plan::Named { .. } => false,
            plan => plan.inputs().into_iter().all(Self::is_small),
        }
    }
}
