//! Roles, owners and privileges: they survive crashes, in every log and in checkpoints; prepared statements
//! and routines follow them at once; and a database without roles keeps nothing of them.

use crate::common::{open, recovered_digest, small};
use reprise::disk::CrashingDisk;
use reprise::{Content, Database, Scheme, Session, Statement, params};
use std::sync::Arc;
use std::time::Duration;

/// Makes a session act as a role.
fn act(session: &mut Session, role: &str) {
    let id = session.with_definitions(|schema| schema.role(role).map(|(id, _)| id));
    session.act_as(id.unwrap_or_else(|| panic!("there is no role {role}")));
}

fn state(session: &mut Session, text: &str) -> String {
    session.execute(text, params![]).map_or_else(|error| error.sqlstate().to_owned(), |_| "00000".into())
}

fn shown(session: &mut Session, text: &str) -> Vec<String> {
    let rows = session.execute(text, params![]).unwrap_or_else(|error| panic!("{text}: {error}")).rows;
    rows.iter()
        .map(|row| row.values().iter().map(ToString::to_string).collect::<Vec<_>>().join("|"))
        .collect()
}

const SETUP: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, a INT);
    INSERT INTO t VALUES (1, 10);
    CREATE ROLE owner; CREATE ROLE reader;
    CREATE FUNCTION invoked() RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT a FROM t); END $$;
    CREATE FUNCTION defined() RETURNS INT LANGUAGE plpgsql SECURITY DEFINER AS $$
      BEGIN RETURN (SELECT a FROM t); END $$;
    CREATE PROCEDURE put(id INT) LANGUAGE plpgsql AS $$ BEGIN
      BEGIN UPDATE t SET a = 99; EXCEPTION WHEN insufficient_privilege THEN NULL; END;
      INSERT INTO t VALUES (put.id, 0);
    END $$;";

/// Everything that the catalogs show of roles.
fn rights(session: &mut Session) -> Vec<String> {
    session.act_as(sql::Schema::first_superuser());
    let queries = [
        "SELECT rolname, rolsuper, rolinherit, rolcanlogin, rolpassword FROM pg_authid ORDER BY oid",
        "SELECT roleid, member, grantor, admin_option FROM pg_auth_members ORDER BY 1, 2",
        "SELECT relname, relowner, relacl FROM pg_class ORDER BY 1",
        "SELECT attrelid, attname, attacl FROM pg_attribute WHERE attacl IS NOT NULL ORDER BY 1, 2",
        "SELECT proname, proowner, proacl FROM pg_proc WHERE proowner <> 10 OR proacl IS NOT NULL ORDER BY 1",
        "SELECT nspname, nspowner, nspacl FROM pg_namespace ORDER BY 1",
        "SELECT typname, typowner, typacl FROM pg_type WHERE typacl IS NOT NULL ORDER BY 1",
        "SELECT datacl FROM pg_database",
        "SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL ORDER BY 1",
        "SELECT defaclrole, defaclobjtype, defaclacl FROM pg_default_acl ORDER BY 1, 2",
    ];
    queries.iter().flat_map(|query| shown(session, query)).collect()
}

#[test]
fn a_statement_follows_a_revoke_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let (mut admin, mut session) = (db.session().unwrap(), db.session().unwrap());
    admin.execute_script(SETUP).unwrap();
    admin.execute_script("GRANT SELECT ON t TO reader").unwrap();
    act(&mut session, "reader");
    let prepared: Vec<Statement> =
        ["SELECT a FROM t", "SELECT invoked()"].iter().map(|text| session.prepare(text).unwrap()).collect();
    for statement in &prepared {
        assert_eq!(session.execute(statement, params![]).unwrap().rows.len(), 1);
    }
    admin.execute_script("REVOKE SELECT ON t FROM reader").unwrap();
    for statement in &prepared {
        let error = session.execute(statement, params![]).unwrap_err();
        assert_eq!(error.sqlstate(), "42501", "{error}");
    }
    assert_eq!(state(&mut session, "SELECT defined()"), "00000");
    admin.execute_script("REVOKE EXECUTE ON FUNCTION defined FROM PUBLIC").unwrap();
    assert_eq!(state(&mut session, "SELECT defined()"), "42501");
    admin.execute_script("GRANT SELECT ON t TO reader").unwrap();
    for statement in &prepared {
        assert_eq!(session.execute(statement, params![]).unwrap().rows.len(), 1);
    }
}

