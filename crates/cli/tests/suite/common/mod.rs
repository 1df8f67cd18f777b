//! A server that a test has started.

use postgres::{Client, NoTls};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

pub struct Serving {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
    pub port: u16,
    /// What it said before it listened.
    pub said: Vec<String>,
    /// What it said of its recovery.
    pub recovery: String,
    /// Where it answers over HTTP.
    pub http: Option<String>,
}

impl Serving {
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub fn start_with(data: &Path, flags: &[&str]) -> Self {
        Self::start_by(&mut Command::new(env!("CARGO_BIN_EXE_reprise")), data, flags)
    }

    /// Starts a server that can't have more address space than this many kibibytes, so that one without
    /// limits fails the test and not the machine.
    pub fn start_within(kibibytes: u64, data: &Path, flags: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -v {kibibytes}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_reprise")]);
        Self::start_by(&mut shell, data, flags)
    }

    /// Starts a program that takes the arguments of `reprise`.
    pub fn start_by(program: &mut Command, data: &Path, flags: &[&str]) -> Self {
        let mut process = program
            .args(["serve", "--listen", "127.0.0.1:0", "--memory-ahead-mib", "0", "--data"])
            .arg(data)
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (mut said, mut recovery, mut http) = (Vec::new(), String::new(), None);
        let address = loop {
            let line = lines.next().unwrap().unwrap();
            said.push(line.clone());
            match line.split_once("listening on ") {
                Some((_, address)) => break address.to_owned(),
                None if line.contains("over HTTP on ") => {
                    let behind = line.split("over HTTP on ").nth(1);
                    http = behind.and_then(|text| text.split_whitespace().next()).map(str::to_owned);
                }
                // The last line before is of the recovery; one of a checkpoint may come before that.
                None => recovery = line,
            }
        };
        let address = address.split(';').next().unwrap();
        let port = address.rsplit(':').next().unwrap().parse().unwrap();
        Self { process, lines, port, said, recovery, http }
    }

    pub fn connect(&self) -> Client {
        Client::connect(&format!("host=127.0.0.1 port={} user=me", self.port), NoTls).unwrap()
    }

    /// Ends it; what it still said.
    pub fn signal(mut self, signal: &str) -> Vec<String> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.process.wait().unwrap();
        self.lines.by_ref().map_while(Result::ok).collect()
    }

    /// Files, sockets among them, that it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// Kilobytes of memory that it has.
    pub fn memory(&self) -> u64 {
        self.kilobytes("VmRSS:")
    }

    /// Kilobytes of memory that it has had since this was asked the last time.
    pub fn peak(&self) -> u64 {
        let peak = self.kilobytes("VmHWM:");
        std::fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5").unwrap();
        peak
    }

    fn kilobytes(&self, of: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Where it has ended already, there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a GET is answered: the status line and everything behind it.
pub fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}
