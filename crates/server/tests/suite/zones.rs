//! The time zone of a connection: SET and its kin, what the server reports, and values in each protocol.

use crate::clients::Server;
use crate::waiting::{connect, outcome};
use postgres::{Client, Config, NoTls};

fn text(client: &mut Client, query: &str) -> String {
    let row = client.query_one(&format!("SELECT ({query})::text"), &[]).unwrap();
    row.get::<_, Option<String>>(0).unwrap_or("NULL".into())
}

/// The first value of a simple query, as the server writes it.
fn simple(client: &mut Client, query: &str) -> String {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let rows = messages.iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    rows.last().unwrap_or_default()
}

const AT: &str = "SELECT '2024-07-01 12:00+00'::timestamptz";

#[test]
fn set_and_show_are_postgresqls() {
    let server = Server::start();
    let mut client = connect(&server);
    for (set, shown, at) in [
        ("SET TimeZone TO 'Europe/Berlin'", "Europe/Berlin", "2024-07-01 14:00:00+02"),
        ("SET TIME ZONE 'europe/berlin'", "Europe/Berlin", "2024-07-01 14:00:00+02"),
        ("SET timezone = 'utc'", "UTC", "2024-07-01 12:00:00+00"),
        ("SET TIME ZONE -7", "<-07>+07", "2024-07-01 05:00:00-07"),
        ("SET TIME ZONE 5.5", "<+05:30>-05:30", "2024-07-01 17:30:00+05:30"),
        ("SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", "<-08>+08", "2024-07-01 04:00:00-08"),
        ("SET TIME ZONE INTERVAL '3' HOUR", "<+03>-03", "2024-07-01 15:00:00+03"),
        ("SET TIME ZONE PST8PDT", "PST8PDT", "2024-07-01 05:00:00-07"),
        ("SET SESSION TIME ZONE 'Asia/Tokyo'", "Asia/Tokyo", "2024-07-01 21:00:00+09"),
        ("SET TIME ZONE LOCAL", "UTC", "2024-07-01 12:00:00+00"),
        ("SET TimeZone TO 'Asia/Kolkata'", "Asia/Kolkata", "2024-07-01 17:30:00+05:30"),
        ("RESET TimeZone", "UTC", "2024-07-01 12:00:00+00"),
        ("SET TIME ZONE 'foo3'", "FOO3", "2024-07-01 09:00:00-03"),
        ("SET TIME ZONE DEFAULT", "UTC", "2024-07-01 12:00:00+00"),
        (
            "SELECT set_config('timezone', 'america/new_york', false)",
            "America/New_York",
            "2024-07-01 08:00:00-04",
        ),
        ("DISCARD ALL", "UTC", "2024-07-01 12:00:00+00"),
        ("SET TIME ZONE 'Asia/Tokyo'; RESET TIME ZONE", "UTC", "2024-07-01 12:00:00+00"),
    ] {
        client.simple_query(set).unwrap_or_else(|error| panic!("{set}: {error}"));
        for show in ["SHOW TimeZone", "SHOW TIME ZONE", "SELECT current_setting('TimeZone')"] {
            assert_eq!(simple(&mut client, show), shown, "{set}");
        }
        assert_eq!(simple(&mut client, AT), at, "{set}");
    }
    for wrong in ["'Nowhere'", "'PST'", "'x/y'", "1000", "INTERVAL '1 month'", "INTERVAL '1 day'", "''"] {
        assert_eq!(outcome(&mut client, &format!("SET TIME ZONE {wrong}")), "22023", "{wrong}");
    }
    assert_eq!(simple(&mut client, "SHOW TimeZone"), "UTC");
}

/// SET LOCAL, rollbacks and savepoints give the zone back.
#[test]
fn a_local_zone_ends_with_its_transaction() {
    let server = Server::start();
    let mut client = connect(&server);
    client.batch_execute("SET TimeZone TO 'Asia/Tokyo'").unwrap();
    let zone = |client: &mut Client| simple(client, "SHOW TimeZone");
    for local in ["SET LOCAL TIME ZONE 'Europe/Berlin'", "SET LOCAL TimeZone = 'Europe/Berlin'"] {
        client.batch_execute("BEGIN").unwrap();
        client.batch_execute(local).unwrap();
        assert_eq!(zone(&mut client), "Europe/Berlin");
        assert_eq!(simple(&mut client, AT), "2024-07-01 14:00:00+02");
        client.batch_execute("COMMIT").unwrap();
        assert_eq!(zone(&mut client), "Asia/Tokyo", "{local}");
        assert_eq!(simple(&mut client, AT), "2024-07-01 21:00:00+09");
    }
    client.batch_execute("BEGIN; SAVEPOINT s").unwrap();
    client.batch_execute("SET TimeZone TO 'Europe/Berlin'").unwrap();
    client.batch_execute("ROLLBACK TO s").unwrap();
    assert_eq!(simple(&mut client, AT), "2024-07-01 21:00:00+09");
    client.batch_execute("SET TimeZone TO 'Europe/Berlin'").unwrap();
    client.batch_execute("ROLLBACK").unwrap();
    assert_eq!(zone(&mut client), "Asia/Tokyo");
    // Another connection has its own, also where it gets the same session of the pool.
    assert_eq!(simple(&mut connect(&server), AT), "2024-07-01 12:00:00+00");
}

