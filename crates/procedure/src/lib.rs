//! The procedure IR and the executor that runs it over any `DataAccess`.
//!
//! The IR is a tree of statements in which every data access is an operation of its own, with an id;
//! expressions are pure over registers. That is what makes procedures analysable.
//!
//! Not here: how SQL text becomes IR (`sql`), what a data access does (`transaction`, `recovery`).

pub mod analysis;
mod error;
mod execution;
mod ir;
pub mod query;
mod values;

pub use error::{Conflict, ErrorObject, Failure, Severity, SqlError};
pub use execution::access::{
    DataAccess, KeptRows, LookAhead, NestedScans, ScanRange, Transaction, TransactionControl,
};
pub use execution::ahead::plan_lookups;
pub use execution::code::Code;
pub use execution::executor::{Call, announce_piece, execute, execute_piece};
pub use execution::foreign_keys::{ForeignKeys, KeyChange, Reference};
pub use execution::frame::{Frame, seed_of};
pub use execution::interrupts::Interrupts;
pub use execution::machine::Machine;
pub use execution::services::{CurrentNumbers, Nowhere, RowSink, Sequences, Services};
pub use execution::tape::{Part, Tapes, Whole, WitnessRecorder, WitnessValues};
pub use ir::effect::{Effect, Rebuild, sequences_in};
pub use ir::expression::{
    ArithmeticOperator, CompareClass, CompareOperator, Evaluated, Expression, NumberClass, Register,
};
pub use ir::opaque::{Compiler, Cursor, Destination, Movement, Opaque};
pub use ir::operation::{
    Access, Aggregate, AggregateFunction, Bound, Check, Choice, Operation, OperationId, OperationKind, Path,
    QueryOperation, Select, SortKey,
};
pub use ir::program::{Guarded, Handler, Label, Mode, Parameter, Procedure, Raise, Statement};
pub use values::bits::{BitOperator, ShiftWidth};
pub use values::cast::Cast;
pub use values::decimals::DecimalFunction;
pub use values::draw::Draw;
pub use values::functions::Function;
pub use values::texts::TextFunction;
pub use values::times::{Interval, TimeField, TimeFunction};

/// The meaning of the executor, as log files name it: a log is replayed only by a release with the number
/// that wrote it.
///
/// Raise it with every change after which a call, replayed from its record on the same rows, could write
/// something else: a function, a cast, an operator, rounding, a collation, the order in which rows are
/// visited, what a check admits, what replay takes from the record, what the checksum of a written row covers
/// (`execution/operations.rs`: the key, or the columns that a range reads; so another choice of index
/// counts). Changes of speed alone and statements that were refused before do not count. Databases that were
/// stopped cleanly have nothing to replay, and go on with the new number.
pub const SEMANTICS: u32 = 3;
