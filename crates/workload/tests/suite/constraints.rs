//! Foreign keys, cascades, CHECKs, triggers and ALTER TABLE, drawn at random: PostgreSQL accepts and refuses
//! the same statements, with the same number of rows, and has the same rows after each transaction; and a
//! recovery comes back to them.
//!
//! Skipped, with a message, where no PostgreSQL is installed.

mod statements;
mod triggers;

use crate::server::Server;
use postgres::{Client as Postgres, SimpleQueryMessage};
use recovery::{RecoveryConfig, recover};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{
    Compile, Config, Database, Digest, Error, Method, Progress, Session, TransactionState, Value, params,
};
use statements::{Generator, procedures};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use triggers::WRITTEN;

/// What a history is of: definitions beside data, or procedures over tables that stay, with triggers or
/// without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Definitions,
    Procedures,
    Triggers,
}

/// What PostgreSQL says of a table.
#[derive(Default)]
struct Table {
    name: String,
    /// Names and types.
    columns: Vec<(String, String)>,
    /// Columns of the primary key and of other unique indexes.
    keys: Vec<Vec<usize>>,
    /// Columns of a foreign key, the table that it references, and the columns there.
    references: Vec<(Vec<usize>, String, Vec<usize>)>,
    /// Foreign keys with RESTRICT.
    restricting: Vec<String>,
    constraints: Vec<String>,
    indexes: Vec<String>,
    /// Values as they are written in a statement.
    rows: Vec<Vec<String>>,
}

type Outcome = Result<u64, (String, String)>;

fn rows(postgres: &mut Postgres, query: &str) -> Vec<Vec<Option<String>>> {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|c| row.get(c).map(str::to_owned)).collect()),
        _ => None,
    };
    postgres.simple_query(query).unwrap().iter().filter_map(row).collect()
}

fn tables(postgres: &mut Postgres) -> Vec<Table> {
    let columns =
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnum FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0
        AND NOT a.attisdropped ORDER BY c.relname, a.attnum";
    let constraints = "SELECT c.relname, k.conname, k.contype, array_to_string(k.conkey, ','), p.relname,
        array_to_string(k.confkey, ','), 'r' IN (k.confdeltype, k.confupdtype)
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        LEFT JOIN pg_class p ON p.oid = k.confrelid WHERE c.relnamespace = 'public'::regnamespace
        ORDER BY c.relname, k.conname";
    let indexes = "SELECT t.relname, c.relname, i.indisunique, array_to_string(i.indkey, ',') FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        WHERE t.relnamespace = 'public'::regnamespace ORDER BY 1, 2";
    let mut tables: Vec<Table> = Vec::new();
    // By table and number, which dropped columns leave holes in: the place of a column.
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    for row in rows(postgres, columns) {
        let name = text(&row[0]);
        if tables.last().is_none_or(|table| table.name != name) {
            tables.push(Table { name: name.clone(), ..Table::default() });
        }
        let columns = &mut tables.last_mut().unwrap().columns;
        places.insert((name, text(&row[3])), columns.len());
        columns.push((text(&row[1]), text(&row[2])));
    }
    let columns_of = |name: &str, numbers: &Option<String>| -> Vec<usize> {
        text(numbers).split(',').map(|number| places[&(name.to_owned(), number.to_owned())]).collect()
    };
    for row in rows(postgres, constraints) {
        let Some(table) = tables.iter_mut().find(|table| Some(&table.name) == row[0].as_ref()) else {
            continue;
        };
        table.constraints.push(text(&row[1]));
        if text(&row[2]) == "f" {
            let parent = text(&row[4]);
            let (own, referenced) = (columns_of(&table.name, &row[3]), columns_of(&parent, &row[5]));
            table.references.push((own, parent, referenced));
            if text(&row[6]) == "t" {
                table.restricting.push(text(&row[1]));
            }
        }
    }
    for row in rows(postgres, indexes) {
        let Some(table) = tables.iter_mut().find(|table| Some(&table.name) == row[0].as_ref()) else {
            continue;
        };
        table.indexes.push(text(&row[1]));
        if text(&row[2]) == "t" {
            table.keys.push(columns_of(&table.name, &row[3]));
        }
    }
    for table in &mut tables {
        let literal =
            |value: &Option<String>| value.as_ref().map_or("NULL".into(), |text| format!("'{text}'"));
        let found = rows(postgres, &format!("SELECT * FROM {}", table.name));
        table.rows = found.iter().map(|row| row.iter().map(literal).collect()).collect();
    }
    tables
}

