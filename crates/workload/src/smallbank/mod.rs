//! Smallbank. Source: Alomari et al., ICDE 2008, and H-Store's benchmark of that name (mix, hot accounts).

use crate::{Client, Request, Workload, random, run_jobs};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::{Database, Decimal, Error, Row, Value};

const CUSTOMERS: i64 = 100_000;
const HOT: i64 = 100;
const ROWS_PER_JOB: i64 = 10_000;

/// Smallbank with `scale` hundreds of thousands of customers.
#[derive(Clone, Copy, Debug)]
pub struct Smallbank {
    customers: i64,
}

impl Smallbank {
    /// Returns Smallbank of `scale` times 100,000 customers.
    pub fn new(scale: u32) -> Self {
        Self { customers: i64::from(scale.max(1)) * CUSTOMERS }
    }
}

fn money(cents: i64) -> Value {
    Value::from(Decimal { mantissa: cents.into(), scale: 2 })
}

/// Returns an amount in cents; 0 when it is no amount.
fn cents(amount: &Value) -> i64 {
    match amount {
        Value::Numeric(amount) => (amount.rescale(2).ok().and_then(|amount| amount.short()))
            .map_or(0, |amount| amount.mantissa as i64),
        Value::Int(amount) => amount * 100,
        _ => 0,
    }
}

impl Workload for Smallbank {
    fn name(&self) -> &'static str {
        "smallbank"
    }

    fn definitions(&self) -> Vec<&'static str> {
        vec![include_str!("schema.sql"), include_str!("procedures.sql")]
    }

    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Error> {
        let jobs = (self.customers / ROWS_PER_JOB) as usize;
        run_jobs(db, jobs, progress, |job, loader| {
            let mut random = random(seed, job as u64);
            for id in job as i64 * ROWS_PER_JOB..(job as i64 + 1) * ROWS_PER_JOB {
                loader.insert("accounts", &[Value::Int(id), Value::Text(format!("customer {id:012}"))])?;
                let mut balance = || money(random.random_range(1_000_000..5_000_000));
                loader.insert("savings", &[Value::Int(id), balance()])?;
                loader.insert("checking", &[Value::Int(id), balance()])?;
            }
            Ok(())
        })
    }

    fn client(&self, number: usize, _: usize, seed: u64) -> Box<dyn Client> {
        Box::new(Teller { customers: self.customers, random: random(seed, 1_000_000 + number as u64) })
    }

    fn trace(&self, _: &Request, _: &Row) -> Vec<Request> {
        Vec::new()
    }

    fn conditions(&self) -> Vec<Request> {
        vec![Request { procedure: "check_accounts", arguments: vec![Value::Int(self.customers)] }]
    }

    fn sum(&self) -> Option<Request> {
        Some(Request { procedure: "sum_of_balances", arguments: Vec::new() })
    }

    fn added(&self, request: &Request, row: &Row) -> i64 {
        match request.procedure {
            "deposit_checking" | "transact_savings" => cents(&request.arguments[1]),
            "write_check" => -cents(&row[0]),
            // The remaining procedures move money between accounts, or read.
            _ => 0,
        }
    }
}

struct Teller {
    customers: i64,
    random: SmallRng,
}

impl Teller {
    fn account(&mut self) -> i64 {
        let range = if self.random.random_bool(0.25) { HOT.min(self.customers) } else { self.customers };
        self.random.random_range(0..range)
    }

    fn two_accounts(&mut self) -> [Value; 2] {
        let first = self.account();
        let mut second = self.account();
        while second == first {
            second = self.account();
        }
        [Value::Int(first), Value::Int(second)]
    }
}

impl Client for Teller {
    fn next(&mut self, request: &mut Request) {
        request.arguments.clear();
        let arguments = &mut request.arguments;
        request.procedure = match self.random.random_range(0..100) {
            0..15 => {
                arguments.extend(self.two_accounts());
                "amalgamate"
            }
            15..30 => {
                arguments.push(Value::Int(self.account()));
                "balance"
            }
            30..45 => {
                arguments.extend([Value::Int(self.account()), money(130)]);
                "deposit_checking"
            }
            45..70 => {
                arguments.extend(self.two_accounts());
                arguments.push(money(500));
                "send_payment"
            }
            70..85 => {
                arguments.extend([Value::Int(self.account()), money(2_020)]);
                "transact_savings"
            }
            _ => {
                arguments.extend([Value::Int(self.account()), money(500)]);
                "write_check"
            }
        };
    }
}
