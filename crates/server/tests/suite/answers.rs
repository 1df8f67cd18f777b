//! Nothing goes to a client before everything is durable that it shows. As `answers_are_durable` of the
//! database, over the wire.

use crate::wire::Ask::{
    self, Bind, CopyData, CopyDone, DescribePortal, DescribeStatement, Execute, Flush, Parse, Simple, Sync,
};
use crate::wire::Wire;
use reprise::disk::{ClosedGate, CrashingDisk, GatedDisk};
use reprise::{Config, Content, Database, Scheme, Sequencing, Session, params};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For this long no answer may come that shows what is not durable.
const QUIET: Duration = Duration::from_millis(100);
/// An answer that need not wait comes within this time.
const SOON: Duration = Duration::from_secs(20);

/// A way in which an answer shows a statement that is not durable.
struct Way {
    name: &'static str,
    /// Empty where the answer shows durable state only.
    undurable: &'static str,
    /// What the client does before that.
    before: &'static [&'static str],
    asks: &'static [Ask],
    /// The kind of the last message of the answer, and how many there are of it.
    ends: (u8, usize),
    /// A part of the answer.
    shows: &'static str,
}

const fn way(
    name: &'static str,
    undurable: &'static str,
    (before, asks): (&'static [&'static str], &'static [Ask]),
    ends: (u8, usize),
    shows: &'static str,
) -> Way {
    Way { name, undurable, before, asks, ends, shows }
}

const SCHEMA: &str = "
CREATE TABLE r (id INT PRIMARY KEY, v INT NOT NULL, s TEXT);
INSERT INTO r SELECT n, 10, NULL FROM generate_series(1, 60) AS n;
CREATE TABLE many (id INT PRIMARY KEY, v INT NOT NULL);
INSERT INTO many SELECT n, 0 FROM generate_series(1, 12000) AS n;
CREATE TABLE moved (id INT PRIMARY KEY, k INT NOT NULL);
CREATE INDEX moved_k ON moved (k);
INSERT INTO moved SELECT n, n FROM generate_series(1, 60) AS n;
CREATE TABLE still (id INT PRIMARY KEY, v INT NOT NULL);
INSERT INTO still VALUES (1, 0), (2, 5);
CREATE TABLE gone (id INT PRIMARY KEY);
CREATE PROCEDURE take(p_id INT) LANGUAGE plpgsql AS $$
DECLARE who TEXT;
BEGIN
  SELECT s INTO who FROM r WHERE id = p_id;
  IF who IS NOT NULL THEN RAISE EXCEPTION 'seat % is taken by %', p_id, who; END IF;
  UPDATE r SET s = 'probe' WHERE id = p_id;
