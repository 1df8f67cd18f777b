//! Statements that change which rows a partitioned table has: their steps, which are one transaction.
//!
//! ATTACH PARTITION copies the rows of a table to the root; DETACH PARTITION copies rows to a new table, and
//! deletes them; DROP TABLE and TRUNCATE of a partition delete rows. A partition beside a default partition
//! is created only if that has no rows of it. No trigger fires, and no foreign key acts.

use super::attach::name_aside;
use super::{Bound, Partition};
use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::nameless::compile_for_client;
use crate::nesting::with_stack;
use crate::quoted::{quoted, quoted_path};
use crate::roles::role::BOOTSTRAP;
use crate::schema::Schema;
use crate::source::{At, Source};
use crate::types::{made_name, object_name};
use catalog::Table;
use procedure::{Procedure, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A step of a statement that moves rows of partitions.
#[derive(Clone, Debug)]
pub enum Move {
    /// The statement changes definitions. No other transaction runs from then on.
    Define,
    /// A statement drops a table whose rows have been copied.
    Drop(String),
    /// A statement copies or deletes rows.
    Run(String),
    /// A query that has a row refuses the statement.
    Refuse(String, SqlError),
}

fn violation(message: String, table: &str) -> SqlError {
    let (schema, name) = table.rsplit_once('.').unwrap_or(("public", table));
    SqlError::new("23514", message).with_relation(schema, name)
}

/// Returns the names of a statement's tables.
fn tables_of(statement: &ast::Stmt) -> Vec<String> {
    let path = |name: ast::TableNameRef| name.path_ref().map(|path| object_name(&path));
    match statement {
        ast::Stmt::DropTable(drop) => drop.table_name_refs().filter_map(path).collect(),
        ast::Stmt::Truncate(truncate) => {
            let names = truncate.table_list().into_iter().flat_map(|list| list.table_relation_names());
            names.filter_map(|name| name.table_name_ref()).filter_map(path).collect()
        }
        _ => Vec::new(),
    }
}

impl Schema {
    /// Returns whether a text may be a statement that moves rows of partitions.
    pub fn may_move(&self, text: &str) -> bool {
        !self.partitions.is_empty() && matches!(self.moves(text), Ok(Some(_)))
    }

    /// Returns the steps of a statement that moves rows of partitions; `None` for any other statement, and
    /// for one that is refused.
    ///
    /// # Errors
    /// The text is malformed. `0A000`, `2BP01`: the rows cannot be moved.
    pub fn moves(&self, text: &str) -> Result<Option<Vec<Move>>, StatementError> {
        with_stack(text, || {
            let source = Source::parse(text)?;
            let first = source.file.stmts().find(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
            first.map_or(Ok(None), |statement| self.moves_of(&statement, &source))
        })
    }

    pub(crate) fn moves_of(
        &self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Option<Vec<Move>>, StatementError> {
        if self.partitions.is_empty() {
            return Ok(None);
        }
        let node = statement.syntax();
        match statement {
            ast::Stmt::CreateTable(create) => Ok(self.moves_of_creation(create, source)),
            ast::Stmt::AlterTable(alter) => {
                let path = alter.table_relation_name().and_then(|name| name.table_name_ref());
                let parent = path.and_then(|name| name.path_ref()).map(|path| object_name(&path));
                let parent = parent.unwrap_or_default();
                let actions: Vec<_> = alter.actions().collect();
                match actions.as_slice() {
                    [ast::AlterTableAction::AttachPartition(attach)] => {
                        Ok(self.moves_of_attachment(&parent, attach, source).ok())
                    }
                    [ast::AlterTableAction::DetachPartition(detach)] => {
                        let at = At { source, node };
                        let Ok(name) = self.partition_to_detach(&parent, detach, at) else { return Ok(None) };
                        Ok(Some(self.moves_of_detachment(&name)))
                    }
                    _ => Ok(None),
                }
            }
            ast::Stmt::DropTable(_) => {
                let names = tables_of(statement);
                let is_moved = |name: &&String| {
                    self.partitions.members.get(*name).is_some_and(|own| !names.contains(&own.root))
                };
                let deleted: Vec<String> =
                    names.iter().filter(is_moved).map(|name| self.deletion(name)).collect();
                let steps = std::iter::once(Move::Define).chain(deleted.iter().cloned().map(Move::Run));
                Ok((!deleted.is_empty()).then(|| steps.collect()))
            }
            ast::Stmt::Truncate(truncate) => self.moves_of_truncation(truncate, source),
            _ => Ok(None),
        }
    }

    /// Returns the statement that deletes the rows of a partition from its root.
    fn deletion(&self, name: &str) -> String {
        let root = quoted_path(self.partitions.root_of(name));
        let condition = self.partition_condition(name).unwrap_or_else(|| "true".into());
        format!("DELETE FROM {root} WHERE {condition}")
    }

    fn moves_of_creation(&self, create: &ast::CreateTable, source: &Source) -> Option<Vec<Move>> {
        let parent = create.partition_of()?.table_name_ref()?.path_ref();
        let parent = object_name(&parent?);
        let name = made_name(&Binder::new(self, source), &create.table_name()?.path()?).ok()?;
        if self.relation_exists(&name) {
            return None;
        }
        Some(vec![Move::Define, self.refusal_of_default(&parent, &name)?])
    }

    /// Returns the step that refuses a new partition if the default partition has rows of it.
    fn refusal_of_default(&self, parent: &str, name: &str) -> Option<Move> {
        let default = self.partitions.default_of(parent)?;
        let message = format!(
            "updated partition constraint for default partition \"{}\" would be violated by some row",
            short(default)
        );
        let query = format!("SELECT 1 FROM {} LIMIT 1", quoted_path(name));
        Some(Move::Refuse(query, violation(message, default)))
    }

    fn moves_of_attachment(
        &self,
        parent: &str,
        attach: &ast::AttachPartition,
        source: &Source,
    ) -> Result<Vec<Move>, StatementError> {
        let at = At { source, node: attach.syntax() };
        let name = self.partition_to_attach(parent, attach, at)?;
        let bound = self.read_bound(attach.partition_type(), parent, &name, at)?;
        let root = self.partitions.root_of(parent).to_owned();
        let table = Binder::new(self, source).table(&root, at.node)?;
        let mut steps = vec![Move::Define];
        steps.extend(self.refusal_of_default(parent, &name).filter(|_| bound != Bound::Default));
        let mut after = self.clone();
        let partition = Partition::new(root, parent.to_owned(), bound);
        after.partitions.members.insert(name.clone(), Arc::new(partition));
        let (aside, root) = (quoted_path(&name_aside(&name)), quoted_path(&table.name));
        let condition = after.partition_condition(&name).unwrap_or_else(|| "true".into());
        let query = format!("SELECT 1 FROM {aside} WHERE NOT {condition} LIMIT 1");
        let message =
            format!("partition constraint of relation \"{}\" is violated by some row", short(&name));
        steps.push(Move::Refuse(query, violation(message, &name)));
        let columns = stored_columns(&table);
        steps.push(Move::Run(format!(
            "INSERT INTO {root} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {aside}"
        )));
        steps.push(Move::Drop(format!("DROP TABLE {aside}")));
        Ok(steps)
    }

    fn moves_of_detachment(&self, name: &str) -> Vec<Move> {
        let root = self.partitions.root_of(name);
        let condition = self.partition_condition(name).unwrap_or_else(|| "true".into());
        let mut steps = vec![Move::Define];
        let Ok(table) = self.catalog.table(root) else { return steps };
        for (user, key) in self.catalog.references_to(root) {
            let names = |table: &Table, columns: &[usize]| {
                let names = columns.iter().map(|column| quoted(&table.columns[*column].name));
                names.collect::<Vec<_>>().join(", ")
            };
            let (own, referenced) = (names(user, &key.columns), names(table, &key.parent_columns));
            let query = format!(
                "SELECT 1 FROM {} WHERE ({own}) IN (SELECT {referenced} FROM {} WHERE {condition}) LIMIT 1",
                quoted_path(&user.name),
                quoted_path(root)
            );
            let message = format!(
                "removing partition \"{}\" violates foreign key constraint \"{}\"",
                short(name),
                key.name
            );
            steps.push(Move::Refuse(query, SqlError::new("23503", message).with_constraint(user, &key.name)));
        }
        let columns = stored_columns(table);
        steps.push(Move::Run(format!(
            "INSERT INTO {} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {} WHERE {condition}",
            quoted_path(name),
            quoted_path(root)
        )));
        steps.push(Move::Run(self.deletion(name)));
        steps
    }

    /// Refuses a TRUNCATE of partitions that cannot be executed.
    pub(crate) fn refuse_truncation(
        &self,
        truncate: &ast::Truncate,
        source: &Source,
    ) -> Result<(), StatementError> {
        self.moves_of_truncation(truncate, source).map(|_| ())
    }

    fn moves_of_truncation(
        &self,
        truncate: &ast::Truncate,
        source: &Source,
    ) -> Result<Option<Vec<Move>>, StatementError> {
        let (names, node) = (tables_of(&ast::Stmt::Truncate(truncate.clone())), truncate.syntax());
        let partitions = names.iter().filter(|name| self.is_partition(name)).count();
        if partitions == 0 {
            return Ok(None);
        }
        let binder = Binder::new(self, source);
        if partitions < names.len() {
            return Err(binder.unsupported(node, "TRUNCATE of partitions together with other tables"));
        }
        for name in &names {
            let root = self.partitions.root_of(name);
            if let Some((user, _)) = self.catalog.references_to(root).next() {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                let error = SqlError::new("0A000", message).with_detail(format!(
                    "Table \"{}\" references \"{}\".",
                    user.short_name(),
                    short(name)
                ));
                return Err(binder.error(node, error));
            }
        }
        Ok(Some(names.iter().map(|name| Move::Run(self.deletion(name))).collect()))
    }

    /// Compiles a step that copies, deletes or looks for rows. No trigger fires; foreign keys that a DELETE
    /// would act upon do not.
    ///
    /// # Errors
    /// The step cannot be compiled: the partitioned table has a rule that calls a function, for example.
    pub fn compile_move(&self, text: &str) -> Result<Arc<Procedure>, StatementError> {
        let mut bare = Self { acting: BOOTSTRAP, ..self.clone() };
        let deletes = text.starts_with("DELETE");
        let tables: Vec<Arc<Table>> = self.catalog.tables().cloned().collect();
        for table in tables {
            let mut plain = Table::clone(&table);
            plain.triggers.clear();
            if deletes {
                plain.foreign_keys.clear();
            }
            if plain != *table {
                // The name stays the same, so it cannot be taken.
                let _ = bare.catalog.redefine(&table.name, plain);
            }
        }
        bare.forget_foreign_keys();
        with_stack(text, || {
            let source = Source::parse(text)?;
            let statement = source.file.stmts().next();
            let statement = Binder::new(&bare, &source).part(statement, source.file.syntax())?;
            compile_for_client(&statement, &bare, &source, &[]).map(|compiled| Arc::new(compiled.procedure))
        })
    }
}

/// Returns the columns of a table whose values are not computed.
fn stored_columns(table: &Table) -> String {
    let stored = table.visible().iter().filter(|column| !column.generated);
    stored.map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}
