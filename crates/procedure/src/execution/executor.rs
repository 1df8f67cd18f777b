//! The executor: runs a procedure's statements over a `DataAccess`.

use super::code::{Code, Execution};
use super::ended::Ended;
use super::form::{Form, ReplayForm, RunTimeForm};
use super::host::ExecutionHost;
use super::operations::load_outputs;
use crate::execution::rows::{select_rows, write_key};
use crate::execution::tape::{Part, Tapes, Whole};
use crate::ir::conditions::raised_state;
use crate::values::subscripts::with_element;
use crate::{
    Conflict, DataAccess, Expression, Failure, Label, LookAhead, Machine, Notice, OperationId, OperationKind,
    Procedure, Raise, RaiseOption, Register, Select, Severity, SqlError, Statement, Transaction,
};
use catalog::Datum;

/// Number of rounds of a loop that are looked up ahead. The rows of more rounds would not stay in the cache.
pub const LOOK_AHEAD: usize = 32;

/// Number of rounds of loops after which an attempt checks whether it can still succeed; a power of two.
pub const CHECK_EVERY: u32 = 4096;

/// One call: the inputs that, with its arguments, determine its result on the same rows.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The procedure.
    pub procedure: &'a Procedure,
    /// `now()`, in microseconds since 2000-01-01 UTC.
    pub timestamp_us: i64,
    /// The seed of `random()`.
    pub seed: u64,
}

/// Runs a call with its input arguments, in order. Afterwards the machine's registers hold the outputs, and
/// `tapes` the values that were sent.
///
/// # Errors
/// The failure that ended the call; its transaction must be rolled back.
pub fn execute<D: Transaction, T: Tapes>(
    call: Call<'_>,
    arguments: impl Iterator<Item = Datum>,
    machine: &mut Machine,
    data: &mut D,
    tapes: &mut T,
) -> Result<(), Failure> {
    let Call { procedure, .. } = call;
    machine.frame.enter(procedure.registers.len());
    machine.frame.row_count = 0;
    for ((position, _), value) in procedure.inputs().zip(arguments) {
        machine.set(Register(position as u32), value);
    }
    Execution::new(procedure.into(), data, tapes, RunTimeForm::from(procedure)).run_body(machine)
}

/// Runs a piece of a procedure in replay. `Machine::begin_piece` and the caller have set the registers; rows
/// may have been announced with `announce_piece`.
///
/// # Errors
/// The failure that ended the piece.
pub fn execute_piece<D: DataAccess + LookAhead, T: Tapes>(
    code: Code<'_>,
    machine: &mut Machine,
    data: &mut D,
    tapes: &mut T,
) -> Result<(), Failure> {
    let mut execution = Execution::new(code, data, tapes, ReplayForm);
    match code.compiled {
        Some(compiled) => compiled.run(&mut execution.host(machine)),
        None => execution.run(code.body, machine).map(|_| ()),
    }
}

/// Announces the rows that a piece will read and whose keys are known before it runs.
pub fn announce_piece<D: DataAccess + LookAhead>(code: Code<'_>, machine: &mut Machine, data: &mut D) {
    Execution::new(code, data, &mut Whole, ReplayForm).announce(machine);
}

/// The values that the variable of a FOR loop over integers still takes.
#[derive(Clone, Copy)]
struct Count {
    at: i64,
    end: i64,
    /// Negative when the loop counts down.
    step: i64,
}

impl Count {
    /// Evaluates the bounds and the step of a loop.
    fn of([from, to, step]: [&Expression; 3], reverse: bool, machine: &mut Machine) -> Result<Self, Failure> {
        let bound = |value: Datum| match value {
            Datum::Int(value) => Ok(value),
            _ => Err(SqlError::new("22004", "a bound of a FOR loop cannot be null")),
        };
        let (at, end) = (bound(from.evaluate(machine)?)?, bound(to.evaluate(machine)?)?);
        let step = bound(step.evaluate(machine)?)?;
        if step <= 0 {
            return Err(SqlError::new("22023", "BY value of FOR loop must be greater than zero").into());
        }
        Ok(Self { at, end, step: if reverse { -step } else { step } })
    }

    #[inline]
    fn is_over(self) -> bool {
        if self.step > 0 { self.at > self.end } else { self.at < self.end }
    }
}

/// A FOR loop over integers.
struct RangeLoop<'s> {
    label: Label,
    variable: Register,
    /// The accesses whose keys are known before the first round.
    ahead: &'s [OperationId],
    body: &'s [Statement],
}

impl<'a, D: DataAccess + LookAhead, T: Tapes, F: Form<D>> Execution<'a, D, T, F> {
    pub(super) fn run_body(&mut self, machine: &mut Machine) -> Result<(), Failure> {
        let Code { body, ahead, compiled, .. } = self.code;
        if ahead.len() > 1 {
            self.data.expect_nothing();
            self.announce(machine);
            self.data.load_expected();
        }
        match compiled {
            Some(compiled) => compiled.run(&mut self.host(machine)),
            None => self.run(body, machine).map(|_| ()),
        }
    }

