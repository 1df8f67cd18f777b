//! ALTER TABLE … ADD CONSTRAINT … USING INDEX: a unique index becomes a PRIMARY KEY or a UNIQUE constraint.

use super::Alteration;
use crate::definition::{NewKey, constraint_name};
use crate::error::StatementError;
use crate::full_names::short;
use crate::notices::notice;
use crate::types::{last_name, object_name};
use catalog::{KeyRules, NewIndex};
use procedure::{Severity, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Alteration<'_> {
    /// Removes the index that a new constraint names, and adds a key like it. Returns whether the constraint
    /// names one.
    ///
    /// # Errors
    /// `42704`: there is no such index. `55000`: it belongs to another table, or to a constraint. `42809`: it
    /// is not unique, or has expressions, a condition or an order.
    pub(super) fn add_key_of_index(
        &mut self,
        constraint: &ast::TableConstraint,
    ) -> Result<bool, StatementError> {
        let (using, clause, options, is_primary) = match constraint {
            ast::TableConstraint::PrimaryKeyConstraint(key) => {
                (key.using_index(), key.constraint_name_clause(), key.constraint_options(), true)
            }
            ast::TableConstraint::UniqueConstraint(key) => {
                (key.using_index(), key.constraint_name_clause(), key.constraint_options(), false)
            }
            _ => return Ok(false),
        };
        let Some(using) = using else { return Ok(false) };
        let node = constraint.syntax();
        let path = self.builder.binder.part(using.index_ref().and_then(|name| name.path_ref()), node)?;
        let index = self.take_index(&path, node)?;
        let rules = self.builder.key_rules(options, None)?;
        let rules = KeyRules { deferral: rules.deferral, ..index.rules };
        let old = short(&index.name).to_owned();
        let given = constraint_name(clause);
        if let Some(new) = given.as_ref().filter(|new| **new != old) {
            let action = "ALTER TABLE / ADD CONSTRAINT USING INDEX";
            let message = format!("{action} will rename index \"{old}\" to \"{new}\"");
            self.notices.push(notice(Severity::Notice, "00000", message));
        }
        let name = Some(given.unwrap_or(old));
        self.builder.add_key(NewKey { name, rules, ..NewKey::like(index) }, is_primary, node)?;
        Ok(true)
    }

    /// Removes an index of the table that can become a key.
    fn take_index(&mut self, path: &ast::PathRef, node: &SyntaxNode) -> Result<NewIndex, StatementError> {
        let name = object_name(path);
        let refuse = |alteration: &Self, code: &str, message: String| {
            let error = SqlError::new(code, message);
            let error = match code {
                "42809" => {
                    error.with_detail("Cannot create a primary key or unique constraint using such an index.")
                }
                _ => error,
            };
            Err(alteration.builder.binder.error(node, error))
        };
        let shown = last_name(path);
        let table = &self.builder.table;
        let Some(position) = table.indexes.iter().position(|index| index.name == name) else {
            if self.builder.binder.schema.catalog().index(&name).is_ok() {
                let message = format!("index \"{shown}\" does not belong to table \"{}\"", table.name);
                return refuse(self, "55000", message);
            }
            return refuse(self, "42704", format!("index \"{shown}\" does not exist"));
        };
        let index = &table.indexes[position];
        if index.is_constraint {
            let message = format!("index \"{shown}\" is already associated with a constraint");
            return refuse(self, "55000", message);
        }
        let reason = if !index.unique {
            Some(format!("\"{shown}\" is not a unique index"))
        } else if index.details.condition.is_some() {
            Some(format!("\"{shown}\" is a partial index"))
        } else if index.columns.iter().any(|column| table.columns[*column].hidden) {
            Some(format!("index \"{shown}\" contains expressions"))
        } else {
            let ordered = index.details.orders.iter().position(|order| !order.is_empty());
            ordered.map(|column| {
                format!(
                    "index \"{shown}\" column number {} does not have default sorting behavior",
                    column + 1
                )
            })
        };
        match reason {
            Some(reason) => refuse(self, "42809", reason),
            None => Ok(self.builder.table.indexes.remove(position)),
        }
    }
}
