//! DROP and TRUNCATE.

use crate::StatementError;
use crate::binder::Binder;
use crate::circles::has_text;
use crate::full_names::short;
use crate::notices::notice;
use crate::routine_changes::shown_routine;
use crate::schema::{Schema, refused, unsupported};
use crate::source::{At, Source};
use crate::types::{last_name, object_name};
use catalog::{NewTable, Table, TableId};
use procedure::{Effect, Procedure, Severity, SqlError, sequences_in};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The kind of objects that a DROP names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    Sequence,
    Index,
    View,
    Namespace,
}

impl Kind {
    fn of(statement: &ast::Stmt) -> Self {
        match statement {
            ast::Stmt::DropTable(_) => Self::Table,
            ast::Stmt::DropSequence(_) => Self::Sequence,
            ast::Stmt::DropIndex(_) => Self::Index,
            ast::Stmt::DropView(_) => Self::View,
            _ => Self::Namespace,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Sequence => "sequence",
            Self::Index => "index",
            Self::View => "view",
            Self::Namespace => "schema",
        }
    }
}

/// Returns the names that a DROP lists.
fn listed(statement: &ast::Stmt) -> Vec<(String, SyntaxNode)> {
    let paths: Vec<Option<ast::PathRef>> = match statement {
        ast::Stmt::DropTable(drop) => drop.table_name_refs().map(|name| name.path_ref()).collect(),
        ast::Stmt::DropSequence(drop) => drop.sequence_refs().map(|name| name.path_ref()).collect(),
        ast::Stmt::DropIndex(drop) => drop.index_refs().map(|name| name.path_ref()).collect(),
        ast::Stmt::DropView(drop) => drop.view_refs().map(|name| name.path_ref()).collect(),
        ast::Stmt::DropSchema(drop) => {
            let named =
                |name: ast::SchemaRef| (ast::normalize_name_node(name.syntax()), name.syntax().clone());
            return drop.schema_refs().map(named).collect();
        }
        _ => Vec::new(),
    };
    paths.into_iter().flatten().map(|path| (object_name(&path), path.syntax().clone())).collect()
}

/// The objects in a schema.
struct Contents {
    /// Tables and sequences.
    tables: Vec<String>,
    views: Vec<String>,
    routines: Vec<Arc<Procedure>>,
    /// Types after those over them.
    types: Vec<String>,
}

impl Contents {
    fn is_empty(&self) -> bool {
        let Self { tables, views, routines, types } = self;
        tables.is_empty() && views.is_empty() && routines.is_empty() && types.is_empty()
    }
}

/// Returns whether an object of this name is in a schema.
fn is_in(schema: &str, name: &str) -> bool {
    name.rsplit_once('.').map_or("public", |(own, _)| own) == schema
}

/// Returns whether ONLY stands before a name.
fn name_is_alone(path: &ast::PathRef) -> bool {
    let name = path.syntax().ancestors().find_map(ast::TableRelationName::cast);
    name.is_some_and(|name| name.only_token().is_some())
}

impl Schema {
    /// Returns the kind of the object that has a name: of a schema if a schema is wanted, of a relation
    /// otherwise.
    fn kind_of(&self, name: &str, wanted: Kind) -> Option<Kind> {
        if wanted == Kind::Namespace {
            return self.has_namespace(name).then_some(Kind::Namespace);
        }
        match self.catalog.table(name) {
            Ok(table) if table.sequence.is_some() => Some(Kind::Sequence),
            Ok(_) => Some(Kind::Table),
            Err(_) if self.is_partition(name) => Some(Kind::Table),
            Err(_) if self.views.contains_key(name) => Some(Kind::View),
            Err(_) => self.catalog.index(name).is_ok().then_some(Kind::Index),
        }
    }

    fn contents_of(&self, schema: &str) -> Contents {
        let is_its = |name: &String| is_in(schema, name);
        let mut domains: Vec<String> = self.catalog.domains().map(|own| own.name.clone()).collect();
        domains.sort_by_key(|name| self.catalog.domains_over(name).len());
        let types = self.catalog.enumerations().map(|own| own.definition().name.clone());
        let types = domains.into_iter().chain(types);
        Contents {
            tables: self.catalog.tables().map(|table| table.name.clone()).filter(is_its).collect(),
            views: self.views.keys().filter(|name| is_its(name)).cloned().collect(),
            routines: self.procedures.values().filter(|own| is_its(&own.name)).cloned().collect(),
            types: types.filter(is_its).collect(),
        }
    }

