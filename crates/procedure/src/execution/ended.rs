//! How statements end.

use crate::Label;

/// How a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// After the last statement.
    Here,
    /// By EXIT.
    Exit(Label),
    /// By CONTINUE.
    Continue(Label),
    /// By RETURN.
    Return,
}
