//! The executor: runs a procedure's statements over a `DataAccess`.

use super::code::{Code, Execution};
use super::operations::load_outputs;
use crate::execution::ahead::point_key;
use crate::execution::rows::{select_rows, write_key};
use crate::execution::tape::{Part, Tapes, Whole};
use crate::{
    Cast, Conflict, DataAccess, Expression, Failure, Guarded, Label, Machine, Operation, OperationId,
    OperationKind, Procedure, QueryOperation, Raise, Register, Severity, SqlError, Statement,
};
use catalog::Datum;

/// Calls deeper than this are refused, as PostgreSQL refuses them by its stack limit.
const MAX_DEPTH: usize = 100;

/// This many rounds of a loop are looked up ahead, as more would not stay in the cache.
const LOOK_AHEAD: usize = 32;

/// After this many rounds of loops an attempt asks whether it can still succeed.
const ASK_EVERY: u32 = 4096;

/// One call: what its determinism rests on.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What to run.
    pub procedure: &'a Procedure,
    /// `now()`, in microseconds since 2000-01-01 UTC.
    pub timestamp_us: i64,
    /// What `random()` follows from.
    pub seed: u64,
}

/// Where a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Here,
    Exit(Label),
    Continue(Label),
    Return,
}

/// Runs a call with its input arguments, in order; afterwards the machine's registers hold the outputs, and
/// `tapes` what it asked to be sent.
///
/// # Errors
/// What ended the call early; the transaction must then be rolled back.
pub fn execute<D: DataAccess, T: Tapes>(
    call: Call<'_>,
    arguments: impl Iterator<Item = Datum>,
    machine: &mut Machine,
    data: &mut D,
    tapes: &mut T,
) -> Result<(), Failure> {
    machine.frame.enter(call.procedure.registers.len());
    for ((place, _), value) in call.procedure.inputs().zip(arguments) {
        machine.set(Register(place as u32), value);
    }
    Execution { code: call.procedure.into(), data, tapes }.run_body(machine)
}

/// Runs a piece of a procedure. The registers are as the caller made them with `Machine::begin_piece`; rows
/// may have been announced with `announce_piece`.
///
/// # Errors
/// What ended it early.
pub fn execute_piece<D: DataAccess, T: Tapes>(
    code: Code<'_>,
    machine: &mut Machine,
    data: &mut D,
    tapes: &mut T,
) -> Result<(), Failure> {
    Execution { code, data, tapes }.run(code.body, machine).map(|_| ())
}

/// Announces the rows that a piece will look for, as far as they are known before it runs.
pub fn announce_piece<D: DataAccess>(code: Code<'_>, machine: &mut Machine, data: &mut D) {
    Execution { code, data, tapes: &mut Whole }.expect(code.ahead, machine);
}

