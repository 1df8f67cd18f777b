//! What one session records of its transactions, in each log. One file a way.
//!
//! A transaction is recorded in all logs inside its commit (`transaction::CommitLog`): before its epoch can be complete, and
//! with its rows locked where a log needs to see them so.

mod adaptive;
mod ahead;
mod columns;
mod command;
mod operations;
mod rows;
mod slots;

use crate::adaptive::Adaptive;
use adaptive::AdaptiveRecorder;
use catalog::{CommitOrder, ProcedureId, RowChange, Table, Written};
use columns::ColumnsRecorder;
use command::CommandRecorder;
use logging::content::{self, Images, Stamp, put_written, seal};
use logging::{
    Commit, Content, FormattedLog, LargeFile, LogError, LogSet, LoggerTag, Numbering, Observed, Room,
};
use operations::OperationsRecorder;
use procedure::{Conflict, Procedure, WitnessRecorder};
use rows::RowsRecorder;
use slots::SlotsRecorder;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use storage::{Guard, Record, Slot};
use transaction::{CommitLog, Committed, Occ, Writing};

/// What is usual is forgotten over this many transactions.
const USUAL_OF: usize = 64;
/// Operations that no buffer holds together are appended in pieces of this part of a buffer, so that each soon finds room.
const PIECES: usize = 4;
/// One in this many transactions is timed.
const TIMED_EVERY: u8 = 8;

/// How a log of commands records a transaction.
#[derive(Clone, Copy)]
pub(crate) enum LoggedBy<'a> {
    /// The rows that it writes.
    Value,
    /// The call, unless the procedure or the session is recorded by value.
    Call {
        procedure: &'a Procedure,
        /// What it has written, for replay to compare.
        written: Written,
        /// Whether its effects depend on more than the call, so that a replay of the call could differ.
        depends: bool,
    },
}

/// A transaction that has committed.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) committed: Committed,
    /// What must be durable before it is acknowledged.
    pub(crate) commit: Commit,
}

/// Why a transaction did not commit.
pub(crate) enum CommitError {
    /// It lost a race. It was rolled back, and may be tried again.
    Conflict(Conflict),
    /// A log refuses its record, or has failed.
    Log(LogError),
}

/// A transaction that has run and is about to commit.
#[derive(Clone, Copy)]
pub(crate) struct Ran<'a> {
    /// The procedure that was called; `None` for a transaction that is always recorded by value.
    pub(crate) procedure: Option<(ProcedureId, u32)>,
    /// How long it ran, where a recorder wants to know.
    pub(crate) execution: Option<Duration>,
    /// What was asked, as a record of a command log.
    pub(crate) asked: &'a [u8],
    /// Whether it is to be recorded by value.
    pub(crate) by_value: bool,
    /// Bytes of the largest record that the log's buffers hold.
    pub(crate) largest: usize,
    pub(crate) occ: &'a Occ,
}

/// Records transactions in one log. `asked` is the record of what was asked, complete but for its order.
pub(crate) trait Recorder: Send {
    /// Whether what was asked is recorded.
    fn wants_asked(&self) -> bool {
        false
    }

    /// Whether the log is told of operations before the transaction's fate is known.
    fn wants_operations(&self) -> bool {
        false
    }

    /// Whether it is told of each row that is written.
    fn wants_rows(&self) -> bool {
        false
    }

    /// Whether it is told how long transactions run.
    fn wants_times(&self) -> bool {
        false
    }

    /// A transaction has run. Returns the bytes of its record, as far as it is known.
    fn prepare(&mut self, ran: &Ran<'_>) -> usize;

    /// The record of the transaction that has run, where all of it is known but its number.
    fn prepared<'a>(&'a mut self, _asked: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        None
    }

    /// Whether the record fits rows that are locked now: this many, of at most this many words together. A record that is not
    /// complete yet must not be longer than `largest`.
    fn fits(&self, _rows_and_words: (usize, usize), _largest: usize, _guard: &Guard) -> bool {
        true
    }

