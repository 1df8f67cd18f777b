//! Clients of a Unix domain socket.

use postgres::{Client, NoTls};
use reprise::{Config, Database};
use server::{Listener, Options, Server};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::runtime::Runtime;

const PORT: u16 = 5433;
const NAME: &str = ".s.PGSQL.5433";

/// Runs a function while a server listens on a socket in a folder.
fn serving(folder: &Path, act: impl FnOnce()) {
    let runtime = Runtime::new().unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.memory_ahead_bytes = 0;
    let server = Server::new(Options::default(), Arc::default());
    server.open(Database::open(data.path(), config).unwrap());
    let (listener, file) = runtime.block_on(async { Listener::on_socket(folder, PORT) }).unwrap();
    assert_eq!(file.path(), folder.join(NAME));
    runtime.spawn(server.serve(listener));
    act();
    drop(file);
    assert!(!folder.join(NAME).exists(), "it is removed at the end");
}

fn connect(folder: &Path) -> Client {
    let address = format!("host={} port={PORT} user=test dbname=test", folder.display());
    Client::connect(&address, NoTls).unwrap()
}

#[test]
fn clients_connect_by_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    serving(folder.path(), || {
        let row = connect(folder.path()).query_one("SELECT 6 * 7", &[]).unwrap();
        assert_eq!(row.get::<_, i32>(0), 42);
        let mut psql = Command::new("psql");
        psql.args(["-At", "-p", "5433", "-U", "test", "-c", "SELECT 6 * 7", "-h"]).arg(folder.path());
        match psql.arg("test").stdin(Stdio::null()).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42", "{output:?}"),
            Err(_) => eprintln!("skipped: psql is not installed"),
        }
    });
}

#[test]
fn a_request_for_encryption_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    serving(folder.path(), || {
        let mut stream = UnixStream::connect(folder.path().join(NAME)).unwrap();
        let mut answer = [0];
        for code in [80_877_104u32, 80_877_103] {
            stream.write_all(&[8u32.to_be_bytes(), code.to_be_bytes()].concat()).unwrap();
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"N");
        }
        let body = [&196_608u32.to_be_bytes()[..], b"user\0test\0\0"].concat();
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"R", "the client is welcome");
    });
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let runtime = Runtime::new().unwrap();
    let refused = || {
        let bound = runtime.block_on(async { Listener::on_socket(folder.path(), PORT) });
        assert_eq!(bound.err().unwrap().kind(), ErrorKind::AddrInUse);
        assert!(path.exists());
    };
    std::fs::write(&path, "a file").unwrap();
    refused();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    refused();
    // A server that is killed leaves its file behind.
    drop(other);
    assert!(path.exists());
    serving(folder.path(), || drop(connect(folder.path())));
}
