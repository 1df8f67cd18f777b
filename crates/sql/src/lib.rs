//! Translates SQL and PL/pgSQL text into definitions and procedure IR.
//!
//! The grammar is squawk's, which is PostgreSQL's grammar in Rust. This crate binds names and types, and
//! chooses index paths. It refuses statements that Reprise does not support: with line and column, and when
//! an object is created, not when it is used.
//!
//! Not here: the application of definitions to the data (`reprise`), the execution of IR (`procedure`).

mod advisory;
mod advisory_functions;
mod aggregates;
mod alter;
mod arguments;
mod between;
mod binder;
mod built_ins;
mod calls;
mod column_names;
mod comments;
mod computed;
mod conditional;
mod conditions;
mod constraints;
mod conversions;
mod copy;
mod cursors;
mod definition;
mod enumeration;
mod error;
mod escapes;
mod evaluated;
mod exception;
mod explain;
mod expression;
mod extensions;
mod fetched;
mod filled;
mod image;
mod index;
mod interrupt;
mod json;
mod kept_text;
mod lifting;
mod lock;
mod loops;
mod lower;
mod nameless;
mod names;
mod nesting;
mod object_values;
mod oids;
mod opaque;
mod operators;
mod owners;
mod path;
mod plan;
mod predicates;
mod prepare;
mod query;
mod quoted;
mod raise;
mod removal;
mod renames;
mod resolution;
mod routine;
mod row_values;
mod schema;
mod sequence;
mod source;
mod sql_body;
mod statement;
mod subject;
mod subscripts;
mod symbols;
mod system;
mod system_functions;
mod times;
mod transaction;
mod trigger;
mod types;
mod unbound;
mod view;
mod windows;

pub use advisory_functions::{AdvisoryAction, AdvisoryCall};
pub use copy::{Copy, CopyFormat, CopyOptions};
pub use error::StatementError;
pub use evaluated::Arguments;
pub use filled::Filled;
pub use image::ImageError;
pub use interrupt::interruptible;
pub use lifting::{Lifted, lift};
pub use oids::{number_of, table_of};
pub use plan::{ColumnOrigin, ResultColumn};
pub use prepare::{Analyzed, Kind, Prepared};
pub use schema::{Schema, View};
pub use system::{CHAR, DATABASE, NAME, VECTORS, catalog_type};
pub use system::{SCALARS, type_length, type_modifier, type_oids};
pub use transaction::TransactionModes;
