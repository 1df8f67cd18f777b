//! Prepares the statements of a client: the kind of each, its parameters and its columns.

use crate::StatementError;
use crate::advisory_functions::AdvisoryCall;
use crate::binder::Binder;
use crate::call_statement::CalledProcedure;
use crate::called_names::called_name;
use crate::copy::Copy;
use crate::declared::Declared;
use crate::deferral::SetConstraints;
use crate::evaluated::Arguments;
use crate::fetched::Movement;
use crate::filled::Filled;
use crate::full_names::short;
use crate::lock::{Locking, TableLock};
use crate::nameless::{Compiled, compile_arguments, compile_for_client, compile_statement, parameters_of};
use crate::nesting::with_stack;
use crate::plan::{ColumnOrigin, ResultColumn};
use crate::schema::Schema;
use crate::source::Source;
use crate::temporary::discard_tag;
use crate::transaction::{TransactionModes, chains};
use crate::types::without_limits;
use catalog::Type;
use procedure::query::ExplainOptions;
use procedure::{Expression, Notice, Procedure, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A statement that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its kind.
    pub kind: Kind,
    /// The tag of its completion, as in PostgreSQL.
    pub tag: &'static str,
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of its rows; empty for a statement without rows.
    pub columns: Vec<ResultColumn>,
    /// The error of a statement for which the acting role lacks a privilege: its execution fails.
    pub refused: Option<Box<SqlError>>,
}

/// An EXPLAIN of an EXECUTE, as its parts.
#[derive(Clone, Debug)]
pub struct ExplainedExecute {
    /// The EXPLAIN with its options.
    pub explain: String,
    /// The EXECUTE.
    pub execute: String,
}

/// A statement that EXPLAIN ANALYZE runs.
#[derive(Clone, Debug)]
pub struct Analyzed {
    /// The statement.
    pub procedure: Arc<Procedure>,
    /// The options for the output of its plan.
    pub options: ExplainOptions,
}

/// The kind of a statement.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A change of definitions.
    Definition,
    /// A change of definitions that moves rows of partitions.
    Moved,
    /// CREATE TABLE AS, or SELECT INTO.
    Filled(Filled),
    /// A query or a statement that writes, as a procedure without a name. Its parameters are the statement's.
    Run(Arc<Procedure>),
    /// A call of one procedure or function.
    Call(Arc<Procedure>, Arguments),
    /// BEGIN.
    Begin(TransactionModes),
    /// SET TRANSACTION.
    SetTransaction(TransactionModes),
    /// SET SESSION CHARACTERISTICS: the modes of later transactions.
    SetTransactions(TransactionModes),
    /// COMMIT.
    Commit {
        /// Whether a transaction with the same modes follows.
        chains: bool,
    },
    /// ROLLBACK.
    Rollback {
        /// Whether a transaction with the same modes follows.
        chains: bool,
    },
    /// SAVEPOINT, by its name.
    Savepoint(String),
    /// ROLLBACK TO a savepoint.
    RollbackTo(String),
    /// RELEASE of a savepoint.
    Release(String),
    /// SET CONSTRAINTS.
    SetConstraints(SetConstraints),
    /// LOCK TABLE in a mode that conflicts with those of queries or writes.
    Lock(TableLock),
    /// SET, RESET, as text.
    Set,
    /// DISCARD, by its tag.
    Discard,
    /// SHOW.
    Show(String),
    /// EXPLAIN: the lines that it shows.
    Explain(Vec<String>),
    /// EXPLAIN ANALYZE.
    Analyze(Analyzed),
    /// DECLARE CURSOR.
    Declare(Declared),
    /// FETCH, or MOVE.
    Fetch {
        /// The cursor.
        name: String,
        /// Its movement.
        movement: Movement,
        /// MOVE: rows are skipped and not returned.
        moves: bool,
    },
    /// CLOSE of a cursor by name; `None`: of all cursors.
    Close(Option<String>),
    /// PREPARE.
    Prepare {
        /// Its name.
        name: String,
        /// The given types of the first parameters.
        types: Vec<Option<Type>>,
        /// The statement.
        text: String,
    },
    /// EXECUTE of a prepared statement.
    Execute {
        /// Its name.
        name: String,
        /// The texts of the argument expressions.
        arguments: Vec<String>,
        /// The EXPLAIN before it; `None` without one.
        explain: Option<ExplainedExecute>,
    },
    /// DEALLOCATE of a statement by name; `None`: of all statements.
    Deallocate(Option<String>),
    /// COPY.
    Copy(Copy),
    /// CHECKPOINT.
    Checkpoint,
    /// CALL of `reprise_backup`: the name of the backup.
    Backup(String),
    /// A SELECT of a function for advisory locks.
    Advisory(AdvisoryCall),
    /// `SELECT pg_sleep(…)`: the seconds, a DOUBLE PRECISION.
    Sleep(Arguments),
    /// LISTEN to a channel.
    Listen(String),
    /// UNLISTEN of a channel; `None`: of all channels.
    Unlisten(Option<String>),
    /// NOTIFY.
    Notify {
        /// The channel.
        channel: String,
        /// The text for its listeners.
        payload: String,
    },
    /// VACUUM, ANALYZE, REINDEX and statements of built-in extensions, which have no effect, with their
    /// warnings.
    Nothing(Vec<Notice>),
}

