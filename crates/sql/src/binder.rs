//! The state of binding one statement or routine: registers, names in scope, operations so far.

use crate::actual::Actual;
use crate::error::StatementError;
use crate::name_conflicts::NameConflict;
use crate::plan::{Origins, Queries};
use crate::roles::acl::RoleId;
use crate::roles::need::Need;
use crate::schema::Schema;
use crate::source::Source;
use crate::types::without_limits;
use catalog::{ScalarType, Table, Type};
use procedure::query::Query;
use procedure::{
    ByValueCause, Expression, Label, Operation, OperationId, OperationKind, ProcedureQuery, QueryId,
    QueryTarget, Register, SqlError, Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::plpgsql::Plpgsql;
use squawk_syntax::sql_body::SqlBody;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A PL/pgSQL variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variable {
    pub(crate) register: Register,
    pub(crate) ty: Type,
    pub(crate) constant: bool,
}

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Variable(Variable),
    /// A RECORD with the fields of the last query that was read into it; `None` before the first.
    Record(Option<Vec<(String, Variable)>>),
    /// A RECORD that the branches of a statement have left with different columns.
    UnclearRecord,
    /// A variable with the columns of a table.
    Row(Vec<(String, Variable)>),
    /// A cursor.
    Cursor(Box<CursorVariable>),
    /// A value that is known when the routine is compiled.
    Constant(Expression, Type),
}

/// A cursor variable.
#[derive(Clone, Debug)]
pub(crate) struct CursorVariable {
    pub(crate) cursor: procedure::Cursor,
    /// The arguments of its declared query.
    pub(crate) arguments: Vec<(String, Variable)>,
    pub(crate) query: Option<squawk_syntax::ast::Stmt>,
    /// The columns of the query of its last OPEN in the text so far.
    pub(crate) columns: Option<Vec<(String, Type)>>,
}

/// An expression with its type; literals take the type that they are compared with or assigned to.
#[derive(Clone, Debug)]
pub(crate) enum Typed {
    Known(Expression, Type),
    Literal(String),
    /// A parameter of a statement whose type is not known yet, by its position.
    Parameter(usize),
    Null,
}

impl Typed {
    /// Returns the type; `None` if the context decides it.
    pub(crate) fn known_type(&self) -> Option<Type> {
        match self {
            Self::Known(_, ty) => Some(*ty),
            _ => None,
        }
    }

    /// Returns the name of the type, as error messages show it.
    pub(crate) fn shown_type(&self) -> String {
        match self.known_type() {
            // PostgreSQL writes `bpchar` only where it shows the length, too.
            Some(Type::Scalar(ScalarType::Char(_))) => "character".into(),
            Some(Type::Array(ScalarType::Char(_))) => "character[]".into(),
            Some(ty) => ty.base().to_string(),
            None => "unknown".into(),
        }
    }
}

/// A trigger function that is being compiled.
#[derive(Clone, Debug)]
pub(crate) struct TriggerFrame {
    /// The row that a trigger before a row returns; empty if a returned row has no effect.
    pub(crate) returned: Vec<Variable>,
    /// The records without a row: NEW of a DELETE, OLD of an INSERT.
    pub(crate) absent: Vec<&'static str>,
    /// The register that says whether the row is written; `None` if the trigger does not decide this.
    pub(crate) is_written: Option<Register>,
    /// TG_ARGV.
    pub(crate) arguments: Vec<String>,
}

/// The end of a function whose result is one row.
#[derive(Clone, Copy)]
pub(crate) struct RowEnd {
    /// The block that RETURN leaves.
    pub(crate) label: Label,
    /// TRUE, unless the row is NULL.
    pub(crate) is_present: Register,
}

/// A register that a statement sets in place of a variable whose values are checked.
pub(crate) struct Unchecked {
    pub(crate) source: Register,
    pub(crate) target: Register,
}

/// A loop or block that EXIT and CONTINUE may name.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Option<String>,
    pub(crate) label: Label,
    pub(crate) is_loop: bool,
}

/// The columns of a `*` in a text.
#[derive(Clone, Debug)]
pub(crate) struct ExpandedStar {
    /// The place of the `*` in the text; of `TABLE t`, that of the whole query.
    pub(crate) range: std::ops::Range<usize>,
    pub(crate) columns: Vec<String>,
    /// The table of `TABLE t`.
    pub(crate) table: Option<String>,
}

