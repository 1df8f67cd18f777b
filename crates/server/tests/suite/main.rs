//! The promises of the server, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod advisory;
mod answers;
mod batches;
mod clients;
mod copies;
mod cursors;
mod described;
mod limits;
mod moment;
mod notices;
mod notifications;
mod outdated;
mod page;
mod privileges;
mod sockets;
mod strangers;
mod temporary;
mod transactions;
mod values;
mod waiting;
mod wire;
mod zones;
