//! Functions that format other values as texts: quoting, `format`, numbers in other bases.
//! Source: PostgreSQL 15's documentation, "String Functions and Operators" and "format".

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::Datum;

const TEXT: Kind = Kind::TEXT;

pub(super) static FORMATTING: &[BuiltIn] = &[
    BuiltIn::of("format", &[TEXT], TEXT, format).taking_null(),
    BuiltIn::of("format", &[TEXT, Kind::Any], TEXT, format).taking_null().variadic(),
    BuiltIn::of("quote_ident", &[TEXT], TEXT, |call| {
        let quoted = quoted_name(call.text(0));
        call.made(quoted)
    }),
    BuiltIn::of("quote_literal", &[TEXT], TEXT, quote),
    BuiltIn::of("quote_literal", &[Kind::AnyNonArray], TEXT, quote),
    BuiltIn::of("quote_nullable", &[TEXT], TEXT, quote_nullable).taking_null(),
    BuiltIn::of("quote_nullable", &[Kind::AnyNonArray], TEXT, quote_nullable).taking_null(),
    BuiltIn::of("to_hex", &[Kind::INT4], TEXT, |call| {
        let made = format!("{:x}", call.int(0) as i32);
        call.made(made)
    }),
    BuiltIn::of("to_hex", &[Kind::INT8], TEXT, |call| {
        let made = format!("{:x}", call.int(0));
        call.made(made)
    }),
];

/// Returns a name as it is written in SQL, in quotes if it needs them.
pub fn quoted_name(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain && !is_reserved(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Returns whether a name is a keyword that PostgreSQL's `quote_ident` quotes: one that is not unreserved.
fn is_reserved(name: &str) -> bool {
    const RESERVED: &[&str] = &[
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "authorization",
        "between",
        "bigint",
        "binary",
        "bit",
        "boolean",
        "both",
        "case",
        "cast",
        "char",
        "character",
        "check",
        "coalesce",
        "collate",
        "collation",
        "column",
        "concurrently",
        "constraint",
        "create",
        "cross",
        "current_catalog",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "dec",
        "decimal",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "exists",
        "extract",
        "false",
        "fetch",
        "float",
        "for",
        "foreign",
        "freeze",
        "from",
        "full",
        "grant",
        "greatest",
        "group",
        "grouping",
        "having",
        "ilike",
        "in",
        "initially",
        "inner",
        "inout",
        "int",
        "integer",
        "intersect",
        "interval",
        "into",
        "is",
        "isnull",
        "join",
        "lateral",
        "leading",
        "least",
        "left",
        "like",
        "limit",
        "localtime",
        "localtimestamp",
        "national",
        "natural",
        "nchar",
        "none",
        "normalize",
        "not",
        "notnull",
        "null",
        "nullif",
        "numeric",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "out",
        "outer",
        "overlaps",
        "overlay",
        "placing",
        "position",
        "precision",
        "primary",
        "real",
        "references",
        "returning",
        "right",
        "row",
        "select",
        "session_user",
        "setof",
        "similar",
        "smallint",
        "some",
        "substring",
        "symmetric",
        "table",
        "tablesample",
        "then",
        "time",
        "timestamp",
        "to",
        "trailing",
        "treat",
        "trim",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "values",
        "varchar",
        "variadic",
        "verbose",
        "when",
        "where",
        "window",
        "with",
        "xmlattributes",
        "xmlconcat",
        "xmlelement",
        "xmlexists",
        "xmlforest",
        "xmlnamespaces",
        "xmlparse",
        "xmlpi",
        "xmlroot",
        "xmlserialize",
        "xmltable",
    ];
    RESERVED.binary_search(&name).is_ok()
}

/// Returns a text as a literal of SQL.
fn quoted_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

fn quote(call: Call) -> Evaluated {
    let quoted = quoted_literal(call.text(0));
    call.made(quoted)
}

fn quote_nullable(call: Call) -> Evaluated {
    if call.is_null(0) { call.made("NULL") } else { quote(call) }
}

/// A placeholder of `format`: `%[position$][-][width]type`.
struct Placeholder {
    position: Option<usize>,
    is_left: bool,
    width: Width,
    conversion: char,
}

enum Width {
    Fixed(usize),
    /// An argument: the next one, or the one at a position.
    Argument(Option<usize>),
}

fn refused(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new("22023", message).into()
}

/// Reads a number at the start of a text. Returns it with the remaining text.
fn number(text: &str) -> Result<(Option<usize>, &str), Box<SqlError>> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, remaining) = text.split_at(end);
    if digits.is_empty() {
        return Ok((None, remaining));
    }
    let value: i32 = digits.parse().map_err(|_| SqlError::new("22003", "number is out of range"))?;
    Ok((Some(value.unsigned_abs() as usize), remaining))
}