fn on_postgresql(postgres: &mut Postgres, text: &str) -> Outcome {
    match postgres.simple_query(text) {
        Ok(messages) => Ok(messages
            .iter()
            .find_map(|message| match message {
                SimpleQueryMessage::CommandComplete(count) => Some(*count),
                _ => None,
            })
            .unwrap_or(0)),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}"));
            Err((error.code().code().into(), error.message().into()))
        }
    }
}

fn on_reprise(session: &mut Session, text: &str) -> Outcome {
    match session.execute(text, params![]) {
        Ok(answer) => Ok(answer.affected),
        Err(Error::Sql(error)) => Err((error.sqlstate.to_string(), error.message.to_string())),
        Err(error) => Err((error.sqlstate().into(), error.to_string())),
    }
}

/// Whether both say the same of a statement. Of several reasons to refuse one, another may be found first.
fn agree(expected: &Outcome, got: &Outcome) -> bool {
    match (expected, got) {
        (Ok(expected), Ok(got)) => expected == got,
        (Err((expected, _)), Err((got, _))) => {
            let (expected, got) = (&expected[..2], &got[..2]);
            expected == got
                || [expected, got].iter().all(|class| ["22", "23", "2B", "42", "55"].contains(class))
        }
        _ => false,
    }
}

/// Looks for a difference between the rows of both.
fn compare(session: &mut Session, tables: &[Table]) {
    let literal = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        value => format!("'{value}'"),
    };
    for table in tables {
        let answer = session.execute(&format!("SELECT * FROM {}", table.name), params![]);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", table.name));
        let mut got: Vec<Vec<_>> =
            answer.rows.iter().map(|row| row.values().iter().map(literal).collect()).collect();
        let mut expected = table.rows.clone();
        got.sort();
        expected.sort();
        assert_eq!(got, expected, "{}", table.name);
    }
}

/// Looks for rows that reference nothing, and for keys that are there twice.
fn check_references(session: &mut Session, tables: &[Table]) {
    let none = |session: &mut Session, query: &str| {
        match session.execute(query, params![]) {
            Ok(answer) => assert!(answer.rows.is_empty(), "{query}: {:?}", answer.rows),
            // A transaction does not look at a table that it has altered.
            Err(error) => assert_eq!(error.sqlstate(), "0A000", "{query}: {error}"),
        }
    };
    for table in tables {
        let name = |place: &usize| &table.columns[*place].0;
        for (own, parent, referenced) in &table.references {
            let columns = &tables.iter().find(|other| other.name == *parent).unwrap().columns;
            let pairs = || own.iter().zip(referenced.iter().map(|place| &columns[*place].0));
            let given: Vec<_> = pairs().map(|(own, _)| format!("c.{} IS NOT NULL", name(own))).collect();
            let equal: Vec<_> = pairs().map(|(own, other)| format!("p.{other} = c.{}", name(own))).collect();
            let (given, equal) = (given.join(" AND "), equal.join(" AND "));
            let child = &table.name;
            none(
                session,
                &format!(
                    "SELECT 1 FROM {child} c
                     WHERE {given} AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE {equal})"
                ),
            );
        }
        for key in &table.keys {
            let names: Vec<_> = key.iter().map(|place| name(place).as_str()).collect();
            let given: Vec<_> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
            let (names, given) = (names.join(", "), given.join(" AND "));
            none(
                session,
                &format!(
                    "SELECT {names} FROM {} WHERE {given} GROUP BY {names} HAVING count(*) > 1",
                    table.name
                ),
            );
        }
    }
}

/// What has come of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    Stays,
    Undone,
    FailsAtCommit,
}

/// What statements that define begin with.
const DEFINES: [&str; 3] = ["CREATE", "ALTER", "DROP"];

struct History {
    generator: Generator,
    /// As they are now.
    tables: Vec<Table>,
    kind: Kind,
    said: Vec<String>,
    compared: usize,
    not_supported: usize,
}

