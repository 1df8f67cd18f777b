//! COPY: the statement that it is executed as, and the format of its rows.

mod options;

use crate::StatementError;
use crate::binder::Binder;
use crate::full_names::short;
use crate::quoted::quoted;
use crate::schema::{Schema, unsupported};
use crate::source::Source;
use crate::types::object_name;
use catalog::{Table, Trigger, TriggerEvent};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

pub use options::{CopyFormat, CopyOptions, Forced, Header};

/// A copy of rows from or to the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Whether rows come from the client.
    pub is_in: bool,
    /// The statement that it is executed as: an INSERT of one row of parameters, or a query.
    pub text: String,
    /// The table without its schema; `None`: rows of a query.
    pub table: Option<String>,
    /// The columns of the table; empty for a query.
    pub columns: Vec<String>,
    /// The format of rows.
    pub options: CopyOptions,
}

impl Schema {
    /// Reads a COPY statement.
    pub(crate) fn copy(&self, copy: &ast::Copy, source: &Source) -> Result<Copy, StatementError> {
        let node = copy.syntax();
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
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
        let options = CopyOptions::read(copy, is_in, &Binder::new(self, source))?;
        match (copy.copy_query(), copy.copy_table()) {
            (Some(query), _) if !is_in => {
                let text = source.text_of(query.syntax()).trim();
                let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(text);
                let (text, table, columns) = (text.to_owned(), None, Vec::new());
                Ok(Copy { is_in, text, table, columns, options })
            }
            (_, Some(table)) => self.copy_of_table(&table, is_in, options, node, source),
            _ => Err(unsupported(source, node, "this form of COPY")),
        }
    }

    fn copy_of_table(
        &self,
        table: &ast::CopyTable,
        is_in: bool,
        options: CopyOptions,
        node: &SyntaxNode,
        source: &Source,
    ) -> Result<Copy, StatementError> {
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
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
        let mut columns: Vec<String> = names.map(|name| ast::normalize_name_node(name.syntax())).collect();
        if columns.is_empty() {
            let copied = definition.visible().iter().filter(|column| !column.generated);
            columns = copied.map(|column| column.name.clone()).collect();
        } else if let Some(column) =
            definition.visible().iter().find(|column| column.generated && columns.contains(&column.name))
        {
            let message = format!("column \"{}\" is a generated column", column.name);
            let error = SqlError::new("42P10", message);
            return Err(at(error.with_detail("Generated columns cannot be used in COPY.")));
        }
        for (option, forced) in options.forced() {
            check_forced(option, forced, &columns, definition, short(&name)).map_err(at)?;
        }
        let list = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let path = name.split('.').map(quoted).collect::<Vec<_>>().join(".");
        let text = if is_in {
            let parameters: Vec<_> = (1..=columns.len()).map(|n| format!("${n}")).collect();
            let parameters = parameters.join(", ");
            format!("INSERT INTO {path} ({list}) OVERRIDING SYSTEM VALUE VALUES ({parameters})")
        } else {
            format!("SELECT {list} FROM {path}")
        };
        Ok(Copy { is_in, text, table: Some(short(&name).to_owned()), columns, options })
    }
}

/// Checks the columns of an option: the table has each of them, and the COPY, too, and once.
fn check_forced(
    option: &str,
    forced: &[String],
    columns: &[String],
    table: &Table,
    name: &str,
) -> Result<(), SqlError> {
    for (place, column) in forced.iter().enumerate() {
        if !table.visible().iter().any(|known| known.name == *column) {
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            return Err(SqlError::new("42703", message));
        }
        if forced[..place].contains(column) {
            return Err(SqlError::new("42701", format!("column \"{column}\" specified more than once")));
        }
        if !columns.contains(column) {
            let message = format!("{option} column \"{column}\" not referenced by COPY");
            return Err(SqlError::new("42P10", message));
        }
    }
    Ok(())
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
