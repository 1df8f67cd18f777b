//! Values, keys and rows as texts: what clients receive, and what the details of errors show.
//! Source: PostgreSQL 15, the output functions of the types, `BuildIndexValueDescription` and
//! `ExecBuildSlotValueDescription`.

use crate::value::array_text;
use crate::{
    Arena, Datum, ScalarType, SessionZone, Table, Type, Value, format_timestamptz, value_from_datum,
};

/// Most bytes of a value in the text of a row.
const LONGEST: usize = 64;

/// Returns the text of a value that a client receives, in the zone of the arena.
pub fn output_text(value: Datum, ty: Type, arena: &Arena) -> String {
    shown(&value_from_datum(value, ty, arena), ty.element(), arena.zone())
}

/// Returns the text of a value, or of an array of values, of a type, in a session's zone.
fn shown(value: &Value, ty: ScalarType, zone: Option<&SessionZone>) -> String {
    match (value, ty) {
        (Value::Timestamp(us), _) if ty.is_zoned() => format_timestamptz(*us, zone),
        (Value::Array(elements), _) => {
            let texts = elements.iter().map(|own| (*own != Value::Null).then(|| shown(own, ty, zone)));
            array_text(texts)
        }
        _ => value.to_string(),
    }
}

impl Table {
    fn value_text(&self, column: usize, value: Datum, arena: &Arena) -> String {
        match value {
            Datum::Null => "null".into(),
            value => output_text(value, self.columns[column].ty, arena),
        }
    }

    /// Returns the text `Key (a, b)=(1, 2)` of a key of some columns.
    pub fn key_text(&self, columns: &[usize], key: &[Datum], arena: &Arena) -> String {
        let (names, values) = self.names_and_values(columns, key, arena);
        format!("Key ({names})=({values})")
    }

    /// Returns the names of some columns and the texts of their values, with commas between.
    pub fn names_and_values(&self, columns: &[usize], key: &[Datum], arena: &Arena) -> (String, String) {
        let names: Vec<&str> = columns.iter().map(|column| self.columns[*column].name.as_str()).collect();
        let values = columns.iter().zip(key).map(|(column, value)| self.value_text(*column, *value, arena));
        (names.join(", "), values.collect::<Vec<_>>().join(", "))
    }

    /// Returns the text `(1, x, null)` of a row, with long values cut.
    pub fn row_text(&self, row: &[Datum], arena: &Arena) -> String {
        let shown = |(column, value): (usize, &Datum)| {
            let mut text = self.value_text(column, *value, arena);
            if text.len() > LONGEST {
                let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
                text.replace_range(end.., "...");
            }
            text
        };
        let values: Vec<String> = row.iter().take(self.visible().len()).enumerate().map(shown).collect();
        format!("({})", values.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Column, NewIndex, NewTable};

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let column = |name: &str, ty| Column { name: name.into(), ty: Type::Scalar(ty), ..Column::default() };
        let index = NewIndex {
            name: "key".into(),
            columns: vec![0],
            unique: true,
            is_constraint: true,
            ..NewIndex::default()
        };
        let mut catalog = Catalog::default();
        let table = catalog.create_table(NewTable {
            name: "t".into(),
            columns: vec![column("id", ScalarType::Integer), column("t", ScalarType::Text)],
            indexes: vec![index],
            ..NewTable::default()
        });
        let table = table.unwrap();
        let mut arena = Arena::default();
        let (short, long) = ("é".repeat(32), "aé".repeat(40));
        let row = [Datum::Int(7), arena.push_bytes(short.as_bytes())];
        assert_eq!(table.row_text(&row, &arena), format!("(7, {short})"));
        let row = [Datum::Null, arena.push_bytes(long.as_bytes())];
        assert_eq!(table.row_text(&row, &arena), format!("(null, {}a...)", "aé".repeat(21)));
    }
}