/// Returns PostgreSQL's tag of a statement that changes definitions; `None` for any other statement.
fn definition_tag(statement: &ast::Stmt) -> Option<&'static str> {
    Some(match statement {
        ast::Stmt::CreateTable(_) => "CREATE TABLE",
        ast::Stmt::CreateIndex(_) => "CREATE INDEX",
        ast::Stmt::CreateProcedure(_) => "CREATE PROCEDURE",
        ast::Stmt::CreateFunction(_) => "CREATE FUNCTION",
        ast::Stmt::CreateSequence(_) => "CREATE SEQUENCE",
        ast::Stmt::CreateView(_) => "CREATE VIEW",
        ast::Stmt::CreateSchema(_) => "CREATE SCHEMA",
        ast::Stmt::CreateTrigger(_) => "CREATE TRIGGER",
        ast::Stmt::CreateType(_) => "CREATE TYPE",
        ast::Stmt::AlterType(_) => "ALTER TYPE",
        ast::Stmt::DropType(_) => "DROP TYPE",
        ast::Stmt::AlterTrigger(_) => "ALTER TRIGGER",
        ast::Stmt::DropTrigger(_) => "DROP TRIGGER",
        ast::Stmt::AlterTable(_) => "ALTER TABLE",
        ast::Stmt::AlterIndex(_) => "ALTER INDEX",
        ast::Stmt::AlterSequence(_) => "ALTER SEQUENCE",
        ast::Stmt::AlterSchema(_) => "ALTER SCHEMA",
        ast::Stmt::AlterFunction(_) => "ALTER FUNCTION",
        ast::Stmt::AlterProcedure(_) => "ALTER PROCEDURE",
        ast::Stmt::AlterView(_) => "ALTER VIEW",
        ast::Stmt::AlterRoutine(_) => "ALTER ROUTINE",
        ast::Stmt::CommentOn(_) => "COMMENT",
        ast::Stmt::Truncate(_) => "TRUNCATE TABLE",
        ast::Stmt::DropSequence(_) => "DROP SEQUENCE",
        ast::Stmt::DropView(_) => "DROP VIEW",
        ast::Stmt::DropSchema(_) => "DROP SCHEMA",
        ast::Stmt::DropTable(_) => "DROP TABLE",
        ast::Stmt::DropIndex(_) => "DROP INDEX",
        ast::Stmt::DropProcedure(_) => "DROP PROCEDURE",
        ast::Stmt::DropFunction(_) => "DROP FUNCTION",
        ast::Stmt::DropRoutine(_) => "DROP ROUTINE",
        other => return crate::domain::tag_of(other).or_else(|| crate::roles::tag_of(other)),
    })
}

