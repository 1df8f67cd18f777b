//! The names of temporary relations in the statements of a session.
//! Source: PostgreSQL 15's documentation, "The Schema Search Path": the session's temporary schema is
//! searched first for relations and types, and never for functions.
//!
//! A session has one schema for its temporary relations, `pg_temp_N`. Before a statement is bound or logged,
//! each name that denotes one of them gets the schema in the text. So the binder and the log know no
//! sessions: what they see are the names of ordinary relations, and replay reads the same text.
//! Example: in a session of `pg_temp_3` that has a temporary table `t`, `SELECT a FROM t, pg_temp.u` becomes
//! `SELECT a FROM pg_temp_3.t, pg_temp_3.u`.
//! Not here: routines, whose texts are kept as they are written (`temporary`).
//! Held by: `temporary.slt` in `crates/workload/tests/sql`.

use crate::StatementError;
use crate::nesting::with_stack;
use crate::prepare::Prepared;
use crate::quoted::written_path;
use crate::schema::Schema;
use crate::session_schema::{PREFIX, is_session_schema};
use crate::source::Source;
use crate::types::last_name;
use catalog::Type;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::cell::RefCell;
use std::ops::Range;

/// A statement in which the names of temporary relations have their schema.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The statement.
    pub text: String,
    /// What a client is told about it.
    pub notice: Option<SqlError>,
    /// The statement as it is written.
    written: String,
    /// The replaced ranges of the written statement with their new texts, in order.
    edits: Vec<(Range<usize>, String)>,
}

impl Resolved {
    /// Returns an error of the statement as one of the statement as it is written.
    #[must_use]
    pub fn placed(&self, mut error: StatementError) -> StatementError {
        let line_start = |text: &str, line: u32| -> usize {
            let before = text.split_inclusive('\n').take(line.saturating_sub(1) as usize);
            before.map(str::len).sum()
        };
        let start = line_start(&self.text, error.line);
        let within = self.text[start..].chars().take(error.column.saturating_sub(1) as usize);
        let offset = start + within.map(char::len_utf8).sum::<usize>();
        let mut shift = 0_isize;
        let mut original = None;
        for (range, new) in &self.edits {
            let begins = range.start.wrapping_add_signed(shift);
            if offset < begins {
                break;
            }
            if offset < begins + new.len() {
                original = Some(range.start);
                break;
            }
            shift += new.len() as isize - range.len() as isize;
        }
        let original = original.unwrap_or_else(|| offset.wrapping_add_signed(-shift)).min(self.written.len());
        let start = line_start(&self.written, error.line).min(original);
        error.column = self.written[start..original].chars().count() as u32 + 1;
        error.error = self.as_written(error.error);
        error
    }

    /// Returns an error without the schemas that the client has not written.
    #[must_use]
    pub fn as_written(&self, mut error: SqlError) -> SqlError {
        let Some((_, schema)) = self.edits.iter().find(|(_, new)| new.starts_with(PREFIX)) else {
            return error;
        };
        let (number, _) = schema.split_once('.').unwrap_or((schema, ""));
        let full = format!("{number}.");
        if self.written.contains(&full) {
            return error;
        }
        let written = if self.written.contains("pg_temp.") { "pg_temp." } else { "" };
        let shown = |text: &str| text.replace(&full, written);
        error.message = shown(&error.message);
        error.detail = error.detail.as_deref().map(shown);
        error.hint = error.hint.as_deref().map(|text| shown(text).into());
        error
    }
}

/// What the path under a node denotes.
enum Role {
    Relation,
    /// A column behind its relation.
    Column,
    /// A type, which may be that of a table's rows.
    Type,
    Other,
}

fn role_of(parent: &SyntaxNode) -> Role {
    use ast::{IndexRef, PathType, PercentType, QualifiedColumnNameRef, RelationNameRef, SequenceRef};
    use ast::{TableNameRef, ViewRef};
    let kind = parent.kind();
    let is_relation = [
        RelationNameRef::can_cast(kind),
        TableNameRef::can_cast(kind),
        SequenceRef::can_cast(kind),
        ViewRef::can_cast(kind),
        IndexRef::can_cast(kind),
        ast::PlpgsqlPercentRowtype::can_cast(kind),
    ];
    match () {
        () if is_relation.contains(&true) => Role::Relation,
        () if PercentType::can_cast(kind) || QualifiedColumnNameRef::can_cast(kind) => Role::Column,
        () if PathType::can_cast(kind) => Role::Type,
        () => Role::Other,
    }
}

