//! The bytes of one connection: decodes input into messages, and buffers output. Output is kept until no
//! input is left, so that a batch of messages is answered by one system call and one wait for the log.
//!
//! Invariant: output is sent only when all transactions that it shows are durable. Only `flush` sends, and it
//! waits for all points that `shows` has recorded. Held by: `crates/server/tests/suite/answers.rs`.

use crate::shape::{is_message, is_startup};
use crate::{Server, fatal, hold};
use bytes::{BufMut, Bytes, BytesMut};
use catalog::utf8_of;
use memory::Account;
use pgwire::messages::copy::CopyData;
use pgwire::messages::extendedquery::Parse;
use pgwire::messages::response::ErrorResponse;
use pgwire::messages::simplequery::Query;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use pgwire::tokio::server::MaybeTls;
use reprise::{CommitOrder, CommitPoint, SqlError};
use std::ffi::CStr;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

/// Least free bytes of the input buffer before a read.
const READ: usize = 16 << 10;
/// Bytes of the largest startup message.
const LARGEST_STARTUP: usize = 10_000;
/// The rows of a running statement are buffered up to this many bytes. Then they are sent, and the statement
/// cannot be repeated.
const HIGH: usize = 1 << 20;

/// The same limit while memory is short.
const LOW: usize = 64 << 10;
/// A longer message is accepted only if there is memory for it.
const LONG: usize = 1 << 20;
/// Time between two checks whether a client reads its rows.
const TICK: Duration = Duration::from_millis(20);
/// A client that reads nothing for this time is disconnected if statements wait for a session or the server
/// stops.
const STALLED: Duration = Duration::from_secs(1);
/// The longest time for sending the last message.
const LAST_ERROR_TIMEOUT: Duration = Duration::from_secs(5);
/// The memory of a longer answer returns to the system.
const LARGE: usize = 4 << 20;
/// The memory that a longer message took returns to the system.
const HEAVY: usize = 256 << 10;
/// A buffer of at most this many bytes is reused for the next answer.
const KEPT: usize = 64 << 10;

/// The output of a connection. Cheap to clone: a running statement has a clone.
#[derive(Clone)]
pub(crate) struct Output(Arc<Shared>);

/// A position in the output of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    /// Bytes that the socket had taken.
    taken: u64,
    /// Bytes that were buffered.
    length: usize,
}

/// A message in the output of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    begin: Mark,
    /// Offset of its end in the buffer.
    end: usize,
}

/// The state that the clones of an output share.
struct Shared {
    bytes: Mutex<BytesMut>,
    socket: tokio::sync::Mutex<WriteHalf<MaybeTls>>,
    /// The server of the connection; unset until the client is authenticated.
    server: OnceLock<Arc<Server>>,
    shown: Mutex<Acknowledgements>,
    /// Whether bytes are being sent. Stays true after an incomplete send: the client has a part of a message,
    /// so nothing more can be sent.
    is_sending: AtomicBool,
    /// Bytes that the socket has taken.
    taken: AtomicU64,
}

/// What the buffered output acknowledges: commit points, and statements.
#[derive(Default)]
struct Acknowledgements {
    /// The points that must be durable before the output is sent: at most one of all logs, and one of each
    /// worker whose log counts alone.
    commits: Vec<CommitPoint>,
    /// The tags and begins of the acknowledged statements.
    completed: Vec<(String, Instant)>,
}

/// Cuts input into messages. An incomplete message takes only the memory of the bytes that have arrived.
pub struct Decoder {
    input: BytesMut,
    context: DecodeContext,
    /// Bytes of the largest message that is accepted.
    largest: usize,
    /// The error of the last message, if it is refused: its text is not UTF-8, or there was no memory for it.
    refused: Option<SqlError>,
}

/// Returns the error of a message whose statement or names are not UTF-8. The decoder of messages would
/// replace invalid bytes.
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

