//! The host of compiled code: an execution, with the row that its last access has found.

use super::code::Execution;
use super::compiled::Host;
use super::ended::Ended;
use super::form::Form;
use super::frame::Frame;
use super::operations::{hash_changes, hash_further};
use super::tape::{Part, Tapes};
use super::violations::Violated;
use crate::{
    Access, Conflict, DataAccess, EncodedRow, Failure, LookAhead, Machine, Operation, OperationId,
    OperationKind, Statement,
};
use catalog::{ChangedWord, Datum, RowHash};

/// The host of one execution.
pub(super) struct ExecutionHost<'h, 'a, D: DataAccess, T, F> {
    pub(super) execution: &'h mut Execution<'a, D, T, F>,
    pub(super) machine: &'h mut Machine,
    /// The row that was found last.
    pub(super) row: Option<D::Row>,
}

impl<'a, D: DataAccess, T, F> ExecutionHost<'_, 'a, D, T, F> {
    #[inline]
    fn get(&self, id: OperationId) -> &'a Operation {
        &self.execution.code.operations[id.0 as usize]
    }

    /// Returns the row that the last access has found.
    #[inline]
    fn row(&self) -> D::Row {
        self.row.expect("code uses a row only after it has found one")
    }
}

/// Returns the access of an operation that is not an INSERT.
#[inline]
fn access_of(operation: &Operation) -> &Access {
    match &operation.kind {
        OperationKind::Select(select) => &select.access,
        OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => access,
        OperationKind::Insert { .. } => unreachable!("an INSERT finds no row"),
    }
}

impl<D: DataAccess + LookAhead, T: Tapes, F: Form<D>> ExecutionHost<'_, '_, D, T, F> {
    /// Notes that a row was inserted, and checks its references.
    #[inline]
    fn inserted(&mut self, id: OperationId, hash: RowHash) -> Result<(), Failure> {
        self.wrote(id, hash);
        let OperationKind::Insert { registers, values, references, .. } = &self.get(id).kind else {
            unreachable!("code inserts by an INSERT only")
        };
        for reference in references {
            let (row, arena) = self.machine.window(*registers, values.len());
            F::require(reference, row, arena, self.execution.data)?;
        }
        Ok(())
    }

    /// Updates the row that was found, from the registers of the assignments. The frame has the changes then.
    #[inline]
    fn update_columns(&mut self, id: OperationId) -> Result<(), Failure> {
        let OperationKind::Update { access, assignments, added, .. } = &self.get(id).kind else {
            unreachable!("code updates by an UPDATE only")
        };
        let (row, frame) = (self.row(), &mut self.machine.frame);
        let mut changes = std::mem::take(&mut frame.changes);
        changes.clear();
        changes.extend(assignments.iter().map(|(column, register, _)| (*column, frame.get(*register))));
        if !added.is_empty() {
            self.execution.data.adds_to(&access.table, row, added);
        }
        let updated = self.execution.data.update(&access.table, row, &changes, &frame.arena);
        frame.changes = changes;
        updated
    }

    /// Returns the error of the row that an operation writes. The registers have its new values.
    #[cold]
    fn violation(&mut self, id: OperationId, violated: Violated<'_>) -> Failure {
        match &self.get(id).kind {
            OperationKind::Insert { table, registers, values, .. } => {
                let (row, arena) = self.machine.window(*registers, values.len());
                violated.error(table, row, arena).into()
            }
            OperationKind::Update { access, assignments, .. } => {
                let new = |(column, register, _): &(_, _, _)| (*column, self.machine.get(*register));
                let changes: Vec<_> = assignments.iter().map(new).collect();
                let row = self.row();
                violated.error_of_changes(&access.table, row, &changes, self.machine, self.execution.data)
            }
            OperationKind::Select(_) | OperationKind::Delete { .. } => {
                unreachable!("only rows that are written are checked")
            }
        }
    }

    /// Notes that an operation has written a row.
    #[inline]
    fn wrote(&mut self, id: OperationId, hash: RowHash) {
        self.machine.frame.written += hash.written();
        self.machine.frame.affected += 1;
        self.ran(id, 1);
    }
}

impl<D: DataAccess + LookAhead, T: Tapes, F: Form<D>> Host for ExecutionHost<'_, '_, D, T, F> {
    #[inline]
    fn machine(&mut self) -> &mut Machine {
        self.machine
    }

    fn statement(&mut self, statement: &Statement) -> Result<Ended, Failure> {
        self.execution.run(std::slice::from_ref(statement), self.machine)
    }

    fn operation(&mut self, id: OperationId) -> Result<(), Failure> {
        self.execution.operation(id, self.machine)
    }

    fn encode_key(&mut self, id: OperationId, values: &[Datum]) {
        let table = self.get(id).table();
        let Frame { key, arena, .. } = &mut self.machine.frame;
        key.clear();
        for (column, value) in table.primary().columns.iter().zip(values) {
            table.encode_key_column(*column, *value, arena, key);
        }
    }

