//! Types, values, row and key layouts, tables and indexes: what every other room agrees on.
//!
//! Not here: how definitions are read from SQL (`sql`), where rows live (`storage`), and procedures
//! themselves (`procedure`).

mod canonical;
mod change;
mod datum;
mod decimal;
mod encoding;
mod identifiers;
mod key;
mod row;
mod schema;
mod sequence;
mod temporal;
mod types;
mod value;
mod written;

pub use canonical::{Family, normalized, write_canonical};
pub use change::RowChange;
pub use datum::{Arena, Datum, Mark, Span};
pub use decimal::{Decimal, DecimalError};
pub use encoding::{DecodeError, Reader, decode_value, encode_value, put_varint, skip_value};
pub use identifiers::{CommitOrder, Epoch, IndexId, ProcedureId, TableId};
pub use key::{encode_datum, successor};
pub use row::{ColumnKind, ColumnSlot, RowLayout, VARIABLE_ALIGNMENT, words_of};
pub use schema::{
    Catalog, CatalogError, Column, ForeignKey, Identity, Index, NewIndex, NewTable, ReferenceAction, Table,
};
pub use sequence::{Sequence, SequencePlace};
pub use temporal::{
    MICROSECONDS_PER_DAY, TemporalError, format_date, format_timestamp, moment_of, now_us, parse_date,
    parse_timestamp, timestamp_of,
};
pub use types::{ScalarType, Type};
pub use value::{Value, ValueError, datum_from_value, value_from_datum};
pub use written::{CHECKSUM_BITS, RowHash, Written};
