//! The built-in functions, casts and aggregates, a file for each kind of value.
//!
//! Not here: the types and their encodings (`catalog`), how expressions call functions (`ir::expression`).

pub(crate) mod aggregate;
pub(crate) mod cast;
pub(crate) mod cast_context;
pub(crate) mod decimals;
pub(crate) mod doubles;
pub(crate) mod draw;
pub(crate) mod functions;
pub(crate) mod live;
pub(crate) mod numbers;
pub(crate) mod operators;
pub(crate) mod ordered;
pub(crate) mod recovery;
pub(crate) mod row_parts;
pub(crate) mod row_types;
mod shown_number;
pub(crate) mod statistics;
pub(crate) mod subscripts;
pub(crate) mod times;
