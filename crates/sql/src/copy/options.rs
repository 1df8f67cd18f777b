//! The options of COPY, in both forms: `WITH (FORMAT csv, …)` and `CSV HEADER …`.
//! Source: PostgreSQL's documentation of COPY.

use crate::StatementError;
use crate::binder::Binder;
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{SyntaxNode, SyntaxToken};

/// The format of rows of a COPY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// The byte between columns.
    pub delimiter: u8,
    /// The text for NULL.
    pub null: String,
    /// The first line.
    pub header: Header,
    /// The byte that quotes a value of CSV.
    pub quote: u8,
    /// The byte before a quote inside a quoted value.
    pub escape: u8,
    /// The columns of COPY TO whose values are quoted unless they are NULL.
    pub force_quote: Forced,
    /// The columns of COPY FROM in which the text for NULL is that text.
    pub force_not_null: Vec<String>,
    /// The columns of COPY FROM in which the text for NULL is NULL in quotes, too.
    pub force_null: Vec<String>,
    /// Whether COPY FROM fails unless its transaction has made or truncated the table.
    pub freezes: bool,
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

/// The first line of a COPY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// It is a row.
    Row,
    /// It has the names of the columns, which are not read.
    Names,
    /// It has the names of the columns, which must be those of the table.
    Match,
}

/// Columns of a COPY.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forced {
    /// All of them.
    All,
    /// Those with these names.
    Columns(Vec<String>),
}

/// An option as it is written.
struct Given {
    name: String,
    value: Value,
    node: SyntaxNode,
}

/// The value of an option.
enum Value {
    Absent,
    Text(String),
    All,
    Columns(Vec<String>),
}

fn unavailable(message: impl Into<String>) -> SqlError {
    SqlError::new("0A000", message)
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("22023", message)
}

/// Returns what is written in a node, without the space around it.
fn word(node: &SyntaxNode) -> String {
    node.text().to_string().trim().to_lowercase()
}

/// Returns the options in the form of a list in parentheses.
fn listed(list: &ast::CopyOptionList, binder: &Binder<'_>) -> Result<Vec<Given>, StatementError> {
    let options = list.copy_options().map(|option| {
        let node = option.syntax().clone();
        let key = binder.part(option.copy_option_key(), &node)?;
        let name = ast::normalize_name_node(key.syntax());
        let value = match option.copy_option_value() {
            None => Value::Absent,
            Some(value) if value.star_token().is_some() => Value::All,
            Some(value) => match (value.copy_option_arg_list(), value.expr()) {
                (Some(list), _) => {
                    let columns =
                        list.copy_option_args().map(|column| match column.copy_option_value_name() {
                            Some(name) => ast::normalize_name_node(name.syntax()),
                            None => word(column.syntax()),
                        });
                    Value::Columns(columns.collect())
                }
                (None, Some(ast::Expr::Literal(literal)))
                    if literal.syntax().text().to_string().contains('\'') =>
                {
                    Value::Text(binder.string_of(&literal)?.unwrap_or_default())
                }
                _ => Value::Text(word(value.syntax())),
            },
        };
        Ok(Given { name, value, node })
    });
    options.collect()
}

/// Returns the options in the form of words.
fn worded(
    options: impl Iterator<Item = ast::CopyLegacyOption>,
    binder: &Binder<'_>,
) -> Result<Vec<Given>, StatementError> {
    let given = options.map(|option| {
        let node = option.syntax().clone();
        let columns = || match option.star_token() {
            Some(_) => Value::All,
            None => {
                let names = option.column_name_refs();
                Value::Columns(names.map(|name| ast::normalize_name_node(name.syntax())).collect())
            }
        };
        let first = node.first_token().map(|token: SyntaxToken| token.text().to_lowercase());
        let (name, value) = match (first.unwrap_or_default().as_str(), option.copy_force_kind()) {
            (_, Some(ast::CopyForceKind::ForceNotNull(_))) => ("force_not_null".to_owned(), columns()),
            (_, Some(ast::CopyForceKind::ForceNull(_))) => ("force_null".to_owned(), columns()),
            (_, Some(ast::CopyForceKind::ForceQuote(_))) => ("force_quote".to_owned(), columns()),
            (format @ ("csv" | "binary"), _) => ("format".to_owned(), Value::Text(format.to_owned())),
            (name, _) => {
                let text = option.literal().map(|literal| binder.string_of(&literal)).transpose()?.flatten();
                (name.to_owned(), text.map_or(Value::Absent, Value::Text))
            }
        };
        Ok(Given { name, value, node })
    });
    given.collect()
}