    /// Returns whether a schema has no objects. DROP SCHEMA leaves `public` so.
    pub(crate) fn is_empty_schema(&self, name: &str) -> bool {
        self.contents_of(name).is_empty()
    }

    /// Returns the error for a DROP whose name is that of no object, or of one of another kind.
    fn missing(&self, name: &str, wanted: Kind) -> SqlError {
        if let Some(kind) = self.kind_of(name, wanted) {
            let (word, short) = (kind.word(), short(name));
            let article = |word: &str| if word == "index" { "an" } else { "a" };
            let message = format!("\"{short}\" is not {} {}", article(wanted.word()), wanted.word());
            let hint = format!("Use DROP {} to remove {} {word}.", word.to_uppercase(), article(word));
            return SqlError::new("42809", message).with_hint(hint);
        }
        let code = match wanted {
            Kind::Index => "42704",
            Kind::Namespace => "3F000",
            _ => "42P01",
        };
        SqlError::new(code, format!("{} \"{name}\" does not exist", wanted.word()))
    }

    pub(crate) fn drop_relations(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        let kind = Kind::of(statement);
        let if_exists = node.children().any(|child| ast::IfExists::can_cast(child.kind()));
        let cascades = node.children().any(|child| ast::Cascade::can_cast(child.kind()));
        let mut effects = Vec::new();
        let (mut tables, mut partitions) = (BTreeSet::new(), Vec::new());
        // The routines and types of dropped schemas.
        let mut dropped: (Vec<Arc<Procedure>>, Vec<String>) = Default::default();
        for (name, at) in listed(statement) {
            if self.kind_of(&name, kind) != Some(kind) {
                match self.missing(&name, kind) {
                    error if error.sqlstate != "42809" && if_exists => {
                        match name.split_once('.').filter(|(own, _)| !self.has_namespace(own)) {
                            Some((own, _)) => self.notices.skip_missing(&format!("schema \"{own}\"")),
                            None => {
                                self.notices.skip_missing(&format!("{} \"{}\"", kind.word(), short(&name)))
                            }
                        }
                        continue;
                    }
                    error => return Err(source.error_at(at.text_range().start().into(), error)),
                }
            }
            match kind {
                Kind::Table if self.is_partition(&name) => partitions.push((name, at)),
                Kind::Table | Kind::Sequence => {
                    tables.insert(name);
                }
                Kind::Index => {
                    let (table, position) =
                        self.catalog.index(&name).map_err(|e| refused(source, &at, &e))?;
                    let table = Arc::clone(table);
                    self.refuse_needed(&table, position, source, &at)?;
                    effects.push(self.remove_index(&table, position, At { source, node: &at })?);
                }
                Kind::View => {
                    self.views.remove(&name);
                }
                Kind::Namespace => {
                    let contents = self.contents_of(&name);
                    let is_empty = contents.is_empty();
                    let Contents { tables: mut dependents, views, routines, types: of_schema } = contents;
                    if !(cascades || is_empty) {
                        let message = format!("cannot drop schema {name} because other objects depend on it");
                        let error = SqlError::new("2BP01", message);
                        let error =
                            error.with_hint("Use DROP ... CASCADE to drop the dependent objects too.");
                        return Err(source.error_at(at.text_range().start().into(), error));
                    }
                    for table in &dependents {
                        let sequence = self.catalog.table(table).ok().and_then(|own| own.sequence.as_ref());
                        // The sequence of a column goes with its table.
                        match sequence.map(|own| own.owner.is_some()) {
                            None => self.notices.drops_also(format!("table {table}")),
                            Some(false) => self.notices.drops_also(format!("sequence {table}")),
                            Some(true) => {}
                        }
                    }
                    tables.extend(dependents.drain(..));
                    for view in &views {
                        let root = self.partitions.root_of(view);
                        if root != view && !is_in(&name, root) {
                            let what = "DROP SCHEMA with a partition of a table of another schema";
                            return Err(unsupported(source, &at, what));
                        }
                        let is_partition = root != view;
                        self.views.remove(view);
                        // A partition goes with its table.
                        if !is_partition {
                            self.notices.drops_also(format!("view {view}"));
                        }
                    }
                    routines.iter().for_each(|own| self.notices.drops_also(shown_routine(own)));
                    of_schema.iter().for_each(|own| self.notices.drops_also(format!("type {own}")));
                    self.namespaces.remove(&name);
                    for own in &routines {
                        self.procedures.remove(&own.name);
                        self.unbound.remove(&own.name);
                    }
                    dropped.0.extend(routines);
                    dropped.1.extend(of_schema);
                }
            }
        }
        self.drop_partitions(&partitions, &tables, source)?;
        self.drop_tables(tables, cascades, (source, node), &mut effects)?;
        self.remove_routines(&dropped.0, source, node)?;
        for name in dropped.1 {
            self.remove_type(&name, source, node)?;
        }
        if cascades {
            self.drop_broken_views();
        }
        self.recompile(source, node)?;
        Ok(Effect::All(effects))
    }

