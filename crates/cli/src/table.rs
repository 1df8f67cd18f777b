//! The tables that commands print, one line a row.

use comfy_table::{Table, presets::ASCII_FULL_CONDENSED};

/// Returns a table with a header and no rows.
pub fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_FULL_CONDENSED).set_header(header);
    table
}
