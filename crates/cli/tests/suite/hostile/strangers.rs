//! Clients that go in the middle, send what is no protocol, flood the server, or don't read.

use super::raw::{extended, message, open, query, read_to_end, send, startup, sync};
use super::{SOON, Target, connect, seeds};
use postgres::NoTls;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::net::Shutdown;
use std::time::Duration;

/// What clients say in one connection, each from its beginning.
fn conversations() -> Vec<Vec<u8>> {
    let begin =
        [startup(), query("BEGIN; UPDATE t SET v = v + 1 WHERE id = 1; INSERT INTO t VALUES (77, 1, NULL)")]
            .concat();
    vec![
        [startup(), query("SELECT * FROM t, generate_series(1, 100)"), query("UPDATE t SET v = 1")].concat(),
        [begin.clone(), query("COMMIT")].concat(),
        [begin.clone(), query("SELECT 1 / 0"), query("SELECT 1"), query("ROLLBACK")].concat(),
        [startup(), extended("UPDATE t SET v = v + 1 WHERE id = 2"), extended("SELECT * FROM t"), sync()]
            .concat(),
        [startup(), extended("BEGIN"), sync(), extended("SELECT * FROM t FOR UPDATE"), sync()].concat(),
        [
            startup(),
            query("COPY t FROM STDIN"),
            message(b'd', b"50\t1\t\\N\n51\t1\t"),
            message(b'd', b"\\N\n"),
            message(b'c', b""),
        ]
        .concat(),
        [startup(), query("COPY (SELECT * FROM generate_series(1, 200000)) TO STDOUT")].concat(),
        [
            startup(),
            query("BEGIN; DECLARE a CURSOR FOR SELECT * FROM generate_series(1, 10000)"),
            query("FETCH 5 FROM a"),
        ]
        .concat(),
        [
            startup(),
            query("BEGIN; CREATE TABLE gone (id INT); INSERT INTO gone VALUES (1)"),
            query("DROP TABLE gone; COMMIT"),
        ]
        .concat(),
    ]
}

/// The connection ends, in one way or the other, behind each of some bytes of each conversation.
#[test]
fn clients_that_go_at_any_byte() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    for (number, bytes) in conversations().into_iter().enumerate() {
        for cut in (0..=bytes.len()).step_by(7) {
            let mut socket = open(target.server.port);
            send(&mut socket, &bytes[..cut]);
            match cut % 3 {
                0 => drop(socket),
                1 => drop(socket.shutdown(Shutdown::Write)),
                _ => drop(socket.shutdown(Shutdown::Both)),
            }
        }
        target.check(&format!("conversation {number}"));
    }
    let mut client = target.connect();
    // What they left open is rolled back, and holds nothing.
    client
        .batch_execute("SET lock_timeout = '10s'; UPDATE t SET v = v + 1; DELETE FROM t WHERE id > 4")
        .unwrap();
    drop(client);
    target.end("clients that went");
}

#[test]
fn bytes_that_are_no_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let all = conversations();
    for seed in seeds(300) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut bytes = all[random.random_range(0..all.len())].clone();
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..bytes.len().max(1));
            if at >= bytes.len() {
                break;
            }
            match random.random_range(0..4) {
                0 => bytes[at] = random.random(),
                1 => drop(bytes.drain(at..(at + random.random_range(1..9)).min(bytes.len()))),
                2 => bytes.insert(at, random.random()),
                _ => bytes.truncate(at + 1),
            }
        }
        let mut socket = open(target.server.port);
        send(&mut socket, &bytes);
        let _ = socket.shutdown(Shutdown::Write);
        if seed % 10 == 0 {
            read_to_end(&mut socket);
            target.check(&format!("seed {seed}"));
        }
    }
    target.end("bytes that are no protocol");
}

/// Lengths are refused before memory is taken for them, and what is not text before it is a statement.
#[test]
fn messages_that_are_too_large_or_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    for head in [
        vec![0x7f, 0xff, 0xff, 0xff],
        vec![0, 0, 0, 0],
        [startup(), vec![b'Q', 0x7f, 0xff, 0xff, 0xff]].concat(),
        [startup(), vec![b'P', 0, 0, 0, 1]].concat(),
        [startup(), vec![b'd', 0xff, 0xff, 0xff, 0xff]].concat(),
    ] {
        let mut sockets: Vec<_> = (0..50).map(|_| open(target.server.port)).collect();
        sockets.iter_mut().for_each(|socket| send(socket, &head));
        target.check("a length");
        assert!(target.server.memory() < target.memory + (100 << 10));
    }
    let deep = format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    let long = format!("SELECT '{}'", "x".repeat(4 << 20));
    let mut client = target.connect();
    assert!(client.batch_execute(&deep).is_err_and(|error| error.as_db_error().is_some()));
    client.batch_execute(&long).unwrap();
    let mut socket = open(target.server.port);
    send(&mut socket, &[startup(), message(b'Q', b"SELECT '\xff\xfe'\0"), query("SELECT 1")].concat());
    let _ = socket.shutdown(Shutdown::Write);
    let answer = String::from_utf8_lossy(&read_to_end(&mut socket)).into_owned();
    assert!(answer.contains("C22021"), "{answer:?}");
    drop((client, socket));
    target.end("large messages");
}

/// Many clients that ask much and read nothing, that say nothing, and that cancel what is not theirs.
#[test]
fn floods() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let port = target.server.port;
    let mut sockets = Vec::new();
    for number in 0..150 {
        let mut socket = open(port);
        match number % 4 {
            0 => {}
            1 => send(&mut socket, &startup()),
            2 => send(
                &mut socket,
                &[startup(), query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")].concat(),
            ),
            _ => {
                let many = (0..200).map(|_| extended("SELECT * FROM t")).collect::<Vec<_>>().concat();
                send(&mut socket, &[startup(), many].concat());
            }
        }
        sockets.push(socket);
        if number % 50 == 49 {
            // The extended queries without a SYNC leave 8 sessions to single statements. The 13 new clients
            // that read nothing take these in two rounds, and the server gives each round up after a second.
            target.check_within(&format!("{number} clients of a flood"), 3 * SOON);
        }
    }
    for key in 0..200u32 {
        let cancel =
            [&16u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &key.to_be_bytes(), &7u32.to_be_bytes()]
                .concat();
        send(&mut open(port), &cancel);
    }
    let mut client = connect(port);
    client.batch_execute("UPDATE t SET v = v + 1").unwrap();
    let cancel = client.cancel_token();
    let long = std::thread::spawn(move || {
        client.batch_execute("SELECT count(*) FROM generate_series(1, 1000000000)")
    });
    std::thread::sleep(Duration::from_millis(200));
    cancel.cancel_query(NoTls).unwrap();
    let error = long.join().unwrap().unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "57014");
    drop(sockets);
    target.end("a flood");
}