/// The body of a routine, which is a text in the source.
#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    Plpgsql(&'a Plpgsql),
    Sql(&'a SqlBody),
}

/// Binds one routine, or one expression of a definition.
pub(crate) struct Binder<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) source: &'a Source,
    /// Maps offsets inside a routine's body to offsets in the source.
    pub(crate) body: Option<Body<'a>>,
    /// The meaning of a name of both a column and a variable.
    pub(crate) name_conflict: NameConflict,
    pub(crate) registers: Vec<Type>,
    pub(crate) scopes: Vec<(Option<String>, HashMap<String, Name>)>,
    pub(crate) operations: Vec<Operation>,
    /// The queries of the procedure so far. `queries` has those that are being bound.
    pub(crate) procedure_queries: Vec<ProcedureQuery>,
    pub(crate) targets: Vec<Target>,
    pub(crate) next_label: u32,
    /// The types that a call has decided, in a routine that is compiled for the call.
    pub(crate) actual: Option<Actual>,
    /// The statements before the first one of a routine's body.
    pub(crate) prologue: Vec<Statement>,
    /// The names of the variables that are never NULL.
    pub(crate) never_null: HashMap<Register, String>,
    /// The domains of variables, by register.
    pub(crate) domains: HashMap<Register, String>,
    /// The registers that the current statement sets in place of variables that are never NULL or have a
    /// domain.
    pub(crate) unchecked: Vec<Unchecked>,
    pub(crate) found: Option<Register>,
    /// The register and type of a function's result.
    pub(crate) result: Option<(Register, Type)>,
    /// The columns of the rows that a function returns; `None` if it does not return rows.
    pub(crate) returns: Option<Vec<(String, Type)>>,
    /// The domains of these columns; empty if none has one.
    pub(crate) returned_domains: Vec<Option<String>>,
    /// The variables from which RETURN NEXT takes a row; empty if it has an expression.
    pub(crate) returned: Vec<Register>,
    /// Whether the function has no result.
    pub(crate) is_void: bool,
    /// Whether a call must end with a RETURN that has a value.
    pub(crate) must_return: bool,
    /// Whether RETURN has the row of a function of one row.
    pub(crate) returns_row: bool,
    /// The trigger whose function is being compiled.
    pub(crate) trigger: Option<TriggerFrame>,
    /// The end of a function whose result is one row.
    pub(crate) row_end: Option<RowEnd>,
    /// Function calls lifted out of the expressions of the current statement; `None` where lifting is not
    /// possible.
    pub(crate) lifted: Option<Vec<Statement>>,
    /// Aggregates of the current SELECT; `None` where they are not allowed.
    pub(crate) aggregates: Option<Vec<procedure::Aggregate>>,
    /// Types of a statement's parameters, as far as they are known. The first registers hold their values.
    pub(crate) parameters: RefCell<Vec<Option<Type>>>,
    /// The queries that are being bound.
    pub(crate) queries: Queries,
    /// The columns of tables and views whose values registers hold.
    pub(crate) origins: Origins,
    pub(crate) uses_timestamp: bool,
    pub(crate) uses_seed: bool,
    /// Whether a cast or function depends on the zone of the session.
    pub(crate) uses_zone: Cell<bool>,
    /// Whether the text is part of a definition, in which timestamps without a zone are in UTC.
    pub(crate) is_kept_text: bool,
    pub(crate) writes: bool,
    /// The reason why calls are logged by value, if the analysis does not support a statement.
    pub(crate) by_value: Option<ByValueCause>,
    /// Whether the routine has a COMMIT or ROLLBACK.
    pub(crate) ends_transactions: bool,
    /// The names of routines that are called.
    pub(crate) callees: BTreeSet<String>,
    /// Number of views around the one that is being bound.
    pub(crate) views_within: usize,
    /// The columns of each `*` so far; `None` if they are not wanted.
    pub(crate) stars: Option<Vec<ExpandedStar>>,
    /// The privileges that the statement needs so far.
    pub(crate) needs: Vec<Need>,
    /// The role with whose rights relations are read and written: in a view, that of its owner.
    pub(crate) relations_as: RoleId,
    /// Whether the effect of the routine depends on the role that calls it.
    pub(crate) follows_role: bool,
    /// Whether it has bound names, numbers or rows of the catalog.
    pub(crate) reads_catalog: bool,
    /// Whether the role may not execute a statement of the routine.
    pub(crate) is_refused: bool,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(schema: &'a Schema, source: &'a Source) -> Self {
        Self {
            schema,
            source,
            body: None,
            name_conflict: NameConflict::Error,
            registers: Vec::new(),
            scopes: vec![(None, HashMap::new())],
            operations: Vec::new(),
            procedure_queries: Vec::new(),
            targets: Vec::new(),
            next_label: 0,
            actual: None,
            prologue: Vec::new(),
            never_null: HashMap::new(),
            domains: HashMap::new(),
            unchecked: Vec::new(),
            found: None,
            result: None,
            returns: None,
            returned_domains: Vec::new(),
            returned: Vec::new(),
            is_void: false,
            returns_row: false,
            must_return: false,
            trigger: None,
            row_end: None,
            lifted: None,
            aggregates: None,
            parameters: RefCell::default(),
            queries: Queries::default(),
            origins: Origins::default(),
            uses_timestamp: false,
            uses_seed: false,
            uses_zone: Cell::new(false),
            is_kept_text: false,
            writes: false,
            by_value: None,
            ends_transactions: false,
            callees: BTreeSet::new(),
            views_within: 0,
            stars: None,
            needs: Vec::new(),
            relations_as: schema.acting,
            follows_role: false,
            reads_catalog: false,
            is_refused: false,
        }
    }

    /// Returns the byte offset of a node in the source.
    pub(crate) fn offset(&self, node: &SyntaxNode) -> usize {
        let range = node.text_range();
        match self.body {
            Some(Body::Plpgsql(body)) => body.source_range(range).start().into(),
            Some(Body::Sql(body)) => body.source_range(range).start().into(),
            None => range.start().into(),
        }
    }

    pub(crate) fn error(&self, node: &SyntaxNode, error: SqlError) -> StatementError {
        self.source.error_at(self.offset(node), error)
    }

    pub(crate) fn unsupported(&self, node: &SyntaxNode, what: &str) -> StatementError {
        self.error(node, SqlError::new("0A000", format!("{what} is not supported")))
    }

    pub(crate) fn syntax(&self, node: &SyntaxNode, what: &str) -> StatementError {
        self.error(node, SqlError::new("42601", what))
    }

    /// Returns a child that the grammar requires, or an error if it is missing.
    pub(crate) fn part<T>(&self, part: Option<T>, node: &SyntaxNode) -> Result<T, StatementError> {
        part.ok_or_else(|| self.syntax(node, "this statement is incomplete"))
    }

    pub(crate) fn table(&self, name: &str, node: &SyntaxNode) -> Result<Arc<Table>, StatementError> {
        let table = self.schema.catalog().table(name);
        if self.schema.is_partition(name) {
            return Err(self.unsupported(node, &format!("\"{name}\" is a partition: this use of it")));
        }
        if table.is_err() && self.schema.view(name).is_some() {
            return Err(self.unsupported(node, &format!("\"{name}\" is a view: writing to it")));
        }
        table.cloned().map_err(|error| self.error(node, SqlError::new("42P01", error.to_string())))
    }

    /// Refuses to change the rows or indexes of a sequence; only `nextval` and `setval` change it.
    pub(crate) fn refuse_sequence(&self, table: &Table, node: &SyntaxNode) -> Result<(), StatementError> {
        match table.sequence {
            None => Ok(()),
            Some(_) => {
                let message = format!("cannot change sequence \"{}\"", table.short_name());
                Err(self
                    .error(node, SqlError::new("42809", message).with_hint("Use nextval() and setval().")))
            }
        }
    }

    pub(crate) fn column_of(
        &self,
        table: &Table,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        table.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            self.error(node, SqlError::new("42703", message))
        })
    }

    pub(crate) fn new_register(&mut self, ty: impl std::convert::Into<Type>) -> Register {
        self.registers.push(ty.into());
        Register(self.registers.len() as u32 - 1)
    }

    /// Declares the parameters of a statement, before any part of it is bound: those that it uses, and those
    /// to which the client has given a type.
    pub(crate) fn declare_parameters(&mut self, used: usize, types: &[Option<Type>]) {
        let count = used.max(types.len());
        let types = (0..count).map(|position| types.get(position).copied().flatten()).collect();
        *self.parameters.borrow_mut() = types;
        for _ in 0..count {
            self.new_register(ScalarType::Text);
        }
    }

    /// Returns the types of a statement's parameters, after the whole statement is bound.
    pub(crate) fn parameter_types(&self, node: &SyntaxNode) -> Result<Vec<Type>, StatementError> {
        let parameters = self.parameters.borrow();
        let known = |(position, ty): (usize, &Option<Type>)| {
            ty.ok_or_else(|| {
                let message = format!("could not determine data type of parameter ${}", position + 1);
                self.error(node, SqlError::new("42P18", message))
            })
        };
        parameters.iter().enumerate().map(known).collect()
    }

    /// Returns a parameter of a statement as a value. A parameter without a type gets the type `ty`.
    pub(crate) fn parameter_as(&self, position: usize, ty: Type) -> Typed {
        let mut parameters = self.parameters.borrow_mut();
        let known = parameters[position].get_or_insert(without_limits(ty));
        Typed::Known(Expression::Register(Register(position as u32)), *known)
    }

    /// Returns a parameter of a statement, as a value if it has a type.
    pub(crate) fn known_parameter(&self, position: usize) -> Typed {
        let known = self.parameters.borrow().get(position).copied().flatten();
        known.map_or(Typed::Parameter(position), |ty| self.parameter_as(position, ty))
    }

    /// Adds registers for all columns of a table. Returns the first one.
    pub(crate) fn row_registers(&mut self, table: &Table) -> Register {
        let first = Register(self.registers.len() as u32);
        self.registers.extend(table.columns.iter().map(|column| column.ty));
        first
    }

    pub(crate) fn new_label(&mut self) -> Label {
        self.next_label += 1;
        Label(self.next_label)
    }

    /// Returns the register of FOUND.
    pub(crate) fn found(&mut self) -> Register {
        match self.found {
            Some(register) => register,
            None => {
                let register = self.new_register(ScalarType::Boolean);
                self.found = Some(register);
                register
            }
        }
    }

    pub(crate) fn name(&self, name: &str) -> Option<&Name> {
        self.scopes.iter().rev().find_map(|(_, names)| names.get(name))
    }

    pub(crate) fn variable(&self, name: &str) -> Option<Variable> {
        match self.name(name) {
            Some(Name::Variable(variable)) => Some(*variable),
            _ => None,
        }
    }

    /// Returns a variable by the label of its block, or a parameter by the name of the routine.
    pub(crate) fn labelled_variable(&self, label: &str, name: &str) -> Option<Variable> {
        let scope =
            self.scopes.iter().rev().find(|(scope_label, _)| scope_label.as_deref() == Some(label))?;
        match scope.1.get(name) {
            Some(Name::Variable(variable)) => Some(*variable),
            _ => None,
        }
    }

    pub(crate) fn declare(&mut self, name: String, what: Name) {
        if let Some((_, names)) = self.scopes.last_mut() {
            names.insert(name, what);
        }
    }

    /// Replaces the meaning of a name in an enclosing scope.
    pub(crate) fn redefine(&mut self, name: &str, what: Name) {
        for (_, names) in self.scopes.iter_mut().rev() {
            if let Some(known) = names.get_mut(name) {
                *known = what;
                return;
            }
        }
    }

    pub(crate) fn operation(&mut self, kind: OperationKind, node: &SyntaxNode) -> OperationId {
        let found = self.found();
        let position = self.source.position(self.offset(node));
        let operation = Operation { kind, found, position };
        self.writes |= operation.writes();
        self.operations.push(operation);
        OperationId(self.operations.len() as u32 - 1)
    }

    pub(crate) fn query(&mut self, query: Query, target: QueryTarget, node: &SyntaxNode) -> QueryId {
        let found = self.found();
        let position = self.source.position(self.offset(node));
        let query = ProcedureQuery { query, target, found, position };
        self.writes |= query.writes();
        query.query.plan.walk(&mut |node| {
            if node.foreign_keys().is_some_and(|(_, keys)| keys.depend_on_call()) {
                (self.uses_timestamp, self.uses_seed) = (true, true);
            }
        });
        self.procedure_queries.push(query);
        QueryId(self.procedure_queries.len() as u32 - 1)
    }

    /// Records why calls are logged by value. The first cause stays. Only a query is replaced by a later
    /// cause, because a cursor and RETURN QUERY have a query, too.
    pub(crate) fn log_by_value(&mut self, cause: ByValueCause) {
        if matches!(self.by_value, None | Some(ByValueCause::Query)) {
            self.by_value = Some(cause);
        }
    }
}
