//! Types, values, row and key layouts, tables and indexes: the definitions that all other crates share.
//!
//! Not here: reading definitions from SQL (`sql`), the rows (`storage`), procedures (`procedure`).

mod canonical;
mod change;
mod columns;
mod datum;
mod decimal;
mod deferral;
mod domain;
mod elements;
mod encoding;
mod enumeration;
mod identifiers;
mod index;
mod input;
mod json;
mod key;
mod named_types;
mod numeric;
mod on_commit;
mod row;
mod schema;
mod sequence;
mod shown;
mod temporal;
mod trigger;
mod types;
mod value;
mod written;

pub use canonical::{Family, normalized, write_canonical};
pub use change::RowChange;
pub use datum::{Arena, Datum, Mark, Span};
pub use decimal::{Decimal, DecimalError};
pub use deferral::Deferral;
pub use domain::Domain;
pub use elements::write_elements;
pub use encoding::{DecodeError, Reader, decode_value, encode_value, put_varint, skip_value};
pub use enumeration::{EnumLabel, EnumType, Enumeration, LabelPlace};
pub use identifiers::{CommitOrder, Epoch, IndexId, ProcedureId, TableId};
pub use index::{Index, IndexDetails, KeyRules, NewIndex};
pub use input::{array_elements, bytea_of_escaped, is_space, surrogate_pair, utf8_of};
pub use json::{
    Json, canonical_jsonb, check_json, compare_jsonb, json_elements, json_members, json_text,
    push_json_string,
};
pub use key::{encode_datum, successor};
pub use numeric::{MOST_DISPLAY_SCALE, Numeric, Parts, divide_rounded, ten_to};
pub use on_commit::OnCommit;
pub use row::{
    ChangedWord, ColumnKind, ColumnSlot, LONG, RowLayout, VARIABLE_ALIGNMENT, words_of, words_of_decimal,
};
pub use schema::{Catalog, CatalogError, Column, ForeignKey, Identity, NewTable, ReferenceAction, Table};
pub use sequence::{Sequence, SequencePlace};
pub use shown::output_text;
pub use temporal::{
    DATE_AFTER_ALL, DATE_BEFORE_ALL, Day, EPOCH_JULIAN, Interval, MICROSECONDS_PER_DAY, Moment, NoZone,
    SessionZone, TIMESTAMP_AFTER_ALL, TIMESTAMP_BEFORE_ALL, TemporalError, Zone, checked_date, checked_time,
    checked_timestamp, date_of, date_plus, day_of, east_at, format_date, format_time, format_timestamp,
    format_timestamptz, is_finite_date, is_finite_timestamp, later, local_of, local_timestamp, midnight_of,
    moment_of, now_us, parse_date, parse_time, parse_timestamp, parse_timestamptz, rounded_timestamp,
    timestamp_plus, unix_ms, utc_of,
};
pub use trigger::{Trigger, TriggerEvent, TriggerTiming};
pub use types::{ScalarType, Type};
pub use value::{
    Value, ValueError, array_datum, datum_from_value, double_datum, double_of_real, exact_bounds,
    exact_datum, fitted, format_double, format_real, real_datum, real_of_double, text_datum,
    value_from_datum,
};
pub use written::{CHECKSUM_BITS, RowHash, Written};
