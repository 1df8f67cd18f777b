//! Statements that want more memory than there is end with an error; the server and all other clients go on.

use crate::common::Serving;
use crate::under_load::{ask, greet, read_until_ready};
use postgres::Client;
use std::path::Path;
use std::time::{Duration, Instant};

/// Kibibytes of address space that a server of these tests can have.
const ADDRESS_SPACE: u64 = 6 << 20;
/// Kibibytes that the server may keep of what a refused statement had.
const KEPT: u64 = 48 << 10;
/// How long the server may take to answer behind a refused statement.
const SOON: Duration = Duration::from_secs(1);

const DEFINITIONS: &str = "
CREATE TABLE one (id INT PRIMARY KEY, t TEXT, v INT);
CREATE TABLE wide (id INT PRIMARY KEY, t TEXT, v INT);
INSERT INTO one VALUES (1, 'x', 1);
INSERT INTO wide SELECT n, repeat('x', 100), 0 FROM generate_series(1, 50000) AS n;
CREATE FUNCTION series(n BIGINT) RETURNS SETOF BIGINT LANGUAGE plpgsql AS $$
DECLARE i BIGINT := 0;
BEGIN WHILE i < n LOOP i := i + 1; RETURN NEXT i; END LOOP; RETURN; END $$;
CREATE FUNCTION grown_text() RETURNS INT LANGUAGE plpgsql AS $$
DECLARE t TEXT := 'x';
BEGIN WHILE true LOOP t := t || t; END LOOP; RETURN length(t); END $$;
CREATE FUNCTION longer_text() RETURNS INT LANGUAGE plpgsql AS $$
DECLARE t TEXT := ''; u TEXT := '';
BEGIN WHILE true LOOP t := t || repeat('y', 1000); u := u || repeat('z', 1000); END LOOP;
    RETURN length(t); END $$;
CREATE FUNCTION grown_array() RETURNS INT LANGUAGE plpgsql AS $$
DECLARE a BIGINT[] := ARRAY[1];
BEGIN WHILE true LOOP a := array_append(a, 1); END LOOP; RETURN cardinality(a); END $$;
CREATE FUNCTION kept_rows() RETURNS INT LANGUAGE plpgsql AS $$
DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 1000000000) AS n;
BEGIN OPEN c; CLOSE c; RETURN 1; END $$;
CREATE FUNCTION executed() RETURNS INT LANGUAGE plpgsql AS $$
DECLARE i BIGINT;
BEGIN EXECUTE 'SELECT n FROM generate_series(1, 1000000000) AS n' INTO i; RETURN i; END $$;
";

/// Statements that want more than any limit. What runs without an end is refused where memory ends; 54000 is
/// what PostgreSQL says of values that are too long.
const GREEDY: &[(&str, &str)] = &[
    ("53200", "SELECT array_agg(n) FROM generate_series(1, 1000000000) AS n"),
    ("53200", "SELECT string_agg(n::text, ',') FROM generate_series(1, 1000000000) AS n"),
    ("53200", "SELECT array_agg(repeat('x', 1000)) FROM generate_series(1, 1000000000) AS n"),
    ("53200", "SELECT n, count(*) FROM generate_series(1, 1000000000) AS n GROUP BY n"),
    ("53200", "SELECT n::text, sum(n) FROM generate_series(1, 1000000000) AS n GROUP BY n::text"),
    ("53200", "SELECT count(DISTINCT n) FROM generate_series(1, 1000000000) AS n"),
    ("53200", "SELECT count(*) FROM (SELECT DISTINCT n FROM generate_series(1, 1000000000) AS n) AS d"),
    ("53200", "SELECT n FROM generate_series(1, 1000000000) AS n ORDER BY -n"),
    (
        "53200",
        "SELECT count(*) FROM generate_series(1, 10) AS m JOIN generate_series(1, 1000000000) AS n ON m = n",
    ),
    (
        "53200",
        "SELECT count(*) FROM (SELECT n FROM generate_series(1, 10) AS n INTERSECT
         SELECT n FROM generate_series(1, 1000000000) AS n) AS common",
    ),
    ("53200", "WITH a AS (SELECT n FROM generate_series(1, 1000000000) AS n) SELECT count(*) FROM a, a AS b"),
    ("53200", "SELECT cardinality(ARRAY(SELECT n FROM generate_series(1, 1000000000) AS n))"),
    ("53200", "SELECT 1 WHERE 0 NOT IN (SELECT n FROM generate_series(1, 1000000000) AS n)"),
    ("53200", "SELECT length(repeat('x', 200000000) || repeat('y', 200000000))"),
    ("53200", "SELECT length(concat(repeat('x', 60000000), repeat('y', 60000000), repeat('z', 60000000)))"),
    ("53200", "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 1000)))"),
    ("54000", "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 2000)))"),
    ("53200", "SELECT length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 1000), 'g'))"),
    ("53200", "SELECT length(upper(repeat('x', 150000000)))"),
    ("54000", "SELECT repeat('x', 2000000000)"),
    (
        "53200",
        "SELECT c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c
         FROM (SELECT 'x'::char(10000000) AS c) AS s",
    ),
    ("53200", "SELECT t, t, t, t, t, t FROM (SELECT repeat('x', 50000000) AS t) AS s"),
    ("54000", "SELECT lpad('x', 2000000000, 'yz')"),
    ("53200", "SELECT count(*) FROM series(1000000000)"),
    ("53200", "SELECT grown_text()"),
    ("53200", "SELECT longer_text()"),
    ("53200", "SELECT grown_array()"),
    ("53200", "SELECT kept_rows()"),
    ("53200", "SELECT executed()"),
    ("53200", "INSERT INTO one SELECT n, 'x', 1 FROM generate_series(2, 1000000000) AS n"),
    ("53200", "UPDATE wide SET t = repeat('y', 10000)"),
    ("53200", "BEGIN; DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 1000000000) AS n; COMMIT"),
    ("53200", "DO $$ BEGIN WHILE true LOOP RAISE NOTICE '%', repeat('x', 1000000); END LOOP; END $$"),
];

