//! How far a recovery is, as its users see it.

use super::{COMMANDS, answer};
use reprise::{Database, Row, Session, Value, params};

/// `reprise_recovery` has the values of the moment at which a statement runs. A procedure that reads it is
/// logged by value.
#[test]
fn a_recovery_says_how_far_it_is() {
    let folder = COMMANDS.folder(100);
    let db = COMMANDS.open(folder.path(), 0);
    let mut session = db.session().unwrap();
    let looked = session.prepare("SELECT * FROM reprise_recovery").unwrap();
    let look = |session: &mut Session| {
        let executed = session.execute(&looked, params![]).unwrap();
        assert_eq!(executed.rows.len(), 1);
        executed.rows[0].clone()
    };
    let int = |row: &Row, name| match row.get(name) {
        Some(Value::Int(number)) => *number,
        other => panic!("{name}: {other:?}"),
    };
    let seconds = |row: &Row, name| match row.get(name) {
        Some(Value::Double(seconds)) => Some(*seconds),
        Some(Value::Null) => None,
        other => panic!("{name}: {other:?}"),
    };
    let before = look(&mut session);
    assert_eq!(before.get("state"), Some(&Value::from("recovering")));
    assert_eq!(before.get("method"), Some(&Value::from("clr-p")));
    assert!(int(&before, "transactions") >= 100 && int(&before, "bytes_left") == int(&before, "bytes"));
    assert_eq!((int(&before, "served"), seconds(&before, "first_commit_s")), (0, None));
    session
        .execute_script(
            "CREATE TABLE moments (id INT PRIMARY KEY, bytes_left BIGINT, state TEXT);
            CREATE PROCEDURE note_moment(p_id INT) LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO moments SELECT p_id, bytes_left, state FROM reprise_recovery;
            END $$;",
        )
        .unwrap();
    answer(&mut session, "SELECT id FROM items WHERE id = 3000").unwrap();
    session.call("note_moment", params![1]).unwrap().commit.wait().unwrap();
    let during = look(&mut session);
    let (open_s, first_s) =
        (seconds(&during, "open_s").unwrap(), seconds(&during, "first_commit_s").unwrap());
    assert!(open_s <= first_s && int(&during, "served") >= 2, "{during:?}");
    assert!((1..int(&before, "bytes_left")).contains(&int(&during, "bytes_left")), "{during:?}");
    assert_eq!(seconds(&during, "recovered_s"), None);
    let live = db.digest().unwrap();
    let after = look(&mut session);
    assert_eq!((after.get("state"), int(&after, "bytes_left")), (Some(&Value::from("recovered")), 0));
    assert!(seconds(&after, "recovered_s").unwrap() >= first_s, "{after:?}");
    let noted = answer(&mut session, "SELECT bytes_left, state FROM moments").unwrap().0;
    assert_eq!(noted, [[during.get("bytes_left").unwrap().clone(), Value::from("recovering")]]);
    drop((session, db));
    assert_eq!(COMMANDS.recovered_digest(folder.path()), live);
    let closed = Database::open(folder.path(), COMMANDS.config()).unwrap();
    let row = look(&mut closed.session().unwrap());
    assert_eq!((row.get("state"), int(&row, "bytes")), (Some(&Value::from("recovered")), 0));
    assert_eq!(seconds(&row, "recovered_s"), seconds(&row, "open_s"));
}
