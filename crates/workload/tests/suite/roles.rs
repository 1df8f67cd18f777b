//! Roles, grants and statements, drawn at random: PostgreSQL allows and refuses the same statements with the
//! same SQLSTATE, and shows the same owners, privileges and memberships; and a recovery comes back to them.
//!
//! Skipped, with a message, where no PostgreSQL is installed.

mod texts;

use crate::server::Server;
use postgres::{Client as Postgres, SimpleQueryMessage};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::CrashingDisk;
use reprise::{Config, Database, Session, params};
use std::sync::Arc;
use texts::{BEGINNING, DEFINITIONS, OBJECTS, OWNED, SHOWN, STATEMENTS, VISIBLE};

type Outcome = Result<Vec<Vec<Option<String>>>, String>;

fn on_postgresql(postgres: &mut Postgres, text: &str) -> Outcome {
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|c| row.get(c).map(str::to_owned)).collect()),
        _ => None,
    };
    match postgres.simple_query(text) {
        Ok(messages) => Ok(messages.iter().filter_map(row).collect()),
        Err(error) => {
            Err(error.as_db_error().unwrap_or_else(|| panic!("{text}: {error}")).code().code().into())
        }
    }
}

fn on_reprise(session: &mut Session, text: &str) -> Outcome {
    let shown = |value: &reprise::Value| match value {
        reprise::Value::Null => None,
        value => Some(match value.to_string().as_str() {
            "true" => "t".into(),
            "false" => "f".into(),
            text => text.to_owned(),
        }),
    };
    match session.execute(text, params![]) {
        Ok(answer) => Ok(answer.rows.iter().map(|row| row.values().iter().map(shown).collect()).collect()),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

/// Makes both act as a role, or as the first superuser.
fn set(postgres: &mut Postgres, session: &mut Session, role: Option<&str>) {
    let reset = role.map_or("RESET ROLE".to_owned(), |role| format!("SET ROLE {role}"));
    postgres.batch_execute(&reset).unwrap();
    let id = session.with_definitions(|schema| match role {
        Some(role) => schema.role(role).unwrap().0,
        None => sql::Schema::first_superuser(),
    });
    session.act_as(id);
}

struct History {
    random: SmallRng,
    said: Vec<String>,
}

impl History {
    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_range(0..count) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.random.random_range(0..all.len())]
    }

    fn role(&mut self) -> String {
        format!("r{}", self.random.random_range(0..6))
    }

    /// Returns a statement that changes roles, owners or privileges.
    fn change(&mut self) -> String {
        let role = self.role();
        match self.random.random_range(0..20) {
            0 => {
                let other = self.role();
                let option = if self.one_in(2) { " WITH ADMIN OPTION" } else { "" };
                format!("GRANT {other} TO {role}{option}")
            }
            1 => {
                let other = self.role();
                let option = if self.one_in(3) { "ADMIN OPTION FOR " } else { "" };
                format!("REVOKE {option}{other} FROM {role}")
            }
            2 => {
                let words = ["INHERIT", "NOINHERIT", "CREATEROLE", "NOCREATEROLE", "LOGIN", "CREATEDB"];
                format!("ALTER ROLE {role} {}", self.pick(&words))
            }
            3 | 4 => format!("ALTER {} OWNER TO {role}", self.pick(&OWNED)),
            5 => {
                let other = self.role();
                let kinds = [("SELECT", "TABLES"), ("EXECUTE", "FUNCTIONS"), ("USAGE", "SEQUENCES")];
                let (word, kind) = self.pick(&kinds);
                let place = if self.one_in(2) { " IN SCHEMA public" } else { "" };
                match self.one_in(3) {
                    true => format!(
                        "ALTER DEFAULT PRIVILEGES FOR ROLE {other}{place} REVOKE {word} ON {kind} FROM {role}"
                    ),
                    false => format!(
                        "ALTER DEFAULT PRIVILEGES FOR ROLE {other}{place} GRANT {word} ON {kind} TO {role}"
                    ),
                }
            }
            6 => {
                let kinds = ["TABLES", "SEQUENCES", "FUNCTIONS", "PROCEDURES"];
                let kind = self.pick(&kinds);
                match self.one_in(2) {
                    true => format!("GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}"),
                    false => format!("REVOKE ALL ON ALL {kind} IN SCHEMA public FROM {role}"),
                }
            }
            7 => format!("REASSIGN OWNED BY {role} TO {}", self.role()),
            8 if self.one_in(3) => format!("DROP OWNED BY {role}"),
            _ => {
                let (object, privileges) = *self.pick(&OBJECTS);
                let count = self.random.random_range(1..3);
                let mut words: Vec<&str> = (0..count).map(|_| *self.pick(privileges)).collect();
                if words.contains(&"ALL (b)") || self.one_in(8) {
                    words = vec![if words.contains(&"ALL (b)") { "ALL (b)" } else { "ALL" }];
                }
                let grantee = if self.one_in(6) { "PUBLIC".into() } else { role };
                let (words, option) = (words.join(", "), self.one_in(3));
                match self.one_in(3) {
                    true => {
                        let option = if option { "GRANT OPTION FOR " } else { "" };
                        let tail = if self.one_in(2) { " CASCADE" } else { "" };
                        format!("REVOKE {option}{words} ON {object} FROM {grantee}{tail}")
                    }
                    false => {
                        let tail = if option { " WITH GRANT OPTION" } else { "" };
                        format!("GRANT {words} ON {object} TO {grantee}{tail}")
                    }
                }
            }
        }
    }

    /// Checks that both say the same of a statement of a role.
    fn agree(&mut self, role: &str, text: &str, expected: &Outcome, got: &Outcome) {
        self.said.push(format!("SET ROLE {role}; {text}; -- {:?}", expected.as_ref().err()));
        let same = match (expected, got) {
            (Ok(expected), Ok(got)) if text.starts_with("SELECT") => named(expected) == named(got),
            (Ok(_), Ok(_)) => true,
            (Err(expected), Err(got)) => expected == got,
            _ => false,
        };
        let said = self.said.join("\n");
        assert!(same, "{said}\nPostgreSQL: {expected:?}\nReprise: {got:?}");
    }

    fn step(&mut self, postgres: &mut Postgres, session: &mut Session) {
        let role = if self.one_in(3) { "r4".to_owned() } else { self.role() };
        set(postgres, session, Some(&role));
        match self.random.random_range(0..10) {
            0..4 => {
                let text = self.change();
                if let Some(dropped) = text.strip_prefix("DROP OWNED BY ") {
                    // Only what was granted is revoked: objects that routines use would be needed later.
                    let given = format!("REASSIGN OWNED BY {dropped} TO r4");
                    set(postgres, session, None);
                    let (expected, got) = (on_postgresql(postgres, &given), on_reprise(session, &given));
                    self.agree("none", &given, &expected, &got);
                    set(postgres, session, Some(&role));
                }
                let (expected, got) = (on_postgresql(postgres, &text), on_reprise(session, &text));
                self.agree(&role, &text, &expected, &got);
            }
            4 => {
                let (text, back) = *self.pick(&DEFINITIONS);
                let (expected, got) = (on_postgresql(postgres, text), on_reprise(session, text));
                self.agree(&role, text, &expected, &got);
                if self.one_in(2) {
                    let other = self.role();
                    set(postgres, session, Some(&other));
                    let (expected, got) = (on_postgresql(postgres, back), on_reprise(session, back));
                    self.agree(&other, back, &expected, &got);
                }
                set(postgres, session, None);
                let (expected, got) = (on_postgresql(postgres, back), on_reprise(session, back));
                self.agree("none", back, &expected, &got);
            }
            _ => {
                let text = *self.pick(&STATEMENTS);
                postgres.batch_execute("BEGIN").unwrap();
                session.begin().unwrap();
                let (expected, got) = (on_postgresql(postgres, text), on_reprise(session, text));
                postgres.batch_execute("ROLLBACK").unwrap();
                session.rollback();
                self.agree(&role, text, &expected, &got);
            }
        }
        set(postgres, session, None);
    }

    fn compare(&mut self, postgres: &mut Postgres, session: &mut Session) {
        for query in SHOWN {
            let (expected, got) = (on_postgresql(postgres, query), on_reprise(session, query));
            self.agree("none", query, &expected, &got);
        }
    }

    /// Checks that both show the same to each role.
    fn compare_by_role(&mut self, postgres: &mut Postgres, session: &mut Session) {
        for role in 0..6 {
            let role = format!("r{role}");
            set(postgres, session, Some(&role));
            for query in VISIBLE {
                let (expected, got) = (on_postgresql(postgres, query), on_reprise(session, query));
                self.agree(&role, query, &expected, &got);
            }
        }
        set(postgres, session, None);
    }
}