/// Reads a placeholder after its `%`. Returns it with the remaining text.
fn read_placeholder(text: &str) -> Result<(Placeholder, &str), Box<SqlError>> {
    let ended = || {
        let hint = "For a single \"%\" use \"%%\".";
        Box::new(SqlError::new("22023", "unterminated format() type specifier").with_hint(hint))
    };
    let zero = || refused("format specifies argument 0, but arguments are numbered from 1");
    let mut placeholder =
        Placeholder { position: None, is_left: false, width: Width::Fixed(0), conversion: ' ' };
    let (first, mut remaining) = number(text)?;
    let mut width = first;
    if let (Some(position), Some(behind)) = (first, remaining.strip_prefix('$')) {
        if position == 0 {
            return Err(zero());
        }
        (placeholder.position, remaining, width) = (Some(position), behind, None);
    }
    if width.is_none() {
        while let Some(behind) = remaining.strip_prefix('-') {
            (placeholder.is_left, remaining) = (true, behind);
        }
        if let Some(behind) = remaining.strip_prefix('*') {
            let (position, after) = number(behind)?;
            remaining = match (position, after.strip_prefix('$')) {
                (Some(0), _) => return Err(zero()),
                (Some(_), None) => return Err(refused("width argument position must be ended by \"$\"")),
                (Some(_), Some(after)) => after,
                (None, _) => behind,
            };
            placeholder.width = Width::Argument(position);
        } else {
            (width, remaining) = number(remaining)?;
        }
    }
    if let Some(width) = width {
        placeholder.width = Width::Fixed(width);
    }
    placeholder.conversion = remaining.chars().next().ok_or_else(ended)?;
    let behind = &remaining[placeholder.conversion.len_utf8()..];
    Ok((placeholder, behind))
}

/// `format(template, …)`. The arguments are texts, as the outputs of their types show them.
fn format(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(Datum::Null);
    }
    let (mut made, mut remaining, mut next) = (String::new(), call.text(0), 1);
    let argument = |position: Option<usize>, next: &mut usize| {
        let index = position.unwrap_or(*next);
        *next = index + 1;
        match index < call.count() {
            true => Ok(index),
            false => Err(refused("too few arguments for format()")),
        }
    };
    while let Some(at) = remaining.find('%') {
        made.push_str(&remaining[..at]);
        if let Some(behind) = remaining[at + 1..].strip_prefix('%') {
            made.push('%');
            remaining = behind;
            continue;
        }
        let (mut placeholder, behind) = read_placeholder(&remaining[at + 1..])?;
        remaining = behind;
        if !matches!(placeholder.conversion, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{}\"", placeholder.conversion);
            return Err(SqlError::new("22023", message).with_hint("For a single \"%\" use \"%%\".").into());
        }
        let width = match placeholder.width {
            Width::Fixed(width) => width,
            Width::Argument(position) => {
                let text = call.text(argument(position, &mut next)?);
                let invalid =
                    || SqlError::new("22P02", format!("invalid input syntax for type integer: \"{text}\""));
                let width: i32 = if text.is_empty() { 0 } else { text.parse().map_err(|_| invalid())? };
                placeholder.is_left |= width < 0;
                width.unsigned_abs() as usize
            }
        };
        let index = argument(placeholder.position, &mut next)?;
        let text = match (placeholder.conversion, call.is_null(index)) {
            ('s', true) => String::new(),
            ('L', true) => "NULL".into(),
            (_, true) => {
                return Err(
                    SqlError::new("22004", "null values cannot be formatted as an SQL identifier").into()
                );
            }
            ('I', false) => quoted_name(call.text(index)),
            ('L', false) => quoted_literal(call.text(index)),
            _ => call.text(index).to_owned(),
        };
        let padding = width.saturating_sub(text.chars().count());
        call.machine.ask_longer(&made, text.len() + padding)?;
        let padding = " ".repeat(padding);
        let (before, behind) =
            if placeholder.is_left { ("", padding.as_str()) } else { (padding.as_str(), "") };
        made.extend([before, &text, behind]);
    }
    made.push_str(remaining);
    call.made(made)
}