    /// Announces the rows whose keys are known at the start.
    fn announce(&mut self, machine: &mut Machine) {
        match self.code.compiled {
            Some(compiled) => compiled.announce(&mut self.host(machine)),
            None => self.expect(self.code.ahead, machine),
        }
    }

    fn host<'h>(&'h mut self, machine: &'h mut Machine) -> ExecutionHost<'h, 'a, D, T, F> {
        ExecutionHost { execution: self, machine, row: None }
    }

    pub(super) fn run(&mut self, statements: &[Statement], machine: &mut Machine) -> Result<Ended, Failure> {
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
                _ => self.run_uncommon(statement, machine)?,
            };
            if ended != Ended::Here {
                return Ok(ended);
            }
        }
        Ok(Ended::Here)
    }

    fn run_uncommon(&mut self, statement: &Statement, machine: &mut Machine) -> Result<Ended, Failure> {
        match statement {
            Statement::AssignElement { array, index, value } => {
                machine.check_memory()?;
                let (index, value) = (index.evaluate(machine)?, value.evaluate(machine)?);
                let changed = with_element(machine.get(*array), index, value, machine)?;
                machine.set(*array, changed);
                Ok(Ended::Here)
            }
            Statement::ForRange { label, variable, from, to, step, reverse, ahead, body } => {
                let count = Count::of([from, to, step], *reverse, machine)?;
                self.for_range(&RangeLoop { label: *label, variable: *variable, ahead, body }, count, machine)
            }
            Statement::ForEach { label, variable, array, body } => {
                self.for_each(*label, *variable, array, body, machine)
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
            Statement::Exit(label) => Ok(Ended::Exit(*label)),
            Statement::Continue(label) => Ok(Ended::Continue(*label)),
            Statement::Raise(raise) => {
                let (severity, content) = (raise.severity, raised(raise, machine)?);
                if severity == Severity::Exception {
                    return Err(content.into());
                }
                machine.check_kept()?;
                machine.services.notices.push(Notice { severity, content });
                Ok(Ended::Here)
            }
            Statement::Return => Ok(Ended::Return),
            Statement::Query(_)
            | Statement::ForQuery { .. }
            | Statement::Guarded(_)
            | Statement::RaiseAgain
            | Statement::Opaque(_)
            | Statement::Call { .. } => F::control(self, statement, machine),
            Statement::Assign { .. } | Statement::Execute(_) | Statement::If { .. } => {
                self.run(std::slice::from_ref(statement), machine)
            }
        }
    }

    fn for_range(
        &mut self,
        range: &RangeLoop<'_>,
        mut count: Count,
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let mut looked_up = 0;
        while !count.is_over() {
            if looked_up == 0 && !range.ahead.is_empty() {
                looked_up = self.expect_rounds(range, count, machine);
            }
            looked_up = looked_up.saturating_sub(1);
            machine.set(range.variable, Datum::Int(count.at));
            if let Some(ended) = self.round(range.label, range.body, machine)? {
                return Ok(ended);
            }
            let Some(next) = count.at.checked_add(count.step) else { break };
            count.at = next;
        }
        Ok(Ended::Here)
    }

    fn for_each(
        &mut self,
        label: Label,
        variable: Register,
        array: &Expression,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let Datum::Array(span) = array.evaluate(machine)? else {
            return Err(SqlError::new("22004", "FOREACH expression must not be null").into());
        };
        for position in 0..span.length as usize {
            let value = machine.frame.arena.elements(span)[position];
            machine.set(variable, value);
            if let Some(ended) = self.round(label, body, machine)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Here)
    }

    /// Announces the rows of the next rounds of a loop, so that their cache misses overlap. Returns the
    /// number of rounds.
    fn expect_rounds(&mut self, range: &RangeLoop<'_>, mut count: Count, machine: &mut Machine) -> usize {
        self.data.expect_nothing();
        let mut rounds = 0;
        while rounds < LOOK_AHEAD && !count.is_over() {
            machine.set(range.variable, Datum::Int(count.at));
            self.expect(range.ahead, machine);
            rounds += 1;
            let Some(next) = count.at.checked_add(count.step) else { break };
            count.at = next;
        }
        self.data.load_expected();
        rounds
    }

    /// Announces the rows of operations.
    fn expect(&mut self, ahead: &[OperationId], machine: &mut Machine) {
        for id in ahead {
            let operation = &self.code.operations[id.0 as usize];
            let table = operation.table();
            let Some(key) = operation.point_key() else { continue };
            if let Ok(true) = write_key(table, &table.primary().columns, key, machine) {
                self.data.expect(table, &machine.frame.key);
            }
        }
    }

    /// Runs one round of a loop. Returns how the loop ended; `None` if it goes on.
    pub(super) fn round(
        &mut self,
        label: Label,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Option<Ended>, Failure> {
        machine.frame.rounds = machine.frame.rounds.wrapping_add(1);
        if machine.frame.rounds.is_multiple_of(CHECK_EVERY) {
            self.check(machine)?;
        }
        Ok(match self.run(body, machine)? {
            Ended::Here => None,
            Ended::Continue(continued) if continued == label => None,
            Ended::Exit(exited) if exited == label => Some(Ended::Here),
            ended => Some(ended),
        })
    }

    /// Checks whether the execution has to end.
    pub(super) fn check(&self, machine: &Machine) -> Result<(), Failure> {
        if F::is_doomed(self.data) {
            return Err(Conflict::Read.into());
        }
        Ok(machine.check_cancelled()?)
    }

    fn for_rows(
        &mut self,
        label: Label,
        id: OperationId,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let count = self.open_rows(id, machine)?;
        let mut ended = Ended::Here;
        for row in 0..count {
            self.load_row(id, row, count, machine);
            if let Some(end) = self.round(label, body, machine)? {
                ended = end;
                break;
            }
        }
        self.close_rows(id, count, machine);
        machine.set(self.code.operations[id.0 as usize].found, Datum::boolean(count > 0));
        Ok(ended)
    }

    /// Appends the rows of a loop to the frame's `rows`. Returns their number.
    pub(super) fn open_rows(&mut self, id: OperationId, machine: &mut Machine) -> Result<usize, Failure> {
        let select = self.select(id);
        let start = machine.frame.rows.len();
        match self.tapes.part(id) {
            Part::Receive => Ok(self.receive_rows(id, select.outputs.len(), machine)),
            part => {
                let count = select_rows(select, usize::MAX, machine, self.data)?;
                if part == Part::Send {
                    self.tapes.send(id, Datum::Int(count as i64), &machine.frame.arena);
                    for value in &machine.frame.rows[start..] {
                        self.tapes.send(id, *value, &machine.frame.arena);
                    }
                }
                Ok(count)
            }
        }
    }

    /// Sets the targets of a loop to one of its rows, which are the last ones of the frame's `rows`.
    #[inline]
    pub(super) fn load_row(&self, id: OperationId, row: usize, count: usize, machine: &mut Machine) {
        let select = self.select(id);
        let start = machine.frame.rows.len() - count * select.outputs.len();
        load_outputs(select, start + row * select.outputs.len(), machine);
    }

    /// Removes the rows of a loop from the frame's `rows`. Sets its targets to NULL if it had no row.
    pub(super) fn close_rows(&self, id: OperationId, count: usize, machine: &mut Machine) {
        let select = self.select(id);
        let start = machine.frame.rows.len() - count * select.outputs.len();
        machine.frame.rows.truncate(start);
        if count == 0 {
            machine.frame.set_to_null(&select.outputs);
        }
    }

    /// Returns the read of a loop.
    fn select(&self, id: OperationId) -> &'a Select {
        match &self.code.operations[id.0 as usize].kind {
            OperationKind::Select(select) => select,
            _ => unreachable!("a loop over rows reads"),
        }
    }

    /// Receives the rows of a loop. Returns their number.
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
}