impl<D: DataAccess, T: Tapes> Execution<'_, D, T> {
    fn run_body(&mut self, machine: &mut Machine) -> Result<(), Failure> {
        let Code { body, ahead, .. } = self.code;
        if ahead.len() > 1 {
            self.data.expect_nothing();
            self.expect(ahead, machine);
            self.data.load_expected();
        }
        self.run(body, machine).map(|_| ())
    }

    fn run(&mut self, statements: &[Statement], machine: &mut Machine) -> Result<Ended, Failure> {
        for statement in statements {
            let ended = match statement {
                Statement::Assign { target, value } => {
                    let value = value.evaluate(machine)?;
                    machine.set(*target, value);
                    Ended::Here
                }
                Statement::Execute(id) => {
                    self.operation(*id, machine)?;
                    Ended::Here
                }
                Statement::If { condition, then, otherwise } => {
                    let branch = if condition.evaluate(machine)?.is_true() { then } else { otherwise };
                    self.run(branch, machine)?
                }
                _ => self.run_rest(statement, machine)?,
            };
            if ended != Ended::Here {
                return Ok(ended);
            }
        }
        Ok(Ended::Here)
    }

    fn run_rest(&mut self, statement: &Statement, machine: &mut Machine) -> Result<Ended, Failure> {
        match statement {
            Statement::AssignElement { array, index, value } => {
                assign_element(*array, index, value, machine)?;
                Ok(Ended::Here)
            }
            Statement::ForRange { label, variable, from, to, step, reverse, ahead, body } => {
                let bound = |value: Datum| match value {
                    Datum::Int(value) => Ok(value),
                    _ => Err(SqlError::new("22004", "a bound of a FOR loop cannot be null")),
                };
                let (mut at, end) = (bound(from.evaluate(machine)?)?, bound(to.evaluate(machine)?)?);
                let step = bound(step.evaluate(machine)?)?;
                if step <= 0 {
                    let message = "BY value of FOR loop must be greater than zero";
                    return Err(SqlError::new("22023", message).into());
                }
                let step = if *reverse { -step } else { step };
                let mut looked_up = 0;
                while if *reverse { at >= end } else { at <= end } {
                    if looked_up == 0 && !ahead.is_empty() {
                        looked_up = self.expect_rounds(*variable, ahead, (at, end, step), machine);
                    }
                    looked_up = looked_up.saturating_sub(1);
                    machine.set(*variable, Datum::Int(at));
                    if let Some(ended) = self.round(*label, body, machine)? {
                        return Ok(ended);
                    }
                    let Some(next) = at.checked_add(step) else { break };
                    at = next;
                }
                Ok(Ended::Here)
            }
            Statement::ForEach { label, variable, array, body } => {
                let Datum::Array(span) = array.evaluate(machine)? else {
                    return Err(SqlError::new("22004", "FOREACH expression must not be null").into());
                };
                for place in 0..span.length as usize {
                    let value = machine.frame.arena.elements(span)[place];
                    machine.set(*variable, value);
                    if let Some(ended) = self.round(*label, body, machine)? {
                        return Ok(ended);
                    }
                }
                Ok(Ended::Here)
            }
            Statement::ForRows { label, operation, body } => self.for_rows(*label, *operation, body, machine),
            Statement::While { label, condition, body } => {
                while condition.evaluate(machine)?.is_true() {
                    if let Some(ended) = self.round(*label, body, machine)? {
                        return Ok(ended);
                    }
                }
                Ok(Ended::Here)
            }
            Statement::Block { label, body } => match self.run(body, machine)? {
                Ended::Exit(exited) if exited == *label => Ok(Ended::Here),
                ended => Ok(ended),
            },
            Statement::Opaque(opaque) => {
                self.run_opaque(opaque, machine)?;
                Ok(Ended::Here)
            }
            Statement::Guarded(guarded) => self.run_guarded(guarded, machine),
            Statement::RaiseAgain => match machine.frame.handled.last() {
                Some(error) => Err(error.clone().into()),
                None => Err(SqlError::new("0Z002", "there is no error to raise again").into()),
            },
            Statement::Exit(label) => Ok(Ended::Exit(*label)),
            Statement::Continue(label) => Ok(Ended::Continue(*label)),
            Statement::Call { procedure, arguments, outputs } => {
                call(procedure, arguments, outputs, machine, self.data)?;
                Ok(Ended::Here)
            }
            Statement::Raise(raise) => {
                let error = raised(raise, machine)?;
                if raise.severity == Severity::Exception {
                    return Err(error.into());
                }
                machine.check_kept()?;
                machine.services.notices.push(error);
                Ok(Ended::Here)
            }
            Statement::Return => Ok(Ended::Return),
            Statement::Assign { .. } | Statement::Execute(_) | Statement::If { .. } => {
                self.run(std::slice::from_ref(statement), machine)
            }
        }
    }

    /// Runs a block, and what is to be done when it fails: then nothing of it has happened, and its variables
    /// are as they were left.
    fn run_guarded(&mut self, guarded: &Guarded, machine: &mut Machine) -> Result<Ended, Failure> {
        let place = machine.frame.place();
        self.data.begin_part();
        let error = match self.run(&guarded.body, machine) {
            Ok(ended) => {
                self.data.end_part();
                return Ok(ended);
            }
            Err(Failure::Error(error)) => error,
            Err(conflict) => return Err(conflict),
        };
        let Some(handler) = guarded.handlers.iter().find(|own| own.fits(&error.sqlstate)) else {
            // The block that handles the error undoes this part with its own.
            self.data.end_part();
            return Err(Failure::Error(error));
        };
        // The error may come from reads of different moments. Then the attempt is repeated.
        if self.data.is_doomed() {
            return Err(Conflict::Read.into());
        }
        machine.frame.has_caught_shortage |= error.sqlstate.starts_with("53");
        machine.frame.come_back_to(place);
        self.data.undo_part()?;
        self.data.end_part();
        let object = error.object.clone().unwrap_or_default();
        let texts: [&str; 8] = [
            &error.sqlstate,
            &error.message,
            error.detail.as_deref().unwrap_or_default(),
            error.hint.as_deref().unwrap_or_default(),
            &object.schema,
            &object.table,
            &object.column,
            &object.constraint,
        ];
        for (register, text) in handler.told.into_iter().zip(texts) {
            let value = machine.frame.arena.push_bytes(text.as_bytes());
            machine.set(register, value);
        }
        machine.frame.handled.push(*error);
        let ended = self.run(&handler.body, machine);
        machine.frame.handled.pop();
        ended
    }

    /// Announces the rows of the next rounds of a loop, so that their cache misses overlap; returns how many
    /// rounds.
    fn expect_rounds(
        &mut self,
        variable: Register,
        ahead: &[OperationId],
        (first, last, step): (i64, i64, i64),
        machine: &mut Machine,
    ) -> usize {
        self.data.expect_nothing();
        let (mut round, mut rounds) = (first, 0);
        while rounds < LOOK_AHEAD && if step > 0 { round <= last } else { round >= last } {
            machine.set(variable, Datum::Int(round));
            self.expect(ahead, machine);
            rounds += 1;
            let Some(next) = round.checked_add(step) else { break };
            round = next;
        }
        self.data.load_expected();
        rounds
    }

    /// Announces the rows of operations.
    fn expect(&mut self, ahead: &[OperationId], machine: &mut Machine) {
        for id in ahead {
            let operation = &self.code.operations[id.0 as usize];
            let table = operation.table();
            let Some(key) = point_key(operation) else { continue };
            if let Ok(true) = write_key(table, &table.primary().columns, key, machine) {
                self.data.expect(table, &machine.frame.key);
            }
        }
    }

    /// One round of a loop; `Some` when the loop ends with it.
    fn round(
        &mut self,
        label: Label,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Option<Ended>, Failure> {
        machine.frame.rounds = machine.frame.rounds.wrapping_add(1);
        if machine.frame.rounds.is_multiple_of(ASK_EVERY) {
            if self.data.is_doomed() {
                return Err(Conflict::Read.into());
            }
            machine.check_cancelled()?;
        }
        Ok(match self.run(body, machine)? {
            Ended::Here => None,
            Ended::Continue(continued) if continued == label => None,
            Ended::Exit(exited) if exited == label => Some(Ended::Here),
            ended => Some(ended),
        })
    }

    fn for_rows(
        &mut self,
        label: Label,
        id: OperationId,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let operation = &self.code.operations[id.0 as usize];
        let select = match &operation.kind {
            OperationKind::Select(select) => select,
            OperationKind::Query(own) => return self.for_rows_of_query(label, operation, own, body, machine),
            _ => unreachable!("a loop over rows reads"),
        };
        let start = machine.frame.rows.len();
        let count = match self.tapes.part(id) {
            Part::Receive => self.receive_rows(id, select.outputs.len(), machine),
            part => {
                let count = select_rows(select, usize::MAX, machine, self.data)?;
                if part == Part::Send {
                    self.tapes.send(id, Datum::Int(count as i64), &machine.frame.arena);
                    for value in &machine.frame.rows[start..] {
                        self.tapes.send(id, *value, &machine.frame.arena);
                    }
                }
                count
            }
        };
        let mut ended = Ended::Here;
        for row in 0..count {
            load_outputs(select, start + row * select.outputs.len(), machine);
            if let Some(end) = self.round(label, body, machine)? {
                ended = end;
                break;
            }
        }
        machine.frame.rows.truncate(start);
        if count == 0 {
            machine.frame.set_to_null(&select.outputs);
        }
        machine.set(operation.found, Datum::boolean(count > 0));
        Ok(ended)
    }

    /// Receives the rows of a loop; returns their number.
    fn receive_rows(&mut self, id: OperationId, width: usize, machine: &mut Machine) -> usize {
        let count = match self.tapes.receive(id, &mut machine.frame.arena) {
            Datum::Int(count) => count as usize,
            _ => 0,
        };
        for _ in 0..count * width {
            let value = self.tapes.receive(id, &mut machine.frame.arena);
            machine.frame.rows.push(value);
        }
        count
    }

    fn for_rows_of_query(
        &mut self,
        label: Label,
        operation: &Operation,
        own: &QueryOperation,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let rows = self.rows_of(own, machine)?;
        let targets: Vec<_> = own.outputs.iter().map(|(target, _)| *target).collect();
        let mut ended = Ended::Here;
        for row in 0..rows.len() {
            rows.load(row, &targets, machine);
            if let Some(end) = self.round(label, body, machine)? {
                ended = end;
                break;
            }
        }
        if rows.len() == 0 {
            machine.frame.set_to_null(&own.outputs);
        }
        machine.set(operation.found, Datum::boolean(rows.len() > 0));
        Ok(ended)
    }
}

