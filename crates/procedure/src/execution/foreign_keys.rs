//! FOREIGN KEY: checks that referenced rows exist, and applies the actions of ON DELETE and ON UPDATE. The
//! checks of deferrable keys are here, too.
//!
//! All happen at the end of a statement, as in PostgreSQL, with ordinary reads and writes of the
//! transaction. So of two transactions, one that deletes a row and one that references it, at most one
//! commits. Replay checks nothing, because it runs committed calls only.

use crate::execution::access::row_of;
use crate::execution::deferrable_key::DeferrableKey;
use crate::execution::reference::{KeyChange, Reference};
use crate::execution::violations::{Violated, violated_check};
use crate::query::Buffer;
use crate::{Failure, Machine, NestedScans, Register, SqlError};
use catalog::{Catalog, Datum, ReferenceAction, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of cascade steps of a statement. A step follows the foreign keys that reference the rows
/// which an earlier step has changed in one table.
const MOST_DEPTH: usize = 256;

/// All foreign keys, and all deferrable keys, by table.
#[derive(Debug, Default)]
pub struct ForeignKeys {
    unique: BTreeMap<TableId, Vec<DeferrableKey>>,
    of: BTreeMap<TableId, Vec<Reference>>,
    to: BTreeMap<TableId, Vec<Reference>>,
    depend_on_call: bool,
}

/// Rows that a statement has changed or deleted: the old rows, and the new ones unless they were deleted.
pub(crate) struct ChangedRows<'a> {
    pub(crate) table: &'a Table,
    pub(crate) old: Buffer,
    pub(crate) new: Option<Buffer>,
}

impl ForeignKeys {
    /// Returns all foreign keys and deferrable keys of a catalog; `None` if there are none. `change` returns
    /// the new values of the columns of a foreign key.
    pub fn of(catalog: &Catalog, mut change: impl FnMut(&Reference) -> KeyChange) -> Option<Self> {
        let mut keys = Self::default();
        for table in catalog.tables() {
            let unique = DeferrableKey::of(table);
            if !unique.is_empty() {
                keys.unique.insert(table.id, unique);
            }
            for key in &table.foreign_keys {
                let Ok(parent) = catalog.table(&key.parent) else { continue };
                let Some(reference) = Reference::new(table, key, parent, &mut change) else { continue };
                keys.depend_on_call |= reference.change.depends_on_call;
                keys.to.entry(parent.id).or_default().push(reference.clone());
                keys.of.entry(table.id).or_default().push(reference);
            }
        }
        (!keys.of.is_empty() || !keys.unique.is_empty()).then_some(keys)
    }

