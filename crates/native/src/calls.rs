//! The calls of compiled code into its host: one table, of which both the functions and their signatures are
//! made.
//!
//! Every call takes the context and further words, and returns a word: its result, or `FAILED`. Then the
//! context has the failure.
//!
//! Safety: only compiled code makes these calls, with the context that it was run with. It passes pointers to
//! as many initialized datums or bytes as it says, in its own stack frame.
#![allow(unsafe_code)]

use crate::context::Context;
use catalog::{ChangedWord, Datum};
use procedure::{Ended, Failure, Label, OperationId, Refusal};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a call that has failed.
pub(crate) const FAILED: u64 = u64::MAX;

/// The word of `Ended::Here`, and of calls without a result.
pub(crate) const HERE: u64 = 0;
/// The word of `Ended::Return`.
pub(crate) const RETURN: u64 = 1;

/// Returns the word of an EXIT.
pub(crate) fn exit(label: Label) -> u64 {
    2 + 2 * u64::from(label.0)
}

/// Returns the word of a CONTINUE.
pub(crate) fn going_on(label: Label) -> u64 {
    3 + 2 * u64::from(label.0)
}

/// Runs the body of a call, and keeps its failure.
#[inline(always)]
fn guarded<'a>(context: &mut Context<'a>, run: impl FnOnce(&mut Context<'a>) -> Result<u64, Failure>) -> u64 {
    match catch_unwind(AssertUnwindSafe(|| run(context))) {
        Ok(Ok(word)) => word,
        Ok(Err(failure)) => fail(context, failure),
        Err(panic) => {
            context.panic = Some(panic);
            FAILED
        }
    }
}

#[cold]
fn fail(context: &mut Context<'_>, failure: Failure) -> u64 {
    context.failure = Some(failure);
    FAILED
}

/// Returns bytes in the frame of compiled code; `None` for the null pointer.
///
/// # Safety
/// There are as many initialized bytes, which stay until the call returns.
#[inline(always)]
unsafe fn bytes<'c>(start: u64, length: u64) -> Option<&'c [u8]> {
    let start = std::ptr::with_exposed_provenance::<u8>(start as usize);
    // SAFETY: by the contract.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length as usize) })
}

/// Returns datums in the frame of compiled code.
///
/// # Safety
/// There are as many initialized datums, which stay until the call returns.
#[inline(always)]
unsafe fn datums<'c>(start: u64, count: u64) -> &'c [Datum] {
    if count == 0 {
        return &[];
    }
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start as usize), count as usize) }
}

/// Returns words in the frame of compiled code.
///
/// # Safety
/// There are as many initialized words, which stay until the call returns.
#[inline(always)]
unsafe fn words_at<'c>(start: u64, count: u64) -> &'c [u64] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start as usize), count as usize) }
}

/// Returns changed words in the frame of compiled code.
///
/// # Safety
/// There are as many initialized ones, which stay until the call returns.
#[inline(always)]
unsafe fn changed_words<'c>(start: u64, count: u64) -> &'c [ChangedWord] {
    // SAFETY: by the contract.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start as usize), count as usize) }
}

fn operation(id: u64) -> OperationId {
    OperationId(id as u32)
}

