//! Everything that an answer shows is durable before the answer is given: rows, their absence, counts,
//! errors, definitions.
//!
//! A gate before the disk keeps statements of one session undurable while another session probes them. No
//! probe may be answered before the gate opens, except those that show durable state only; a crash meanwhile
//! loses every statement that the probes would have shown.

mod ways;

use crate::common::Durably as _;
use crate::common::on;
use catalog::value_from_datum;
use reprise::disk::{ClosedGate, CrashingDisk, GatedDisk};
use reprise::{
    Arena, Attempt, Config, Content, Database, Datum, Error, Parameters, RowSink, Sequencing, Session,
    SqlError, Type, Value,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use ways::{CHECKED, DEFINITIONS, Probe, ROWS, SCHEMA, STILL, Way};

const FOLDER: &str = "data";
/// An answer that need not wait comes within this time.
const SOON: Duration = Duration::from_secs(20);
/// For this long no answer may come that shows what is not durable.
const QUIET: Duration = Duration::from_millis(60);

struct Rows(Vec<Type>, Arc<Mutex<Vec<Vec<Value>>>>);

impl RowSink for Rows {
    fn begin(&mut self) {
        self.1.lock().unwrap().clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let row = values.iter().zip(&self.0).map(|(value, ty)| value_from_datum(*value, *ty, arena));
        self.1.lock().unwrap().push(row.collect());
        Ok(())
    }
}

/// Runs a statement in the open transaction.
fn run_in_block(session: &mut Session, statement: &str) -> Result<String, Error> {
    if let Some(name) = statement.strip_prefix("SAVEPOINT ") {
        return session.set_savepoint(name).map(|()| String::new());
    }
    let prepared = session.prepare(statement)?;
    let types: Vec<_> = prepared.columns().iter().map(|column| column.ty).collect();
    let rows = Arc::default();
    let sink = || Box::new(Rows(types.clone(), Arc::clone(&rows))) as Box<dyn RowSink>;
    let executed = session.execute_into(&prepared, &[], sink());
    session.shown().wait()?;
    let executed = executed?;
    let rows = rows.lock().unwrap();
    Ok(format!("{rows:?} affected: {}", executed.affected))
}

/// Runs a probe; what its answer shows.
fn ask(session: &mut Session, probe: Probe) -> String {
    let told = |answer: Result<String, Error>| answer.unwrap_or_else(|error| error.to_string());
    match probe {
        Probe::Query(text) => told(session.query(text).map(|answer| format!("{answer:?}"))),
        Probe::Script(text) => told(session.execute_script(text).map(|()| String::new())),
        Probe::Call(name, argument) => {
            told(session.call_durably(name, &[Value::Int(argument)]).map(|row| format!("{row:?}")))
        }
        Probe::CallPlain(name) => told(session.call_durably(name, &[]).map(|row| format!("{row:?}"))),
        Probe::Block(statements) => {
            session.begin().unwrap();
            let answers: Vec<_> = statements.iter().map(|own| told(run_in_block(session, own))).collect();
            session.rollback();
            answers.last().cloned().unwrap_or_default()
        }
    }
}

/// Runs the undurable statements, each in a session of its own, until their effects are seen.
fn leave_undurable(sessions: Vec<Session>, ways: &[Way], closed: &ClosedGate, sequencing: Sequencing) {
    let undurable = ways.iter().map(|way| way.undurable).filter(|text| !text.is_empty());
    let writers = undurable.zip(sessions).map(|(text, mut session)| {
        std::thread::spawn(move || {
            let prepared = session.prepare(text).unwrap();
            loop {
                let sink = Box::new(Rows(Vec::new(), Arc::default()));
                let attempt = session.attempt(&prepared, &Parameters::default(), sink);
                match attempt.unwrap_or_else(|error| panic!("{text}: {error}")) {
                    Attempt::Done(_) => return,
                    // Another session changes definitions.
                    Attempt::Busy(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    if sequencing == Sequencing::Gsn {
        // Workers write their logs themselves, once their rows are visible.
        closed.wait_for(&writers.iter().map(|writer| writer.thread().id()).collect::<Vec<_>>());
    } else {
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
}

/// Takes the answers that come until there are `expected` and for a quiet time after that.
fn answers(received: &Receiver<(&'static str, String)>, expected: usize) -> BTreeMap<&'static str, String> {
    let (mut found, begun) = (BTreeMap::new(), Instant::now());
    let mut last = Instant::now();
    while found.len() < expected && begun.elapsed() < SOON || last.elapsed() < QUIET {
        if let Ok((name, answer)) = received.recv_timeout(QUIET / 4) {
            found.insert(name, answer);
            last = Instant::now();
        }
    }
    found
}

fn probe(sessions: Vec<Session>, ways: &[Way], told: &Sender<(&'static str, String)>) {
    for (way, mut session) in ways.iter().copied().zip(sessions) {
        let told = told.clone();
        std::thread::spawn(move || {
            let answer = ask(&mut session, way.probe);
            let _ = told.send((way.name, answer));
        });
    }
}

fn digest(config: &Config) -> reprise::Digest {
    Database::open(Path::new(FOLDER), config.clone()).unwrap().digest().unwrap()
}

/// The names of the ways whose answers came before what they show was durable.
fn early_answers(config: &Config, ways: &[Way]) -> Vec<&'static str> {
    let crashing = CrashingDisk::default();
    let disk = Arc::new(GatedDisk::new(Arc::new(crashing.clone())));
    let on_disk = |disk| {
        let mut config = config.clone();
        (config.disk, config.workers, config.log_file_bytes) = (disk, 4 * ways.len() + 8, 1 << 20);
        config
    };
    let db = Database::open(Path::new(FOLDER), on_disk(disk.clone())).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    let sessions = || ways.iter().map(|_| db.session().unwrap()).collect::<Vec<_>>();
    let (writers, probes) = (sessions(), sessions());
    let durable = digest(&on_disk(Arc::new(crashing.after_crash(1))));
    let closed = disk.close();
    leave_undurable(writers, ways, &closed, config.sequencing);
    let (told, received) = channel();
    probe(probes, ways, &told);
    let stills = ways.iter().filter(|way| way.undurable.is_empty()).count();
    let early = answers(&received, stills);
    let crashed = digest(&on_disk(Arc::new(crashing.after_crash(2))));
    assert_eq!(crashed, durable, "a crash loses what the probes would have shown");
    drop(closed);
    let mut all = early.clone();
    all.extend(answers(&received, ways.len() - early.len()));
    for way in ways {
        let answer = all.get(way.name).unwrap_or_else(|| panic!("{}: no answer", way.name));
        assert!(answer.contains(way.shows), "{}: {answer}", way.name);
        assert!(!way.undurable.is_empty() || early.contains_key(way.name), "{}: has waited", way.name);
    }
    let undurable = ways.iter().filter(|way| !way.undurable.is_empty()).map(|way| way.name);
    undurable.filter(|name| early.contains_key(name)).collect()
}

fn check(sequencing: Sequencing, content: Content, devices: usize) {
    let mut config = on(Arc::new(CrashingDisk::default()));
    (config.sequencing, config.content) = (sequencing, content);
    config.log_devices = Some((0..devices).map(|device| format!("log{device}").into()).collect());
    let rows: Vec<Way> = ROWS.iter().chain(STILL).copied().collect();
    let mut early = Vec::new();
    // Under gsn a definition is durable before any other session sees it.
    let definitions = if sequencing == Sequencing::Gsn { &[][..] } else { DEFINITIONS };
    // A physical log refuses definitions that give rows another layout.
    let fits = |way: &&Way| content != Content::Physical || !way.name.ends_with("of a constraint");
    let checked: Vec<Way> = CHECKED.iter().filter(fits).copied().collect();
    let definitions: Vec<Way> = definitions
        .iter()
        .filter(|way| content != Content::Physical || way.name != "a new column")
        .copied()
        .collect();
    for ways in [&rows[..], &checked, &definitions] {
        early.extend(early_answers(&config, ways));
    }
    assert!(early.is_empty(), "{sequencing}, {content}: answered before durable: {early:#?}");
}

#[test]
fn under_epoch() {
    check(Sequencing::Epoch, Content::Command, 1);
    check(Sequencing::Epoch, Content::Logical, 2);
}

#[test]
fn under_serial() {
    check(Sequencing::Serial, Content::Command, 1);
    check(Sequencing::Serial, Content::Physiological, 1);
}

#[test]
fn under_ssn() {
    check(Sequencing::Ssn, Content::Logical, 1);
    check(Sequencing::Ssn, Content::Physical, 2);
}

#[test]
fn under_gsn() {
    check(Sequencing::Gsn, Content::Command, 1);
}
