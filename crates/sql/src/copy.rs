//! COPY: the statement that it is executed as, and the format of its rows.

use crate::StatementError;
use crate::quoted::quoted;
use crate::schema::{Schema, unsupported};
use crate::source::Source;
use crate::types::{object_name, short};
use catalog::{Table, Trigger, TriggerEvent};
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};

/// A copy of rows from or to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Whether rows come from the client.
    pub is_in: bool,
    /// The statement that it is executed as: an INSERT of one row of parameters, or a query.
    pub text: String,
    /// The format of rows.
    pub options: CopyOptions,
}

/// The format of rows of a COPY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// The byte between columns.
    pub delimiter: u8,
    /// The text for NULL.
    pub null: String,
    /// Whether the first line has the names of the columns.
    pub header: bool,
    /// The byte that quotes a value of CSV.
    pub quote: u8,
    /// The byte before a quote inside a quoted value.
    pub escape: u8,
    /// Whether all values that are not NULL are quoted.
    pub force_quote: bool,
}

/// The formats of COPY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFormat {
    /// Tabs and backslashes.
    Text,
    /// Commas and quotes.
    Csv,
    /// PostgreSQL's binary forms.
    Binary,
}

impl Schema {
    /// Reads a COPY statement.
    pub(crate) fn copy(&self, copy: &ast::Copy, source: &Source) -> Result<Copy, StatementError> {
        let node = copy.syntax();
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
        let words = source.text_of(node);
        let is_in = matches!(copy.copy_direction(), Some(ast::CopyDirection::CopyFrom(_)));
        let direction = copy.copy_direction();
        let Some(direction) = direction else { return Err(unsupported(source, node, "this form of COPY")) };
        let target = direction.syntax().text().to_string().to_lowercase();
        if !["stdin", "stdout"].iter().any(|stream| target.ends_with(stream)) {
            let error =
                SqlError::new("0A000", "COPY with a file or a program on the server is not supported");
            return Err(at(error.with_hint(
                "Use COPY FROM STDIN or COPY TO STDOUT, or psql's \\copy for files of the client.",
            )));
        }
        if let Some(clause) = copy.where_clause() {
            return Err(unsupported(source, clause.syntax(), "COPY … WHERE"));
        }
        let end = source.range_of(direction.syntax()).end - source.range_of(node).start;
        let options = CopyOptions::parse(&words[end..]).map_err(at)?;
        let text = match (copy.copy_query(), copy.copy_table()) {
            (Some(query), _) if !is_in => {
                let text = source.text_of(query.syntax()).trim();
                text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text).to_owned()
            }
            (_, Some(table)) => {
                let path = table.table_name_ref().and_then(|name| name.path_ref());
                let Some(path) = path else { return Err(unsupported(source, node, "this form of COPY")) };
                let name = object_name(&path);
                let is_partition = self.is_partition(&name);
                if self.view(&name).is_some() && !is_partition {
                    return Err(at(of_view(&name, is_in)));
                }
                let definition = self.catalog().table(self.partitions.root_of(&name));
                let definition = definition.map_err(|error| at(SqlError::new("42P01", error.to_string())))?;
                if is_in && has_statement_triggers(definition) {
                    return Err(unsupported(source, node, "COPY into a table with triggers of statements"));
                }
                let names = table.column_ref_list().into_iter().flat_map(|list| list.column_name_refs());
                let mut columns: Vec<String> =
                    names.map(|name| quoted(&ast::normalize_name_node(name.syntax()))).collect();
                if columns.is_empty() {
                    let copied = definition.visible().iter().filter(|column| !column.generated);
                    columns = copied.map(|column| quoted(&column.name)).collect();
                } else if let Some(column) = definition
                    .visible()
                    .iter()
                    .find(|column| column.generated && columns.contains(&quoted(&column.name)))
                {
                    let message = format!("column \"{}\" is a generated column", column.name);
                    let error = SqlError::new("42P10", message);
                    return Err(at(error.with_detail("Generated columns cannot be used in COPY.")));
                }
                let list = columns.join(", ");
                let table = name.split('.').map(quoted).collect::<Vec<_>>().join(".");
                if is_in {
                    let parameters: Vec<_> = (1..=columns.len()).map(|n| format!("${n}")).collect();
                    let parameters = parameters.join(", ");
                    format!("INSERT INTO {table} ({list}) OVERRIDING SYSTEM VALUE VALUES ({parameters})")
                } else {
                    format!("SELECT {list} FROM {table}")
                }
            }
            _ => return Err(unsupported(source, node, "this form of COPY")),
        };
        Ok(Copy { is_in, text, options })
    }
}

/// Returns the error of a COPY of a view.
fn of_view(name: &str, is_in: bool) -> SqlError {
    let (verb, hint) = match is_in {
        true => ("copy to", "To enable copying to a view, provide an INSTEAD OF INSERT trigger."),
        false => ("copy from", "Try the COPY (SELECT ...) TO variant."),
    };
    SqlError::new("42809", format!("cannot {verb} view \"{}\"", short(name))).with_hint(hint)
}

/// Returns whether an INSERT fires triggers once for the statement: a COPY inserts its rows one by one.
fn has_statement_triggers(table: &Table) -> bool {
    let of_statement =
        |trigger: &Trigger| !trigger.for_each_row && trigger.events.contains(&TriggerEvent::Insert);
    table.triggers.iter().any(|trigger| trigger.enabled && of_statement(trigger))
}