fn start(data: &Path, flags: &[&str]) -> Serving {
    Serving::start_within(ADDRESS_SPACE, data, flags)
}

/// The SQLSTATE that ends a statement; `00000` where none does.
fn sqlstate(client: &mut Client, statement: &str) -> String {
    match client.batch_execute(statement) {
        Ok(()) => "00000".into(),
        Err(error) => error.as_db_error().map_or(error.to_string(), |error| error.code().code().to_owned()),
    }
}

/// Waits until a server is back at this many kibibytes; returns how many it has then.
fn settled(server: &Serving, wanted: u64, within: Duration) -> u64 {
    let begun = Instant::now();
    while server.memory() > wanted && begun.elapsed() < within {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.memory()
}

#[test]
fn greedy_statements_are_refused_and_give_their_memory_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--memory-gib", "0.25"]);
    let mut other = server.connect();
    other.batch_execute(DEFINITIONS).unwrap();
    let before = server.memory();
    let mut wrong = Vec::new();
    for (expected, statement) in GREEDY {
        let mut client = server.connect();
        let begun = Instant::now();
        let found = sqlstate(&mut client, statement);
        let took = begun.elapsed();
        let begun = Instant::now();
        other.batch_execute("SELECT 1").unwrap();
        let answered = begun.elapsed();
        let (peak, after) = (server.peak(), settled(&server, before + KEPT, SOON));
        println!("{found} {took:?}, {answered:?}, {peak} kB, {before} -> {after} kB: {statement}");
        if found != *expected || answered > SOON || after > before + KEPT || peak > before + (768 << 10) {
            wrong.push(format!("{found}, {peak} kB, {before} -> {after} kB: {statement}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(sqlstate(&mut other, "INSERT INTO one VALUES (2, 'y', 2)"), "00000");
    assert_eq!(other.query("SELECT * FROM one", &[]).unwrap().len(), 2);
}

/// Statements that never end by themselves.
const ENDLESS: &[&str] = &[
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS n",
    "SELECT n FROM generate_series(1, 1000000000000) AS n WHERE n < 0",
    "SELECT n FROM generate_series(1, 1000000000000) AS n",
    "SELECT count(*) FROM wide AS a, wide AS b, wide AS c",
    "INSERT INTO one SELECT n, 'x', 1 FROM generate_series(2, 1000000000000) AS n WHERE n < 0",
    "DO $$ BEGIN WHILE true LOOP END LOOP; END $$",
    "CALL for_ever()",
];

#[test]
fn a_client_that_has_gone_ends_its_statement() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--memory-gib", "0.25"]);
    let mut client = server.connect();
    client.batch_execute(DEFINITIONS).unwrap();
    let for_ever = "CREATE PROCEDURE for_ever() LANGUAGE plpgsql AS $$
        BEGIN WHILE true LOOP UPDATE one SET v = v + 1 WHERE id = 1; END LOOP; END $$";
    client.batch_execute(for_ever).unwrap();
    for (place, statement) in ENDLESS.iter().enumerate() {
        let mut socket = greet(&server);
        ask(&mut socket, statement);
        std::thread::sleep(Duration::from_millis(300));
        drop(socket);
        // Definitions wait until no transaction runs.
        let begun = Instant::now();
        let made = sqlstate(&mut client, &format!("CREATE TABLE made_{place} (id INT PRIMARY KEY)"));
        assert_eq!(made, "00000", "{statement}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{statement}: {:?}", begun.elapsed());
    }
    let is_patient = "SET client_connection_check_interval = 0; SELECT 1";
    assert_eq!(sqlstate(&mut client, is_patient), "00000");
    // A client that only waits for its answer is still there.
    client.batch_execute("SELECT count(*) FROM generate_series(1, 20000000) AS n").unwrap();
}

#[test]
fn readers_that_stall_stay_within_the_limit() {
    const READERS: usize = 700;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--memory-gib", "0.25"]);
    let mut client = server.connect();
    client.batch_execute(DEFINITIONS).unwrap();
    client.batch_execute("UPDATE wide SET t = repeat('y', 300)").unwrap();
    server.peak();
    let mut readers: Vec<_> = (0..READERS).map(|_| greet(&server)).collect();
    for reader in &mut readers {
        ask(reader, "SELECT t, t, t FROM wide");
    }
    // Other clients go on.
    for round in 0..20 {
        std::thread::sleep(Duration::from_millis(100));
        client.execute("UPDATE wide SET v = v + 1 WHERE id = $1", &[&round]).unwrap();
    }
    let peak = server.peak();
    // The limit, and what the server and the threads of 256 statements have beside it. Their results together
    // are 31 GB.
    assert!(peak < 768 << 10, "the server has had {peak} kB");
    // Those that stall make room for one that reads.
    let mut reader = greet(&server);
    ask(&mut reader, "SELECT t, t, t FROM wide");
    assert_eq!(read_until_ready(&mut reader), 50_000);
}

#[test]
fn clients_set_the_limit_of_their_statements() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--memory-gib", "0.25"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let shown = |client: &mut Client| -> String { client.query_one("SHOW work_mem", &[]).unwrap().get(0) };
    assert_eq!(shown(&mut client), "64MB");
    let sort = "SELECT n FROM generate_series(1, 100000) AS n ORDER BY -n";
    client.batch_execute(sort).unwrap();
    client.batch_execute("SET work_mem = '2MB'").unwrap();
    let error = client.batch_execute(sort).unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "53200");
    assert!(error.hint().unwrap().contains("work_mem"), "{error:?}");
    other.batch_execute(sort).unwrap();
    client.batch_execute("BEGIN; SET LOCAL work_mem = '32MB'").unwrap();
    client.batch_execute(sort).unwrap();
    client.batch_execute("COMMIT").unwrap();
    assert_eq!(shown(&mut client), "2MB");
    client.batch_execute("RESET work_mem").unwrap();
    assert_eq!(shown(&mut client), "64MB");
    client.batch_execute(sort).unwrap();
}

#[test]
fn texts_and_values_have_room_or_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--memory-gib", "0.25"]);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, t TEXT)").unwrap();
    server.peak();
    let rows: Vec<String> = (0..1_000_000).map(|n| format!("({n}, 'x')")).collect();
    let statement = format!("INSERT INTO t VALUES {}", rows.join(", "));
    let sum = format!("SELECT 1{}", " + 1".repeat(4_000_000));
    let long = format!("SELECT length('{}')", "x".repeat(400 << 20));
    for text in [&statement, &sum, &long] {
        let mut client = server.connect();
        let begun = Instant::now();
        let found = sqlstate(&mut client, text);
        println!("{found} {:?}, {} kB: {} bytes", begun.elapsed(), server.peak(), text.len());
        assert!(["53200", "54001"].contains(&&*found), "{found}");
    }
    let value = "x".repeat(100 << 20);
    let mut other = server.connect();
    let error = other.execute("INSERT INTO t VALUES (1, $1)", &[&value]).unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "53200");
    let mut copying = server.connect();
    let mut copy = copying.copy_in("COPY t FROM STDIN").unwrap();
    let line = format!("1\t{}", "x".repeat(1 << 20));
    for _ in 0..200 {
        std::io::Write::write_all(&mut copy, line.as_bytes()).unwrap();
    }
    let error = copy.finish().unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "53200");
    client.batch_execute("INSERT INTO t VALUES (1, 'y')").unwrap();
    let begun = Instant::now();
    while server.memory() >= 200 << 10 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} kB", server.memory());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server with little memory, and what it may take.
