//! COPY: where the data of the binary format may end, what an error says, options, lines, and messages of any
//! length.

use crate::clients::Server;
use postgres::Client;
use std::io::{Read as _, Write as _};

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
    assert_eq!(error.where_(), Some("COPY t, line 2"));
    let mut copy = client.copy_in("COPY t FROM STDIN").unwrap();
    copy.write_all(b"1\t1\n2\tx\n").unwrap();
    let error = copy.finish().unwrap_err();
    assert_eq!(error.as_db_error().unwrap().where_(), Some("COPY t, line 2, column n: \"x\""));
}

/// The messages may end anywhere, also within a row, an escape, a quoted field and a line end.
#[test]
fn messages_of_any_length_make_the_same_rows() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE u (a TEXT, b TEXT)").unwrap();
    let binary = [HEADER, &2i16.to_be_bytes(), &[0, 0, 0, 2], b"ab", &[0xff; 4], TRAILER].concat();
    let text = b"a\\tb\t\\N\r\n\\\n\\\\\t\\x41\\101\r\n\t\r\n\\.\r\n".to_vec();
    let csv = b"x,y\r\n\"a,\"\"b\n\",\"\"\r\n,\\.\r\nlast,one".to_vec();
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

/// Options, data, and the message and CONTEXT of PostgreSQL 15's error.
const REFUSED: &[(&str, &str, &str, Option<&str>)] = &[
    ("DELIMITER 'a'", "", "COPY delimiter cannot be \"a\"", None),
    ("FORMAT csv, QUOTE ','", "", "COPY delimiter and quote must be different", None),
    ("QUOTE '|'", "", "COPY quote available only in CSV mode", None),
    ("NULL E'\\t'", "", "COPY delimiter must not appear in the NULL specification", None),
    ("FORMAT text, FORMAT csv", "", "conflicting or redundant options", None),
    ("FORMAT binary, DELIMITER ','", "", "cannot specify DELIMITER in BINARY mode", None),
    ("FORMAT csv, FORCE_NULL (zz)", "", "column \"zz\" of relation \"c\" does not exist", None),
    ("FORMAT csv, FORCE_QUOTE (b)", "", "COPY force quote only available using COPY TO", None),
    ("FREEZE 2", "", "freeze requires a Boolean value", None),
    ("HEADER 7", "", "header requires a Boolean value or \"match\"", None),
    ("unknown", "", "option \"unknown\" not recognized", None),
    ("HEADER false", "1\n", "missing data for column \"b\"", Some("COPY c, line 1: \"1\"")),
    (
        "HEADER",
        "a\tb\n1\tx\tz\n",
        "extra data after last expected column",
        Some("COPY c, line 2: \"1\tx\tz\""),
    ),
    (
        "FORMAT csv",
        "1,x\nq,y\n",
        "invalid input syntax for type integer: \"q\"",
        Some("COPY c, line 2, column a: \"q\""),
    ),
    ("FORMAT csv", "1,\"x\n", "unterminated CSV quoted field", Some("COPY c, line 1: \"1,\"x\n\"")),
    ("FORMAT csv", "1,x\r\n2,y\n", "unquoted newline found in data", Some("COPY c, line 2")),
    ("FORMAT text", "1\tx\n2\ty\rz\n", "literal carriage return found in data", Some("COPY c, line 2")),
    (
        "FORMAT csv, HEADER match",
        "a,c\n1,x\n",
        "column name mismatch in header line field 2: got \"c\", expected \"b\"",
        Some("COPY c, line 1: \"a,c\""),
    ),
    (
        "HEADER match",
        "",
        "wrong number of fields in header line: got 1, expected 2",
        Some("COPY c, line 1: \"\""),
    ),
];

/// Options, data, and the rows that it makes, in CSV.
const TAKEN: &[(&str, &str, &str)] = &[
    ("HEADER match", "a\tb\n1\tx\n", "1,x\n"),
    ("FORMAT csv, NULL 'x', FORCE_NULL (b)", "1,\"x\"\n2,\"y\"\n", "1,\n2,y\n"),
    ("FORMAT csv, FORCE_NOT_NULL (b)", "1,\n", "1,\"\"\n"),
    ("FORMAT csv, NULL 'x', FORCE_NOT_NULL (b), FORCE_NULL (b)", "1,x\n2,\"x\"\n", "1,x\n2,\n"),
    ("FORMAT text", "1\tx\r2\ty\r", "1,x\n2,y\n"),
    ("FORMAT csv", "1,\"x\ry\"\r\n2,z", "1,\"x\ry\"\n2,z\n"),
];

fn copied_in(client: &mut Client, options: &str, data: &str, length: usize) -> Result<u64, postgres::Error> {
    let mut copy = client.copy_in(&format!("COPY c FROM STDIN ({options})"))?;
    for part in data.as_bytes().chunks(length) {
        copy.write_all(part).unwrap();
        copy.flush().unwrap();
    }
    copy.finish()
}

#[test]
fn options_and_lines_are_those_of_postgresql() {
    let server = Server::start();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE c (a INT, b TEXT)").unwrap();
    for (options, data, message, context) in REFUSED {
        let error = copied_in(&mut client, options, data, 5).unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.message(), error.where_()), (*message, *context), "{options}, {data:?}");
    }
    for (options, data, expected) in TAKEN {
        for length in 1..=data.len() {
            client.batch_execute("TRUNCATE c").unwrap();
            copied_in(&mut client, options, data, length).unwrap();
            let mut rows = String::new();
            let ordered = "COPY (SELECT * FROM c ORDER BY a) TO STDOUT (FORMAT csv)";
            client.copy_out(ordered).unwrap().read_to_string(&mut rows).unwrap();
            assert_eq!(rows, *expected, "{options}, {data:?}, {length} bytes a message");
        }
    }
    let mut rows = String::new();
    let some = "COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT (FORMAT csv, FORCE_QUOTE (b))";
    client.copy_out(some).unwrap().read_to_string(&mut rows).unwrap();
    assert_eq!(rows, "1,\"x\"\n");
    // FREEZE is for the transaction that has made or truncated the table.
    let freeze = "COPY c FROM STDIN (FREEZE)";
    assert_eq!(crate::waiting::outcome(&mut client, freeze), "55000");
    let mut transaction = client.transaction().unwrap();
    transaction.batch_execute("TRUNCATE c").unwrap();
    let mut copy = transaction.copy_in(freeze).unwrap();
    copy.write_all(b"1\tx\n").unwrap();
    assert_eq!(copy.finish().unwrap(), 1);
    transaction.commit().unwrap();
}