fn raised(raise: &Raise, machine: &mut Machine) -> Result<SqlError, Failure> {
    let mut message = String::new();
    let text = |expression: &Expression, machine: &mut Machine| -> Result<Option<String>, Failure> {
        let value = expression.evaluate(machine)?;
        let bytes = machine.frame.arena.datum_bytes(value);
        Ok((!value.is_null()).then(|| String::from_utf8_lossy(bytes).into_owned()))
    };
    for (index, part) in raise.parts.iter().enumerate() {
        message.push_str(part);
        if let Some(value) = raise.values.get(index) {
            message.push_str(text(value, machine)?.as_deref().unwrap_or("<NULL>"));
        }
    }
    let code = option_text(text(&raise.sqlstate, machine)?)?;
    let state = raised_state(&code)
        .ok_or_else(|| SqlError::new("42704", format!("unrecognized exception condition \"{code}\"")))?;
    // As in PostgreSQL, no error or warning has the SQLSTATE of success.
    let state = match (state.as_str(), raise.severity) {
        ("00000", Severity::Exception) => "P0001",
        ("00000", Severity::Warning) => "01000",
        (state, _) => state,
    };
    let mut error = SqlError::new(state, message);
    for (option, value) in &raise.options {
        let value = option_text(text(value, machine)?)?;
        if !matches!(option, RaiseOption::Message | RaiseOption::Detail | RaiseOption::Hint) {
            error.object.get_or_insert_default();
        }
        let object = error.object.as_deref_mut();
        match (option, object) {
            (RaiseOption::Message, _) => error.message = value,
            (RaiseOption::Detail, _) => error.detail = Some(value),
            (RaiseOption::Hint, _) => error.hint = Some(value.into()),
            (RaiseOption::Schema, Some(object)) => object.schema = value,
            (RaiseOption::Table, Some(object)) => object.table = value,
            (RaiseOption::Column, Some(object)) => object.column = value,
            (RaiseOption::Datatype, Some(object)) => object.datatype = value,
            (RaiseOption::Constraint, Some(object)) => object.constraint = value,
            (_, None) => {}
        }
    }
    Ok(error)
}

fn option_text(value: Option<String>) -> Result<String, SqlError> {
    value.ok_or_else(|| SqlError::new("22004", "RAISE statement option cannot be null"))
}

impl From<Conflict> for Failure {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}