/// Calls a procedure or function, and brings what it returns into the caller's registers.
pub(crate) fn call<D: DataAccess>(
    procedure: &Procedure,
    arguments: &[Expression],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let first = machine.frame.rows.len();
    for argument in arguments {
        let value = argument.evaluate(machine)?;
        machine.frame.rows.push(value);
    }
    call_upon(procedure, first, outputs, machine, data)
}

/// The same with values.
pub(crate) fn call_with<D: DataAccess>(
    procedure: &Procedure,
    arguments: &[Datum],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let first = machine.frame.rows.len();
    machine.frame.rows.extend_from_slice(arguments);
    call_upon(procedure, first, outputs, machine, data)
}

/// The same with values that are the last of the machine's rows.
fn call_upon<D: DataAccess>(
    procedure: &Procedure,
    first: usize,
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    if machine.frame.depth >= MAX_DEPTH {
        return Err(SqlError::new("54001", "stack depth limit exceeded").into());
    }
    let caller = machine.frame.enter(procedure.registers.len());
    for (place, (register, _)) in procedure.inputs().enumerate() {
        let value = machine.frame.rows[first + place];
        machine.set(Register(register as u32), value);
    }
    machine.frame.rows.truncate(first);
    machine.frame.depth += 1;
    // Operations are numbered in each procedure anew, so what the caller sends says nothing of the called
    // one's.
    Execution { code: procedure.into(), data, tapes: &mut Whole }.run_body(machine)?;
    machine.frame.depth -= 1;
    for ((_, from, _), (to, cast)) in procedure.outputs().zip(outputs) {
        let value = cast.apply(machine.get(from), &mut machine.frame.arena).map_err(Failure::from)?;
        machine.frame.set_in(caller, *to, value);
    }
    machine.frame.leave(caller);
    Ok(())
}

