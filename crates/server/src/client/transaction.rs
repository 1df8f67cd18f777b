//! The commands of transactions: begin, end, savepoints and modes.

use super::{Client, OpenTransaction, Protocol, Savepoint};
use reprise::{Access, Error, Session, SqlError, TransactionState};
use sql::TransactionModes;

fn access(read_only: bool) -> Access {
    if read_only { Access::ReadOnly } else { Access::ReadWrite }
}

impl Client {
    /// BEGIN.
    pub(super) fn begin(&mut self, modes: TransactionModes) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::Open && !self.is_implicit {
            self.warn("25001", "there is already a transaction in progress");
        }
        self.begin_implicit()?;
        self.set_modes(modes)?;
        self.is_implicit = false;
        Ok(())
    }

    /// COMMIT and ROLLBACK. With AND CHAIN, another transaction with the same modes begins. Returns the
    /// command tag.
    pub(super) fn end(&mut self, commits: bool, chains: bool) -> Result<&'static str, Error> {
        let state = self.transaction_state();
        let is_in_block = state != TransactionState::None && !self.is_implicit;
        if !is_in_block {
            if chains {
                let verb = if commits { "COMMIT" } else { "ROLLBACK" };
                let message = format!("{verb} AND CHAIN can only be used in transaction blocks");
                return Err(SqlError::new("25P01", message).into());
            }
            self.warn("25P01", "there is no transaction in progress");
        }
        let access = self.session.as_deref().map(Session::access);
        let mut tag = if commits && state != TransactionState::Failed { "COMMIT" } else { "ROLLBACK" };
        if commits && state == TransactionState::Open {
            let committed = self.commit();
            self.transaction_ended(committed.is_ok());
            committed?;
        } else {
            self.roll_back();
            if commits && state == TransactionState::None {
                tag = "COMMIT";
            }
        }
        if chains {
            self.begin_implicit()?;
            self.is_implicit = false;
            if let (Some(session), Some(access)) = (&mut self.session, access) {
                session.change_access(access)?;
            }
        }
        Ok(tag)
    }

    /// Checks that a command is in a transaction that BEGIN has begun.
    ///
    /// # Errors
    /// `25P01`: it is not.
    pub(super) fn require_block(&self, command: &str) -> Result<(), SqlError> {
        if self.transaction_state() != TransactionState::None && !self.is_implicit {
            return Ok(());
        }
        Err(SqlError::new("25P01", format!("{command} can only be used in transaction blocks")))
    }

    /// As `require_block`, for a command that may also be one of several statements in a query.
    pub(super) fn require_transaction(&self, command: &str, protocol: Protocol) -> Result<(), SqlError> {
        match protocol {
            Protocol::Simple if self.transaction_state() != TransactionState::None => Ok(()),
            _ => self.require_block(command),
        }
    }

    /// SET TRANSACTION.
    pub(super) fn set_modes(&mut self, modes: TransactionModes) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::None {
            self.warn("25P01", "SET TRANSACTION can only be used in transaction blocks");
            return Ok(());
        }
        if modes.names_isolation && self.session.as_deref().is_some_and(Session::has_begun) {
            let message = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
            return Err(SqlError::new("25001", message).into());
        }
        self.change_modes(modes)
    }

    fn change_modes(&mut self, modes: TransactionModes) -> Result<(), Error> {
        match (&mut self.session, modes.read_only) {
            (Some(session), Some(read_only)) => session.change_access(access(read_only)),
            _ => Ok(()),
        }
    }

    /// Applies SET of `transaction_read_only` to the open transaction.
    pub(super) fn take_over_modes(&mut self) -> Result<(), Error> {
        match self.settings.take_transaction_access() {
            Some(access) if self.transaction_state() == TransactionState::Open => {
                self.session.as_mut().map_or(Ok(()), |session| session.change_access(access))
            }
            _ => Ok(()),
        }
    }

    /// SHOW.
    pub(super) fn show(&self, name: &str) -> Result<String, SqlError> {
        match (name, &self.session) {
            ("transaction_read_only", Some(session)) => {
                Ok(if session.access() == Access::ReadOnly { "on" } else { "off" }.into())
            }
            ("transaction_read_only", None) => self.settings.show("default_transaction_read_only"),
            _ => self.settings.show(name),
        }
    }

    fn transaction_ended(&mut self, committed: bool) {
        self.settings.transaction_ended(committed);
        self.advisory.transaction_ended();
        self.channels_ended(committed);
    }

    pub(crate) fn roll_back(&mut self) {
        self.is_implicit = false;
        self.transaction_ended(false);
        self.portals.retain(|_, portal| portal.declared_at.is_none());
        self.has_lost_session = false;
        if self.session.is_some() {
            let rolled_back = self.with_session(|session| {
                session.rollback();
                Ok(())
            });
            debug_assert!(rolled_back.is_ok(), "a rollback cannot fail");
        }
    }

    pub(super) fn begin_implicit(&mut self) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::None {
            let open = OpenTransaction::new(&self.server)?;
            self.with_session(Session::begin)?;
            self.open = Some(open);
            self.is_implicit = true;
        }
        Ok(())
    }

    /// Commits the open transaction.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.is_implicit = false;
        self.renew_deadline();
        // A commit with definitions waits for other transactions.
        let takes_long = self.session.as_deref().is_some_and(Session::changes_definitions);
        let act = |client: &mut Self| client.with_session(|session| session.commit());
        let committed = if takes_long { tokio::task::block_in_place(|| act(self)) } else { act(self) };
        // If the commit failed, the transaction's cursors show rows that never existed.
        self.portals.retain(|_, portal| portal.declared_at.is_none() || committed.is_ok());
        self.portals.values_mut().for_each(|portal| portal.declared_at = None);
        committed.map(|_| ())
    }

    pub(super) fn set_savepoint(&mut self, name: String) -> Result<(), Error> {
        self.with_session(|session| session.set_savepoint(&name))?;
        self.savepoints.push(Savepoint {
            name,
            settings: self.settings.mark(),
            channels: self.channels.mark(),
        });
        Ok(())
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<(), Error> {
        self.with_session(|session| session.release_savepoint(name))?;
        let index = self.index_of(name);
        self.savepoints.truncate(index);
        for depth in self.portals.values_mut().filter_map(|portal| portal.declared_at.as_mut()) {
            *depth = index.min(*depth);
        }
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: restores the settings, and closes cursors that were declared since.
    pub(super) fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        self.with_session(|session| session.roll_back_to_savepoint(name))?;
        let index = self.index_of(name);
        self.savepoints.truncate(index + 1);
        self.settings.go_back_to(&self.savepoints[index].settings);
        self.channels.go_back_to(self.savepoints[index].channels);
        self.portals.retain(|_, portal| portal.declared_at.is_none_or(|depth| depth <= index));
        Ok(())
    }

    /// Returns the index of the last savepoint of a name, which must exist in the session.
    fn index_of(&self, name: &str) -> usize {
        let index = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        index.expect("client and session have the same savepoints")
    }

    /// Commits the implicit transaction, if one is open.
    pub(super) fn commit_implicit(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_implicit) {
            return Ok(());
        }
        let committed = self.commit();
        self.transaction_ended(committed.is_ok());
        committed
    }
}
