//! Replay checks itself: it refuses logs whose records differ from the execution of their calls.

mod queue;

use super::ReplayContext;
use crate::{LogContents, Method, Progress, RecoveryConfig, RecoveryError};
use catalog::{Arena, CommitOrder, Datum, Epoch, ScalarType, Written, encode_value, put_varint};
use logging::content::{BODY_FROM, CallRecord, Later, RecordKind, StatementRecord, put_written};
use native::Compiler;
use procedure::{Call, Effect, Machine, Procedure, Whole, Witnessed, execute};
use sql::Schema;
use std::sync::Arc;
use storage::{Digest, Epochs, Memory};
use transaction::{Tables, Workspace};

const DEFINITIONS: [&str; 4] = [
    "CREATE TABLE account (id INT PRIMARY KEY, holder INT NOT NULL, v INT NOT NULL)",
    "CREATE INDEX account_holder ON account (holder)",
    "CREATE PROCEDURE pay(k INT, l INT) LANGUAGE plpgsql AS $$
     BEGIN
         UPDATE account SET v = v - 1 WHERE id = k;
         UPDATE account SET v = v + 1 WHERE id = l;
     END $$",
    "CREATE PROCEDURE charge(h INT, n INT) LANGUAGE plpgsql AS $$
     DECLARE k INT;
     BEGIN
         SELECT max(id) INTO k FROM account WHERE holder = h;
         UPDATE account SET v = v - n WHERE id = k;
     END $$",
];

/// A log that is being written. The transactions of its records have run.
struct Log {
    schema: Schema,
    records: Vec<(CommitOrder, RecordKind, Vec<u8>)>,
    workspace: Workspace,
    machine: Machine,
}

impl Log {
    /// Makes a log of definitions and of four accounts; two accounts have one holder.
    fn new() -> Self {
        let tables = Tables::new(Arc::new(Epochs::new(Epoch(1), 2)), Arc::new(Memory::new(1 << 28)));
        let mut records = Vec::new();
        let (nothing, config, progress) = Default::default();
        let mut context = context_of(&nothing, tables, &config, &progress);
        let mut worker = context.worker().unwrap();
        for text in DEFINITIONS {
            let (record, mut bytes) = (statement(text), Vec::new());
            record.write_definition(&mut bytes);
            push(&mut records, RecordKind::Definition, &bytes);
            assert!(context.apply_definition(CommitOrder(0), &record, &mut worker).unwrap().is_none());
        }
        let ReplayContext { schema, tables, .. } = context;
        let mut log =
            Self { schema, records, workspace: Workspace::new(tables, worker), machine: Machine::default() };
        log.statement("INSERT INTO account VALUES (1, 1, 10)", |_| ());
        log.statement("INSERT INTO account VALUES (2, 2, 10)", |_| ());
        log.statement("INSERT INTO account VALUES (3, 3, 10)", |_| ());
        log.statement("INSERT INTO account VALUES (4, 3, 10)", |_| ());
        log
    }

    /// Runs a procedure; returns the summary of its writes.
    fn run(&mut self, procedure: &Procedure, arguments: impl ExactSizeIterator<Item = Datum>) -> Written {
        let Self { records, workspace, machine, .. } = self;
        machine.reset(0, 0);
        workspace.begin();
        let call = Call { procedure, timestamp_us: 0, seed: 0 };
        execute(call, arguments, machine, workspace, &mut Whole).unwrap();
        workspace.commit_at(order(records.len())).unwrap();
        machine.written()
    }

    /// Adds a statement, with a changed summary of its writes.
    fn statement(&mut self, text: &str, change: impl FnOnce(&mut Written)) {
        let (_, effect) = self.schema.apply(text).unwrap();
        let Effect::Run(procedure) = effect else { panic!("{text} is a definition") };
        let mut written = self.run(&procedure, std::iter::empty());
        change(&mut written);
        let mut bytes = Vec::new();
        statement(text).write(&mut bytes);
        put_written(written, &mut bytes);
        push(&mut self.records, RecordKind::Statement, &bytes);
    }

