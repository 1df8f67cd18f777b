//! Where transactions begin and end, and their modes.

use super::{Client, OpenTransaction, Savepoint};
use reprise::rooms::procedure::SqlError;
use reprise::rooms::sql::TransactionModes;
use reprise::{Access, Error, Session, TransactionState};

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
        self.is_implicit = false;
        self.change_modes(modes)
    }

    /// COMMIT and ROLLBACK; with AND CHAIN another transaction of the same modes begins. Returns the command
    /// tag.
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
            self.settings.transaction_ended(committed.is_ok());
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

    /// SET of `transaction_read_only` concerns the open transaction.
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

    pub(crate) fn roll_back(&mut self) {
        self.is_implicit = false;
        self.settings.transaction_ended(false);
        self.portals.retain(|_, portal| portal.is_new.is_none());
        self.has_lost_session = false;
        if self.session.is_some() {
            let rolled_back = self.with_session(|session| {
                session.rollback();
                Ok(())
            });
            debug_assert!(rolled_back.is_ok(), "rolling back can't fail");
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

    /// Ends the open transaction as it was asked for.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.is_implicit = false;
        self.renew_deadline();
        // With definitions among its statements this takes as long as those take.
        let takes_long = self.session.as_deref().is_some_and(Session::changes_definitions);
        let act = |own: &mut Self| own.with_session(|session| session.commit());
        let committed = if takes_long { tokio::task::block_in_place(|| act(self)) } else { act(self) };
        // What a cursor shows is there, or has never been.
        self.portals.retain(|_, portal| portal.is_new.is_none() || committed.is_ok());
        self.portals.values_mut().for_each(|portal| portal.is_new = None);
        committed.map(|_| ())
    }

    pub(super) fn set_savepoint(&mut self, name: String) -> Result<(), Error> {
        self.with_session(|session| session.set_savepoint(&name))?;
        self.savepoints.push(Savepoint { name, settings: self.settings.mark() });
        Ok(())
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<(), Error> {
        self.with_session(|session| session.release_savepoint(name))?;
        let place = self.place_of(name);
        self.savepoints.truncate(place);
        for depth in self.portals.values_mut().filter_map(|portal| portal.is_new.as_mut()) {
            *depth = place.min(*depth);
        }
        Ok(())
    }

    /// ROLLBACK TO: settings are as they were, and cursors that were declared since are gone.
    pub(super) fn roll_back_to_savepoint(&mut self, name: &str) -> Result<(), Error> {
        self.with_session(|session| session.roll_back_to_savepoint(name))?;
        let place = self.place_of(name);
        self.savepoints.truncate(place + 1);
        self.settings.go_back_to(&self.savepoints[place].settings);
        self.portals.retain(|_, portal| portal.is_new.is_none_or(|depth| depth <= place));
        Ok(())
    }

    /// Where the last savepoint of a name stands, which the session has found, too.
    fn place_of(&self, name: &str) -> usize {
        self.savepoints.iter().rposition(|own| own.name == name).expect("both know the same savepoints")
    }

    /// Commits the transaction that no client has begun.
    pub(super) fn commit_implicit(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_implicit) {
            return Ok(());
        }
        let committed = self.commit();
        self.settings.transaction_ended(committed.is_ok());
        committed
    }
}