    /// A transaction is about to do operations.
    fn writing(&mut self, _order: CommitOrder, _writes: Writing<'_>) {}

    /// The records of these operations, one after the other.
    fn operations(&self) -> &[u8] {
        &[]
    }

    /// A row is written.
    fn wrote(&mut self, _change: RowChange, _table: &Table, _record: Record<'_>) {}

    /// Bytes of the record, once all rows are written. Asked where the number comes with room for the record.
    fn bytes(&self) -> usize {
        0
    }

    /// The transaction has committed; returns its record.
    fn committed<'a>(&'a mut self, stamp: Stamp, asked: &'a mut Vec<u8>) -> &'a [u8];

    /// The transaction whose operations were recorded has not committed; returns the record that says so.
    fn aborted(&mut self, _order: CommitOrder) -> &[u8] {
        &[]
    }
}

fn recorder(log: &FormattedLog, adaptive: &Arc<Adaptive>) -> Box<dyn Recorder> {
    let format = log.format;
    match (format.content, format.images) {
        (Content::Adaptive, _) => Box::new(AdaptiveRecorder::new(Arc::clone(adaptive))),
        (Content::Physical, _) => Box::new(SlotsRecorder::default()),
        (Content::Physiological, images) if format.undo => Box::new(OperationsRecorder::new(images)),
        (Content::Logical | Content::Physiological, Images::Rows) => Box::new(RowsRecorder::default()),
        (Content::Logical | Content::Physiological, Images::Columns) => Box::new(ColumnsRecorder::default()),
        _ => Box::new(CommandRecorder::default()),
    }
}

/// What a session records.
pub(crate) struct Recording {
    logs: Arc<LogSet>,
    recorders: Vec<Box<dyn Recorder>>,
    slot: Slot,
    tag: Option<LoggerTag>,
    /// Whether the record of what is asked is needed.
    pub(crate) wants_asked: bool,
    wants_operations: bool,
    wants_rows: bool,
    wants_times: bool,
    /// Transactions until the next one that is timed.
    until_timed: u8,
    begun: Option<Instant>,
    /// The record of what is asked.
    pub(crate) asked: Vec<u8>,
    pub(crate) witnesses: WitnessRecorder,
    /// Whether transactions are recorded by value where the log has a choice.
    pub(crate) by_value: bool,
    /// What the transaction in hand is numbered with, and room for its records, where numbers come with that.
    stamp: Option<Stamp>,
    rooms: Vec<Room>,
    /// What records take that come with their numbers: more than most of late.
    usual_bytes: usize,
    /// Files of large records of the transaction in hand, by log.
    large: Vec<(usize, LargeFile)>,
    result: Result<(), LogError>,
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.forget_large();
    }
}

impl Recording {
    pub(crate) fn new(logs: Arc<LogSet>, adaptive: &Arc<Adaptive>, slot: Slot) -> Self {
        let recorders: Vec<_> = logs.iter().map(|log| recorder(log, adaptive)).collect();
        Self {
            wants_asked: recorders.iter().any(|own| own.wants_asked()),
            wants_operations: recorders.iter().any(|own| own.wants_operations()),
            wants_rows: recorders.iter().any(|own| own.wants_rows()),
            wants_times: recorders.iter().any(|own| own.wants_times()),
            until_timed: 0,
            begun: None,
            tag: logs.tag(slot),
            logs,
            recorders,
            slot,
            asked: Vec::new(),
            witnesses: WitnessRecorder::default(),
            by_value: false,
            stamp: None,
            rooms: Vec::new(),
            usual_bytes: 0,
            large: Vec::new(),
            result: Ok(()),
        }
    }

