//! The procedure IR and the executor that runs it over any `DataAccess`.
//!
//! The IR is a tree of statements in which every data access is a separate operation with an id. Expressions
//! are pure functions of registers. Procedures can therefore be analysed.
//!
//! Not here: the translation of SQL text into IR (`sql`), the implementation of data accesses (`transaction`,
//! `recovery`).

pub mod analysis;
mod error;
mod execution;
mod ir;
pub mod query;
mod values;

pub use error::{Conflict, ErrorObject, Failure, Notice, Severity, SqlError};
pub use execution::access::{
    DataAccess, EncodedRow, HoldStrength, KeptRows, LookAhead, NestedScans, ScanRange, SkippingSearch,
    Transaction, TransactionControl,
};
pub use execution::ahead::{Accesses, plan_lookups};
pub use execution::code::Code;
pub use execution::compiled::{Compiled, CompiledSlot, Host};
pub use execution::constraint_modes::ConstraintModes;
pub use execution::deferrable_key::DeferrableKey;
pub use execution::ended::Ended;
pub use execution::executor::{CHECK_EVERY, Call, LOOK_AHEAD, announce_piece, execute, execute_piece};
pub use execution::foreign_keys::ForeignKeys;
pub use execution::frame::{Frame, seed_of};
pub use execution::interrupts::Interrupts;
pub use execution::machine::Machine;
pub use execution::notifications::{Notification, Notifications};
pub use execution::reference::{KeyChange, Reference};
pub use execution::refusal::Refusal;
pub use execution::services::{CurrentNumbers, Nowhere, RowSink, Sequences, Services};
pub use execution::source::Source;
pub use execution::tape::{Part, Tapes, Whole, WitnessRecorder, WitnessValues};
pub use execution::violations::Violated;
pub use ir::added::added_columns;
pub use ir::by_value::ByValueCause;
pub use ir::compare::{CompareClass, CompareOperator, ElementClass};
pub use ir::conditions::sqlstates_of;
pub use ir::domain_value::DomainValue;
pub use ir::effect::{Effect, Rebuild, sequences_in};
pub use ir::expression::{ArithmeticOperator, Evaluated, Expression, NumberClass, Register};
pub use ir::function::Function;
pub use ir::object_kind::ObjectKind;
pub use ir::opaque::{Compiler, Cursor, Destination, Movement, Opaque};
pub use ir::operation::{
    Access, Aggregate, AggregateFunction, Bound, Check, CheckOwner, Choice, Operation, OperationId,
    OperationKind, Path, Select, SortKey,
};
pub use ir::program::{
    Guarded, Handler, Label, Mode, Parameter, Procedure, Raise, RaiseOption, Statement, Witnessed, Witnesses,
};
pub use ir::quantifier::{ElementTest, Quantifier};
pub use ir::query::{ProcedureQuery, QueryId, QueryTarget};
pub use ir::visit::Role;
pub use ir::watched::{CompiledExpression, ExpressionCompiler, Watched};
pub use values::cast::{Cast, ZonedCast};
pub use values::cast_context::{CASTS, CastContext};
pub use values::draw::Draw;
pub use values::functions::{
    BuiltIn, Form, Kind, SequenceFunction, Volatility, built_ins, built_ins_named, identifier_parts,
    quoted_name,
};
pub use values::live::{LiveColumn, LiveFunction, LiveRelation, LiveValue, Surroundings};
pub use values::operators::{Operator, OperatorForm, operators, operators_named};
pub use values::recovery::RecoveryProgress;
pub use values::row_types::mismatch;
pub use values::statistics::Statistic;

/// The version of the executor's semantics. It is in log files: a release replays a log only if the log has
/// the release's number.
///
/// Raise it with every change after which a call, replayed from its record on the same rows, could write
/// other values. Examples are changes of
/// - a function, a cast, an operator, rounding or a collation;
/// - the order in which rows are visited;
/// - the rows that a check admits;
/// - the database of time zones, which is jiff's;
/// - the values that replay takes from the record;
/// - the values that the checksum of a written row covers (`execution/operations.rs`): the key, or the
///   columns that a range reads, so another choice of index counts.
///
/// Changes of speed alone do not count, and neither does the support of statements that were refused before.
/// A database that was stopped cleanly has nothing to replay, and goes on with the new number.
pub const SEMANTICS: u32 = 12;
