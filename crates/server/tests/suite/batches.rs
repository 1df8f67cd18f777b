//! Calls in batches (`Scheme::DependencyGraph`): clients that wait for their batch occupy no thread, and a
//! call that is cancelled has not run, or tells its outcome.

use crate::waiting::{Waiting, outcome};
use crate::wire::{Ask, Wire};
use postgres::{Client, NoTls};
use reprise::{Config, Database, Scheme, Session, StartedCall, Value, params};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const COUNTERS: &str = "
CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL);
INSERT INTO counters VALUES (1, 0), (2, 0);
CREATE TABLE numbers (n BIGINT PRIMARY KEY);
CREATE TABLE beside (n BIGINT PRIMARY KEY);
CREATE SEQUENCE given;
CREATE PROCEDURE count_one(p INT) LANGUAGE plpgsql AS $$
BEGIN UPDATE counters SET n = n + 1 WHERE id = p; END $$;
CREATE PROCEDURE keep(p BIGINT, OUT kept BIGINT) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO numbers VALUES (p); kept := p; END $$;
CREATE PROCEDURE forever() LANGUAGE plpgsql AS $$
BEGIN
  LOOP
    UPDATE counters SET n = n WHERE id = 1;
    UPDATE counters SET n = n WHERE id = 2;
  END LOOP;
END $$;";

/// A server with fewer threads than the tests have clients.
struct Served {
    port: u16,
    server: Arc<server::Server>,
    database: Database,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    (config.concurrency, config.memory_ahead_bytes) = (Scheme::DependencyGraph, 0);
    let database = Database::open(folder.path(), config).unwrap();
    database.session().unwrap().execute_script(COUNTERS).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server::Server::new(server::Options::default(), Arc::default());
    server.open(database.clone());
    runtime.spawn(Arc::clone(&server).serve(listener));
    Served { port, server, database, runtime, _folder: folder }
}

impl Served {
    fn connect(&self) -> Client {
        let address = format!("host=127.0.0.1 port={} user=test dbname=test connect_timeout=5", self.port);
        Client::connect(&address, NoTls).unwrap()
    }

    fn counted(&self, counter: i32) -> i64 {
        let mut session = self.database.session().unwrap();
        let counter = i64::from(counter);
        let done = session.execute("SELECT n FROM counters WHERE id = $1", params![counter]).unwrap();
        match done.rows[0][0] {
            Value::Int(n) => n,
            ref other => panic!("{other} is no integer"),
        }
    }
}

/// A flag that is raised when it is dropped, so that a failed test ends.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A call that keeps all later calls of counters waiting.
struct Endless {
    session: Session,
    call: StartedCall,
    flag: Flag,
}

impl Endless {
    fn begin(served: &Served) -> Self {
        let (mut session, flag) = (served.database.session().unwrap(), Arc::new(AtomicBool::new(false)));
        session.cancelled_by(Arc::clone(&flag));
        let call = session.begin_call("forever", params![]).unwrap();
        // Its batch has begun once commits wait for it.
        let mut beside = served.database.session().unwrap();
        for number in 0.. {
            beside.ends_at(Some(Instant::now() + Duration::from_millis(200)));
            match beside.execute("INSERT INTO beside VALUES ($1)", params![number]) {
                Ok(_) => {}
                Err(error) if error.sqlstate() == "57014" => break,
                Err(error) => panic!("{error}"),
            }
        }
        Self { session, call, flag: Flag(flag) }
    }

    fn end(self) {
        let Self { mut session, call, flag } = self;
        drop(flag);
        assert_eq!(session.end_call(call).unwrap_err().sqlstate(), "57014");
    }
}

/// Calls, commits and snapshots that wait for a batch, each of more clients than the server has threads.
#[test]
fn clients_that_wait_for_a_batch_hold_no_thread() {
    let served = serve();
    let mut clients: Vec<_> = (0..51).map(|_| served.connect()).collect();
    // It limits waits for other transactions, which a batch does not have.
    clients[8..11].iter_mut().for_each(|client| client.batch_execute("SET lock_timeout = '1ms'").unwrap());
    let mut third = Wire::connect(served.port);
    let endless = Endless::begin(&served);
    let mut start = |text: &str| Waiting::start(clients.pop().unwrap(), text);
    let calls: Vec<_> = (0..40).map(|_| start("CALL count_one(1)")).collect();
    let patient: Vec<_> = (0..3).map(|_| start("CALL count_one(2)")).collect();
    let beside: Vec<_> = (10..14)
        .map(|n| format!("INSERT INTO numbers VALUES ({n})"))
        .chain((0..4).map(|_| "BEGIN READ ONLY; SELECT n FROM counters; COMMIT".into()))
        .map(|text| start(&text))
        .collect();
    for waiting in calls.iter().take(2).chain(&patient).chain(&beside) {
        assert!(waiting.waits());
        assert!(third.run("SELECT n FROM counters").contains("SELECT 2"));
    }
    assert!(Wire::connect(served.port).run("SELECT n FROM counters").contains("SELECT 2"));
    endless.end();
    for waiting in calls.into_iter().chain(patient).chain(beside) {
        assert_eq!(waiting.end().0, "ok");
    }
    assert_eq!((served.counted(1), served.counted(2)), (40, 3));
    assert_eq!(served.database.statistics().conflicts, 0);
}

