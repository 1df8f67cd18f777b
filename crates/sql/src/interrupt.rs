//! Ends planning when the client cancels the statement, or when its deadline has passed. Code whose time
//! depends on the length of the text calls `check`.
//!
//! The interrupts are a thread-local value, because planning never leaves its thread, and because recursive
//! functions then need no further parameter.
//! Held by: `a_long_statement_is_cancelled_while_it_is_planned` (crates/reprise/tests/suite/nesting.rs).
//! Not here: the parser of squawk, which can't be interrupted; it takes a fraction of the time.

use procedure::{Interrupts, SqlError};
use std::cell::{Cell, RefCell};

/// Number of calls of `check` after which the interrupts are checked.
const EVERY: u32 = 256;

thread_local! {
    static CURRENT: RefCell<Option<Interrupts>> = const { RefCell::new(None) };
    static PASSED: Cell<u32> = const { Cell::new(0) };
}

/// Restores the interrupts of the thread, also if planning panics.
struct Restored(Option<Interrupts>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

/// Runs planning that `interrupts` may end.
///
/// # Errors
/// The error of `act`. `57014`: the statement was cancelled, or its deadline has passed.
pub fn interruptible<T, E: From<SqlError>>(
    interrupts: Interrupts,
    act: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let _restored = Restored(CURRENT.replace(Some(interrupts)));
    let planned = act()?;
    ask()?;
    Ok(planned)
}

fn ask() -> Result<(), SqlError> {
    CURRENT.with_borrow(|current| current.as_ref().map_or(Ok(()), Interrupts::check))
}

/// Checks at intervals whether planning has to end.
///
/// # Errors
/// `57014`: the statement was cancelled, or its deadline has passed.
pub(crate) fn check() -> Result<(), SqlError> {
    let passed = PASSED.get() + 1;
    PASSED.set(passed % EVERY);
    if passed == EVERY { ask() } else { Ok(()) }
}