#[test]
fn a_connection_begins_in_the_zone_of_its_options() {
    let server = Server::start();
    let mut config = Config::new();
    config.host("127.0.0.1").port(server.port).user("test").options("-c TimeZone=europe/berlin");
    let mut client = config.connect(NoTls).unwrap();
    assert_eq!(simple(&mut client, "SHOW TimeZone"), "Europe/Berlin");
    client.batch_execute("SET TimeZone TO 'Asia/Tokyo'; RESET TimeZone").unwrap();
    assert_eq!(simple(&mut client, AT), "2024-07-01 14:00:00+02");
    assert_eq!(
        simple(&mut client, "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"),
        "Europe/Berlin"
    );
}

/// Parameters as texts, COPY in both directions, and statements that outlive a SET.
#[test]
fn values_are_read_and_written_in_the_zone() {
    use std::io::{Read as _, Write as _};
    let server = Server::start();
    let mut client = connect(&server);
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ, l TIMESTAMPTZ[])").unwrap();
    let cast = client.prepare("SELECT ($1::text::timestamptz AT TIME ZONE 'UTC')::text").unwrap();
    let literal = client.prepare("SELECT ('2024-07-01 12:00'::timestamptz)::text").unwrap();
    for (zone, read, shown) in [
        ("Asia/Tokyo", "2024-07-01 03:00:00", "2024-07-01 21:00:00+09"),
        ("America/New_York", "2024-07-01 16:00:00", "2024-07-01 08:00:00-04"),
        ("UTC", "2024-07-01 12:00:00", "2024-07-01 12:00:00+00"),
    ] {
        client.batch_execute(&format!("SET TimeZone TO '{zone}'")).unwrap();
        assert_eq!(client.query_one(&cast, &[&"2024-07-01 12:00"]).unwrap().get::<_, &str>(0), read);
        // Literals have the zone of the preparation.
        assert_eq!(client.query_one(&literal, &[]).unwrap().get::<_, &str>(0), shown);
        client.batch_execute("DELETE FROM t").unwrap();
        let mut copy = client.copy_in("COPY t FROM STDIN").unwrap();
        copy.write_all(b"1\t2024-07-01 12:00\t{2024-07-01 12:00,NULL}\n").unwrap();
        copy.finish().unwrap();
        assert_eq!(text(&mut client, "SELECT at AT TIME ZONE 'UTC' FROM t"), read);
        assert_eq!(text(&mut client, "SELECT l[1] AT TIME ZONE 'UTC' FROM t"), read);
        let mut out = String::new();
        client.copy_out("COPY t TO STDOUT").unwrap().read_to_string(&mut out).unwrap();
        let offset = &shown[19..];
        assert_eq!(
            out,
            format!("1\t2024-07-01 12:00:00{offset}\t{{\"2024-07-01 12:00:00{offset}\",NULL}}\n")
        );
        let cursor = "BEGIN; DECLARE c CURSOR FOR SELECT at FROM t; FETCH c";
        assert_eq!(simple(&mut client, cursor), format!("2024-07-01 12:00:00{offset}"));
        client.batch_execute("COMMIT").unwrap();
    }
}

/// `set_config` in a routine changes the zone of what follows in it.
#[test]
fn a_routine_may_set_the_zone() {
    let server = Server::start();
    let mut client = connect(&server);
    let made = "CREATE FUNCTION f() RETURNS TEXT LANGUAGE plpgsql AS $$ BEGIN
         PERFORM set_config('TimeZone', 'Asia/Tokyo', true);
         RETURN '2024-07-01 12:00+00'::timestamptz::text; END $$";
    client.batch_execute(made).unwrap();
    assert_eq!(text(&mut client, "f()"), "2024-07-01 21:00:00+09");
    assert_eq!(simple(&mut client, AT), "2024-07-01 12:00:00+00");
    let dynamic = "DO $$ DECLARE x TEXT; BEGIN
         EXECUTE 'SELECT ''2024-07-01 12:00''::timestamptz::text' INTO x;
         RAISE EXCEPTION '%', x; END $$";
    for (zone, shown) in [("Asia/Tokyo", "+09"), ("UTC", "+00"), ("America/New_York", "-04")] {
        client.batch_execute(&format!("SET TimeZone TO '{zone}'")).unwrap();
        let error = client.batch_execute(dynamic).unwrap_err();
        assert_eq!(error.as_db_error().unwrap().message(), format!("2024-07-01 12:00:00{shown}"));
    }
}
