//! Splits a condition into conjuncts: the operands of its ANDs, each with the relations that it refers to.

use super::semi::filter_applied;
use super::{Applied, Binder, References, Relations};
use crate::between::{between_in, is_symmetric};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::lower::varies;
use crate::path::{is_any, split};
use crate::row_values::row_of;
use crate::symbols::comparison_operator;
use procedure::query::{JoinKey, Plan};
use procedure::{CompareClass, CompareOperator, Expression};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// An operand of a chain of ANDs.
#[derive(Debug)]
pub(super) struct Conjunct {
    pub(super) condition: Expression,
    /// The subqueries and calls that are evaluated before it.
    pub(super) applied: Vec<Applied>,
    pub(super) refers: References,
    /// The comparison, if it compares two values.
    pub(super) comparison: Option<Comparison>,
}

#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) operator: CompareOperator,
    class: CompareClass,
    /// Both sides, converted to the class.
    operands: Box<[Expression; 2]>,
    /// Both sides before the conversion, with their references.
    pub(super) sides: [(Typed, References); 2],
    pub(super) node: SyntaxNode,
    /// The second and further pairs of values, if rows are compared.
    pub(super) further: Option<Further>,
}

/// The second and further values of a comparison of rows by `<`, `<=`, `>` or `>=`. The `Comparison` that has
/// them compares the first values by `<=` or `>=`, because these may be equal.
#[derive(Debug)]
pub(super) struct Further {
    /// The left and right values, in the order of the row.
    pub(super) pairs: Vec<[Typed; 2]>,
    /// Whether the rows must differ.
    pub(super) is_strict: bool,
}

pub(super) fn all(conditions: impl IntoIterator<Item = Expression>) -> Option<Expression> {
    let conditions: Vec<_> = conditions.into_iter().collect();
    (!conditions.is_empty()).then(|| Expression::all(conditions))
}

pub(super) fn filter(plan: Plan, condition: Option<Expression>) -> Plan {
    match condition {
        Some(condition) => plan.filter(condition),
        None => plan,
    }
}

/// Returns a plan that filters rows by conjuncts. Conjuncts with subqueries are evaluated last.
pub(super) fn filter_by(plan: Plan, conjuncts: Vec<Conjunct>) -> Plan {
    let (plain, with_subqueries): (Vec<_>, Vec<_>) =
        conjuncts.into_iter().partition(|conjunct| conjunct.applied.is_empty());
    let plan = filter(plan, all(plain.into_iter().map(|conjunct| conjunct.condition)));
    with_subqueries
        .into_iter()
        .fold(plan, |plan, conjunct| filter_applied(plan, conjunct.applied, conjunct.condition))
}

/// Removes the conjuncts that fulfil a condition, and returns them.
pub(super) fn take(conjuncts: &mut Vec<Conjunct>, is_wanted: impl Fn(&Conjunct) -> bool) -> Vec<Conjunct> {
    let (taken, left) = std::mem::take(conjuncts).into_iter().partition(|conjunct| is_wanted(conjunct));
    *conjuncts = left;
    taken
}

impl Conjunct {
    /// Returns whether its result depends only on the rows of its level. It then refers to no outer query,
    /// and it has no call and no function whose result varies.
    pub(super) fn is_steady(&self) -> bool {
        !self.refers.outer && self.applied.iter().all(Applied::only_queries) && !varies(&self.condition)
    }

    /// Returns the conjunct as a key of a hash join between `placed` relations or levels below (probe) and
    /// `new` relations (build); `None` if it does not compare one side with the other by `=`.
    pub(super) fn as_key(&self, placed: Relations, new: Relations) -> Option<JoinKey> {
        let Comparison { operator, class, operands, sides, .. } = self.comparison.as_ref()?;
        if *operator != CompareOperator::Equal || !self.applied.is_empty() {
            return None;
        }
        let [a, b] = [sides[0].1, sides[1].1];
        let is_probe =
            |side: References| side.relations & !placed == 0 && (side.relations != 0 || side.outer);
        let is_build = |side: References| side.relations & !new == 0 && side.relations != 0 && !side.outer;
        let [left, right] = (**operands).clone();
        if is_probe(a) && is_build(b) {
            return Some(JoinKey { class: *class, probe: left, build: right });
        }
        if is_probe(b) && is_build(a) {
            let class = match *class {
                CompareClass::Decimal { left_scale, right_scale } => {
                    CompareClass::Decimal { left_scale: right_scale, right_scale: left_scale }
                }
                class => class,
            };
            return Some(JoinKey { class, probe: right, build: left });
        }
        None
    }
}