fn query_tag(statement: &ast::Stmt) -> &'static str {
    match statement {
        ast::Stmt::Insert(_) => "INSERT 0",
        ast::Stmt::Update(_) => "UPDATE",
        ast::Stmt::Delete(_) => "DELETE",
        ast::Stmt::Merge(_) => "MERGE",
        ast::Stmt::Call(_) => "CALL",
        _ => "SELECT",
    }
}

impl Prepared {
    pub(crate) fn plain(kind: Kind, tag: &'static str) -> Self {
        Self { kind, tag, parameters: Vec::new(), columns: Vec::new(), refused: None }
    }
}

impl Schema {
    /// As `prepare`, for a statement whose names of temporary relations have their schema.
    ///
    /// # Errors
    /// As `prepare`.
    pub fn prepare_resolved(
        &self,
        text: &str,
        types: &[Option<Type>],
    ) -> Result<Option<Prepared>, StatementError> {
        with_stack(text, || self.prepare_parsed(text, types))
    }

    pub(crate) fn prepare_parsed(
        &self,
        text: &str,
        types: &[Option<Type>],
    ) -> Result<Option<Prepared>, StatementError> {
        let source = Source::parse(text)?;
        let mut statements =
            source.file.stmts().filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
        let Some(statement) = statements.next() else { return Ok(None) };
        if let Some(second) = statements.next() {
            let offset = second.syntax().text_range().start().into();
            let error = SqlError::new("42601", "cannot insert multiple commands into a prepared statement");
            return Err(source.error_at(offset, error));
        }
        let prepared = self.prepare_statement(&statement, &source, types);
        prepared.map(Some).map_err(|error| self.or_missing_schema(error, &statement, &source))
    }

