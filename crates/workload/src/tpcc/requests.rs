//! The requests of terminals: clause 2, input generation.

use super::{CUSTOMERS, DISTRICTS, ITEMS, Mix, int};
use crate::{Client, Request, random};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::{Decimal, Value};

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Clause 4.3.2.3: a last name from a number below 1,000.
pub(super) fn last_name(number: i32) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Clause 2.1.6: the constants C of the non-uniform distribution, for loading and for running.
pub(super) const C_LAST_LOAD: i32 = 157;
const C_LAST_RUN: i32 = 223;
const C_CUSTOMER: i32 = 259;
const C_ITEM: i32 = 7_911;

/// Clause 2.1.6: non-uniform numbers.
pub(super) fn nurand(random: &mut SmallRng, a: i32, c: i32, least: i32, most: i32) -> i32 {
    let mixed = random.random_range(0..=a) | random.random_range(least..=most);
    (mixed + c) % (most - least + 1) + least
}

pub(super) struct Terminal {
    warehouses: i32,
    mix: Mix,
    home: i32,
    random: SmallRng,
    now_us: i64,
}

impl Terminal {
    pub(super) fn new(warehouses: i32, mix: Mix, number: usize, clients: usize, seed: u64) -> Self {
        // Terminals spread over the warehouses; with fewer terminals than warehouses each has several.
        let home = number as i32 % warehouses + 1;
        let home = if clients < warehouses as usize { 0 } else { home };
        let random = random(seed, 1_000_000 + number as u64);
        Self { warehouses, mix, home, random, now_us: 845_000_000_000_000 }
    }

    fn warehouse(&mut self) -> i32 {
        if self.home > 0 { self.home } else { self.random.random_range(1..=self.warehouses) }
    }

    fn district(&mut self) -> i32 {
        self.random.random_range(1..=DISTRICTS)
    }

    fn now(&mut self) -> Value {
        self.now_us += self.random.random_range(1..2_000);
        Value::Timestamp(self.now_us)
    }

    fn other_warehouse(&mut self, own: i32) -> i32 {
        if self.warehouses == 1 {
            return own;
        }
        let other = self.random.random_range(1..self.warehouses);
        if other >= own { other + 1 } else { other }
    }

    /// Clauses 2.5.1.2 and 2.6.1.2: 60 % by last name, 40 % by number.
    fn customer(&mut self) -> [Value; 2] {
        if self.random.random_bool(0.6) {
            let name = last_name(nurand(&mut self.random, 255, C_LAST_RUN, 0, 999));
            [Value::Null, Value::Text(name)]
        } else {
            [int(nurand(&mut self.random, 1023, C_CUSTOMER, 1, CUSTOMERS)), Value::Null]
        }
    }

    fn new_order(&mut self, arguments: &mut Vec<Value>) {
        let warehouse = self.warehouse();
        let customer = nurand(&mut self.random, 1023, C_CUSTOMER, 1, CUSTOMERS);
        let lines = self.random.random_range(5..=15);
        let (mut items, mut supply, mut quantities) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..lines {
            items.push(int(nurand(&mut self.random, 8191, C_ITEM, 1, ITEMS)));
            let remote = self.random.random_bool(0.01);
            supply.push(int(if remote { self.other_warehouse(warehouse) } else { warehouse }));
            quantities.push(int(self.random.random_range(1..=10)));
        }
        if self.random.random_bool(0.01) {
            // Clause 2.4.1.4: an unused item number comes last.
            items[lines - 1] = int(ITEMS + 1);
        }
        let district = self.district();
        arguments.extend([int(warehouse), int(district), int(customer), self.now()]);
        arguments.extend([Value::Array(items), Value::Array(supply), Value::Array(quantities)]);
    }

    fn payment(&mut self, arguments: &mut Vec<Value>) {
        let (warehouse, district) = (self.warehouse(), self.district());
        let (customer_warehouse, customer_district) = if self.random.random_bool(0.85) {
            (warehouse, district)
        } else {
            (self.other_warehouse(warehouse), self.district())
        };
        arguments.extend([warehouse, district, customer_warehouse, customer_district].map(int));
        arguments.extend(self.customer());
        let cents: i64 = self.random.random_range(100..=500_000);
        arguments.push(Value::from(Decimal { mantissa: cents.into(), scale: 2 }));
        arguments.push(self.now());
    }
}

impl Client for Terminal {
    fn next(&mut self, request: &mut Request) {
        request.arguments.clear();
        let arguments = &mut request.arguments;
        let die = match self.mix {
            Mix::Full => self.random.random_range(0..100),
            Mix::Write => self.random.random_range(0..2) * 45,
            Mix::NewOrder => 0,
        };
        request.procedure = match die {
            0..45 => {
                self.new_order(arguments);
                "new_order"
            }
            45..88 => {
                self.payment(arguments);
                "payment"
            }
            88..92 => {
                arguments.extend([int(self.warehouse()), int(self.district())]);
                arguments.extend(self.customer());
                "order_status"
            }
            92..96 => {
                let carrier = self.random.random_range(1..=10);
                arguments.extend([int(self.warehouse()), int(carrier), self.now()]);
                "delivery"
            }
            _ => {
                let threshold = self.random.random_range(10..=20);
                arguments.extend([int(self.warehouse()), int(self.district()), int(threshold)]);
                "stock_level"
            }
        };
    }
}
