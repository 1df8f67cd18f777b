//! The concurrency control that a flag, the environment or the configuration file names is the database's.

use crate::common::{Serving, get};
use postgres::Client;
use std::process::Command;
use std::time::{Duration, Instant};

fn outcome(client: &mut Client, text: &str) -> String {
    match client.batch_execute(text) {
        Ok(()) => "ok".into(),
        Err(error) => {
            error.as_db_error().map_or_else(|| error.to_string(), |error| error.code().code().into())
        }
    }
}

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO t VALUES (1, 0), (2, 0)";
const READ: &str = "BEGIN; SELECT v FROM t WHERE id = 1";
const WRITE: &str = "UPDATE t SET v = v + 1 WHERE id = 1";

/// Only where reads lock, a row that an open transaction has read is not written by another one.
fn reads_lock(server: &Serving) -> bool {
    let (mut reader, mut writer) = (server.connect(), server.connect());
    reader.batch_execute(TABLE).unwrap();
    reader.batch_execute(READ).unwrap();
    // On its own, since several statements at once are an open transaction.
    writer.batch_execute("SET lock_timeout = '100ms'").unwrap();
    match outcome(&mut writer, WRITE).as_str() {
        "ok" => false,
        "55P03" => true,
        other => panic!("{other}"),
    }
}

#[test]
fn the_flag_the_environment_and_the_file_choose_the_concurrency() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reprise.toml");
    let path = file.to_str().unwrap();
    for (place, (text, environment, flags, locks)) in [
        ("", "", &[][..], false),
        ("", "", &["--concurrency", "2pl"][..], true),
        ("", "2pl-wait-die", &[][..], true),
        ("concurrency = \"2pl-no-wait\"", "", &[][..], true),
        ("concurrency = \"2pl\"", "", &["--concurrency", "occ"][..], false),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&file, text).unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_reprise"));
        if !environment.is_empty() {
            program.env("REPRISE_CONCURRENCY", environment);
        }
        let flags = [&["--config", path], flags].concat();
        let server = Serving::start_by(&mut program, &folder.path().join(place.to_string()), &flags);
        assert_eq!(reads_lock(&server), locks, "{text}, {environment}, {flags:?}");
    }
    let sample =
        Command::new(env!("CARGO_BIN_EXE_reprise")).args(["serve", "--print-sample-config"]).output();
    let sample = String::from_utf8(sample.unwrap().stdout).unwrap();
    assert!(sample.contains("\n# concurrency = \"occ\"\n"), "{sample}");
    let refused =
        Command::new(env!("CARGO_BIN_EXE_reprise")).args(["serve", "--concurrency", "mvcc"]).output();
    let refused = String::from_utf8(refused.unwrap().stderr).unwrap();
    assert!(refused.contains("occ, 2pl, 2pl-wait-die, 2pl-no-wait"), "{refused}");
}

/// The locks of a client that has left its transaction open go with `idle_in_transaction_session_timeout`.
#[test]
fn an_idle_transaction_releases_its_locks() {
    let folder = tempfile::tempdir().unwrap();
    let flags =
        ["--concurrency", "2pl", "--idle-in-transaction-session-timeout", "0.3", "--http", "127.0.0.1:0"];
    let server = Serving::start_with(&folder.path().join("data"), &flags);
    let (mut idle, mut other) = (server.connect(), server.connect());
    idle.batch_execute(TABLE).unwrap();
    idle.batch_execute(READ).unwrap();
    let begun = Instant::now();
    assert_eq!(outcome(&mut other, "SET lock_timeout = '20s'; UPDATE t SET v = v + 1 WHERE id = 1"), "ok");
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_ne!(outcome(&mut idle, "SELECT v FROM t WHERE id = 1"), "ok");
    // What has happened to other attempts is counted by its reason.
    other.batch_execute("BEGIN; UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
    let mut third = server.connect();
    let wanted = "SET lock_timeout = '50ms'; SELECT v FROM t WHERE id = 2";
    assert_eq!(outcome(&mut third, wanted), "55P03");
    let shown = get(server.http.as_deref().unwrap(), "/metrics");
    assert!(shown.contains("reprise_aborts_total{reason=\"lock-timeout\"} 1\n"), "{shown}");
    assert!(shown.contains("reprise_aborts_total{reason=\"deadlock\"} 0\n"), "{shown}");
}

/// `bench` runs under the concurrency control, and says why attempts were undone.
#[test]
fn a_benchmark_counts_aborts_by_reason() {
    for concurrency in ["occ", "2pl", "2pl-wait-die", "2pl-no-wait", "dgcc"] {
        let flags =
            ["bench", "smallbank", "--transactions", "3000", "--workers", "2", "--log", "off", "--json"];
        let output = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(flags)
            .args(["--concurrency", concurrency])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["concurrency"], concurrency);
        assert!(report["sum"].is_i64(), "{report}");
        let reasons = report["aborts"].as_object().unwrap();
        for reason in reasons.keys() {
            let is_of = match reason.as_str() {
                "read" | "phantom" => concurrency == "occ",
                "wait-die" | "no-wait" => concurrency == format!("2pl-{reason}"),
                _ => true,
            };
            assert!(is_of, "{report}");
        }
    }
}
