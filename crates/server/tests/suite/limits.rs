//! What clients leave open keeps no other one from being served.

use crate::clients::Server;
use postgres::{Client, NoTls};
use reprise::{Config, Scheme};
use std::time::{Duration, Instant};

fn connect(server: &Server) -> Client {
    let address = format!("host=127.0.0.1 port={} user=test dbname=test", server.port);
    Client::connect(&address, NoTls).unwrap()
}

#[test]
fn open_transactions_leave_room() {
    leaves_room(Scheme::Optimistic, "UPDATE t SET v = v + 1 WHERE id = 1");
}

#[test]
fn open_transactions_leave_room_for_calls() {
    leaves_room(Scheme::DependencyGraph, "CALL count_one()");
}

/// Runs a statement that adds 1 to the row, many times beside open transactions.
fn leaves_room(concurrency: Scheme, statement: &'static str) {
    let mut config = Config::default();
    (config.concurrency, config.workers) = (concurrency, 20);
    let server = Server::start_with(config);
    let mut client = connect(&server);
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0)").unwrap();
    client
        .batch_execute(
            "CREATE PROCEDURE count_one() LANGUAGE plpgsql AS $$
             BEGIN UPDATE t SET v = v + 1 WHERE id = 1; END $$",
        )
        .unwrap();
    for _ in 0..3 {
        let mut open: Vec<Client> = (0..12).map(|_| connect(&server)).collect();
        open.iter_mut().for_each(|own| own.batch_execute("BEGIN; SELECT v FROM t").unwrap());
        let error = client.batch_execute("BEGIN").unwrap_err();
        assert_eq!(error.as_db_error().unwrap().code().code(), "53300");
        // Single statements are served, more of them at one time than there are sessions; and checkpoints.
        let clients: Vec<_> = (0..40).map(|_| connect(&server)).collect();
        let threads = clients.into_iter().map(|mut single| {
            std::thread::spawn(move || {
                for _ in 0..20 {
                    single.batch_execute(statement).unwrap();
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        client.batch_execute("CHECKPOINT").unwrap();
        // One that ends, and one that goes, make room for another one each.
        open[0].batch_execute("COMMIT").unwrap();
        drop(open.pop());
        client.batch_execute("BEGIN; SELECT 1; COMMIT").unwrap();
    }
    assert_eq!(client.query_one("SELECT v FROM t", &[]).unwrap().get::<_, i32>(0), 3 * 40 * 20);
}

/// Statements that wait for a row keep their sessions only as far as open transactions may.
#[test]
fn statements_that_wait_leave_room() {
    let mut config = Config::default();
    config.workers = 20;
    let server = Server::start_with(config);
    let mut client = connect(&server);
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 0)").unwrap();
    client.batch_execute("BEGIN; UPDATE t SET v = 1").unwrap();
    let waiting: Vec<_> = (0..40)
        .map(|_| {
            let mut other = connect(&server);
            std::thread::spawn(move || other.batch_execute("UPDATE t SET v = v + 1 WHERE id = 1").unwrap())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..20 {
        let begun = Instant::now();
        connect(&server).batch_execute("SELECT v FROM t").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    assert!(waiting.iter().all(|own| !own.is_finished()));
    client.batch_execute("COMMIT").unwrap();
    waiting.into_iter().for_each(|own| own.join().unwrap());
    assert_eq!(client.query_one("SELECT v FROM t", &[]).unwrap().get::<_, i32>(0), 41);
}
