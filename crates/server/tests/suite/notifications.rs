//! LISTEN and NOTIFY: committed transactions tell their listeners, each thing once and in order; nothing
//! that is undone is told.

use crate::clients::Server;
use crate::waiting::{connect, outcome};
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use std::time::Duration;

/// Returns what has arrived, up to a notification with the payload "last".
fn heard(client: &mut Client) -> String {
    let mut all = Vec::new();
    let mut notifications = client.notifications();
    let mut arriving = notifications.timeout_iter(Duration::from_secs(20));
    while let Some(own) = arriving.next().unwrap() {
        if own.payload() == "last" {
            break;
        }
        all.push(format!("{}:{}", own.channel(), own.payload()));
    }
    all.join(" ")
}

const SCRIPT: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT);
    CREATE FUNCTION tell() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('news', TG_OP || NEW.id); RETURN NULL; END $$;
    CREATE TRIGGER tells AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION tell();
    CREATE PROCEDURE says(own TEXT) LANGUAGE plpgsql AS $$ BEGIN
        NOTIFY news, 'said'; PERFORM pg_notify('news', own); END $$;
    CREATE PROCEDURE handles() LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('news', 'kept');
        BEGIN PERFORM pg_notify('news', 'undone'); INSERT INTO t VALUES (1, 1), (1, 1);
        EXCEPTION WHEN unique_violation THEN PERFORM pg_notify('news', 'handled'); END;
    END $$;
    CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_notify('news', 'one'); COMMIT; PERFORM pg_notify('news', 'two'); ROLLBACK;
        PERFORM pg_notify('news', 'three'); COMMIT; PERFORM pg_notify('news', 'four');
        PERFORM 1 / 0; END $$;";

#[test]
fn transactions_tell_what_they_have_committed() {
    for server in Server::of_each_kind() {
        let (mut listener, mut teller) = (connect(&server), connect(&server));
        teller.batch_execute(SCRIPT).unwrap();
        listener.batch_execute("LISTEN news; LISTEN \"Other\"").unwrap();
        for (script, expected) in [
            ("NOTIFY news", "news:"),
            ("NOTIFY news, 'it''s'", "news:it's"),
            ("NOTIFY \"Other\", 'a'; NOTIFY unheard, 'b'", "Other:a"),
            ("BEGIN; NOTIFY news, 'a'; NOTIFY news, 'b'; NOTIFY news, 'a'; COMMIT", "news:a news:b"),
            ("BEGIN; NOTIFY news, 'a'; ROLLBACK", ""),
            (
                "BEGIN; NOTIFY news, 'a'; SAVEPOINT s; NOTIFY news, 'b'; ROLLBACK TO s; \
                 NOTIFY news, 'c'; COMMIT",
                "news:a news:c",
            ),
            ("SELECT pg_notify('news', n::text) FROM generate_series(1, 3) AS n", "news:1 news:2 news:3"),
            (
                "INSERT INTO t VALUES (1, 0), (2, 0); UPDATE t SET v = 1 WHERE id = 2",
                "news:INSERT1 news:INSERT2 news:UPDATE2",
            ),
            ("INSERT INTO t VALUES (3, 0), (1, 0)", ""),
            ("CALL says('x'); CALL says('y')", "news:said news:x news:said news:y"),
            ("CALL handles()", "news:kept news:handled"),
            ("DO $$ BEGIN EXECUTE 'NOTIFY news, ''dynamic'''; END $$", "news:dynamic"),
            ("CALL steps()", "news:one news:three"),
        ] {
            // A query of several statements is one transaction.
            if script.contains("CALL says") {
                script.split("; ").for_each(|own| assert_eq!(outcome(&mut teller, own), "ok"));
            } else {
                outcome(&mut teller, script);
            }
            teller.batch_execute("NOTIFY news, 'last'").unwrap();
            assert_eq!(heard(&mut listener), expected, "{script}");
        }
    }
}

#[test]
fn listening_is_a_part_of_the_transaction() {
    let server = Server::start();
    let (mut listener, mut teller) = (connect(&server), connect(&server));
    let tell = |teller: &mut Client, text: &str| {
        teller.batch_execute(&format!("NOTIFY news, '{text}'; NOTIFY always, '{text}'")).unwrap();
    };
    listener.batch_execute("LISTEN always").unwrap();
    for (script, hears) in [
        ("BEGIN; LISTEN news; ROLLBACK", false),
        ("BEGIN; SAVEPOINT s; LISTEN news; ROLLBACK TO s; COMMIT", false),
        ("BEGIN; LISTEN news; COMMIT", true),
        ("BEGIN; UNLISTEN news; ROLLBACK", true),
        ("UNLISTEN other", true),
        ("UNLISTEN news", false),
        ("LISTEN news; LISTEN news", true),
        ("DISCARD ALL | LISTEN always", false),
        ("LISTEN news; UNLISTEN *; LISTEN always", false),
    ] {
        // DISCARD ALL cannot be in a transaction with other statements.
        script.split(" | ").for_each(|query| listener.batch_execute(query).unwrap());
        tell(&mut teller, "x");
        tell(&mut teller, "last");
        let expected = if hears { "news:x always:x" } else { "always:x" };
        assert_eq!(heard(&mut listener), expected, "{script}");
        if hears {
            // The last one arrives on both channels.
            assert_eq!(heard(&mut listener), "", "{script}");
        }
    }
}

/// A client hears nothing while its transaction is open, and hears itself.
#[test]
fn nothing_arrives_in_a_transaction() {
    let server = Server::start();
    let (mut listener, mut teller) = (connect(&server), connect(&server));
    listener.batch_execute("LISTEN news").unwrap();
    listener.batch_execute("BEGIN; NOTIFY news, 'own'").unwrap();
    teller.batch_execute("NOTIFY news, 'before'").unwrap();
    assert_eq!(outcome(&mut listener, "SELECT 1"), "ok");
    assert!(listener.notifications().iter().next().unwrap().is_none());
    listener.batch_execute("COMMIT").unwrap();
    teller.batch_execute("NOTIFY news, 'last'").unwrap();
    assert_eq!(heard(&mut listener), "news:before news:own");
    for (text, sqlstate) in [
        ("SELECT pg_notify('', 'a')", "22023"),
        ("SELECT pg_notify(NULL, 'a')", "22023"),
        ("SELECT pg_notify(repeat('x', 64), 'a')", "22023"),
        ("SELECT pg_notify('x', repeat('x', 8000))", "22023"),
        ("SELECT pg_notify(repeat('x', 63), repeat('x', 7999))", "ok"),
    ] {
        assert_eq!(outcome(&mut listener, text), sqlstate, "{text}");
    }
}
