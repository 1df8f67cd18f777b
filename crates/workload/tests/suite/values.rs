//! Every type of value, at and beyond its limits, on every way in: Reprise takes and refuses what PostgreSQL
//! does.
//!
//! For each value and way, both servers must give the same rows, in text and in binary form, or the same
//! SQLSTATE; then the table must still be readable. Reprise may refuse with 0A000 what PostgreSQL takes, and
//! with 22003 a NUMERIC of more than 16,383 digits behind the point that COPY rounds.
//! Values made at random may be refused by both for different reasons, and a text of a date that no list has
//! by Reprise alone. `REPRISE_VALUES` says how many values are made at random for each type and way;
//! `REPRISE_SEED` is the seed of a run, 0 by default.
//! Skipped, with a message, where no PostgreSQL is installed.

mod samples;
mod texts;
mod ways;

use crate::server::Server;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use samples::{KINDS, Kind};
use ways::{Outcome, Side, Way};

/// Values of a type that are made at random for each way, where the environment says nothing else.
const AT_RANDOM: usize = 40;

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns whether a number has too many digits behind the point, by its exponent. COPY of PostgreSQL rounds
/// it to the column's type before it counts them.
fn has_long_fraction(value: &[u8]) -> bool {
    let text = String::from_utf8_lossy(value).to_lowercase();
    text.split_once("e-").and_then(|(_, exponent)| exponent.parse::<u64>().ok()) > Some(16_000)
}

/// Whether Reprise may answer so where PostgreSQL answers otherwise.
fn may_differ(kind: &Kind, value: &[u8], reprise: &Outcome, postgresql: &Outcome, is_random: bool) -> bool {
    match (reprise, postgresql) {
        (Err(sqlstate), Ok(_)) if kind.name.starts_with("numeric(") && has_long_fraction(value) => {
            sqlstate == "22003"
        }
        (Err(sqlstate), _) if sqlstate == "0A000" => true,
        (Err(own), Err(_)) => is_random && !own.starts_with("lost"),
        // PostgreSQL reads almost any text as a date or an interval.
        (Err(sqlstate), Ok(_)) => {
            is_random
                && (kind.is_temporal() || kind.name.starts_with("interval"))
                && matches!(sqlstate.as_str(), "22007" | "22008")
        }
        (Ok(_), Err(_)) => false,
        // Of the shortest texts that mean a double, PostgreSQL takes none on the edge of those that do.
        (Ok((_, own)), Ok((_, other))) => is_random && kind.name.starts_with("float") && own == other,
    }
}

/// What differs for a value, on one way.
fn difference(kind: &Kind, way: Way, value: &[u8], is_random: bool, sides: &mut [Side; 2]) -> Option<String> {
    let [reprise, postgresql] = sides.each_mut().map(|side| side.outcome(kind, way, value));
    let (reprise, postgresql) = (reprise?, postgresql?);
    if reprise == postgresql || may_differ(kind, value, &reprise, &postgresql, is_random) {
        return None;
    }
    let value = match way.is_binary() {
        true => format!("{value:02x?}"),
        false => format!("\"{}\"", value.escape_ascii()),
    };
    Some(format!("{} {way:?} {value}: {reprise:?}, PostgreSQL {postgresql:?}", kind.name))
}

/// Changes a sample at a few positions.
fn mutated(kind: &Kind, way: Way, random: &mut SmallRng) -> Vec<u8> {
    let samples = kind.samples(way.is_binary());
    let mut value = samples[random.random_range(0..samples.len())].clone();
    for _ in 0..random.random_range(1..4) {
        let place = random.random_range(0..=value.len());
        let byte = match way.is_binary() {
            true => random.random(),
            false => kind.alphabet[random.random_range(0..kind.alphabet.len())],
        };
        match random.random_range(0..3) {
            0 => value.insert(place, byte),
            1 if place < value.len() => value[place] = byte,
            _ if place < value.len() => drop(value.remove(place)),
            _ => value.push(byte),
        }
    }
    value
}

fn sides(server: &Server) -> [Side; 2] {
    [Side::reprise(), Side::postgresql(server)]
}

#[test]
fn values_are_taken_and_refused_as_postgresql_does() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let mut sides = sides(&server);
    let mut differences = Vec::new();
    for kind in KINDS {
        for way in Way::ALL {
            for value in kind.samples(way.is_binary()) {
                differences.extend(difference(kind, way, &value, false, &mut sides));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn values_at_random_are_taken_and_refused_as_postgresql_does() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let mut sides = sides(&server);
    let seed = number_from("REPRISE_SEED").unwrap_or(0);
    let count = number_from("REPRISE_VALUES").unwrap_or(AT_RANDOM as u64);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut differences = Vec::new();
    for kind in KINDS {
        for way in Way::ALL {
            for _ in 0..count {
                let value = mutated(kind, way, &mut random);
                differences.extend(difference(kind, way, &value, true, &mut sides));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "REPRISE_SEED={seed}: {} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