fn assign_element(
    array: Register,
    index: &Expression,
    value: &Expression,
    machine: &mut Machine,
) -> Result<(), Failure> {
    machine.check_memory()?;
    let (index, value) = (index.evaluate(machine)?, value.evaluate(machine)?);
    let place = match index {
        Datum::Int(index @ 1..=1_000_000) => index as usize - 1,
        Datum::Null => {
            return Err(SqlError::new("22004", "array subscript in assignment must not be null").into());
        }
        _ => {
            let message = "array subscripts are supported from 1 to 1000000";
            return Err(SqlError::new("2202E", message).into());
        }
    };
    machine.ask_elements(place + 1)?;
    let span = match machine.get(array) {
        Datum::Array(span) if span.length > 0 => Some(span),
        _ if place > 0 => {
            let message =
                format!("an array whose first element has the subscript {} is not supported", place + 1);
            return Err(SqlError::new("0A000", message)
                .with_hint("Assign its first element before others.")
                .into());
        }
        _ => None,
    };
    let changed = machine.frame.arena.with_element(span, place, value);
    machine.set(array, changed);
    Ok(())
}

fn raised(raise: &Raise, machine: &mut Machine) -> Result<SqlError, Failure> {
    let mut message = String::new();
    let text = |expression: &Expression, machine: &mut Machine| -> Result<Option<String>, Failure> {
        let value = expression.evaluate(machine)?;
        let bytes = machine.frame.arena.datum_bytes(value);
        Ok((!value.is_null()).then(|| String::from_utf8_lossy(bytes).into_owned()))
    };
    for (place, part) in raise.parts.iter().enumerate() {
        message.push_str(part);
        if let Some(value) = raise.values.get(place) {
            message.push_str(text(value, machine)?.as_deref().unwrap_or("<NULL>"));
        }
    }
    let mut error = SqlError::new(text(&raise.sqlstate, machine)?.as_deref().unwrap_or("P0001"), message);
    if let Some(detail) = &raise.detail {
        error.detail = text(detail, machine)?;
    }
    if let Some(hint) = &raise.hint {
        error.hint = text(hint, machine)?.map(String::into_boxed_str);
    }
    Ok(error)
}

impl From<Conflict> for Failure {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}