impl Given {
    fn text(&self) -> Result<&str, SqlError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            Value::Absent => Err(SqlError::new("42601", format!("{} requires a parameter", self.name))),
            Value::All => Ok("*"),
            Value::Columns(_) => Err(SqlError::new("42601", format!("{} takes one value", self.name))),
        }
    }

    /// Returns a Boolean value; `None` if the value is none.
    fn boolean(&self) -> Option<bool> {
        match &self.value {
            Value::Absent => Some(true),
            Value::Text(text) => match text.to_lowercase().as_str() {
                "true" | "on" | "1" => Some(true),
                "false" | "off" | "0" => Some(false),
                _ => None,
            },
            Value::All | Value::Columns(_) => None,
        }
    }

    fn header(&self, is_in: bool) -> Result<Header, SqlError> {
        match (self.boolean(), &self.value) {
            (Some(true), _) => Ok(Header::Names),
            (Some(false), _) => Ok(Header::Row),
            (None, Value::Text(text)) if text.eq_ignore_ascii_case("match") => match is_in {
                true => Ok(Header::Match),
                false => Err(unavailable("cannot use \"match\" with HEADER in COPY TO")),
            },
            _ => {
                let message = format!("{} requires a Boolean value or \"match\"", self.name);
                Err(SqlError::new("42601", message))
            }
        }
    }

    fn columns(&self) -> Result<Vec<String>, SqlError> {
        match &self.value {
            Value::Columns(columns) => Ok(columns.clone()),
            _ => {
                let name = &self.name;
                Err(invalid(format!("argument to option \"{name}\" must be a list of column names")))
            }
        }
    }
}

/// The options of a COPY as far as they are read.
#[derive(Default)]
struct Chosen {
    format: Option<CopyFormat>,
    freezes: bool,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Forced>,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
}

impl Chosen {
    fn add(&mut self, given: &Given, is_in: bool) -> Result<(), SqlError> {
        match given.name.as_str() {
            "format" => {
                self.format = Some(match given.text()? {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(invalid(format!("COPY format \"{other}\" not recognized"))),
                });
            }
            "freeze" => {
                let refused = || SqlError::new("42601", format!("{} requires a Boolean value", given.name));
                self.freezes = given.boolean().ok_or_else(refused)?;
            }
            "delimiter" => self.delimiter = Some(given.text()?.to_owned()),
            "null" => self.null = Some(given.text()?.to_owned()),
            "header" => self.header = Some(given.header(is_in)?),
            "quote" => self.quote = Some(given.text()?.to_owned()),
            "escape" => self.escape = Some(given.text()?.to_owned()),
            "force_quote" => {
                self.force_quote = Some(match given.value {
                    Value::All => Forced::All,
                    _ => Forced::Columns(given.columns()?),
                });
            }
            "force_not_null" => self.force_not_null = Some(given.columns()?),
            "force_null" => self.force_null = Some(given.columns()?),
            "encoding" => {
                let encoding = given.text()?;
                if !matches!(encoding.to_lowercase().as_str(), "utf8" | "utf-8" | "unicode") {
                    return Err(unavailable(format!("COPY in the encoding {encoding} is not supported")));
                }
            }
            other => return Err(SqlError::new("42601", format!("option \"{other}\" not recognized"))),
        }
        Ok(())
    }