    /// A transaction begins to run.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if !self.wants_times {
            return;
        }
        self.begun = (self.until_timed == 0).then(Instant::now);
        self.until_timed = self.until_timed.checked_sub(1).unwrap_or(TIMED_EVERY - 1);
    }

    /// Commits a transaction that has run, and appends its record to each log.
    ///
    /// # Errors
    /// `Conflict` when it lost a race; `Log` when its record is too large, a log can't grow, or has failed.
    #[inline]
    pub(crate) fn commit(&mut self, occ: &mut Occ, logged_by: LoggedBy<'_>) -> Result<Ended, CommitError> {
        if let Err(error) = self.prepare(logged_by, occ) {
            occ.rollback();
            return Err(CommitError::Log(error));
        }
        let committed = occ.commit(self);
        if let Ok(Committed::Wrote(_)) = committed {
            self.ended();
        }
        // A transaction whose record is refused would be refused again.
        std::mem::replace(&mut self.result, Ok(())).map_err(CommitError::Log)?;
        let committed = committed.map_err(CommitError::Conflict)?;
        Ok(Ended { committed, commit: self.commit_of(committed) })
    }

    /// Prepares the record of a transaction that is about to commit, as far as it is known, and waits for room in each log.
    #[inline]
    fn prepare(&mut self, logged_by: LoggedBy<'_>, occ: &Occ) -> Result<(), LogError> {
        self.result = Ok(());
        self.stamp = None;
        if self.recorders.is_empty() || !occ.writes_anything() {
            return Ok(());
        }
        self.logs.check()?;
        let (procedure, by_value) = match logged_by {
            LoggedBy::Value => (None, true),
            LoggedBy::Call { procedure, written, depends } => {
                if self.wants_asked && !procedure.by_value {
                    self.witnesses.append_to(&mut self.asked);
                    put_written(written, &mut self.asked);
                }
                let by_value = self.by_value || procedure.by_value || depends;
                (Some((procedure.id, procedure.version)), by_value)
            }
        };
        let execution = self.begun.map(|begun| begun.elapsed());
        self.forget_large();
        let Self { recorders, logs, asked, large, .. } = self;
        for (place, own) in recorders.iter_mut().enumerate() {
            let log = logs.at(place);
            let largest = log.largest_record();
            let mut bytes = own.prepare(&Ran { procedure, execution, asked, by_value, largest, occ });
            if bytes > largest
                && let Some(record) = own.prepared(asked)
            {
                large.push((place, logs.large(place).put(record)?));
                bytes = record.len();
            }
            log.check_size(bytes)?;
            // A worker that has to wait does so before it locks anything. How long the record will be is known now, or is guessed
            // from the last ones.
            let expected = bytes.max(own.bytes()).max(self.usual_bytes).min(largest / 2);
            log.wait_for_room(self.slot, expected)?;
        }
        Ok(())
    }

    /// The transaction that large records were made for has not committed.
    fn forget_large(&mut self) {
        for (place, file) in self.large.drain(..) {
            self.logs.large(place).forget(file);
        }
    }

    /// It has.
    fn keep_large(&mut self, order: CommitOrder) {
        for (place, file) in self.large.drain(..) {
            self.logs.large(place).keep(file, order);
        }
    }

    /// What must be durable before the transaction that has just ended is acknowledged. What it has read may lie in every log;
    /// only the stamp of its own write says that its own log is enough.
    #[inline]
    pub(crate) fn commit_of(&self, committed: Committed) -> Commit {
        let (number, alone) = match committed {
            Committed::Wrote(number) => (number, self.stamp.is_some_and(|stamp| stamp.alone)),
            Committed::Read(number) => (number, false),
        };
        Commit { number, worker: self.slot, alone }
    }

    /// The transaction has ended, its rows are unlocked.
    #[inline]
    fn ended(&mut self) {
        if self.result.is_ok() {
            self.result = self.logs.ended(self.slot);
        }
    }

    /// Appends what each recorder makes to its log.
    #[inline]
    fn append(
        &mut self,
        order: CommitOrder,
        mut make: impl for<'a> FnMut(&'a mut Box<dyn Recorder>, &'a mut Vec<u8>) -> &'a [u8],
    ) {
        let Self { logs, recorders, slot, asked, result, .. } = self;
        for (place, own) in recorders.iter_mut().enumerate() {
            let bytes = make(own, asked);
            if bytes.is_empty() {
                continue;
            }
            let appended = logs.at(place).append(*slot, bytes, order);
            if result.is_ok() {
                *result = appended;
            }
        }
    }
}

