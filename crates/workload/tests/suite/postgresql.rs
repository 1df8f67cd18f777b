//! The same schema and procedure files run on PostgreSQL, with the same results and the same rows.
//!
//! Skipped, with a message, where no PostgreSQL is installed.

use crate::server::Server;
use catalog::value_from_datum;
use postgres::{Client as Postgres, SimpleQueryMessage};
use recovery::{Recovered, RecoveryConfig, recover};
use reprise::{Arena, CommitOrder, Compile, Config, Database, Error, Progress, Value};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use storage::{Cursor, Direction, Worker};
use workload::{Request, Settings, Workload};

const CALLS: usize = 1_500;

fn recovered(folder: &Path) -> Recovered {
    let config = Config::default();
    let settings = RecoveryConfig { threads: 2, memory_ahead_bytes: 0, ..RecoveryConfig::default() };
    recover(&config.disk, folder, &settings, &Progress::default()).unwrap()
}

/// A table's rows in the order of its key, as PostgreSQL's COPY writes them.
fn copy_text(tables: &Recovered, name: &str) -> String {
    let tables = &tables.tables;
    let store = tables.iter().find(|store| store.definition().name == name).unwrap();
    let definition = store.definition();
    let mut worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).unwrap();
    let guard = worker.enter();
    let mut cursor = Cursor::default();
    cursor.open(&[], None, Direction::Forward);
    let (mut arena, mut text) = (Arena::default(), String::new());
    while cursor.read_leaf(store.index_at(0), &guard).is_some() {
        while let Some(record) = cursor.next_buffered(&guard) {
            let order = CommitOrder((1 << CommitOrder::BITS) - 1);
            let (_, values) = record.read_at(order, |row| {
                arena.clear();
                let column = |(slot, column): (_, &catalog::Column)| {
                    value_from_datum(row.column(slot, &mut arena), column.ty, &arena)
                };
                let slots = definition.layout.slots().iter().copied();
                slots.zip(&definition.columns).map(column).collect::<Vec<_>>()
            });
            for (place, value) in values.iter().flatten().enumerate() {
                let separator = if place == 0 { "" } else { "\t" };
                match value {
                    Value::Null => write!(text, "{separator}\\N").unwrap(),
                    value => write!(text, "{separator}{value}").unwrap(),
                }
            }
            if values.is_some() {
                text.push('\n');
            }
        }
    }
    text
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(_) | Value::Numeric(_) => value.to_string(),
        other => format!("'{other}'"),
    }
}

/// The outputs of a call, or SQLSTATE and message, as text.
fn on_reprise(session: &mut reprise::Session, request: &Request) -> String {
    match session.call(request.procedure, &request.arguments) {
        Ok(done) => {
            let values = done.rows.iter().flat_map(|row| row.values());
            values.map(|value| format!("{value}|")).collect()
        }
        Err(Error::Sql(error)) => format!("{} {}", error.sqlstate, error.message),
        Err(error) => panic!("{request:?}: {error}"),
    }
}

fn on_postgresql(postgres: &mut Postgres, request: &Request, outputs: usize) -> String {
    let mut arguments: Vec<_> = request.arguments.iter().map(literal).collect();
    arguments.extend(std::iter::repeat_n("NULL".into(), outputs));
    let call = format!("CALL {}({})", request.procedure, arguments.join(", "));
    match postgres.simple_query(&call) {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let column = |place| format!("{}|", row.get(place).unwrap_or("NULL"));
                    Some((0..row.len()).map(column).collect::<String>())
                }
                _ => None,
            })
            .collect(),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error}"));
            format!("{} {}", error.code().code(), error.message())
        }
    }
}

fn compare(workload: &dyn Workload) {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed under /usr/lib/postgresql");
        return;
    };
    let mut postgres = server.connect();
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.compile = Compile::AtOnce;
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    for script in workload.definitions() {
        session.execute_script(script).unwrap();
        postgres.batch_execute(script).unwrap();
    }
    workload.load(&db, 42, &|_, _| {}).unwrap();
    db.checkpoint().unwrap();
    let loaded = recovered(folder.path());
    let names: Vec<String> = loaded.tables.iter().map(|store| store.definition().name.clone()).collect();
    for name in &names {
        let mut copy = postgres.copy_in(&format!("COPY {name} FROM STDIN")).unwrap();
        copy.write_all(copy_text(&loaded, name).as_bytes()).unwrap();
        copy.finish().unwrap();
    }
    postgres.batch_execute("ANALYZE").unwrap();
    drop(loaded);

    let outputs = |procedure: &str, version: &Recovered| {
        version.schema.procedure(procedure).unwrap().parameters.iter().filter(|p| !p.is_input()).count()
    };
    let schema = recovered(folder.path());
    let mut client = workload.client(0, 1, 7);
    let mut request = Request::default();
    for call in 0..CALLS {
        client.next(&mut request);
        let expected = on_postgresql(&mut postgres, &request, outputs(request.procedure, &schema));
        assert_eq!(on_reprise(&mut session, &request), expected, "call {call}: {request:?}");
    }
    drop((session, db, schema));

    let after = recovered(folder.path());
    for name in &names {
        let store = after.tables.iter().find(|store| store.definition().name == *name).unwrap();
        let definition = store.definition();
        let key = definition.primary().columns.iter();
        let key: Vec<_> = key.map(|column| definition.columns[*column].name.as_str()).collect();
        let query = format!("COPY (SELECT * FROM {name} ORDER BY {}) TO STDOUT", key.join(", "));
        let mut expected = String::new();
        postgres.copy_out(&query).unwrap().read_to_string(&mut expected).unwrap();
        let own = copy_text(&after, name);
        let difference = own.lines().zip(expected.lines()).find(|(a, b)| a != b);
        assert_eq!(difference, None, "{name}");
        assert_eq!(own.lines().count(), expected.lines().count(), "{name}");
    }
}

#[test]
fn tpcc_is_the_same_on_postgresql() {
    compare(&*workload::by_name("tpcc", 1, "full").unwrap());
}

#[test]
fn smallbank_is_the_same_on_postgresql() {
    compare(&*workload::by_name("smallbank", 1, "full").unwrap());
}

#[test]
fn ycsb_is_the_same_on_postgresql() {
    for mix in ["e", "f", "hybrid:10"] {
        compare(&*workload::by_name("ycsb", 1, mix).unwrap());
    }
    let settings = Settings { scale: 1, mix: "f".into(), operations: 10, skew: Some(0.8) };
    compare(&*settings.workload("ycsb").unwrap());
}
