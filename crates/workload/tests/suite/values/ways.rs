//! The ways in which a value comes to a server, and what comes of it.

use super::samples::Kind;
use crate::server::Server;
use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, NoTls, SimpleQueryMessage};
use reprise::{Compile, Config, Database};
use std::error::Error as StdError;
use std::io::Write;

/// How a value comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// A literal in an INSERT.
    Literal,
    /// A literal that is cast.
    Cast,
    /// A text that is cast for each row.
    TextCast,
    /// A parameter in text form.
    TextParameter,
    /// A parameter in binary form.
    BinaryParameter,
    CopyText,
    CopyCsv,
    CopyBinary,
}

impl Way {
    pub(super) const ALL: [Self; 8] = [
        Self::Literal,
        Self::Cast,
        Self::TextCast,
        Self::TextParameter,
        Self::BinaryParameter,
        Self::CopyText,
        Self::CopyCsv,
        Self::CopyBinary,
    ];

    pub(super) fn is_binary(self) -> bool {
        matches!(self, Self::BinaryParameter | Self::CopyBinary)
    }
}

/// The rows in text and in binary form, or the SQLSTATE.
pub(super) type Outcome = Result<(Vec<Option<String>>, Vec<Option<Vec<u8>>>), String>;

/// Bytes as they are sent.
#[derive(Debug)]
struct Sent<'a> {
    bytes: &'a [u8],
    is_binary: bool,
}

impl ToSql for Sent<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.extend_from_slice(self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> postgres::types::Format {
        if self.is_binary { postgres::types::Format::Binary } else { postgres::types::Format::Text }
    }

    postgres::types::to_sql_checked!();
}

/// Bytes as they are received.
struct Received(Option<Vec<u8>>);

impl<'a> FromSql<'a> for Received {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// One of the two servers, with a connection.
pub(super) struct Side {
    client: Client,
    address: String,
    _running: Option<(tokio::runtime::Runtime, tempfile::TempDir)>,
}

fn table_of(kind: &Kind) -> String {
    format!("v_{}", kind.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

impl Side {
    pub(super) fn reprise() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        (config.memory_ahead_bytes, config.compile) = (0, Compile::AtOnce);
        let database = Database::open(folder.path(), config).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = ::server::Server::new(::server::Options::default(), std::sync::Arc::default());
        server.open(database);
        runtime.spawn(server.serve(listener));
        Self::at(format!("host=127.0.0.1 port={port} user=test dbname=test"), Some((runtime, folder)))
    }

    pub(super) fn postgresql(server: &Server) -> Self {
        Self::at(server.address(), None)
    }

    fn at(address: String, running: Option<(tokio::runtime::Runtime, tempfile::TempDir)>) -> Self {
        let mut client = Client::connect(&address, NoTls).unwrap();
        for kind in super::KINDS {
            client.batch_execute(&format!("CREATE TABLE {} (v {})", table_of(kind), kind.name)).unwrap();
        }
        Self { client, address, _running: running }
    }

    /// What comes of a value; `None` where a text cannot be sent so.
    pub(super) fn outcome(&mut self, kind: &Kind, way: Way, value: &[u8]) -> Option<Outcome> {
        let table = table_of(kind);
        let text = std::str::from_utf8(value).ok().filter(|text| !text.contains('\0'));
        let quoted = text.map(|text| format!("'{}'", text.replace('\'', "''")));
        let sent = Sent { bytes: value, is_binary: way.is_binary() };
        let insert = format!("INSERT INTO {table} VALUES ($1)");
        let done = match way {
            Way::Literal => self.client.batch_execute(&format!("INSERT INTO {table} VALUES ({})", quoted?)),
            Way::Cast => {
                self.client.batch_execute(&format!("INSERT INTO {table} SELECT {}::{}", quoted?, kind.name))
            }
            Way::TextCast => {
                let sql = format!(
                    "INSERT INTO {table} SELECT t::{} FROM (VALUES ({}::text)) AS x(t)",
                    kind.name, quoted?
                );
                self.client.batch_execute(&sql)
            }
            Way::TextParameter | Way::BinaryParameter => self.insert(&insert, kind, &sent),
            Way::CopyText => self.copy(&format!("COPY {table} FROM STDIN"), &[value, b"\n"].concat()),
            Way::CopyCsv => {
                self.copy(&format!("COPY {table} FROM STDIN (FORMAT csv)"), &[value, b"\n"].concat())
            }
            Way::CopyBinary => {
                let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01";
                let length = (value.len() as u32).to_be_bytes();
                let data = [&header[..], &length, value, b"\xff\xff"].concat();
                self.copy(&format!("COPY {table} FROM STDIN (FORMAT binary)"), &data)
            }
        };
        let outcome = match done {
            Ok(()) => self.rows(&table),
            Err(error) => Err(self.sqlstate(&error)),
        };
        let emptied = self.empty(&table);
        Some(outcome.and_then(|rows| emptied.map(|()| rows)))
    }

    /// Reads a table and empties it: the server must go on.
    fn empty(&mut self, table: &str) -> Result<(), String> {
        let emptied = self.client.batch_execute(&format!("SELECT * FROM {table}; DELETE FROM {table}"));
        emptied.map_err(|error| self.sqlstate(&error))
    }

    fn insert(&mut self, sql: &str, kind: &Kind, sent: &Sent<'_>) -> Result<(), postgres::Error> {
        let statement = self.client.prepare_typed(sql, &[kind.parameter()])?;
        self.client.execute(&statement, &[sent]).map(|_| ())
    }

    fn copy(&mut self, sql: &str, data: &[u8]) -> Result<(), postgres::Error> {
        let mut writer = self.client.copy_in(sql)?;
        // What is wrong is told at the end.
        let _ = writer.write_all(data);
        writer.finish().map(|_| ())
    }

    fn rows(&mut self, table: &str) -> Outcome {
        let sql = format!("SELECT v FROM {table}");
        let messages = self.client.simple_query(&sql).map_err(|error| self.sqlstate(&error))?;
        let texts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).map(Into::into)),
            _ => None,
        });
        // A COPY may make several rows, which come in no order.
        let mut texts: Vec<_> = texts.collect();
        texts.sort();
        let rows = self.client.query(&sql, &[]).map_err(|error| self.sqlstate(&error))?;
        let mut binaries: Vec<_> = rows.iter().map(|row| row.get::<_, Received>(0).0).collect();
        binaries.sort();
        Ok((texts, binaries))
    }

    fn sqlstate(&mut self, error: &postgres::Error) -> String {
        match error.code() {
            Some(code) => code.code().into(),
            None => {
                // The connection is lost; the next value gets another one.
                self.client = Client::connect(&self.address, NoTls).unwrap();
                format!("lost: {error}")
            }
        }
    }
}
