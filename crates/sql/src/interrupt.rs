//! Planning ends when its client cancels the statement, or when that has taken too long: whatever takes as
//! long as its text asks.
//!
//! The question is of the thread, as planning never leaves it, and what recurses over a text has enough to
//! hand on as it is.
//! Held by: `a_long_statement_is_cancelled_while_it_is_planned` (crates/reprise/tests/suite/nesting.rs).
//! Not here: the parser, which is squawk's and can't be interrupted; it takes a fraction of the time.

use procedure::{Interrupts, SqlError};
use std::cell::{Cell, RefCell};

/// How many times it is passed over before it is asked.
const EVERY: u32 = 256;

thread_local! {
    static CURRENT: RefCell<Option<Interrupts>> = const { RefCell::new(None) };
    static PASSED: Cell<u32> = const { Cell::new(0) };
}

/// Takes the question back, also where planning panics.
struct Restored(Option<Interrupts>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

/// Plans something that `interrupts` may end.
///
/// # Errors
/// What `act` fails with; `57014`.
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

/// Asks at intervals whether planning is to end.
///
/// # Errors
/// `57014`.
pub(crate) fn check() -> Result<(), SqlError> {
    let passed = PASSED.get() + 1;
    PASSED.set(passed % EVERY);
    if passed == EVERY { ask() } else { Ok(()) }
}
