//! Procedures and their statements.

use crate::query::{Explained, Measured, OutputColumn};
use crate::{
    ByValueCause, CompiledSlot, Expression, Opaque, Operation, OperationId, OperationKind, ProcedureQuery,
    QueryId, QueryTarget, Register, Severity,
};
use catalog::{Arena, Datum, DecodeError, ProcedureId, Reader, ScalarType, Table, Type, Value, decode_value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a parameter passes values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// From the caller.
    In,
    /// To the caller.
    Out,
    /// Both.
    InOut,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// How it passes values.
    pub mode: Mode,
    /// The constant when the caller passes no value.
    pub default: Option<Value>,
    /// The text of a default that is no constant. Without any default the argument is mandatory.
    pub computed: Option<String>,
    /// Whether it takes all further arguments as an array.
    pub is_variadic: bool,
    /// The name of its type, if that is a table, whose rows it takes, a domain, or polymorphic.
    pub type_of: Option<String>,
    /// Whether `type_of` is a domain.
    pub is_of_domain: bool,
}

impl Parameter {
    /// Makes a parameter without a default.
    pub fn new(name: String, ty: Type, mode: Mode) -> Self {
        let (is_variadic, is_of_domain) = (false, false);
        Self { name, ty, mode, default: None, computed: None, is_variadic, type_of: None, is_of_domain }
    }

    /// Returns whether it takes the rows of a table.
    pub fn takes_row(&self) -> bool {
        self.ty == ScalarType::Record.into() && self.type_of.is_some()
    }

    /// Returns the full name of its domain.
    pub fn domain(&self) -> Option<&str> {
        self.type_of.as_deref().filter(|_| self.is_of_domain)
    }

    /// Returns whether the argument may be omitted.
    pub fn has_default(&self) -> bool {
        self.default.is_some() || self.computed.is_some()
    }

    /// Returns the name of its type.
    pub fn type_name(&self) -> String {
        self.type_of.clone().unwrap_or_else(|| self.ty.to_string())
    }

    /// Returns whether the caller passes a value.
    pub fn is_input(&self) -> bool {
        self.mode != Mode::Out
    }

    /// Returns whether the caller receives a value.
    pub fn is_output(&self) -> bool {
        self.mode != Mode::In
    }
}

/// A compiled procedure or function. Registers `0..parameters.len()` hold its parameters.
#[derive(Debug)]
pub struct Procedure {
    /// Its number, the same for all versions.
    pub id: ProcedureId,
    /// Counts its replacements, from 1.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Whether it is a function, and not a procedure.
    pub is_function: bool,
    /// Whether it is a function without a result. Its result is then the empty text.
    pub is_void: bool,
    /// Whether it is a trigger function, which only triggers call.
    pub is_trigger: bool,
    /// Whether each call decides types of its parameters or of its result. Calls run what is compiled from
    /// its text for their types.
    pub is_template: bool,
    /// The register and type of a function's result.
    pub result: Option<(Register, Type)>,
    /// The columns of the rows that a function returns, where it returns rows.
    pub rows: Option<Vec<(String, Type)>>,
    /// Whether `rows` is one row, which may be NULL. The row has one value more than columns: TRUE unless it
    /// is NULL.
    pub is_row: bool,
    /// The types of its registers.
    pub registers: Vec<Type>,
    /// Its statements.
    pub body: Vec<Statement>,
    /// Its data accesses, by id; each belongs to one statement.
    pub operations: Vec<Operation>,
    /// Its queries, by id; each belongs to one statement.
    pub queries: Vec<ProcedureQuery>,
    /// Point accesses outside of loops whose keys are known when the call begins.
    pub ahead: Vec<OperationId>,
    /// Whether it, or a routine that it calls, reads the time.
    pub uses_timestamp: bool,
    /// Whether it, or a routine that it calls, draws random numbers.
    pub uses_seed: bool,
    /// Whether neither it nor the routines that it calls write. Its calls are then not logged.
    pub read_only: bool,
    /// The cause for which its calls are logged by value; `None` if the analysis supports it.
    pub by_value: Option<ByValueCause>,
    /// Whether it, or a routine that it calls, ends the transaction that it runs in.
    pub ends_transactions: bool,
    /// The names of the routines that it calls, in statements, queries, views and defaults.
    pub callees: BTreeSet<String>,
    /// The results that its calls may record.
    pub witnesses: Witnesses,
    /// The text of its CREATE statement.
    pub source: Arc<str>,
    /// Whether it runs with the rights of its owner (SECURITY DEFINER).
    pub is_definer: bool,
    /// Whether its effect depends on the role that calls it.
    pub follows_role: bool,
    /// Whether it holds names, numbers or rows of the catalog, which change with definitions.
    pub reads_catalog: bool,
    /// Whether the role for which it was compiled may not execute one of its statements.
    pub is_refused: bool,
    /// The domains of its result or of the columns of its rows, by their full names; empty if none has one.
    pub domains: Vec<Option<String>>,
    /// Its compiled code.
    pub compiled: CompiledSlot,
}

