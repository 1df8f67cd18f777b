//! A client that speaks PostgreSQL's protocol message by message.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A message to the server. Statements and portals have no names.
#[derive(Clone, Copy)]
pub enum Ask {
    Simple(&'static str),
    Parse(&'static str),
    Bind,
    DescribeStatement,
    DescribePortal,
    /// With the most rows that are wanted; 0 is all.
    Execute(i32),
    CopyData(&'static str),
    CopyDone,
    Flush,
    Sync,
}

impl Ask {
    fn encode(self, out: &mut Vec<u8>) {
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let (tag, body) = match self {
            Self::Simple(sql) => (b'Q', text(sql)),
            Self::Parse(sql) => (b'P', [b"\0", &text(sql)[..], b"\0\0"].concat()),
            Self::Bind => (b'B', vec![0; 8]),
            Self::DescribeStatement => (b'D', b"S\0".to_vec()),
            Self::DescribePortal => (b'D', b"P\0".to_vec()),
            Self::Execute(most) => (b'E', [b"\0", &most.to_be_bytes()[..]].concat()),
            Self::CopyData(data) => (b'd', data.as_bytes().to_vec()),
            Self::CopyDone => (b'c', Vec::new()),
            Self::Flush => (b'H', Vec::new()),
            Self::Sync => (b'S', Vec::new()),
        };
        out.push(tag);
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(&body);
    }
}

pub struct Wire(TcpStream);

impl Wire {
    pub fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let body = [&196_608u32.to_be_bytes()[..], b"user\0test\0\0"].concat();
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()).unwrap();
        let mut wire = Self(stream);
        wire.read_until(b'Z', 1);
        wire
    }

    pub fn send(&mut self, asks: &[Ask]) {
        let mut bytes = Vec::new();
        asks.iter().for_each(|ask| ask.encode(&mut bytes));
        self.0.write_all(&bytes).unwrap();
    }

    /// Runs a statement to its end.
    pub fn run(&mut self, sql: &'static str) -> String {
        self.send(&[Ask::Simple(sql)]);
        self.read_until(b'Z', 1)
    }

    /// Reads until a number of messages of a kind have come, or the server has closed the connection; what
    /// they say, as text.
    pub fn read_until(&mut self, kind: u8, mut count: usize) -> String {
        let mut all = String::new();
        while count > 0 {
            let mut header = [0; 5];
            match self.0.read_exact(&mut header) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return all + " closed",
                Err(error) => panic!("{error}; until then: {all}"),
            }
            let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4;
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).unwrap();
            all.push(header[0].into());
            all.push(':');
            all.push_str(&String::from_utf8_lossy(&body).replace('\0', " "));
            all.push('\n');
            count -= usize::from(header[0] == kind);
        }
        all
    }

    /// Whether anything has come that was not read.
    pub fn has_answer(&self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }
}
