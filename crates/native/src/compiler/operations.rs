//! Operations. Point accesses and INSERTs are compiled; the host finds and writes the rows. It interprets
//! all other operations.

use super::Compiler;
use super::keys::{KeyCode, widths_of_key};
use super::values::{ARRAY, BYTES, DOUBLE, INT, Val};
use crate::calls::Call;
use catalog::{ColumnKind, ColumnSlot, Table};
use cranelift_codegen::ir::{Block, InstBuilder, types};
use procedure::{
    Access, Check, Expression, Operation, OperationId, OperationKind, Part, Path, Refusal, Register, Role,
    Select,
};
use std::collections::BTreeSet;

/// Returns whether a read of at most one row needs nothing but its access.
fn is_plain(select: &Select) -> bool {
    let Select { aggregates, distinct, order, offset, limit, .. } = select;
    aggregates.is_empty() && !distinct && order.is_empty() && offset.is_none() && limit.is_none()
}

/// Returns whether an operation is compiled.
fn is_known(operation: &Operation) -> bool {
    match &operation.kind {
        OperationKind::Select(select) => operation.point_key().is_some() && is_plain(select),
        OperationKind::Insert { .. } => true,
        OperationKind::Update { .. } | OperationKind::Delete { .. } => operation.point_key().is_some(),
    }
}

/// Where a point access goes on.
#[derive(Clone, Copy)]
struct AccessBlocks {
    /// There is no row.
    absent: Block,
    /// The filter rejects the row.
    rejected: Block,
    /// The access has ended.
    end: Block,
}

impl Compiler<'_, '_> {
    /// Returns the registers that an operation uses, and those that it sets.
    pub(super) fn registers_of(&self, operation: &Operation) -> (Vec<Register>, Vec<Register>) {
        let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
        operation.clone().visit_registers(&mut |role, register| match role {
            Role::Use => {
                used.insert(*register);
            }
            Role::Define => {
                defined.insert(*register);
            }
            Role::Window => {}
        });
        (used.into_iter().collect(), defined.into_iter().collect())
    }

    /// Returns whether there is code of an operation: neither is it received, nor interpreted.
    pub(super) fn is_compiled(&self, id: OperationId) -> bool {
        let operation = &self.source.code.operations[id.0 as usize];
        (self.source.part)(id) != Part::Receive && is_known(operation)
    }

    /// Compiles an operation.
    pub(super) fn operation(&mut self, id: OperationId) {
        let code = self.source.code;
        let operation = &code.operations[id.0 as usize];
        let part = (self.source.part)(id);
        if part == Part::Receive {
            let number = self.word(id.0.into());
            self.call(Call::Receive, &[number]);
            code.sent[id.0 as usize].iter().for_each(|register| self.reload(*register));
            return;
        }
        if !is_known(operation) {
            self.interpret_operation(id, operation);
            return;
        }
        self.operation = Some(id);
        match &operation.kind {
            OperationKind::Select(select) => self.select(id, operation, select),
            OperationKind::Insert { table, values, registers, checks, returning, .. } => {
                let row = self.new_row(id, table, values, *registers);
                self.checks(id, checks);
                self.insert(id, table, &row);
                self.assign(returning);
                self.set_boolean(operation.found, true);
            }
            OperationKind::Update { access, assignments, checks, returning, .. } => {
                self.write(id, operation, access, returning, |own, key| {
                    let values = assignments.iter().map(|(column, register, value)| {
                        let val = own.expression(value);
                        own.set(*register, val);
                        (*column, val)
                    });
                    let values: Vec<(usize, Val)> = values.collect();
                    own.require_values(id, &access.table, &values);
                    own.checks(id, checks);
                    own.update(id, &access.table, key, &values);
                });
            }
            OperationKind::Delete { access, returning } => {
                self.write(id, operation, access, returning, |own, key| {
                    let number = own.word(id.0.into());
                    own.try_call(Call::Delete, &[number, key.place[0], key.place[1]]);
                });
            }
        }
        self.operation = None;
        self.operation_failed = None;
        self.tags.clear();
        if part == Part::Send {
            code.sent[id.0 as usize].iter().for_each(|register| self.store(*register));
            let number = self.word(id.0.into());
            self.call(Call::Send, &[number]);
        }
    }

    /// Lets the host interpret an operation, and send its results.
    fn interpret_operation(&mut self, id: OperationId, operation: &Operation) {
        self.tables.interpreted.push(procedure::analysis::describe(operation));
        let (used, defined) = self.registers_of(operation);
        used.iter().for_each(|register| self.store(*register));
        let number = self.word(id.0.into());
        self.try_call(Call::Operation, &[number]);
        defined.iter().for_each(|register| self.reload(*register));
    }

