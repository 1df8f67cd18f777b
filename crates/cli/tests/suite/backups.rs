//! Backups as an operator makes them: of a server that answers, of a folder at rest, by SQL; and the way
//! back.

use crate::common::Serving;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs the program; what it prints, or what it complains about.
fn reprise(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_reprise")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn digest_of(folder: &Path) -> String {
    let printed = reprise(&["recover", folder.to_str().unwrap(), "--verify", "--json"]).unwrap();
    let report: Value = serde_json::from_str(&printed).unwrap();
    report["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_served_folder_is_backed_up_and_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let (data, first, restored) = (path("data"), text("first"), text("restored"));
    let server = Serving::start_with(&data, &["--backups", &text("made by clients")]);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)").unwrap();
    client.batch_execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 5000) AS n").unwrap();

    let printed = reprise(&["backup", data.to_str().unwrap(), &first, "--json"]).unwrap();
    let report: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report["rows"], 5000, "{report}");
    let refused = reprise(&["backup", data.to_str().unwrap(), &first]).unwrap_err();
    assert!(refused.contains("empty or does not exist"), "{refused}");

    // What is read while transactions go on would look damaged.
    for command in [&["recover"][..], &["bench", "recovery"]] {
        let refused = reprise(&[command, &[data.to_str().unwrap()]].concat()).unwrap_err();
        assert!(refused.contains("is in use by another process"), "{command:?}: {refused}");
    }

    client.batch_execute("DELETE FROM t WHERE id > 10").unwrap();
    let answer = client.query_one("CALL reprise_backup('monday')", &[]).unwrap();
    assert!(answer.get::<_, &str>(0).contains(": 10 rows, "), "{answer:?}");
    for (statement, state) in [
        ("CALL reprise_backup('monday')", "58P02"),
        ("CALL reprise_backup('../monday')", "22023"),
        ("CALL reprise_backup(NULL)", "22004"),
        ("CALL reprise_backup()", "42883"),
        ("BEGIN; CALL reprise_backup('tuesday')", "25001"),
    ] {
        let error = client.simple_query(statement).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some(state), "{statement}: {error}");
    }
    drop(client);
    server.signal("-KILL");

    let printed = reprise(&["restore", &first, &restored]).unwrap();
    assert!(
        printed.contains("5000 rows") && printed.contains(report["digest"].as_str().unwrap()),
        "{printed}"
    );
    assert_eq!(digest_of(&path("restored")), report["digest"].as_str().unwrap());
    let server = Serving::start(&path("restored"));
    let count = server.connect().query_one("SELECT count(*) FROM t", &[]).unwrap();
    assert_eq!(count.get::<_, i64>(0), 5000);
    server.signal("-TERM");

    // The killed server's folder, which no process has open, and its client's backup hold the same rows.
    let printed = reprise(&["backup", data.to_str().unwrap(), &text("at rest"), "--json"]).unwrap();
    let at_rest: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(digest_of(&path("made by clients").join("monday")), at_rest["digest"].as_str().unwrap());
}

#[test]
fn clients_make_no_backups_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let error = server.connect().simple_query("CALL reprise_backup('b')").unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{error}");
}

#[test]
fn a_changed_backup_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let server = Serving::start(&data);
    server.connect().batch_execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    reprise(&["backup", data.to_str().unwrap(), backup.to_str().unwrap()]).unwrap();
    let manifest = backup.join("checkpoint");
    let mut bytes = std::fs::read(&manifest).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let restored = folder.path().join("restored");
    let error = reprise(&["restore", backup.to_str().unwrap(), restored.to_str().unwrap()]).unwrap_err();
    assert!(error.contains(manifest.to_str().unwrap()), "{error}");
    assert!(!restored.exists(), "nothing is made of a backup that is refused");
}
