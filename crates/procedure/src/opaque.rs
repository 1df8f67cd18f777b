//! Statements that the analysis does not look into, as what they do follows from more than variables and
//! tables: rows that a function returns one by one, cursors, statements that are given as text, the end of a
//! transaction within a procedure. A procedure that has one is logged by value.

use crate::executor::{Execution, call_with};
use crate::query::Buffer;
use crate::tape::Tapes;
use crate::{
    Cast, DataAccess, Expression, Failure, Machine, Operation, OperationId, OperationKind, Procedure,
    QueryOperation, Register, RowSink, SqlError,
};
use catalog::{Arena, Datum, Type};
use std::sync::{Arc, Mutex, PoisonError};

/// A cursor variable: NULL as long as it is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Where it stands among the machine's, once it is open.
    pub register: Register,
    /// Its name.
    pub name: String,
}

/// Where a cursor goes.
#[derive(Clone, PartialEq, Debug)]
pub enum Movement {
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// This many rows forward, or back where it is negative.
    By(Expression),
    /// This many rows back.
    Back(Expression),
    /// To the row of a number, from 1, or from the end where it is negative.
    To(Expression),
    /// Behind the last row.
    BehindAll,
    /// One row on, as a loop goes: behind the last row, variables keep what was there.
    Next,
}

/// What becomes of the rows of a statement that is given as text.
#[derive(Clone, PartialEq, Debug)]
pub enum Destination {
    /// Nothing.
    Nowhere,
    /// The first goes to variables; STRICT allows no other.
    First {
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// Whether there must be exactly one row.
        strict: bool,
    },
    /// The function returns them, as these types.
    Returned(Vec<Type>),
    /// A cursor is opened on them.
    Cursor(Cursor),
}

/// One of those statements.
#[derive(Clone, Debug)]
pub enum Opaque {
    /// RETURN NEXT: a row of values.
    ReturnNext(Vec<Expression>),
    /// RETURN QUERY: the outputs of a query, which have no targets.
    ReturnQuery(OperationId),
    /// OPEN: the outputs of a query, as above.
    Open(Cursor, OperationId),
    /// FETCH, or MOVE without targets. Whether there was a row goes to a register.
    Fetch {
        /// The cursor.
        cursor: Cursor,
        /// Where it goes.
        movement: Movement,
        /// Variables and their types.
        targets: Vec<(Register, Type)>,
        /// Whether there was a row.
        found: Register,
    },
    /// CLOSE.
    Close(Cursor),
    /// EXECUTE.
    Text {
        /// The statement.
        text: Expression,
        /// What its parameters stand for.
        arguments: Vec<(Expression, Type)>,
        /// Where its rows go.
        rows: Destination,
        /// FOUND, where this sets it.
        found: Option<Register>,
    },
    /// COMMIT, or ROLLBACK.
    EndTransaction {
        /// Whether what the transaction did stays.
        commit: bool,
    },
}

impl Opaque {
    /// Visits the registers that it sets, those of its operation aside.
    pub(crate) fn visit_targets(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Self::Open(cursor, _) | Self::Close(cursor) => visit(cursor.register),
            Self::Fetch { targets, found, .. } => {
                targets.iter().for_each(|(target, _)| visit(*target));
                visit(*found);
            }
            Self::Text { rows, found, .. } => {
                found.iter().for_each(|found| visit(*found));
                match rows {
                    Destination::First { targets, .. } => {
                        targets.iter().for_each(|(target, _)| visit(*target))
                    }
                    Destination::Cursor(cursor) => visit(cursor.register),
                    Destination::Nowhere | Destination::Returned(_) => {}
                }
            }
            Self::ReturnNext(_) | Self::ReturnQuery(_) | Self::EndTransaction { .. } => {}
        }
    }
}

/// Compiles statements that are given as text while a procedure runs.
pub trait Compiler: Send + Sync {
    /// A statement as a procedure without a name, whose rows go to its client. `types` are those of its
    /// parameters.
    ///
    /// # Errors
    /// Anything wrong with it; it changes definitions.
    fn compile(&self, text: &str, types: &[Type]) -> Result<Arc<Procedure>, SqlError>;
}

/// Rows with their types, and a place among them.
#[derive(Debug)]
pub(crate) struct OpenCursor {
    rows: Buffer,
    types: Vec<Type>,
    /// 0 before the first row, from 1 on a row, one more than there are behind the last.
    at: i64,
}

