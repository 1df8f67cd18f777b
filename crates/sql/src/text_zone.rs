//! The time zone of the texts of timestamps in statements and definitions.
//!
//! Not here: how it is applied (`zoned`).

use catalog::SessionZone;
use std::sync::Arc;

/// The zone of the texts of timestamps that name none.
#[derive(Clone, Default, Debug)]
pub(crate) enum TextZone {
    #[default]
    Utc,
    /// The zone of the session that prepares the statement.
    Session(Arc<SessionZone>),
    /// Such texts are refused: a session in another zone than UTC makes a definition.
    Refused,
}
