//! Bytes as a client sends them that keeps to no protocol.

use super::AT_LAST;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

/// A message of the protocol.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &text(sql))
}

pub fn startup() -> Vec<u8> {
    let body = [&196_608u32.to_be_bytes()[..], b"user\0me\0\0"].concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

/// PARSE, BIND, DESCRIBE and EXECUTE of a statement, without SYNC.
pub fn extended(sql: &str) -> Vec<u8> {
    let parse = message(b'P', &[b"\0", &text(sql)[..], b"\0\0"].concat());
    let bind = message(b'B', &[0; 8]);
    let describe = message(b'D', b"P\0");
    [parse, bind, describe, message(b'E', &[0; 5])].concat()
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn open(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(AT_LAST)).unwrap();
    socket.set_write_timeout(Some(AT_LAST)).unwrap();
    socket
}

/// Sends bytes; the server may close the connection meanwhile.
pub fn send(socket: &mut TcpStream, bytes: &[u8]) {
    match socket.write_all(bytes) {
        Ok(()) => {}
        Err(error) => assert!(
            [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::WouldBlock]
                .contains(&error.kind()),
            "{error}"
        ),
    }
}

/// Reads what comes until the server closes the connection.
pub fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match socket.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    all
}
