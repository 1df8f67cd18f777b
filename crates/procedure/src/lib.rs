//! The procedure IR and the executor that runs it over any `DataAccess`.
//!
//! The IR is a tree of statements in which every data access is an operation of its own, with an id;
//! expressions are pure over registers. That is what makes procedures analysable.
//!
//! Not here: how SQL text becomes IR (`sql`), what a data access does (`transaction`, `recovery`).

mod access;
mod aggregate;
mod ahead;
pub mod analysis;
mod bits;
mod cast;
mod decimals;
mod doubles;
mod draw;
mod effect;
mod error;
mod executor;
mod expression;
mod foreign_keys;
mod functions;
mod interrupts;
mod machine;
mod numbers;
mod opaque;
mod operation;
mod program;
pub mod query;
mod rows;
mod tape;
mod texts;
mod times;
mod visit;

pub use access::{DataAccess, KeptRows, ScanRange};
pub use ahead::plan_lookups;
pub use bits::{BitOperator, ShiftWidth};
pub use cast::Cast;
pub use decimals::DecimalFunction;
pub use draw::Draw;
pub use effect::{Effect, Rebuild, sequences_in};
pub use error::{Conflict, ErrorObject, Failure, Severity, SqlError};
pub use executor::{Call, Code, announce_piece, execute, execute_piece};
pub use expression::{
    ArithmeticOperator, CompareClass, CompareOperator, Evaluated, Expression, NumberClass, Register,
};
pub use foreign_keys::{ForeignKeys, KeyChange, Reference};
pub use functions::Function;
pub use interrupts::Interrupts;
pub use machine::{CurrentNumbers, Machine, Nowhere, RowSink, Sequences, seed_of};
pub use opaque::{Compiler, Cursor, Destination, Movement, Opaque};
pub use operation::{
    Access, Aggregate, AggregateFunction, Bound, Check, Choice, Operation, OperationId, OperationKind, Path,
    QueryOperation, Select, SortKey,
};
pub use program::{Guarded, Handler, Label, Mode, Parameter, Procedure, Raise, Statement};
pub use tape::{Part, Tapes, Whole, WitnessRecorder, WitnessValues};
pub use texts::TextFunction;
pub use times::{Interval, TimeField, TimeFunction};

/// The meaning of the executor, as log files name it: a log is replayed only by a release with the number
/// that wrote it.
///
/// Raise it with every change after which a call, replayed from its record on the same rows, could write
/// something else: a function, a cast, an operator, rounding, a collation, the order in which rows are
/// visited, what a check admits, what replay takes from the record, what the checksum of a written row covers
/// (`operations.rs`: the key, or the columns that a range reads; so another choice of index counts). Changes
/// of speed alone and statements that were refused before do not count. Databases that were stopped cleanly
/// have nothing to replay, and go on with the new number.
pub const SEMANTICS: u32 = 3;
