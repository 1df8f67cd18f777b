//! YCSB. Source: Cooper et al., SoCC 2010 (mixes A to F, Zipfian and latest distributions); Poplar §6.2
//! (write-only and hybrid); DistDGCC §5.1 (several operations a transaction).

mod mix;

pub use mix::Mix;

use crate::{Client, Request, Workload, random, run_jobs};
use mix::{Keys, Operations};
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};
use reprise::{Database, Error, Row, Value};

const RECORDS: i64 = 100_000;
const ROWS_PER_JOB: i64 = 5_000;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
/// YCSB's constant of skew.
const SKEW: f64 = 0.99;
/// YCSB with `scale` hundreds of thousands of records.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    records: i64,
    mix: Mix,
    /// Operations of a transaction.
    operations: usize,
    /// The exponent of the Zipfian distribution.
    skew: f64,
}

impl Ycsb {
    /// Returns YCSB of `scale` times 100,000 records.
    pub fn new(scale: u32, mix: Mix) -> Self {
        Self { records: i64::from(scale.max(1)) * RECORDS, mix, operations: 1, skew: SKEW }
    }

    /// Makes each transaction several operations on different keys.
    ///
    /// # Errors
    /// The mix has operations other than reads and writes of loaded rows.
    pub fn with_operations(mut self, operations: usize) -> Result<Self, String> {
        if operations > 1 && !self.mix.operations.can_be_several() {
            return Err("only the mixes a, b, c and f of ycsb have transactions of several operations".into());
        }
        self.operations = operations.max(1);
        Ok(self)
    }

    /// Makes keys Zipfian with this exponent.
    ///
    /// # Errors
    /// The mix names uniform keys.
    pub fn with_skew(mut self, skew: f64) -> Result<Self, String> {
        if self.mix.names_keys && self.mix.keys == Keys::Uniform {
            return Err("uniform keys have no skew".into());
        }
        self.mix.keys = Keys::Zipfian;
        self.skew = skew;
        Ok(self)
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
            zipf: Zipf::new(self.records as f64, self.skew.max(0.0))
                .expect("there are records, and the skew is not negative"),
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

    /// Returns a key that is not among some keys: where the distribution gives one of these, the next one.
    fn key_besides(&mut self, taken: &[Value]) -> Value {
        let mut key = self.key();
        while taken.contains(&key) {
            let Value::Int(number) = key else { break };
            key = Value::Int((number + 1) % self.of.records);
        }
        key
    }

    /// Writes a transaction of several operations. A read-modify-write reads and updates the same key.
    fn transaction(&mut self, request: &mut Request) {
        let operations = self.of.mix.operations;
        let (mut reads, mut updates, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.of.operations {
            let key = self.key_besides(&keys);
            let is_read = self.random.random_range(0..100) < operations.reads();
            if is_read || operations == Operations::F {
                reads.push(key.clone());
            }
            if !is_read {
                updates.push(key.clone());
            }
            keys.push(key);
        }
        request.procedure = "ycsb_transaction";
        request.arguments.extend([Value::Array(reads), Value::Array(updates), self.value()]);
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
        if self.of.operations > 1 {
            return self.transaction(request);
        }
        let percent = self.random.random_range(0..100);
        match (self.of.mix.operations, percent < self.of.mix.operations.reads()) {
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
    use std::collections::BTreeSet;

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
    #[test]
    fn transactions_have_different_keys() {
        for (mix, reads) in [("a", 35..65), ("b", 85..100), ("c", 100..101), ("f", 100..101)] {
            let ycsb = Ycsb::new(1, mix.parse().unwrap()).with_operations(10).unwrap();
            let mut client = ycsb.with_skew(0.8).unwrap().client(0, 1, 42);
            let mut request = Request::default();
            let (mut read, mut updated) = (0, 0);
            for _ in 0..1_000 {
                client.next(&mut request);
                assert_eq!(request.procedure, "ycsb_transaction");
                let keys = |argument: usize| match &request.arguments[argument] {
                    Value::Array(keys) => keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    other => panic!("{other} is no array of keys"),
                };
                read += keys(0).len();
                updated += keys(1).len();
                let all: BTreeSet<String> = keys(0).into_iter().chain(keys(1)).collect();
                assert_eq!(all.len(), 10, "{request:?}");
            }
            assert!(reads.contains(&(read / 100)), "{mix}: {read} reads, {updated} updates");
            assert!(mix == "f" || read + updated == 10_000, "{mix}: {read} reads, {updated} updates");
        }
    }

    #[test]
    fn settings_without_a_meaning_are_refused() {
        let ycsb = |mix: &str| Ycsb::new(1, mix.parse().unwrap());
        for mix in ["d", "e", "write", "hybrid"] {
            assert!(ycsb(mix).with_operations(1).is_ok());
            assert!(ycsb(mix).with_operations(2).unwrap_err().contains("only the mixes a, b, c and f"));
        }
        assert!(ycsb("a@uniform").with_skew(0.6).unwrap_err().contains("uniform keys"));
        assert_eq!(ycsb("write").with_skew(0.6).unwrap().mix.keys, Keys::Zipfian);
    }
}
