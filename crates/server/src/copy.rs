//! The formats of COPY: text, CSV and binary.
//! Source: PostgreSQL's documentation of COPY (file formats).
//!
//! Not here: the messages of COPY (`client/copying.rs`).

mod input;
mod output;

pub(crate) use input::CopyIn;
pub(crate) use output::CopyOut;

/// The first bytes of the binary format.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