/// The rules for the results of a call that its record has. The rules belong to the log format: replay must
/// make the same choice as the logged execution did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Witnessed {
    /// None.
    #[default]
    Nothing,
    /// Small results of scans.
    Scans,
    /// These, and small results that keys follow from.
    Keys,
    /// These, and small results that keys of the same round of a loop, or of a branch, follow from.
    Rounds,
}

impl Witnessed {
    /// The rules by which calls are recorded.
    pub const NEWEST: Self = Self::Rounds;
}

/// The results of operations that calls of a procedure may record.
#[derive(Clone, Debug, Default)]
pub struct Witnesses {
    /// For each operation, the registers whose values are recorded each time the operation runs, if scans are
    /// recorded. Most operations have none.
    pub scans: Vec<Vec<Register>>,
    /// The same, if results that keys follow from are recorded, too.
    pub keys: Vec<Vec<Register>>,
    /// The same, if results that keys of a round or of a branch follow from are recorded, too.
    pub rounds: Vec<Vec<Register>>,
}

impl Witnesses {
    /// Returns the registers of each operation; none at all if the procedure has no witnesses.
    pub fn of(&self, witnessed: Witnessed) -> &[Vec<Register>] {
        match witnessed {
            Witnessed::Nothing => &[],
            Witnessed::Scans => &self.scans,
            Witnessed::Keys => &self.keys,
            Witnessed::Rounds => &self.rounds,
        }
    }

    /// Returns the number of operations whose results are recorded.
    pub fn count(&self, witnessed: Witnessed) -> usize {
        self.of(witnessed).iter().filter(|registers| !registers.is_empty()).count()
    }
}

impl Procedure {
    /// Returns the parameters that the caller passes, each with its position.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Parameter)> {
        self.parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_input())
    }

    /// Returns whether its last parameter takes all further arguments.
    pub fn is_variadic(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.is_variadic)
    }

    /// Reads the arguments of a call from its record, one for each input, in place of `arguments`.
    ///
    /// # Errors
    /// `DecodeError` when the bytes are not values of the inputs' types.
    #[inline]
    pub fn read_arguments(
        &self,
        reader: &mut Reader<'_>,
        arena: &mut Arena,
        arguments: &mut Vec<Datum>,
    ) -> Result<(), DecodeError> {
        arguments.clear();
        for (_, parameter) in self.inputs() {
            arguments.push(decode_value(parameter.ty, reader, arena)?);
        }
        Ok(())
    }

    /// Returns the columns of the rows that it returns to its client.
    pub fn client_columns(&self) -> &[OutputColumn] {
        let to_client = self.queries.iter().find(|query| matches!(query.target, QueryTarget::Client));
        to_client.map_or(&[], |query| &query.query.columns)
    }

    /// Returns its plan for EXPLAIN, in the order of its statements, with the measures of its nodes.
    pub fn explained(&self, measured: Option<&Measured>) -> Vec<Explained> {
        let mut nodes = Vec::new();
        Statement::walk(&self.body, &mut |statement| {
            if let Some(id) = statement.operation() {
                let text = crate::analysis::describe(&self.operations[id.0 as usize]);
                nodes.push(Explained::of_operation(text));
            }
            if let Some(id) = statement.query() {
                nodes.extend(Explained::of_plan(&self.queries[id.0 as usize].query.plan, measured));
            }
        });
        nodes
    }

    /// Returns whether its calls have a result of the same kind and type.
    pub fn returns_the_same_as(&self, other: &Self) -> bool {
        let of = |procedure: &Self| {
            (
                procedure.is_void,
                procedure.is_trigger,
                procedure.result.map(|(_, ty)| ty),
                procedure.rows.clone(),
            )
        };
        of(self) == of(other)
    }

    /// Returns the tables that its operations and queries access, without those of foreign keys and of the
    /// routines that it calls.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        let of_operations = self.operations.iter().map(Operation::table);
        of_operations.chain(self.queries.iter().flat_map(ProcedureQuery::tables))
    }

    /// Visits all tables that it may access, including those of foreign keys and of the routines that it
    /// calls.
    pub fn for_each_table(&self, visit: &mut impl FnMut(&Arc<Table>)) {
        self.tables().for_each(&mut *visit);
        for operation in &self.operations {
            if let OperationKind::Insert { references, .. } = &operation.kind {
                references.iter().for_each(|reference| visit(&reference.parent));
            }
        }
        self.queries.iter().for_each(|query| query.for_each_further_table(visit));
        self.for_each_call(&mut |procedure| procedure.for_each_table(visit));
    }

    /// Returns whether it, or a routine that it calls, executes a text as a statement.
    pub fn runs_text(&self) -> bool {
        let mut found = false;
        Statement::walk(&self.body, &mut |statement| {
            found |=
                matches!(statement, Statement::Opaque(opaque) if matches!(**opaque, Opaque::Text { .. }));
        });
        self.for_each_call(&mut |procedure| found |= procedure.runs_text());
        found || self.queries.iter().any(|query| query.calls(Self::runs_text))
    }

    /// Visits the procedures that its statements call, but not those that its queries call.
    pub fn for_each_call<'p>(&'p self, visit: &mut impl FnMut(&'p Arc<Self>)) {
        Statement::walk(&self.body, &mut |statement| {
            if let Statement::Call { procedure, .. } = statement {
                visit(procedure);
            }
        });
    }

    /// Returns whether it has no loops and finds all rows by their keys.
    pub fn looks_short(&self) -> bool {
        let mut short = self.operations.iter().all(Operation::looks_short)
            && self.queries.iter().all(ProcedureQuery::looks_short);
        Statement::walk(&self.body, &mut |statement| short &= statement.is_short());
        short
    }

    /// Returns name, register and type of each output.
    pub fn outputs(&self) -> impl Iterator<Item = (&str, Register, Type)> {
        let parameters = self
            .parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.is_output())
            .map(|(index, parameter)| (parameter.name.as_str(), Register(index as u32), parameter.ty));
        // The result of a function with one OUT parameter is that parameter.
        let result = self.result.filter(|(register, _)| register.0 as usize >= self.parameters.len());
        parameters.chain(result.map(|(register, ty)| (self.name.as_str(), register, ty)))
    }
}

