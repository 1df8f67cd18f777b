//! Statements that are not prepared by name follow definitions that change between their plan and their run.

use crate::clients::Server;
use crate::waiting::Waiting;
use postgres::types::Type;
use postgres::{Client, SimpleQueryMessage};
use std::sync::mpsc::channel;
use std::time::Duration;

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 5)";
const WRITE: &str = "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING *";
/// Changes the columns of the table in the transaction that holds its row.
const ALTER: &str = "ALTER TABLE t ADD COLUMN w TEXT DEFAULT 'x'; COMMIT";

/// Runs a statement of a client that waits for a row, whose holder then adds a column.
fn beside_alter<T: Send + 'static>(run: impl FnOnce(&mut Client) -> T + Send + 'static) -> T {
    let server = Server::start();
    let (mut holder, mut waiting) = (server.connect(), server.connect());
    holder.batch_execute(TABLE).unwrap();
    holder.batch_execute("BEGIN; UPDATE t SET v = 7 WHERE id = 1").unwrap();
    let (send, ran) = channel();
    let client = std::thread::spawn(move || send.send(run(&mut waiting)).unwrap());
    assert!(ran.recv_timeout(Duration::from_millis(60)).is_err(), "it waits for the row");
    holder.batch_execute(ALTER).unwrap();
    client.join().unwrap();
    ran.recv().unwrap()
}

#[test]
fn a_simple_query_is_planned_again_when_its_columns_change() {
    let answers = beside_alter(|client| client.simple_query(WRITE)).unwrap();
    let rows: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap()).collect::<Vec<_>>())
            }
            _ => None,
        })
        .collect();
    assert_eq!(rows, [["1", "8", "x"]]);
}

#[test]
fn a_statement_without_a_name_is_planned_again_when_its_columns_change() {
    let rows = beside_alter(|client| {
        client.query_typed("UPDATE t SET v = v + $1 WHERE id = 1 RETURNING *", &[(&1_i32, Type::INT4)])
    });
    let rows = rows.unwrap();
    assert_eq!(rows[0].columns().len(), 3);
    assert_eq!((rows[0].get::<_, i32>(1), rows[0].get::<_, &str>(2)), (8, "x"));
}

#[test]
fn a_statement_with_a_name_keeps_its_columns() {
    let code = beside_alter(|client| {
        let prepared = client.prepare(WRITE).unwrap();
        client.query(&prepared, &[]).unwrap_err().code().unwrap().code().to_owned()
    });
    assert_eq!(code, "0A000");
    let code = beside_alter(|client| {
        client.batch_execute(&format!("PREPARE p AS {WRITE}")).unwrap();
        client.simple_query("EXECUTE p").unwrap_err().code().unwrap().code().to_owned()
    });
    assert_eq!(code, "0A000");
}

#[test]
fn clients_that_query_beside_alter_table_get_no_errors() {
    let server = Server::start();
    server.connect().batch_execute(TABLE).unwrap();
    let mut alters = server.connect();
    let read = "SELECT * FROM t;".repeat(200);
    for _ in 0..10 {
        let reader = Waiting::start(server.connect(), &read);
        for change in ["ADD COLUMN w INT", "DROP COLUMN w"] {
            alters.batch_execute(&format!("ALTER TABLE t {change}")).unwrap();
        }
        assert_eq!(reader.end().0, "ok");
    }
}
