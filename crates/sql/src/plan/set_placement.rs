//! Refuses calls of set-returning functions where PostgreSQL does not allow them.
//! Source: PostgreSQL 15, `check_srf_call_placement` and the callers of `p_last_srf`.
//!
//! Held by: `attacked_a.slt` in `crates/workload/tests/sql`.

use super::Binder;
use super::list_positions::bare;
use crate::aggregates::is_aggregate;
use crate::called_names::called_name;
use crate::error::StatementError;
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{SyntaxKind, SyntaxNode};

/// The part of a statement around a call, as far as it decides whether the call may return a set.
enum Place {
    /// A call here may return a set.
    Open,
    /// The message of the error.
    Refused(String),
    /// The parts around it decide.
    Inner,
}

fn not_in(clause: &str) -> Place {
    Place::Refused(format!("set-returning functions are not allowed in {clause}"))
}

/// Returns what a clause says about the calls in it.
fn place_of(node: &SyntaxNode) -> Place {
    match node.kind() {
        SyntaxKind::WHERE_CLAUSE if is_below(node, SyntaxKind::CREATE_INDEX) => not_in("index predicates"),
        SyntaxKind::WHERE_CLAUSE => not_in("WHERE"),
        SyntaxKind::WHERE_CONDITION_CLAUSE => not_in("index predicates"),
        SyntaxKind::HAVING_CLAUSE => not_in("HAVING"),
        SyntaxKind::FILTER_CLAUSE => not_in("FILTER"),
        SyntaxKind::LIMIT_CLAUSE | SyntaxKind::FETCH_CLAUSE => not_in("LIMIT"),
        SyntaxKind::OFFSET_CLAUSE => not_in("OFFSET"),
        SyntaxKind::RETURNING_CLAUSE => not_in("RETURNING"),
        SyntaxKind::ON_CLAUSE | SyntaxKind::USING_ON_CLAUSE => not_in("JOIN conditions"),
        SyntaxKind::SET_CLAUSE => not_in("UPDATE"),
        SyntaxKind::MERGE_CONDITION => not_in("MERGE WHEN conditions"),
        SyntaxKind::FRAME_CLAUSE => not_in("window definitions"),
        SyntaxKind::CHECK_CONSTRAINT => not_in("check constraints"),
        SyntaxKind::DEFAULT_CONSTRAINT | SyntaxKind::SET_DEFAULT | SyntaxKind::PARAM_DEFAULT => {
            not_in("DEFAULT expressions")
        }
        SyntaxKind::SET_TYPE => not_in("transform expressions"),
        SyntaxKind::GENERATED_CONSTRAINT => not_in("column generation expressions"),
        SyntaxKind::PARTITION_ITEM => not_in("index expressions"),
        SyntaxKind::CALL => not_in("CALL arguments"),
        SyntaxKind::FROM_CLAUSE => {
            Place::Refused("set-returning functions must appear at top level of FROM".into())
        }
        SyntaxKind::VALUES => {
            let values = ast::Values::cast(node.clone());
            let rows = values.and_then(|values| values.row_list()).map_or(0, |list| list.rows().count());
            if is_below(node, SyntaxKind::INSERT) && rows < 2 { Place::Open } else { not_in("VALUES") }
        }
        kind if ast::Expr::can_cast(kind) => Place::Inner,
        kind if ast::SelectVariant::can_cast(kind) => Place::Open,
        _ => Place::Inner,
    }
}

fn is_below(node: &SyntaxNode, kind: SyntaxKind) -> bool {
    node.parent().is_some_and(|parent| parent.kind() == kind)
}

/// Returns the error for a call below an operand, in an expression that evaluates the operand only once.
fn refused_by(expression: &SyntaxNode, operand: &SyntaxNode) -> Option<SqlError> {
    let in_from = |message: &str| {
        let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
        Some(SqlError::new("0A000", message).with_hint(hint))
    };
    let of_condition =
        |word: &str| Some(SqlError::new("42804", format!("argument of {word} must not return a set")));
    if let Some(when) = ast::WhenClause::cast(expression.clone()) {
        let is_condition = when.condition().is_some_and(|condition| condition.syntax() == operand);
        return of_condition("CASE/WHEN").filter(|_| is_condition);
    }
    match ast::Expr::cast(expression.clone())? {
        ast::Expr::CaseExpr(_) => in_from("set-returning functions are not allowed in CASE"),
        ast::Expr::BinExpr(binary) => match binary.op()? {
            ast::BinOp::And(_) => of_condition("AND"),
            ast::BinOp::Or(_) => of_condition("OR"),
            _ => None,
        },
        ast::Expr::PrefixExpr(prefix) => {
            of_condition("NOT").filter(|_| matches!(prefix.op(), Some(ast::PrefixOp::Not(_))))
        }
        ast::Expr::CallExpr(call) => {
            let name = called_name(&call)?;
            match call.over_clause() {
                _ if name == "coalesce" => in_from("set-returning functions are not allowed in COALESCE"),
                Some(_) => in_from("window function calls cannot contain set-returning function calls"),
                None if is_aggregate(&name) => {
                    in_from("aggregate function calls cannot contain set-returning function calls")
                }
                None => None,
            }
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// Refuses a call that returns a set where its rows could not be returned.
    ///
    /// # Errors
    /// `0A000`: the call is in a clause or an expression that allows no set. `42804`: it is in an operand of
    /// AND, OR or NOT.
    pub(super) fn check_set_placement(&self, call: &SyntaxNode) -> Result<(), StatementError> {
        let (mut inner, mut is_window, mut operand) = (None, false, call.clone());
        for node in call.ancestors().skip(1) {
            match place_of(&node) {
                Place::Open => break,
                Place::Refused(message) => return Err(self.error(call, SqlError::new("0A000", message))),
                Place::Inner if node.kind() == SyntaxKind::OVER_CLAUSE => is_window = true,
                // The keys of a window may return sets.
                Place::Inner if is_window => is_window = false,
                Place::Inner if inner.is_none() => {
                    inner = refused_by(&node, &operand).map(|error| match error.sqlstate == "42804" {
                        true => {
                            let written = ast::Expr::cast(operand.clone()).map(bare);
                            self.error(written.as_ref().map_or(&operand, AstNode::syntax), error)
                        }
                        false => self.error(call, error),
                    });
                }
                Place::Inner => {}
            }
            operand = node;
        }
        inner.map_or(Ok(()), Err)
    }
}