impl History {
    /// Runs a statement on both; PostgreSQL's transaction is open.
    fn run(&mut self, postgres: &mut Postgres, session: &mut Session, text: &str) -> Ran {
        let expected = on_postgresql(postgres, text);
        let got = on_reprise(session, text);
        self.said.push(format!("{text}; -- {expected:?}"));
        let state = expected.as_ref().map_or_else(|(state, _)| state.as_str(), |_| "");
        let is_definition = DEFINES.iter().any(|word| text.starts_with(word));
        if got.as_ref().is_err_and(|(state, _)| state == "0A000") {
            self.not_supported += 1;
            return Ran::Undone;
        }
        if got.is_ok()
            && is_definition
            && session.transaction_state() == TransactionState::Open
            && ["22", "23"].iter().any(|class| state.starts_with(class))
        {
            // A transaction looks at the rows for its definitions when it commits.
            return Ran::FailsAtCommit;
        }
        // PostgreSQL computes constants when it plans, even if there is no row for them.
        if got == Ok(0) && state.starts_with("22") && text.starts_with("UPDATE") {
            return Ran::Undone;
        }
        // Both look at keys row by row, in an order of their own, so that an UPDATE of several may meet one
        // that is about to change; and PostgreSQL looks at references again that an earlier statement of the
        // transaction has changed, before this one's cascades.
        if got.is_ok() && !is_definition && !text.starts_with("INSERT") && ["23505", "23503"].contains(&state)
        {
            check_references(session, &self.tables);
            return Ran::Undone;
        }
        // PostgreSQL goes from row to row: whether RESTRICT meets a row that another key's CASCADE takes is a
        // matter of their order.
        let restricts = |message: &str| {
            let mut keys = self.tables.iter().flat_map(|table| &table.restricting);
            keys.any(|key| message.contains(&format!("violates foreign key constraint \"{key}\"")))
        };
        let changes_keys = |state: &str| state == "23505" && !text.starts_with("INSERT");
        if expected.is_ok()
            && got.as_ref().is_err_and(|(state, message)| restricts(message) || changes_keys(state))
        {
            return Ran::Undone;
        }
        // Reprise has every key in doubt that a transaction has written and defers, PostgreSQL those that
        // it has met twice.
        if expected.is_ok() && is_definition && got.as_ref().is_err_and(|(state, _)| state == "55006") {
            return Ran::Undone;
        }
        assert!(agree(&expected, &got), "PostgreSQL: {expected:?}\nReprise: {got:?}");
        self.compared += 1;
        if got.is_ok() { Ran::Stays } else { Ran::Undone }
    }

    /// Creates procedures, and triggers before and after them.
    fn define(&mut self, postgres: &mut Postgres, session: &mut Session) {
        let mut run_both = |said: &mut Vec<String>, script: String| {
            postgres.batch_execute(&script).unwrap();
            session.execute_script(&script).unwrap();
            said.push(script);
        };
        let tables = std::mem::take(&mut self.tables);
        for table in &tables {
            run_both(&mut self.said, procedures(table));
        }
        if self.kind == Kind::Triggers {
            run_both(&mut self.said, WRITTEN.into());
            for _ in 0..self.generator.within(2..7) {
                let table = self.generator.pick(&tables).unwrap();
                for text in self.generator.trigger(table) {
                    let got = on_reprise(session, &text);
                    self.said.push(format!("{text}; -- {got:?}"));
                    match got {
                        Err((state, _)) if state == "0A000" => self.not_supported += 1,
                        got => assert!(agree(&on_postgresql(postgres, &text), &got), "{text}: {got:?}"),
                    }
                }
            }
        }
        self.tables = self::tables(postgres);
    }

    /// A statement, or a transaction of several.
    fn step(&mut self, postgres: &mut Postgres, session: &mut Session) {
        let count = if self.generator.one_in(3) { self.generator.within(2..5) } else { 1 };
        postgres.batch_execute("BEGIN").unwrap();
        self.said.push("BEGIN;".into());
        let mut ran = Ran::Stays;
        for place in 0..count {
            if place > 0 {
                self.tables = tables(postgres);
            }
            let text = self.generator.statement(self.kind, &self.tables);
            // A definition by itself looks at the rows at once.
            if place == 0 && (count > 1 || !DEFINES.iter().any(|word| text.starts_with(word))) {
                session.begin().unwrap();
            }
            let in_savepoint = count > 1 && self.generator.one_in(2);
            if in_savepoint {
                postgres.batch_execute("SAVEPOINT s").unwrap();
                session.set_savepoint("s").unwrap();
            }
            ran = self.run(postgres, session, &text);
            if in_savepoint && ran == Ran::Undone && session.roll_back_to_savepoint("s").is_ok() {
                postgres.batch_execute("ROLLBACK TO s").unwrap();
                self.said.push("ROLLBACK TO s;".into());
                ran = Ran::Stays;
            }
            if ran != Ran::Stays {
                break;
            }
        }
        if ran == Ran::Stays
            && session.transaction_state() == TransactionState::Open
            && self.generator.one_in(12)
        {
            ran = Ran::Undone;
        }
        let end = if ran == Ran::Stays { "COMMIT" } else { "ROLLBACK" };
        self.said.push(format!("{end};"));
        let ended = postgres.batch_execute(end);
        match ran {
            Ran::Undone => session.rollback(),
            // A deferred key is there twice.
            Ran::Stays if ended.is_err() => {
                let refused = session.commit().unwrap_err();
                assert_eq!(Some(refused.sqlstate()), ended.unwrap_err().code().map(|code| code.code()));
            }
            Ran::FailsAtCommit => {
                let refused = session.commit().unwrap_err();
                assert!(["22", "23"].contains(&&refused.sqlstate()[..2]), "{refused}");
            }
            // A definition by itself has committed.
            Ran::Stays if session.transaction_state() == TransactionState::None => {
                session.shown().wait().unwrap();
            }
            Ran::Stays => session.commit().unwrap().wait().unwrap(),
        }
        self.tables = tables(postgres);
        compare(session, &self.tables);
    }
}

