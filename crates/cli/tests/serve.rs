//! The README's tour of the server, with a real kill in it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use postgres::{Client, NoTls};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

struct Serving {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
    port: String,
    /// What it said of its recovery.
    recovery: String,
}

impl Serving {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args(["serve", "--listen", "127.0.0.1:0", "--memory-ahead-mib", "0", "--data"])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let recovery = lines.next().unwrap().unwrap();
        let listening = lines.next().unwrap().unwrap();
        let address = listening.split([' ', ';']).nth(2).unwrap_or_else(|| panic!("{listening}"));
        let port = address.rsplit(':').next().unwrap().to_owned();
        Self { process, lines, port, recovery }
    }

    fn connect(&self) -> Client {
        Client::connect(&format!("host=127.0.0.1 port={} user=me", self.port), NoTls).unwrap()
    }

    fn signal(mut self, signal: &str) -> Vec<String> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.process.wait().unwrap();
        self.lines.map_while(Result::ok).collect()
    }
}

#[test]
fn the_tour_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(&data);
    assert!(server.recovery.contains("nothing to recover"), "{}", server.recovery);
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TABLE seat (number INT PRIMARY KEY, guest TEXT);
             CREATE PROCEDURE reserve(p_number INT, p_guest TEXT) LANGUAGE plpgsql AS $$
             BEGIN
               UPDATE seat SET guest = p_guest WHERE number = p_number AND guest IS NULL;
               IF NOT FOUND THEN RAISE EXCEPTION 'seat % is taken', p_number; END IF;
             END $$;",
        )
        .unwrap();
    client.batch_execute("INSERT INTO seat SELECT n, NULL FROM generate_series(1, 100) AS n").unwrap();
    client.execute("CALL reserve($1, $2)", &[&7i32, &"Ada"]).unwrap();
    let error = client.execute("CALL reserve(7, 'Bob')", &[]).unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "seat 7 is taken");
    server.signal("-KILL");

    let server = Serving::start(&data);
    assert!(server.recovery.contains("nothing acknowledged is missing"), "{}", server.recovery);
    let mut client = server.connect();
    let rows = client.query("SELECT number, guest FROM seat WHERE guest IS NOT NULL", &[]).unwrap();
    let seats: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(seats, [(7, "Ada".to_owned())]);
    let free: i64 = client.query_one("SELECT count(*) FROM seat WHERE guest IS NULL", &[]).unwrap().get(0);
    assert_eq!(free, 99);
    drop(client);
    let said = server.signal("-TERM");
    assert_eq!(said, ["stopped after a checkpoint"]);
}

#[test]
fn it_listens_to_this_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_reprise"))
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no authentication yet"));
}
