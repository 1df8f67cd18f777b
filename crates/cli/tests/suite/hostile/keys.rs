//! Two to four clients over the same keys: every pair of statements, and random interleavings. A statement
//! that waits ends when the transaction that it waits for does, and those that wait for each other end by
//! themselves.

use super::{AT_LAST, Target, outcome, seeds};
use postgres::Client;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Each kind of statement, about key 1; and about another one.
const KINDS: [&str; 18] = [
    "SELECT * FROM t WHERE id = #",
    "SELECT sum_of_all()",
    "SELECT v FROM t WHERE id = # FOR UPDATE",
    "SELECT v FROM t WHERE v >= 0 FOR UPDATE",
    "UPDATE t SET v = v + 1 WHERE id = #",
    "UPDATE t SET v = v + 1",
    "UPDATE t SET u = u + 100 WHERE id = #",
    "UPDATE t SET id = id + 10 WHERE id = #",
    "DELETE FROM t WHERE id = #",
    "INSERT INTO t VALUES (# + 20, 1, #)",
    "INSERT INTO t VALUES (#, 1, NULL) ON CONFLICT (id) DO UPDATE SET v = 5",
    "INSERT INTO t VALUES (#, 1, #) ON CONFLICT DO NOTHING",
    "INSERT INTO c (t) VALUES (#)",
    "CALL put(#, 3)",
    "TRUNCATE c",
    "CREATE INDEX IF NOT EXISTS t_extra ON t (u, v)",
    "DROP INDEX IF EXISTS t_extra",
    "CALL in_steps(#)",
];

/// SQLSTATEs that statements over the same keys may end with.
const KNOWN: [&str; 15] = [
    "ok", "40001", "40P01", "23505", "23503", "55P03", "57014", "25P02", "0A000", "2D000", "25001", "53300",
    "25006", "3B001", "25P01",
];

/// A client on a thread of its own, one statement at a time.
struct Remote {
    send: Sender<String>,
    answers: Receiver<String>,
    /// Since when a statement is under way.
    since: Option<(Instant, String)>,
}

impl Remote {
    fn new(mut client: Client) -> Self {
        let (send, statements) = channel::<String>();
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            for text in statements {
                let _ = answer.send(outcome(&mut client, &text));
            }
        });
        Self { send, answers, since: None }
    }

    fn ask(&mut self, text: &str) {
        self.send.send(text.into()).unwrap();
        self.since = Some((Instant::now(), text.into()));
    }

    /// Takes an answer that comes within a time. Whether the client is idle now.
    fn hears(&mut self, within: Duration, case: &str) -> bool {
        let Some((since, text)) = &self.since else { return true };
        match self.answers.recv_timeout(within) {
            Ok(answer) => {
                assert!(KNOWN.contains(&answer.as_str()), "{case}: {text}: {answer}");
                self.since = None;
                true
            }
            Err(_) => {
                assert!(since.elapsed() < AT_LAST, "{case}: {text} is not answered");
                false
            }
        }
    }

    fn end(&mut self, text: &str, case: &str) {
        while !self.hears(Duration::from_millis(100), case) {}
        self.ask(text);
        while !self.hears(Duration::from_millis(100), case) {}
    }
}

const RESTORE: &str = "ROLLBACK; DELETE FROM c; DELETE FROM t;
    INSERT INTO t SELECT n, 0, n FROM generate_series(1, 4) AS g (n)";

/// Restores the rows. A deleted row that leaves the indexes meanwhile changes what the transaction has read,
/// so the statement is tried again, as clients do.
fn restore(client: &mut Client) {
    let tries: Vec<String> =
        (0..10).map(|_| outcome(client, RESTORE)).take_while(|said| said != "ok").collect();
    assert!(tries.len() < 10 && tries.iter().all(|said| said == "40001"), "{tries:?}");
}

#[test]
fn every_pair_of_statements() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    let mut clients = [(); 2].map(|()| Remote::new(target.connect()));
    let mut restores = target.connect();
    for (number, (first, second)) in KINDS.iter().flat_map(|a| KINDS.iter().map(move |b| (a, b))).enumerate()
    {
        // Of a definition the other statement may be part of no transaction, or definitions wait for ten
        // seconds.
        let waits_long = |text: &str| {
            ["TRUNCATE", "CREATE", "DROP", "CALL in_steps"].iter().any(|own| text.starts_with(own))
        };
        for in_block in [false, true] {
            if waits_long(second) || in_block && waits_long(first) {
                continue;
            }
            let case = format!("{first} | {second} | {in_block}");
            let [a, b] = &mut clients;
            a.end("BEGIN", &case);
            a.ask(&first.replace('#', "1"));
            a.hears(Duration::from_millis(20), &case);
            if in_block {
                b.end("BEGIN", &case);
            }
            b.ask(&second.replace('#', "1"));
            b.hears(Duration::from_millis(3), &case);
            a.end(if number % 2 == 0 { "COMMIT" } else { "ROLLBACK" }, &case);
            b.end("COMMIT", &case);
        }
        if number % 9 == 0 {
            target.check(&format!("{first} | {second}"));
        }
        restore(&mut restores);
    }
    drop((clients, restores));
    target.end("every pair of statements");
}

#[test]
fn random_interleavings() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::start(folder.path());
    for seed in seeds(12) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut clients: Vec<_> =
            (0..random.random_range(2..=4)).map(|_| Remote::new(target.connect())).collect();
        let mut restores = target.connect();
        let case = format!("seed {seed}");
        let mut said = Vec::new();
        for _ in 0..60 {
            let at = random.random_range(0..clients.len());
            if !clients[at].hears(Duration::ZERO, &case) {
                continue;
            }
            let kind = match random.random_range(0..24) {
                0..5 => "BEGIN",
                5..8 => "COMMIT",
                8 => "ROLLBACK",
                9 => "SAVEPOINT s",
                10 => "ROLLBACK TO s",
                11 => "BEGIN READ ONLY",
                _ => KINDS[random.random_range(0..14)],
            };
            let key = random.random_range(1..4).to_string();
            said.push(format!("{at}: {}", kind.replace('#', &key)));
            clients[at].ask(&kind.replace('#', &key));
            clients[at].hears_anything(Duration::from_millis(random.random_range(0..8)));
        }
        target.check(&case);
        // One of them is in no wait: it ends, and so do all.
        let begun = Instant::now();
        while clients.iter_mut().map(Remote::ends).filter(|ended| !ended).count() > 0 {
            let waiting: Vec<_> =
                clients.iter().filter_map(|own| own.since.as_ref()).map(|(_, text)| text).collect();
            assert!(begun.elapsed() < AT_LAST, "{case}: they wait for ever: {waiting:?}; before: {said:#?}");
        }
        restore(&mut restores);
    }
    target.end("random interleavings");
}

impl Remote {
    /// As `hears`, whatever the answer is.
    fn hears_anything(&mut self, within: Duration) {
        if self.since.is_some() && self.answers.recv_timeout(within).is_ok() {
            self.since = None;
        }
    }

    /// Ends its transaction unless it waits. Whether it has.
    fn ends(&mut self) -> bool {
        self.hears_anything(Duration::from_millis(10));
        if self.since.is_some() {
            return false;
        }
        self.ask("ROLLBACK");
        self.hears_anything(Duration::from_secs(1));
        self.since.is_none()
    }
}
