//! The bytes of one connection: messages in, messages out. What goes out is kept until there is nothing left
//! to read, so that a batch of messages is answered by one system call, and waits once for the log.
//!
//! Invariant: nothing goes out before everything is durable that it shows: `flush` is the only way out, and
//! waits for all that `shows` was told of. Held by: `crates/server/tests/suite/answers.rs`.

use crate::shape::{is_message, is_startup};
use crate::{Server, fatal, hold};
use bytes::{BufMut, Bytes, BytesMut};
use memory::Account;
use pgwire::messages::copy::CopyData;
use pgwire::messages::extendedquery::Parse;
use pgwire::messages::response::ErrorResponse;
use pgwire::messages::simplequery::Query;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use pgwire::tokio::server::MaybeTls;
use reprise::rooms::catalog::utf8_of;
use reprise::rooms::procedure::SqlError;
use reprise::{CommitOrder, CommitPoint};
use std::ffi::CStr;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

/// Bytes that are read at a time, at least.
const READ: usize = 16 << 10;
/// Bytes of the largest startup message.
const LARGEST_STARTUP: usize = 10_000;
/// Rows of a statement that runs are kept up to this many bytes; then they are on their way, and it can't be
/// tried again.
const HIGH: usize = 1 << 20;

/// The same where memory is short.
const LOW: usize = 64 << 10;
/// A client whose messages are longer needs room for them.
const LONG: usize = 1 << 20;
/// How often it is looked whether a client takes what is sent to it.
const TICK: Duration = Duration::from_millis(20);
/// A client that takes nothing for this long is in the way of others that wait for its session, and of the
/// server's end.
const STALLED: Duration = Duration::from_secs(1);
/// How long the last message to a client may take.
const FAREWELL: Duration = Duration::from_secs(5);
/// The pages of an answer that was longer go back to the system.
const LARGE: usize = 4 << 20;
/// What was allocated for a message that was longer goes back to the system.
const HEAVY: usize = 256 << 10;
/// A buffer of at most this many bytes is kept for the next answer.
const KEPT: usize = 64 << 10;

/// The way out. Cheap to clone: a statement that runs has one, too.
#[derive(Clone)]
pub(crate) struct Output(Arc<WayOut>);

struct WayOut {
    bytes: Mutex<BytesMut>,
    socket: tokio::sync::Mutex<WriteHalf<MaybeTls>>,
    /// The server whose answers go out; none while the client is greeted.
    server: OnceLock<Arc<Server>>,
    shown: Mutex<Shown>,
    /// Whether bytes are on their way. Where sending them was given up, the client has got a part of a
    /// message, and gets no more.
    is_sending: AtomicBool,
    /// Bytes that the client has taken.
    taken: AtomicU64,
}

/// What the bytes show that are about to go out.
#[derive(Default)]
struct Shown {
    /// What must be durable first: at most one for all logs, and one for each worker whose log counts alone.
    commits: Vec<CommitPoint>,
    /// Completions of statements, which are acknowledged with these bytes.
    completed: Vec<(String, Instant)>,
}

/// Cuts what a client sends into messages. Nothing is kept for a message but what was sent of it.
pub struct Decoder {
    input: BytesMut,
    context: DecodeContext,
    /// The largest message that is read.
    largest: usize,
    /// Why the last message is refused: its text is not UTF-8, or there was no room for it.
    refused: Option<SqlError>,
}

/// Looks whether the statement and the names of a message are UTF-8. The decoder of messages replaces what is
/// not.
fn wrong_text_in(tag: u8, body: &[u8]) -> Option<SqlError> {
    let strings = match tag {
        b'Q' => 1,
        b'P' => 2,
        _ => 0,
    };
    let mut left = body;
    (0..strings).find_map(|_| {
        let text = CStr::from_bytes_until_nul(left).ok()?.to_bytes();
        left = &left[text.len() + 1..];
        utf8_of(text).err().map(SqlError::from)
    })
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("largest", &self.largest).finish_non_exhaustive()
    }
}

/// Both ways.
pub(crate) struct Link {
    socket: ReadHalf<MaybeTls>,
    decoder: Decoder,
    /// Whether the message before was long.
    was_long: bool,
    pub(crate) output: Output,
}

