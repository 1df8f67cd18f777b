//! The intermediate representation: procedures, statements, operations and expressions.
//!
//! Not here: how expressions are computed (`values`), how statements run (`execution`).

pub(crate) mod effect;
pub(crate) mod expression;
pub(crate) mod opaque;
pub(crate) mod operation;
pub(crate) mod program;
pub(crate) mod visit;
