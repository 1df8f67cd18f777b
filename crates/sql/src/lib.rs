//! SQL and PL/pgSQL text → definitions and procedure IR.
//!
//! The grammar is squawk's (PostgreSQL's own, in Rust); this crate binds names and types, chooses index
//! paths, and refuses what Reprise does not support, always with line and column, always when a thing is
//! created.
//!
//! Not here: what a definition does to the data (`reprise`), how IR runs (`procedure`).

mod aggregates;
mod alter;
mod arguments;
mod binder;
mod calls;
mod column_names;
mod conditions;
mod copy;
mod cursors;
mod definition;
mod error;
mod escapes;
mod exception;
mod expression;
mod image;
mod index;
mod interrupt;
mod kept_text;
mod lifting;
mod loops;
mod modify;
mod names;
mod nesting;
mod opaque;
mod operators;
mod path;
mod plan;
mod predicates;
mod prepare;
mod query;
mod raise;
mod removal;
mod routine;
mod schema;
mod sequence;
mod source;
mod statement;
mod system;
mod system_functions;
mod times;
mod transaction;
mod types;
mod view;

pub use copy::{Copy, CopyFormat, CopyOptions};
pub use error::StatementError;
pub use image::ImageError;
pub use interrupt::interruptible;
pub use lifting::{Lifted, lift};
pub use prepare::{Arguments, Kind, Prepared};
pub use schema::{Schema, View};
pub use system::{type_length, type_modifier, type_oids};
pub use transaction::TransactionModes;
