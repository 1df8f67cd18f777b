//! TPC-C. Source: the standard, revision 5.11; clause numbers below are its.
//! Differs: terminals have no think time and no fixed district.

mod load;
mod requests;

use crate::{Client, Request, Workload};
use reprise::{Database, Error, Row, Value};
use std::str::FromStr;

pub(crate) const DISTRICTS: i32 = 10;
pub(crate) const CUSTOMERS: i32 = 3_000;
pub(crate) const ITEMS: i32 = 100_000;

/// The shares of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// 45 % New-Order, 43 % Payment, 4 % each of Order-Status, Delivery, Stock-Level.
    Full,
    /// New-Order and Payment, half each (Poplar §6.2).
    Write,
    /// New-Order only.
    NewOrder,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "write" | "poplar" => Ok(Self::Write),
            "new-order" => Ok(Self::NewOrder),
            _ => {
                Err(format!("unknown mix \"{text}\" of tpcc; known are: full, write (or poplar), new-order"))
            }
        }
    }
}

/// TPC-C of a number of warehouses.
#[derive(Clone, Copy, Debug)]
pub struct Tpcc {
    warehouses: i32,
    mix: Mix,
}

impl Tpcc {
    /// Returns TPC-C of `scale` warehouses.
    pub fn new(scale: u32, mix: Mix) -> Self {
        Self { warehouses: i32::try_from(scale.max(1)).unwrap_or(i32::MAX), mix }
    }
}

fn int(value: i32) -> Value {
    Value::Int(value.into())
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn definitions(&self) -> Vec<&'static str> {
        vec![include_str!("schema.sql"), include_str!("procedures.sql"), include_str!("consistency.sql")]
    }

    fn load(&self, db: &Database, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<(), Error> {
        load::load(self.warehouses, db, seed, progress)
    }

    fn client(&self, number: usize, clients: usize, seed: u64) -> Box<dyn Client> {
        Box::new(requests::Terminal::new(self.warehouses, self.mix, number, clients, seed))
    }

    fn trace(&self, request: &Request, row: &Row) -> Vec<Request> {
        let arguments = &request.arguments;
        let find = |procedure, arguments: Vec<Value>| Request { procedure, arguments };
        match request.procedure {
            "new_order" => {
                vec![find("has_order", vec![arguments[0].clone(), arguments[1].clone(), row[0].clone()])]
            }
            "payment" => {
                let (warehouse, district) = (arguments[2].clone(), arguments[3].clone());
                vec![find("has_payment", vec![warehouse, district, row[0].clone(), row[1].clone()])]
            }
            "delivery" => match &row[0] {
                Value::Array(orders) => (1..)
                    .zip(orders)
                    .filter(|(_, order)| **order != Value::Null)
                    .map(|(district, order)| {
                        find("is_delivered", vec![arguments[0].clone(), int(district), order.clone()])
                    })
                    .collect(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn conditions(&self) -> Vec<Request> {
        let mut requests = Vec::new();
        for warehouse in 1..=self.warehouses {
            let arguments = vec![int(warehouse)];
            requests.push(Request { procedure: "check_warehouse", arguments });
            for district in 1..=DISTRICTS {
                let arguments = vec![int(warehouse), int(district)];
                requests.push(Request { procedure: "check_district", arguments });
            }
        }
        requests
    }
}
