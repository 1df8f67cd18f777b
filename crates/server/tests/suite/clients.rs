//! A PostgreSQL client talks to the server.

use postgres::error::SqlState;
use postgres::{Client, NoTls, SimpleQueryMessage};
use reprise::{Config, Database, Progress, Scheme, Stage};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A server on a port of its own.
pub struct Server {
    pub port: u16,
    _runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

fn open(folder: &Path, concurrency: Scheme) -> Database {
    let mut config = Config::default();
    (config.concurrency, config.memory_ahead_bytes) = (concurrency, 0);
    Database::open(folder, config).unwrap()
}

fn serving(database: Database) -> Arc<server::Server> {
    let server = server::Server::new(server::Options::default(), Arc::default());
    server.open(database);
    server
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(Config::default())
    }

    pub fn under(concurrency: Scheme) -> Self {
        let mut config = Config::default();
        config.concurrency = concurrency;
        Self::start_with(config)
    }

    /// Servers that run each call at once, and in batches.
    pub fn of_each_kind() -> impl Iterator<Item = Self> {
        [Scheme::Optimistic, Scheme::DependencyGraph].into_iter().map(Self::under)
    }

    pub fn start_with(mut config: Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        config.memory_ahead_bytes = 0;
        let database = Database::open(folder.path(), config).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(serving(database).serve(listener));
        Self { port, _runtime: runtime, _folder: folder }
    }

    pub fn connect(&self) -> Client {
        Client::connect(&format!("host=127.0.0.1 port={} user=test dbname=test", self.port), NoTls).unwrap()
    }
}

const BANK: &str = "
CREATE TABLE account (id INT PRIMARY KEY, owner TEXT NOT NULL, balance NUMERIC(12,2) NOT NULL
    CHECK (balance >= 0));
CREATE PROCEDURE transfer(p_from INT, p_to INT, p_amount NUMERIC) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE account SET balance = balance - p_amount WHERE id = p_from;
  UPDATE account SET balance = balance + p_amount WHERE id = p_to;
  RAISE NOTICE 'moved %', p_amount;
END $$;
CREATE PROCEDURE pay(p_id INT, p_amount NUMERIC) LANGUAGE plpgsql AS $$
BEGIN UPDATE account SET balance = balance + p_amount WHERE id = p_id; END $$;
CREATE FUNCTION balance_of(p_id INT) RETURNS NUMERIC LANGUAGE plpgsql AS $$
DECLARE b NUMERIC; BEGIN SELECT balance INTO b FROM account WHERE id = p_id; RETURN b; END $$;
";

fn bank(server: &Server) -> Client {
    let mut client = server.connect();
    client.batch_execute(BANK).unwrap();
    client.batch_execute("INSERT INTO account VALUES (1, 'Ada', 100), (2, 'Bob', 50.25)").unwrap();
    client
}

fn text(client: &mut Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let rows = client.simple_query(sql).unwrap().into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|own| row.get(own).map(Into::into)).collect())
        }
        _ => None,
    });
    rows.collect()
}

#[test]
fn statements_have_answers() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        let rows = text(&mut client, "SELECT id, owner, balance, balance > 60 FROM account ORDER BY id");
        let row = |values: [&str; 4]| values.map(|value| Some(value.to_owned())).to_vec();
        assert_eq!(rows, [row(["1", "Ada", "100.00", "t"]), row(["2", "Bob", "50.25", "f"])]);
        client.batch_execute("CALL transfer(1, 2, 10)").unwrap();
        assert_eq!(text(&mut client, "SELECT balance_of(1)"), [[Some("90.00".to_owned())]]);
        assert!(text(&mut client, "").is_empty());
        assert_eq!(text(&mut client, "SHOW server_version_num"), [[Some("150000".to_owned())]]);
        let plan = text(&mut client, "EXPLAIN SELECT * FROM account WHERE id = 1");
        assert_eq!(plan, [[Some("Point account using account_pkey".to_owned())]]);
    }
}

