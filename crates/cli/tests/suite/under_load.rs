//! What many or slow clients cost the server.

use crate::common::Serving;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

/// A connection whose bytes only the test reads.
pub fn greet(server: &Serving) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let settings = b"user\0me\0database\0me\0\0";
    let mut startup = (8 + settings.len() as u32).to_be_bytes().to_vec();
    startup.extend(196_608u32.to_be_bytes());
    startup.extend(settings);
    socket.write_all(&startup).unwrap();
    read_until_ready(&mut socket);
    socket
}

pub fn ask(socket: &mut TcpStream, text: &str) {
    let mut message = vec![b'Q'];
    message.extend((4 + text.len() as u32 + 1).to_be_bytes());
    message.extend(text.as_bytes());
    message.push(0);
    socket.write_all(&message).unwrap();
}

/// Reads messages up to READY FOR QUERY: how many rows there were.
pub fn read_until_ready(socket: &mut TcpStream) -> usize {
    let mut rows = 0;
    let mut input = BufReader::with_capacity(1 << 16, socket);
    loop {
        let mut head = [0; 5];
        input.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        input.read_exact(&mut body).unwrap();
        match head[0] {
            b'D' => rows += 1,
            b'E' => panic!("{}", String::from_utf8_lossy(&body)),
            b'Z' => return rows,
            _ => {}
        }
    }
}

const ROWS: usize = 150_000;

#[test]
fn a_reader_that_stalls_costs_little_and_reads_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path());
    let mut client = server.connect();
    client
        .batch_execute(&format!(
            "CREATE TABLE big (id INT PRIMARY KEY, v INT NOT NULL, t TEXT);
             CREATE TABLE queue (id INT PRIMARY KEY);
             INSERT INTO big SELECT n, 0, repeat('x', 1000) FROM generate_series(1, {ROWS}) AS n;"
        ))
        .unwrap();
    let mut reader = greet(&server);
    let before = server.memory();
    ask(&mut reader, "SELECT id, v, t FROM big");
    // The sockets' buffers are full; the test reads no further bytes.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let update = client.prepare("UPDATE big SET v = v + 1 WHERE id = $1").unwrap();
    for round in 0..3_000i32 {
        client.execute(&update, &[&(round * 37 % ROWS as i32 + 1)]).unwrap();
        client
            .batch_execute(&format!(
                "INSERT INTO queue VALUES ({round}); DELETE FROM queue WHERE id = {round}"
            ))
            .unwrap();
    }
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 40_000, "the result has {} kB, and the server has grown by {grown}", ROWS);
    // The reader still gets everything, as it was.
    assert_eq!(read_until_ready(&mut reader), ROWS);
    ask(&mut reader, "SELECT id FROM big WHERE v > 0");
    assert_eq!(read_until_ready(&mut reader), 3_000);
}

#[test]
fn idle_connections_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path());
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let before = server.memory();
    let mut idle: Vec<TcpStream> = (0..400).map(|_| greet(&server)).collect();
    for id in 0..200 {
        client.execute("INSERT INTO t VALUES ($1)", &[&id]).unwrap();
    }
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 400 * 64, "400 idle connections take {grown} kB");
    ask(&mut idle[399], "SELECT * FROM t");
    assert_eq!(read_until_ready(&mut idle[399]), 200);
}