/// Returns the words of a list of options, each with whether it is in quotes.
fn tokens(text: &str) -> Vec<(String, bool)> {
    let mut tokens = Vec::new();
    let mut unread = text.trim_start();
    while let Some(first) = unread.chars().next() {
        let mut escaped = false;
        let body = match first {
            'E' | 'e' if unread[1..].starts_with('\'') => {
                escaped = true;
                &unread[1..]
            }
            _ => unread,
        };
        if let Some(inner) = body.strip_prefix('\'') {
            let mut value = String::new();
            let mut chars = inner.char_indices().peekable();
            let mut end = inner.len();
            while let Some((position, character)) = chars.next() {
                match character {
                    '\'' if chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                        value.push('\'');
                        chars.next();
                    }
                    '\'' => {
                        end = position + 1;
                        break;
                    }
                    '\\' if escaped => match chars.next() {
                        Some((_, 't')) => value.push('\t'),
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, escaped)) => value.push(escaped),
                        None => {}
                    },
                    plain => value.push(plain),
                }
            }
            tokens.push((value, true));
            unread = inner[end..].trim_start();
        } else if first.is_alphanumeric() || first == '_' {
            let end = unread.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(unread.len());
            tokens.push((unread[..end].to_lowercase(), false));
            unread = unread[end..].trim_start();
        } else {
            tokens.push((first.to_string(), false));
            unread = unread[first.len_utf8()..].trim_start();
        }
    }
    tokens
}

impl CopyOptions {
    /// Reads options in either form: `WITH (FORMAT csv, …)` or `CSV HEADER …`.
    fn parse(text: &str) -> Result<Self, SqlError> {
        let tokens = tokens(text.trim().trim_end_matches(';'));
        let mut tokens = tokens.into_iter().peekable();
        let (mut format, mut header, mut force_quote) = (CopyFormat::Text, false, false);
        let (mut delimiter, mut null, mut quote, mut escape) = (None, None, None, None);
        let refused = |what: String| Err(SqlError::new("0A000", what));
        while let Some((word, _)) = tokens.next() {
            let mut value = || {
                while tokens.next_if(|(word, quoted)| !quoted && word == "as").is_some() {}
                tokens.next().unwrap_or_default().0
            };
            match word.as_str() {
                "(" | ")" | "," | "with" => {}
                "format" => match value().as_str() {
                    "text" => format = CopyFormat::Text,
                    "csv" => format = CopyFormat::Csv,
                    "binary" => format = CopyFormat::Binary,
                    other => {
                        return Err(SqlError::new(
                            "22023",
                            format!("COPY format \"{other}\" not recognized"),
                        ));
                    }
                },
                "csv" => format = CopyFormat::Csv,
                "binary" => format = CopyFormat::Binary,
                "delimiter" => delimiter = Some(value()),
                "null" => null = Some(value()),
                "quote" => quote = Some(value()),
                "escape" => escape = Some(value()),
                "header" | "freeze" => {
                    let is_value = |(word, _): &(String, bool)| {
                        matches!(word.as_str(), "true" | "on" | "1" | "match" | "false" | "off" | "0")
                    };
                    let setting = tokens.next_if(is_value).map(|(setting, _)| setting);
                    if word == "header" && setting.as_deref() == Some("match") {
                        return refused("HEADER MATCH of COPY is not supported".into());
                    }
                    if word == "header" {
                        header = !matches!(setting.as_deref(), Some("false" | "off" | "0"));
                    }
                }
                "encoding" => {
                    let encoding = value();
                    if !matches!(encoding.to_lowercase().as_str(), "utf8" | "utf-8" | "unicode") {
                        return refused(format!("COPY in the encoding {encoding} is not supported"));
                    }
                }
                "force_quote" | "force" => match (word.as_str(), value().as_str()) {
                    ("force_quote", "*") => force_quote = true,
                    ("force", "quote") if value() == "*" => force_quote = true,
                    _ => return refused("FORCE of some columns is not supported".into()),
                },
                other => return refused(format!("COPY option \"{other}\" is not supported")),
            }
        }
        let is_csv = format == CopyFormat::Csv;
        let byte = |text: Option<String>, default: u8, what: &str| match text.as_deref().map(str::as_bytes) {
            None => Ok(default),
            Some([byte]) => Ok(*byte),
            Some(_) => {
                let message = format!("COPY {what} must be a single one-byte character");
                Err(SqlError::new("0A000", message))
            }
        };
        let quote = byte(quote, b'"', "quote")?;
        Ok(Self {
            format,
            delimiter: byte(delimiter, if is_csv { b',' } else { b'\t' }, "delimiter")?,
            null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".into() }),
            header,
            quote,
            escape: byte(escape, quote, "escape")?,
            force_quote,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_options_are_read() {
        let csv = CopyOptions::parse(" WITH (FORMAT csv, HEADER true, DELIMITER ';', NULL 'x''y')").unwrap();
        assert_eq!(
            (csv.format, csv.header, csv.delimiter, csv.null.as_str()),
            (CopyFormat::Csv, true, b';', "x'y")
        );
        let old = CopyOptions::parse("WITH CSV HEADER QUOTE AS '|' FORCE QUOTE *").unwrap();
        assert_eq!((old.format, old.header, old.quote, old.escape), (CopyFormat::Csv, true, b'|', b'|'));
        assert!(old.force_quote);
        let text = CopyOptions::parse("with (freeze on, delimiter E'\\t')").unwrap();
        assert_eq!(
            (text.format, text.header, text.delimiter, text.null.as_str()),
            (CopyFormat::Text, false, b'\t', "\\N")
        );
        assert_eq!(CopyOptions::parse("(FORMAT xml)").unwrap_err().sqlstate, "22023");
        assert_eq!(CopyOptions::parse("(DELIMITER 'ab')").unwrap_err().sqlstate, "0A000");
    }
}
