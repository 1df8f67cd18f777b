//! Hostile clients. Whatever they do, alone or together: the server greets a new client and answers it within
//! a second (three during a flood), says that it is ready, takes a checkpoint, gives memory back, and stops
//! when it is told.
//!
//! `REPRISE_SEED` replays one round of the random ones; `REPRISE_SOAK_SECONDS` makes the soak longer, and
//! `REPRISE_SOAK_FOLDER` is where it draws its curves.

mod definitions;
mod keys;
mod raw;
mod soak;
mod strangers;

use crate::common::{Serving, get};
use postgres::{Client, NoTls};
use std::path::Path;
use std::time::{Duration, Instant};

/// A new client is greeted and answered within this time.
const SOON: Duration = Duration::from_secs(1);
/// An answer for which a client waits no longer than this.
const AT_LAST: Duration = Duration::from_secs(20);

/// After this many rounds of definitions the server is killed.
const KILLS: u64 = 10;
/// Limits that a few clients reach.
const FLAGS: [&str; 8] =
    ["--http", "127.0.0.1:0", "--workers", "24", "--memory-gib", "1", "--log-file-mib", "4"];

/// What the clients are at.
const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, u INT UNIQUE);
    CREATE INDEX t_v ON t (v);
    CREATE TABLE c (id SERIAL PRIMARY KEY, t INT REFERENCES t ON DELETE CASCADE);
    INSERT INTO t SELECT n, 0, n FROM generate_series(1, 4) AS g (n);
    CREATE PROCEDURE put(p INT, w INT) LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO t VALUES (p, w, NULL) ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v;
    END $$;
    CREATE PROCEDURE in_steps(p INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE t SET v = v + 1 WHERE id = p; COMMIT; UPDATE t SET v = v + 1 WHERE id = p % 4 + 1;
    END $$;
    CREATE FUNCTION sum_of_all() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN
        RETURN (SELECT sum(v) FROM t);
    END $$;";

/// A server under attack.
struct Target {
    server: Serving,
    http: String,
    memory: u64,
}

impl Target {
    fn start(data: &Path) -> Self {
        let server = Serving::start_with(data, &FLAGS);
        let http = server.http.clone().expect("the server says where it answers over HTTP");
        let mut client = server.connect();
        let has_tables = client.batch_execute("SELECT * FROM t").is_ok();
        if !has_tables {
            client.batch_execute(TABLES).unwrap();
        }
        // What a server takes that has been at work: threads, sessions, buffers.
        let work = "SELECT repeat('x', 1000), n % 7 FROM generate_series(1, 5000) AS g (n) ORDER BY 2";
        std::thread::scope(|scope| {
            for _ in 0..40 {
                let mut client = server.connect();
                scope.spawn(move || client.batch_execute(work).unwrap());
            }
        });
        let memory = server.memory();
        Self { server, http, memory }
    }

    fn connect(&self) -> Client {
        connect(self.server.port)
    }

    /// Makes sure that the server serves, and answers a new client within `SOON`.
    #[track_caller]
    fn check(&self, after: &str) {
        self.check_within(after, SOON);
    }

    #[track_caller]
    fn check_within(&self, after: &str, limit: Duration) {
        let latency = self.latency(after);
        // On a shared machine the first look may be slow.
        assert!(latency < limit || self.latency(after) < limit, "{after}: a new client waited {latency:?}");
        assert!(get(&self.http, "/ready").starts_with("HTTP/1.1 200"), "{after}: not ready");
    }

    #[track_caller]
    fn latency(&self, after: &str) -> Duration {
        let begun = Instant::now();
        let mut client = self.connect();
        let one = client.query_one("SELECT count(*) FROM t", &[]);
        assert!(one.is_ok(), "{after}: {one:?}");
        begun.elapsed()
    }

    /// The attack is over: nothing of it is left.
    #[track_caller]
    fn end(self, after: &str) {
        self.check(after);
        let mut client = self.connect();
        client.batch_execute("CHECKPOINT").unwrap();
        let begun = Instant::now();
        let enough = self.memory + self.memory / 10 + (16 << 10);
        while self.server.memory() > enough {
            assert!(begun.elapsed() < AT_LAST, "{after}: {} of {} kB", self.server.memory(), self.memory);
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(client);
        let begun = Instant::now();
        let said = self.server.signal("-TERM");
        assert!(begun.elapsed() < AT_LAST, "{after}: it took {:?} to stop", begun.elapsed());
        assert!(
            said.last().is_some_and(|line| line.ends_with("stopped after a checkpoint")),
            "{after}: {said:?}"
        );
    }
}

fn connect(port: u16) -> Client {
    let address = format!("host=127.0.0.1 port={port} user=me connect_timeout=10");
    Client::connect(&address, NoTls).unwrap()
}

/// What a statement comes to: `ok`, or an SQLSTATE.
fn outcome(client: &mut Client, text: &str) -> String {
    match client.batch_execute(text) {
        Ok(()) => "ok".into(),
        Err(error) => error.as_db_error().map_or_else(|| error.to_string(), |own| own.code().code().into()),
    }
}

fn seeds(rounds: u64) -> impl Iterator<Item = u64> {
    let only = std::env::var("REPRISE_SEED").ok().and_then(|seed| seed.parse().ok());
    let range = only.map_or(0..rounds, |seed: u64| seed..seed + 1);
    range.inspect(|seed| println!("REPRISE_SEED={seed}"))
}
