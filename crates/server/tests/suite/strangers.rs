//! Clients that have not shown who they are can do little, and keep no other client away; a server that stops
//! says so.

use crate::wire::{Ask, Wire};
use postgres::{Client, NoTls};
use reprise::disk::{CrashingDisk, GatedDisk};
use reprise::{Config, Database, Session, params};
use server::{Options, Tls, Users, verifier};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PASSWORD: &str = "correct horse";
/// Code of a request for TLS.
const TLS: u32 = 80_877_103;
/// Code of a cancel request.
const CANCEL: u32 = 80_877_102;

struct Served {
    port: u16,
    server: Arc<server::Server>,
    disk: Arc<GatedDisk>,
    database: Database,
    runtime: tokio::runtime::Runtime,
}

fn serve(options: Options) -> Served {
    let disk = Arc::new(GatedDisk::new(Arc::new(CrashingDisk::default())));
    let mut config = Config::default();
    (config.memory_ahead_bytes, config.log_file_bytes) = (0, 1 << 20);
    config.disk = disk.clone();
    let database = Database::open(Path::new("data"), config).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = server::Server::new(options, Arc::default());
    server.open(database.clone());
    runtime.spawn(Arc::clone(&server).serve(listener));
    Served { port, server, disk, database, runtime }
}

impl Served {
    fn connect(&self) -> Result<Client, postgres::Error> {
        Client::connect(&format!("host=127.0.0.1 port={} user=ada password='{PASSWORD}'", self.port), NoTls)
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    }
}

fn users() -> Users {
    Users::parse(&format!("ada:{}\nbob:{}", verifier(PASSWORD), verifier("battery staple"))).unwrap()
}

/// A message that begins with its length.
fn untagged(code: u32, rest: &[u8]) -> Vec<u8> {
    [&(rest.len() as u32 + 8).to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

fn startup(user: &str) -> Vec<u8> {
    untagged(196_608, format!("user\0{user}\0\0").as_bytes())
}

/// What the server still sends until it closes the connection.
fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("the connection stays open: {error}"),
    }
}

fn code_of(error: postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

#[test]
fn silent_sockets_keep_no_client_away() {
    let served = serve(Options { max_connections: 2, ..Options::default() });
    let silent: Vec<_> = (0..400).map(|_| served.socket()).collect();
    let clients = [served.connect().unwrap(), served.connect().unwrap()];
    assert_eq!(code_of(served.connect().err().unwrap()), "53300");
    drop(clients);
    // The server learns a little later that they have gone.
    let begun = Instant::now();
    while served.connect().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "clients that have gone are still counted");
    }
    drop(silent);
}

#[test]
fn descriptors_limit_clients_where_nothing_else_does() {
    let served = serve(Options { descriptors: 80, ..Options::default() });
    let clients: Vec<_> = (0..30).map(|_| served.connect().unwrap()).collect();
    assert_eq!(code_of(served.connect().err().unwrap()), "53300");
    drop(clients);
}

#[test]
fn a_client_has_little_time_to_show_who_it_is() {
    let options = Options {
        users: Some(users()),
        startup_timeout: Some(Duration::from_millis(700)),
        ..Options::default()
    };
    let served = serve(options);
    for said in [Vec::new(), startup("ada"), startup("ada")[..9].to_vec(), untagged(CANCEL, b"")] {
        let mut socket = served.socket();
        socket.write_all(&said).unwrap();
        read_to_end(&mut socket);
    }
    let mut client = served.connect().unwrap();
    std::thread::sleep(Duration::from_millis(900));
    client.simple_query("SELECT 1").unwrap();
}

#[test]
fn lengths_are_checked_before_anything_is_read() {
    let served = serve(Options { users: Some(users()), ..Options::default() });
    let long = |length: u32| [&length.to_be_bytes()[..], &196_608u32.to_be_bytes()].concat();
    for first in [long(u32::MAX), long(1 << 30), long(10_001), long(7), long(0)] {
        let mut socket = served.socket();
        socket.write_all(&first).unwrap();
        read_to_end(&mut socket);
    }
    // A message with a password that is announced as longer than any.
    let mut socket = served.socket();
    socket.write_all(&startup("ada")).unwrap();
    socket.write_all(&[b"p", &(1u32 << 30).to_be_bytes()[..], b"SCRAM"].concat()).unwrap();
    read_to_end(&mut socket);
    served.connect().unwrap();
}