/// A call that has not begun is taken back at once, although the batch before it goes on.
#[test]
fn a_call_that_waits_is_cancelled() {
    let served = serve();
    let endless = Endless::begin(&served);
    let client = served.connect();
    let cancel = client.cancel_token();
    let waiting = Waiting::start(client, "CALL count_one(1)");
    assert!(waiting.waits());
    cancel.cancel_query(NoTls).unwrap();
    let (answer, mut client) = waiting.end();
    assert_eq!(answer, "57014");
    client.batch_execute("SET statement_timeout = '70ms'").unwrap();
    assert_eq!(outcome(&mut client, "CALL count_one(1)"), "57014");
    client.batch_execute("SET statement_timeout = 0").unwrap();
    // One that goes.
    let mut gone = Wire::connect(served.port);
    gone.send(&[Ask::Simple("CALL count_one(2)")]);
    drop(gone);
    endless.end();
    assert_eq!(outcome(&mut client, "CALL count_one(1)"), "ok");
    assert_eq!(served.counted(1), 1);
}

/// So is a commit that waits for the end of a batch: of a statement, or of a transaction of several.
#[test]
fn a_commit_that_waits_for_a_batch_is_cancelled() {
    let served = serve();
    let mut clients: Vec<_> = (0..2).map(|_| served.connect()).collect();
    clients[1].batch_execute("BEGIN; INSERT INTO numbers VALUES (2)").unwrap();
    let endless = Endless::begin(&served);
    for (client, text) in clients.into_iter().zip(["INSERT INTO numbers VALUES (1)", "COMMIT"]) {
        let cancel = client.cancel_token();
        let waiting = Waiting::start(client, text);
        assert!(waiting.waits());
        cancel.cancel_query(NoTls).unwrap();
        let (answer, mut client) = waiting.end();
        assert_eq!(answer, "57014", "{text}");
        client.batch_execute("ROLLBACK; SET statement_timeout = '70ms'").unwrap();
        assert_eq!(outcome(&mut client, "INSERT INTO numbers VALUES (3)"), "57014");
    }
    endless.end();
    let mut client = served.connect();
    assert_eq!(client.query("SELECT n FROM numbers", &[]).unwrap().len(), 0);
    assert_eq!(outcome(&mut client, "INSERT INTO numbers VALUES (1), (2), (3)"), "ok");
}

#[test]
fn a_call_that_runs_is_cancelled() {
    let served = serve();
    let client = served.connect();
    let cancel = client.cancel_token();
    let running = Waiting::start(client, "CALL forever()");
    assert!(running.waits());
    cancel.cancel_query(NoTls).unwrap();
    let (answer, mut client) = running.end();
    assert_eq!(answer, "57014");
    client.batch_execute("SET statement_timeout = '70ms'").unwrap();
    assert_eq!(outcome(&mut client, "CALL forever()"), "57014");
    assert_eq!(outcome(&mut client, "CALL count_one(1)"), "ok");
    assert_eq!(served.counted(1), 1);
}

/// A server that stops cancels a call, or acknowledges it.
#[test]
fn a_call_has_its_outcome_when_the_server_stops() {
    let served = serve();
    let mut running = Wire::connect(served.port);
    let mut waiting = Wire::connect(served.port);
    running.send(&[Ask::Simple("CALL forever()")]);
    waiting.send(&[Ask::Simple("CALL count_one(1)")]);
    assert!(served.runtime.block_on(served.server.stop(Duration::from_secs(30))), "a call goes on");
    let said = running.read_until(b'Z', 2);
    assert!(said.contains("57P01") && said.ends_with("closed") && !said.contains("CALL"), "{said}");
    let said = waiting.read_until(b'Z', 2);
    let has_committed = said.contains("CALL");
    assert!(said.contains("57P01") && said.ends_with("closed"), "{said}");
    assert_eq!(served.counted(1), i64::from(has_committed));
}

/// The arguments of a call are evaluated once, although its statement is attempted twice.
#[test]
fn arguments_are_evaluated_once() {
    let served = serve();
    let mut client = served.connect();
    for number in 1..=20_i64 {
        let row = client.query_one("CALL keep(nextval('given'), NULL)", &[]).unwrap();
        assert_eq!(row.get::<_, i64>(0), number);
    }
}
