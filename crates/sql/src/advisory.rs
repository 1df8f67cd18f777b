//! Advisory locks: `SELECT pg_advisory_lock(…)` and similar calls, which the server executes. Migration tools
//! take such a lock so that only one of them runs.
//!
//! A lock belongs to a connection, and taking a lock may block. Only a SELECT of nothing but such a call may
//! take a lock; other queries, procedures and triggers cannot call these functions.

use crate::ResultColumn;
use crate::advisory_functions::{AdvisoryAction, AdvisoryCall, FUNCTIONS};
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::evaluated::Arguments;
use crate::prepare::{Kind, Prepared};
use crate::schema::Schema;
use crate::source::Source;
use catalog::{ScalarType, Type};
use procedure::{CastContext, SqlError};
use squawk_syntax::ast::{self, AstNode};

/// Returns the last part of the name that an expression calls.
fn called_name(call: &ast::CallExpr) -> Option<String> {
    match call.expr()? {
        ast::Expr::NameRef(name) => Some(name.text()),
        ast::Expr::FieldExpr(field) => match field.base()? {
            ast::Expr::NameRef(schema) if schema.text() == "pg_catalog" => Some(field.field()?.text()),
            _ => None,
        },
        _ => None,
    }
}

impl Schema {
    /// Prepares a SELECT of nothing but a function for advisory locks, or of `pg_sleep`; `None` for any other
    /// statement.
    pub(crate) fn prepare_advisory(
        &self,
        select: &ast::Select,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Option<Prepared>, StatementError> {
        let node = select.syntax();
        let Some((call, alias)) = crate::prepare::only_call(select) else { return Ok(None) };
        let Some(name) = called_name(&call).filter(|name| self.procedure(name).is_none()) else {
            return Ok(None);
        };
        if matches!(name.as_str(), "pg_sleep" | "pg_sleep_for") {
            return self.prepare_sleep(&name, &call, alias, source, types).map(Some);
        }
        let Some((_, action, is_shared, of_transaction)) = FUNCTIONS.iter().find(|entry| entry.0 == name)
        else {
            return Ok(None);
        };
        let mut binder = Binder::new(self, source);
        binder.declare_parameters(crate::nameless::parameters_of(node), types);
        let list = call.arg_list().into_iter().flat_map(|list| list.args());
        let expressions: Vec<ast::Expr> = list.filter_map(|argument| argument.expr()).collect();
        let ty = match (expressions.len(), action) {
            (0, AdvisoryAction::UnlockAll) | (1, _) => ScalarType::BigInt,
            _ => ScalarType::Integer,
        };
        let is_known = match action {
            AdvisoryAction::UnlockAll => expressions.is_empty(),
            _ => matches!(expressions.len(), 1 | 2),
        };
        if !is_known {
            let message = format!("function {name} with {} arguments does not exist", expressions.len());
            return Err(binder.error(node, SqlError::new("42883", message)));
        }
        let mut values = Vec::new();
        for expression in &expressions {
            values.push(binder.bind_as(expression, ty, CastContext::Implicit)?);
        }
        let returns = match action {
            AdvisoryAction::Lock | AdvisoryAction::UnlockAll => ScalarType::Text,
            AdvisoryAction::TryLock | AdvisoryAction::Unlock => ScalarType::Boolean,
        };
        let name = alias.unwrap_or(name);
        let column = ResultColumn::computed(&name, returns.into(), procedure::Register(0));
        let key = Arguments::new(values, binder.registers.len(), false);
        let (action, is_shared, of_transaction) = (*action, *is_shared, *of_transaction);
        let kind = Kind::Advisory(AdvisoryCall { action, is_shared, of_transaction, key });
        let parameters = binder.parameter_types(node)?;
        Ok(Some(Prepared { kind, tag: "SELECT 1", parameters, columns: vec![column], refused: None }))
    }

    /// Prepares `SELECT pg_sleep(seconds)` or `SELECT pg_sleep_for(interval)`.
    fn prepare_sleep(
        &self,
        name: &str,
        call: &ast::CallExpr,
        alias: Option<String>,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Prepared, StatementError> {
        let node = call.syntax();
        let mut binder = Binder::new(self, source);
        binder.declare_parameters(crate::nameless::parameters_of(node), types);
        let arguments = binder.plain_arguments(call.arg_list())?;
        let [argument] = arguments.as_slice() else {
            return Err(binder.no_function_of(&format!("{name} with {} arguments", arguments.len()), node));
        };
        let ty = if name == "pg_sleep" { ScalarType::Double } else { ScalarType::Interval };
        let mut seconds = binder.bind_as(argument, ty, CastContext::Implicit)?;
        if ty == ScalarType::Interval {
            let parts = vec![Typed::Literal("epoch".into()), Typed::Known(seconds, ty.into())];
            let epoch = binder.call_built_in("date_part", parts, node)?;
            seconds = binder.coerce(epoch, ScalarType::Double.into(), CastContext::Implicit, node)?;
        }
        let name = alias.unwrap_or_else(|| name.into());
        let column = ResultColumn::computed(&name, ScalarType::Text.into(), procedure::Register(0));
        let parameters = binder.parameter_types(node)?;
        let kind = Kind::Sleep(Arguments::new(vec![seconds], binder.registers.len(), false));
        Ok(Prepared { kind, tag: "SELECT 1", parameters, columns: vec![column], refused: None })
    }
}