#[test]
fn nothing_counts_that_was_sent_before_tls() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    assert!(made.unwrap().status.success());
    let served = serve(Options { tls: Some(Tls::open(&certificate, &key).unwrap()), ..Options::default() });
    let mut socket = served.socket();
    socket.write_all(&[untagged(TLS, b""), startup("ada")].concat()).unwrap();
    let answer = read_to_end(&mut socket);
    assert!(answer.len() <= 1 || answer[0] != b'S', "it begins TLS with what came before: {answer:?}");
    assert!(!answer.contains(&b'Z'), "it serves a client that was not encrypted: {answer:?}");
    let mut socket = served.socket();
    socket.write_all(&untagged(TLS, b"")).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[0], b'S');
}

/// The salt and the number of iterations that a user is asked with.
fn question(served: &Served, user: &str) -> String {
    let mut socket = served.socket();
    let nonce = "n,,n=,r=abcdefghijklmnopqrstuvwx";
    let body = [&b"SCRAM-SHA-256\0"[..], &(nonce.len() as u32).to_be_bytes(), nonce.as_bytes()].concat();
    let first = [b"p", &(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
    socket.write_all(&[startup(user), first].concat()).unwrap();
    let mut all = Vec::new();
    loop {
        let mut bytes = [0; 512];
        let read = socket.read(&mut bytes).unwrap();
        assert!(read > 0, "it is refused before it is asked");
        all.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&all);
        if let Some((_, question)) = text.split_once(",s=").filter(|(_, rest)| rest.contains(",i=4096")) {
            return question.to_owned();
        }
    }
}

#[test]
fn an_unknown_user_is_asked_as_any_other() {
    let served = serve(Options { users: Some(users()), ..Options::default() });
    for user in ["ada", "eve"] {
        assert_eq!(question(&served, user), question(&served, user), "{user}");
    }
    assert_ne!(question(&served, "ada"), question(&served, "eve"));
    assert_eq!(question(&served, "ada").len(), question(&served, "eve").len());
    let connect = |user: &str, password: &str| {
        let parameters = format!("host=127.0.0.1 port={} user={user} password='{password}'", served.port);
        Client::connect(&parameters, NoTls).map(drop).map_err(code_of)
    };
    assert_eq!(connect("ada", PASSWORD), Ok(()));
    for (user, password) in [("ada", "battery staple"), ("bob", PASSWORD), ("eve", PASSWORD)] {
        assert_eq!(connect(user, password), Err("28P01".into()), "{user}");
    }
}

/// The process id and the secret that a client is told.
fn key_of(socket: &mut TcpStream) -> (i32, i32) {
    socket.write_all(&startup("ada")).unwrap();
    let mut key = None;
    loop {
        let mut header = [0; 5];
        socket.read_exact(&mut header).unwrap();
        let mut body = vec![0; u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4];
        socket.read_exact(&mut body).unwrap();
        let number = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        match header[0] {
            b'K' => key = Some((number(0), number(4))),
            b'Z' => return key.expect("a client is told its key"),
            _ => {}
        }
    }
}

#[test]
fn a_key_is_guessed_a_few_times_only() {
    let served = serve(Options::default());
    let guess = |(pid, secret): (i32, i32)| {
        let mut socket = served.socket();
        socket.write_all(&untagged(CANCEL, &[pid.to_be_bytes(), secret.to_be_bytes()].concat())).unwrap();
        read_to_end(&mut socket);
    };
    let mut sockets = [served.socket(), served.socket()];
    let keys = sockets.each_mut().map(key_of);
    assert!(keys[0].0.abs_diff(keys[1].0) > 1 && keys[0].1.abs_diff(keys[1].1) > 1, "{keys:?}");
    let is_cancelled = |socket: &mut TcpStream, (pid, secret): (i32, i32)| {
        let text = "DO $$ BEGIN LOOP END LOOP; END $$; ";
        let query = [b"Q", &(text.len() as u32 + 5).to_be_bytes()[..], text.as_bytes(), b"\0"].concat();
        socket.write_all(&query).unwrap();
        guess((pid, secret));
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let begun = Instant::now();
        loop {
            let mut bytes = [0; 1024];
            match socket.read(&mut bytes) {
                Ok(read) => return String::from_utf8_lossy(&bytes[..read]).contains("57014"),
                // It may have come before the statement.
                Err(_) if begun.elapsed() < Duration::from_secs(3) => guess((pid, secret)),
                Err(_) => return false,
            }
        }
    };
    let [first, second] = &mut sockets;
    (0..4).for_each(|wrong| guess((keys[0].0, keys[0].1.wrapping_add(wrong + 1))));
    assert!(is_cancelled(first, keys[0]), "a few wrong guesses disable no key");
    (0..8).for_each(|wrong| guess((keys[1].0, keys[1].1.wrapping_add(wrong + 1))));
    assert!(!is_cancelled(second, keys[1]), "guesses are not limited");
    guess((keys[0].0, keys[1].1));
    assert!(served.runtime.block_on(served.server.stop(Duration::from_secs(30))), "the statement goes on");
}

#[test]
fn a_server_that_stops_acknowledges_what_has_committed_and_says_goodbye() {
    let served = serve(Options::default());
    let mut idle = Wire::connect(served.port);
    let mut open = Wire::connect(served.port);
    let mut commits = Wire::connect(served.port);
    let mut runs = Wire::connect(served.port);
    idle.run("CREATE TABLE t (id INT PRIMARY KEY)");
    open.run("BEGIN");
    open.run("INSERT INTO t VALUES (1)");
    runs.send(&[Ask::Simple("DO $$ BEGIN LOOP END LOOP; END $$")]);
    let mut session = served.database.session().unwrap();
    let closed = served.disk.close();
    commits.send(&[Ask::Simple("INSERT INTO t VALUES (2)")]);
    // Its row is there before it is durable.
    let is_there = |session: &mut Session| {
        !session.execute("SELECT id FROM t WHERE id = 2", params![]).unwrap().rows.is_empty()
    };
    while !is_there(&mut session) {
        std::thread::yield_now();
    }
    let stopping = served.runtime.spawn({
        let server = Arc::clone(&served.server);
        async move { server.stop(Duration::from_secs(30)).await }
    });
    for client in [&mut idle, &mut open] {
        let said = client.read_until(b'Z', 1);
        assert!(said.contains("57P01") && said.ends_with("closed"), "{said}");
    }
    assert!(!commits.has_answer(), "it is acknowledged before it is durable");
    drop(closed);
    let said = commits.read_until(b'Z', 2);
    assert!(said.contains("INSERT 0 1") && said.contains("57P01") && said.ends_with("closed"), "{said}");
    let said = runs.read_until(b'Z', 2);
    assert!(said.contains("57P01") && said.ends_with("closed"), "{said}");
    assert!(served.runtime.block_on(stopping).unwrap(), "a client is left");
    assert_eq!(code_of(served.connect().err().unwrap()), "57P03");
}

#[test]
fn http_clients_have_little_time() {
    let served = serve(Options { with_metrics: true, ..Options::default() });
    let listener = served.runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    served.runtime.spawn(Arc::clone(&served.server).serve_http(listener));
    let open = |said: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(said.as_bytes()).unwrap();
        socket
    };
    let mut sockets = [open(""), open("GET /heal"), open("GET /ready HTTP/1.1\r\nHost: me\r\n\r\n")];
    let answers = sockets.each_mut().map(|socket| String::from_utf8(read_to_end(socket)).unwrap());
    assert!(!answers[0].contains("200") && !answers[1].contains("200"), "{answers:?}");
    assert!(answers[2].contains("200 OK") && answers[2].contains("ready"), "{answers:?}");
    // Silent ones, however many, keep no other client waiting.
    let _silent: Vec<_> = (0..200).map(|_| open("")).collect();
    let begun = Instant::now();
    let answer = read_to_end(&mut open("GET /ready HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n"));
    assert!(String::from_utf8(answer).unwrap().contains("200 OK"));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}