/// Cuts records that stand one after the other into pieces of at most this many bytes; a longer record is a piece of its own.
fn pieces(mut records: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut end = 0;
        while let Some(length) = content::length_of(&records[end..])
            && (end == 0 || end + length <= most)
        {
            end += length;
        }
        let (piece, others) = records.split_at(end);
        records = others;
        (end > 0).then_some(piece)
    })
}

impl Recording {
    /// Appends the records of operations: in pieces where no buffer holds all of them, and after a file of its own is written
    /// for each that no buffer holds.
    fn append_operations(&mut self, order: CommitOrder) -> Result<(), LogError> {
        let Self { logs, recorders, slot, large, .. } = self;
        let mut cut = Vec::new();
        for (place, own) in recorders.iter().enumerate() {
            let (records, largest) = (own.operations(), logs.at(place).largest_record());
            if records.len() <= largest {
                cut.push((place, Cow::Borrowed(records)));
                continue;
            }
            for piece in pieces(records, largest / PIECES) {
                let mut piece = Cow::Borrowed(piece);
                if piece.len() > largest {
                    large.push((place, logs.large(place).put(piece.to_mut())?));
                    seal(order, piece.to_mut());
                }
                cut.push((place, piece));
            }
        }
        let mut pieces = cut.iter().filter(|(_, piece)| !piece.is_empty());
        pieces.try_for_each(|(place, piece)| logs.at(*place).append(*slot, piece, order))
    }
}

impl CommitLog for Recording {
    #[inline]
    fn numbering(&self) -> Numbering {
        self.logs.numbering()
    }

    fn draw(&mut self, floor: CommitOrder) -> CommitOrder {
        self.logs.draw(self.slot, floor)
    }

    #[inline]
    fn has_alone(&self, number: CommitOrder) -> bool {
        self.tag.is_some_and(|tag| tag.has_alone(number))
    }

    fn number(&mut self, observed: Observed, floor: CommitOrder) -> CommitOrder {
        let Self { logs, recorders, slot, tag, rooms, .. } = self;
        let (stamp, taken) =
            logs.number((*slot, *tag), (observed, floor), |place| recorders[place].bytes(), rooms);
        self.result = taken;
        self.stamp = Some(stamp);
        stamp.order
    }

    #[inline]
    fn wants_operations(&self) -> bool {
        self.wants_operations
    }

    #[inline]
    fn wants_rows(&self) -> bool {
        self.wants_rows
    }

    fn admits(&mut self, rows: usize, words: usize, guard: &Guard) -> bool {
        let mut recorders = self.recorders.iter().enumerate();
        recorders.all(|(place, own)| own.fits((rows, words), self.logs.at(place).largest_record(), guard))
    }

    fn writing(&mut self, order: CommitOrder, writes: Writing<'_>) -> bool {
        self.recorders.iter_mut().for_each(|own| own.writing(order, writes));
        self.result = self.append_operations(order);
        self.result.is_ok()
    }

    fn wrote(&mut self, change: RowChange, table: &Table, record: Record<'_>) {
        self.recorders.iter_mut().for_each(|own| own.wrote(change, table, record));
    }

    #[inline]
    fn committed(&mut self, order: CommitOrder) {
        self.keep_large(order);
        let Some(stamp) = self.stamp else {
            return self.append(order, |own, asked| own.committed(order.into(), asked));
        };
        let Self { logs, recorders, slot, asked, rooms, usual_bytes, .. } = self;
        for (place, room) in rooms.drain(..).enumerate() {
            *usual_bytes = (*usual_bytes - *usual_bytes / USUAL_OF).max(room.bytes() * 2);
            logs.fill(place, *slot, room, recorders[place].committed(stamp, asked));
        }
    }

    fn aborted(&mut self, order: CommitOrder) {
        if self.numbering() == Numbering::LogsAndReads {
            self.logs.undraw(self.slot);
        }
        if self.wants_operations {
            // Recovery reads the operations before it knows that they came to nothing.
            self.keep_large(order);
            self.append(order, |own, _| own.aborted(order));
        }
    }
}
