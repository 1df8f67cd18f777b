//! ON CONFLICT of an INSERT.

use super::Binder;
use super::target::Target;
use crate::error::StatementError;
use crate::full_names::short;
use crate::roles::acl;
use crate::trigger::WrittenRow;
use catalog::{Index, TriggerEvent};
use procedure::query::{ConflictUpdate, OnConflict};
use procedure::{Register, SqlError};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Binds ON CONFLICT of an INSERT, whose new row registers hold.
    pub(super) fn bind_conflict(
        &mut self,
        clause: &ast::OnConflictClause,
        (target, alias): (&Target, &str),
        registers: Register,
    ) -> Result<OnConflict, StatementError> {
        let (node, table) = (clause.syntax(), &target.table);
        let index = match clause.conflict_target() {
            None => None,
            Some(ast::ConflictTarget::ConflictOnConstraint(constraint)) => {
                let name = self.part(constraint.constraint_name_ref(), node)?;
                let name = name.syntax().descendants().last().unwrap_or(name.syntax().clone());
                let name = ast::normalize_name_node(&name);
                let of_table = target.view().is_none();
                let is_meant = |index: &Index| of_table && index.is_key() && short(&index.name) == name;
                match table.indexes.iter().position(is_meant) {
                    Some(index) => Some(index),
                    None => {
                        let relation = target.view().map_or(&table.name, |view| &view.name);
                        let message =
                            format!("constraint \"{name}\" for table \"{relation}\" does not exist");
                        return Err(self.error(node, SqlError::new("42704", message)));
                    }
                }
            }
            Some(ast::ConflictTarget::ConflictOnIndex(conflict)) => {
                Some(self.bind_conflict_target(&conflict, target, node)?)
            }
        };
        if let Some(index) = index {
            self.need_target(target, acl::SELECT, &table.indexes[index].columns);
        }
        let update = match self.part(clause.conflict_action(), node)? {
            ast::ConflictAction::ConflictDoNothing(_) => None,
            ast::ConflictAction::ConflictDoUpdateSet(update) => {
                if index.is_none() {
                    let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                    return Err(self.syntax(node, message));
                }
                Some(self.bind_conflict_update(&update, (target, alias), registers)?)
            }
            ast::ConflictAction::ConflictDoSelect(select) => {
                return Err(self.unsupported(select.syntax(), "ON CONFLICT DO SELECT"));
            }
        };
        Ok(OnConflict { index, update })
    }

    fn bind_conflict_update(
        &mut self,
        update: &ast::ConflictDoUpdateSet,
        (target, alias): (&Target, &str),
        registers: Register,
    ) -> Result<ConflictUpdate, StatementError> {
        let (node, table) = (update.syntax(), &target.table);
        let old = self.row_registers(table);
        let mut relations = target.over_row(old, alias, 0);
        let of_excluded = relations.len();
        let mut excluded = target.over_row(registers, "excluded", of_excluded);
        relations.append(&mut excluded);
        self.level().relations = relations;
        self.need_target_read(target, 0);
        self.need_target_read(target, of_excluded);
        let bind = |binder: &mut Self| {
            let assignments = binder.bind_assignments(update.set_clause(), target, node)?;
            let condition = update.where_clause().and_then(|clause| clause.expr());
            let condition = condition.map(|condition| binder.bind_condition(&condition)).transpose()?;
            Ok((assignments, condition))
        };
        let ((assignments, condition), applied) = self.applying(bind)?;
        if !applied.is_empty() {
            return Err(self.unsupported(node, "a subquery in ON CONFLICT DO UPDATE"));
        }
        let mut with_registers = Vec::new();
        for (column, value) in assignments {
            if table.primary().columns.contains(&column) {
                return Err(self.unsupported(node, "ON CONFLICT DO UPDATE of a primary key column"));
            }
            with_registers.push((column, self.new_register(table.columns[column].ty), value));
        }
        let mut set: Vec<usize> = with_registers.iter().map(|(column, ..)| *column).collect();
        self.need_target(target, acl::UPDATE, &set);
        let generated = self.bind_generated(table, registers, Some(&set), node)?;
        set.extend(generated.iter().map(|(column, _)| *column));
        let row = WrittenRow { old, new: registers };
        let triggers = self.bind_triggers(table, TriggerEvent::Update, &set, row, node)?;
        Ok(ConflictUpdate { old, condition, assignments: with_registers, triggers })
    }
}