macro_rules! host_calls {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident => $function:ident($context:ident $(, $argument:ident)*) $body:block
    )*) => {
        /// A call of compiled code into its host.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Call {
            $($(#[doc = $doc])* $name,)*
        }

        impl Call {
            /// Returns the address of the call's function.
            pub(crate) fn address(self) -> usize {
                match self {
                    $(Self::$name => {
                        type Function =
                            extern "C" fn(&mut Context<'_> $(, host_calls!(@word $argument))*) -> u64;
                        $function as Function as usize
                    })*
                }
            }

            /// Returns the number of words that the call takes, the context among them.
            pub(crate) fn words(self) -> usize {
                match self {
                    $(Self::$name => 1 $(+ host_calls!(@one $argument))*,)*
                }
            }
        }

        $(
            extern "C" fn $function(context: &mut Context<'_> $(, $argument: u64)*) -> u64 {
                guarded(context, |$context| $body)
            }
        )*
    };
    (@word $argument:ident) => { u64 };
    (@one $argument:ident) => { 1 };
}

host_calls! {
    /// Applies an expression to the values of its operands, and writes the result.
    Apply => apply(context, node, values, count, result) {
        let node = &context.parts.expressions[node as usize];
        // SAFETY: as the module says.
        let values = unsafe { datums(values, count) };
        let value = node.apply(values, context.machine())?;
        // SAFETY: as the module says; `result` has room for a datum.
        unsafe { std::ptr::with_exposed_provenance_mut::<Datum>(result as usize).write(value) };
        context.refresh();
        Ok(HERE)
    }
    /// Interprets a statement.
    Statement => statement(context, index) {
        let statement = &context.parts.statements[index as usize];
        let ended = context.host().statement(statement)?;
        context.refresh();
        Ok(match ended {
            Ended::Here => HERE,
            Ended::Return => RETURN,
            Ended::Exit(label) => exit(label),
            Ended::Continue(label) => going_on(label),
        })
    }
    /// Interprets an operation.
    Operation => interpret(context, id) {
        context.host().operation(operation(id))?;
        context.refresh();
        Ok(HERE)
    }
    /// Encodes a key in the frame.
    EncodeKey => encode_key(context, id, values, count) {
        // SAFETY: as the module says.
        context.host().encode_key(operation(id), unsafe { datums(values, count) });
        Ok(HERE)
    }
    /// Finds a row, and returns 1 if there is one.
    Find => find(context, id, key, length) {
        // SAFETY: as the module says.
        Ok(context.host().find(operation(id), unsafe { bytes(key, length) })?.into())
    }
    /// Reads the column that a choice has selected.
    ReadChoice => read_choice(context, id, choice, column) {
        context.host().read_choice(operation(id), choice as usize, column as usize)?;
        Ok(HERE)
    }
    /// Notes the number of rows of an operation.
    Ran => ran(context, id, rows) {
        context.host().ran(operation(id), rows as i64);
        Ok(HERE)
    }
    /// Inserts a row.
    Insert => insert(context, id) {
        context.host().insert(operation(id))?;
        Ok(HERE)
    }
    /// Inserts a row whose fixed columns and primary key are encoded.
    InsertEncoded => insert_encoded(context, id, fixed, words, key, length, sum) {
        // SAFETY: as the module says.
        let (fixed, key) = unsafe { (words_at(fixed, words), bytes(key, length).unwrap_or_default()) };
        context.host().insert_encoded(operation(id), fixed, key, sum)?;
        Ok(HERE)
    }
    /// Updates the row that was found by changed words.
    UpdateEncoded => update_encoded(context, id, words, count, sum) {
        // SAFETY: as the module says.
        context.host().update_encoded(operation(id), unsafe { changed_words(words, count) }, sum)?;
        Ok(HERE)
    }
    /// Updates the row that was found.
    Update => update(context, id, key, length) {
        // SAFETY: as the module says.
        context.host().update(operation(id), unsafe { bytes(key, length) })?;
        Ok(HERE)
    }
    /// Deletes the row that was found.
    Delete => delete(context, id, key, length) {
        // SAFETY: as the module says.
        context.host().delete(operation(id), unsafe { bytes(key, length) })?;
        Ok(HERE)
    }
    /// Finds the rows of a loop, and returns their number.
    OpenRows => open_rows(context, id) {
        let count = context.host().open_rows(operation(id))?;
        context.refresh();
        Ok(count as u64)
    }
    /// Loads a row of a loop.
    LoadRow => load_row(context, id, row, count) {
        context.host().load_row(operation(id), row as usize, count as usize);
        Ok(HERE)
    }
    /// Ends a loop over rows.
    CloseRows => close_rows(context, id, count) {
        context.host().close_rows(operation(id), count as usize);
        Ok(HERE)
    }
    /// Sends the results of an operation.
    Send => send(context, id) {
        context.host().send(operation(id));
        Ok(HERE)
    }
    /// Receives the results of an operation.
    Receive => receive(context, id) {
        context.host().receive(operation(id));
        context.refresh();
        Ok(HERE)
    }
    /// Checks whether the execution has to end.
    Check => check(context) {
        context.host().check()?;
        Ok(HERE)
    }
    /// Discards the announced keys.
    ExpectNothing => expect_nothing(context) {
        context.host().expect_nothing();
        Ok(HERE)
    }
    /// Announces a row.
    Expect => expect(context, id, key, length) {
        // SAFETY: as the module says.
        context.host().expect(operation(id), unsafe { bytes(key, length) });
        Ok(HERE)
    }
    /// Begins to load all announced rows.
    LoadExpected => load_expected(context) {
        context.host().load_expected();
        Ok(HERE)
    }
    /// Fails because of a NULL in a column.
    NullValue => null_value(context, id, column) {
        Err(context.host().null_value(operation(id), column as usize))
    }
    /// Fails because of a CHECK constraint.
    Violated => violated(context, id, index) {
        Err(context.host().violated(operation(id), index as usize))
    }
    /// Fails with the error of a number.
    Refused => refused(_context, refusal) {
        Err(Refusal::of_number(refusal).failure())
    }
    /// Notes the operation that has failed.
    FailedAt => failed_at(context, id) {
        context.host().failed_at(operation(id));
        Ok(HERE)
    }
}