fn malformed(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

impl Output {
    fn new(socket: WriteHalf<MaybeTls>) -> Self {
        let (bytes, shown, server) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let (socket, is_sending) = (tokio::sync::Mutex::new(socket), AtomicBool::new(false));
        Self(Arc::new(WayOut { bytes, socket, server, shown, is_sending, taken: AtomicU64::new(0) }))
    }

    /// Says whose answers go out from now on.
    pub(crate) fn answers_of(&self, server: &Arc<Server>) {
        self.0.server.get_or_init(|| Arc::clone(server));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BytesMut> {
        hold(&self.0.bytes)
    }

    /// Takes note of what must be durable before anything more goes out.
    pub(crate) fn shows(&self, commit: CommitPoint) {
        let mut shown = hold(&self.0.shown);
        let is_alike = |own: &&mut CommitPoint| {
            own.alone == commit.alone && (!commit.alone || own.worker == commit.worker)
        };
        match shown.commits.iter_mut().find(is_alike) {
            Some(own) => *own = own.and(commit),
            None => shown.commits.push(commit),
        }
    }

    /// As `shows`, of rows with numbers up to this.
    pub(crate) fn shows_rows(&self, number: CommitOrder) {
        if let Some(server) = self.0.server.get() {
            self.shows(server.pool().database().must_be_durable(number));
        }
    }

    /// Takes note of a completion, to be measured when it goes out.
    pub(crate) fn completes(&self, tag: &str, begun: Instant) {
        if self.0.server.get().is_some_and(|own| own.metrics.is_some()) {
            hold(&self.0.shown).completed.push((tag.to_owned(), begun));
        }
    }

    pub(crate) fn put(&self, message: PgWireBackendMessage) {
        message.encode(&mut self.lock()).expect("the server's own messages can be written");
    }

    /// Begins a row: its values are appended, and `end_row` is told where it began.
    pub(crate) fn begin_row(bytes: &mut BytesMut, columns: usize) -> usize {
        let start = bytes.len();
        if start > LOW && bytes.capacity() < HIGH {
            // All at once, as each step of growing would leave what it had.
            bytes.reserve(HIGH);
        }
        bytes.put_u8(b'D');
        bytes.put_i32(0);
        bytes.put_i16(columns as i16);
        start
    }

    pub(crate) fn end_row(bytes: &mut BytesMut, start: usize) {
        let length = (bytes.len() - start - 1) as i32;
        bytes[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    }

    /// Sends everything, once what it shows is durable.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        if self.0.is_sending.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.lock().is_empty() {
            return Ok(());
        }
        let failed = self.wait().await.err();
        if let Some(error) = &failed {
            // No client may see what is lost.
            self.lock().clear();
            let told = fatal(&SqlError::new(error.sqlstate(), error.to_string()));
            self.put(PgWireBackendMessage::ErrorResponse(ErrorResponse::from(told)));
        }
        self.send().await?;
        failed.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// Returns once everything is durable that the bytes show. What they show is forgotten only then, as this
    /// may be dropped while it waits.
    async fn wait(&self) -> Result<(), reprise::Error> {
        let Some(server) = self.0.server.get() else { return Ok(()) };
        for place in 0.. {
            let Some(commit) = hold(&self.0.shown).commits.get(place).copied() else { break };
            server.pool().database().durable(commit).await?;
        }
        let mut shown = hold(&self.0.shown);
        shown.commits.clear();
        for (tag, begun) in shown.completed.drain(..) {
            server.metrics.as_ref().inspect(|own| own.completed(&tag, begun.elapsed()));
        }
        Ok(())
    }

    async fn send(&self) -> io::Result<()> {
        let bytes = {
            let mut own = self.lock();
            // A buffer that has grown goes with what it holds.
            if own.capacity() > KEPT { std::mem::take(&mut *own) } else { own.split() }
        };
        let mut socket = self.0.socket.lock().await;
        self.0.is_sending.store(true, Ordering::Relaxed);
        let mut left = &bytes[..];
        while !left.is_empty() {
            let taken = socket.write(left).await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.0.taken.fetch_add(taken as u64, Ordering::Relaxed);
            left = &left[taken..];
        }
        socket.flush().await?;
        self.0.is_sending.store(false, Ordering::Relaxed);
        if bytes.len() > LARGE {
            drop(bytes);
            memory::give_back();
        }
        Ok(())
    }

    /// Whether there is so much to send that nothing should be added.
    pub(crate) fn is_full(&self) -> bool {
        let length = self.lock().len();
        length >= HIGH || length >= LOW && self.account().is_some_and(|own| own.is_tight())
    }

    /// What memory is taken from; none while the client is greeted.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.0.server.get().map(|server| server.pool().database().memory())
    }

    /// Whether others wait for the session in which the statement of a client runs that does not read.
    fn is_in_the_way(&self) -> bool {
        self.0.server.get().is_some_and(|server| server.pool().is_short() || server.is_stopping())
    }

    /// Sends everything, from a thread that runs a statement. A client that takes nothing while others wait
    /// is given up: it has a part of a message, and no way to tell where another one begins.
    pub(crate) fn relieve(&self) -> io::Result<()> {
        let flush = async {
            let mut flush = pin!(self.flush());
            let (mut taken, mut since, mut is_waiting) = (0, Instant::now(), false);
            loop {
                if let Ok(flushed) = tokio::time::timeout(TICK, &mut flush).await {
                    return flushed;
                }
                if !std::mem::replace(&mut is_waiting, true) {
                    // This thread waits for the client, perhaps for long: it keeps nothing but the statement.
                    memory::give_back();
                }
                let now = self.0.taken.load(Ordering::Relaxed);
                // To wait for the disk is no fault of the client.
                if now != taken || !self.0.is_sending.load(Ordering::Relaxed) {
                    (taken, since) = (now, Instant::now());
                } else if since.elapsed() >= STALLED && self.is_in_the_way() {
                    let why = "it does not read its rows while others wait for a session";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(flush))
    }

    /// Tells the client why its connection ends, if it listens.
    pub(crate) async fn farewell(&self, error: &SqlError) {
        self.put(PgWireBackendMessage::ErrorResponse(ErrorResponse::from(fatal(error))));
        // The connection ends in any case.
        let _ = tokio::time::timeout(FAREWELL, self.flush()).await;
    }

    fn is_stopping(&self) -> bool {
        self.0.server.get().is_some_and(|server| server.is_stopping())
    }
}

impl Link {
    pub(crate) fn new(socket: MaybeTls, input: BytesMut) -> Self {
        let (reader, writer) = tokio::io::split(socket);
        Self { socket: reader, decoder: Decoder::of(input), was_long: false, output: Output::new(writer) }
    }

    /// Why the last message is refused, if it is.
    pub(crate) fn take_refusal(&mut self) -> Option<SqlError> {
        self.decoder.refused.take()
    }

    /// The startup message has come: others follow, of at most this many bytes.
    pub(crate) fn started(&mut self, largest: usize) {
        self.decoder.started(largest);
    }

    /// Passes over a message that is coming and has no room. A message of its kind takes its place, and says
    /// why it is refused.
    async fn pass_over_long(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        let length = self.decoder.input.len();
        // It is read into the buffer, and then taken to pieces beside it.
        if length < LONG || self.output.account().is_none_or(|own| own.has_room(2 * length)) {
            return Ok(None);
        }
        let (tag, mut awaited) = (self.decoder.input[0], self.decoder.awaited());
        self.decoder.input = BytesMut::new();
        memory::give_back();
        while awaited > 0 {
            let mut passed_over = BytesMut::with_capacity(READ).limit(awaited);
            match self.socket.read_buf(&mut passed_over).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => awaited -= read,
            }
        }
        let error = SqlError::new("53200", "out of memory").with_detail("A message is too long.");
        self.decoder.refused = Some(error);
        Ok(Some(match tag {
            b'Q' => PgWireFrontendMessage::Query(Query::new(String::new())),
            b'd' => PgWireFrontendMessage::CopyData(CopyData::new(Bytes::new())),
            _ => PgWireFrontendMessage::Parse(Parse::new(None, String::new(), Vec::new())),
        }))
    }

    /// The next message; `None` when the client has gone, or the server stops. What was to be sent is sent
    /// before this waits.
    pub(crate) async fn next(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        if std::mem::take(&mut self.was_long) {
            // It has run, and no connection owns it any longer.
            memory::give_back();
        }
        loop {
            if self.output.is_stopping() {
                return Ok(None);
            }
            let length = self.decoder.input.len();
            if let Some(message) = self.decoder.next_message()? {
                self.was_long = length > HEAVY;
                return Ok(Some(message));
            }
            self.output.flush().await?;
            if let Some(refused) = self.pass_over_long().await? {
                return Ok(Some(refused));
            }
            self.decoder.input.reserve(READ);
            let read = self.socket.read_buf(&mut self.decoder.input).await;
            // A server that stops ends what is read (`Attended::hang_up`), which TLS takes for a fault.
            if self.output.is_stopping() || read? == 0 {
                return Ok(None);
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.decoder.input.capacity() > LARGE {
            self.decoder.input = BytesMut::new();
            memory::give_back();
        }
    }
}

impl Decoder {
    /// A decoder of what was sent, from the startup message on.
    pub fn new(input: &[u8]) -> Self {
        Self::of(input.into())
    }

    fn of(input: BytesMut) -> Self {
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        Self { input, context, largest: LARGEST_STARTUP, refused: None }
    }

    /// The startup message has come: others follow, of at most this many bytes.
    pub fn started(&mut self, largest: usize) {
        self.context.awaiting_frontend_startup = false;
        self.largest = largest;
    }

    /// Bytes of the next message that have not come yet, where its length is known.
    fn awaited(&self) -> usize {
        let Some(length) = self.input.get(1..5) else { return 0 };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        (1 + length).saturating_sub(self.input.len())
    }

    /// The next message, once it is there, whole.
    ///
    /// # Errors
    /// It is no message, or longer than is allowed.
    pub fn next_message(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        let tag = usize::from(!self.context.awaiting_frontend_startup);
        let Some(length) = self.input.get(tag..tag + 4) else { return Ok(None) };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if length < 4 || length > self.largest {
            return Err(malformed(format!("a message of {length} bytes; at most {} are read", self.largest)));
        }
        if self.input.len() < tag + length {
            return Ok(None);
        }
        // Of one message alone, so that nothing behind it can be taken for a part of it.
        let mut own = self.input.split_to(tag + length);
        let has_shape = match self.context.awaiting_frontend_startup {
            true => is_startup(&own[4..]),
            false => {
                self.refused = wrong_text_in(own[0], &own[5..]);
                is_message(own[0], &own[5..])
            }
        };
        if !has_shape {
            return Err(malformed("invalid message format"));
        }
        let message = PgWireFrontendMessage::decode(&mut own, &self.context).map_err(malformed)?;
        message.map(Some).ok_or_else(|| malformed("invalid message format"))
    }
}
