//! The page at the HTTP address: what it answers before and after the database is open, who may see it, and
//! that texts of users stay texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use postgres::{Client, NoTls};
use reprise::disk::CrashingDisk;
use reprise::{Config, Database, Progress, Stage};
use ring::digest;
use serde_json::Value;
use server::{Options, Server, Users, verifier};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const PATHS: [&str; 3] = ["/", "/state.json", "/graph.svg"];

struct Served {
    server: Arc<Server>,
    progress: Arc<Progress>,
    sql: SocketAddr,
    http: SocketAddr,
    _runtime: Runtime,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// A server whose database is not open.
fn starting(options: Options) -> Served {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let (sql, http) = (bind(), bind());
    let addresses = (sql.local_addr().unwrap(), http.local_addr().unwrap());
    let progress = Arc::new(Progress::default());
    let server = Server::new(Options { with_metrics: true, ..options }, Arc::clone(&progress));
    runtime.spawn(Arc::clone(&server).serve(sql));
    runtime.spawn(Arc::clone(&server).serve_http(http));
    Served { server, progress, sql: addresses.0, http: addresses.1, _runtime: runtime }
}

fn database() -> Database {
    let mut config = Config::default();
    (config.memory_ahead_bytes, config.log_file_bytes) = (0, 1 << 20);
    config.disk = Arc::new(CrashingDisk::default());
    Database::open(Path::new("data"), config).unwrap()
}

/// A server of an open database with one procedure.
fn serve_procedure(options: Options) -> (Served, Database) {
    let (served, database) = serve(options);
    let script = "CREATE TABLE t (id INT PRIMARY KEY, v INT);
        CREATE PROCEDURE adds(k INT) LANGUAGE plpgsql AS $$
        BEGIN UPDATE t SET v = v + 1 WHERE id = k; END $$";
    database.session().unwrap().execute_script(script).unwrap();
    (served, database)
}

fn serve(options: Options) -> (Served, Database) {
    let (served, database) = (starting(options), database());
    served.server.open(database.clone());
    (served, database)
}

impl Served {
    fn ask(&self, path: &str, headers: &str) -> Answer {
        self.ask_as(path, &format!("Host: {}\r\n{headers}", self.http))
    }

    fn ask_as(&self, path: &str, headers: &str) -> Answer {
        let mut socket = TcpStream::connect(self.http).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.into(), body: body.into() }
    }

    fn with_password(&self, path: &str, pair: &str) -> Answer {
        self.ask(path, &format!("Authorization: Basic {}\r\n", STANDARD.encode(pair)))
    }

