//! The executor: runs procedures, and pieces of procedures, over a database that access traits describe.
//!
//! Not here: plans of queries (`query`), the implementation of data accesses (`transaction`, `recovery`).

pub(crate) mod access;
pub(crate) mod ahead;
pub(crate) mod code;
pub(crate) mod compiled;
pub(crate) mod constraint_modes;
pub(crate) mod control;
pub(crate) mod cursors;
pub(crate) mod deferrable_key;
pub(crate) mod ended;
pub(crate) mod executor;
pub(crate) mod foreign_keys;
pub(crate) mod form;
pub(crate) mod frame;
mod host;
pub(crate) mod interrupts;
pub(crate) mod machine;
pub(crate) mod notifications;
pub(crate) mod opaque;
pub(crate) mod operations;
pub(crate) mod queries;
pub(crate) mod reference;
mod referenced;
pub(crate) mod refusal;
pub(crate) mod rows;
pub(crate) mod services;
pub(crate) mod source;
pub(crate) mod tape;
pub(crate) mod violations;