/// Where the database is, on a disk in memory: a wait for a real one at each of the commits would take most
/// of the time.
pub(crate) const FOLDER: &str = "/db";

/// Returns the digest of what each way to replay a command log comes back to.
pub(crate) fn digests(disk: &Arc<dyn Disk>) -> Vec<Digest> {
    let of = |method| {
        let settings =
            RecoveryConfig { method, threads: 2, memory_ahead_bytes: 0, ..RecoveryConfig::default() };
        recover(disk, Path::new(FOLDER), &settings, &Progress::default()).unwrap().tables.digest().unwrap()
    };
    [Method::Clr, Method::ClrP].map(of).into()
}

fn check_history(server: &Server, kind: Kind, seed: u64, said: &mut Vec<String>) -> (usize, usize) {
    let mut postgres = server.connect();
    postgres
        .batch_execute("SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        .unwrap();
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let config = || {
        let mut config = Config::default();
        config.disk = Arc::clone(&disk);
        (config.memory_ahead_bytes, config.compile) = (0, Compile::AtOnce);
        config.log_file_bytes = 1 << 20;
        config
    };
    let mut database = Database::open(FOLDER, config()).unwrap();
    let mut session = database.session().unwrap();
    let generator = Generator::new(seed);
    let said_so_far = std::mem::take(said);
    let mut history =
        History { generator, tables: Vec::new(), kind, said: said_so_far, compared: 0, not_supported: 0 };
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..3 {
            let text = history.generator.create_table(&tables(&mut postgres));
            let expected = on_postgresql(&mut postgres, &text);
            let got = on_reprise(&mut session, &text);
            history.said.push(format!("{text};"));
            assert!(agree(&expected, &got), "PostgreSQL: {expected:?}\nReprise: {got:?}");
        }
        history.tables = tables(&mut postgres);
        if kind != Kind::Definitions {
            history.define(&mut postgres, &mut session);
        }
        for _ in 0..2 {
            for _ in 0..30 {
                history.step(&mut postgres, &mut session);
            }
            if history.generator.one_in(3) {
                database.checkpoint().unwrap();
            }
            drop(session);
            drop(database);
            let digests = digests(&disk);
            database = Database::open(FOLDER, config()).unwrap();
            session = database.session().unwrap();
            assert_eq!(digests, vec![database.digest().unwrap(); 2]);
            compare(&mut session, &history.tables);
        }
    }));
    *said = history.said;
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
    (history.compared, history.not_supported)
}

fn check(kind: Kind) {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds: Range<u64> = match number("REPRISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REPRISE_HISTORIES").unwrap_or(40),
    };
    let (mut compared, mut not_supported) = (0, 0);
    for seed in seeds {
        let mut said = Vec::new();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check_history(&server, kind, seed, &mut said)
        }));
        let (more, refused) =
            checked.unwrap_or_else(|_| panic!("history {seed} of {kind:?}:\n{}", said.join("\n")));
        compared += more;
        not_supported += refused;
    }
    println!("{compared} statements compared, {not_supported} not supported");
    assert!(not_supported < compared / 10, "{not_supported} of {compared} statements are not supported");
}

#[test]
fn definitions_beside_data_are_as_on_postgresql() {
    check(Kind::Definitions);
}

#[test]
fn triggers_are_as_on_postgresql() {
    check(Kind::Triggers);
}

#[test]
fn procedures_under_constraints_are_as_on_postgresql() {
    check(Kind::Procedures);
}