struct Small {
    server: Serving,
    /// A client that must be served whatever other clients do.
    other: Client,
    before: u64,
    _folder: tempfile::TempDir,
}

impl Small {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path(), &["--memory-gib", "0.25"]);
        let mut other = server.connect();
        other.batch_execute("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
        let before = server.memory();
        Self { server, other, before, _folder: folder }
    }

    /// Asserts that the server stayed within its limit, serves, and has given its memory back.
    fn check(&mut self, what: &str) {
        const MOST: u64 = 640 << 10;
        self.other.batch_execute("UPDATE t SET id = id + 1").unwrap();
        let (before, most_after) = (self.before, self.before + KEPT);
        let (peak, after) = (self.server.peak(), settled(&self.server, most_after, 3 * SOON));
        println!("{what}: {peak} kB, {before} -> {after} kB");
        assert!(peak < MOST && after < most_after, "{what}: {peak} kB, {before} -> {after} kB");
    }
}

fn is_refused(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| error.code().code() == "53200")
}

/// Prepared statements, and portals with their parameters.
#[test]
fn what_clients_keep_stays_within_the_limit() {
    let mut small = Small::start();
    let mut client = small.server.connect();
    let mut kept = Vec::new();
    let error = loop {
        let text = format!("SELECT '{}', {}", "x".repeat(100_000), kept.len());
        match client.prepare(&text) {
            Ok(statement) => kept.push(statement),
            Err(error) => break error,
        }
        assert!(kept.len() < 10_000, "all of them have room");
    };
    assert!(is_refused(&error), "{error}");
    drop((kept, client));
    small.check("prepared statements");

    let mut client = small.server.connect();
    let mut transaction = client.transaction().unwrap();
    let statement = transaction.prepare("SELECT $1::text").unwrap();
    let (value, mut kept) = ("x".repeat(1 << 20), Vec::new());
    let error = loop {
        match transaction.bind(&statement, &[&value]) {
            Ok(portal) => kept.push(portal),
            Err(error) => break error,
        }
        assert!(kept.len() < 1000, "all of them have room");
    };
    assert!(is_refused(&error), "{error}");
    drop((kept, transaction));
    drop(client);
    small.check("portals");
}