    /// Returns the options with their defaults.
    ///
    /// # Errors
    /// PostgreSQL's errors of options that do not fit together.
    fn complete(self, is_in: bool) -> Result<CopyOptions, SqlError> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let is_csv = format == CopyFormat::Csv;
        if format == CopyFormat::Binary {
            self.check_binary()?;
        }
        let byte = |text: &str, what: &str| match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(unavailable(format!("COPY {what} must be a single one-byte character"))),
        };
        let given = self.delimiter.as_deref();
        let delimiter = byte(given.unwrap_or(if is_csv { "," } else { "\t" }), "delimiter")?;
        if matches!(delimiter, b'\n' | b'\r') {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        let null = self.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".into() });
        if null.contains(['\n', '\r']) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if !is_csv && matches!(delimiter, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9') {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
        }
        if !is_csv && self.quote.is_some() {
            return Err(unavailable("COPY quote available only in CSV mode"));
        }
        let quote = byte(self.quote.as_deref().unwrap_or("\""), "quote")?;
        if is_csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if !is_csv && self.escape.is_some() {
            return Err(unavailable("COPY escape available only in CSV mode"));
        }
        let escape = self.escape.as_deref().map_or(Ok(quote), |escape| byte(escape, "escape"))?;
        let forces = [
            ("quote", self.force_quote.is_some(), false),
            ("not null", self.force_not_null.is_some(), true),
            ("null", self.force_null.is_some(), true),
        ];
        for (what, _, of_input) in forces.into_iter().filter(|(_, is_given, _)| *is_given) {
            if !is_csv {
                return Err(unavailable(format!("COPY force {what} available only in CSV mode")));
            }
            if of_input != is_in {
                let direction = if of_input { "FROM" } else { "TO" };
                return Err(unavailable(format!("COPY force {what} only available using COPY {direction}")));
            }
        }
        if null.as_bytes().contains(&delimiter) {
            return Err(unavailable("COPY delimiter must not appear in the NULL specification"));
        }
        if is_csv && null.as_bytes().contains(&quote) {
            return Err(unavailable("CSV quote character must not appear in the NULL specification"));
        }
        Ok(CopyOptions {
            format,
            delimiter,
            null,
            header: self.header.unwrap_or(Header::Row),
            quote,
            escape,
            force_quote: self.force_quote.unwrap_or_else(|| Forced::Columns(Vec::new())),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
            freezes: self.freezes && is_in,
        })
    }

    fn check_binary(&self) -> Result<(), SqlError> {
        if self.delimiter.is_some() {
            return Err(SqlError::new("42601", "cannot specify DELIMITER in BINARY mode"));
        }
        if self.null.is_some() {
            return Err(SqlError::new("42601", "cannot specify NULL in BINARY mode"));
        }
        match self.header {
            Some(Header::Names | Header::Match) => Err(unavailable("cannot specify HEADER in BINARY mode")),
            _ => Ok(()),
        }
    }
}

impl CopyOptions {
    /// Returns the names of options that name columns, and these columns.
    pub(super) fn forced(&self) -> [(&'static str, &[String]); 3] {
        let quoted = match &self.force_quote {
            Forced::All => &[],
            Forced::Columns(columns) => columns.as_slice(),
        };
        [("FORCE_QUOTE", quoted), ("FORCE_NOT_NULL", &self.force_not_null), ("FORCE_NULL", &self.force_null)]
    }

    /// Reads the options of a COPY, whose rows come in if `is_in`.
    ///
    /// # Errors
    /// PostgreSQL's errors. `0A000`: another encoding than UTF-8.
    pub(super) fn read(copy: &ast::Copy, is_in: bool, binder: &Binder<'_>) -> Result<Self, StatementError> {
        let mut given = match copy.copy_option_list() {
            Some(list) => listed(&list, binder)?,
            None => worded(copy.copy_legacy_options(), binder)?,
        };
        // `COPY BINARY t`.
        if let Some(table) = copy.copy_table().filter(|table| table.binary_token().is_some()) {
            let (name, value) = ("format".to_owned(), Value::Text("binary".to_owned()));
            given.insert(0, Given { name, value, node: table.syntax().clone() });
        }
        let mut chosen = Chosen::default();
        for (position, option) in given.iter().enumerate() {
            let at = |error| binder.error(&option.node, error);
            if given[..position].iter().any(|before| before.name == option.name) {
                return Err(at(SqlError::new("42601", "conflicting or redundant options")));
            }
            chosen.add(option, is_in).map_err(at)?;
        }
        chosen.complete(is_in).map_err(|error| binder.error(copy.syntax(), error))
    }
}
