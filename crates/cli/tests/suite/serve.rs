//! The README's tour of the server, with a real kill in it.

use crate::common::{Serving, get};
use postgres::{Client, NoTls};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the README shows in a language, below a heading.
fn shown(heading: &str, language: &str) -> Vec<&'static str> {
    let readme = include_str!("../../../../README.md");
    let (_, section) = readme.split_once(heading).unwrap_or_else(|| panic!("README has no {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let fence = format!("```{language}\n");
    section.split(&fence).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

#[test]
fn the_tour_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(&data);
    assert!(server.recovery.contains("nothing to recover"), "{}", server.recovery);
    let mut client = server.connect();
    let [before, after] = shown("## Over the wire", "sql")[..] else { panic!("the tour has two parts") };
    client.batch_execute(before).unwrap();
    let error = client.execute("CALL reserve(7, 'Bob')", &[]).unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "seat 7 is taken");
    server.signal("-KILL");

    let server = Serving::start(&data);
    assert!(server.recovery.contains("nothing acknowledged is missing"), "{}", server.recovery);
    let mut client = server.connect();
    let rows = client.query(after.trim(), &[]).unwrap();
    let seats: Vec<(i32, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(seats, [(7, "Ada".to_owned())]);
    let free: i64 = client.query_one("SELECT count(*) FROM seat WHERE guest IS NULL", &[]).unwrap().get(0);
    assert_eq!(free, 99);
    drop(client);
    let said = server.signal("-TERM");
    assert!(said.last().unwrap().ends_with("stopped after a checkpoint"), "{said:?}");
}

/// The first row of a query in simple protocol, as text; or the SQLSTATE and where in the text the error is.
fn answer(client: &mut Client, text: &str) -> String {
    let shown = |row: &postgres::SimpleQueryRow| {
        (0..row.len()).map(|place| row.get(place).unwrap_or("NULL").to_owned()).collect::<Vec<_>>().join(" ")
    };
    match client.simple_query(text) {
        Ok(messages) => messages
            .iter()
            .find_map(|message| match message {
                postgres::SimpleQueryMessage::Row(row) => Some(shown(row)),
                _ => None,
            })
            .unwrap_or_default(),
        Err(error) => {
            let error = error.as_db_error().unwrap();
            let place = match error.position() {
                Some(postgres::error::ErrorPosition::Original(place)) => format!(" at {place}"),
                _ => String::new(),
            };
            format!("{}{place}", error.code().code())
        }
    }
}

/// Statements that differ only in their integers share a plan. Clients see no difference.
#[test]
fn plans_of_simple_queries_follow_the_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path());
    let (mut client, mut other) = (server.connect(), server.connect());
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, a SMALLINT, b TEXT, c NUMERIC(6, 2))").unwrap();
    for id in 1..=3 {
        assert_eq!(answer(&mut client, &format!("INSERT INTO t VALUES ({id}, {id}0, '{id}', {id})")), "");
    }
    assert_eq!(answer(&mut client, "INSERT INTO t VALUES (4, 40000, '4', 4)"), "22003");
    assert_eq!(answer(&mut client, "INSERT INTO t VALUES (4, 4, '4', 40000)"), "22003");
    assert_eq!(answer(&mut client, "INSERT INTO t VALUES (1, 4, '4', 4)"), "23505");
    for (id, expected) in [(1, "1 10 1 1.00"), (2, "2 20 2 2.00"), (9, ""), (3_000_000_000i64, "")] {
        assert_eq!(answer(&mut client, &format!("SELECT * FROM t WHERE id = {id}")), expected);
        assert_eq!(answer(&mut other, &format!("SELECT * FROM t WHERE id = {id}")), expected);
    }
    assert_eq!(answer(&mut client, "SELECT b FROM t WHERE id = 12345 AND b = 5"), "42883 at 38");
    assert_eq!(answer(&mut client, "SELECT a + 1, c - 1, -2 FROM t WHERE a > 15 AND c < 3"), "21 1.00 -2");
    client.batch_execute("ALTER TABLE t ADD COLUMN d BIGINT DEFAULT 5; ALTER TABLE t DROP COLUMN b").unwrap();
    assert_eq!(answer(&mut other, "SELECT * FROM t WHERE id = 1"), "1 10 1.00 5");
    // Within a transaction that changes definitions they are its own.
    client.batch_execute("BEGIN; CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)").unwrap();
    assert_eq!(answer(&mut client, "SELECT * FROM u WHERE id = 1"), "1");
    assert_eq!(answer(&mut other, "SELECT * FROM u WHERE id = 1"), "42P01 at 15");
    client.batch_execute("ROLLBACK").unwrap();
    assert_eq!(answer(&mut client, "SELECT * FROM u WHERE id = 1"), "42P01 at 15");
    assert_eq!(answer(&mut client, "SELECT * FROM t WHERE id = 3"), "3 30 3.00 5");
    client.batch_execute("DROP TABLE t; CREATE TABLE t (id TEXT)").unwrap();
    assert_eq!(answer(&mut other, "SELECT * FROM t WHERE id = 3"), "42883 at 23");
}

#[test]
fn it_is_watched_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--http", "127.0.0.1:0", "--messages", "json", "--message-level", "debug"];
    let mut process = Command::new(env!("CARGO_BIN_EXE_reprise"))
        .args(["serve", "--listen", "127.0.0.1:0", "--memory-ahead-mib", "0", "--data"])
        .arg(folder.path())
        .args(flags)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut messages = BufReader::new(process.stderr.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let http = messages.next().unwrap()["address"].as_str().unwrap().to_owned();
    let address = messages.find_map(|message| message["address"].as_str().map(str::to_owned)).unwrap();
    let port = address.rsplit(':').next().unwrap();
    let mut client = Client::connect(&format!("host=127.0.0.1 port={port} user=me"), NoTls).unwrap();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    for id in 0..10 {
        client.execute("INSERT INTO t VALUES ($1)", &[&id]).unwrap();
    }
    client.execute("INSERT INTO t VALUES (0)", &[]).unwrap_err();
    for path in ["/health", "/ready"] {
        assert!(get(&http, path).starts_with("HTTP/1.1 200 OK"), "{path}");
    }
    let page = get(&http, "/");
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("<title>Reprise</title>"), "{page}");
    let state = get(&http, "/state.json");
    let (_, state) = state.split_once("\r\n\r\n").unwrap();
    let state: serde_json::Value = serde_json::from_str(state).unwrap();
    assert_eq!((&state["state"], &state["clients"]), (&"ready".into(), &1.into()));
    let shown = get(&http, "/metrics");
    for line in [
        "reprise_statement_seconds_count{statement=\"INSERT\"} 10",
        "reprise_errors_total 1",
        "reprise_connections 1",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    let flushes = shown.lines().find_map(|line| line.strip_prefix("reprise_log_flushes_total ")).unwrap();
    assert!(flushes.parse::<u64>().unwrap() >= 10, "{flushes}");
    drop(client);
    let told = messages.find(|message| message["sqlstate"] == "23505").unwrap();
    assert_eq!(told["level"], "DEBUG");
    process.kill().unwrap();
    process.wait().unwrap();
}

/// After a kill it serves clients before all rows are back, and says how far it is in a view, over HTTP and
/// in its messages.
#[test]
fn it_serves_while_it_recovers() {
    let folder = tempfile::tempdir().unwrap();
    for log in ["command", "physical"] {
        let data = folder.path().join(log);
        let server = Serving::start_with(&data, &["--log", log]);
        let mut client = server.connect();
        // A physical log takes definitions and rows in separate transactions only.
        for statement in [
            "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL)",
            "INSERT INTO t SELECT n, 0 FROM generate_series(1, 50000) AS n",
            "CHECKPOINT",
        ] {
            client.batch_execute(statement).unwrap();
        }
        for id in 1..200 {
            client.execute("UPDATE t SET n = n + 1 WHERE id % 200 = $1", &[&id]).unwrap();
        }
        drop(server.signal("-KILL"));
        let how = ["--log", log, "--on-demand", "on", "--drain-threads", "1", "--http", "127.0.0.1:0"];
        let server = Serving::start_with(&data, &how);
        let mut client = server.connect();
        client.execute("UPDATE t SET n = n + 1 WHERE id = 40007", &[]).unwrap();
        let n: i32 = client.query_one("SELECT n FROM t WHERE id = 40007", &[]).unwrap().get(0);
        assert_eq!(n, 2, "{log}");
        let recovery = client.prepare("SELECT * FROM reprise_recovery").unwrap();
        let row = loop {
            let row = client.query_one(&recovery, &[]).unwrap();
            if row.get::<_, &str>("state") == "recovered" {
                break row;
            }
        };
        assert_eq!(row.get::<_, i64>("bytes_left"), 0, "{log}");
        let [open, first, recovered] =
            ["open_s", "first_commit_s", "recovered_s"].map(|name| row.get::<_, f64>(name));
        assert!(0.0 < open && open < first && open < recovered, "{log}: {row:?}");
        let sum: i64 = client.query_one("SELECT sum(n) FROM t", &[]).unwrap().get(0);
        assert_eq!(sum, 199 * 250 + 1, "{log}");
        let shown = get(server.http.as_deref().unwrap(), "/metrics");
        for moment in ["open", "first commit", "recovered"] {
            let start = format!("reprise_recovery_seconds{{moment=\"{moment}\"}} ");
            let seconds = shown.lines().find_map(|line| line.strip_prefix(&start));
            let seconds: f64 = seconds.unwrap_or_else(|| panic!("{start} in {shown}")).parse().unwrap();
            assert!(seconds > 0.0, "{start}{seconds}");
        }
        assert!(shown.contains("reprise_recovery_bytes 0"), "{shown}");
        let messages = [server.said.clone(), server.signal("-TERM")].concat();
        let is_end = |line: &&String| line.contains("all rows are recovered, ");
        assert_eq!(messages.iter().filter(is_end).count(), 1, "{messages:?}");
    }
}

#[test]
fn workloads_are_called_over_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let url = format!("host=127.0.0.1 port={} user=me", server.port);
    let run = |workload: &str, url: &str| {
        Command::new(env!("CARGO_BIN_EXE_reprise"))
            .args([
                "bench",
                "server",
                workload,
                "--url",
                url,
                "--load",
                "--workers",
                "2",
                "--seconds",
                "0.5",
                "--json",
            ])
            .output()
            .unwrap()
    };
    let output = run("smallbank", &url);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["committed"].as_u64().unwrap() > 0, "{report}");
    assert!(report["latency_us"]["p99"].as_u64().unwrap() > 0, "{report}");
    let refused = run("smallbank", "host=127.0.0.1 port=1 user=me");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot connect to host=127.0.0.1 port=1"));
}

#[test]
fn its_socket_is_there_until_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let sockets = folder.path().to_str().unwrap();
    let server = Serving::start_with(&folder.path().join("data"), &["--socket", sockets]);
    let path = folder.path().join(format!(".s.PGSQL.{}", server.port));
    let address = format!("host={sockets} port={} user=me", server.port);
    Client::connect(&address, NoTls).unwrap().batch_execute("SELECT 1").unwrap();
    assert!(path.exists());
    drop(server.signal("-TERM"));
    assert!(!path.exists());
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("say who may come with --users"));
}

/// A line of a file of users.
fn user_line(name: &str, password: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let mut process =
        command.args(["user", name]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap()
}

fn write_users(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_of_users_is_its_owners_and_holds_no_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let flags = ["--config-check", "--data", "d", "--users", users.to_str().unwrap()];
    let line = user_line("ada", "correct horse");
    write_users(&users, &line, 0o600);
    checked(&[], &flags).unwrap();
    for mode in [0o644, 0o640, 0o602, 0o620] {
        write_users(&users, &line, mode);
        assert!(checked(&[], &flags).unwrap_err().contains("chmod 600"), "{mode:o}");
    }
    for password in ["correct horse", "md5d41d8cd98f00b204e9800998ecf8427e"] {
        write_users(&users, &format!("ada:{password}\n"), 0o600);
        let error = checked(&[], &flags).unwrap_err();
        assert!(error.contains("line 1: expected name:SCRAM-SHA-256$"), "{error}");
        assert!(!error.contains(password), "{error}");
    }
}

#[test]
fn what_is_not_encrypted_stays_on_this_machine_unless_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    write_users(&users, &user_line("ada", "correct horse"), 0o600);
    let flags =
        ["--config-check", "--data", "d", "--listen", "0.0.0.0:0", "--users", users.to_str().unwrap()];
    assert!(checked(&[], &flags).unwrap_err().contains("--allow-unencrypted"));
    checked(&[], &[&flags[..], &["--allow-unencrypted"]].concat()).unwrap();
}

#[test]
fn folders_are_the_owners() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new").join("data");
    let log = folder.path().join("device");
    let server = Serving::start_with(&data, &["--log-device", log.to_str().unwrap()]);
    server.connect().simple_query("CHECKPOINT").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [&data, &log, &log.join("checkpoint-00000001")] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    server.signal("-TERM");
}

#[test]
fn no_second_server_takes_a_folder_whatever_is_deleted_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path());
    for file in std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()) {
        if file.to_string_lossy().contains("lock") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let second = checked(&[], &["--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    assert!(second.unwrap_err().contains("in use by another process"));
    server.signal("-TERM");
}

#[test]
fn silent_sockets_under_a_low_limit_harm_neither_clients_nor_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start_by(
        Command::new("sh").args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_reprise")]),
        folder.path(),
        &["--log-file-mib", "1"],
    );
    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, note TEXT)").unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, repeat('x', 100000))").unwrap();
    // Files of the log are made meanwhile.
    for id in 0..60 {
        client.execute(&insert, &[&id]).unwrap();
    }
    client.batch_execute("CHECKPOINT").unwrap();
    let parameters = format!("host=127.0.0.1 port={} user=me", server.port);
    let mut clients = Vec::new();
    let refused = (0..300).find_map(|_| match Client::connect(&parameters, NoTls) {
        Ok(client) => {
            clients.push(client);
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(refused.expect("descriptors are few").code().unwrap().code(), "53300");
    assert!(clients.len() >= 60, "{} clients", clients.len());
    client.execute(&insert, &[&60]).unwrap();
    drop((silent, clients));
    server.signal("-TERM");
}

#[test]
fn users_show_their_password() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    write_users(&users, &format!("# who may come\n{}", user_line("ada", "correct horse")), 0o600);
    let server = Serving::start_with(&folder.path().join("data"), &["--users", users.to_str().unwrap()]);
    let connect = |user: &str, password: &str| {
        let mut config = Client::configure();
        config.host("127.0.0.1").port(server.port).user(user).password(password);
        config.connect(NoTls)
    };
    let mut ada = connect("ada", "correct horse").unwrap();
    assert_eq!(ada.query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0), 1);
    for (user, password) in [("ada", "battery staple"), ("bob", "correct horse")] {
        let error = connect(user, password).err().unwrap();
        assert_eq!(error.code().unwrap().code(), "28P01", "{error}");
    }
    drop(ada);
    server.signal("-TERM");
}

/// What `reprise serve` answers to flags, with the environment and without a server.
fn checked(environment: &[(&str, &str)], flags: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    let output = command.arg("serve").args(flags).envs(environment.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn flags_count_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reprise.toml");
    let path = file.to_str().unwrap();
    let check = |text: &str, environment: &[(&str, &str)], flags: &[&str]| {
        std::fs::write(&file, text).unwrap();
        checked(environment, &[&["--config", path, "--config-check"], flags].concat())
    };
    // An address that needs users is refused, which tells whose address it is.
    let (outer, inner) = ("listen = \"0.0.0.0:1\"\ndata = \"d\"", "listen = \"127.0.0.1:1\"\ndata = \"d\"");
    assert!(check(outer, &[], &[]).unwrap_err().contains("0.0.0.0:1 can be reached"));
    assert!(check(outer, &[("REPRISE_LISTEN", "127.0.0.1:2")], &[]).is_ok());
    assert!(check(inner, &[("REPRISE_LISTEN", "0.0.0.0:2")], &[]).unwrap_err().contains("0.0.0.0:2"));
    assert!(check(inner, &[("REPRISE_LISTEN", "0.0.0.0:2")], &["--listen", "127.0.0.1:3"]).is_ok());
    // The file may be named by the environment as well, and hold lists and switches.
    let lists = format!("{inner}\nlog-device = [\"a\", \"b\"]\nno-undo = true\nwitness = false\n");
    std::fs::write(&file, lists).unwrap();
    assert!(checked(&[("REPRISE_CONFIG", path)], &["--config-check"]).is_ok());
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reprise.toml");
    let path = file.to_str().unwrap();
    let users = folder.path().join("users");
    write_users(&users, &format!("{}bob\n", user_line("ada", "x")), 0o600);
    let users = format!("data = \"d\"\nusers = {:?}", users.to_str().unwrap());
    for (text, said) in [
        ("data = \"d\"\nlisten = ", "line 2"),
        ("listne = \"127.0.0.1:1\"", "\"listne\" is no setting"),
        ("config = \"x\"", "\"config\" is no setting"),
        ("listen = \"here\"", "invalid value 'here' for '--listen"),
        ("no-undo = 1", "no-undo is true or false, not 1"),
        ("listen = [\"127.0.0.1:1\"]", "listen is one value"),
        ("data = \"d\"\ntls-key = \"k\"", "--tls-certificate"),
        ("data = \"d\"\ntls-key = \"k\"\ntls-certificate = \"missing.pem\"", "missing.pem: No such file"),
        (&users, "users: line 2: expected name:SCRAM-SHA-256$"),
        ("", "there is no data folder"),
    ] {
        std::fs::write(&file, text).unwrap();
        let error = checked(&[], &["--config", path, "--config-check"]).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
    assert!(checked(&[], &["--config", "missing.toml"]).unwrap_err().contains("missing.toml"));
}

#[test]
fn the_sample_configuration_holds_the_defaults() {
    let sample = checked(&[], &["--print-sample-config"]).unwrap();
    assert!(sample.contains("\n# listen = \"127.0.0.1:5433\"\n"), "{sample}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reprise.toml");
    // Every setting that has a default is what it would be without the file.
    let settings =
        sample.lines().filter_map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ")));
    let placeholders = [
        "\"FILE\"",
        "\"FOLDER\"",
        "\"ADDRESS\"",
        "[\"",
        "= \"DIFFERENTIAL",
        "_RATE",
        "_EVERY",
        "COMMIT_TARGET",
    ];
    let settings: Vec<_> =
        settings.filter(|line| !placeholders.iter().any(|placeholder| line.contains(placeholder))).collect();
    assert!(settings.len() >= 15, "{settings:?}");
    std::fs::write(&file, settings.join("\n")).unwrap();
    checked(&[], &["--config", file.to_str().unwrap(), "--config-check", "--data", "d"]).unwrap();
}
