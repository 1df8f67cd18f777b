//! Workloads: schema and procedures as `.sql` files, loaders, request mixes, consistency checks.

pub mod smallbank;
pub mod tpcc;
pub mod ycsb;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use reprise::{Database, Error, Row, Value};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A call of a procedure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Request {
    /// The procedure.
    pub procedure: &'static str,
    /// Its arguments.
    pub arguments: Vec<Value>,
}

/// Generates the requests of one client.
pub trait Client: Send {
    /// Writes the next request.
    fn next(&mut self, request: &mut Request);
}

/// A workload of a given size.
pub trait Workload: Send + Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the scripts that define tables and procedures.
    fn definitions(&self) -> Vec<&'static str>;

    /// Fills the tables on all cores; calls `progress` with the number of finished jobs and of all jobs.
    ///
    /// # Errors
    /// The memory limit is reached, or the tables have rows already.
    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Error>;

    /// Returns the client of a number below `clients`.
    fn client(&self, number: usize, clients: usize, seed: u64) -> Box<dyn Client>;

    /// Returns calls that find the effects of an acknowledged request later; each returns true.
    fn trace(&self, request: &Request, row: &Row) -> Vec<Request>;

    /// Returns checks that hold in every state; each returns 0 in its first output.
    fn conditions(&self) -> Vec<Request>;

    /// Returns the call whose first output is the sum of everything that the rows hold, as an integer; `None`
    /// when the workload has no such sum.
    fn sum(&self) -> Option<Request> {
        None
    }

    /// Returns by how much a committed request has changed the sum.
    fn added(&self, _request: &Request, _row: &Row) -> i64 {
        0
    }
}

/// What is chosen of a workload.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The number of warehouses, or of hundreds of thousands of customers or records.
    pub scale: u32,
    /// The mix of transactions.
    pub mix: String,
    /// Operations of a transaction of YCSB.
    pub operations: usize,
    /// The exponent of the Zipfian keys of YCSB; `None` is YCSB's constant.
    pub skew: Option<f64>,
}

impl Settings {
    /// Returns the workload of a name.
    ///
    /// # Errors
    /// An unknown workload or mix, where the message lists the known ones; or settings that it does not have.
    pub fn workload(&self, name: &str) -> Result<Box<dyn Workload>, String> {
        if name != "ycsb" && self.operations > 1 {
            return Err(format!("only ycsb has transactions of several operations, not {name}"));
        }
        if name != "ycsb" && self.skew.is_some() {
            return Err(format!("only ycsb has keys of a skew, not {name}"));
        }
        match name {
            "tpcc" => Ok(Box::new(tpcc::Tpcc::new(self.scale, self.mix.parse()?))),
            "smallbank" => match self.mix.as_str() {
                "full" => Ok(Box::new(smallbank::Smallbank::new(self.scale))),
                mix => Err(format!("unknown mix \"{mix}\" of smallbank; known are: full")),
            },
            "ycsb" => {
                let ycsb = ycsb::Ycsb::new(self.scale, self.mix.parse()?).with_operations(self.operations)?;
                Ok(Box::new(self.skew.map_or(Ok(ycsb), |skew| ycsb.with_skew(skew))?))
            }
            _ => Err(format!("unknown workload \"{name}\"; known are: tpcc, smallbank, ycsb")),
        }
    }
}

/// Returns a workload by name, of a size and mix, and with the defaults of everything else.
///
/// # Errors
/// An unknown workload or mix; the message lists the known ones.
pub fn by_name(name: &str, scale: u32, mix: &str) -> Result<Box<dyn Workload>, String> {
    Settings { scale, mix: mix.into(), operations: 1, skew: None }.workload(name)
}

/// Returns a generator that is determined by a seed and a number.
fn random(seed: u64, number: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Runs jobs on all cores; each receives its index and a loader.
fn run_jobs(
    db: &Database,
    jobs: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
    job: impl Fn(usize, &mut reprise::Loader) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
    let run = || -> Result<(), Error> {
        let mut loader = db.loader()?;
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= jobs {
                return Ok(());
            }
            job(place, &mut loader)?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(error) = run() {
                    next.store(jobs, Ordering::Relaxed);
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