    fn access_blocks(&mut self) -> AccessBlocks {
        let [absent, rejected, end] = std::array::from_fn(|_| self.builder.create_block());
        AccessBlocks { absent, rejected, end }
    }

    /// Ends the code for a row that was found, and goes on with the code for none.
    fn found_or_not(&mut self, id: OperationId, operation: &Operation, blocks: AccessBlocks) {
        self.set_boolean(operation.found, true);
        self.builder.ins().jump(blocks.end, &[]);
        self.builder.switch_to_block(blocks.rejected);
        self.ran(id, 0);
        self.builder.ins().jump(blocks.absent, &[]);
        self.builder.switch_to_block(blocks.absent);
    }

    /// Compiles the search for a row. Returns its key.
    fn find(&mut self, id: OperationId, access: &Access, blocks: AccessBlocks) -> KeyCode {
        let AccessBlocks { absent, rejected, .. } = blocks;
        let Path::Point { key } = &access.path else { unreachable!("a point access has a key") };
        let no_key = self.builder.create_block();
        let key = self.key(id, &access.table, key, no_key);
        let number = self.word(id.0.into());
        let found = self.try_call(Call::Find, &[number, key.place[0], key.place[1]]);
        let next = self.builder.create_block();
        self.builder.ins().brif(found, next, &[], absent, &[]);
        // Without a key, the host does not know yet that there is no row.
        self.builder.switch_to_block(no_key);
        self.ran(id, 0);
        self.builder.ins().jump(absent, &[]);
        self.builder.switch_to_block(next);
        self.know_tags(access);
        for (index, choice) in access.choices.iter().enumerate() {
            self.choice(id, index, &choice.branches, choice.otherwise);
        }
        if let Some(filter) = &access.filter {
            let accepted = self.builder.create_block();
            self.branch(filter, accepted, rejected);
            self.builder.switch_to_block(accepted);
        }
        key
    }

    /// Notes the tags of the columns that an access has read, as far as they are known.
    fn know_tags(&mut self, access: &Access) {
        for (index, slot) in access.slots.iter().enumerate() {
            let register = Register(access.registers.0 + index as u32);
            if slot.null_bit.is_some() || self.variables[register.0 as usize].is_some() {
                continue;
            }
            let tag = match slot.kind {
                ColumnKind::Int8 | ColumnKind::Int16 | ColumnKind::Int32 | ColumnKind::Int64 => INT,
                ColumnKind::Double => DOUBLE,
                ColumnKind::Variable => BYTES,
                ColumnKind::Array => ARRAY,
                ColumnKind::Wide => continue,
            };
            self.tags.insert(register, tag);
        }
    }

    /// Compiles the choice of a column, and its read.
    fn choice(&mut self, id: OperationId, index: usize, branches: &[(Expression, usize)], otherwise: usize) {
        let read = self.builder.create_block();
        let column = self.builder.append_block_param(read, types::I64);
        for (condition, chosen) in branches {
            let [holds, next] = std::array::from_fn(|_| self.builder.create_block());
            self.branch(condition, holds, next);
            self.builder.switch_to_block(holds);
            let chosen = self.word(*chosen as u64);
            self.builder.ins().jump(read, &[chosen.into()]);
            self.builder.switch_to_block(next);
        }
        let otherwise = self.word(otherwise as u64);
        self.builder.ins().jump(read, &[otherwise.into()]);
        self.builder.switch_to_block(read);
        let (number, index) = (self.word(id.0.into()), self.word(index as u64));
        self.try_call(Call::ReadChoice, &[number, index, column]);
    }

    /// Tells the host the number of rows of an operation.
    fn ran(&mut self, id: OperationId, rows: u64) {
        let (number, rows) = (self.word(id.0.into()), self.word(rows));
        self.call(Call::Ran, &[number, rows]);
    }

    fn select(&mut self, id: OperationId, operation: &Operation, select: &Select) {
        let blocks = self.access_blocks();
        self.find(id, &select.access, blocks);
        if select.access.filter.is_some() {
            self.ran(id, 1);
        }
        let values: Vec<Val> = select.outputs.iter().map(|(_, value)| self.expression(value)).collect();
        for ((target, _), val) in select.outputs.iter().zip(values) {
            self.set(*target, val);
        }
        self.found_or_not(id, operation, blocks);
        if select.strict {
            let refusal = self.word(Refusal::NoRow.number());
            self.fail(Call::Refused, &[refusal]);
        }
        self.set_to_null(&select.outputs);
        self.set_boolean(operation.found, false);
        self.builder.ins().jump(blocks.end, &[]);
        self.builder.switch_to_block(blocks.end);
    }

