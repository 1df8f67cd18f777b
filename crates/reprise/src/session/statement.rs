//! Prepared statements, and the values of their parameters.

use super::Session;
use crate::{Column, Error};
use catalog::{Arena, Datum, SessionZone, Type, Value, datum_from_value, encode_value};
use procedure::SqlError;
use sql::Kind;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// A statement that a session has prepared. Other sessions of the database can execute it, too.
///
/// ```
/// # use reprise::{Config, Database, Error, params};
/// # fn main() -> Result<(), Error> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let db = Database::open(folder.path(), Config::default())?;
/// # let mut session = db.session()?;
/// session.execute_script("CREATE TABLE items (id INT PRIMARY KEY, name TEXT)")?;
/// let insert = session.prepare("INSERT INTO items VALUES ($1, $2)")?;
/// for (id, name) in [(1, "a pen"), (2, "ink")] {
///     session.execute(&insert, params![id, name])?;
/// }
/// let find = session.prepare("SELECT name FROM items WHERE id = $1")?;
/// assert_eq!(find.columns()[0].name, "name");
/// assert_eq!(session.execute(&find, params![2])?.rows[0][0].to_string(), "ink");
/// # Ok(()) }
/// ```
pub struct Statement {
    fixed: Arc<Fixed>,
    bound: Mutex<Bound>,
}

/// The parts of a statement that later definitions do not change.
#[derive(Debug)]
struct Fixed {
    text: Box<str>,
    /// Types of parameters that the client gave; `None` for inferred ones.
    types: Box<[Option<Type>]>,
    /// The zone of the session that has prepared it, in which its literals are read; `None` is UTC.
    zone: Option<Arc<SessionZone>>,
    parameters: Arc<[Type]>,
    columns: Arc<[Column]>,
    tag: &'static str,
}

/// What a plan depends on: a version of the definitions, the role that runs the statement, and the session's
/// temporary schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Binding {
    pub(super) version: u64,
    pub(super) role: u32,
    /// The number of the temporary schema; `None` if the session has needed none.
    pub(super) temporary: Option<u32>,
}

/// A statement bound against one version of the definitions, for one role.
#[derive(Clone, Debug)]
struct Bound {
    binding: Binding,
    plan: Arc<sql::Prepared>,
}

/// A clone has a separate binding: it is bound again when it runs under changed definitions.
impl Clone for Statement {
    fn clone(&self) -> Self {
        Self { fixed: Arc::clone(&self.fixed), bound: Mutex::new(self.bound()) }
    }
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Statement").field(&self.fixed.text).finish()
    }
}

impl Statement {
    pub(super) fn new(
        text: &str,
        types: &[Option<Type>],
        zone: Option<Arc<SessionZone>>,
        binding: Binding,
        plan: sql::Prepared,
    ) -> Self {
        let column = |column: &sql::ResultColumn| Column {
            name: column.name.clone(),
            ty: column.ty,
            declared: column.declared_type(),
            origin: column.origin,
        };
        let fixed = Fixed {
            text: text.into(),
            types: types.into(),
            zone,
            parameters: plan.parameters.as_slice().into(),
            columns: plan.columns.iter().map(column).collect(),
            tag: plan.tag,
        };
        Self { fixed: Arc::new(fixed), bound: Mutex::new(Bound { binding, plan: Arc::new(plan) }) }
    }

    fn bound(&self) -> Bound {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.fixed.text
    }

    /// Returns the types of the parameters.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")?;
    /// let statement = session.prepare("SELECT name FROM t WHERE id = $1")?;
    /// assert_eq!(statement.parameters()[0].to_string(), "integer");
    /// assert_eq!(statement.columns()[0].name, "name");
    /// # Ok(()) }
    /// ```
    pub fn parameters(&self) -> &[Type] {
        &self.fixed.parameters
    }

    /// Returns the columns of the rows; empty for a statement without rows.
    pub fn columns(&self) -> &[Column] {
        &self.fixed.columns
    }

    /// Returns the columns, shared by the rows of the answers.
    pub(super) fn shared_columns(&self) -> &Arc<[Column]> {
        &self.fixed.columns
    }