/// Returns whether a name in FROM is that of a query of WITH.
fn is_named_query(node: &SyntaxNode, name: &str) -> bool {
    let Some(reference) = node.parent() else { return false };
    let reads = reference.parent().is_some_and(|item| {
        let is_table = |parent: &SyntaxNode| ast::Table::can_cast(parent.kind());
        ast::RelationFromItem::can_cast(item.kind())
            || ast::RelationName::can_cast(item.kind()) && item.parent().as_ref().is_some_and(is_table)
    });
    reads
        && node.ancestors().any(|ancestor| {
            let Some(with) = ancestor.children().find_map(ast::WithClause::cast) else { return false };
            let is_recursive = with.recursive_token().is_some();
            let holds =
                |table: &ast::WithTable| table.syntax().text_range().contains_range(node.text_range());
            let tables = with.with_tables().take_while(|table| is_recursive || !holds(table));
            let mut names = tables.filter_map(|table| table.name());
            names.any(|own| ast::normalize_name_node(own.syntax()) == name)
        })
}

/// Finds the names of temporary relations in a tree.
struct Finder<'a> {
    schema: &'a Schema,
    /// The session's schema.
    namespace: &'a str,
    /// The schemas that are searched before that.
    before: &'a [String],
    source: &'a Source,
    /// The temporary table that the statement creates: a foreign key may reference it.
    created: Option<String>,
    /// Returns the range of a node in the text as it is written.
    range: &'a dyn Fn(&SyntaxNode) -> Range<usize>,
    edits: RefCell<Vec<(Range<usize>, String)>>,
    notice: RefCell<Option<SqlError>>,
}

