//! All of them at once, for minutes, with kills: nothing acknowledged is lost, and nothing grows.

use super::raw::{open, query, send, startup};
use super::{Target, connect};
use postgres::{Client, NoTls};
use rand::Rng;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seconds, unless `REPRISE_SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 60;
/// Seconds from one kill to the next.
const KILLED_AFTER: u64 = 20;
/// Samples in this part of a run, from its end, are compared with those of the part before it.
const PART: usize = 3;

/// How the server is at one moment.
struct Sample {
    at_s: f64,
    resident_mib: f64,
    log_mib: f64,
    files: usize,
    latency_ms: f64,
}

/// Takes one figure of a sample.
type Figure = fn(&Sample) -> f64;

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(own) if own.is_dir() => bytes_in(&entry.path()),
        Ok(own) => own.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// A client whose acknowledged rows are kept outside of the database.
fn account(port: u16, ends: &AtomicBool, next: &AtomicU64, acknowledged: &std::sync::Mutex<BTreeSet<i64>>) {
    let Ok(mut client) = try_connect(port) else { return };
    while !ends.load(Ordering::Relaxed) {
        let id = next.fetch_add(1, Ordering::Relaxed) as i64;
        if client.execute("INSERT INTO kept VALUES ($1)", &[&id]).is_ok() {
            acknowledged.lock().unwrap().insert(id);
        } else if client.is_closed() {
            return;
        }
        if id % 64 == 0 {
            let least = id - 2_000;
            acknowledged.lock().unwrap().retain(|own| *own >= least);
            let _ = client.execute("DELETE FROM kept WHERE id < $1", &[&least]);
        }
    }
}

fn try_connect(port: u16) -> Result<Client, postgres::Error> {
    Client::connect(&format!("host=127.0.0.1 port={port} user=me connect_timeout=5"), NoTls)
}

/// A client that does random things, badly behaved ones among them, until the server is gone or the time is
/// up.
fn attack(port: u16, ends: &AtomicBool) {
    let mut random = rand::rng();
    while !ends.load(Ordering::Relaxed) {
        let key = random.random_range(1..5);
        match random.random_range(0..10) {
            0 => {
                let Ok(socket) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return };
                std::thread::sleep(Duration::from_millis(random.random_range(0..50)));
                drop(socket);
            }
            1 => {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                    return;
                }
                let mut socket = open(port);
                send(
                    &mut socket,
                    &[startup(), query(&format!("BEGIN; UPDATE t SET v = v + 1 WHERE id = {key}"))].concat(),
                );
                std::thread::sleep(Duration::from_millis(random.random_range(0..50)));
            }
            2 => {
                if std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
                    return;
                }
                let mut socket = open(port);
                send(
                    &mut socket,
                    &[startup(), query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)")].concat(),
                );
                std::thread::sleep(Duration::from_millis(random.random_range(0..50)));
            }
            _ => {
                let Ok(mut client) = try_connect(port) else { continue };
                let _ = client.batch_execute("SET lock_timeout = '100ms'; SET statement_timeout = '2s'");
                for _ in 0..20 {
                    let text = match random.random_range(0..14) {
                        0..2 => "BEGIN".to_owned(),
                        2..4 => "COMMIT".to_owned(),
                        4 => format!("INSERT INTO t VALUES ({}, 1, NULL) ON CONFLICT DO NOTHING", key + 4),
                        5 => format!("DELETE FROM t WHERE id = {}", key + 4),
                        6 => format!("CALL put({key}, 1)"),
                        7 => "CREATE TABLE scratch (id INT);
                              INSERT INTO scratch SELECT generate_series(1, 500)"
                            .into(),
                        8 => "DROP TABLE IF EXISTS scratch".into(),
                        9 => "SELECT string_agg(repeat('y', 100), ',') FROM generate_series(1, 20000)".into(),
                        10 => "SELECT count(DISTINCT n) FROM generate_series(1, 30000) AS g (n)".into(),
                        _ => format!("UPDATE t SET v = v + 1 WHERE id = {key}"),
                    };
                    if client.batch_execute(&text).is_err() && client.is_closed() {
                        break;
                    }
                }
            }
        }
    }
}

fn sample(target: &Target, begun: Instant, data: &Path) -> Sample {
    let latency = target.latency("the soak");
    Sample {
        at_s: begun.elapsed().as_secs_f64(),
        resident_mib: target.server.memory() as f64 / 1024.0,
        log_mib: bytes_in(data) as f64 / f64::from(1 << 20),
        files: target.server.open_files(),
        latency_ms: latency.as_secs_f64() * 1e3,
    }
}

/// The median of a figure in a part of the samples.
fn median(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    let mut figures: Vec<f64> = samples.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn soak() {
    let seconds =
        std::env::var("REPRISE_SOAK_SECONDS").ok().and_then(|own| own.parse().ok()).unwrap_or(SECONDS);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (begun, mut samples) = (Instant::now(), Vec::new());
    let next = AtomicU64::new(0);
    let acknowledged = std::sync::Mutex::<BTreeSet<i64>>::default();
    while begun.elapsed().as_secs() < seconds {
        let target = Target::start(&data);
        let mut client = target.connect();
        client.batch_execute("CREATE TABLE IF NOT EXISTS kept (id BIGINT PRIMARY KEY)").unwrap();
        let rows = client.query("SELECT id FROM kept", &[]).unwrap();
        let there: BTreeSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let lost: Vec<_> = acknowledged.lock().unwrap().difference(&there).copied().collect();
        assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
        drop(client);
        let (ends, port) = (AtomicBool::new(false), target.server.port);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| attack(port, &ends));
            }
            scope.spawn(|| account(port, &ends, &next, &acknowledged));
            let until = Instant::now() + Duration::from_secs(KILLED_AFTER);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_secs(1));
                samples.push(sample(&target, begun, &data));
                if samples.len() % 5 == 0 {
                    let _ = connect(port).batch_execute("CHECKPOINT");
                }
            }
            ends.store(true, Ordering::Relaxed);
            // Dropped, the server is killed while clients are at it.
            drop(target);
        });
    }
    draw(&samples);
    let part = samples.len() / PART;
    let (before, after) = (&samples[part..2 * part], &samples[samples.len() - part..]);
    let figures: [(&str, Figure, f64); 3] = [
        ("resident memory, MiB", |own| own.resident_mib, 40.0),
        ("data folder, MiB", |own| own.log_mib, 40.0),
        ("open files", |own| own.files as f64, 30.0),
    ];
    for (name, figure, slack) in figures {
        let (before, after) = (median(before, figure), median(after, figure));
        assert!(after < before * 1.1 + slack, "{name} grows: {before:.1}, then {after:.1}");
    }
}

/// Draws the figures over time, where a folder is named for that.
fn draw(samples: &[Sample]) {
    let Some(folder) = std::env::var_os("REPRISE_SOAK_FOLDER").map(PathBuf::from) else { return };
    let mut table = String::from("seconds,resident_mib,data_mib,open_files,latency_ms\n");
    for own in samples {
        let _ = writeln!(
            table,
            "{:.1},{:.1},{:.1},{},{:.2}",
            own.at_s, own.resident_mib, own.log_mib, own.files, own.latency_ms
        );
    }
    std::fs::write(folder.join("soak.csv"), table).unwrap();
    let figures: [(&str, Figure); 4] = [
        ("resident memory, MiB", |own| own.resident_mib),
        ("data folder, MiB", |own| own.log_mib),
        ("open files", |own| own.files as f64),
        ("latency of a new client, ms", |own| own.latency_ms),
    ];
    let plot = |(name, figure): (&str, Figure)| report::Plot {
        title: name.into(),
        x: "seconds".into(),
        y: String::new(),
        curves: vec![report::Curve {
            name: String::new(),
            points: samples.iter().map(|own| (own.at_s, figure(own))).collect(),
        }],
    };
    let plots: Vec<_> = figures.into_iter().map(plot).collect();
    report::draw_curves(&plots, 1, &folder.join("soak.svg")).unwrap();
}