    /// Adds a call with the values of its only witness, if they are recorded.
    fn call(&mut self, name: &str, arguments: [i64; 2], witness: Option<&[i64]>) {
        self.call_as(name, arguments, witness, |_| ());
    }

    /// Adds a call, with a changed summary of its writes.
    fn call_as(
        &mut self,
        name: &str,
        arguments: [i64; 2],
        witness: Option<&[i64]>,
        change: impl FnOnce(&mut Written),
    ) {
        let procedure = Arc::clone(self.schema.procedures().find(|own| own.name == name).unwrap());
        let mut written = self.run(&procedure, arguments.into_iter().map(Datum::Int));
        change(&mut written);
        let (mut encoded, arena) = (Vec::new(), Arena::default());
        let encode = |value: i64, ty: ScalarType, out: &mut Vec<u8>| {
            encode_value(Datum::Int(value), ty.into(), &arena, out);
        };
        arguments.into_iter().for_each(|value| encode(value, ScalarType::Integer, &mut encoded));
        if let Some(values) = witness {
            put_varint(values.len() as u64, &mut encoded);
            values.iter().for_each(|value| encode(*value, ScalarType::BigInt, &mut encoded));
        }
        let call = CallRecord {
            procedure: procedure.id,
            version: procedure.version,
            timestamp_us: 0,
            seed: 0,
            witnessed: if witness.is_some() { Witnessed::NEWEST } else { Witnessed::Nothing },
            arguments: &encoded,
            written: None,
            later: Later::default(),
        };
        let mut bytes = Vec::new();
        call.write(&mut bytes);
        put_written(written, &mut bytes);
        push(&mut self.records, RecordKind::Call, &bytes);
    }

    /// Removes the summary of writes from the last record, a call. Records of format versions 1 to 3 have
    /// none.
    fn forget_written(&mut self) {
        const HAS_WRITTEN: u8 = 8;
        let (.., body) = self.records.last_mut().unwrap();
        body.truncate(body.len() - size_of::<u16>());
        body[2] &= !HAS_WRITTEN;
    }

    fn replayed(&self, method: Method, threads: usize) -> Result<Digest, RecoveryError> {
        let log = Arc::new(LogContents::of_records(self.records.clone()));
        let progress = Progress::default();
        let config = RecoveryConfig { method, threads, ..RecoveryConfig::default() };
        let tables = Tables::new(Arc::new(Epochs::new(Epoch(1), 16)), Arc::new(Memory::new(1 << 28)));
        let mut context = context_of(&log, tables, &config, &progress);
        method.replay(&log.kinds).run_all(&mut context)?;
        Ok(context.tables.digest().unwrap())
    }

    /// Asserts that every method refuses the log, with an error that contains these words.
    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        for (method, threads) in [(Method::Clr, 1), (Method::ClrP, 1), (Method::ClrP, 3)] {
            let error = self.replayed(method, threads).map(|_| ()).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{method}, {threads} threads: {word:?} is not in {error:?}");
            }
        }
    }
}

/// A context over tables without definitions.
fn context_of<'a>(
    log: &'a Arc<LogContents>,
    tables: Tables,
    config: &'a RecoveryConfig,
    progress: &'a Progress,
) -> ReplayContext<'a> {
    ReplayContext {
        log,
        from: CommitOrder(0),
        schema: Schema::default(),
        tables,
        compiler: Compiler::new(config.compile),
        config,
        progress,
        rows: None,
        defers_commands: false,
        undone: Vec::new(),
    }
}

fn order(index: usize) -> CommitOrder {
    CommitOrder(CommitOrder::first_of(Epoch(2)).0 + index as u64)
}

fn statement(text: &str) -> StatementRecord<'_> {
    StatementRecord { timestamp_us: 0, seed: 0, text, written: None }
}