#[test]
fn routines_run_with_the_rights_of_their_invoker_or_definer() {
    let folder = tempfile::tempdir().unwrap();
    let live = {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        session.execute_script(SETUP).unwrap();
        session.execute_script("GRANT INSERT (id, a) ON t TO reader").unwrap();
        act(&mut session, "reader");
        assert_eq!(state(&mut session, "SELECT invoked()"), "42501");
        assert_eq!(shown(&mut session, "SELECT defined()"), ["10"]);
        // The refused UPDATE has no effect, neither now nor when the call is replayed.
        assert_eq!(state(&mut session, "CALL put(2)"), "00000");
        session.act_as(sql::Schema::first_superuser());
        assert_eq!(shown(&mut session, "SELECT id, a FROM t ORDER BY 1"), ["1|10", "2|0"]);
        assert_eq!(state(&mut session, "CALL put(3)"), "00000");
        assert_eq!(shown(&mut session, "SELECT id, a FROM t ORDER BY 1"), ["1|99", "2|99", "3|0"]);
        // A definer may lose its rights.
        session.execute_script("ALTER FUNCTION defined() OWNER TO owner").unwrap();
        assert_eq!(state(&mut session, "SELECT defined()"), "42501");
        session.execute_script("GRANT SELECT ON t TO owner").unwrap();
        session.execute_script("DELETE FROM t WHERE id > 1").unwrap();
        assert_eq!(shown(&mut session, "SELECT defined()"), ["99"]);
        db.digest().unwrap()
    };
    assert_eq!(recovered_digest(folder.path()), live);
}

#[test]
fn roles_survive_crashes_in_every_log_and_checkpoint() {
    for content in [Content::Command, Content::Logical, Content::Physical, Content::Physiological] {
        for checkpoint_after in [0, 3, 8, 14, 99] {
            let disk = CrashingDisk::default();
            let mut config = small();
            config.content = content;
            config.disk = Arc::new(disk.clone());
            let db = Database::open("data", config.clone()).unwrap();
            let mut session = db.session().unwrap();
            session.execute_script(SETUP).unwrap();
            let steps = [
                "CREATE USER ada PASSWORD 'secret' VALID UNTIL '2030-01-01' IN ROLE reader",
                "GRANT SELECT (a), UPDATE ON t TO reader WITH GRANT OPTION",
                "ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT SELECT ON TABLES TO reader",
                "GRANT CREATE ON SCHEMA public TO owner",
                "ALTER TABLE t OWNER TO owner",
                "CREATE SCHEMA of_owner AUTHORIZATION owner",
                "CREATE DOMAIN price AS INT CHECK (VALUE > 0)",
                "REVOKE USAGE ON DOMAIN price FROM PUBLIC",
                "CREATE VIEW asked WITH (security_invoker = true) AS SELECT a FROM t",
                "REVOKE CONNECT, TEMP ON DATABASE postgres FROM PUBLIC",
                "CREATE ROLE guest",
                "GRANT SELECT, INSERT ON t TO guest WITH GRANT OPTION",
                "DROP OWNED BY guest",
                "ALTER ROLE reader RENAME TO looker",
                "REVOKE EXECUTE ON FUNCTION invoked FROM PUBLIC CASCADE",
            ];
            for (place, step) in steps.iter().enumerate() {
                session.execute_script(step).unwrap_or_else(|error| panic!("{step}: {error}"));
                if place == checkpoint_after {
                    db.checkpoint().unwrap();
                }
            }
            act(&mut session, "owner");
            session.execute("CREATE TABLE made (id SERIAL PRIMARY KEY)", params![]).unwrap();
            session.begin().unwrap();
            session.execute("CREATE TABLE staged (id INT PRIMARY KEY)", params![]).unwrap();
            session.execute("INSERT INTO staged VALUES (1)", params![]).unwrap();
            session.execute("GRANT ALL ON staged TO ada", params![]).unwrap();
            let committed = session.commit();
            if content == Content::Physical && committed.is_err() {
                // A log of whole rows has no definitions beside updates.
                session.rollback();
            }
            let before = rights(&mut session);
            assert!(
                before.iter().any(|line| line.starts_with("ada|") && line.contains("SCRAM-SHA-256$4096:"))
            );
            assert!(!before.iter().any(|line| line.contains("secret")));
            session.shown().wait().unwrap();
            drop((session, db));
            // What was not synced is lost.
            config.disk = Arc::new(disk.after_crash(checkpoint_after as u64));
            let db = Database::open("data", config).unwrap();
            let mut session = db.session().unwrap();
            assert_eq!(rights(&mut session), before, "{content} after {checkpoint_after}");
            act(&mut session, "ada");
            assert_eq!(state(&mut session, "SELECT a FROM t"), "00000");
            assert_eq!(state(&mut session, "SELECT id FROM t"), "42501");
            assert_eq!(state(&mut session, "SELECT id FROM made"), "00000");
            assert_eq!(state(&mut session, "SELECT invoked()"), "42501");
        }
    }
}