/// The input and the output of a connection.
pub(crate) struct Link {
    socket: ReadHalf<MaybeTls>,
    decoder: Decoder,
    /// Whether the connection is encrypted.
    pub(crate) is_secure: bool,
    /// Whether the previous message was longer than `HEAVY`.
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
        Self(Arc::new(Shared { bytes, socket, server, shown, is_sending, taken: AtomicU64::new(0) }))
    }

    /// Sets the server whose answers are sent from now on.
    pub(crate) fn answers_of(&self, server: &Arc<Server>) {
        self.0.server.get_or_init(|| Arc::clone(server));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BytesMut> {
        hold(&self.0.bytes)
    }

    /// Records a point of the log that must be durable before more output is sent.
    pub(crate) fn shows(&self, commit: CommitPoint) {
        let mut shown = hold(&self.0.shown);
        let is_alike = |known: &&mut CommitPoint| {
            known.alone == commit.alone && (!commit.alone || known.worker == commit.worker)
        };
        match shown.commits.iter_mut().find(is_alike) {
            Some(known) => *known = known.and(commit),
            None => shown.commits.push(commit),
        }
    }

    /// As `shows`, for rows with commit numbers up to `number`.
    pub(crate) fn shows_rows(&self, number: CommitOrder) {
        if let Some(server) = self.0.server.get() {
            self.shows(server.pool().database().must_be_durable(number));
        }
    }

    /// Records the completion of a statement, whose time is measured when the output is sent.
    pub(crate) fn completes(&self, tag: &str, begun: Instant) {
        if self.0.server.get().is_some_and(|server| server.metrics.is_some()) {
            hold(&self.0.shown).completed.push((tag.to_owned(), begun));
        }
    }

    pub(crate) fn put(&self, message: PgWireBackendMessage) {
        message.encode(&mut self.lock()).expect("the server's messages can be encoded");
    }

    /// Returns the current end of the output.
    pub(crate) fn mark(&self) -> Mark {
        Mark { taken: self.0.taken.load(Ordering::Relaxed), length: self.lock().len() }
    }

    /// Discards the output behind a mark. Returns false, and discards nothing, if the socket has taken bytes
    /// since the mark was made.
    pub(crate) fn go_back(&self, mark: Mark) -> bool {
        let is_kept = self.is_kept_since(mark);
        if is_kept {
            self.lock().truncate(mark.length);
        }
        is_kept
    }

    fn is_kept_since(&self, mark: Mark) -> bool {
        let shared = &self.0;
        shared.taken.load(Ordering::Relaxed) == mark.taken && !shared.is_sending.load(Ordering::Relaxed)
    }

    /// As `put`. Returns the place of the message.
    pub(crate) fn place(&self, message: PgWireBackendMessage) -> Placed {
        let begin = self.mark();
        self.put(message);
        Placed { begin, end: self.lock().len() }
    }

    /// Puts a message in the place of another one. Returns false, and changes nothing, if the socket has
    /// taken bytes since that was placed.
    pub(crate) fn replace(&self, placed: Placed, message: PgWireBackendMessage) -> bool {
        let is_kept = self.is_kept_since(placed.begin);
        if is_kept {
            let behind = self.lock().split_off(placed.end);
            self.lock().truncate(placed.begin.length);
            self.put(message);
            self.lock().unsplit(behind);
        }
        is_kept
    }

    /// Begins a row message, whose values the caller appends. Returns its offset, for `end_row`.
    pub(crate) fn begin_row(bytes: &mut BytesMut, columns: usize) -> usize {
        let start = bytes.len();
        if start > LOW && bytes.capacity() < HIGH {
            // One large step: each smaller step would leave a freed buffer of its size to the allocator.
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

    /// Sends the output after all transactions that it shows are durable.
    ///
    /// # Errors
    /// The connection is broken, or the log has failed. In that case the client receives the log's error
    /// instead of the output.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        if self.0.is_sending.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.lock().is_empty() {
            return Ok(());
        }
        let failed = self.wait().await.err();
        if let Some(error) = &failed {
            // The client must not see transactions that are lost.
            self.lock().clear();
            let response = fatal(&SqlError::new(error.sqlstate(), error.to_string()));
            self.put(PgWireBackendMessage::ErrorResponse(ErrorResponse::from(response)));
        }
        self.send().await?;
        failed.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// Waits until all transactions that the output shows are durable. Clears the points only then, because
    /// the future may be dropped while it waits.
    async fn wait(&self) -> Result<(), reprise::Error> {
        let Some(server) = self.0.server.get() else { return Ok(()) };
        for index in 0.. {
            let Some(commit) = hold(&self.0.shown).commits.get(index).copied() else { break };
            server.pool().database().durable(commit).await?;
        }
        let mut shown = hold(&self.0.shown);
        shown.commits.clear();
        for (tag, begun) in shown.completed.drain(..) {
            server.metrics.as_ref().inspect(|metrics| metrics.completed(&tag, begun.elapsed()));
        }
        Ok(())
    }

    async fn send(&self) -> io::Result<()> {
        let bytes = {
            let mut buffered = self.lock();
            // A buffer that has grown is freed with its contents.
            if buffered.capacity() > KEPT { std::mem::take(&mut *buffered) } else { buffered.split() }
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

    /// Returns whether the output should be sent before more is added.
    pub(crate) fn is_full(&self) -> bool {
        let length = self.lock().len();
        length >= HIGH || length >= LOW && self.account().is_some_and(|account| account.is_tight())
    }

    /// Returns the account of the database's memory; `None` until the client is authenticated.
    pub(crate) fn account(&self) -> Option<&Account> {
        self.0.server.get().map(|server| server.pool().database().memory())
    }

    /// Returns whether a client that does not read its rows blocks statements that wait for a session, or the
    /// stop of the server.
    fn blocks_statements(&self) -> bool {
        self.0.server.get().is_some_and(|server| server.pool().is_short() || server.is_stopping())
    }

    /// Sends the output from a thread that runs a statement. Disconnects a client that reads nothing while
    /// other statements wait for a session: it has a part of a message, so no error can follow.
    ///
    /// # Errors
    /// As `flush`; `TimedOut`: the client read nothing for `STALLED`.
    pub(crate) fn relieve(&self) -> io::Result<()> {
        let flush = async {
            let mut flush = pin!(self.flush());
            let (mut taken, mut since, mut is_waiting) = (0, Instant::now(), false);
            loop {
                if let Ok(flushed) = tokio::time::timeout(TICK, &mut flush).await {
                    return flushed;
                }
                if !std::mem::replace(&mut is_waiting, true) {
                    // The wait may be long, so this thread returns its free memory to the system.
                    memory::give_back();
                }
                let now = self.0.taken.load(Ordering::Relaxed);
                // A wait for the disk does not count against the client.
                if now != taken || !self.0.is_sending.load(Ordering::Relaxed) {
                    (taken, since) = (now, Instant::now());
                } else if since.elapsed() >= STALLED && self.blocks_statements() {
                    let cause = "it does not read its rows while other statements wait for a session";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, cause));
                }
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(flush))
    }

    /// Sends the error that ends the connection. Gives up after `LAST_ERROR_TIMEOUT`.
    pub(crate) async fn send_last_error(&self, error: &SqlError) {
        self.put(PgWireBackendMessage::ErrorResponse(ErrorResponse::from(fatal(error))));
        // The connection ends in any case.
        let _ = tokio::time::timeout(LAST_ERROR_TIMEOUT, self.flush()).await;
    }

    fn is_stopping(&self) -> bool {
        self.0.server.get().is_some_and(|server| server.is_stopping())
    }
}

/// The event that has ended the wait of a connection.
pub(crate) enum LinkEvent {
    /// A message; `None`: the client has disconnected, or the server stops.
    Message(Option<PgWireFrontendMessage>),
    /// The other future has ended.
    Other,
}

impl Link {
    pub(crate) fn new(socket: MaybeTls, input: BytesMut) -> Self {
        let is_secure = matches!(socket, MaybeTls::Tls(_));
        let (socket, writer) = tokio::io::split(socket);
        let (decoder, output) = (Decoder::of(input), Output::new(writer));
        Self { socket, decoder, is_secure, was_long: false, output }
    }

    /// Returns whether bytes of an incomplete message have arrived.
    pub(crate) fn has_input(&self) -> bool {
        !self.decoder.input.is_empty()
    }

    /// Takes the error of the last message; `None` if it is not refused.
    pub(crate) fn take_refusal(&mut self) -> Option<SqlError> {
        self.decoder.refused.take()
    }

    /// Expects messages with a tag from now on, of at most `largest` bytes, because the startup message has
    /// arrived.
    pub(crate) fn started(&mut self, largest: usize) {
        self.decoder.started(largest);
    }

    /// Skips a long message if there is no memory for it. Returns an empty message of the same kind in its
    /// place, and keeps the error for `take_refusal`.
    async fn skip_long(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        let length = self.decoder.input.len();
        // A message needs twice its bytes: in the buffer, and decoded.
        if length < LONG || self.output.account().is_none_or(|account| account.has_room(2 * length)) {
            return Ok(None);
        }
        let (tag, mut awaited) = (self.decoder.input[0], self.decoder.awaited());
        self.decoder.input = BytesMut::new();
        memory::give_back();
        while awaited > 0 {
            let mut skipped = BytesMut::with_capacity(READ).limit(awaited);
            match self.socket.read_buf(&mut skipped).await? {
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

    /// Reads the next message. `None`: the client has disconnected, or the server stops.
    ///
    /// # Errors
    /// As `next_or`.
    pub(crate) async fn next(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        match self.next_or(std::future::pending()).await? {
            LinkEvent::Message(message) => Ok(message),
            LinkEvent::Other => unreachable!("the other future never ends"),
        }
    }

    /// Reads the next message, or waits for another future. Sends the output before it waits.
    ///
    /// # Errors
    /// The connection is broken, the message is malformed or too long, or the log has failed.
    pub(crate) async fn next_or(&mut self, other: impl Future<Output = ()>) -> io::Result<LinkEvent> {
        if std::mem::take(&mut self.was_long) {
            // The previous message was executed, so its memory is free.
            memory::give_back();
        }
        let mut other = pin!(other);
        loop {
            if self.output.is_stopping() {
                return Ok(LinkEvent::Message(None));
            }
            let length = self.decoder.input.len();
            if let Some(message) = self.decoder.next_message()? {
                self.was_long = length > HEAVY;
                return Ok(LinkEvent::Message(Some(message)));
            }
            self.output.flush().await?;
            if let Some(refused) = self.skip_long().await? {
                return Ok(LinkEvent::Message(Some(refused)));
            }
            self.decoder.input.reserve(READ);
            // Both futures may be dropped: `read_buf` takes bytes only when it ends.
            let read = tokio::select! {
                biased;
                read = self.socket.read_buf(&mut self.decoder.input) => read,
                () = &mut other => return Ok(LinkEvent::Other),
            };
            // A stopping server shuts the input down (`shut_down_input`), which TLS reports as an error.
            if self.output.is_stopping() || read? == 0 {
                return Ok(LinkEvent::Message(None));
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
    /// Returns a decoder of input that begins with the startup message.
    pub fn new(input: &[u8]) -> Self {
        Self::of(input.into())
    }

    fn of(input: BytesMut) -> Self {
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        Self { input, context, largest: LARGEST_STARTUP, refused: None }
    }

    /// Expects messages with a tag from now on, of at most `largest` bytes, because the startup message has
    /// arrived.
    pub fn started(&mut self, largest: usize) {
        self.context.awaiting_frontend_startup = false;
        self.largest = largest;
    }

    /// Returns how many bytes of the next message have not arrived yet; 0 while its length is unknown.
    fn awaited(&self) -> usize {
        let Some(length) = self.input.get(1..5) else { return 0 };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        (1 + length).saturating_sub(self.input.len())
    }

    /// Takes the next message; `None` while it is incomplete.
    ///
    /// # Errors
    /// `InvalidData`: the message is malformed or too long.
    pub fn next_message(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        let tag = usize::from(!self.context.awaiting_frontend_startup);
        let Some(length) = self.input.get(tag..tag + 4) else { return Ok(None) };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if length < 4 || length > self.largest {
            return Err(malformed(format!(
                "a message has {length} bytes, but at least 4 and at most {} are allowed",
                self.largest
            )));
        }
        if self.input.len() < tag + length {
            return Ok(None);
        }
        // Split off, so that the decoder cannot take later bytes for a part of this message.
        let mut bytes = self.input.split_to(tag + length);
        let has_shape = match self.context.awaiting_frontend_startup {
            true => is_startup(&bytes[4..]),
            false => {
                self.refused = wrong_text_in(bytes[0], &bytes[5..]);
                is_message(bytes[0], &bytes[5..])
            }
        };
        if !has_shape {
            return Err(malformed("invalid message format"));
        }
        let message = PgWireFrontendMessage::decode(&mut bytes, &self.context).map_err(malformed)?;
        message.map(Some).ok_or_else(|| malformed("invalid message format"))
    }
}