    /// Drops tables, with the sequences that their columns own.
    fn drop_tables(
        &mut self,
        mut names: BTreeSet<String>,
        cascades: bool,
        (source, node): (&Source, &SyntaxNode),
        effects: &mut Vec<Effect>,
    ) -> Result<(), StatementError> {
        let owned = self.catalog.tables().filter(|table| {
            let owner = table.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
            owner.is_some_and(|(table, _)| names.contains(table))
        });
        let owned: Vec<String> = owned.map(|table| table.name.clone()).collect();
        names.extend(owned);
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
        for name in &names {
            let references = self.catalog.references_to(name);
            let referencing = references.filter(|(table, _)| !names.contains(&table.name));
            let referencing: Vec<_> =
                referencing.map(|(table, key)| (table.name.clone(), key.name.clone())).collect();
            for (other, key) in referencing {
                if !cascades {
                    let message = format!("cannot drop table {name} because other objects depend on it");
                    let error = SqlError::new("2BP01", message)
                        .with_detail(format!("constraint {key} on table {other} depends on table {name}"))
                        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.");
                    return Err(at(error));
                }
                self.notices.drops_also(format!("constraint {key} on table {other}"));
                let mut changed =
                    Table::clone(self.catalog.table(&other).map_err(|e| refused(source, node, &e))?);
                changed.foreign_keys.retain(|foreign_key| foreign_key.name != key);
                let changed =
                    self.catalog.redefine(&other, changed).map_err(|e| refused(source, node, &e))?;
                effects.push(Effect::Redefine(changed));
            }
            let dropped = self.catalog.table(name).map_err(|error| refused(source, node, &error))?;
            let dropped = Arc::clone(dropped);
            if cascades && dropped.sequence.is_some() {
                effects.push(self.drop_defaults_from(&dropped, &names, At { source, node })?);
            }
            let user = self.catalog.tables().find(|table| {
                dropped.sequence.is_some()
                    && !names.contains(&table.name)
                    && self.column_drawing_from(table, dropped.id, source).is_some()
            });
            if let Some(user) = user {
                let message =
                    format!("cannot drop sequence {name}: a default of table {} uses it", user.name);
                return Err(at(SqlError::new("2BP01", message)));
            }
        }
        for name in names {
            if self.is_partitioned(&name) {
                self.remove_partition(&name);
            }
            let table = self.catalog.drop_table(&name).map_err(|error| refused(source, node, &error))?;
            let uses = |procedure: &&Arc<Procedure>| procedure.tables().any(|used| used.id == table.id);
            if let Some(user) = self.procedures.values().filter(|own| !has_text(&own.source)).find(uses) {
                let message = format!("cannot drop table {name}: function {} depends on it", user.name);
                return Err(at(SqlError::new("2BP01", message).with_hint("Drop the function first.")));
            }
            effects.push(Effect::DropTable(table));
        }
        Ok(())
    }

    /// Returns a column whose default takes or sets numbers of a sequence.
    pub(crate) fn column_drawing_from(
        &self,
        table: &Table,
        sequence: TableId,
        source: &Source,
    ) -> Option<usize> {
        let mut columns = (0..table.columns.len()).filter(|column| table.columns[*column].default.is_some());
        columns.find(|column| {
            let column = *column;
            let default = Binder::new(self, source).bind_default(table, column, source.file.syntax());
            default.is_ok_and(|expression| sequences_in(&expression).contains(&sequence))
        })
    }

