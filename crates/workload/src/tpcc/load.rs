//! The initial database: clause 4.3.3.

use super::requests::{C_LAST_LOAD, last_name, nurand};
use super::{CUSTOMERS, DISTRICTS, ITEMS, int};
use crate::{random, run_jobs};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use reprise::{Database, Decimal, Error, Loader, Value};

/// 2026-01-01, in microseconds since 2000-01-01.
const LOADED_AT: i64 = 820_540_800_000_000;
/// The first order that is not delivered yet.
const FIRST_OPEN: i32 = 2_101;

fn text(random: &mut SmallRng, least: usize, most: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let length = random.random_range(least..=most);
    (0..length).map(|_| LETTERS[random.random_range(0..LETTERS.len())] as char).collect()
}

fn digits(random: &mut SmallRng, length: usize) -> String {
    (0..length).map(|_| char::from(b'0' + random.random_range(0..10u8))).collect()
}

fn decimal(mantissa: i64, scale: u8) -> Value {
    Value::from(Decimal { mantissa: mantissa.into(), scale })
}

/// Clause 4.3.3.1: a tenth of the texts contain "ORIGINAL".
fn data(random: &mut SmallRng) -> String {
    let mut data = text(random, 26, 50);
    if random.random_bool(0.1) {
        let at = random.random_range(0..=data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}

/// Street, street, city, state, zip.
fn address(random: &mut SmallRng) -> [Value; 5] {
    [
        text(random, 10, 20).into(),
        text(random, 10, 20).into(),
        text(random, 10, 20).into(),
        text(random, 2, 2).into(),
        (digits(random, 4) + "11111").into(),
    ]
}

/// Fills all tables by jobs: one for the items, one for each warehouse's stock, one for each district.
pub(super) fn load(
    warehouses: i32,
    db: &Database,
    seed: u64,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(), Error> {
    let per_warehouse = DISTRICTS as usize + 1;
    run_jobs(db, 1 + warehouses as usize * per_warehouse, progress, |job, loader| {
        let mut random = random(seed, job as u64);
        let Some(place) = job.checked_sub(1) else { return items(loader, &mut random) };
        let warehouse = (place / per_warehouse) as i32 + 1;
        match place % per_warehouse {
            0 => warehouse_and_stock(loader, &mut random, warehouse),
            district => district_rows(loader, &mut random, warehouse, district as i32),
        }
    })
}

fn items(loader: &mut Loader, random: &mut SmallRng) -> Result<(), Error> {
    for item in 1..=ITEMS {
        let row = [
            int(item),
            int(random.random_range(1..=10_000)),
            text(random, 14, 24).into(),
            decimal(random.random_range(100..=10_000), 2),
            data(random).into(),
        ];
        loader.insert("item", &row)?;
    }
    Ok(())
}

fn warehouse_and_stock(loader: &mut Loader, random: &mut SmallRng, warehouse: i32) -> Result<(), Error> {
    let mut row = vec![int(warehouse), text(random, 6, 10).into()];
    row.extend(address(random));
    row.extend([decimal(random.random_range(0..=2_000), 4), decimal(30_000_000, 2)]);
    loader.insert("warehouse", &row)?;
    for item in 1..=ITEMS {
        let mut row = vec![int(item), int(warehouse), int(random.random_range(10..=100))];
        row.extend((0..10).map(|_| Value::from(text(random, 24, 24))));
        row.extend([int(0), int(0), int(0), data(random).into()]);
        loader.insert("stock", &row)?;
    }
    Ok(())
}

fn district_rows(
    loader: &mut Loader,
    random: &mut SmallRng,
    warehouse: i32,
    district: i32,
) -> Result<(), Error> {
    let mut row = vec![int(district), int(warehouse), text(random, 6, 10).into()];
    row.extend(address(random));
    row.extend([decimal(random.random_range(0..=2_000), 4), decimal(3_000_000, 2), int(CUSTOMERS + 1)]);
    loader.insert("district", &row)?;
    for customer in 1..=CUSTOMERS {
        customer_rows(loader, random, [warehouse, district, customer])?;
    }
    let mut customers: Vec<i32> = (1..=CUSTOMERS).collect();
    customers.shuffle(random);
    for (order, customer) in (1..).zip(customers) {
        order_rows(loader, random, [warehouse, district, order], customer)?;
    }
    Ok(())
}

fn customer_rows(
    loader: &mut Loader,
    random: &mut SmallRng,
    [warehouse, district, customer]: [i32; 3],
) -> Result<(), Error> {
    let name = match customer {
        1..=1000 => last_name(customer - 1),
        _ => last_name(nurand(random, 255, C_LAST_LOAD, 0, 999)),
    };
    let mut row = vec![int(customer), int(district), int(warehouse)];
    row.extend([text(random, 8, 16).into(), "OE".into(), Value::from(name)]);
    row.extend(address(random));
    let credit = if random.random_bool(0.1) { "BC" } else { "GC" };
    row.extend([digits(random, 16).into(), Value::Timestamp(LOADED_AT), credit.into()]);
    row.extend([decimal(5_000_000, 2), decimal(random.random_range(0..=5_000), 4)]);
    row.extend([decimal(-1_000, 2), decimal(1_000, 2), int(1), int(0), text(random, 300, 500).into()]);
    loader.insert("customer", &row)?;
    let ids = [customer, district, warehouse, 1, district, warehouse].map(int);
    let mut row = ids.to_vec();
    row.extend([Value::Timestamp(LOADED_AT), decimal(1_000, 2), text(random, 12, 24).into()]);
    loader.insert("history", &row)
}

fn order_rows(
    loader: &mut Loader,
    random: &mut SmallRng,
    [warehouse, district, order]: [i32; 3],
    customer: i32,
) -> Result<(), Error> {
    let lines = random.random_range(5..=15);
    let is_open = order >= FIRST_OPEN;
    let carrier = if is_open { Value::Null } else { int(random.random_range(1..=10)) };
    let mut row = [order, district, warehouse, customer].map(int).to_vec();
    row.extend([Value::Timestamp(LOADED_AT), carrier, int(lines), int(1)]);
    loader.insert("orders", &row)?;
    for line in 1..=lines {
        let item = random.random_range(1..=ITEMS);
        let mut row = [order, district, warehouse, line, item, warehouse].map(int).to_vec();
        let (delivered, amount) = if is_open {
            (Value::Null, random.random_range(1..=999_999))
        } else {
            (Value::Timestamp(LOADED_AT), 0)
        };
        row.extend([delivered, int(5), decimal(amount, 2), text(random, 24, 24).into()]);
        loader.insert("order_line", &row)?;
    }
    if is_open {
        loader.insert("new_order", &[order, district, warehouse].map(int))?;
    }
    Ok(())
}