impl Binder<'_> {
    /// Binds a condition and adds its conjuncts to `conjuncts`.
    pub(super) fn bind_conjuncts(
        &mut self,
        condition: ast::Expr,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        let mut parts = Vec::new();
        split(condition, &mut parts);
        for part in parts {
            if let ast::Expr::BinExpr(binary) = &part
                && let Some(operator) = binary.op().and_then(|operator| comparison_operator(&operator))
                && let (Some(left), Some(right)) = (binary.lhs(), binary.rhs())
                && !is_any(&right)
                && (row_of(&left).is_none() || row_of(&right).is_some())
                && !self.names_row(&left)?
            {
                if let (Some(left), Some(right)) = (row_of(&left), row_of(&right)) {
                    self.bind_row_conjuncts(operator, &left, &right, part.syntax(), conjuncts)?;
                } else {
                    let left = |binder: &mut Self| binder.bind(&left);
                    conjuncts.push(self.bind_comparison(operator, left, &right, part.syntax())?);
                }
                continue;
            }
            if let Some(between) = between_in(&part)
                && between.not_token().is_none()
                && !is_symmetric(&between)
                && let (end, Some(start)) = (self.end_of_between(&between)?, between.start())
            {
                for (operator, end) in
                    [(CompareOperator::GreaterOrEqual, start), (CompareOperator::LessOrEqual, end)]
                {
                    let target = |binder: &mut Self| binder.target_of_between(&part);
                    conjuncts.push(self.bind_comparison(operator, target, &end, part.syntax())?);
                }
                continue;
            }
            let bind = |binder: &mut Self| binder.bind_condition(&part);
            let ((condition, applied), refers) = self.referring(|binder| binder.applying(bind))?;
            conjuncts.push(Conjunct { condition, applied, refers, comparison: None });
        }
        Ok(())
    }

    fn bind_comparison(
        &mut self,
        operator: CompareOperator,
        left: impl FnOnce(&mut Self) -> Result<Typed, StatementError>,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Conjunct, StatementError> {
        let ((a, mut applied), a_refers) = self.referring(|binder| binder.applying(left))?;
        let ((b, mut more_applied), b_refers) =
            self.referring(|binder| binder.applying(|inner| inner.bind_beside(&a, right)))?;
        let mut conjunct = self.compared(operator, (a, a_refers), (b, b_refers), node)?;
        applied.append(&mut more_applied);
        conjunct.applied = applied;
        Ok(conjunct)
    }

    /// Returns a comparison of two values as a conjunct.
    pub(super) fn compared(
        &mut self,
        operator: CompareOperator,
        (a, a_refers): (Typed, References),
        (b, b_refers): (Typed, References),
        node: &SyntaxNode,
    ) -> Result<Conjunct, StatementError> {
        let condition = self.comparison(operator, a.clone(), b.clone(), node)?;
        let Typed::Known(condition, _) = condition else { unreachable!("a comparison has a type") };
        let refers = a_refers.and(b_refers);
        let comparison = match &condition {
            Expression::Compare { class, operands, .. } => Some(Comparison {
                operator,
                class: *class,
                operands: operands.clone(),
                sides: [(a, a_refers), (b, b_refers)],
                node: node.clone(),
                further: None,
            }),
            _ => None,
        };
        Ok(Conjunct { condition, applied: Vec::new(), refers, comparison })
    }

    /// Binds a comparison of rows. `=` becomes one comparison for each pair of values. `<`, `<=`, `>` and
    /// `>=` imply that the first values are ordered, too; that comparison is added, because an index may
    /// serve it.
    fn bind_row_conjuncts(
        &mut self,
        operator: CompareOperator,
        left: &[ast::Expr],
        right: &[ast::Expr],
        node: &SyntaxNode,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        use CompareOperator as O;
        self.check_lengths(left.len(), right.len(), node)?;
        if operator == O::Equal {
            for (left, right) in left.iter().zip(right) {
                let left = |binder: &mut Self| binder.bind(left);
                conjuncts.push(self.bind_comparison(operator, left, right, node)?);
            }
            return Ok(());
        }
        let bind = |row| move |binder: &mut Self| binder.applying(|inner| inner.bind_row(row));
        let ((left, mut applied), left_refers) = self.referring(bind(left))?;
        let ((right, mut more_applied), right_refers) = self.referring(bind(right))?;
        applied.append(&mut more_applied);
        let condition = self.compare_rows(operator, &left, &right, node)?;
        let refers = left_refers.and(right_refers);
        let first = match operator {
            O::Less | O::LessOrEqual => Some(O::LessOrEqual),
            O::Greater | O::GreaterOrEqual => Some(O::GreaterOrEqual),
            O::Equal | O::NotEqual => None,
        };
        if let (Some(first), true) = (first, applied.is_empty()) {
            let mut pairs: Vec<[Typed; 2]> = left.into_iter().zip(right).map(|(a, b)| [a, b]).collect();
            let [a, b] = pairs.remove(0);
            let mut implied = self.compared(first, (a, left_refers), (b, right_refers), node)?;
            let is_strict = matches!(operator, O::Less | O::Greater);
            if let Some(comparison) = &mut implied.comparison {
                comparison.further = Some(Further { pairs, is_strict });
            }
            conjuncts.push(implied);
        }
        conjuncts.push(Conjunct { condition, applied, refers, comparison: None });
        Ok(())
    }
}
