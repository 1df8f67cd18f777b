//! Replay checks itself: logs whose records do not fit what their calls do.

use super::State;
use crate::{LogContents, Method, Progress, RecoveryConfig, RecoveryError};
use catalog::{Arena, CommitOrder, Datum, Epoch, ScalarType, encode_value, put_varint};
use logging::content::{BODY_FROM, CallRecord, RecordKind, StatementRecord, put_rows_written};
use sql::Schema;
use std::sync::Arc;
use storage::{Digest, Epochs, Memory};
use transaction::Tables;

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

/// A log in the making.
#[derive(Default)]
struct Log {
    schema: Schema,
    records: Vec<(CommitOrder, RecordKind, Vec<u8>)>,
}

impl Log {
    /// A log of definitions and of four accounts, of which two have one holder.
    fn new() -> Self {
        let mut log = Self::default();
        for text in DEFINITIONS {
            let mut bytes = Vec::new();
            StatementRecord { timestamp_us: 0, seed: 0, text, rows_written: None }
                .write_definition(&mut bytes);
            log.push(RecordKind::Definition, &bytes);
            log.schema = log.schema.apply(text).unwrap().0;
        }
        log.statement("INSERT INTO account VALUES (1, 1, 10)", Some(1));
        log.statement("INSERT INTO account VALUES (2, 2, 10)", Some(1));
        log.statement("INSERT INTO account VALUES (3, 3, 10)", None);
        log.statement("INSERT INTO account VALUES (4, 3, 10)", Some(1));
        log
    }

    fn push(&mut self, kind: RecordKind, bytes: &[u8]) {
        let order = CommitOrder(CommitOrder::first_of(Epoch(2)).0 + self.records.len() as u64);
        self.records.push((order, kind, bytes[BODY_FROM..].to_vec()));
    }

    fn statement(&mut self, text: &str, rows: Option<u64>) {
        let mut bytes = Vec::new();
        StatementRecord { timestamp_us: 0, seed: 0, text, rows_written: rows }.write(&mut bytes);
        rows.into_iter().for_each(|rows| put_rows_written(rows, &mut bytes));
        self.push(RecordKind::Statement, &bytes);
    }

    /// A call with the values of its only witness, if they are recorded, and its number of rows.
    fn call(&mut self, name: &str, arguments: [i64; 2], witness: Option<&[i64]>, rows: u64) {
        let procedure = self.schema.procedures().find(|own| own.name == name).unwrap();
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
            witnessed: witness.is_some(),
            arguments: &encoded,
            rows_written: None,
        };
        let mut bytes = Vec::new();
        call.write(&mut bytes);
        put_rows_written(rows, &mut bytes);
        self.push(RecordKind::Call, &bytes);
    }

    fn replayed(&self, method: Method, threads: usize) -> Result<Digest, RecoveryError> {
        let log = LogContents::of_records(self.records.clone());
        let tables = Tables::new(Arc::new(Epochs::new(Epoch(1), 16)), Arc::new(Memory::new(1 << 28)));
        let config = RecoveryConfig { method, threads, ..RecoveryConfig::default() };
        let state = State::new(method, tables);
        let (state, _) = state.replay(method, (&log, CommitOrder(0)), &config, &Progress::default())?;
        Ok(state.tables.digest().unwrap())
    }

    /// Every method refuses the log, with an error that holds these words.
    #[track_caller]
    fn is_refused(&self, words: &[&str]) {
        for (method, threads) in [(Method::Clr, 1), (Method::ClrP, 1), (Method::ClrP, 3)] {
            let error = self.replayed(method, threads).map(|_| ()).unwrap_err().to_string();
            for own in words {
                assert!(error.contains(own), "{method}, {threads} threads: {own:?} is not in {error:?}");
            }
        }
    }
}

#[test]
fn a_log_that_fits_is_replayed() {
    let mut log = Log::new();
    log.call("pay", [1, 2], None, 2);
    log.call("pay", [1, 9], None, 1);
    log.call("charge", [3, 5], Some(&[4]), 1);
    log.call("charge", [3, 5], None, 1);
    log.statement("UPDATE account SET v = 0 WHERE holder = 3", Some(2));
    let serial = log.replayed(Method::Clr, 1).unwrap();
    assert_eq!(log.replayed(Method::ClrP, 1).unwrap(), serial);
    assert_eq!(log.replayed(Method::ClrP, 3).unwrap(), serial);
}

#[test]
fn divergence_is_refused() {
    let mut missing = Log::new();
    missing.call("pay", [1, 9], None, 2);
    missing.is_refused(&["procedure pay(1, 9)", "wrote 1 rows", "its record says 2", "(line 4, column 10)"]);

    let mut appeared = Log::new();
    appeared.call("pay", [1, 2], None, 2);
    appeared.call("pay", [3, 4], None, 1);
    appeared.is_refused(&["procedure pay(3, 4)", "wrote 2 rows", "its record says 1"]);

    let mut statement = Log::new();
    statement.statement("UPDATE account SET v = 0 WHERE holder = 3", Some(1));
    statement.is_refused(&["UPDATE account SET v = 0 WHERE holder = 3", "wrote 2 rows", "its record says 1"]);

    // A witness that leads to no row, and one that was read more often.
    let mut elsewhere = Log::new();
    elsewhere.call("charge", [3, 5], Some(&[9]), 1);
    elsewhere.is_refused(&["procedure charge(3, 5)"]);
    let mut often = Log::new();
    often.call("charge", [3, 5], Some(&[4, 4]), 1);
    often.is_refused(&["procedure charge(3, 5)", "read account"]);
}

/// Parallel replay is spared the reads that are witnesses; serial replay makes them, and compares.
#[test]
fn serial_replay_compares_witnesses() {
    let mut log = Log::new();
    log.call("charge", [3, 5], Some(&[3]), 1);
    let error = log.replayed(Method::Clr, 1).unwrap_err().to_string();
    for words in ["procedure charge(3, 5)", "read other values", "read account", "(line 4"] {
        assert!(error.contains(words), "{words:?} is not in {error:?}");
    }
}

/// Calls of format versions 1 to 3 have no number of rows; they are replayed as they were.
#[test]
fn records_without_a_number_of_rows_are_replayed() {
    let mut log = Log::new();
    log.call("pay", [1, 9], None, 2);
    let (.., body) = log.records.last_mut().unwrap();
    body.pop();
    const HAS_ROWS: u8 = 8;
    body[2] &= !HAS_ROWS;
    let serial = log.replayed(Method::Clr, 1).unwrap();
    assert_eq!(log.replayed(Method::ClrP, 3).unwrap(), serial);
}
