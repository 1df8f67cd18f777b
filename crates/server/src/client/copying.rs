//! The messages of COPY: rows from the client are inserted, rows of a query are sent.
//!
//! Not here: the formats of COPY (`copy`).

use super::rows::RowsTo;
use super::statement::check_refused;
use super::{Client, NamedStatement, Outcome, Protocol};
use crate::copy::{CopyIn, CopyOut};
use crate::error_response;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use reprise::{Access, Attempt, Error, Nowhere, Parameters, Session, SqlError};
use sql::{Copy, CopyFormat};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// For a longer row, the free memory is checked.
const LONG: usize = 1 << 20;

impl Client {
    pub(super) fn begin_copy(&mut self, copy: &Copy, protocol: Protocol) -> Result<Outcome, Error> {
        let prepared = self.plan(&copy.text, |session| session.prepare_typed(&copy.text, &[]))?;
        let Some(prepared) = prepared else { return Ok(Outcome::Empty) };
        check_refused(&prepared.plan())?;
        let columns = prepared.parameters().len();
        self.begin_implicit()?;
        if self.session.as_ref().is_some_and(|session| session.access() == Access::ReadOnly) {
            return Err(SqlError::new("25006", "cannot execute COPY FROM in a read-only transaction").into());
        }
        if copy.options.freezes && !self.session.as_ref().is_some_and(|session| session.changes_definitions())
        {
            let message = "cannot perform COPY FREEZE because the table was not created or truncated in the \
                           current subtransaction";
            return Err(SqlError::new("55000", message).into());
        }
        let format = i16::from(copy.options.format == CopyFormat::Binary);
        let response = CopyInResponse::new(format as i8, columns as i16, vec![format; columns]);
        self.output.put(Message::CopyInResponse(response));
        self.copying = Some((CopyIn::new(copy, prepared), protocol));
        Ok(Outcome::Copying)
    }

    /// Takes data from the client; an error ends the copy. Returns whether messages are skipped until SYNC.
    pub(crate) async fn copy_data(&mut self, data: &[u8]) -> bool {
        let Some((mut copy, protocol)) = self.copying.take() else { return false };
        copy.push(data);
        // A row needs twice its bytes: in the buffer, and as values.
        let length = 2 * copy.buffered();
        let ran = match length < LONG || self.server.pool().database().memory().has_room(length) {
            true => self.insert_rows(&mut copy, false).await,
            false => Err(SqlError::new("53200", "out of memory").with_detail("A row is too long.").into()),
        };
        match ran {
            Ok(()) => {
                self.copying = Some((copy, protocol));
                false
            }
            Err(error) => self.fail_copy(&error, &copy, protocol),
        }
    }

    /// Sends the error that ended a copy. Returns whether messages are skipped until SYNC.
    fn fail_copy(&mut self, error: &Error, copy: &CopyIn, protocol: Protocol) -> bool {
        let mut response = error_response(error, "");
        response.fields.extend(copy.context(error).map(|context| (b'W', context)));
        self.fail_with(response, error);
        if protocol == Protocol::Simple {
            self.ready();
        }
        protocol == Protocol::Extended
    }

    /// Inserts the complete rows of the input. `is_end`: no more input follows.
    async fn insert_rows(&mut self, copy: &mut CopyIn, is_end: bool) -> Result<(), Error> {
        let _running = self.run_attended();
        // Whether the row that was read last waits for another transaction.
        let mut waits = false;
        loop {
            self.check_interrupts()?;
            let mut insert = |session: &mut Session| {
                let mut notifications = Vec::new();
                loop {
                    if !std::mem::take(&mut waits) && !copy.next_row(is_end)? {
                        return Ok((None, notifications));
                    }
                    let attempt = session.attempt(&copy.insert, &copy.values, Box::new(Nowhere));
                    match attempt? {
                        Attempt::Done(_) => {
                            copy.inserted += 1;
                            notifications.append(&mut session.take_notifications(false));
                        }
                        Attempt::Busy(busy) => {
                            waits = true;
                            return Ok((Some(busy), notifications));
                        }
                    }
                }
            };
            let (busy, notifications) = tokio::task::block_in_place(|| self.with_session(&mut insert))?;
            self.notify_all(notifications, self.answered)?;
            match busy {
                Some(busy) => {
                    let limit = self.settings.limits().lock_timeout.map(|limit| Instant::now() + limit);
                    self.wait_until(limit, Some(&busy)).await?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Ends a complete copy. Returns whether messages are skipped until SYNC.
    pub(crate) async fn copy_done(&mut self) -> bool {
        let Some((mut copy, protocol)) = self.copying.take() else { return false };
        let done = match self.insert_rows(&mut copy, true).await {
            Ok(()) if protocol == Protocol::Simple => self.commit_implicit(),
            // In an extended query, SYNC commits.
            done => done,
        };
        match done {
            Ok(()) => {
                self.completed(format!("COPY {}", copy.inserted));
                if protocol == Protocol::Simple {
                    self.ready();
                }
                false
            }
            Err(error) => self.fail_copy(&error, &copy, protocol),
        }
    }

    /// Ends a copy because a message of it is refused. Returns whether messages are skipped until SYNC.
    pub(crate) fn copy_refused(&mut self, error: SqlError) -> bool {
        let Some((copy, protocol)) = self.copying.take() else { return false };
        self.fail_copy(&error.into(), &copy, protocol)
    }

    /// Ends a copy that the client gives up. Returns whether messages are skipped until SYNC.
    pub(crate) fn copy_failed(&mut self, reason: &str) -> bool {
        let Some((copy, protocol)) = self.copying.take() else { return false };
        let error = SqlError::new("57014", format!("COPY from stdin failed: {reason}"));
        self.fail_copy(&error.into(), &copy, protocol)
    }

    pub(super) async fn copy_out(&mut self, copy: &Copy) -> Result<Outcome, Error> {
        let prepared = self.plan(&copy.text, |session| session.prepare_typed(&copy.text, &[]))?;
        let Some(prepared) = prepared else { return Ok(Outcome::Empty) };
        let columns = prepared.columns();
        match prepared.tag() {
            "INSERT 0" | "UPDATE" | "DELETE" if columns.is_empty() => {
                let message = "COPY query must have a RETURNING clause";
                return Err(SqlError::new("0A000", message).into());
            }
            "MERGE" => return Err(SqlError::new("0A000", "MERGE not supported in COPY").into()),
            _ => {}
        }
        check_refused(&prepared.plan())?;
        let format = i16::from(copy.options.format == CopyFormat::Binary);
        let response = CopyOutResponse::new(format as i8, columns.len() as i16, vec![format; columns.len()]);
        self.output.put(Message::CopyOutResponse(response));
        let out = CopyOut::new(copy, columns)?;
        out.begin(columns, &mut self.output.lock());
        let rows = self.rows(&prepared, &[], RowsTo::Copy(out.clone()));
        let count = Arc::clone(&rows.count);
        let mut statement = NamedStatement::new(Some(prepared));
        let ran = self.run_in_session(&mut statement, &Parameters::default(), rows).await?;
        out.end(&mut self.output.lock());
        self.output.put(Message::CopyDone(CopyDone::new()));
        let Outcome::Complete(_) = ran else { return Ok(ran) };
        Ok(Outcome::Complete(format!("COPY {}", count.load(Ordering::Relaxed))))
    }
}