    /// Returns PostgreSQL's command tag, without the count of rows.
    pub fn tag(&self) -> &'static str {
        self.fixed.tag
    }

    /// Returns the plan of the last binding.
    pub fn plan(&self) -> Arc<sql::Prepared> {
        self.bound().plan
    }

    /// Returns the plan if the statement is bound against a version of the definitions and for a role.
    pub(super) fn plan_for(&self, binding: Binding) -> Option<Arc<sql::Prepared>> {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        (bound.binding == binding).then(|| Arc::clone(&bound.plan))
    }

    /// Returns the types of parameters that the client gave; `None` for inferred ones.
    pub(super) fn given_types(&self) -> &[Option<Type>] {
        &self.fixed.types
    }

    /// Returns the zone in which literals are read; `None` is UTC.
    pub fn zone(&self) -> Option<&Arc<SessionZone>> {
        self.fixed.zone.as_ref()
    }

    /// Keeps the plan for another version of the definitions, or another role.
    ///
    /// # Errors
    /// `Outdated`: its rows or parameters have other types now.
    pub(super) fn bind(&self, binding: Binding, plan: sql::Prepared) -> Result<Arc<sql::Prepared>, Error> {
        let columns = plan.columns.iter().map(|column| column.ty);
        let is_alike = columns.eq(self.columns().iter().map(|column| column.ty));
        if !is_alike || plan.parameters != self.parameters() {
            return Err(Error::Outdated);
        }
        let plan = Arc::new(plan);
        let bound = Bound { binding, plan: Arc::clone(&plan) };
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
        Ok(plan)
    }

    /// Returns whether the statement probably accesses only a few rows.
    pub fn looks_short(&self) -> bool {
        match &self.plan().kind {
            Kind::Run(procedure) | Kind::Call(procedure, _) => procedure.looks_short(),
            Kind::Definition | Kind::Moved | Kind::Filled(_) | Kind::Analyze(_) => false,
            _ => true,
        }
    }

    /// Returns whether the statement may block the thread that runs it: a definition waits for transactions
    /// to end, and a procedure with COMMIT or ROLLBACK waits for rows.
    pub fn waits_on_its_thread(&self) -> bool {
        match &self.plan().kind {
            Kind::Definition | Kind::Moved | Kind::Filled(_) | Kind::Lock(_) => true,
            Kind::Run(procedure) | Kind::Call(procedure, _) => procedure.ends_transactions,
            Kind::Analyze(analyzed) => analyzed.procedure.ends_transactions,
            _ => false,
        }
    }
}

/// A statement to execute: a prepared one, or a text.
pub trait ToStatement {
    /// Returns the statement. A text is prepared by the session.
    ///
    /// # Errors
    /// As `Session::prepare`.
    fn to_statement(&self, session: &mut Session) -> Result<Cow<'_, Statement>, Error>;
}

impl ToStatement for Statement {
    fn to_statement(&self, _: &mut Session) -> Result<Cow<'_, Statement>, Error> {
        Ok(Cow::Borrowed(self))
    }
}

impl ToStatement for str {
    fn to_statement(&self, session: &mut Session) -> Result<Cow<'_, Statement>, Error> {
        session.prepare(self).map(Cow::Owned)
    }
}

impl ToStatement for String {
    fn to_statement(&self, session: &mut Session) -> Result<Cow<'_, Statement>, Error> {
        self.as_str().to_statement(session)
    }
}

/// The values of a statement's parameters, in the encoding of arguments in log records.
#[derive(Clone, Default, Debug)]
pub struct Parameters {
    /// The types of the parameters.
    types: Arc<[Type]>,
    /// Number of added values.
    count: usize,
    bytes: Vec<u8>,
}

impl Parameters {
    /// Returns the parameters of a statement, without values.
    pub fn new(statement: &Statement) -> Self {
        Self { types: Arc::clone(&statement.fixed.parameters), count: 0, bytes: Vec::new() }
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    /// Returns the parameters of a statement with values.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # use reprise::{Attempt, Nowhere, Parameters};
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// let insert = session.prepare("INSERT INTO t VALUES ($1)")?;
    /// let parameters = Parameters::of(&insert, params![7])?;
    /// let attempt = session.attempt(&insert, &parameters, Box::new(Nowhere))?;
    /// assert!(matches!(attempt, Attempt::Done(_)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As `push_value`.
    pub fn of(statement: &Statement, values: &[Value]) -> Result<Self, SqlError> {
        let (mut parameters, mut arena) = (Self::new(statement), Arena::default());
        arena.set_zone(statement.zone().cloned());
        values.iter().try_for_each(|value| parameters.push_value(value, &mut arena))?;
        Ok(parameters)
    }

    /// Returns the type of the next parameter to add; `None` when all parameters have values.
    pub fn next_type(&self) -> Option<Type> {
        self.types.get(self.count).copied()
    }

    /// Adds the value of the next parameter, which must have its type. Only counts a value beyond the last
    /// parameter; execution then fails.
    pub fn push(&mut self, value: Datum, arena: &Arena) {
        if let Some(ty) = self.next_type() {
            encode_value(value, ty, arena, &mut self.bytes);
        }
        self.count += 1;
    }

    /// Adds the value of the next parameter.
    ///
    /// # Errors
    /// `42804` and the errors of the type: the value does not have the parameter's type.
    pub fn push_value(&mut self, value: &Value, arena: &mut Arena) -> Result<(), SqlError> {
        let datum = match self.next_type() {
            Some(ty) => datum_from_value(value, ty, arena)
                .map_err(|error| SqlError::from(error).of_parameter(self.count + 1))?,
            None => Datum::Null,
        };
        self.push(datum, arena);
        Ok(())
    }

    /// Checks that these are the values of all parameters of a statement.
    pub(super) fn check(&self, statement: &Statement) -> Result<(), SqlError> {
        let expected = &statement.fixed.parameters;
        if self.count != expected.len() {
            let message = format!("the statement has {} parameters, not {}", expected.len(), self.count);
            return Err(SqlError::new("08P01", message));
        }
        if !Arc::ptr_eq(&self.types, expected) && self.types != *expected {
            return Err(SqlError::new("08P01", "the parameters belong to another statement"));
        }
        Ok(())
    }

    /// Returns the types of the parameters.
    pub(super) fn types(&self) -> &[Type] {
        &self.types
    }

    /// Returns the encoded values.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
