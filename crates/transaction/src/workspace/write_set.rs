//! The write set of a transaction: an entry a record, with new column values in a list behind it.
//!
//! Values are copied out of the executor's arena, which is emptied between attempts. All buffers are kept
//! from one transaction to the next.
//!
//! A savepoint is a `Mark`: how long each list was when it was set. Going back to it shortens the lists
//! again, so that what was undone leaves nothing that would be written at commit. An entry older than the
//! newest mark is saved before it changes.
//! Invariants: 1. after `go_back_to` the write set equals the one that `set_mark` found. 2. a record that
//! other transactions see is in the write set only if its version is in the read set. Held by:
//! `going_back_restores_the_write_set` (here), and `crates/reprise/tests/suite/interleaved.rs`.
//! Not here: index entries and records that an undone part has published (`savepoint.rs`).

use catalog::{Arena, ColumnSlot, Datum, Mark as ArenaMark, RowChange, TableId};
use storage::{Change, Handle};

const END: u32 = u32::MAX;

/// What happens to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// The row that the record holds, absent so far, becomes present. The record is the transaction's own.
    Insert,
    /// Inserted and deleted by the same transaction; the record is discarded at commit.
    Cancel,
    /// A deleted record gets a new row, which the list of changes gives whole.
    Revive,
    /// A revival was deleted again.
    Unrevive,
    /// Columns change.
    Update,
    /// The row goes.
    Delete,
}

impl Action {
    /// Whether the transaction has inserted the record: other transactions see it as absent.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Insert | Self::Cancel)
    }

    /// Whether there is no row after this.
    pub(crate) fn removes(self) -> bool {
        matches!(self, Self::Cancel | Self::Unrevive | Self::Delete)
    }

    /// What the commit does to the row; `None` where it leaves none, as there was none.
    pub(crate) fn row_change(self) -> Option<RowChange> {
        match self {
            Self::Insert | Self::Revive => Some(RowChange::Insert),
            Self::Update => Some(RowChange::Update),
            Self::Delete => Some(RowChange::Delete),
            Self::Cancel | Self::Unrevive => None,
        }
    }
}

/// One record of the write set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) record: Handle,
    pub(crate) table: TableId,
    pub(crate) action: Action,
    first: u32,
    last: u32,
}

impl Entry {
    /// Whether the row gets new column values at commit.
    pub(crate) fn has_changes(&self) -> bool {
        self.first != END
    }
}

/// An entry that was added to a secondary index for a changed key of a record that stays where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) record: Handle,
    pub(crate) table: TableId,
    pub(crate) index: usize,
    pub(crate) key: Vec<u8>,
}

/// A new column value, in the list of its entry.
#[derive(Clone, Copy, Debug)]
struct ChangeEntry {
    change: Change,
    next: u32,
    /// The value to which the transaction has added, if the new value is that sum.
    added_to: Option<i64>,
}

/// How long the lists of a write set were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) entries: usize,
    pub(crate) links: usize,
    changes: usize,
    saved: usize,
    saved_links: usize,
    arena: ArenaMark,
}

/// The write set.
#[derive(Default, Debug)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Entry>,
    pub(crate) links: Vec<Link>,
    changes: Vec<ChangeEntry>,
    pub(crate) arena: Arena,
    /// The marks that are set, oldest first.
    marks: Vec<Mark>,
    /// Entries older than a mark, as they were before they changed under it, with their positions.
    saved: Vec<(u32, Entry)>,
    /// The tables of links older than a mark before they changed under it, with the links' positions.
    saved_links: Vec<(u32, TableId)>,
    /// Open addressing from records to entries; cells of earlier generations are free.
    cells: Vec<(u64, u32, u32)>,
    generation: u32,
}