impl Finder<'_> {
    /// Returns whether a name without a schema is that of a temporary relation.
    fn has(&self, name: &str) -> bool {
        let is_hidden = self.before.iter().any(|schema| match schema.as_str() {
            "public" => self.schema.relation_exists(name),
            other => self.schema.relation_exists(&format!("{other}.{name}")),
        });
        let is_there = self.schema.relation_exists(&format!("{}.{name}", self.namespace));
        !is_hidden && is_there
    }

    fn refused(&self, node: &SyntaxNode, code: &str, message: &str) -> StatementError {
        let (line, column) = self.source.line_and_column((self.range)(node).start);
        StatementError { line, column, error: SqlError::new(code, message) }
    }

    fn insert(&self, node: &SyntaxNode) {
        let start = (self.range)(node).start;
        self.edits.borrow_mut().push((start..start, format!("{}.", self.namespace)));
    }

    fn replace(&self, node: &SyntaxNode) {
        self.edits.borrow_mut().push(((self.range)(node), self.namespace.to_owned()));
    }

    /// Resolves the name of a relation that is there.
    fn relation(&self, path: &ast::PathRef, is_type: bool) -> Result<(), StatementError> {
        let (node, name) = (path.syntax(), last_name(path));
        let Some(qualifier) = path.qualifier() else {
            let is_it = match is_type {
                true => {
                    let full = format!("{}.{name}", self.namespace);
                    self.has(&name) && self.schema.catalog.table(&full).is_ok()
                }
                false => {
                    self.has(&name) && !is_named_query(node, &name)
                        || self.created.as_ref() == Some(&name) && is_reference(node)
                }
            };
            if is_it {
                self.insert(node);
            }
            return Ok(());
        };
        self.qualifier(&qualifier)
    }

    /// Resolves the schema before a name.
    fn qualifier(&self, qualifier: &ast::PathRef) -> Result<(), StatementError> {
        match last_name(qualifier).as_str() {
            "pg_temp" => self.replace(qualifier.syntax()),
            own if own == self.namespace => {}
            other if is_session_schema(other) && self.schema.has_namespace(other) => {
                let message = "cannot access temporary tables of other sessions";
                return Err(self.refused(qualifier.syntax(), "0A000", message));
            }
            _ => {}
        }
        Ok(())
    }

    /// Resolves the name of a relation that a statement makes.
    fn made(&self, path: Option<ast::Path>, is_temporary: bool) -> Result<(), StatementError> {
        let Some(path) = path else { return Ok(()) };
        let node = path.syntax();
        let message = match path.qualifier() {
            None => {
                if is_temporary {
                    self.insert(node);
                }
                return Ok(());
            }
            Some(qualifier) => match last_name(&qualifier).as_str() {
                "pg_temp" => {
                    self.replace(qualifier.syntax());
                    return Ok(());
                }
                own if own == self.namespace => return Ok(()),
                other if is_session_schema(other) => {
                    "cannot create relations in temporary schemas of other sessions"
                }
                _ if is_temporary => "cannot create temporary relation in non-temporary schema",
                _ => return Ok(()),
            },
        };
        Err(self.refused(node, "42P16", message))
    }

    /// Resolves the view that CREATE VIEW makes: one over a temporary relation is temporary.
    fn view(&self, create: &ast::CreateView) -> Result<(), StatementError> {
        let path = create.view().and_then(|view| view.path());
        let is_declared = is_temporary(create.persistence());
        let is_over = !is_declared && !self.edits.borrow().is_empty();
        let in_temporary = path.as_ref().and_then(ast::Path::qualifier).is_some_and(|qualifier| {
            let schema = last_name(&qualifier);
            schema == "pg_temp" || is_session_schema(&schema)
        });
        if is_over && !in_temporary {
            let name = path.as_ref().and_then(ast::Path::segment).map(|name| name.text());
            let message = format!("view \"{}\" will be a temporary view", name.unwrap_or_default());
            *self.notice.borrow_mut() = Some(SqlError::new("00000", message));
        }
        self.made(path, is_declared || is_over)
    }

    /// Resolves the names of sequences and relations in texts: `nextval('s')`, `'t'::regclass`.
    fn literal(&self, literal: &ast::Literal) {
        let node = literal.syntax();
        let text = node.text().to_string();
        let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        let Some(name) = inner.filter(|inner| !inner.contains('\'')).and_then(written_path) else { return };
        if !names_relation(literal) {
            return;
        }
        let start = (self.range)(node).start + 1;
        if let Some(rest) = name.strip_prefix("pg_temp.").filter(|rest| self.has(rest)) {
            let end = start + text.len() - 2;
            let new = crate::quoted::quoted_path(&format!("{}.{rest}", self.namespace));
            self.edits.borrow_mut().push((start..end, new));
        } else if !name.contains('.') && self.has(&name) {
            self.edits.borrow_mut().push((start..start, format!("{}.", self.namespace)));
        }
    }

    fn node(&self, node: &SyntaxNode) -> Result<(), StatementError> {
        if let Some(path) = ast::PathRef::cast(node.clone()) {
            let Some(parent) = node.parent().filter(|own| !is_path(own)) else { return Ok(()) };
            return match role_of(&parent) {
                Role::Relation => self.relation(&path, false),
                Role::Column => path.qualifier().map_or(Ok(()), |table| self.relation(&table, false)),
                Role::Type => self.relation(&path, true),
                Role::Other => path.qualifier().map_or(Ok(()), |qualifier| self.unknown(&qualifier)),
            };
        }
        if let Some(literal) = ast::Literal::cast(node.clone()) {
            self.literal(&literal);
        }
        if let Some(field) = ast::FieldExpr::cast(node.clone())
            && let Some(ast::Expr::FieldExpr(inner)) = field.base()
            && let Some(ast::Expr::NameRef(schema)) = inner.base()
            && schema.text() == "pg_temp"
        {
            self.replace(schema.syntax());
        }
        self.creation(node)
    }

    fn creation(&self, node: &SyntaxNode) -> Result<(), StatementError> {
        if let Some(create) = ast::CreateTable::cast(node.clone()) {
            let path = create.table_name().and_then(|name| name.path());
            return self.made(path, is_temporary(create.persistence()));
        }
        if let Some(create) = ast::CreateTableAs::cast(node.clone()) {
            let path = create.table_name().and_then(|name| name.path());
            return self.made(path, is_temporary(create.persistence()));
        }
        if let Some(into) = ast::IntoClause::cast(node.clone()) {
            let path = into.table_name().and_then(|name| name.path());
            return self.made(path, is_temporary(into.persistence()));
        }
        if let Some(create) = ast::CreateSequence::cast(node.clone()) {
            let path = create.sequence().and_then(|name| name.path());
            return self.made(path, is_temporary(create.persistence()));
        }
        Ok(())
    }

    /// Refuses the temporary schema before the name of any other object.
    fn unknown(&self, qualifier: &ast::PathRef) -> Result<(), StatementError> {
        let schema = last_name(qualifier);
        if schema != "pg_temp" && !is_session_schema(&schema) {
            return Ok(());
        }
        let message = "an object in the temporary schema other than a relation is not supported";
        Err(self.refused(qualifier.syntax(), "0A000", message))
    }

    /// Finds the names in a tree.
    fn tree(&self, root: &SyntaxNode) -> Result<(), StatementError> {
        root.descendants().try_for_each(|node| self.node(&node))
    }
}

