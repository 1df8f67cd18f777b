//! Numbers of sequences that no other session uses meanwhile: given by a definition that fills a column, or
//! by the transaction that has made the sequence.

use super::Tables;
use catalog::{Arena, CommitOrder, Datum, Sequence, SequencePlace, Table, TableId};
use procedure::{Sequences, SqlError};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::{Guard, Linker, OutOfMemory, Record, TableStore};

/// A row of a sequence's table, with the memory that its values lie in.
pub type SequenceRow = ([Datum; 3], Arena);

/// Gives the numbers of some sequences.
#[derive(Debug, Default)]
pub struct Counters {
    sequences: Mutex<BTreeMap<TableId, Counter>>,
}

/// Where the sequences stood at a moment.
#[derive(Clone, Debug, Default)]
pub struct CounterPlaces(BTreeMap<TableId, Counter>);

/// A sequence that is counted here.
#[derive(Clone, Debug)]
struct Counter {
    table: Arc<Table>,
    place: SequencePlace,
    /// Whether it has moved.
    is_used: bool,
}

/// There is no number left.
pub fn exhausted(table: &Table, own: &Sequence) -> SqlError {
    let (what, bound) = match own.increment > 0 {
        true => ("maximum", own.greatest),
        false => ("minimum", own.least),
    };
    let message = format!("nextval: reached {what} value of sequence \"{}\" ({bound})", table.short_name());
    SqlError::new("2200H", message)
}

/// Whether `setval` may set a sequence to a number.
///
/// # Errors
/// `22003`: it may not.
pub fn check_bounds(table: &Table, own: &Sequence, number: i64) -> Result<(), SqlError> {
    if (own.least..=own.greatest).contains(&number) {
        return Ok(());
    }
    let (name, Sequence { least, greatest, .. }) = (table.short_name(), own);
    let message =
        format!("setval: value {number} is out of bounds for sequence \"{name}\" ({least}..{greatest})");
    Err(SqlError::new("22003", message))
}

/// Where a sequence's table says that it stands, and since which transaction; `None` before its first number.
fn read(store: &TableStore, guard: &Guard) -> Option<(SequencePlace, CommitOrder)> {
    let slots = store.definition().layout.slots();
    let (mut found, mut arena) = (None, Arena::default());
    let each = |record: Record<'_>| {
        let row = [0, 1, 2].map(|column| record.row().column(slots[column], &mut arena));
        found = SequencePlace::of_row(row).map(|place| (place, record.stable_state().order()));
        Ok::<_, Infallible>(())
    };
    store.for_each_row(guard, each).unwrap_or_else(|never| match never {});
    found
}

impl Counter {
    fn definition(&self) -> &Sequence {
        self.table.sequence.as_ref().expect("the table of a sequence")
    }
}

impl Counters {
    /// Counts a sequence, too, from where it stands.
    pub fn add(&self, table: &Arc<Table>, place: SequencePlace) {
        let counter = Counter { table: Arc::clone(table), place, is_used: false };
        self.lock().insert(table.id, counter);
    }

    /// Counts a sequence by its changed definition, if it is counted here.
    pub fn redefine(&self, table: &Arc<Table>) {
        if let Some(counter) = self.lock().get_mut(&table.id) {
            counter.table = Arc::clone(table);
        }
    }

    /// Counts a sequence no more.
    pub fn remove(&self, sequence: TableId) {
        self.lock().remove(&sequence);
    }

    /// Whether a sequence is counted here.
    pub fn has(&self, sequence: TableId) -> bool {
        self.lock().contains_key(&sequence)
    }

    /// The row of a sequence; `None` where it is not counted here or has not moved.
    pub fn row_of(&self, sequence: TableId) -> Option<SequenceRow> {
        self.rows().into_iter().find(|(own, _)| *own == sequence).map(|(_, row)| row)
    }

    /// Where the sequences stand.
    pub fn places(&self) -> CounterPlaces {
        CounterPlaces(self.lock().clone())
    }

    /// Counts the sequences again that were counted before, and no other ones. Those counted still go on
    /// from where they stand, as no number is given twice.
    pub fn go_back_to(&self, before: &CounterPlaces) {
        let mut sequences = self.lock();
        sequences.retain(|sequence, _| before.0.contains_key(sequence));
        for (sequence, counter) in &before.0 {
            let now = sequences.entry(*sequence).or_insert_with(|| counter.clone());
            now.is_used |= counter.is_used;
            now.table = Arc::clone(&counter.table);
        }
    }

    /// The rows of the sequences that have moved.
    pub fn rows(&self) -> Vec<(TableId, SequenceRow)> {
        let row = |(id, counter): (&TableId, &Counter)| {
            let mut arena = Arena::default();
            (*id, (counter.place.row(&mut arena), arena))
        };
        self.lock().iter().filter(|(_, counter)| counter.is_used).map(row).collect()
    }

    /// Counts a sequence, too, from where its table says that it stands.
    pub fn read(&self, store: &TableStore, guard: &Guard) {
        let own = store.definition().sequence.as_ref().expect("the table of a sequence");
        let place = read(store, guard).map_or(own.beginning(), |(place, _)| place);
        self.add(store.definition(), place);
    }

    /// Gives the sequences that have moved new tables, which say where they stand. Those who have the old
    /// tables see no change.
    pub(super) fn write(&self, tables: &mut Tables, guard: &Guard) -> Result<(), OutOfMemory> {
        let mut image = Vec::new();
        for (sequence, (row, arena)) in self.rows() {
            let old = tables.store(sequence);
            let order = read(old, guard).map_or(CommitOrder(0), |(_, order)| order);
            let definition = Arc::clone(old.definition());
            definition.layout.encode(&row, &arena, &mut image);
            let new = TableStore::new(definition, None, Arc::clone(&tables.memory), guard)?;
            new.load(&image, order, 1, &mut Linker::default(), guard)?;
            tables.set(new);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Counter>> {
        self.sequences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        sequence: TableId,
        change: impl FnOnce(&mut Counter) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        match self.lock().get_mut(&sequence) {
            Some(counter) => change(counter),
            None => Err(SqlError::new("42P01", "the sequence was dropped")),
        }
    }
}

impl Sequences for Counters {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        self.with(sequence, |counter| {
            let own = counter.definition();
            let next = own.numbers_after(counter.place, 1);
            let (number, _) = next.ok_or_else(|| exhausted(&counter.table, own))?;
            counter.place = SequencePlace { number, is_given: true };
            counter.is_used = true;
            Ok(number)
        })
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        self.with(sequence, |counter| {
            check_bounds(&counter.table, counter.definition(), number)?;
            counter.place = SequencePlace { number, is_given: is_called };
            counter.is_used = true;
            Ok(())
        })
    }

    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.with(sequence, |counter| Ok(counter.place))
    }
}
