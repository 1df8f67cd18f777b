//! SQL statements and their answers (`sql/*.slt`): what is recorded is what PostgreSQL says, and what Reprise
//! says, too.
//!
//! With REPRISE_RECORD_ANSWERS=1 the answers are recorded anew, from PostgreSQL. Where none is installed,
//! only Reprise is asked.

use crate::server::Server;
use catalog::{Arena, datum_from_value, output_text};
use postgres::{Client as Postgres, SimpleQueryMessage};
use reprise::{Column, Compile, Config, Database, Error, Session, SessionZone, Value, params};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner, default_column_validator, default_validator};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error as the files name it: SQLSTATE, then the message.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn output(columns: usize, rows: Vec<Vec<String>>, affected: u64) -> DBOutput<DefaultColumnType> {
    if columns == 0 {
        return DBOutput::StatementComplete(affected);
    }
    DBOutput::Rows { types: vec![DefaultColumnType::Any; columns], rows }
}

fn text(value: Option<&str>) -> String {
    match value {
        None => "NULL".into(),
        Some("") => "(empty)".into(),
        Some(text) => text.into(),
    }
}

/// What a client reads: the place in the text is a field of its own.
fn message(error: &Error) -> &str {
    match error {
        Error::Sql(error) => &error.message,
        Error::Statement(refused) => &refused.error.message,
        other => panic!("{other}"),
    }
}

pub(crate) struct Reprise {
    session: Session,
    _folder: Option<tempfile::TempDir>,
}

impl Reprise {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        (config.memory_ahead_bytes, config.compile) = (0, Compile::AtOnce);
        let session = Database::open(folder.path(), config).unwrap().session().unwrap();
        Self { session, _folder: Some(folder) }
    }

    pub(crate) fn of(session: Session) -> Self {
        Self { session, _folder: None }
    }

    /// Executes a statement that a session of the library has as a function; `None` for any other statement.
    fn of_session(&mut self, sql: &str) -> Option<Result<(), Error>> {
        Some(match sql.trim() {
            "BEGIN" => self.session.begin(),
            "COMMIT" => self.session.commit().map(|_| ()),
            "ROLLBACK" => {
                self.session.rollback();
                Ok(())
            }
            "DISCARD TEMP" => self.session.discard_temporary(),
            _ => return None,
        })
    }
}

/// Returns the role that SET ROLE names, and `None` for RESET ROLE. A session of the library has no SET.
fn role_set_by(sql: &str) -> Option<Option<&str>> {
    match sql.trim() {
        "RESET ROLE" => Some(None),
        sql => sql.strip_prefix("SET ROLE ").map(Some),
    }
}

impl DB for Reprise {
    type Error = Refused;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Refused> {
        let refused = |error: Error| Refused(format!("{} {}", error.sqlstate(), message(&error)));
        if let Some(role) = role_set_by(sql) {
            let id = self.session.with_definitions(|schema| match role {
                Some(role) => schema.role(role).expect("the role exists").0,
                None => sql::Schema::first_superuser(),
            });
            self.session.act_as(id);
            return Ok(output(0, Vec::new(), 0));
        }
        if let Some(done) = self.of_session(sql) {
            return done.map(|()| output(0, Vec::new(), 0)).map_err(refused);
        }
        if let Some(zone) = sql.strip_prefix("SET TimeZone TO ") {
            // A session without a server has no SET.
            let zone = SessionZone::of_setting(zone.trim_matches('\''));
            let zone = zone.map_err(|refused| Refused(format!("{refused:?}")))?;
            self.session.set_zone(Some(zone).filter(|zone| !zone.is_utc()).map(Arc::new));
            return Ok(DBOutput::StatementComplete(0));
        }
        let statement = self.session.prepare(sql).map_err(refused)?;
        let answer = self.session.execute(&statement, params![]).map_err(refused)?;
        let columns = statement.columns();
        let value = |(value, column): (&Value, &Column)| match value {
            Value::Null => text(None),
            value => {
                let mut arena = Arena::default();
                let value = datum_from_value(value, column.ty, &mut arena).unwrap();
                arena.set_zone(self.session.zone().cloned());
                text(Some(&output_text(value, column.ty, &arena)))
            }
        };
        let rows =
            answer.rows.iter().map(|row| row.values().iter().zip(columns).map(value).collect()).collect();
        Ok(output(columns.len(), rows, answer.affected))
    }
}

pub(crate) struct PostgreSql(pub(crate) Postgres);

impl DB for PostgreSql {
    type Error = Refused;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Refused> {
        let messages = self.0.simple_query(sql).map_err(|error| {
            let error = error.as_db_error().unwrap();
            Refused(format!("{} {}", error.code().code(), error.message()))
        })?;
        let (mut columns, mut rows, mut affected) = (0, Vec::new(), 0);
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(description) => columns = description.len(),
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|place| text(row.get(place))).collect());
                }
                SimpleQueryMessage::CommandComplete(count) => affected = count,
                _ => {}
            }
        }
        Ok(output(columns, rows, affected))
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|own| own == "slt"));
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn reprise_answers_as_recorded() {
    let mut failures = Vec::new();
    for file in files() {
        let mut runner = Runner::new(|| async { Ok(Reprise::new()) });
        let records = sqllogictest::parse_file(&file).unwrap();
        for record in records {
            if let Err(error) = runner.run(record) {
                failures.push(error.display(false).to_string());
            }
        }
    }
    assert!(failures.is_empty(), "{} answers differ:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn postgresql_answers_as_recorded() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let records_anew = std::env::var("REPRISE_RECORD_ANSWERS").is_ok();
    for file in files() {
        let mut postgres = server.connect();
        let fresh = "DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION pg_database_owner;
                     GRANT USAGE ON SCHEMA public TO PUBLIC";
        postgres.batch_execute(fresh).unwrap();
        drop(postgres);
        let mut runner = Runner::new(|| async { Ok(PostgreSql(server.connect())) });
        if records_anew {
            let update = runner.update_test_file(
                &file,
                "  ",
                default_validator,
                sqllogictest::default_normalizer,
                default_column_validator,
            );
            futures::executor::block_on(update).unwrap();
        } else {
            runner.run_file(&file).unwrap();
        }
    }
}