    fn state(&self, query: &str) -> Value {
        let answer = self.ask(&format!("/state.json{query}"), "");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Asks for the state until it is as expected.
    fn state_when(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let state = self.state("");
            if is_expected(&state) {
                return state;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{state:#}");
        }
    }

    fn connect(&self, settings: &str) -> Client {
        let parameters = format!("host=127.0.0.1 port={} user=ada {settings}", self.sql.port());
        Client::connect(&parameters, NoTls).unwrap()
    }
}

fn check_headers(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[test]
fn the_page_runs_its_own_script_alone() {
    let (served, _database) = serve(Options::default());
    let page = served.ask("/", "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    check_headers(&page);
    let policy = page.header("content-security-policy").unwrap();
    for tag in ["script", "style"] {
        let (_, inside) = page.body.split_once(&format!("<{tag}>")).unwrap();
        let (inside, after) = inside.split_once(&format!("</{tag}>")).unwrap();
        let hash = STANDARD.encode(digest::digest(&digest::SHA256, inside.as_bytes()));
        assert!(policy.contains(&format!("{tag}-src 'sha256-{hash}'")), "{policy}");
        assert!(!after.contains(&format!("<{tag}")), "a second {tag}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    // Nothing comes from elsewhere, and no text becomes HTML.
    let texts_as_code = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
    for word in texts_as_code.into_iter().chain(["https://", " style=\"", " onclick=", "src=\""]) {
        assert!(!page.body.contains(word), "{word}");
    }
}

#[test]
fn the_state_says_when_the_database_is_open() {
    let served = starting(Options::default());
    served.progress.begin(Stage::Log, 4096);
    served.progress.set_done(1024);
    assert_eq!(served.ask("/", "").status, 200);
    let state = served.state("");
    assert_eq!((&state["state"], &state["database"]), (&"starting".into(), &Value::Null));
    let clock = UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    assert!((clock - state["now_ms"].as_i64().unwrap()).abs() < 60_000, "{clock}");
    let expected = serde_json::json!({ "doing": "reading the log", "done": 1024, "total": 4096 });
    assert_eq!(state["progress"], expected);
    assert_eq!(served.ask("/graph.svg", "").status, 404);
    assert_eq!((served.ask("/ready", "").status, served.ask("/health", "").status), (503, 200));
    served.server.open(database());
    let state = served.state("");
    assert_eq!((&state["state"], &state["progress"]), (&"ready".into(), &Value::Null));
    let recovery = &state["database"]["recovery"];
    assert_eq!((&recovery["bytes_left"], recovery["recovered_s"].is_f64()), (&0.into(), true));
    assert_eq!(served.ask("/ready", "").status, 200);
    // There is no procedure.
    assert_eq!(served.ask("/graph.svg", "").status, 404);
}

#[test]
fn the_state_shows_work_and_what_is_durable() {
    let (served, database) = serve(Options::default());
    let mut client = served.connect("application_name=desk");
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    for id in 0..100 {
        client.execute("INSERT INTO t VALUES ($1)", &[&id]).unwrap();
    }
    let before = served.state("");
    let open = &before["database"];
    assert_eq!((&open["checkpoint"], &open["predicted_recovery_s"]), (&Value::Null, &0.0.into()));
    assert!(open["log_behind_bytes"].as_u64() > Some(0), "{open:#}");
    assert!(open["durable_epoch"].as_u64().unwrap() <= open["epoch"].as_u64().unwrap());
    let devices = open["devices"].as_array().unwrap();
    assert_eq!((devices.len(), &devices[0]["folder"]), (1, &"data/log".into()));
    assert!(devices[0]["bytes"].as_u64() > Some(0) && devices[0]["batches"].as_u64() > Some(0));
    database.checkpoint().unwrap();
    let checkpoint = &served.state("")["database"]["checkpoint"];
    assert!(checkpoint["rows"] == 100 && checkpoint["age_s"].as_f64().unwrap() >= 0.0, "{checkpoint}");

    let sessions = before["sessions"].as_array().unwrap();
    let session = &sessions[0];
    assert_eq!(
        (sessions.len(), &session["user"], &session["application"]),
        (1, &"ada".into(), &"desk".into())
    );
    assert_eq!((&session["state"], &session["client"]), (&"idle".into(), &"127.0.0.1".into()));
    assert_eq!(session["query"], "INSERT INTO t VALUES ($1)");
    client.batch_execute("BEGIN").unwrap();
    let state = served.state("");
    assert_eq!(state["sessions"][0]["state"], "idle in transaction");
    assert!(state["sessions"][0]["transaction_start_ms"].is_i64());
    drop(client);
    served.state_when(|state| state["sessions"].as_array().unwrap().is_empty());

    let rate = |sample: &Value| sample["statements"][1].as_f64().unwrap();
    let samples = |state: &Value| state["samples"].as_array().unwrap().clone();
    let state = served.state_when(|state| samples(state).iter().any(|sample| rate(sample) > 0.0));
    assert_eq!(state["statements"][1], "INSERT");
    let all = samples(&state);
    let busy = all.iter().find(|sample| rate(sample) > 0.0).unwrap();
    assert!(busy["p50_s"].as_f64() > Some(0.0) && busy["p99_s"].as_f64() >= busy["p50_s"].as_f64(), "{busy}");
    // The page asks for what it has not.
    let newest = all.last().unwrap()["number"].as_u64().unwrap();
    let later = samples(&served.state(&format!("?sample={newest}")));
    assert!(later.iter().all(|sample| sample["number"].as_u64() > Some(newest)), "{later:?}");
}

#[test]
fn the_page_needs_a_password_where_clients_do() {
    let users = Users::parse(&format!("ada:{}", verifier("correct: horse"))).unwrap();
    let (served, _database) = serve_procedure(Options { users: Some(users), ..Options::default() });
    for path in PATHS {
        let wrong = ["ada:correct horse", "ada:", "bob:correct: horse", "", ":"];
        let wrong = wrong.map(|pair| format!("Authorization: Basic {}\r\n", STANDARD.encode(pair)));
        let malformed = ["", "Authorization: Basic %\r\n", "Authorization: Bearer abc\r\n"];
        for headers in wrong.iter().map(String::as_str).chain(malformed) {
            let answer = served.ask(path, headers);
            assert_eq!((answer.status, &*answer.body), (401, "a password is needed\n"), "{path}");
            assert!(answer.header("www-authenticate").is_some_and(|own| own.starts_with("Basic ")));
            check_headers(&answer);
        }
        // The second time it is remembered.
        for _ in 0..2 {
            let answer = served.with_password(path, "ada:correct: horse");
            assert_eq!(answer.status, 200, "{path}");
            check_headers(&answer);
        }
        assert_eq!(served.with_password(path, "ada:wrong").status, 401, "{path}");
        // A name is no matter where there is a password.
        let pair = STANDARD.encode("ada:correct: horse");
        let headers = format!("Host: example.com\r\nAuthorization: Basic {pair}\r\n");
        assert_eq!(served.ask_as(path, &headers).status, 200, "{path}");
    }
    for path in ["/metrics", "/health", "/ready"] {
        assert_eq!(served.ask(path, "").status, 200, "{path}");
    }
    assert_eq!(served.ask("/nothing", "").status, 404);
}

#[test]
fn without_a_password_requests_name_an_address() {
    let (served, _database) = serve_procedure(Options::default());
    for path in PATHS {
        for host in ["localhost", "127.0.0.1:80", "[::1]:80"] {
            assert_eq!(served.ask_as(path, &format!("Host: {host}\r\n")).status, 200, "{path} {host}");
        }
        for host in ["example.com", "localhost.example.com:80"] {
            let answer = served.ask_as(path, &format!("Host: {host}\r\n"));
            assert_eq!(answer.status, 403, "{path} {host}");
            assert!(answer.body.starts_with("without a list of users"), "{}", answer.body);
        }
    }
    assert_eq!(served.ask_as("/metrics", "Host: example.com\r\n").status, 200);
}

#[test]
fn texts_of_users_stay_texts() {
    let (served, _database) = serve(Options::default());
    let mut client = served.connect("application_name=<b>desk</b>");
    client
        .batch_execute(
            r#"CREATE TABLE "<img src=x>" (id INT PRIMARY KEY, v INT);
            CREATE PROCEDURE "<script>alert(1)</script>"(k INT) LANGUAGE plpgsql AS $$
            BEGIN UPDATE "<img src=x>" SET v = v + 1 WHERE id = k; END $$;
            CREATE FUNCTION reads() RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$"#,
        )
        .unwrap();
    let state = served.state("");
    assert_eq!(state["sessions"][0]["application"], "<b>desk</b>");
    let routines = state["database"]["procedures"].as_array().unwrap();
    let [wrong, reads] = &routines[..] else { panic!("two routines: {routines:?}") };
    assert_eq!((&wrong["name"], &wrong["logged"]), (&"<script>alert(1)</script>".into(), &"command".into()));
    assert_eq!((&reads["kind"], &reads["logged"]), (&"function".into(), &"nothing".into()));
    for query in [format!("?procedure={}", wrong["id"]), String::new()] {
        let drawing = served.ask(&format!("/graph.svg{query}"), "");
        assert_eq!((drawing.status, drawing.header("content-type")), (200, Some("image/svg+xml")));
        check_headers(&drawing);
        assert!(drawing.body.contains("&lt;script&gt;"), "{}", drawing.body);
        assert!(!drawing.body.contains("<script") && !drawing.body.contains("<img"), "{}", drawing.body);
    }
    let missing = served.ask(&format!("/graph.svg?procedure={}", reads["id"]), "");
    assert_eq!((missing.status, &*missing.body), (404, "there is no such graph\n"));
    // Procedures are sent again once definitions have changed.
    let known = format!("?definitions={}", state["database"]["definitions"]);
    assert!(served.state(&known)["database"]["procedures"].is_null());
    client.batch_execute("DROP FUNCTION reads()").unwrap();
    assert_eq!(served.state(&known)["database"]["procedures"].as_array().unwrap().len(), 1);
}
