//! Random queries, whose filters, values, groups, joins and assignments are expressions of every type, as
//! text.

use super::expressions::{Names, TYPES, Ty, expression, one_of};
use rand::Rng;
use rand::rngs::SmallRng;

/// A table with a column of every type that a column may have, and its rows.
pub fn tables(random: &mut SmallRng) -> String {
    let columns = columns("");
    let definitions: Vec<String> = columns.iter().map(|(name, ty)| format!("{name} {}", ty.name())).collect();
    let mut script = format!(
        "DROP TABLE IF EXISTS q; CREATE TABLE q (id INTEGER PRIMARY KEY, {}); CREATE INDEX ON q (c1);",
        definitions.join(", ")
    );
    for id in 0..40 {
        let value = |(_, ty): &(String, Ty)| match random.random_ratio(1, 5) {
            true => "NULL".to_owned(),
            false => expression(random, &Vec::new(), *ty, 0),
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        script.push_str(&format!("INSERT INTO q VALUES ({id}, {});", values.join(", ")));
    }
    script
}

/// The columns of the table, under a name of the table or none.
fn columns(prefix: &str) -> Names {
    let kept = TYPES.into_iter().filter(|ty| !matches!(ty, Ty::Ints | Ty::Texts));
    kept.enumerate().map(|(place, ty)| (format!("{prefix}c{place}"), ty)).collect()
}

/// Draws one query. All its rows are in an order that it states.
pub fn query(random: &mut SmallRng) -> String {
    let of = |random: &mut SmallRng, names: &Names, ty: Ty| {
        let depth = random.random_range(1..4);
        expression(random, names, ty, depth)
    };
    let own = columns("");
    let any = |random: &mut SmallRng| TYPES[random.random_range(0..TYPES.len())];
    let ty = any(random);
    match random.random_range(0..7) {
        0 => {
            let (value, filter) = (of(random, &own, ty), of(random, &own, Ty::Boolean));
            format!("SELECT id, {value} FROM q WHERE {filter} ORDER BY id")
        }
        1 => {
            let (value, filter) = (of(random, &own, Ty::Cents), of(random, &own, Ty::Boolean));
            let aggregate = one_of(random, &["sum", "min", "max", "count"]);
            let only = of(random, &own, Ty::Boolean);
            format!("SELECT {aggregate}({value}), count(*) FILTER (WHERE {only}) FROM q WHERE {filter}")
        }
        2 => {
            let (key, value) = (of(random, &own, Ty::Int), of(random, &own, Ty::BigInt));
            format!("SELECT {key} AS k, count(*), max({value}) FROM q GROUP BY 1 ORDER BY 1")
        }
        3 => {
            let both: Names = columns("a.").into_iter().chain(columns("b.")).collect();
            let (condition, value) = (of(random, &both, Ty::Boolean), of(random, &both, ty));
            let join = one_of(random, &["JOIN", "LEFT JOIN"]);
            let on = one_of(random, &["a.id = b.id", "a.id < b.id AND b.id < 9", "a.c1 + 1 = b.c1 + 1"]);
            format!("SELECT a.id, b.id, {value} FROM q a {join} q b ON {on} AND {condition} ORDER BY 1, 2")
        }
        4 => {
            let key = of(random, &own, Ty::Int);
            format!("SELECT id FROM q ORDER BY {key} DESC NULLS LAST, id LIMIT 7")
        }
        5 => {
            let place = random.random_range(0..own.len());
            let (column, ty) = &own[place];
            let (value, filter) = (of(random, &own, *ty), of(random, &own, Ty::Boolean));
            format!("UPDATE q SET {column} = {value} WHERE id < 20 AND {filter} RETURNING id, {column}")
        }
        _ => {
            let filter = of(random, &own, Ty::Boolean);
            format!("DELETE FROM q WHERE id > 35 AND {filter} RETURNING id")
        }
    }
}