END $$;
CREATE PROCEDURE tell(p_id INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN SELECT v INTO x FROM r WHERE id = p_id; RAISE NOTICE 'the value is %', x; END $$;
";

const READY: (u8, usize) = (b'Z', 1);

const ROWS: &[Way] = &[
    way(
        "a row",
        "UPDATE r SET v = 91 WHERE id = 1",
        (&[], &[Simple("SELECT v FROM r WHERE id = 1")]),
        READY,
        "91",
    ),
    way(
        "no row by an index",
        "UPDATE moved SET k = 102 WHERE id = 2",
        (&[], &[Simple("SELECT * FROM moved WHERE k = 2")]),
        READY,
        "SELECT 0",
    ),
    way(
        "an error",
        "INSERT INTO r VALUES (103, 1)",
        (&[], &[Simple("INSERT INTO r VALUES (103, 2)")]),
        READY,
        "23505",
    ),
    way(
        "a RAISE",
        "UPDATE r SET s = 'Ada' WHERE id = 4",
        (&[], &[Simple("CALL take(4)")]),
        READY,
        "seat 4 is taken by Ada",
    ),
    way(
        "a row that a call has written",
        "CALL take(20)",
        (&[], &[Simple("SELECT s FROM r WHERE id = 20")]),
        READY,
        "probe",
    ),
    way(
        "a NOTICE",
        "UPDATE r SET v = 81 WHERE id = 21",
        (&[], &[Simple("CALL tell(21)")]),
        READY,
        "the value is 81",
    ),
    way(
        "a NOTICE in a transaction",
        "UPDATE r SET v = 95 WHERE id = 5",
        (&["BEGIN"], &[Simple("CALL tell(5)")]),
        READY,
        "the value is 95",
    ),
    way(
        "a row in a transaction that is rolled back",
        "UPDATE r SET v = 96 WHERE id = 6",
        (&["BEGIN"], &[Simple("SELECT v FROM r WHERE id = 6"), Simple("ROLLBACK")]),
        (b'Z', 2),
        "96",
    ),
    way(
        "several statements of one query",
        "UPDATE r SET v = 97 WHERE id = 7",
        (&[], &[Simple("BEGIN; SELECT v FROM r WHERE id = 7; ROLLBACK")]),
        READY,
        "97",
    ),
    way(
        "an error in a transaction",
        "INSERT INTO r VALUES (108, 1)",
        (&["BEGIN"], &[Simple("INSERT INTO r VALUES (108, 2)")]),
        READY,
        "23505",
    ),
    way(
        "FETCH",
        "UPDATE r SET v = 99 WHERE id = 9",
        (&["BEGIN"], &[Simple("DECLARE c CURSOR FOR SELECT v FROM r WHERE id = 9"), Simple("FETCH c")]),
        (b'Z', 2),
        "99",
    ),
    way(
        "COPY TO",
        "UPDATE r SET v = 80 WHERE id = 10",
        (&[], &[Simple("COPY (SELECT v FROM r WHERE id = 10) TO STDOUT")]),
        READY,
        "80",
    ),
    way(
        "an error of COPY FROM",
        "INSERT INTO r VALUES (111, 1)",
        (&["BEGIN"], &[Simple("COPY r FROM STDIN"), CopyData("111\t1\t\\N\n"), CopyDone]),
        READY,
        "23505",
    ),
    way(
        "EXPLAIN ANALYZE in a transaction",
        "DELETE FROM r WHERE id = 12",
        (&["BEGIN"], &[Simple("EXPLAIN ANALYZE SELECT * FROM r WHERE id = 12")]),
        READY,
        "rows=0",
    ),
    way(
        "a portal that is suspended",
        "UPDATE r SET v = 83 WHERE id = 13",
        (&[], &[Parse("SELECT v FROM r WHERE id IN (13, 14)"), Bind, Execute(1), Flush]),
        (b's', 1),
        "83",
    ),
    way(
        "a pipeline with FLUSH",
        "UPDATE r SET v = 85 WHERE id = 15",
        (&[], &[Parse("SELECT v FROM r WHERE id = 15"), Bind, DescribePortal, Execute(0), Flush]),
        (b'C', 1),
        "85",
    ),
    way(
        "a pipeline with FLUSH in a transaction",
        "UPDATE r SET v = 86 WHERE id = 16",
        (&["BEGIN"], &[Parse("SELECT v FROM r WHERE id = 16"), Bind, Execute(0), Flush]),
        (b'C', 1),
        "86",
    ),
    way(
        "a pipeline with SYNC",
        "UPDATE r SET v = 87 WHERE id = 17",
        (&[], &[Parse("SELECT v FROM r WHERE id = 17"), Bind, Execute(0), Sync]),
        READY,
        "87",
    ),
    way(
        "a count",
        "DELETE FROM r WHERE id = 18",
        (&["BEGIN"], &[Simple("DELETE FROM r WHERE id = 18")]),
        READY,
        "DELETE 0",
    ),
    way(
        "rows that do not fit the buffer",
        "UPDATE many SET v = 71 WHERE id = 1",
        (&["BEGIN"], &[Simple("SELECT v, repeat('x', 200) FROM many")]),
        READY,
        "71",
    ),
    way(
        "rows of a snapshot that do not fit the buffer",
        "UPDATE many SET v = 72 WHERE id = 2",
        (&[], &[Simple("SELECT v, repeat('x', 200) FROM many")]),
        READY,
        "72",
    ),
    way(
        "the arguments of EXECUTE",
        "UPDATE r SET v = 0 WHERE id = 19",
        (&["BEGIN", "PREPARE p(INT) AS SELECT 1 / v FROM r WHERE id = $1"], &[Simple("EXECUTE p(19)")]),
        READY,
        "22012",
    ),
];

const STILL: &[Way] = &[
    way("a durable row", "", (&[], &[Simple("SELECT v FROM still WHERE id = 2")]), READY, "SELECT 1"),
    way("a durable error", "", (&[], &[Simple("SELECT 1 / v FROM still WHERE id = 1")]), READY, "22012"),
    way(
        "a durable row in a transaction",
        "",
        (&["BEGIN"], &[Simple("SELECT v FROM still")]),
        READY,
        "SELECT 2",
    ),
    way(
        "a durable row with FLUSH",
        "",
        (&[], &[Parse("SELECT v FROM still"), Bind, Execute(0), Flush]),
        (b'C', 1),
        "SELECT 2",
    ),
    way(
        "a client that does not want to wait",
        "",
        (&["SET synchronous_commit = off"], &[Simple("SELECT v FROM r WHERE id = 1")]),
        READY,
        "SELECT 1",
    ),
];

const DEFINITIONS: &[Way] = &[
    way(
        "the columns of a new table",
        "CREATE TABLE n1 (id INT PRIMARY KEY, fresh INT)",
        (&[], &[Parse("SELECT * FROM n1"), DescribeStatement, Flush]),
        (b'T', 1),
        "fresh",
    ),
    way(
        "the parameters of a statement",
        "CREATE TABLE n2 (id BIGINT PRIMARY KEY)",
        (&[], &[Parse("SELECT id FROM n2 WHERE id = $1"), DescribeStatement, Flush]),
        (b'T', 1),
        "id",
    ),
    way(
        "a table that is gone",
        "DROP TABLE gone",
        (&[], &[Parse("SELECT * FROM gone"), Flush]),
        (b'E', 1),
        "42P01",
    ),
    way(
        "a plan with a new index",
        "CREATE INDEX r_v ON r (v)",
        (&[], &[Simple("EXPLAIN SELECT * FROM r WHERE v = 1")]),
        READY,
        "r_v",
    ),
    way(
        "a definition in a transaction",
        "CREATE TABLE n3 (id INT PRIMARY KEY)",
        (&["BEGIN"], &[Simple("CREATE TABLE n3 (id INT PRIMARY KEY)")]),
        READY,
        "42P07",
    ),
];

type Variant = (Scheme, Sequencing, Content);

/// A server of a database on a disk.
struct Served {
    port: u16,
    db: Database,
    _runtime: tokio::runtime::Runtime,
}

fn serve(disk: Arc<dyn reprise::disk::Disk>, variant: Variant) -> Served {
    let mut config = Config::default();
    (config.concurrency, config.sequencing, config.content) = variant;
    config.disk = disk;
    (config.memory_ahead_bytes, config.log_file_bytes, config.workers) = (0, 1 << 20, 128);
    let db = Database::open(Path::new("data"), config).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    // Under gsn a thread that waits for a log blocks.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(40).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server::Server::new(server::Options::default(), Arc::default());
    server.open(db.clone());
    runtime.spawn(server.serve(listener));
    Served { port, db, _runtime: runtime }
}

/// Runs the undurable statements, each in a session of its own, until their effects are seen.
fn leave_undurable(sessions: Vec<Session>, ways: &[&Way], closed: &ClosedGate, sequencing: Sequencing) {
    let texts = ways.iter().map(|way| way.undurable).filter(|text| !text.is_empty());
    let writers = texts.zip(sessions).map(|(text, mut session)| {
        std::thread::spawn(move || {
            let prepared = session.prepare(text).unwrap();
            let tried = session.execute(&prepared, params![]);
            tried.map(|_| ()).unwrap_or_else(|error| panic!("{text}: {error}"));
        })
    });
    let writers: Vec<_> = writers.collect();
    if sequencing == Sequencing::Gsn {
        // Workers write their logs themselves, once their rows are visible.
        closed.wait_for(&writers.iter().map(|writer| writer.thread().id()).collect::<Vec<_>>());
    } else {
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
}

/// The names of the ways whose answers came before what they show was durable.
fn early_answers(variant: Variant, ways: &[&'static Way]) -> Vec<&'static str> {
    let (scheme, sequencing, _) = variant;
    let disk = Arc::new(GatedDisk::new(Arc::new(CrashingDisk::default())));
    let served = serve(disk.clone(), variant);
    let mut clients: Vec<Wire> = ways.iter().map(|_| Wire::connect(served.port)).collect();
    // There is a session for each client, so that none is made behind the closed gate.
    for statement in ["BEGIN", "SELECT v FROM still", "ROLLBACK"] {
        clients.iter_mut().for_each(|client| _ = client.run(statement));
    }
    for (client, way) in clients.iter_mut().zip(ways) {
        way.before.iter().for_each(|statement| _ = client.run(statement));
    }
    let sessions = ways.iter().map(|_| served.db.session().unwrap()).collect();
    let closed = disk.close();
    leave_undurable(sessions, ways, &closed, sequencing);
    let waits = |way: &Way| !way.undurable.is_empty();
    // A thread of the server that waits for a log keeps the task that it was to run next: no other client may
    // wait yet.
    for (client, way) in clients.iter_mut().zip(ways).filter(|(_, way)| !waits(way)) {
        client.send(way.asks);
        let begun = Instant::now();
        while !client.has_answer() {
            assert!(begun.elapsed() < SOON, "{scheme}, {sequencing}: {}: no answer", way.name);
            std::thread::yield_now();
        }
    }
    for (client, way) in clients.iter_mut().zip(ways).filter(|(_, way)| waits(way)) {
        client.send(way.asks);
    }
    std::thread::sleep(QUIET);
    let is_early: Vec<bool> = clients.iter().map(Wire::has_answer).collect();
    drop(closed);
    let mut early = Vec::new();
    for ((client, way), is_early) in clients.iter_mut().zip(ways).zip(is_early) {
        let answer = client.read_until(way.ends.0, way.ends.1);
        assert!(answer.contains(way.shows), "{scheme}, {sequencing}: {}: {:.300}", way.name, answer);
        if is_early && waits(way) {
            early.push(way.name);
        }
    }
    early
}

fn check(variant: Variant) {
    let (scheme, sequencing, _) = variant;
    let rows: Vec<&Way> = ROWS.iter().chain(STILL).collect();
    let mut early = early_answers(variant, &rows);
    // Under gsn a definition is durable before any other session sees it.
    if sequencing != Sequencing::Gsn {
        early.extend(early_answers(variant, &DEFINITIONS.iter().collect::<Vec<_>>()));
    }
    assert!(early.is_empty(), "{scheme}, {sequencing}: answered before durable: {early:#?}");
}

#[test]
fn under_epoch() {
    check((Scheme::Optimistic, Sequencing::Epoch, Content::Command));
}

#[test]
fn under_serial() {
    check((Scheme::Optimistic, Sequencing::Serial, Content::Physiological));
}

#[test]
fn under_ssn() {
    check((Scheme::Optimistic, Sequencing::Ssn, Content::Logical));
}

#[test]
fn under_gsn() {
    check((Scheme::Optimistic, Sequencing::Gsn, Content::Command));
}

#[test]
fn under_batches() {
    check((Scheme::DependencyGraph, Sequencing::Epoch, Content::DependencyCoarse));
}

/// An answer whose transaction is lost does not go out, and the client learns why.
#[test]
fn no_answer_goes_out_after_the_log_has_failed() {
    let disk = CrashingDisk::default();
    let served = serve(Arc::new(disk.clone()), (Scheme::Optimistic, Sequencing::Epoch, Content::Command));
    let mut client = Wire::connect(served.port);
    assert!(client.run("INSERT INTO r VALUES (201, 1)").contains("INSERT 0 1"));
    disk.crash_after(disk.calls());
    client.send(&[Simple("INSERT INTO r VALUES (202, 1)")]);
    let answer = client.read_until(b'Z', 1);
    assert!(answer.contains("58030") && answer.ends_with("closed"), "{answer}");
    assert!(!answer.contains("INSERT"), "{answer}");
}