/// A loop that EXIT and CONTINUE name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u32);

/// RAISE.
#[derive(Clone, PartialEq, Debug)]
pub struct Raise {
    /// The severity; EXCEPTION aborts.
    pub severity: Severity,
    /// Text between the values.
    pub parts: Vec<String>,
    /// Values, as text.
    pub values: Vec<Expression>,
    /// The SQLSTATE, or the name of a condition.
    pub sqlstate: Expression,
    /// The options of USING but ERRCODE.
    pub options: Vec<(RaiseOption, Expression)>,
}

/// An option of USING.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaiseOption {
    /// MESSAGE, in place of the text between the values.
    Message,
    /// DETAIL.
    Detail,
    /// HINT.
    Hint,
    /// SCHEMA.
    Schema,
    /// TABLE.
    Table,
    /// COLUMN.
    Column,
    /// DATATYPE.
    Datatype,
    /// CONSTRAINT.
    Constraint,
}

impl Raise {
    /// Returns the expressions in the order of their evaluation.
    pub(crate) fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        let options = self.options.iter_mut().map(|(_, value)| value);
        self.values.iter_mut().chain([&mut self.sqlstate]).chain(options)
    }

    /// Returns the expressions in the order of their evaluation.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let options = self.options.iter().map(|(_, value)| value);
        self.values.iter().chain([&self.sqlstate]).chain(options)
    }

    /// Returns the RAISE of an error with a fixed message.
    pub fn error(sqlstate: &str, message: &str) -> Self {
        Self {
            severity: Severity::Exception,
            parts: vec![message.into()],
            values: Vec::new(),
            sqlstate: Expression::text(sqlstate),
            options: Vec::new(),
        }
    }
}

/// A block with an EXCEPTION clause.
#[derive(Clone, Debug)]
pub struct Guarded {
    /// The statements that may fail.
    pub body: Vec<Statement>,
    /// The handlers. The first one that handles the error runs.
    pub handlers: Vec<Handler>,
}

/// WHEN … THEN of an EXCEPTION clause.
#[derive(Clone, Debug)]
pub struct Handler {
    /// The SQLSTATEs that it handles; a state that ends in 000 stands for its class. `None` handles all
    /// errors but cancellation and failed assertions.
    pub states: Option<Vec<String>>,
    /// The registers of the error's SQLSTATE, message, detail, hint, schema, table, column, constraint and
    /// data type.
    pub diagnostics: [Register; 9],
    /// The statements of the handler.
    pub body: Vec<Statement>,
}

impl Handler {
    /// Returns whether it handles an SQLSTATE.
    pub fn fits(&self, sqlstate: &str) -> bool {
        match &self.states {
            // A cancelled statement or a failed assertion ends the call, as in PostgreSQL.
            None => !matches!(sqlstate, "57014" | "P0004"),
            Some(states) => states.iter().any(|state| {
                state == sqlstate || state.ends_with("000") && sqlstate.get(..2) == state.get(..2)
            }),
        }
    }
}