#[test]
fn the_log_has_no_password() {
    let folder = tempfile::tempdir().unwrap();
    {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        session.execute_script("CREATE ROLE ada PASSWORD 'unbelievable'").unwrap();
        session.execute("ALTER ROLE ada PASSWORD E'un\\x62elievable2'", params![]).unwrap();
        let error =
            session.execute("ALTER ROLE ada PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e'", params![]);
        assert_eq!(error.unwrap_err().sqlstate(), "0A000");
        let kept = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=:\
                    YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=";
        session.execute(&format!("CREATE ROLE bob PASSWORD '{kept}'"), params![]).unwrap();
        assert_eq!(shown(&mut session, "SELECT rolpassword FROM pg_authid WHERE rolname = 'bob'"), [kept]);
        session.shown().wait().unwrap();
    }
    let mut files = vec![folder.path().to_owned()];
    let mut seen = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        seen += bytes.windows(9).filter(|own| own == b"SCRAM-SHA").count();
        assert!(!bytes.windows(12).any(|own| own == b"unbelievable"), "{}", path.display());
    }
    assert!(seen > 0, "the verifiers are in the log");
}

#[test]
fn a_database_without_roles_keeps_nothing() {
    let schema = sql::Schema::default();
    let (schema, _) = schema.apply("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let plain = schema.to_image().unwrap();
    assert!(!plain.contains("rights"), "{plain}");
    let (changed, _) = schema.apply("GRANT SELECT ON t TO PUBLIC").unwrap();
    assert!(changed.to_image().unwrap().contains("rights"));
    let (dropped, _) = changed.apply("DROP TABLE t").unwrap();
    assert!(!dropped.to_image().unwrap().contains("rights"), "privileges go with their object");
}

/// Rights change beside a transaction that has read and written.
#[test]
fn rights_change_beside_open_transactions() {
    for content in [Content::Command, Content::Logical, Content::Physical] {
        for concurrency in [Scheme::Optimistic, Scheme::TwoPhase] {
            let disk = CrashingDisk::default();
            let mut config = small();
            (config.content, config.concurrency) = (content, concurrency);
            config.disk = Arc::new(disk.clone());
            let db = Database::open("data", config.clone()).unwrap();
            let (mut admin, mut reader, mut writer) =
                (db.session().unwrap(), db.session().unwrap(), db.session().unwrap());
            admin.set_lock_timeout(Some(Duration::from_millis(200)));
            let setup = "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 10);
                CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (p, 0); END $$;
                CREATE ROLE reader; GRANT SELECT ON t TO reader";
            admin.execute_script(setup).unwrap();
            act(&mut reader, "reader");
            reader.begin().unwrap();
            assert_eq!(shown(&mut reader, "SELECT a FROM t WHERE id = 1"), ["10"]);
            writer.begin().unwrap();
            assert_eq!(shown(&mut writer, "SELECT a FROM t WHERE id = 1"), ["10"]);
            writer.execute("INSERT INTO t VALUES (2, 20)", params![]).unwrap();
            for step in ["CREATE ROLE other", "ALTER ROLE reader CREATEDB", "GRANT UPDATE ON t TO other"] {
                admin.execute_script(step).unwrap_or_else(|error| panic!("{step}: {error}"));
            }
            admin.execute_script("CALL put(3)").unwrap();
            assert_eq!(shown(&mut reader, "SELECT a FROM t WHERE id = 1"), ["10"]);
            admin.execute_script("REVOKE SELECT ON t FROM reader").unwrap();
            // As on PostgreSQL, an open transaction loses the right, too.
            assert_eq!(state(&mut reader, "SELECT a FROM t WHERE id = 1"), "42501");
            reader.rollback();
            // What changes tables waits for the transaction.
            let error = admin.execute_script("ALTER TABLE t ADD COLUMN b INT").unwrap_err();
            assert_eq!(error.sqlstate(), "55P03");
            writer.execute("CREATE TABLE staged (id INT PRIMARY KEY)", params![]).unwrap();
            let error = admin.execute_script("GRANT ALL ON t TO other").unwrap_err();
            assert_eq!(error.sqlstate(), "55P03", "the writer changes definitions");
            writer.execute("GRANT ALL ON staged TO other", params![]).unwrap();
            if content == Content::Physical {
                writer.rollback();
            } else {
                writer.commit().unwrap().wait().unwrap();
            }
            admin.execute_script("REVOKE UPDATE ON t FROM other; CALL put(4)").unwrap();
            let (before, live) = (rights(&mut admin), db.digest().unwrap());
            admin.shown().wait().unwrap();
            drop((admin, reader, writer, db));
            config.disk = Arc::new(disk.after_crash(7));
            let db = Database::open("data", config).unwrap();
            assert_eq!(rights(&mut db.session().unwrap()), before, "{content}");
            assert_eq!(db.digest().unwrap(), live, "{content}");
        }
    }
}