#[test]
fn parameters_travel_in_binary() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        let rows = client.query("SELECT id, owner FROM account WHERE id = $1", &[&2i32]).unwrap();
        assert_eq!((rows[0].get::<_, i32>(0), rows[0].get::<_, &str>(1)), (2, "Bob"));
        let changed =
            client.execute("UPDATE account SET owner = $1 WHERE id = $2", &[&"Eve", &2i32]).unwrap();
        assert_eq!(changed, 1);
        client
            .batch_execute(
                "CREATE TABLE kinds (id BIGINT PRIMARY KEY, f DOUBLE PRECISION, b BOOLEAN, y BYTEA,
                     s SMALLINT)",
            )
            .unwrap();
        let insert = client.prepare("INSERT INTO kinds VALUES ($1, $2, $3, $4, $5)").unwrap();
        client.execute(&insert, &[&7i64, &1.5f64, &true, &&b"\x00\xff"[..], &3i16]).unwrap();
        client.execute(&insert, &[&8i64, &None::<f64>, &None::<bool>, &None::<&[u8]>, &None::<i16>]).unwrap();
        let rows = client.query("SELECT * FROM kinds ORDER BY id", &[]).unwrap();
        assert_eq!(rows[0].get::<_, f64>(1), 1.5);
        assert!(rows[0].get::<_, bool>(2));
        assert_eq!(rows[0].get::<_, &[u8]>(3), b"\x00\xff");
        assert_eq!(rows[0].get::<_, i16>(4), 3);
        assert_eq!(rows[1].get::<_, Option<f64>>(1), None);
        let ids: Vec<i32> = vec![1, 2, 9];
        let rows = client.query("SELECT count(*) FROM account WHERE id = ANY ($1)", &[&ids]).unwrap();
        assert_eq!(rows[0].get::<_, i64>(0), 2);
        let row = client.query_one("SELECT array_agg(id ORDER BY id) FROM account", &[]).unwrap();
        assert_eq!(row.get::<_, Vec<i32>>(0), [1, 2]);
    }
}

#[test]
fn a_transaction_is_all_or_nothing() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        let mut other = server.connect();
        let owner = |client: &mut Client| -> String {
            client.query_one("SELECT owner FROM account WHERE id = 1", &[]).unwrap().get(0)
        };
        let mut transaction = client.transaction().unwrap();
        transaction.execute("UPDATE account SET owner = 'Zoe' WHERE id = 1", &[]).unwrap();
        let row = transaction.query_one("SELECT owner FROM account WHERE id = 1", &[]).unwrap();
        assert_eq!(row.get::<_, &str>(0), "Zoe", "it sees what it has written");
        assert_eq!(owner(&mut other), "Ada", "another client does not");
        transaction.rollback().unwrap();
        assert_eq!(owner(&mut client), "Ada");
        let mut transaction = client.transaction().unwrap();
        transaction.execute("UPDATE account SET owner = 'Zoe' WHERE id = 1", &[]).unwrap();
        transaction.commit().unwrap();
        assert_eq!(owner(&mut other), "Zoe");

        let mut transaction = client.transaction().unwrap();
        transaction.execute("INSERT INTO account VALUES (3, 'Cyd', 1)", &[]).unwrap();
        let error = transaction.execute("INSERT INTO account VALUES (1, 'Ada', 1)", &[]).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
        let error = transaction.execute("SELECT 1", &[]).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        drop(transaction);
        assert_eq!(client.query("SELECT 1 FROM account WHERE id = 3", &[]).unwrap().len(), 0);
        let several = "INSERT INTO account VALUES (4, 'Dan', 1); INSERT INTO account VALUES (4, 'Dan', 1)";
        assert!(client.batch_execute(several).is_err());
        assert_eq!(client.query("SELECT 1 FROM account WHERE id = 4", &[]).unwrap().len(), 0);
    }
}