/// Returns rows with one name for the first superuser, which PostgreSQL calls otherwise.
fn named(rows: &[Vec<Option<String>>]) -> Vec<String> {
    let mut rows: Vec<_> = rows.iter().map(|row| format!("{row:?}").replace("reprise", "postgres")).collect();
    rows.sort();
    rows
}

fn play(seed: u64, server: &Server) {
    let mut postgres = server.connect();
    let clean = "DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION pg_database_owner;
                 GRANT USAGE ON SCHEMA public TO PUBLIC; DROP SCHEMA IF EXISTS q CASCADE;";
    postgres.batch_execute(clean).unwrap();
    for role in 0..6 {
        let gone = format!("DROP OWNED BY r{role} CASCADE; DROP ROLE r{role}");
        for text in gone.split("; ") {
            let _ = postgres.batch_execute(text);
        }
    }
    for role in 0..6 {
        let _ = postgres.batch_execute(&format!("DROP ROLE r{role}"));
    }
    let _ = postgres.batch_execute("DROP ROLE r9");
    postgres.batch_execute("UPDATE pg_database SET datacl = NULL WHERE datname = 'postgres'").unwrap();
    let disk = CrashingDisk::default();
    let mut config = Config::default();
    config.memory_ahead_bytes = 0;
    config.disk = Arc::new(disk);
    let db = Database::open("data", config.clone()).unwrap();
    let mut session = db.session().unwrap();
    postgres.batch_execute(BEGINNING).unwrap();
    session.execute_script(BEGINNING).unwrap();
    let mut history = History { random: SmallRng::seed_from_u64(seed), said: vec![format!("seed {seed}")] };
    for round in 0..6 {
        for _ in 0..25 {
            history.step(&mut postgres, &mut session);
        }
        history.compare(&mut postgres, &mut session);
        if round == 3 {
            history.compare_by_role(&mut postgres, &mut session);
            db.checkpoint().unwrap();
        }
    }
    session.shown().wait().unwrap();
    drop(session);
    drop(db);
    let db = Database::open("data", config).unwrap();
    let mut session = db.session().unwrap();
    history.said.push("recovery".into());
    history.compare(&mut postgres, &mut session);
    history.compare_by_role(&mut postgres, &mut session);
}

#[test]
fn roles_objects_and_grants_are_postgresqls() {
    let Some(server) = Server::start() else {
        eprintln!("skipped: no PostgreSQL is installed");
        return;
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("REPRISE_SEED") {
        Some(seed) => play(seed, &server),
        None => (0..number("REPRISE_HISTORIES").unwrap_or(6)).for_each(|seed| play(seed, &server)),
    }
}
