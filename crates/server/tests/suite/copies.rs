//! COPY FROM: where the data of the binary format may end, what an error says, and messages of any length.

use crate::clients::Server;
use postgres::Client;
use std::io::Write as _;

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TRAILER: &[u8] = &(-1i16).to_be_bytes();

/// A row of two integers.
fn row(id: i32, n: i32) -> Vec<u8> {
    let field = |value: i32| [4i32.to_be_bytes(), value.to_be_bytes()].concat();
    [&2i16.to_be_bytes()[..], &field(id), &field(n)].concat()
}

fn copied(client: &mut Client, data: &[&[u8]]) -> Result<u64, postgres::Error> {
    let mut copy = client.copy_in("COPY t FROM STDIN WITH (FORMAT binary)").unwrap();
    for part in data {
        copy.write_all(part).unwrap();
        copy.flush().unwrap();
    }
    copy.finish()
}

fn with_table(server: &Server) -> Client {
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL CHECK (n > 0))").unwrap();
    client
}

#[test]
fn the_trailer_may_be_missing() {
    let server = Server::start();
    let mut client = with_table(&server);
    assert_eq!(copied(&mut client, &[HEADER, &row(1, 1), &row(2, 2)]).unwrap(), 2);
    assert_eq!(copied(&mut client, &[HEADER, &row(3, 3), TRAILER]).unwrap(), 1);
    assert_eq!(copied(&mut client, &[HEADER]).unwrap(), 0);
    let (first, second) = HEADER.split_at(7);
    assert_eq!(copied(&mut client, &[first, second, &row(4, 4)]).unwrap(), 1);
    let refused = |client: &mut Client, data: &[&[u8]]| {
        copied(client, data).unwrap_err().as_db_error().unwrap().message().to_owned()
    };
    let cut = &row(5, 5)[..7];
    assert_eq!(refused(&mut client, &[HEADER, cut]), "unexpected EOF in COPY data");
    let behind = [HEADER, TRAILER, &row(6, 6)];
    assert_eq!(refused(&mut client, &behind), "received copy data after EOF marker");
    assert_eq!(refused(&mut client, &[]), "COPY file signature not recognized");
    let row = client.query_one("SELECT count(*), sum(n) FROM t", &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (4, 10));
}

#[test]
fn an_error_has_its_row() {
    let server = Server::start();
    let mut client = with_table(&server);
    let error = copied(&mut client, &[HEADER, &row(1, 1), &row(2, 0)]).unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.detail(), Some("Failing row contains (2, 0)."));
    assert_eq!(error.where_(), Some("COPY, line 2"));
    let mut copy = client.copy_in("COPY t FROM STDIN").unwrap();
    copy.write_all(b"1\t1\n2\tx\n").unwrap();
    let error = copy.finish().unwrap_err();
    assert_eq!(error.as_db_error().unwrap().where_(), Some("COPY, line 2"));
}

/// The messages may end anywhere, also within a row, an escape, a quoted field and a line end.
#[test]
fn messages_of_any_length_make_the_same_rows() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE u (a TEXT, b TEXT)").unwrap();
    let binary = [HEADER, &2i16.to_be_bytes(), &[0, 0, 0, 2], b"ab", &[0xff; 4], TRAILER].concat();
    let text = b"a\\tb\t\\N\r\n\\\n\\\\\t\\x41\\101\n\t\n\\.\n".to_vec();
    let csv = b"x,y\r\n\"a,\"\"b\n\",\"\"\n,\\.\nlast,one".to_vec();
    for (options, data, rows) in [
        ("FORMAT binary", binary, vec![(Some("ab"), None)]),
        ("FORMAT text", text, vec![(Some("a\tb"), None), (Some("\n\\"), Some("AA")), (Some(""), Some(""))]),
        (
            "FORMAT csv, HEADER",
            csv,
            vec![(Some("a,\"b\n"), Some("")), (None, Some("\\.")), (Some("last"), Some("one"))],
        ),
    ] {
        for length in 1..=data.len() {
            client.batch_execute("TRUNCATE u").unwrap();
            let mut copy = client.copy_in(&format!("COPY u FROM STDIN WITH ({options})")).unwrap();
            for part in data.chunks(length) {
                copy.write_all(part).unwrap();
                copy.flush().unwrap();
            }
            assert_eq!(copy.finish().unwrap(), rows.len() as u64, "{options}, {length}");
            let read = client.query("SELECT a, b FROM u", &[]).unwrap();
            let read: Vec<(Option<&str>, Option<&str>)> =
                read.iter().map(|row| (row.get(0), row.get(1))).collect();
            let expected: std::collections::BTreeSet<_> = rows.iter().copied().collect();
            let read: std::collections::BTreeSet<_> = read.into_iter().collect();
            assert_eq!(read, expected, "{options}, {length}");
        }
    }
}