    #[inline]
    fn find(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<bool, Failure> {
        let operation = self.get(id);
        let access = access_of(operation);
        let data = &mut *self.execution.data;
        let writes = operation.writes();
        if writes {
            data.will_write(Some(access.table.id));
        }
        let found = data.find(&access.table, key.unwrap_or(&self.machine.frame.key)).and_then(|row| {
            self.row = row;
            let Some(row) = row else { return Ok(false) };
            let (registers, arena) = self.machine.window(access.registers, access.slots.len());
            data.read(row, &access.slots, arena, registers)
        });
        if writes {
            data.will_write(None);
        }
        let found = found?;
        if !found || !writes && access.filter.is_none() {
            self.ran(id, found.into());
        }
        Ok(found)
    }

    fn read_choice(&mut self, id: OperationId, choice: usize, column: usize) -> Result<(), Failure> {
        let access = access_of(self.get(id));
        let slot = access.table.layout.slots()[column];
        let row = self.row();
        let (register, arena) = self.machine.window(access.choices[choice].target, 1);
        // Otherwise another transaction has deleted the row since the first read.
        if self.execution.data.read(row, &[slot], arena, register)? {
            Ok(())
        } else {
            Err(Conflict::Read.into())
        }
    }

    #[inline]
    fn ran(&mut self, id: OperationId, rows: i64) {
        self.machine.frame.row_count = rows;
        self.execution.tapes.ran(id, rows);
    }

    #[inline]
    fn insert(&mut self, id: OperationId) -> Result<(), Failure> {
        let OperationKind::Insert { table, registers, values, .. } = &self.get(id).kind else {
            unreachable!("code inserts by an INSERT only")
        };
        let (row, arena) = self.machine.window(*registers, values.len());
        self.execution.data.insert(table, row, arena)?;
        let hash = hash_further(RowHash::of(table.id), row, arena);
        self.inserted(id, hash)
    }

    #[inline]
    fn insert_encoded(
        &mut self,
        id: OperationId,
        fixed: &[u64],
        key: &[u8],
        sum: u64,
    ) -> Result<(), Failure> {
        let OperationKind::Insert { table, registers, values, .. } = &self.get(id).kind else {
            unreachable!("code inserts by an INSERT only")
        };
        let mut image = std::mem::take(&mut self.machine.frame.image);
        image.clear();
        image.extend_from_slice(fixed);
        let (values_of, arena) = self.machine.window(*registers, values.len());
        table.layout.append_variable(values_of, arena, &mut image);
        let row = EncodedRow { values: values_of, arena, image: &image, key };
        let inserted = self.execution.data.insert_encoded(table, row);
        let leading = table.layout.leading_integers();
        let hash = hash_further(RowHash::with_sum(sum, 1 + leading), &values_of[leading..], arena);
        self.machine.frame.image = image;
        inserted?;
        self.inserted(id, hash)
    }

    #[inline]
    fn update(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<(), Failure> {
        self.update_columns(id)?;
        let (table, frame) = (self.get(id).table().id, &self.machine.frame);
        let mut hash = RowHash::of(table);
        hash.add_bytes(key.unwrap_or(&frame.key));
        self.wrote(id, hash_changes(hash, &frame.changes, &frame.arena));
        Ok(())
    }

    #[inline]
    fn update_encoded(&mut self, id: OperationId, words: &[ChangedWord], sum: u64) -> Result<(), Failure> {
        let row = self.row();
        if !self.execution.data.update_words(row, words)? {
            self.update_columns(id)?;
        }
        // The sum is complete.
        self.wrote(id, RowHash::with_sum(sum, 0));
        Ok(())
    }

    fn delete(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<(), Failure> {
        let access = access_of(self.get(id));
        let row = self.row();
        self.execution.data.delete(&access.table, row)?;
        let mut hash = RowHash::of(access.table.id);
        hash.add_bytes(key.unwrap_or(&self.machine.frame.key));
        self.wrote(id, hash);
        Ok(())
    }

    fn open_rows(&mut self, id: OperationId) -> Result<usize, Failure> {
        self.execution.open_rows(id, self.machine)
    }

    fn load_row(&mut self, id: OperationId, row: usize, count: usize) {
        self.execution.load_row(id, row, count, self.machine);
    }

    fn close_rows(&mut self, id: OperationId, count: usize) {
        self.execution.close_rows(id, count, self.machine);
    }

    fn send(&mut self, id: OperationId) {
        if self.execution.tapes.part(id) == Part::Send {
            self.execution.send(id, self.machine);
        }
    }

    fn receive(&mut self, id: OperationId) {
        self.execution.receive(id, self.machine);
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.execution.check(self.machine)
    }

    fn expect_nothing(&mut self) {
        self.execution.data.expect_nothing();
    }

    #[inline]
    fn expect(&mut self, id: OperationId, key: Option<&[u8]>) {
        self.execution.data.expect(self.get(id).table(), key.unwrap_or(&self.machine.frame.key));
    }

    fn load_expected(&mut self) {
        self.execution.data.load_expected();
    }

    fn null_value(&mut self, id: OperationId, column: usize) -> Failure {
        self.violation(id, Violated::NotNull(column))
    }

    fn violated(&mut self, id: OperationId, check: usize) -> Failure {
        let (OperationKind::Insert { checks, .. } | OperationKind::Update { checks, .. }) =
            &self.get(id).kind
        else {
            unreachable!("only rows that are written are checked")
        };
        self.violation(id, Violated::Check(&checks[check]))
    }

    fn failed_at(&mut self, id: OperationId) {
        let position = self.get(id).position;
        self.machine.frame.failed_at.get_or_insert(position);
    }
}