    fn prepare_statement(
        &self,
        statement: &ast::Stmt,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Prepared, StatementError> {
        let node = statement.syntax();
        crate::extensions::only_database(statement, source)?;
        if let Some((tag, skipped)) = self.extension(statement, source)? {
            return Ok(Prepared::plain(Kind::Nothing(Vec::from_iter(skipped)), tag));
        }
        if let Some((filled, tag)) = self.filled(statement, source)? {
            let kind = filled.map_or_else(|skipped| Kind::Nothing(vec![skipped]), Kind::Filled);
            return Ok(Prepared::plain(kind, tag));
        }
        if let Some(tag) = definition_tag(statement) {
            let moves = matches!(self.moves_of(statement, source), Ok(Some(_)));
            return Ok(Prepared::plain(if moves { Kind::Moved } else { Kind::Definition }, tag));
        }
        let text = || source.text_of(node).trim().trim_end_matches(';').to_owned();
        let (kind, tag) = match statement {
            ast::Stmt::Begin(begin) => {
                let tag = if begin.start_token().is_some() { "START TRANSACTION" } else { "BEGIN" };
                (Kind::Begin(TransactionModes::of_begin(begin)), tag)
            }
            ast::Stmt::Commit(ast::Commit::CommitTransaction(commit)) => {
                (Kind::Commit { chains: chains(commit.chain_clause()) }, "COMMIT")
            }
            ast::Stmt::Rollback(ast::Rollback::RollbackTransaction(rollback)) => {
                (Kind::Rollback { chains: chains(rollback.chain_clause()) }, "ROLLBACK")
            }
            ast::Stmt::SavepointCreate(_) => (Kind::Savepoint(last_word(&text())), "SAVEPOINT"),
            ast::Stmt::ReleaseSavepoint(_) => (Kind::Release(last_word(&text())), "RELEASE"),
            ast::Stmt::Rollback(ast::Rollback::RollbackToSavepoint(_)) => {
                (Kind::RollbackTo(last_word(&text())), "ROLLBACK")
            }
            ast::Stmt::SetTransaction(set) => {
                let modes = TransactionModes::of_set(set);
                let is_session = set.session_characteristics().is_some();
                (if is_session { Kind::SetTransactions(modes) } else { Kind::SetTransaction(modes) }, "SET")
            }
            ast::Stmt::SetConstraints(set) => {
                (Kind::SetConstraints(self.set_constraints(set, source)?), "SET CONSTRAINTS")
            }
            ast::Stmt::Set(_) | ast::Stmt::SetRole(_) | ast::Stmt::SetSessionAuth(_) => (Kind::Set, "SET"),
            ast::Stmt::Reset(_) | ast::Stmt::ResetRole(_) | ast::Stmt::ResetSessionAuth(_) => {
                (Kind::Set, "RESET")
            }
            ast::Stmt::Discard(discard) => (Kind::Discard, discard_tag(discard)),
            ast::Stmt::Checkpoint(_) => (Kind::Checkpoint, "CHECKPOINT"),
            ast::Stmt::Call(call) if self.is_backup(call) => {
                let columns = vec![text_column("backup")];
                let kind = Kind::Backup(self.backup_name(call, source)?);
                return Ok(Prepared { columns, ..Prepared::plain(kind, "CALL") });
            }
            ast::Stmt::Lock(lock) => {
                let (locking, refused) = self.lock(lock, source)?;
                let kind = match locking {
                    Locking::Alone(lock) => Kind::Lock(lock),
                    Locking::Nothing(procedure) => Kind::Run(procedure),
                };
                let refused = refused.map(Box::new);
                return Ok(Prepared { refused, ..Prepared::plain(kind, "LOCK TABLE") });
            }
            ast::Stmt::Listen(listen) => {
                let channel = Binder::new(self, source).part(listen.channel(), node)?;
                (Kind::Listen(ast::normalize_name_node(channel.syntax())), "LISTEN")
            }
            ast::Stmt::Unlisten(unlisten) => {
                let channel = unlisten.channel_ref().map(|name| ast::normalize_name_node(name.syntax()));
                (Kind::Unlisten(channel), "UNLISTEN")
            }
            ast::Stmt::Notify(notify) => {
                let (channel, payload) = Binder::new(self, source).notified(notify)?;
                (Kind::Notify { channel, payload }, "NOTIFY")
            }
            ast::Stmt::Vacuum(_) => {
                (Kind::Nothing(self.skipped_by_maintenance(node, "vacuum", source)?), "VACUUM")
            }
            ast::Stmt::Analyze(_) => {
                (Kind::Nothing(self.skipped_by_maintenance(node, "analyze", source)?), "ANALYZE")
            }
            ast::Stmt::Reindex(reindex) => {
                let refused = self.reindex(reindex, source)?.map(Box::new);
                return Ok(Prepared { refused, ..Prepared::plain(Kind::Nothing(Vec::new()), "REINDEX") });
            }
            ast::Stmt::Copy(copy) => (Kind::Copy(self.copy(copy, source)?), "COPY"),
            ast::Stmt::Prepare(prepare) => {
                let binder = Binder::new(self, source);
                let name = binder.part(prepare.name(), node)?;
                let name = ast::normalize_name_node(name.syntax());
                let mut types = Vec::new();
                if let Some(list) = prepare.param_list() {
                    for ty in list.syntax().descendants().filter_map(ast::Type::cast) {
                        types.push(Some(without_limits(binder.bind_type(&ty)?)));
                    }
                }
                let inner = binder.part(prepare.stmt(), node)?;
                let text = source.text_of(inner.syntax()).to_owned();
                (Kind::Prepare { name, types, text }, "PREPARE")
            }
            ast::Stmt::Execute(execute) => (Kind::of_execute(execute, None, source), "EXECUTE"),
            ast::Stmt::Deallocate(deallocate) => {
                let name = deallocate.prepared_statement_ref();
                let name = name.map(|name| ast::normalize_name_node(name.syntax()));
                (
                    Kind::Deallocate(name),
                    if deallocate.all_token().is_some() { "DEALLOCATE ALL" } else { "DEALLOCATE" },
                )
            }
            ast::Stmt::Declare(declare) => {
                let (declared, parameters) = self.declared(declare, source, types)?;
                let plain = Prepared::plain(Kind::Declare(declared), "DECLARE CURSOR");
                return Ok(Prepared { parameters, ..plain });
            }
            ast::Stmt::Fetch(fetch) => {
                let (name, movement) =
                    self.fetched(fetch.cursor_ref(), fetch.cursor_action(), source, node)?;
                (Kind::Fetch { name, movement, moves: false }, "FETCH")
            }
            ast::Stmt::Move(own) => {
                let (name, movement) = self.fetched(own.cursor_ref(), own.cursor_action(), source, node)?;
                (Kind::Fetch { name, movement, moves: true }, "MOVE")
            }
            ast::Stmt::Close(close) => {
                let name = close.cursor_ref().map(|name| ast::normalize_name_node(name.syntax()));
                let tag = if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" };
                (Kind::Close(name), tag)
            }
            ast::Stmt::Do(block) => {
                let binder = Binder::new(self, source);
                let body = binder.part(block.body(), node)?;
                let procedure = self.block(source.text_of(body.syntax()), source, node)?;
                (Kind::Run(Arc::new(procedure)), "DO")
            }
            ast::Stmt::Show(_) => {
                let name = text()[4..].trim().to_lowercase();
                let columns = match name.as_str() {
                    "all" => ["name", "setting", "description"].map(text_column).to_vec(),
                    name => vec![text_column(name)],
                };
                return Ok(Prepared { columns, ..Prepared::plain(Kind::Show(name), "SHOW") });
            }
            ast::Stmt::Explain(explain) => return self.prepare_explain(explain, source, types),
            _ => return self.prepare_run(statement, source, types),
        };
        Ok(Prepared::plain(kind, tag))
    }

    fn prepare_run(
        &self,
        statement: &ast::Stmt,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Prepared, StatementError> {
        if let ast::Stmt::Select(select) = statement
            && let Some(advisory) = self.prepare_advisory(select, source, types)?
        {
            return Ok(advisory);
        }
        let tag = query_tag(statement);
        let called = match statement {
            ast::Stmt::Call(call) => self.prepared_call(call, source, types)?,
            ast::Stmt::Select(select) => self.prepared_function(select, source, types)?,
            _ => None,
        };
        if let Some(Called { procedure, arguments, parameters, name, refused }) = called {
            let mut columns: Vec<ResultColumn> = procedure
                .outputs()
                .map(|(name, register, ty)| ResultColumn::computed(name, ty, register))
                .collect();
            if let (Some(name), [column]) = (name, columns.as_mut_slice()) {
                column.name = name;
            }
            if procedure.is_void {
                columns.iter_mut().for_each(|column| column.origin = Some(ColumnOrigin::VOID));
            }
            let kind = Kind::Call(procedure, arguments);
            return Ok(Prepared { kind, tag, parameters, columns, refused: refused.map(Box::new) });
        }
        let compiled = compile_for_client(statement, self, source, types)?;
        let Compiled { mut procedure, parameters, columns, refused } = compiled;
        procedure.watch_operations();
        let (kind, refused) = (Kind::Run(Arc::new(procedure)), refused.map(Box::new));
        Ok(Prepared { kind, tag, parameters, columns, refused })
    }

    /// Prepares a CALL of a procedure with values; `None` if an argument calls a function.
    fn prepared_call(
        &self,
        call: &ast::Call,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Option<Called>, StatementError> {
        let node = call.syntax();
        let mut binder = Binder::new(self, source);
        binder.declare_parameters(parameters_of(node), types);
        if let Some(query) = node.descendants().find(|inner| ast::SelectVariant::can_cast(inner.kind())) {
            return Err(binder.error(&query, SqlError::new("0A000", "cannot use subquery in CALL argument")));
        }
        binder.lifted = Some(Vec::new());
        let CalledProcedure { procedure, inputs, .. } = binder.bind_called(call)?;
        if binder.lifted.take().is_some_and(|lifted| !lifted.is_empty()) {
            return Ok(None);
        }
        Ok(Some(called(binder, procedure, inputs, None, node)?))
    }

    /// Prepares `SELECT function(…)` as a call.
    fn prepared_function(
        &self,
        select: &ast::Select,
        source: &Source,
        types: &[Option<Type>],
    ) -> Result<Option<Called>, StatementError> {
        let node = select.syntax();
        let Some((call, alias)) = only_call(select) else { return Ok(None) };
        let Some(name) = called_name(&call) else { return Ok(None) };
        let Some(procedure) = self.procedure(&name).filter(|function| function.result.is_some()).cloned()
        else {
            return Ok(None);
        };
        let is_query = |node: SyntaxNode| ast::SelectVariant::can_cast(node.kind());
        if call.syntax().descendants().any(is_query) {
            return Ok(None);
        }
        let mut binder = Binder::new(self, source);
        binder.declare_parameters(parameters_of(node), types);
        let bound = binder.function_arguments(&procedure, call.arg_list(), call.syntax())?;
        let values = binder.call_arguments(&procedure, bound, call.syntax())?;
        let name = alias.unwrap_or_else(|| short(&name).to_owned());
        Ok(Some(called(binder, procedure, values, Some(name), node)?))
    }

    /// Compiles the arguments of an EXECUTE, given as its text, as a procedure whose outputs are values of
    /// the given types.
    ///
    /// # Errors
    /// An argument is malformed, or not supported; with line and column.
    pub fn execute_arguments(&self, execute: &str, types: &[Type]) -> Result<Procedure, StatementError> {
        with_stack(execute, || {
            let source = Source::parse(execute)?;
            let statement = source.file.stmts().find_map(|statement| match statement {
                ast::Stmt::Execute(execute) => Some(execute),
                _ => None,
            });
            match statement {
                Some(statement) => compile_arguments(&statement, types, self, &source),
                None => {
                    Err(source.error_at(0, SqlError::new("42601", "the text is not an EXECUTE statement")))
                }
            }
        })
    }

    /// Compiles a statement for `execute_script`. A statement of operations does not become a query, so its
    /// call need not be logged by value.
    pub(crate) fn script_statement(
        &self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Arc<Procedure>, StatementError> {
        compile_statement(statement, self, source).map(Arc::new)
    }
}

/// A call of one routine.
struct Called {
    procedure: Arc<Procedure>,
    arguments: Arguments,
    /// The types of the statement's parameters.
    parameters: Vec<Type>,
    /// The name of the result.
    name: Option<String>,
    refused: Option<SqlError>,
}

fn called(
    mut binder: Binder<'_>,
    procedure: Arc<Procedure>,
    values: Vec<Expression>,
    name: Option<String>,
    node: &SyntaxNode,
) -> Result<Called, StatementError> {
    let parameters = binder.parameter_types(node)?;
    let is_parameter = |(index, value): (usize, &Expression)| {
        *value == Expression::Register(procedure::Register(index as u32))
    };
    let are_parameters = values.iter().enumerate().all(is_parameter)
        && procedure.inputs().map(|(_, input)| input.ty).eq(parameters.iter().copied());
    let arguments = Arguments::new(values, binder.registers.len(), are_parameters);
    binder.need_execute(&procedure.name);
    let refused = binder.refusal();
    Ok(Called { procedure, arguments, parameters, name, refused })
}

/// Returns the call of a SELECT that has nothing else, and the name of its column if one is given.
pub(crate) fn only_call(select: &ast::Select) -> Option<(ast::CallExpr, Option<String>)> {
    let targets = select.select_clause().and_then(|clause| clause.target_list())?;
    let mut targets = targets.targets();
    let (Some(target), None, 1) = (targets.next(), targets.next(), select.syntax().children().count()) else {
        return None;
    };
    let Some(ast::Expr::CallExpr(call)) = target.expr() else { return None };
    Some((call, target.as_name().and_then(|name| name.name()).map(|name| name.text())))
}

/// Returns the name at the end of a statement.
fn last_word(text: &str) -> String {
    let word = text.split_whitespace().last().unwrap_or_default();
    match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => word.to_lowercase(),
    }
}

pub(crate) fn text_column(name: &str) -> ResultColumn {
    ResultColumn::computed(name, catalog::ScalarType::Text.into(), procedure::Register(0))
}