fn push(records: &mut Vec<(CommitOrder, RecordKind, Vec<u8>)>, kind: RecordKind, bytes: &[u8]) {
    records.push((order(records.len()), kind, bytes[BODY_FROM..].to_vec()));
}

#[test]
fn a_log_that_fits_is_replayed() {
    let mut log = Log::new();
    log.call("pay", [1, 2], None);
    log.call("pay", [1, 9], None);
    log.call("charge", [3, 5], Some(&[4]));
    log.call("charge", [3, 5], None);
    log.statement("UPDATE account SET v = 0 WHERE holder = 3", |_| ());
    let serial = log.replayed(Method::Clr, 1).unwrap();
    assert_eq!(log.replayed(Method::ClrP, 1).unwrap(), serial);
    assert_eq!(log.replayed(Method::ClrP, 3).unwrap(), serial);
}

#[test]
fn divergence_is_refused() {
    let mut missing = Log::new();
    missing.call_as("pay", [1, 9], None, |written| written.rows = 2);
    missing.is_refused(&["procedure pay(1, 9)", "wrote 1 rows", "its record says 2", "(line 4, column 10)"]);

    let mut appeared = Log::new();
    appeared.call("pay", [1, 2], None);
    appeared.call_as("pay", [3, 4], None, |written| written.rows = 1);
    appeared.is_refused(&["procedure pay(3, 4)", "wrote 2 rows", "its record says 1"]);

    let mut statement = Log::new();
    statement.statement("UPDATE account SET v = 0 WHERE holder = 3", |written| written.rows = 1);
    statement.is_refused(&["UPDATE account SET v = 0 WHERE holder = 3", "wrote 2 rows", "its record says 1"]);

    // A witness that leads to no row, and one that was read more often.
    let mut elsewhere = Log::new();
    elsewhere.call("charge", [3, 5], Some(&[9]));
    elsewhere.is_refused(&["procedure charge(3, 5)"]);
    let mut often = Log::new();
    often.call("charge", [3, 5], Some(&[4, 4]));
    often.is_refused(&["procedure charge(3, 5)", "read account"]);
}

/// The number of written rows is that of the records, but the values or the rows differ.
#[test]
fn values_that_differ_are_refused() {
    let mut value = Log::new();
    value.call("pay", [1, 2], None);
    // A call is missing in the log, so that the next calls compute other values.
    value.call("pay", [1, 3], None);
    value.records.pop();
    value.call("pay", [2, 1], None);
    value.is_refused(&["procedure pay(2, 1)", "wrote 2 rows with checksum", "its record says 2 rows"]);

    let mut row = Log::new();
    row.call("charge", [3, 5], Some(&[3]));
    let error = row.replayed(Method::ClrP, 3).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("procedure charge(3, 5)") && error.contains("with checksum"), "{error}");

    let mut statement = Log::new();
    statement.statement("UPDATE account SET v = 0 WHERE holder = 3", |written| written.checksum ^= 1);
    statement.is_refused(&["UPDATE account SET v = 0 WHERE holder = 3", "wrote 2 rows with checksum"]);
}

/// Parallel replay does not make the reads behind witnesses; serial replay makes them, and compares.
#[test]
fn serial_replay_compares_witnesses() {
    let mut log = Log::new();
    log.call("charge", [3, 5], Some(&[3]));
    let error = log.replayed(Method::Clr, 1).unwrap_err().to_string();
    for words in ["procedure charge(3, 5)", "read other values", "read account", "(line 4"] {
        assert!(error.contains(words), "{words:?} is not in {error:?}");
    }
}

#[test]
fn calls_that_do_not_say_what_they_wrote_are_replayed() {
    let mut log = Log::new();
    log.call_as("pay", [1, 9], None, |written| written.rows = 2);
    log.forget_written();
    let serial = log.replayed(Method::Clr, 1).unwrap();
    assert_eq!(log.replayed(Method::ClrP, 3).unwrap(), serial);
}