#[test]
fn one_of_two_in_conflict_is_told() {
    for server in Server::of_each_kind() {
        let (mut a, mut b) = (bank(&server), server.connect());
        let mut first = a.transaction().unwrap();
        let mut second = b.transaction().unwrap();
        for transaction in [&mut first, &mut second] {
            let total = transaction.query_one("SELECT sum(balance) FROM account", &[]).unwrap();
            drop(total);
        }
        first.execute("UPDATE account SET balance = balance - 1 WHERE id = 1", &[]).unwrap();
        second.execute("UPDATE account SET balance = balance - 1 WHERE id = 2", &[]).unwrap();
        first.commit().unwrap();
        let error = second.commit().unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
        assert!(error.as_db_error().unwrap().hint().is_some());
    }
}

#[test]
fn errors_say_what_and_where() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        let refused = |client: &mut Client, sql: &str| {
            let error = client.simple_query(sql).unwrap_err();
            let error = error.as_db_error().unwrap();
            let position = match error.position() {
                Some(postgres::error::ErrorPosition::Original(position)) => Some(*position),
                _ => None,
            };
            (error.code().code().to_owned(), position)
        };
        assert_eq!(refused(&mut client, "SELECT nothing FROM account"), ("42703".into(), Some(8)));
        assert_eq!(refused(&mut client, "SELECT 1;\nSELECT nothing FROM account").0, "42703");
        assert_eq!(refused(&mut client, "SELEC 1").0, "42601");

        assert_eq!(refused(&mut client, "UPDATE account SET balance = -1").0, "23514");
        assert_eq!(refused(&mut client, "SELECT 1 / 0").0, "22012");
        let error = client.prepare("SELECT $1 IS NULL, $1 + now()").unwrap_err();
        assert!(error.as_db_error().is_some());
        assert_eq!(text(&mut client, "SELECT 1"), [[Some("1".to_owned())]], "the connection goes on");
    }
}

#[test]
fn prepared_statements_are_explained() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        client.batch_execute("PREPARE p(INT) AS SELECT owner FROM account WHERE id = $1 + 1").unwrap();
        let lines = |client: &mut Client, query: &str| -> Vec<String> {
            text(client, query).into_iter().map(|row| row[0].clone().unwrap()).collect()
        };
        let plan = lines(&mut client, "EXPLAIN (COSTS OFF) EXECUTE p(1 + 1)");
        assert_eq!(plan, lines(&mut client, "EXPLAIN (COSTS OFF) EXECUTE p(7)"));
        assert!(plan.iter().any(|line| line.contains("account")), "{plan:?}");
        let ran = lines(&mut client, " EXPLAIN ANALYZE EXECUTE p(0)");
        assert!(ran[0].contains("rows=1"), "{ran:?}");
        client.batch_execute("PREPARE w AS INSERT INTO account VALUES (80, 'Wanda', 1)").unwrap();
        client.batch_execute("EXPLAIN EXECUTE w; EXPLAIN (ANALYZE, TIMING OFF) EXECUTE w").unwrap();
        assert_eq!(text(&mut client, "SELECT count(*) FROM account WHERE id = 80"), [[Some("1".to_owned())]]);
        for (query, code) in [("EXPLAIN EXECUTE nothing", "26000"), ("EXPLAIN EXECUTE p", "42601")] {
            let error = client.simple_query(query).unwrap_err();
            assert_eq!(error.code().map(SqlState::code), Some(code), "{query}");
        }
    }
}

#[test]
fn execute_is_part_of_the_transaction() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        client.batch_execute("PREPARE p(INT) AS INSERT INTO account VALUES ($1, 'Paula', 1)").unwrap();
        client
            .batch_execute("BEGIN; INSERT INTO account VALUES (71, 'Olga', 1); EXECUTE p(70 + 2); COMMIT")
            .unwrap();
        let ids = text(&mut client, "SELECT id FROM account WHERE id > 70 ORDER BY id");
        assert_eq!(ids, [[Some("71".to_owned())], [Some("72".to_owned())]]);
        let error = client
            .batch_execute("BEGIN; INSERT INTO account VALUES (73, 'x', 1); EXECUTE p(1 / 0)")
            .unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
        let error = client.batch_execute("SELECT 1").unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
        client.batch_execute("ROLLBACK").unwrap();
        assert_eq!(text(&mut client, "SELECT count(*) FROM account WHERE id > 70"), [[Some("2".to_owned())]]);
    }
}

