//! Machine code of procedures, of the pieces that replay runs, and of expressions that queries evaluate for
//! many rows.
//!
//! A compiler takes the statements and operations of a procedure or piece (`procedure::Source`) and makes two
//! functions: one runs the statements, one announces the rows that are known at the start. Registers that
//! only statements use are machine registers. Windows of operations, and what the host reads, stand in the
//! frame, as for the interpreter.
//!
//! Code calls its host for everything that touches rows or makes values of variable size (`calls.rs`). A
//! statement or operation that the compiler does not know is interpreted by the host, in its place.
//!
//! Invariants: 1 Code has the results, errors and effects of the interpreter. Held by:
//! `compiled_procedures_agree_with_the_interpreter`. 2 Memory of code is never writable and executable at
//! once. Held by: `code_is_not_writable`.
//!
//! Not here: the interpreter, and what code asks of it (`procedure::Host`).

mod calls;
mod code;
mod compiler;
mod context;
mod queue;

pub use code::{Native, NativeExpression};
pub use compiler::{NotCompiled, Report, compile, compile_expression};
pub use queue::{Compile, Compiler};
