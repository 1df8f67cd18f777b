//! Routines that read the catalog see it as it is, before and after a recovery.

use crate::common::Durably as _;
use crate::common::{logging, recovered_digest_of};
use reprise::{Content, Database, Session, Value};

const BEFORE: &str = "
CREATE TABLE note (id INT PRIMARY KEY, what TEXT);
CREATE FUNCTION named(o OID) RETURNS TEXT LANGUAGE plpgsql AS $$ BEGIN RETURN o::regclass::text; END $$;
CREATE FUNCTION tables() RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace);
END $$;
CREATE PROCEDURE remember(i INT, o BIGINT) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO note VALUES (i, o::oid::regclass::text || ' ' || coalesce(named(o::oid), '-')); END $$;
CREATE PROCEDURE count_them(i INT) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO note VALUES (i, tables()::text); END $$;
";

fn notes(session: &mut Session) -> Vec<String> {
    let answer = session.query("SELECT what FROM note ORDER BY id").unwrap();
    answer.rows.iter().map(|row| format!("{:?}", row[0])).collect()
}

fn remember(session: &mut Session, id: i64, table: &str) {
    let number = session.query(&format!("SELECT '{table}'::regclass::oid")).unwrap().rows[0][0].clone();
    session.call_durably("remember", &[Value::Int(id), number]).unwrap();
    session.call_durably("count_them", &[Value::Int(id + 1)]).unwrap();
}

#[test]
fn they_see_the_catalog_as_it_is() {
    for (content, takes_checkpoint) in [Content::Command, Content::Logical, Content::Physical]
        .into_iter()
        .flat_map(|own| [(own, false), (own, true)])
    {
        let folder = tempfile::tempdir().unwrap();
        let config = logging(content);
        let database = Database::open(folder.path(), config.clone()).unwrap();
        let mut session = database.session().unwrap();
        session.execute_script(BEFORE).unwrap();
        session.execute_script("CREATE TABLE first (id INT PRIMARY KEY)").unwrap();
        remember(&mut session, 1, "first");
        if takes_checkpoint {
            database.checkpoint().unwrap();
        }
        session.execute_script("CREATE TABLE second (id INT PRIMARY KEY)").unwrap();
        remember(&mut session, 3, "second");
        session.execute_script("ALTER TABLE first RENAME TO third").unwrap();
        remember(&mut session, 5, "third");
        let expected = ["first first", "2", "second second", "3", "third third", "3"];
        assert_eq!(notes(&mut session), expected.map(|text| format!("{:?}", Value::Text(text.into()))));
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "{content}");
        let database = Database::open(folder.path(), config).unwrap();
        let mut session = database.session().unwrap();
        remember(&mut session, 7, "third");
        assert_eq!(
            notes(&mut session)[6..],
            ["third third", "3"].map(|text| format!("{:?}", Value::Text(text.into())))
        );
    }
}
