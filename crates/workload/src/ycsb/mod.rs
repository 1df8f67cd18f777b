//! YCSB. Source: Cooper et al., SoCC 2010 (mixes A to F, Zipfian and latest distributions); Poplar §6.2
//! (write-only and hybrid).

use crate::{Client, Request, Workload, random, run_jobs};
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use reprise::{Database, Error, Row, Value};
use std::str::FromStr;

const RECORDS: i64 = 100_000;
const ROWS_PER_JOB: i64 = 5_000;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// YCSB's constant of skew.
const SKEW: f64 = 0.99;
/// Default number of rows of a scan: the maximum in mix E, and the number in `hybrid`.
const SCAN_LENGTH: i64 = 100;

/// The shares of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operations {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads, mostly of recent inserts, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// Updates of all fields of one row (Poplar §6.2).
    Write,
    /// An update of one field of one row, and a scan (Poplar §6.2).
    Hybrid,
}

/// The distribution of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    Uniform,
    Zipfian,
}

/// Parses a mix: `a` (or `full`) to `f`, `write`, `hybrid`, then optionally `:LENGTH` of scans and `@uniform`
/// or `@zipfian`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    operations: Operations,
    keys: Keys,
    scan_length: i64,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known =
            "a (or full), b, c, d, e, f, write, hybrid, each with :LENGTH of scans and @uniform or @zipfian";
        let unknown = || format!("unknown mix \"{text}\" of ycsb; known are: {known}");
        let (rest, keys) = match text.split_once('@') {
            Some((rest, "uniform")) => (rest, Some(Keys::Uniform)),
            Some((rest, "zipfian")) => (rest, Some(Keys::Zipfian)),
            Some(_) => return Err(unknown()),
            None => (text, None),
        };
        let (name, length) = match rest.split_once(':') {
            Some((name, length)) => (name, length.parse().map_err(|_| unknown())?),
            None => (rest, SCAN_LENGTH),
        };
        let (operations, usual) = match name {
            "full" | "a" => (Operations::A, Keys::Zipfian),
            "b" => (Operations::B, Keys::Zipfian),
            "c" => (Operations::C, Keys::Zipfian),
            "d" => (Operations::D, Keys::Zipfian),
            "e" => (Operations::E, Keys::Zipfian),
            "f" => (Operations::F, Keys::Zipfian),
            "write" => (Operations::Write, Keys::Uniform),
            "hybrid" => (Operations::Hybrid, Keys::Uniform),
            _ => return Err(unknown()),
        };
        Ok(Self { operations, keys: keys.unwrap_or(usual), scan_length: length })
    }
}

/// YCSB with `scale` hundreds of thousands of records.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    records: i64,
    mix: Mix,
}

impl Ycsb {
    /// Returns YCSB of `scale` times 100,000 records.
    pub fn new(scale: u32, mix: Mix) -> Self {
        Self { records: i64::from(scale.max(1)) * RECORDS, mix }
    }
}

fn field(random: &mut SmallRng) -> Value {
    Value::Text(Alphanumeric.sample_string(random, FIELD_BYTES))
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn definitions(&self) -> Vec<&'static str> {
        vec![include_str!("schema.sql"), include_str!("procedures.sql")]
    }

    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Error> {
        run_jobs(db, (self.records / ROWS_PER_JOB) as usize, progress, |job, loader| {
            let mut random = random(seed, job as u64);
            let mut row = Vec::new();
            for key in job as i64 * ROWS_PER_JOB..(job as i64 + 1) * ROWS_PER_JOB {
                row.clear();
                row.push(Value::Int(key));
                row.extend((0..FIELDS).map(|_| field(&mut random)));
                loader.insert("usertable", &row)?;
            }
            Ok(())
        })
    }

    fn client(&self, number: usize, clients: usize, seed: u64) -> Box<dyn Client> {
        let mut random = random(seed, 2_000_000 + number as u64);
        // Field values are generated once, because generating them for each request would dominate its time.
        let values = (0..64).map(|_| field(&mut random)).collect();
        Box::new(Caller {
            of: *self,
            zipf: Zipf::new(self.records as f64, SKEW).expect("there are records, and the skew is positive"),
            scrambled: SmallRng::seed_from_u64(seed).random::<u64>() | 1,
            values,
            inserted: 0,
            own: (number as i64, clients as i64),
            random,
        })
    }

    fn trace(&self, request: &Request, _: &Row) -> Vec<Request> {
        if request.procedure != "ycsb_insert" {
            return Vec::new();
        }
        vec![Request { procedure: "ycsb_lacks", arguments: request.arguments[..1].to_vec() }]
    }

    fn conditions(&self) -> Vec<Request> {
        // The first and the last loaded record, which no request deletes.
        let lacks = |key| Request { procedure: "ycsb_lacks", arguments: vec![Value::Int(key)] };
        vec![lacks(0), lacks(self.records - 1)]
    }
}

