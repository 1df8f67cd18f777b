//! The intermediate representation: procedures, statements, operations, queries and expressions.
//!
//! Not here: built-in functions and casts (`values`), the execution of statements (`execution`).

pub(crate) mod added;
mod apply;
pub(crate) mod by_value;
pub(crate) mod compare;
pub(crate) mod conditions;
pub(crate) mod domain_value;
pub(crate) mod effect;
pub(crate) mod expression;
pub(crate) mod function;
pub(crate) mod object_kind;
pub(crate) mod opaque;
pub(crate) mod operation;
pub(crate) mod program;
pub(crate) mod quantifier;
pub(crate) mod query;
pub(crate) mod visit;
pub(crate) mod watched;
