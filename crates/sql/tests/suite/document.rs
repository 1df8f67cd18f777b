//! `docs/sql.md` says what is supported: its examples are run, and its lists follow from the tables.
//!
//! With REPRISE_WRITE_EXPECTED=1 the lists are written anew.

use procedure::{CASTS, CastContext, Form, Kind, built_ins, operators};
use sql::{Schema, StatementError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sql.md");
/// The line behind which the lists begin.
const LISTS: &str = "## Functions\n";

/// A line of a table: what it is about, whether it is supported, and its example.
struct Line<'a> {
    supported: &'a str,
    example: &'a str,
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let line = |line: &'_ str| -> Option<(usize, usize)> {
        let (start, end) = (line.find('`')?, line.rfind('`')?);
        (line.starts_with("| ") && line.ends_with("` |") && start < end).then_some((start + 1, end))
    };
    let of = |own| {
        let (start, end) = line(own)?;
        let supported = own[..start].split(" | ").nth(1)?;
        Some(Line { supported, example: &own[start..end] })
    };
    text.lines().filter_map(of).collect()
}

fn accepted(schema: &Schema, statement: &str) -> Result<(), StatementError> {
    match schema.apply(statement) {
        // A statement of a client that is not part of scripts.
        Err(error) if error.error.message == "this statement is not supported" => {
            schema.prepare(statement, &[]).map(|_| ())
        }
        Err(error) => match schema.prepare(statement, &[]) {
            Ok(Some(prepared))
                if matches!(
                    prepared.kind,
                    sql::Kind::Advisory(_) | sql::Kind::Sleep(_) | sql::Kind::Filled(_)
                ) =>
            {
                Ok(())
            }
            _ => Err(error),
        },
        Ok(_) => Ok(()),
    }
}

/// Returns a statement as a session with temporary relations resolves its names.
fn in_session(schema: &Schema, statement: &str) -> Result<String, StatementError> {
    let resolved = schema.resolved(statement, &Schema::temporary_schema(1))?;
    Ok(resolved.map_or_else(|| statement.to_owned(), |resolved| resolved.text))
}

/// Whether the last statement of an example is accepted; those before it must be.
fn accepted_at_last(schema: &Schema, example: &str) -> Result<(), StatementError> {
    let mut statements = Schema::split(example)?;
    let Some((last, ..)) = statements.pop() else { return Ok(()) };
    let mut schema = schema.clone();
    for (statement, ..) in statements {
        let statement =
            in_session(&schema, &statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        schema = schema.apply(&statement).unwrap_or_else(|error| panic!("{statement}: {error}")).0;
    }
    accepted(&schema, &in_session(&schema, &last)?)
}

#[test]
fn examples_are_accepted_or_refused_as_the_document_says() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let script = text.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut schema = Schema::default();
    for (statement, ..) in Schema::split(script).unwrap() {
        schema = schema.apply(&statement).unwrap_or_else(|error| panic!("{statement}: {error}")).0;
    }
    let lines = lines(text.split(LISTS).next().unwrap());
    assert!(lines.len() > 90, "only {} examples are found", lines.len());
    let mut wrong = Vec::new();
    for Line { supported, example } in lines {
        let answer = match accepted_at_last(&schema, example) {
            Ok(()) => "yes".to_owned(),
            Err(error) if error.error.sqlstate == "0A000" && error.line > 0 => "no".to_owned(),
            Err(error) => error.to_string(),
        };
        let expected = if supported == "differs" { "yes" } else { supported };
        if answer != expected {
            wrong.push(format!("{example}: \"{supported}\", but {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn kinds(kinds: &[Kind]) -> String {
    kinds.iter().map(Kind::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the lists of functions, operators and casts.
fn lists() -> String {
    let mut functions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for own in built_ins().filter(|own| !own.is_for_variadic) {
        let dots = if own.is_variadic { ", …" } else { "" };
        let result = match own.form {
            Form::Rows(_) | Form::Elements(_) => format!("rows of {}", own.result),
            _ => own.result.to_string(),
        };
        let signature = format!("`({}{dots})` → {result}", kinds(own.arguments));
        functions.entry(own.name).or_default().push(signature);
    }
    let mut text = format!("{LISTS}\n| Function | Arguments and result |\n|---|---|\n");
    for (name, signatures) in functions {
        let _ = writeln!(text, "| `{name}` | {} |", signatures.join("; "));
    }
    let mut symbols: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for own in operators() {
        let signature = format!("({}) → {}", kinds(own.operands), own.result);
        symbols.entry(own.symbol).or_default().push(signature);
    }
    text += "\n## Operators\n\n| Operator | Operands and result |\n|---|---|\n";
    for (symbol, signatures) in symbols {
        let _ = writeln!(text, "| `{}` | {} |", symbol.replace('|', "\\|"), signatures.join("; "));
    }
    text +=
        "\n## Casts\n\nEvery type is also cast to a text where it is assigned, and from a text where the ";
    text += "cast is written.\n\n";
    text += "| From | To | Where |\n|---|---|---|\n";
    for (from, to, context) in CASTS {
        let place = match context {
            CastContext::Implicit => "everywhere",
            CastContext::Assignment => "where a value is assigned, or a cast is written",
            _ => "where a cast is written",
        };
        let _ = writeln!(text, "| {from} | {to} | {place} |");
    }
    text
}

#[test]
fn lists_are_those_of_the_tables() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let (before, own) = text.split_once(LISTS).unwrap_or((&text, ""));
    let expected = lists();
    if std::env::var("REPRISE_WRITE_EXPECTED").is_ok() {
        std::fs::write(Path::new(FILE), format!("{before}{expected}")).unwrap();
    } else {
        let hint = "REPRISE_WRITE_EXPECTED=1 writes the lists";
        assert!(format!("{LISTS}{own}") == expected, "docs/sql.md has other lists: {hint}");
    }
}