/// Returns whether a name in CREATE TABLE follows REFERENCES; that of LIKE does not.
fn is_reference(node: &SyntaxNode) -> bool {
    node.parent().is_some_and(|parent| ast::TableNameRef::can_cast(parent.kind()))
}

/// Returns the name of the temporary table that a text of one statement creates.
fn created_in(source: &Source) -> Option<String> {
    let ast::Stmt::CreateTable(create) = source.file.stmts().next()? else { return None };
    let path = create.table_name()?.path()?;
    let in_temporary = path.qualifier().is_some_and(|schema| last_name(&schema).starts_with("pg_temp"));
    let is_made = in_temporary || is_temporary(create.persistence());
    path.segment().map(|name| name.text()).filter(|_| is_made)
}

fn is_path(node: &SyntaxNode) -> bool {
    ast::PathRef::can_cast(node.kind())
}

pub(crate) fn is_temporary(persistence: Option<ast::Persistence>) -> bool {
    matches!(persistence, Some(ast::Persistence::Temp(_)))
}

/// Returns whether the value of a literal is the name of a relation.
fn names_relation(literal: &ast::Literal) -> bool {
    const FIRST: [&str; 11] = [
        "nextval",
        "currval",
        "setval",
        "to_regclass",
        "pg_get_serial_sequence",
        "pg_relation_size",
        "pg_total_relation_size",
        "pg_table_size",
        "pg_indexes_size",
        "has_table_privilege",
        "has_sequence_privilege",
    ];
    let Some(parent) = literal.syntax().parent() else { return false };
    if let Some(cast) = ast::CastExpr::cast(parent.clone()) {
        let ty = cast.ty().map(|ty| ty.syntax().text().to_string().to_lowercase());
        return ty.is_some_and(|ty| ty.trim_start_matches("pg_catalog.") == "regclass");
    }
    if !ast::Arg::can_cast(parent.kind()) {
        return false;
    }
    let list = parent.parent();
    let Some(call) = list.as_ref().and_then(SyntaxNode::parent).and_then(ast::CallExpr::cast) else {
        return false;
    };
    let Some(function) = call.expr() else { return false };
    let name = function.syntax().text().to_string().to_lowercase();
    let name = name.trim_start_matches("pg_catalog.");
    let arguments: Vec<SyntaxNode> = list.iter().flat_map(SyntaxNode::children).collect();
    let position = arguments.iter().position(|own| *own == parent);
    let expected = match name {
        // The name of a role may precede the name of the relation.
        "has_table_privilege" | "has_sequence_privilege" => arguments.len().checked_sub(2),
        _ => Some(0),
    };
    FIRST.contains(&name) && position == expected
}

/// Replaces ranges of a text.
fn edited(text: &str, edits: &[(Range<usize>, String)]) -> String {
    let mut new = text.to_owned();
    for (range, part) in edits.iter().rev() {
        new.replace_range(range.clone(), part);
    }
    new
}

fn ordered(edits: RefCell<Vec<(Range<usize>, String)>>) -> Vec<(Range<usize>, String)> {
    let mut edits = edits.into_inner();
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    edits.dedup();
    edits
}

impl Schema {
    /// Prepares a statement; `None` if the text has no statement. `types` are the types of its parameters, as
    /// far as the client has given them.
    ///
    /// # Errors
    /// The statement is malformed, or not supported; with line and column.
    pub fn prepare(&self, text: &str, types: &[Option<Type>]) -> Result<Option<Prepared>, StatementError> {
        let resolved = match &self.temporary {
            Some(namespace) => self.resolved(text, namespace)?,
            None => None,
        };
        let Some(resolved) = resolved else { return self.prepare_resolved(text, types) };
        let prepared = self.prepare_resolved(&resolved.text, types);
        prepared.map_err(|error| resolved.placed(error))
    }

    /// Returns whether a statement may name the temporary schema, or make a temporary relation.
    pub fn may_be_temporary(text: &str) -> bool {
        if !text.as_bytes().windows(4).any(|part| part.eq_ignore_ascii_case(b"temp")) {
            return false;
        }
        let words = crate::words::words_of(text);
        words.iter().any(|word| word.is_any(&["temp", "temporary"]))
            || text.to_ascii_lowercase().contains("pg_temp")
    }