    /// Compiles the write of a row that is found by its key.
    fn write(
        &mut self,
        id: OperationId,
        operation: &Operation,
        access: &Access,
        returning: &[(Register, Expression)],
        write: impl FnOnce(&mut Self, &KeyCode),
    ) {
        let blocks = self.access_blocks();
        let key = self.find(id, access, blocks);
        write(self, &key);
        self.assign(returning);
        self.found_or_not(id, operation, blocks);
        self.set_to_null(returning);
        self.set_boolean(operation.found, false);
        self.builder.ins().jump(blocks.end, &[]);
        self.builder.switch_to_block(blocks.end);
    }

    /// Compiles the values of a new row, which the host takes from their window.
    fn new_row(
        &mut self,
        id: OperationId,
        table: &Table,
        values: &[Expression],
        registers: Register,
    ) -> Vec<Val> {
        let values = values.iter().enumerate().map(|(column, value)| {
            let val = self.expression(value);
            self.set(Register(registers.0 + column as u32), val);
            val
        });
        let values: Vec<Val> = values.collect();
        let columns: Vec<(usize, Val)> = values.iter().copied().enumerate().collect();
        self.require_values(id, table, &columns);
        values
    }

    /// Compiles the insert of a new row. Its fixed columns and its key are encoded here, where the layout
    /// allows it.
    fn insert(&mut self, id: OperationId, table: &Table, row: &[Val]) {
        let number = self.word(id.0.into());
        let is_wide = |slot: &ColumnSlot| slot.kind == ColumnKind::Wide;
        let key = &table.primary().columns;
        let is_nullable = |column: &usize| table.columns[*column].nullable;
        let is_made_here = !table.layout.slots().iter().any(is_wide) && !key.iter().any(is_nullable);
        let Some(widths) = widths_of_key(table).filter(|_| is_made_here) else {
            self.try_call(Call::Insert, &[number]);
            return;
        };
        let key: Vec<Val> = key.iter().map(|column| row[*column]).collect();
        let [key, length] = self.encode_key(table, &widths, &key).place;
        let (fixed, words) = (self.fixed_columns(table, row), self.word(table.layout.fixed_words() as u64));
        let sum = self.sum_of_new_row(table, row);
        self.try_call(Call::InsertEncoded, &[number, fixed, words, key, length, sum]);
    }

    /// Compiles the update of the row that was found. Its words are encoded here, where the layout allows it
    /// and no index has one of the columns.
    fn update(&mut self, id: OperationId, table: &Table, key: &KeyCode, changes: &[(usize, Val)]) {
        let number = self.word(id.0.into());
        let is_indexed = |column: &usize| table.indexes.iter().any(|index| index.columns.contains(column));
        let is_made_here = |(column, _): &(usize, Val)| {
            let kind = table.layout.slots()[*column].kind;
            kind != ColumnKind::Wide && !kind.is_variable() && !is_indexed(column)
        };
        if key.words.is_empty() || !changes.iter().all(is_made_here) {
            self.try_call(Call::Update, &[number, key.place[0], key.place[1]]);
            return;
        }
        let [words, count] = self.changed_words(table, changes);
        let sum = self.sum_of_update(table, key, changes);
        self.try_call(Call::UpdateEncoded, &[number, words, count, sum]);
    }

    /// Fails if a value is NULL and its column must have one. The registers have all values, for the error.
    fn require_values(&mut self, id: OperationId, table: &Table, values: &[(usize, Val)]) {
        for (column, val) in values {
            if table.columns[*column].nullable || !val.may_be_null() {
                continue;
            }
            let is_null = self.is_null(*val);
            let (number, column) = (self.word(id.0.into()), self.word(*column as u64));
            self.fail_if(is_null, Call::NullValue, &[number, column]);
        }
    }

    fn checks(&mut self, id: OperationId, checks: &[Check]) {
        for (index, check) in checks.iter().enumerate() {
            let val = self.expression(&check.condition);
            let is_violated = self.is_false(val);
            let (number, index) = (self.word(id.0.into()), self.word(index as u64));
            self.fail_if(is_violated, Call::Violated, &[number, index]);
        }
    }

    /// Compiles RETURNING … INTO.
    fn assign(&mut self, targets: &[(Register, Expression)]) {
        for (target, value) in targets {
            let val = self.expression(value);
            self.set(*target, val);
        }
    }

    fn set_to_null(&mut self, targets: &[(Register, Expression)]) {
        for (target, _) in targets {
            let null = self.null();
            self.set(*target, null);
        }
    }
}
