//! The statements of a history, drawn at random: definitions, writes and calls over the tables that
//! PostgreSQL has at the time.

use super::{Kind, Table};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ops::Range;

/// Draws statements.
pub(super) struct Generator {
    random: SmallRng,
    named: usize,
    /// Triggers that may exist: the table of each, and its name.
    pub(super) triggers: Vec<(String, String)>,
}

const TYPES: [&str; 10] = [
    "INT",
    "INT",
    "BIGINT",
    "SMALLINT",
    "TEXT",
    "VARCHAR(2)",
    "NUMERIC(5,1)",
    "BOOLEAN",
    "DOUBLE PRECISION",
    "REAL",
];

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), named: 0, triggers: Vec::new() }
    }

    pub(super) fn within(&mut self, range: Range<usize>) -> usize {
        self.random.random_range(range)
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.random.random_range(0..n) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.choose(&mut self.random)
    }

    pub(super) fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all.choose(&mut self.random).unwrap()
    }

    pub(super) fn name(&mut self, first: char) -> String {
        self.named += 1;
        format!("{first}{}", self.named)
    }

    fn value(&mut self, ty: &str) -> String {
        if self.one_in(9) {
            return "NULL".into();
        }
        let number = self.random.random_range(1..6);
        let ty = ty.to_lowercase();
        match &*ty {
            "boolean" => self.of(&["true", "false"]).into(),
            own if own.starts_with("numeric") => self.of(&["1.0", "2.5", "3", "4.04", "99999.5"]).into(),
            "smallint" if self.one_in(20) => "40000".into(),
            "integer" | "int" if self.one_in(20) => "3000000000".into(),
            "text" => self.of(&["'1'", "'2'", "'a'", "'ab'", "'abc'", "''"]).into(),
            own if own.starts_with("char") || own.starts_with("varchar") => {
                self.of(&["'1'", "'2'", "'a'", "'ab'", "'abc'", "''"]).into()
            }
            _ => number.to_string(),
        }
    }

    /// A value within the bounds of its type. PostgreSQL refuses another one as a default when that is taken,
    /// in an UPDATE even if no row is found; Reprise refuses the default, and runs the UPDATE.
    pub(super) fn fitting(&mut self, ty: &str) -> String {
        match &*self.value(ty) {
            "'abc'" => "'b'".into(),
            "99999.5" => "4.5".into(),
            "40000" | "3000000000" => "4".into(),
            value => value.into(),
        }
    }

    fn action(&mut self) -> String {
        let mut text = String::new();
        for event in ["DELETE", "UPDATE"] {
            let action =
                self.of(&["", "NO ACTION", "RESTRICT", "CASCADE", "CASCADE", "SET NULL", "SET DEFAULT"]);
            if !action.is_empty() {
                text += &format!(" ON {event} {action}");
            }
        }
        text
    }

    fn constant_default(&mut self, ty: &str) -> String {
        if self.one_in(2) { format!(" DEFAULT {}", self.fitting(ty)) } else { String::new() }
    }

    fn check(&mut self, column: &str, ty: &str) -> String {
        let is_text = ty.eq_ignore_ascii_case("text") || ty.to_lowercase().contains("char");
        match ty.to_lowercase().as_str() {
            "boolean" => format!("{column} IS NOT FALSE"),
            _ if is_text => format!("{column} <> 'abc'"),
            _ => format!("{column} {}", self.of(&["< 6", "<> 3", "> 0"])),
        }
    }

    pub(super) fn create_table(&mut self, tables: &[Table]) -> String {
        let name = self.name('t');
        let mut columns: Vec<(String, String)> = Vec::new();
        let mut parts = Vec::new();
        for _ in 0..self.random.random_range(1..4) {
            columns.push((self.name('c'), self.of(&TYPES).into()));
        }
        let own_keys = if self.one_in(3) && columns.len() > 1 { 2 } else { 1 };
        let mut keys = vec![(name.clone(), columns[..own_keys].to_vec())];
        for table in tables {
            let key = |key: &Vec<usize>| {
                (table.name.clone(), key.iter().map(|c| table.columns[*c].clone()).collect())
            };
            keys.extend(table.keys.iter().map(key));
        }
        for _ in 0..self.random.random_range(0..3) {
            let (parent, key) = self.pick(&keys).unwrap().clone();
            let mut own: Vec<String> = Vec::new();
            for (_, ty) in &key {
                // Often a column that another key has, too.
                let same = |(name, own_ty): &&(String, String)| own_ty == ty && !own.contains(name);
                let same: Vec<_> = columns.iter().filter(same).collect();
                let shared =
                    if self.one_in(3) { self.pick(&same).map(|(name, _)| name.clone()) } else { None };
                own.push(shared.unwrap_or_else(|| {
                    let name = self.name('c');
                    columns.push((name.clone(), ty.clone()));
                    name
                }));
            }
            let referenced: Vec<_> = key.iter().map(|(name, _)| name.clone()).collect();
            let action = self.action();
            parts.push(format!(
                "FOREIGN KEY ({}) REFERENCES {parent} ({}){action}",
                own.join(", "),
                referenced.join(", ")
            ));
        }
        let key: Vec<_> = columns[..own_keys].iter().map(|(name, _)| name.clone()).collect();
        parts.push(format!("{} ({})", self.of(&["PRIMARY KEY", "PRIMARY KEY", "UNIQUE"]), key.join(", ")));
        let mut texts = Vec::new();
        for (name, ty) in &columns {
            let mut text = format!("{name} {ty}{}", self.constant_default(ty));
            if self.one_in(6) {
                text += " NOT NULL";
            }
            if self.one_in(8) {
                text += self.of(&[" UNIQUE", " UNIQUE NULLS NOT DISTINCT", " UNIQUE DEFERRABLE"]);
            }
            if self.one_in(6) {
                text += &format!(" CHECK ({})", self.check(name, ty));
            }
            texts.push(text);
        }
        texts.append(&mut parts);
        format!("CREATE TABLE {name} ({})", texts.join(", "))
    }

    fn condition(&mut self, table: &Table) -> String {
        let place = self.random.random_range(0..table.columns.len());
        let (column, ty) = table.columns[place].clone();
        match self.random.random_range(0..12) {
            0 => String::new(),
            4..8 if !table.rows.is_empty() => {
                format!(" WHERE {column} = {}", self.pick(&table.rows).unwrap()[place])
            }
            1 => format!(" WHERE {column} IS NULL"),
            2 | 3 if ty != "boolean" => {
                format!(" WHERE {column} {} {}", self.of(&["<", ">", "<>"]), self.value(&ty))
            }
            _ => format!(" WHERE {column} = {}", self.value(&ty)),
        }
    }

    /// Values for a new row, which mostly reference rows that are there.
    fn row(&mut self, table: &Table, tables: &[Table]) -> Vec<String> {
        let mut row: Vec<_> = table.columns.iter().map(|(_, ty)| self.value(ty)).collect();
        for (own, parent, referenced) in &table.references {
            let parent = tables.iter().find(|other| other.name == *parent).unwrap();
            let mut found = self.pick(&parent.rows).cloned();
            if parent.name == table.name && self.one_in(2) {
                found = Some(row.clone());
            }
            if let Some(found) = found
                && !self.one_in(5)
            {
                own.iter()
                    .zip(referenced)
                    .for_each(|(own, referenced)| row[*own].clone_from(&found[*referenced]));
            }
        }
        row
    }

    fn write(&mut self, table: &Table, tables: &[Table]) -> String {
        let name = &table.name;
        match self.random.random_range(0..10) {
            0..5 => {
                let mut places: Vec<_> = (0..table.columns.len()).collect();
                if places.len() > 1 && self.one_in(4) {
                    places.remove(self.random.random_range(0..places.len()));
                }
                let names: Vec<_> = places.iter().map(|place| table.columns[*place].0.as_str()).collect();
                let count = self.random.random_range(1..4);
                let of_row = |this: &mut Self| {
                    let row = this.row(table, tables);
                    let values: Vec<_> = places.iter().map(|place| row[*place].as_str()).collect();
                    format!("({})", values.join(", "))
                };
                let rows: Vec<_> = (0..count).map(|_| of_row(self)).collect();
                let conflict = match self.random.random_range(0..4) {
                    0 => " ON CONFLICT DO NOTHING".to_owned(),
                    _ => String::new(),
                };
                format!("INSERT INTO {name} ({}) VALUES {}{conflict}", names.join(", "), rows.join(", "))
            }
            5 | 6 => format!("DELETE FROM {name}{}", self.condition(table)),
            _ => {
                let mut sets = Vec::new();
                let count = self.random.random_range(1..3.min(table.columns.len()) + 1);
                let columns: Vec<_> =
                    table.columns.choose_multiple(&mut self.random, count).cloned().collect();
                for (column, ty) in columns {
                    let is_number =
                        ["integer", "bigint", "smallint", "numeric"].iter().any(|own| ty.starts_with(own));
                    let other: Vec<_> = table.columns.iter().filter(|(_, own)| *own == ty).cloned().collect();
                    let value = match self.random.random_range(0..5) {
                        0 | 1 if is_number => format!("{column} + {}", self.random.random_range(1..4)),
                        2 => "DEFAULT".into(),
                        3 => self.pick(&other).unwrap().0.clone(),
                        _ => self.fitting(&ty),
                    };
                    sets.push(format!("{column} = {value}"));
                }
                format!("UPDATE {name} SET {}{}", sets.join(", "), self.condition(table))
            }
        }
    }

    /// Some columns, and a key of some table.
    fn reference(&mut self, table: &Table, tables: &[Table]) -> Option<(Vec<String>, String)> {
        let parent = self.pick(tables)?;
        let key = self.pick(&parent.keys)?;
        let mut own = Vec::new();
        for place in key {
            let ty = &parent.columns[*place].1;
            // PostgreSQL compares integers with numerics, too.
            let is_free = |(name, _): &&(String, String)| !own.contains(name);
            let is_comparable =
                |(_, other): &&(String, String)| !other.starts_with("numeric") && !ty.starts_with("numeric");
            let same: Vec<_> =
                table.columns.iter().filter(is_free).filter(|(_, other)| other == ty).collect();
            let other: Vec<_> = table.columns.iter().filter(is_free).filter(is_comparable).collect();
            let column = if self.one_in(8) { None } else { self.pick(&same) };
            own.push(column.or(other.choose(&mut self.random))?.0.clone());
        }
        let referenced: Vec<_> = key.iter().map(|place| parent.columns[*place].0.clone()).collect();
        Some((own, format!("REFERENCES {} ({}){}", parent.name, referenced.join(", "), self.action())))
    }

    /// An action of ALTER TABLE.
    fn alteration(&mut self, table: &Table, tables: &[Table]) -> Option<String> {
        let place = self.random.random_range(0..table.columns.len());
        let (column, ty) = table.columns[place].clone();
        let cascade = if self.one_in(3) { " CASCADE" } else { "" };
        Some(match self.random.random_range(0..15) {
            0 | 1 => {
                let single = |own: &&Table| own.keys.iter().any(|key| key.len() == 1);
                let parents: Vec<_> = tables.iter().filter(single).collect();
                let parent = if self.one_in(4) { self.pick(&parents) } else { None };
                let key = parent.map(|parent| {
                    let key = parent.keys.iter().find(|key| key.len() == 1).unwrap();
                    (&parent.name, &parent.columns[key[0]])
                });
                let ty = key.map_or_else(|| self.of(&TYPES), |(_, (_, ty))| ty);
                let name = self.name('c');
                let mut text = format!("ADD COLUMN {name} {ty}{}", self.constant_default(ty));
                if self.one_in(5) {
                    text += " NOT NULL";
                }
                if self.one_in(5) {
                    text += " UNIQUE";
                }
                if self.one_in(5) {
                    text += &format!(" CHECK ({})", self.check(&name, ty));
                }
                if let Some((parent, (column, _))) = key {
                    text += &format!(" REFERENCES {parent} ({column}){}", self.action());
                }
                text
            }
            2 | 3 => format!("DROP COLUMN {column}{cascade}"),
            4 => format!("ALTER COLUMN {column} SET NOT NULL"),
            5 => format!("ALTER COLUMN {column} DROP NOT NULL"),
            6 => format!("ALTER COLUMN {column} SET DEFAULT {}", self.fitting(&ty)),
            7 => format!("ALTER COLUMN {column} DROP DEFAULT"),
            8 => {
                let new = self.of(&TYPES);
                format!("ALTER COLUMN {column} TYPE {new}")
            }
            9 => {
                let options = self.of(&["", "", " DEFERRABLE", " INITIALLY DEFERRED"]);
                format!("ADD UNIQUE ({column}){options}")
            }
            // Of two keys over the same columns, PostgreSQL needs the older one for a foreign key, and
            // Reprise the primary one.
            10 if table.keys.iter().all(|key| *key != [place]) => format!("ADD PRIMARY KEY ({column})"),
            11 => format!("ADD CHECK ({})", self.check(&column, &ty)),
            12 => {
                let (own, reference) = self.reference(table, tables)?;
                format!("ADD FOREIGN KEY ({}) {reference}", own.join(", "))
            }
            _ => format!("DROP CONSTRAINT {}{cascade}", self.pick(&table.constraints)?),
        })
    }

    fn definition(&mut self, table: &Table, tables: &[Table]) -> Option<String> {
        let name = &table.name;
        let (column, _) = self.pick(&table.columns)?.clone();
        Some(match self.random.random_range(0..16) {
            0 => self.create_table(tables),
            1 => format!("ALTER TABLE {name} RENAME TO {}", self.name('t')),
            2 => format!("ALTER TABLE {name} RENAME COLUMN {column} TO {}", self.name('c')),
            3 => {
                let unique = if self.one_in(2) { "UNIQUE " } else { "" };
                let other = self.pick(&table.columns)?.0.clone();
                let columns = if other == column { column } else { format!("{column}, {other}") };
                format!("CREATE {unique}INDEX ON {name} ({columns})")
            }
            4 => format!("DROP INDEX {}", self.pick(&table.indexes)?),
            5 if self.one_in(3) => {
                format!("DROP TABLE {name}{}", if self.one_in(2) { " CASCADE" } else { "" })
            }
            5 => format!("TRUNCATE {name}{}", if self.one_in(2) { " CASCADE" } else { "" }),
            _ => {
                let count = if self.one_in(4) { 2 } else { 1 };
                let actions: Vec<_> = (0..count).filter_map(|_| self.alteration(table, tables)).collect();
                if actions.is_empty() {
                    return None;
                }
                format!("ALTER TABLE {name} {}", actions.join(", "))
            }
        })
    }

    pub(super) fn statement(&mut self, kind: Kind, tables: &[Table]) -> String {
        let Some(table) = self.pick(tables) else { return self.create_table(tables) };
        if kind == Kind::Definitions
            && self.one_in(2)
            && let Some(text) = self.definition(table, tables)
        {
            return text;
        }
        if kind == Kind::Triggers
            && self.one_in(15)
            && let Some(text) = self.change_of_triggers()
        {
            return text;
        }
        let is_called = table.name.starts_with('t') && kind != Kind::Definitions;
        if is_called && self.one_in(2) {
            let place = self.random.random_range(0..table.columns.len());
            let (column, ty) = table.columns[place].clone();
            let quoted =
                |value: String| if value.parse::<f64>().is_ok() { format!("'{value}'") } else { value };
            let known =
                if self.one_in(4) { None } else { self.pick(&table.rows).map(|row| row[place].clone()) };
            let (old, new) = (known.unwrap_or_else(|| quoted(self.fitting(&ty))), quoted(self.fitting(&ty)));
            return match self.random.random_range(0..3) {
                0 => format!("CALL remove_{}_{column}({old})", table.name),
                _ => format!("CALL change_{}_{column}({old}, {new})", table.name),
            };
        }
        self.write(table, tables)
    }
}

/// Procedures that delete and change rows by one column.
pub(super) fn procedures(table: &Table) -> String {
    let name = &table.name;
    let of_column = |(column, ty): &(String, String)| {
        format!(
            "
CREATE PROCEDURE remove_{name}_{column}(p {ty}) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM {name} WHERE {column} = p; END $$;
CREATE PROCEDURE change_{name}_{column}(p {ty}, q {ty}) LANGUAGE plpgsql AS $$
BEGIN UPDATE {name} SET {column} = q WHERE {column} = p; END $$;"
        )
    };
    table.columns.iter().map(of_column).collect()
}