fn hash(record: Handle) -> usize {
    (record.address().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl WriteSet {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.links.clear();
        self.changes.clear();
        self.arena.clear();
        self.marks.clear();
        self.saved.clear();
        self.saved_links.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.cells.fill((0, 0, 0));
            self.generation = 1;
        }
    }

    /// The entry of a record.
    #[inline]
    pub(crate) fn find(&self, record: Handle) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mask = self.cells.len() - 1;
        let mut at = hash(record) & mask;
        loop {
            let (address, entry, generation) = self.cells[at];
            if generation != self.generation {
                return None;
            }
            if address == record.address() {
                return Some(entry as usize);
            }
            at = (at + 1) & mask;
        }
    }

    /// Frees the cell of the entry that was added last, which no other entry's search passes.
    fn vacate(&mut self, record: Handle) {
        let mask = self.cells.len() - 1;
        let mut at = hash(record) & mask;
        while self.cells[at].2 != self.generation || self.cells[at].0 != record.address() {
            at = (at + 1) & mask;
        }
        self.cells[at] = (0, 0, 0);
    }

    fn occupy(&mut self, record: Handle, entry: u32) {
        let mask = self.cells.len() - 1;
        let mut at = hash(record) & mask;
        while self.cells[at].2 == self.generation {
            at = (at + 1) & mask;
        }
        self.cells[at] = (record.address(), entry, self.generation);
    }

    /// Adds the first entry of a record.
    pub(crate) fn add(&mut self, record: Handle, table: TableId, action: Action) -> usize {
        let entry = self.entries.len();
        self.entries.push(Entry { record, table, action, first: END, last: END });
        if self.entries.len() * 2 > self.cells.len() {
            self.cells = vec![(0, 0, 0); (self.cells.len() * 2).max(64)];
            self.generation = 1;
            for place in 0..=entry {
                self.occupy(self.entries[place].record, place as u32);
            }
        } else {
            self.occupy(record, entry as u32);
        }
        entry
    }

    /// Changes what happens to the record of an entry.
    pub(crate) fn set_action(&mut self, entry: usize, action: Action) {
        self.save(entry);
        self.entries[entry].action = action;
    }

    /// Gives the entries and links of a table the number of another one with the same records.
    pub(crate) fn renumber(&mut self, table: TableId, number: TableId) {
        for entry in 0..self.entries.len() {
            if self.entries[entry].table == table {
                self.save(entry);
                self.entries[entry].table = number;
            }
        }
        let older = self.marks.last().map_or(0, |mark| mark.links);
        for (position, link) in self.links.iter_mut().enumerate().filter(|(_, link)| link.table == table) {
            if position < older {
                self.saved_links.push((position as u32, table));
            }
            link.table = number;
        }
    }

    /// Whether the row of an entry may be changed in its record: no other transaction sees it, no mark is to
    /// bring it back, and no column value is kept beside it.
    #[inline]
    pub(crate) fn is_private(&self, entry: usize) -> bool {
        let own = &self.entries[entry];
        own.action.is_own() && !own.has_changes() && !self.is_older(entry)
    }

    /// Whether an entry is older than the newest mark.
    #[inline]
    fn is_older(&self, entry: usize) -> bool {
        self.marks.last().is_some_and(|mark| entry < mark.entries)
    }

    /// Saves an entry that is about to change.
    #[inline]
    fn save(&mut self, entry: usize) {
        if self.is_older(entry) {
            self.saved.push((entry as u32, self.entries[entry]));
        }
    }

    /// Remembers an index entry that was added for a changed key, once.
    pub(crate) fn add_link(&mut self, link: Link, is_new: bool) {
        if is_new || !self.links.contains(&link) {
            self.links.push(link);
        }
    }

    /// Sets a mark; returns its position among those that are set.
    pub(crate) fn set_mark(&mut self) -> usize {
        self.marks.push(Mark {
            entries: self.entries.len(),
            links: self.links.len(),
            changes: self.changes.len(),
            saved: self.saved.len(),
            saved_links: self.saved_links.len(),
            arena: self.arena.mark(),
        });
        self.marks.len() - 1
    }

    /// A mark by its position.
    pub(crate) fn mark(&self, position: usize) -> Mark {
        self.marks[position]
    }

    /// Forgets the mark at a position and later ones; what came after them stays.
    pub(crate) fn forget_marks(&mut self, position: usize) {
        self.marks.truncate(position);
        if self.marks.is_empty() {
            self.saved.clear();
            self.saved_links.clear();
        }
    }

    /// Goes back to a mark, which stays set; later marks are forgotten.
    pub(crate) fn go_back_to(&mut self, position: usize) {
        self.marks.truncate(position + 1);
        let Mark { entries, links, changes, saved, saved_links, arena } = self.marks[position];
        while self.entries.len() > entries {
            let Some(entry) = self.entries.pop() else { break };
            self.vacate(entry.record);
        }
        while self.saved.len() > saved {
            let Some((entry, before)) = self.saved.pop() else { break };
            let Some(entry) = self.entries.get_mut(entry as usize) else { continue };
            *entry = before;
            if let Some(last) = self.changes.get_mut(before.last as usize) {
                last.next = END;
            }
        }
        while self.saved_links.len() > saved_links {
            let Some((link, table)) = self.saved_links.pop() else { break };
            if let Some(link) = self.links.get_mut(link as usize) {
                link.table = table;
            }
        }
        self.links.truncate(links);
        self.changes.truncate(changes);
        self.arena.release(arena);
    }

    /// Appends a new column value to an entry.
    pub(crate) fn change(&mut self, entry: usize, slot: ColumnSlot, datum: Datum, from: &Arena) {
        self.save(entry);
        let datum = self.arena.adopt(datum, from);
        let at = self.changes.len() as u32;
        self.changes.push(ChangeEntry { change: Change { slot, datum }, next: END, added_to: None });
        let entry = &mut self.entries[entry];
        match entry.last {
            END => entry.first = at,
            last => self.changes[last as usize].next = at,
        }
        entry.last = at;
    }

    /// Says that the newest column value is a sum of this value and another one.
    pub(crate) fn added_to(&mut self, value: i64) {
        if let Some(last) = self.changes.last_mut() {
            last.added_to = Some(value);
        }
    }

    /// Says that the sums of an entry have been read, so that they must stay. Returns whether there were
    /// any.
    pub(crate) fn keep_sums(&mut self, entry: usize) -> bool {
        let (mut at, mut had_any) = (self.entries[entry].first, false);
        while let Some(own) = self.changes.get_mut(at as usize) {
            at = own.next;
            had_any |= own.added_to.take().is_some();
        }
        had_any
    }

    /// Replaces the sums of an entry by those of other values: `sum` is given the column, the value to which
    /// the transaction has added, and the sum. Returns whether one has changed; `None` if `sum` has no
    /// answer.
    pub(crate) fn move_sums(
        &mut self,
        entry: usize,
        mut sum: impl FnMut(ColumnSlot, i64, i64) -> Option<i64>,
    ) -> Option<bool> {
        let (mut at, mut has_changed) = (self.entries[entry].first, false);
        while let Some(own) = self.changes.get_mut(at as usize) {
            at = own.next;
            if let (Some(added_to), Datum::Int(old)) = (own.added_to, own.change.datum) {
                let new = sum(own.change.slot, added_to, old)?;
                has_changed |= new != old;
                own.change.datum = Datum::Int(new);
            }
        }
        Some(has_changed)
    }

    /// The new column values of an entry, oldest first.
    pub(crate) fn changes(&self, entry: usize) -> Changes<'_> {
        Changes { changes: &self.changes, next: self.entries[entry].first }
    }

    /// The last new value of a column, brought into another arena.
    pub(crate) fn latest(&self, entry: usize, slot: ColumnSlot, to: &mut Arena) -> Option<Datum> {
        let change = self.changes(entry).filter(|change| change.slot == slot).last()?;
        Some(to.adopt(change.datum, &self.arena))
    }
}

