//! The statements that take and release advisory locks, and the one that sleeps.

use super::statement::{canceled, until};
use super::{Client, Outcome};
use crate::advisory::{Key, Mode};
use crate::link::Output;
use crate::presence::WaitCause;
use crate::wire::{Format, put_value};
use reprise::{Arena, Datum, Error, Parameters, ScalarType, TransactionState};
use sql::{AdvisoryAction, AdvisoryCall, Arguments};
use std::time::{Duration, Instant};

/// The longest time that `pg_sleep` waits.
const LONGEST_SLEEP: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Client {
    /// Executes a call of a function for advisory locks. Its value is NULL if its key is.
    pub(super) async fn advisory(
        &mut self,
        call: &AdvisoryCall,
        parameters: &Parameters,
        formats: &[Format],
    ) -> Result<Outcome, Error> {
        let values = self.with_session(|session| session.evaluate_alone(&call.key, parameters))?;
        let mode = Mode { is_shared: call.is_shared, of_transaction: call.of_transaction };
        let key = match values[..] {
            [Datum::Int(one)] => Some(Key::One(one)),
            [Datum::Int(one), Datum::Int(two)] => Some(Key::Two(one as i32, two as i32)),
            _ => None,
        };
        let value = match (call.action, key) {
            (AdvisoryAction::UnlockAll, _) => {
                self.advisory.release_all();
                None
            }
            (_, None) => {
                self.put_value(Datum::Null, ScalarType::Boolean, formats);
                return Ok(Outcome::Complete("SELECT 1".into()));
            }
            (AdvisoryAction::Lock, Some(key)) => {
                self.take_advisory(key, mode).await?;
                None
            }
            (AdvisoryAction::TryLock, Some(key)) => Some(self.advisory.try_take(key, mode)),
            (AdvisoryAction::Unlock, Some(key)) => {
                let is_released = self.advisory.release(key, mode.is_shared);
                if !is_released {
                    self.warn("01000", "you don't own a lock of this kind");
                }
                Some(is_released)
            }
        };
        match value {
            Some(value) => self.put_value(Datum::boolean(value), ScalarType::Boolean, formats),
            // PostgreSQL's `void` is an empty text.
            None => self.put_texts(&[String::new()]),
        }
        if mode.of_transaction && self.transaction_state() == TransactionState::None {
            self.advisory.transaction_ended();
        }
        Ok(Outcome::Complete("SELECT 1".into()))
    }

    /// Waits for a lock and takes it.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed. `55P03`: `lock_timeout` has passed.
    /// `40P01`: connections would wait for each other.
    async fn take_advisory(&mut self, key: Key, mode: Mode) -> Result<(), Error> {
        let limit = self.settings.limits().lock_timeout.map(|limit| Instant::now() + limit);
        let _running = self.run_attended();
        let all = self.server.advisory();
        loop {
            // Created before the attempt, so that it sees each release after the attempt.
            let released = all.released();
            if self.advisory.try_take(key, mode) {
                return Ok(());
            }
            self.advisory.wait_for(key, mode)?;
            self.registered.attended.presence.set_wait(Some(WaitCause::Advisory));
            let refused = tokio::select! {
                () = released => None,
                () = self.registered.attended.cancel.raised() => Some(("57014", "user request")),
                () = until(self.deadline) => Some(("57014", "statement timeout")),
                () = until(limit) => Some(("55P03", "lock timeout")),
            };
            self.registered.attended.presence.set_wait(None);
            self.advisory.stop_waiting();
            if let Some((sqlstate, reason)) = refused {
                return Err(canceled(sqlstate, reason));
            }
        }
    }

    /// Executes `SELECT pg_sleep(seconds)`. Nothing waits if the seconds are NULL or negative.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed.
    pub(super) async fn sleep(
        &mut self,
        seconds: &Arguments,
        parameters: &Parameters,
    ) -> Result<Outcome, Error> {
        let values = self.with_session(|session| session.evaluate_alone(seconds, parameters))?;
        let seconds = match values[..] {
            [Datum::Double(seconds)] => seconds.clamp(0.0, LONGEST_SLEEP.as_secs_f64()),
            _ => 0.0,
        };
        let end = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let _running = self.run_attended();
        self.registered.attended.presence.set_wait(Some(WaitCause::Sleep));
        let reason = tokio::select! {
            () = until(Some(end)) => None,
            () = self.registered.attended.cancel.raised() => Some("user request"),
            () = until(self.deadline) => Some("statement timeout"),
        };
        self.registered.attended.presence.set_wait(None);
        match reason {
            Some(reason) => Err(canceled("57014", reason)),
            None => {
                self.put_texts(&[String::new()]);
                Ok(Outcome::Complete("SELECT 1".into()))
            }
        }
    }

    /// Sends a row of one value.
    fn put_value(&self, value: Datum, ty: ScalarType, formats: &[Format]) {
        let format = formats.first().copied().unwrap_or(Format::Text);
        let mut bytes = self.output.lock();
        let start = Output::begin_row(&mut bytes, 1);
        put_value(value, ty.into(), &Arena::default(), format, &mut bytes);
        Output::end_row(&mut bytes, start);
    }
}
