//! Compiled code: machine code of a procedure or piece, and the host that it calls for rows, errors and
//! statements that are not compiled.
//!
//! Compiled code evaluates expressions, branches, loops and keys. Its host accesses rows, runs the statements
//! and operations that are not compiled, and makes errors. Both share the frame: windows of operations always
//! stand in the frame's registers; code writes any other register there only before the host reads it.
//!
//! Invariant: compiled code has the results, errors and effects of the interpreter. Held by:
//! `compiled_procedures_agree_with_the_interpreter`.
//!
//! Not here: the compiler (`native`).

use super::ended::Ended;
use crate::{Failure, Machine, OperationId, Statement};
use catalog::{ChangedWord, Datum};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Compiled code of a procedure or piece.
pub trait Compiled: fmt::Debug + Send + Sync {
    /// Runs the statements, in the registers of the host's frame.
    ///
    /// # Errors
    /// The failure that ended the code.
    fn run(&self, host: &mut dyn Host) -> Result<(), Failure>;

    /// Announces the rows of the accesses that are known at the start.
    fn announce(&self, host: &mut dyn Host);
}

/// The compiled code of a procedure or piece; empty until it is compiled.
#[derive(Clone, Default)]
pub struct CompiledSlot(OnceLock<Arc<dyn Compiled>>);

impl fmt::Debug for CompiledSlot {
    /// Writes the same with and without code: a definition does not depend on whether it is compiled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompiledSlot")
    }
}

impl CompiledSlot {
    /// Sets the code. The executions that begin from now on run it; code that is there already stays.
    pub fn set(&self, compiled: Arc<dyn Compiled>) {
        let _ = self.0.set(compiled);
    }

    /// Returns the code.
    #[inline]
    pub fn get(&self) -> Option<&dyn Compiled> {
        self.0.get().map(|code| &**code)
    }
}

/// The execution that compiled code runs in. Operations are named by their ids.
pub trait Host {
    /// Returns the machine.
    fn machine(&mut self) -> &mut Machine;

    /// Interprets a statement.
    ///
    /// # Errors
    /// As the statement.
    fn statement(&mut self, statement: &Statement) -> Result<Ended, Failure>;

    /// Interprets an operation: runs it, sends its results, or receives them.
    ///
    /// # Errors
    /// As the operation.
    fn operation(&mut self, id: OperationId) -> Result<(), Failure>;

    /// Encodes the key of a point access in the frame, from the values of its columns. None is NULL.
    fn encode_key(&mut self, id: OperationId, values: &[Datum]);

    /// Finds the row of a point access, and reads its columns into their window. Returns whether the row
    /// exists. `None` as `key` means the key in the frame.
    ///
    /// # Errors
    /// A conflict.
    fn find(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<bool, Failure>;

    /// Reads the column that a choice has selected, of the row that was found.
    ///
    /// # Errors
    /// A conflict.
    fn read_choice(&mut self, id: OperationId, choice: usize, column: usize) -> Result<(), Failure>;

    /// Notes the number of rows of an operation.
    fn ran(&mut self, id: OperationId, rows: i64);

    /// Inserts the row in an operation's window.
    ///
    /// # Errors
    /// A conflict; a key is taken, or the row references no row.
    fn insert(&mut self, id: OperationId) -> Result<(), Failure>;

    /// As `insert`, of a row whose primary key and fixed columns code has encoded. `sum` is that of the
    /// row's leading integers (`RowHash`).
    ///
    /// # Errors
    /// As `insert`.
    fn insert_encoded(&mut self, id: OperationId, fixed: &[u64], key: &[u8], sum: u64)
    -> Result<(), Failure>;

    /// Updates the row that was found under a key, from the registers of the assignments.
    ///
    /// # Errors
    /// A conflict; a key is taken.
    fn update(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<(), Failure>;

    /// As `update`, of columns that no index has. Code has encoded the words that change; `sum` is that of
    /// the whole update (`RowHash`).
    ///
    /// # Errors
    /// A conflict.
    fn update_encoded(&mut self, id: OperationId, words: &[ChangedWord], sum: u64) -> Result<(), Failure>;

    /// Deletes the row that was found under a key.
    ///
    /// # Errors
    /// A conflict.
    fn delete(&mut self, id: OperationId, key: Option<&[u8]>) -> Result<(), Failure>;

    /// Finds the rows of a loop, or receives them. Returns their number.
    ///
    /// # Errors
    /// As the operation.
    fn open_rows(&mut self, id: OperationId) -> Result<usize, Failure>;

    /// Loads the outputs of a loop's row, of a number of rows.
    fn load_row(&mut self, id: OperationId, row: usize, count: usize);

    /// Ends a loop over a number of rows.
    fn close_rows(&mut self, id: OperationId, count: usize);

    /// Sends the results of an operation.
    fn send(&mut self, id: OperationId);

    /// Receives the results of an operation.
    fn receive(&mut self, id: OperationId);

    /// Checks whether the execution has to end, after many rounds of loops.
    ///
    /// # Errors
    /// A conflict; `57014`.
    fn check(&mut self) -> Result<(), Failure>;

    /// Discards the announced keys.
    fn expect_nothing(&mut self);

    /// Announces the row of a point access.
    fn expect(&mut self, id: OperationId, key: Option<&[u8]>);

    /// Begins to load all announced rows.
    fn load_expected(&mut self);

    /// Returns the error of a NULL in the column of a table that an operation writes.
    fn null_value(&mut self, id: OperationId, column: usize) -> Failure;

    /// Returns the error of an operation's CHECK constraint.
    fn violated(&mut self, id: OperationId, check: usize) -> Failure;

    /// Notes the operation that has failed.
    fn failed_at(&mut self, id: OperationId);
}