/// Keeps the rows that a statement hands to its client.
struct Capture(Arc<Mutex<Buffer>>);

impl RowSink for Capture {
    fn begin(&mut self) {}

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(values.iter().copied(), arena)
    }
}

/// A value as another type, as an assignment has it.
fn converted(value: Datum, (from, to): (Type, Type), machine: &mut Machine) -> Result<Datum, Failure> {
    let cast = match (from, to) {
        _ if from == to => Some(Cast::Same),
        (Type::Scalar(from), Type::Scalar(to)) => Cast::between(from, to, false),
        _ => None,
    };
    let Some(cast) = cast else {
        let message = format!("a value of type {from} cannot be assigned to a variable of type {to}");
        return Err(SqlError::new("42804", message).into());
    };
    cast.apply(value, &mut machine.arena).map_err(Failure::from)
}

fn load_row(
    rows: &Buffer,
    types: &[Type],
    place: usize,
    targets: &[(Register, Type)],
    machine: &mut Machine,
) -> Result<(), Failure> {
    for (column, (target, ty)) in targets.iter().enumerate() {
        // As in PostgreSQL: variables without a column are NULL, and columns without a variable go nowhere.
        let value = match (rows.row(place).get(column), types.get(column)) {
            (Some(value), Some(from)) => {
                let value = machine.arena.adopt(*value, &rows.arena);
                converted(value, (*from, *ty), machine)?
            }
            _ => Datum::Null,
        };
        machine.set(*target, value);
    }
    Ok(())
}

impl Machine {
    /// Says who compiles statements that are given as text.
    pub fn compile_by(&mut self, compiler: Option<Arc<dyn Compiler>>) {
        self.compiler = compiler.map(crate::machine::Handle);
    }

    fn open(&mut self, cursor: &Cursor, rows: Buffer, types: Vec<Type>) -> Result<(), SqlError> {
        if !self.get(cursor.register).is_null() {
            let message = format!("cursor \"{}\" already in use", cursor.name);
            return Err(SqlError::new("42P03", message));
        }
        self.cursors.push(Some(OpenCursor { rows, types, at: 0 }));
        self.set(cursor.register, Datum::Int(self.cursors.len() as i64 - 1));
        Ok(())
    }

    fn cursor(&mut self, cursor: &Cursor) -> Result<&mut Option<OpenCursor>, SqlError> {
        let place = match self.get(cursor.register) {
            Datum::Int(place) => usize::try_from(place).ok(),
            _ => None,
        };
        match place.and_then(|place| self.cursors.get_mut(place)) {
            Some(open) => Ok(open),
            None => {
                let message = format!("cursor variable \"{}\" is null", cursor.name);
                Err(SqlError::new("22004", message).with_hint("Open the cursor first."))
            }
        }
    }
}