struct Caller {
    of: Ycsb,
    zipf: Zipf<f64>,
    /// Spreads the popular keys over all of them.
    scrambled: u64,
    values: Vec<Value>,
    inserted: i64,
    /// The number of the client, and of all clients.
    own: (i64, i64),
    random: SmallRng,
}

impl Caller {
    /// Returns the rank of the next key; 0 is the most popular.
    fn rank(&mut self) -> i64 {
        (self.zipf.sample(&mut self.random) as i64 - 1).clamp(0, self.of.records - 1)
    }

    fn key(&mut self) -> Value {
        let records = self.of.records;
        Value::Int(match self.of.mix.keys {
            Keys::Uniform => self.random.random_range(0..records),
            Keys::Zipfian => {
                let rank = self.rank() as u64;
                (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.scrambled).rem_euclid(records as u64) as i64
            }
        })
    }

    /// Returns the key of an inserted or loaded record; later records are more popular.
    fn latest(&mut self) -> Value {
        let rank = self.rank();
        Value::Int(match self.inserted > rank {
            true => self.inserted_key(self.inserted - 1 - rank),
            false => self.of.records - 1 - (rank - self.inserted),
        })
    }

    fn inserted_key(&self, place: i64) -> i64 {
        self.of.records + self.own.0 + place * self.own.1
    }

    fn value(&mut self) -> Value {
        self.values[self.random.random_range(0..self.values.len())].clone()
    }

    fn insert(&mut self, request: &mut Request) {
        request.procedure = "ycsb_insert";
        request.arguments.push(Value::Int(self.inserted_key(self.inserted)));
        self.inserted += 1;
        request.arguments.extend((0..FIELDS).map(|_| self.value()));
    }
}

impl Client for Caller {
    fn next(&mut self, request: &mut Request) {
        request.arguments.clear();
        let percent = self.random.random_range(0..100);
        let reads = match self.of.mix.operations {
            Operations::A | Operations::F => 50,
            Operations::B | Operations::D | Operations::E => 95,
            Operations::C => 100,
            Operations::Write | Operations::Hybrid => 0,
        };
        match (self.of.mix.operations, percent < reads) {
            (Operations::D, true) => {
                request.procedure = "ycsb_read";
                request.arguments.push(self.latest());
            }
            (Operations::E, true) => {
                request.procedure = "ycsb_scan";
                let length = self.random.random_range(1..=self.of.mix.scan_length.max(1));
                request.arguments.extend([self.key(), Value::Int(length)]);
            }
            (_, true) => {
                request.procedure = "ycsb_read";
                request.arguments.push(self.key());
            }
            (Operations::D | Operations::E, false) => self.insert(request),
            (Operations::F, false) => {
                request.procedure = "ycsb_read_modify_write";
                request.arguments.extend([self.key(), self.value()]);
            }
            (Operations::Write, false) => {
                request.procedure = "ycsb_write_all";
                request.arguments.push(self.key());
                request.arguments.extend((0..FIELDS).map(|_| self.value()));
            }
            (Operations::Hybrid, false) => {
                request.procedure = "ycsb_write_and_scan";
                let length = Value::Int(self.of.mix.scan_length);
                request.arguments.extend([self.key(), self.value(), self.key(), length]);
            }
            (_, false) => {
                request.procedure = "ycsb_update";
                request.arguments.extend([self.key(), self.value()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_from_text() {
        let mix = |text: &str| text.parse::<Mix>();
        let hybrid = Mix { operations: Operations::Hybrid, keys: Keys::Zipfian, scan_length: 7 };
        assert_eq!(mix("hybrid:7@zipfian"), Ok(hybrid));
        assert_eq!(mix("write").map(|mix| mix.keys), Ok(Keys::Uniform));
        assert_eq!(mix("e@uniform").map(|mix| (mix.keys, mix.scan_length)), Ok((Keys::Uniform, SCAN_LENGTH)));
        for unknown in ["g", "a@normal", "hybrid:many", ""] {
            assert!(mix(unknown).unwrap_err().contains("known are: a (or full), b"));
        }
    }

    #[test]
    fn popular_keys_are_popular_and_spread() {
        let ycsb = Ycsb::new(1, "c".parse().unwrap());
        let mut client = ycsb.client(0, 1, 42);
        let mut counts = std::collections::BTreeMap::new();
        let mut request = Request::default();
        for _ in 0..100_000 {
            client.next(&mut request);
            let Value::Int(key) = request.arguments[0] else { panic!("a key is a number") };
            assert!((0..RECORDS).contains(&key));
            *counts.entry(key).or_insert(0) += 1;
        }
        let mut by_count: Vec<(i32, i64)> = counts.into_iter().map(|(key, count)| (count, key)).collect();
        by_count.sort_unstable();
        let (most, first) = by_count[by_count.len() - 1];
        let (next, second) = by_count[by_count.len() - 2];
        assert!(most > 6_000 && next > 3_000, "{most}, {next}");
        assert!((first - second).abs() > 1, "the most popular keys lie apart");
    }
}