/// The plans and the parameters of many clients at one time.
#[test]
fn what_clients_plan_stays_within_the_limit() {
    let mut small = Small::start();
    let values: Vec<String> = (0..150_000).map(|n| format!("({n})")).collect();
    let text = format!("SELECT count(*) FROM (VALUES {}) AS v", values.join(", "));
    let clients: Vec<_> = (0..24).map(|_| small.server.connect()).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            let text = &text;
            scope.spawn(move || {
                client.batch_execute(text).map_err(|error| assert!(is_refused(&error), "{error}"))
            });
        }
    });
    small.check("plans");

    let clients: Vec<_> = (0..8).map(|_| small.server.connect()).collect();
    let numbers: Vec<i32> = (0..1_000_000).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            let numbers = &numbers;
            scope.spawn(move || {
                match client.query_one("SELECT count(*) FROM unnest($1::int[]) AS n", &[numbers]) {
                    Ok(row) => assert_eq!(row.get::<_, i64>(0), 1_000_000),
                    Err(error) => assert!(is_refused(&error), "{error}"),
                }
            });
        }
    });
    small.check("arrays");
}

/// What a server held when it was killed is there again under the same limit.
#[test]
fn a_full_server_starts_again_with_the_same_limit() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--memory-gib", "0.125"];
    let mut counted = None;
    for round in 0..3 {
        let server = start(folder.path(), &flags);
        let mut client = server.connect();
        if round == 0 {
            client
                .batch_execute("CREATE TABLE t (id INT PRIMARY KEY, t TEXT); CREATE INDEX t_t ON t (t)")
                .unwrap();
        }
        let count =
            |client: &mut Client| -> i64 { client.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0) };
        let before = count(&mut client);
        assert!(counted.is_none_or(|counted| counted == before), "{counted:?}, {before}");
        let insert = "INSERT INTO t SELECT n, n::text || repeat('x', 200)
                      FROM generate_series($1::int, $1 + 499) AS n";
        let insert = client.prepare(insert).unwrap();
        let next = client.query_one("SELECT coalesce(max(id), 0) + 1 FROM t", &[]).unwrap();
        let full = (next.get(0)..).step_by(500).find_map(|id: i32| client.execute(&insert, &[&id]).err());
        assert_eq!(full.unwrap().as_db_error().unwrap().code().code(), "53200");
        sqlstate(&mut client, &format!("DELETE FROM t WHERE id % 10 = {round}"));
        sqlstate(&mut client, "UPDATE t SET t = t || 'longer' WHERE id % 7 = 0");
        counted = Some(count(&mut client));
        server.signal("-KILL");
    }
}