    /// Refuses to drop a unique index that foreign keys need, or a constraint's index by DROP INDEX.
    fn refuse_needed(
        &self,
        table: &Table,
        position: usize,
        source: &Source,
        at: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let index = &table.indexes[position];
        let message = if index.is_constraint {
            let (name, table) = (&index.name, &table.name);
            format!("cannot drop index {name} because constraint {name} on table {table} requires it")
        } else {
            let is_meant = |columns: &[usize]| table.unique_index_of(columns) == Some(position);
            let mut users = self.catalog.references_to(&table.name);
            let Some((user, key)) = users.find(|(_, key)| is_meant(&key.parent_columns)) else {
                return Ok(());
            };
            format!(
                "cannot drop index {}: constraint {} on table {} needs it",
                index.name, key.name, user.name
            )
        };
        Err(source.error_at(at.text_range().start().into(), SqlError::new("2BP01", message)))
    }

    /// Returns tables with those that reference them, directly or through other tables.
    pub(crate) fn with_referencing(&self, tables: BTreeSet<String>) -> BTreeSet<String> {
        let (mut all, mut pending) = (tables.clone(), Vec::from_iter(tables));
        while let Some(table) = pending.pop() {
            for (referencing, _) in self.catalog.references_to(&table) {
                if all.insert(referencing.name.clone()) {
                    pending.push(referencing.name.clone());
                }
            }
        }
        all
    }

    /// Returns tables with those to which TRUNCATE … CASCADE goes on, and tells it.
    fn truncated_also(&mut self, tables: BTreeSet<String>) -> BTreeSet<String> {
        let all = self.with_referencing(tables.clone());
        for name in all.difference(&tables) {
            let message = format!("truncate cascades to table \"{}\"", short(name));
            self.notices.tell(notice(Severity::Notice, "00000", message));
        }
        all
    }

    /// Executes TRUNCATE: a new empty table replaces each table.
    pub(crate) fn truncate(
        &mut self,
        truncate: &ast::Truncate,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = truncate.syntax();
        let cascades = matches!(truncate.drop_behavior(), Some(ast::DropBehavior::Cascade(_)));
        let restarts = matches!(truncate.identity_action(), Some(ast::IdentityAction::RestartIdentity(_)));
        let mut names = BTreeSet::new();
        for name in truncate.table_list().into_iter().flat_map(|list| list.table_relation_names()) {
            let path = name.table_name_ref().and_then(|name| name.path_ref());
            let Some(path) = path else { return Err(unsupported(source, name.syntax(), "this name")) };
            let name = object_name(&path);
            if self.is_partitioned(&name) && name_is_alone(&path) {
                let error = SqlError::new("42809", "cannot truncate only a partitioned table").with_hint(
                    "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.",
                );
                return Err(source.error_at(path.syntax().text_range().start().into(), error));
            }
            if self.is_partition(&name) {
                self.refuse_truncation(truncate, source)?;
            }
            if self.views.contains_key(&name) {
                let error = SqlError::new("42809", format!("\"{}\" is not a table", last_name(&path)));
                return Err(source.error_at(path.syntax().text_range().start().into(), error));
            }
            let table = self.catalog.table(&name).map_err(|error| refused(source, path.syntax(), &error))?;
            Binder::new(self, source).refuse_sequence(table, path.syntax())?;
            names.insert(name);
        }
        if cascades {
            names = self.truncated_also(names);
        }
        let referencing = names.iter().flat_map(|name| {
            let users = self.catalog.references_to(name);
            users.map(move |(table, _)| (name, table.name.clone()))
        });
        if let Some((name, user)) = referencing.into_iter().find(|(_, user)| !names.contains(user)) {
            let error =
                SqlError::new("0A000", "cannot truncate a table referenced in a foreign key constraint")
                    .with_detail(format!("Table \"{user}\" references \"{name}\"."))
                    .with_hint(format!(
                        "Truncate table \"{user}\" at the same time, or use TRUNCATE ... CASCADE."
                    ));
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        if restarts {
            let owned = self.catalog.tables().filter(|table| {
                let owner = table.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
                owner.is_some_and(|(table, _)| names.contains(table))
            });
            let owned: Vec<String> = owned.map(|table| table.name.clone()).collect();
            names.extend(owned);
        }
        let mut effects = Vec::new();
        for name in names {
            let old = self.catalog.table(&name).map_err(|error| refused(source, node, &error))?;
            let (old, mut new) = (Arc::clone(old), NewTable::from(&**old));
            new.sequence.iter_mut().for_each(|own| own.restart = None);
            let new =
                self.catalog.replace_table(&name, new).map_err(|error| refused(source, node, &error))?;
            effects.extend([Effect::DropTable(old), Effect::CreateTable(new)]);
        }
        self.recompile(source, node)?;
        Ok(Effect::All(effects))
    }
}