impl Statement {
    /// Returns whether the statement takes a bounded time, apart from the statements inside it.
    fn is_short(&self) -> bool {
        match self {
            Self::ForRange { .. }
            | Self::ForEach { .. }
            | Self::ForRows { .. }
            | Self::ForQuery { .. }
            | Self::While { .. }
            | Self::Opaque(_) => false,
            Self::Call { procedure, .. } => procedure.looks_short(),
            Self::Assign { .. }
            | Self::AssignElement { .. }
            | Self::If { .. }
            | Self::Guarded(_)
            | Self::RaiseAgain
            | Self::Block { .. }
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Query(_)
            | Self::Raise(_)
            | Self::Return => true,
        }
    }

    /// Returns the operation that it names.
    fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Execute(id) | Self::ForRows { operation: id, .. } => Some(*id),
            _ => None,
        }
    }

    /// Returns the query that it names.
    fn query(&self) -> Option<QueryId> {
        match self {
            Self::Query(id) | Self::ForQuery { query: id, .. } => Some(*id),
            Self::Opaque(opaque) => opaque.query(),
            _ => None,
        }
    }
}

/// One statement.
// The kind is a separate byte, as for `Expression`.
#[repr(u8)]
#[derive(Clone, Debug)]
pub enum Statement {
    /// `target := value`.
    Assign {
        /// Register that is set.
        target: Register,
        /// Its value, of the register's type.
        value: Expression,
    },
    /// `array[index] := value`.
    AssignElement {
        /// Register of the array.
        array: Register,
        /// The index, from 1.
        index: Expression,
        /// The new element, of the array's element type.
        value: Expression,
    },
    /// IF; ELSIF and CASE nest.
    If {
        /// Selects `then` if it is true.
        condition: Expression,
        /// THEN.
        then: Vec<Statement>,
        /// ELSE.
        otherwise: Vec<Statement>,
    },
    /// FOR over a range of integers.
    ForRange {
        /// Names the loop.
        label: Label,
        /// Set before each round.
        variable: Register,
        /// First value.
        from: Expression,
        /// Last value.
        to: Expression,
        /// The step, positive.
        step: Expression,
        /// Whether it counts down.
        reverse: bool,
        /// Point accesses of the body whose keys are known before the first round.
        ahead: Vec<OperationId>,
        /// The statements of each round.
        body: Vec<Statement>,
    },
    /// FOREACH over an array.
    ForEach {
        /// Names the loop.
        label: Label,
        /// Set before each round.
        variable: Register,
        /// The array.
        array: Expression,
        /// The statements of each round.
        body: Vec<Statement>,
    },
    /// FOR over the rows that a read finds when the loop begins.
    ForRows {
        /// Names the loop.
        label: Label,
        /// A `Select`; its outputs are set before each round.
        operation: OperationId,
        /// The statements of each round.
        body: Vec<Statement>,
    },
    /// FOR over the rows that a query finds when the loop begins; calls of its procedure are logged by value.
    ForQuery {
        /// Names the loop.
        label: Label,
        /// The query; its outputs are set before each round.
        query: QueryId,
        /// The statements of each round.
        body: Vec<Statement>,
    },
    /// A block with an EXCEPTION clause; calls of its procedure are logged by value.
    Guarded(Box<Guarded>),
    /// RAISE of the error that is being handled.
    RaiseAgain,
    /// A statement that the analysis does not support; calls of its procedure are logged by value.
    Opaque(Box<Opaque>),
    /// WHILE; LOOP has the condition TRUE.
    While {
        /// Names the loop.
        label: Label,
        /// Evaluated before each round.
        condition: Expression,
        /// The statements of each round.
        body: Vec<Statement>,
    },
    /// A labelled block.
    Block {
        /// Names the block.
        label: Label,
        /// Its statements.
        body: Vec<Statement>,
    },
    /// EXIT.
    Exit(Label),
    /// CONTINUE.
    Continue(Label),
    /// A data access.
    Execute(OperationId),
    /// A query for its effect, for the client, or for its first row; calls of its procedure are logged by
    /// value.
    Query(QueryId),
    /// CALL, or a function call lifted out of an expression.
    Call {
        /// The routine.
        procedure: Arc<Procedure>,
        /// A value for each of its parameters that takes one.
        arguments: Vec<Expression>,
        /// The registers of its outputs, and the cast of each.
        outputs: Vec<(Register, crate::Cast)>,
    },
    /// RAISE.
    Raise(Box<Raise>),
    /// RETURN.
    Return,
}