    /// Returns a statement in which each name of a relation in a session's temporary schema has that schema;
    /// `None` if there is no such name.
    ///
    /// # Errors
    /// `42P16`: a temporary relation in another schema. `0A000`: a temporary relation of another session, or
    /// a temporary object of another kind.
    pub fn resolved(&self, text: &str, namespace: &str) -> Result<Option<Resolved>, StatementError> {
        with_stack(text, || self.resolve(text, namespace))
    }

    fn resolve(&self, text: &str, namespace: &str) -> Result<Option<Resolved>, StatementError> {
        // The error of a malformed statement comes when it is prepared.
        let Ok(source) = Source::parse(text) else { return Ok(None) };
        let range = |node: &SyntaxNode| source.range_of(node);
        let finder = Finder {
            schema: self,
            namespace,
            before: &[],
            created: created_in(&source),
            source: &source,
            range: &range,
            edits: RefCell::default(),
            notice: RefCell::default(),
        };
        for statement in source.file.stmts() {
            match &statement {
                ast::Stmt::CreateFunction(_) | ast::Stmt::CreateProcedure(_) => {
                    refuse_in_routine(&finder, statement.syntax(), text)?;
                }
                ast::Stmt::Do(block) => {
                    let Some(body) = block.plpgsql() else { continue };
                    let within = |node: &SyntaxNode| {
                        let range = body.source_range(node.text_range());
                        source.written(range.start().into())..source.written(range.end().into())
                    };
                    let inner = Finder { range: &within, edits: RefCell::default(), ..finder_of(&finder) };
                    inner.tree(body.tree().syntax())?;
                    finder.edits.borrow_mut().append(&mut inner.edits.borrow_mut());
                }
                statement => {
                    finder.tree(statement.syntax())?;
                    if let ast::Stmt::CreateView(create) = statement {
                        finder.view(create)?;
                    }
                }
            }
        }
        let notice = finder.notice.take();
        let edits = ordered(finder.edits);
        if edits.is_empty() {
            return Ok(None);
        }
        Ok(Some(Resolved { text: edited(text, &edits), notice, written: text.to_owned(), edits }))
    }

    /// Returns the CREATE statement of a routine with the names of a session's temporary relations in its
    /// body; `None` if there are none.
    pub(crate) fn resolved_routine(&self, text: &str, namespace: &str) -> Option<String> {
        let source = Source::parse(text).ok()?;
        let routine = source.routine()?;
        let tree = routine.body_tree()?;
        let within = |node: &SyntaxNode| {
            let range = routine.range_in_body(node);
            source.written(range.start)..source.written(range.end)
        };
        let before = routine.searched_before_temporary();
        let finder = Finder {
            schema: self,
            namespace,
            before: &before,
            created: None,
            source: &source,
            range: &within,
            edits: RefCell::default(),
            notice: RefCell::default(),
        };
        finder.tree(&tree).ok()?;
        let edits = ordered(finder.edits);
        (!edits.is_empty()).then(|| edited(text, &edits))
    }
}

/// Returns a finder for another tree of the same text.
fn finder_of<'a>(finder: &Finder<'a>) -> Finder<'a> {
    let Finder { schema, namespace, before, source, range, .. } = *finder;
    Finder {
        schema,
        namespace,
        before,
        created: None,
        source,
        range,
        edits: RefCell::default(),
        notice: RefCell::default(),
    }
}

/// Refuses a routine that is temporary, or that names the schema of a session: each call finds the schema of
/// its own session.
fn refuse_in_routine(finder: &Finder<'_>, node: &SyntaxNode, text: &str) -> Result<(), StatementError> {
    let path = node.children().flat_map(|child| child.descendants()).find_map(ast::Path::cast);
    if let Some(qualifier) = path.and_then(|path| path.qualifier()) {
        finder.unknown(&qualifier)?;
    }
    if text.to_ascii_lowercase().contains(PREFIX) {
        let message = "a routine that names the temporary schema of a session is not supported";
        let error = finder.refused(node, "0A000", message);
        let hint = "Write pg_temp, which is the schema of the session that calls the routine.";
        return Err(StatementError { error: error.error.with_hint(hint), ..error });
    }
    Ok(())
}