    /// Returns the deferrable keys of a table.
    pub fn deferrable_keys_of(&self, table: TableId) -> &[DeferrableKey] {
        self.unique.get(&table).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the foreign keys that a table has.
    pub fn references_of(&self, table: TableId) -> &[Reference] {
        self.of.get(&table).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the foreign keys that reference a table.
    pub fn references_to(&self, table: TableId) -> &[Reference] {
        self.to.get(&table).map(Vec::as_slice).unwrap_or_default()
    }

    /// Visits the tables that foreign keys may touch when rows of a table are written.
    pub(crate) fn for_each_table(&self, table: TableId, visit: &mut impl FnMut(&Arc<Table>)) {
        let (mut seen, mut pending) = (vec![table], vec![table]);
        while let Some(table) = pending.pop() {
            self.references_of(table).iter().for_each(|reference| visit(&reference.parent));
            for reference in self.references_to(table) {
                visit(&reference.table);
                if !seen.contains(&reference.table.id) {
                    seen.push(reference.table.id);
                    pending.push(reference.table.id);
                }
            }
        }
    }

    /// Returns whether the values that they write depend on the time or on random values.
    pub fn depend_on_call(&self) -> bool {
        self.depend_on_call
    }

    /// Returns all foreign keys.
    pub fn iter(&self) -> impl Iterator<Item = &Reference> {
        self.of.values().flatten()
    }

    /// Returns whether a table has foreign keys or deferrable keys, or is referenced by a foreign key.
    pub fn concern(&self, table: TableId) -> bool {
        !self.references_of(table).is_empty()
            || !self.references_to(table).is_empty()
            || self.unique.contains_key(&table)
    }

    /// Executes the actions of foreign keys on the rows that reference changed or deleted rows, and checks
    /// that new rows reference existing rows.
    pub(crate) fn follow<D: NestedScans>(
        &self,
        changed: &ChangedRows<'_>,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<(), Failure> {
        let mut pending = vec![];
        self.follow_once(changed, machine, data, &mut pending)?;
        for _ in 0..MOST_DEPTH {
            let Some((table, old, new)) = pending.pop() else { return Ok(()) };
            let next = ChangedRows { table: &table, old, new };
            self.follow_once(&next, machine, data, &mut pending)?;
        }
        match pending.is_empty() {
            true => Ok(()),
            false => {
                let message = format!("foreign keys cascade in more than {MOST_DEPTH} steps");
                Err(SqlError::new("54001", message).into())
            }
        }
    }

    fn follow_once<D: NestedScans>(
        &self,
        changed: &ChangedRows<'_>,
        machine: &mut Machine,
        data: &mut D,
        pending: &mut Vec<Pending>,
    ) -> Result<(), Failure> {
        let ChangedRows { table, old, new } = changed;
        for reference in self.references_to(table.id) {
            let width = reference.table.columns.len();
            let action = if new.is_some() { reference.on_update } else { reference.on_delete };
            let mut users_old = Buffer::new(width);
            let mut users_new = Buffer::new(width);
            let mark = machine.frame.arena.mark();
            // All referencing rows are found before the first is changed, because a change may give a row the
            // old key of a later row of the statement.
            let mut found = Vec::new();
            for index in 0..old.len() {
                let key: Vec<Datum> = reference.parent_columns.iter().map(|c| old.row(index)[*c]).collect();
                let key: Vec<Datum> =
                    key.iter().map(|value| machine.frame.arena.adopt(*value, &old.arena)).collect();
                let after: Option<Vec<Datum>> = new.as_ref().map(|new| {
                    let row = new.row(index);
                    let value = reference.parent_columns.iter().map(|c| row[*c]);
                    value.map(|value| machine.frame.arena.adopt(value, &new.arena)).collect()
                });
                let same = |after: &Vec<Datum>| {
                    reference.encoded(after, &machine.frame.arena)
                        == reference.encoded(&key, &machine.frame.arena)
                };
                if key.iter().any(|value| value.is_null()) || after.as_ref().is_some_and(same) {
                    continue;
                }
                let users = reference.users(&key, &mut machine.frame.arena, data)?;
                if users.len() > 0 {
                    found.push((key, after, users));
                }
            }
            for (key, after, users) in &found {
                let action = KeyAction { reference, action, after: after.as_deref(), key };
                action.act(users, machine, data, (&mut users_old, &mut users_new))?;
            }
            machine.frame.arena.release(mark);
            if users_old.len() > 0 {
                let is_deleted = action == ReferenceAction::Cascade && new.is_none();
                pending.push((Arc::clone(&reference.table), users_old, (!is_deleted).then_some(users_new)));
            }
        }
        if let Some(new) = new {
            self.require_all(table.id, new, machine, data)?;
        }
        Ok(())
    }

    /// Refuses rows that reference a row that does not exist, or that have the deferrable key of another row.
    pub(crate) fn require_all<D: NestedScans>(
        &self,
        table: TableId,
        rows: &Buffer,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<(), Failure> {
        let modes = &machine.services.constraint_modes;
        for key in self.deferrable_keys_of(table).iter().filter(|key| !key.is_deferred(modes)) {
            key.check((0..rows.len()).map(|row| rows.row(row)), &rows.arena, data)?;
        }
        let references = self.references_of(table).iter();
        for reference in
            references.filter(|reference| !reference.is_deferred(&machine.services.constraint_modes))
        {
            for index in 0..rows.len() {
                let mark = machine.frame.arena.mark();
                let row: Vec<Datum> = rows
                    .row(index)
                    .iter()
                    .map(|value| machine.frame.arena.adopt(*value, &rows.arena))
                    .collect();
                match reference.require(&row, &mut machine.frame.arena, data) {
                    Err(Failure::Error(_))
                        if !reference.is_current(&row, &mut machine.frame.arena, data)? => {}
                    other => other?,
                }
                machine.frame.arena.release(mark);
            }
        }
        Ok(())
    }
}

/// Rows of a table that an action has changed or deleted: the old rows, and the new ones unless deleted.
type Pending = (Arc<Table>, Buffer, Option<Buffer>);

/// The action on the rows that reference a key.
struct KeyAction<'a> {
    reference: &'a Reference,
    action: ReferenceAction,
    /// The old key.
    key: &'a [Datum],
    /// The new key; `None` if the referenced row was deleted.
    after: Option<&'a [Datum]>,
}

impl KeyAction<'_> {
    fn act<D: NestedScans>(
        &self,
        users: &Buffer,
        machine: &mut Machine,
        data: &mut D,
        (old, new): (&mut Buffer, &mut Buffer),
    ) -> Result<(), Failure> {
        let Reference { table, columns, change, .. } = self.reference;
        // The new values of the columns, if the row stays.
        let values: Option<Vec<Datum>> = match (self.action, self.after) {
            (ReferenceAction::Refuse, _) => return self.refuse(machine, data),
            (ReferenceAction::Restrict, _) => {
                return Err(self.reference.still_used(self.key, &machine.frame.arena).into());
            }
            (ReferenceAction::Cascade, None) => None,
            (ReferenceAction::Cascade, Some(after)) => Some(self.follow(after, machine)?),
            (ReferenceAction::SetNull, _) => Some(vec![Datum::Null; columns.len()]),
            (ReferenceAction::SetDefault, _) => {
                let defaults = change.defaults.iter();
                Some(defaults.map(|default| default.evaluate(machine)).collect::<Result<_, _>>()?)
            }
        };
        for index in 0..users.len() {
            let row = users.row(index);
            let found = row_of(row[0], data)?;
            // Another foreign key may have deleted the row already.
            if !data.read(found, &[], &mut machine.frame.arena, &mut [])? {
                continue;
            }
            old.push(row[1..].iter().copied(), &users.arena)?;
            let Some(values) = &values else {
                data.delete(table, found)?;
                continue;
            };
            let mut whole: Vec<Datum> =
                row[1..].iter().map(|value| machine.frame.arena.adopt(*value, &users.arena)).collect();
            let mut changes: Vec<(usize, Datum)> =
                columns.iter().copied().zip(values.iter().copied()).collect();
            changes.iter().for_each(|(column, value)| whole[*column] = *value);
            self.generate(&mut changes, &mut whole, machine)?;
            self.check(&changes, &whole, machine)?;
            if changes.iter().any(|(column, _)| table.primary().columns.contains(column)) {
                data.delete(table, found)?;
                data.insert(table, &whole, &machine.frame.arena)?;
            } else {
                data.update(table, found, &changes, &machine.frame.arena)?;
            }
            new.push(whole, &machine.frame.arena)?;
        }
        Ok(())
    }

    /// Returns the values of the columns that follow from the new key of the parent.
    fn follow(&self, after: &[Datum], machine: &mut Machine) -> Result<Vec<Datum>, Failure> {
        let Reference { table, columns, parent, parent_columns, change, .. } = self.reference;
        let mut pairs = columns.iter().zip(parent_columns);
        if pairs.all(|(column, referenced)| table.columns[*column].ty == parent.columns[*referenced].ty) {
            return Ok(after.to_vec());
        }
        let mut separate = self.machine_with(table.columns.len(), after, machine);
        let evaluated: Vec<Datum> =
            change.values.iter().map(|value| value.evaluate(&mut separate)).collect::<Result<_, _>>()?;
        Ok(evaluated
            .into_iter()
            .map(|value| machine.frame.arena.adopt(value, &separate.frame.arena))
            .collect())
    }

    /// Sets the generated columns of a changed row, and adds them to its changes.
    fn generate(
        &self,
        changes: &mut Vec<(usize, Datum)>,
        row: &mut [Datum],
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        let generated = &self.reference.change.generated;
        if generated.is_empty() {
            return Ok(());
        }
        let mut separate = self.machine_with(0, row, machine);
        for (column, value) in generated {
            let value = value.evaluate(&mut separate)?;
            row[*column] = machine.frame.arena.adopt(value, &separate.frame.arena);
            changes.push((*column, row[*column]));
        }
        Ok(())
    }

    /// Checks the NOT NULL and CHECK constraints of a changed row.
    fn check(&self, changes: &[(usize, Datum)], row: &[Datum], machine: &Machine) -> Result<(), Failure> {
        let Reference { table, change, .. } = self.reference;
        let mut violated = Violated::by_null(table, changes.iter().copied());
        if let (None, Some(error)) = (violated, &change.refused) {
            return Err(error.clone().into());
        }
        if violated.is_none() && !change.checks.is_empty() {
            violated = violated_check(&change.checks, &mut self.machine_with(0, row, machine))?;
        }
        violated.map_or(Ok(()), |violated| Err(violated.error(table, row, &machine.frame.arena).into()))
    }

    /// Returns a new machine whose registers have these values from `first` on.
    fn machine_with(&self, first: usize, values: &[Datum], machine: &Machine) -> Machine {
        let mut separate = Machine::default();
        separate.begin_piece(self.reference.change.registers.max(first + values.len()), 0, 0);
        for (index, value) in values.iter().enumerate() {
            let value = separate.frame.arena.adopt(*value, &machine.frame.arena);
            separate.set(Register((first + index) as u32), value);
        }
        separate
    }

    /// NO ACTION: refuses the change, unless another row now has the old key.
    fn refuse<D: NestedScans>(&self, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
        let reference = self.reference;
        let is_deferred = reference.is_deferred(&machine.services.constraint_modes);
        if is_deferred || reference.has_parent(self.key, &mut machine.frame.arena, data)? {
            return Ok(());
        }
        Err(reference.still_used(self.key, &machine.frame.arena).into())
    }
}