/// An entry's list of changes.
#[derive(Clone)]
pub(crate) struct Changes<'a> {
    changes: &'a [ChangeEntry],
    next: u32,
}

impl Iterator for Changes<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        let own = self.changes.get(self.next as usize)?;
        self.next = own.next;
        Some(own.change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Applying, Tables, Workspace};
    use catalog::Epoch;
    use procedure::DataAccess;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use sql::Schema;
    use std::sync::Arc;
    use storage::{Epochs, Memory, Worker};

    /// What can be seen of a write set.
    type State = (Vec<(Handle, TableId, Action, Vec<Datum>)>, Vec<Link>);

    const RECORDS: usize = 200;

    /// Handles of as many records. Their stay is over: a write set compares handles, and reads no record.
    fn records() -> Vec<Handle> {
        let (epochs, memory) = (Arc::new(Epochs::new(Epoch(1), 2)), Arc::new(Memory::new(1 << 30)));
        let mut worker = Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
        let mut tables = Tables::new(epochs, memory);
        let (_, effect) = Schema::default().apply("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
        let how = Applying { timestamp_us: 0, seed: 0, is_new: true };
        tables.apply(&effect, how, &worker.enter()).unwrap();
        let table = Arc::clone(tables.iter().next().unwrap().definition());
        let mut workspace = Workspace::new(tables, worker);
        workspace.begin();
        let insert = |id| {
            let (id, arena, mut key) = (Datum::Int(id as i64), Arena::default(), Vec::new());
            workspace.insert(&table, &[id], &arena).unwrap();
            table.encode_key_column(0, id, &arena, &mut key);
            workspace.find(&table, &key).unwrap().unwrap()
        };
        (0..RECORDS).map(insert).collect()
    }

    fn slot() -> ColumnSlot {
        catalog::RowLayout::new(&[(catalog::ScalarType::BigInt.into(), true)]).slots()[0]
    }

    fn state(set: &WriteSet) -> State {
        let of = |(place, entry): (usize, &Entry)| {
            let values = set.changes(place).map(|change| change.datum).collect();
            (entry.record, entry.table, entry.action, values)
        };
        (set.entries.iter().enumerate().map(of).collect(), set.links.clone())
    }

    fn change(set: &mut WriteSet, random: &mut SmallRng, records: &[Handle], slot: ColumnSlot) {
        let record = records[random.random_range(0..RECORDS)];
        let actions = [Action::Insert, Action::Update, Action::Delete, Action::Cancel];
        let action = actions[random.random_range(0..actions.len())];
        let entry = match set.find(record) {
            Some(entry) => entry,
            None => set.add(record, TableId(0), action),
        };
        match random.random_range(0..4) {
            0 => set.set_action(entry, action),
            1 if random.random_bool(0.2) => {
                let table = TableId(random.random_range(0..3));
                set.renumber(table, TableId(random.random_range(0..3)));
            }
            1 => {
                let key = vec![random.random_range(0..4)];
                set.add_link(Link { record, table: TableId(0), index: 1, key }, false);
            }
            _ => set.change(entry, slot, Datum::Int(random.random()), &Arena::default()),
        }
    }

    #[test]
    fn going_back_restores_the_write_set() {
        let (slot, records) = (slot(), records());
        for seed in 0..300 {
            let mut random = SmallRng::seed_from_u64(seed);
            let mut set = WriteSet::default();
            for _ in 0..3 {
                set.clear();
                let mut marks: Vec<State> = Vec::new();
                for _ in 0..random.random_range(0..400) {
                    match random.random_range(0..40) {
                        0 => {
                            assert_eq!(set.set_mark(), marks.len());
                            marks.push(state(&set));
                        }
                        1 if !marks.is_empty() => {
                            let mark = random.random_range(0..marks.len());
                            set.go_back_to(mark);
                            marks.truncate(mark + 1);
                            assert_eq!(state(&set), marks[mark], "seed {seed}");
                        }
                        2 if !marks.is_empty() => {
                            let mark = random.random_range(0..marks.len());
                            set.forget_marks(mark);
                            marks.truncate(mark);
                        }
                        _ => change(&mut set, &mut random, &records, slot),
                    }
                }
                for record in &records {
                    let entry = set.entries.iter().position(|entry| entry.record == *record);
                    assert_eq!(set.find(*record), entry, "seed {seed}");
                }
            }
        }
    }
}
