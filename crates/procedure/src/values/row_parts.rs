//! The fields of a row that is a text.
//! Source: PostgreSQL 15, `record_in`.

use crate::SqlError;

/// Returns a field of a row by its position; `None` for NULL.
///
/// # Errors
/// `22P02`: the text is no row, or has another number of fields.
pub(crate) fn row_part(text: &str, position: usize, count: usize) -> Result<Option<String>, SqlError> {
    let malformed = || SqlError::new("22P02", format!("malformed record literal: \"{text}\""));
    let inner = text.trim().strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let inner = inner.ok_or_else(malformed)?;
    let mut fields: Vec<Option<String>> = vec![None];
    let (mut is_quoted, mut characters) = (false, inner.chars().peekable());
    while let Some(character) = characters.next() {
        if character == ',' && !is_quoted {
            fields.push(None);
            continue;
        }
        let field = fields.last_mut().expect("one field at least").get_or_insert_default();
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            '\\' => field.extend(characters.next()),
            other => field.push(other),
        }
    }
    if is_quoted || fields.len() != count {
        return Err(malformed());
    }
    Ok(fields.swap_remove(position))
}

#[cfg(test)]
mod tests {
    use super::row_part;

    #[test]
    fn fields_of_a_row_are_read() {
        let part = |position| row_part("(1,,\"a,\"\"b\"\"\\\\c\",\"\",x)", position, 5).unwrap();
        assert_eq!(part(0).as_deref(), Some("1"));
        assert_eq!(part(1), None);
        assert_eq!(part(2).as_deref(), Some("a,\"b\"\\c"));
        assert_eq!(part(3).as_deref(), Some(""));
        assert_eq!(part(4).as_deref(), Some("x"));
    }

    #[test]
    fn another_number_of_fields_is_refused() {
        assert_eq!(row_part("(1,2)", 0, 3).unwrap_err().sqlstate, "22P02");
        assert_eq!(row_part("1,2", 0, 2).unwrap_err().sqlstate, "22P02");
    }
}
