//! DISCARD, and the end of a client's temporary relations.

use super::Client;
use crate::Server;
use crate::notifications::Change;
use reprise::{CurrentNumbers, Error, Statement, TemporarySchema};
use std::sync::Arc;
use std::time::Duration;

/// Time between two attempts to drop the temporary relations of a client that is gone.
const PAUSE: Duration = Duration::from_millis(500);

impl Client {
    /// DISCARD.
    ///
    /// # Errors
    /// As a definition.
    pub(super) fn discard(&mut self, statement: &Statement) -> Result<(), Error> {
        match statement.tag() {
            "DISCARD ALL" => {
                self.statements.clear();
                self.portals.clear();
                self.settings.change(statement.text(), false)?;
                self.advisory.release_all();
                self.change_channels(Change::Unlisten(None))?;
                self.numbers = CurrentNumbers::default();
                self.take_over_modes()?;
                self.discard_temporary()
            }
            "DISCARD TEMP" => self.discard_temporary(),
            "DISCARD SEQUENCES" => {
                self.numbers = CurrentNumbers::default();
                Ok(())
            }
            // Plans are bound again when definitions change.
            _ => Ok(()),
        }
    }

    fn discard_temporary(&mut self) -> Result<(), Error> {
        // It waits for other sessions that change definitions.
        tokio::task::block_in_place(|| self.with_session(reprise::Session::discard_temporary))
    }

    /// Returns the temporary schema, which outlives the client until it is dropped.
    pub(crate) fn temporary(&self) -> Arc<TemporarySchema> {
        Arc::clone(&self.temporary)
    }
}

/// Drops the temporary relations of a client that is gone. Waits until no other transaction is open; what a
/// server that stops leaves is dropped by the next opening.
pub(crate) async fn drop_temporary(server: Arc<Server>, temporary: Arc<TemporarySchema>) {
    while !server.is_stopping() {
        server.pool().free().await;
        let dropped = tokio::task::block_in_place(|| {
            let mut session = server.pool().take()?;
            session.ends_at(None);
            session.cancelled_by(Arc::default());
            session.set_lock_timeout(Some(PAUSE));
            session.use_temporary(Some(&temporary));
            let dropped = session.discard_temporary();
            server.pool().give_back(session);
            dropped
        });
        match dropped {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "temporary tables cannot be dropped yet: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