impl<D: DataAccess, T: Tapes> Execution<'_, D, T> {
    pub(crate) fn run_opaque(&mut self, statement: &Opaque, machine: &mut Machine) -> Result<(), Failure> {
        match statement {
            Opaque::ReturnNext(values) => {
                let row =
                    values.iter().map(|value| value.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
                machine.check_kept()?;
                machine.returned_rows()?.push(row.iter().copied())
            }
            Opaque::ReturnQuery(operation) => {
                let operation = &self.code.operations[operation.0 as usize];
                let rows = self.rows_of(query_of(operation), machine)?;
                machine.set(operation.found, Datum::boolean(rows.len() > 0));
                machine.row_count = rows.len() as i64;
                machine.return_rows(&rows)
            }
            Opaque::Open(cursor, operation) => {
                let own = query_of(&self.code.operations[operation.0 as usize]);
                let rows = self.rows_of(own, machine)?;
                let types = own.query.columns.iter().map(|column| column.ty).collect();
                Ok(machine.open(cursor, rows, types)?)
            }
            Opaque::Fetch { cursor, movement, targets, found } => {
                fetch(cursor, movement, targets, *found, machine)
            }
            Opaque::Close(cursor) => {
                *machine.cursor(cursor)? = None;
                machine.set(cursor.register, Datum::Null);
                Ok(())
            }
            Opaque::Text { text, arguments, rows, found } => {
                self.run_text(text, arguments, rows, *found, machine)
            }
            Opaque::EndTransaction { commit } => self.data.end_transaction(*commit),
        }
    }

    fn run_text(
        &mut self,
        text: &Expression,
        arguments: &[(Expression, Type)],
        destination: &Destination,
        found: Option<Register>,
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        let value = text.evaluate(machine)?;
        if value.is_null() {
            return Err(SqlError::new("22004", "query string argument of EXECUTE is null").into());
        }
        let text = String::from_utf8_lossy(machine.arena.datum_bytes(value)).into_owned();
        let mut values = Vec::new();
        for (argument, _) in arguments {
            values.push(argument.evaluate(machine)?);
        }
        let types: Vec<Type> = arguments.iter().map(|(_, ty)| *ty).collect();
        let Some(compiler) = &machine.compiler else {
            return Err(SqlError::new("0A000", "EXECUTE is not to be had here").into());
        };
        let procedure = compiler.0.compile(&text, &types)?;
        let columns: Vec<Type> = procedure.client_columns().iter().map(|column| column.ty).collect();
        let captured = Arc::new(Mutex::new(Buffer::new(columns.len())));
        let output = machine.take_sink();
        let affected = machine.affected;
        machine.send_rows_to(Some(Box::new(Capture(Arc::clone(&captured)))));
        let ran = call_with(&procedure, &values, &[], machine, self.data);
        machine.send_rows_to(output);
        machine.row_count = (machine.affected - affected) as i64;
        machine.affected = affected;
        ran?;
        let rows =
            std::mem::replace(&mut *captured.lock().unwrap_or_else(PoisonError::into_inner), Buffer::new(0));
        if let Some(found) = found {
            machine.set(found, Datum::boolean(rows.len() > 0));
        }
        match destination {
            Destination::Nowhere => Ok(()),
            Destination::First { strict: true, .. } if rows.len() != 1 => {
                Err(crate::executor::not_one_row(rows.len()).into())
            }
            Destination::First { targets, .. } if rows.len() == 0 => {
                machine.set_to_null(targets);
                Ok(())
            }
            Destination::First { targets, .. } => load_row(&rows, &columns, 0, targets, machine),
            Destination::Returned(types) => {
                if types.len() != columns.len() {
                    let message = "structure of query does not match function result type";
                    return Err(SqlError::new("42804", message).into());
                }
                for place in 0..rows.len() {
                    let mut row = Vec::new();
                    for (value, types) in rows.row(place).iter().zip(columns.iter().zip(types)) {
                        let value = machine.arena.adopt(*value, &rows.arena);
                        row.push(converted(value, (*types.0, *types.1), machine)?);
                    }
                    machine.returned_rows()?.push(row.iter().copied())?;
                }
                Ok(())
            }
            Destination::Cursor(cursor) => Ok(machine.open(cursor, rows, columns)?),
        }
    }
}

fn query_of(operation: &Operation) -> &QueryOperation {
    match &operation.kind {
        OperationKind::Query(own) => own,
        _ => unreachable!("rows are returned and cursors opened by queries"),
    }
}

fn fetch(
    cursor: &Cursor,
    movement: &Movement,
    targets: &[(Register, Type)],
    found: Register,
    machine: &mut Machine,
) -> Result<(), Failure> {
    let distance = match movement {
        Movement::By(count) | Movement::Back(count) | Movement::To(count) => match count.evaluate(machine)? {
            Datum::Int(count) => count,
            _ => return Err(SqlError::new("22004", "relative or absolute cursor position is null").into()),
        },
        _ => 0,
    };
    let null = || SqlError::new("34000", format!("cursor \"{}\" does not exist", cursor.name));
    // Taken out, as its rows go to the machine's registers.
    let mut open = machine.cursor(cursor)?.take().ok_or_else(null)?;
    let count = open.rows.len() as i64;
    open.at = match movement {
        Movement::First => 1,
        Movement::Last => count,
        Movement::BehindAll => count + 1,
        Movement::Next => open.at + 1,
        Movement::By(_) => open.at.saturating_add(distance),
        Movement::Back(_) => open.at.saturating_sub(distance),
        Movement::To(_) if distance < 0 => count + 1 + distance,
        Movement::To(_) => distance,
    }
    .clamp(0, count + 1);
    let is_row = (1..=count).contains(&open.at);
    let loaded = if is_row {
        load_row(&open.rows, &open.types, open.at as usize - 1, targets, machine)
    } else {
        if !matches!(movement, Movement::Next) || count == 0 {
            machine.set_to_null(targets);
        }
        Ok(())
    };
    *machine.cursor(cursor)? = Some(open);
    machine.set(found, Datum::boolean(is_row));
    machine.row_count = is_row.into();
    loaded
}