#[test]
fn a_client_that_vanishes_leaves_nothing() {
    for server in Server::of_each_kind() {
        let mut client = bank(&server);
        let mut other = server.connect();
        other.batch_execute("BEGIN; INSERT INTO account VALUES (9, 'Gone', 1)").unwrap();
        drop(other);
        // Its session is free again, and its row no longer exists.
        let inserted = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            client.execute("INSERT INTO account VALUES (9, 'Here', 1)", &[]).is_ok()
        });
        assert!(inserted);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    for concurrency in [Scheme::Optimistic, Scheme::DependencyGraph] {
        acknowledged_over_restarts(concurrency);
    }
}

fn acknowledged_over_restarts(concurrency: Scheme) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for round in 0..3i32 {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = runtime.spawn(serving(open(folder.path(), concurrency)).serve(listener));
        let settings = format!("host=127.0.0.1 port={port} user=test");
        let mut client = Client::connect(&settings, NoTls).unwrap();
        if round == 0 {
            client.batch_execute(BANK).unwrap();
        }
        let row = client.query_one("SELECT count(*), sum(balance)::int FROM account", &[]).unwrap();
        assert_eq!(row.get::<_, i64>(0), i64::from(round) * 2);
        assert_eq!(row.get::<_, Option<i32>>(1).unwrap_or_default(), round * 3);
        let mut transaction = client.transaction().unwrap();
        for id in [round * 2, round * 2 + 1] {
            let insert = "INSERT INTO account VALUES ($1, 'x', 1)";
            transaction.execute(insert, &[&id]).unwrap();
        }
        transaction.commit().unwrap();
        client.execute("CALL pay($1, 1)", &[&(round * 2)]).unwrap();
        drop(client);
        serving.abort();
        // The folder is free once the last session is gone.
        while Database::open(folder.path(), Config::default()).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn psql_works() {
    let Ok(version) = Command::new("psql").arg("--version").stdin(Stdio::null()).output() else {
        eprintln!("skipped: psql is not installed");
        return;
    };
    assert!(version.status.success());
    for server in Server::of_each_kind() {
        drop(bank(&server));
        let port = server.port.to_string();
        let output = Command::new("psql")
            .args(["-h", "127.0.0.1", "-p", &port, "-U", "test", "-At", "-v", "ON_ERROR_STOP=1", "test"])
            .args(["-c", "INSERT INTO account SELECT n, 'x', 0 FROM generate_series(8, 9) AS n"])
            .args(["-c", "DELETE FROM account WHERE id > 7"])
            .args(["-c", "CALL transfer(2, 1, 0.25)", "-c", "SELECT * FROM account ORDER BY id"])
            .args([
                "-c",
                "BEGIN",
                "-c",
                "DELETE FROM account",
                "-c",
                "ROLLBACK",
                "-c",
                "SELECT count(*) FROM account",
            ])
            .output()
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines,
            [
                "INSERT 0 2",
                "DELETE 2",
                "CALL",
                "1|Ada|100.25",
                "2|Bob|50.00",
                "BEGIN",
                "DELETE 2",
                "ROLLBACK",
                "2"
            ],
            "{err}"
        );
        assert_eq!(err.trim(), "NOTICE:  moved 0.25");
    }
}

#[test]
fn who_comes_during_recovery_is_told_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let parameters = format!("host=127.0.0.1 port={} user=test", listener.local_addr().unwrap().port());
    let progress = Arc::new(Progress::default());
    progress.begin(Stage::Replay, 7);
    progress.set_done(3);
    let server = server::Server::new(server::Options::default(), progress);
    runtime.spawn(Arc::clone(&server).serve(listener));
    let error = Client::connect(&parameters, NoTls).err().unwrap();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code(), &SqlState::CANNOT_CONNECT_NOW);
    assert_eq!(error.detail(), Some("replaying transactions: 3 of 7"));
    server.open(open(folder.path(), Scheme::Optimistic));
    Client::connect(&parameters, NoTls).unwrap().simple_query("SELECT 1").unwrap();
}
