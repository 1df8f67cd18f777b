//! Chooses the built-in set-returning function of a call, with its arguments and columns.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::system::keywords;
use catalog::{ScalarType, Type};
use procedure::query::TableFunction;
use procedure::{Expression, Form, Function, Kind, SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;

/// A column of a set-returning function: its name, or `None` for the name of the function, and its type.
pub(super) type SetColumn = (Option<&'static str>, Type);

/// A built-in set-returning function, with its arguments and columns.
pub(super) struct SetFunction {
    pub(super) function: TableFunction,
    pub(super) arguments: Vec<Expression>,
    pub(super) columns: Vec<SetColumn>,
}

/// Returns whether a name is that of a built-in set-returning function.
pub(crate) fn returns_set(name: &str) -> bool {
    built_ins_named(name).iter().any(|entry| entry.returns_rows())
}

/// Returns whether a built-in function returns records, whose columns the statement defines.
pub(super) fn returns_record(name: &str) -> bool {
    built_ins_named(name).iter().any(|entry| entry.result == Kind::Record)
}

/// Arrays with their types, and the columns that contain their elements.
pub(super) type CatalogRows = (Vec<(Expression, Type)>, Vec<SetColumn>);

/// Returns the rows of a function over the catalogs, as one array for each column; `None` for any other
/// function.
pub(super) fn catalog_rows(name: &str) -> Option<CatalogRows> {
    let text = ScalarType::Text;
    let none = |ty| (Expression::Array(Vec::new()), Type::Array(ty));
    Some(match name {
        "pg_get_keywords" => {
            let types = [text, text, text, ScalarType::Boolean, text];
            let names = ["word", "catcode", "catdesc", "barelabel", "baredesc"];
            let arrays = keywords().into_iter().zip(types);
            let arrays =
                arrays.map(|(elements, ty)| (Expression::Array(elements), Type::Array(ty))).collect();
            let columns = names.into_iter().zip(types).map(|(name, ty)| (Some(name), ty.into()));
            (arrays, columns.collect())
        }
        // No object has options.
        "pg_options_to_table" => {
            let columns = ["option_name", "option_value"].map(|name| (Some(name), text.into()));
            (vec![none(text), none(text)], columns.to_vec())
        }
        _ => return None,
    })
}

impl Binder<'_> {
    /// Returns the built-in set-returning function that a name and the types of its arguments denote.
    pub(super) fn set_function(
        &mut self,
        name: &str,
        arguments: Vec<Typed>,
        node: &SyntaxNode,
    ) -> Result<SetFunction, StatementError> {
        if name == "unnest" {
            let settle = |array: Typed| self.settle(array, None, node);
            let arrays = arguments.into_iter().map(settle).collect::<Result<Vec<_>, _>>()?;
            let mut columns = Vec::new();
            for (_, ty) in &arrays {
                let Type::Array(element) = ty else {
                    let error = SqlError::new("42883", format!("function unnest({ty}) does not exist"));
                    return Err(self.error(node, error));
                };
                columns.push((None, Type::Scalar(*element)));
            }
            let arguments = arrays.into_iter().map(|(value, _)| value).collect();
            return Ok(SetFunction { function: TableFunction::Unnest, arguments, columns });
        }
        let arguments = match name {
            "generate_subscripts" => self.bounds_of_subscripts(arguments, node)?,
            _ => arguments,
        };
        // `generate_subscripts` is the series from the first to the last subscript.
        let name = if name == "generate_subscripts" { "generate_series" } else { name };
        let entries = built_ins_named(name).iter().copied();
        let entries: Vec<_> =
            entries.filter(|entry| entry.returns_rows() && entry.takes(arguments.len())).collect();
        if entries.is_empty() {
            return Err(self.no_function(name, &arguments, node));
        }
        let entry = self.chosen(name, &entries, &arguments, node)?;
        let (values, ty) = self.arguments_of_entry(entry, entry.arguments, arguments, node)?;
        Ok(match entry.form {
            Form::Rows(function) => {
                let columns = match function {
                    TableFunction::Json(rows) => rows.columns(),
                    _ => vec![(None, ty)],
                };
                SetFunction { function, arguments: values, columns }
            }
            _ => {
                // No set-returning function with such a form has polymorphic arguments.
                let made = Function::BuiltIn { built_in: entry, element: ScalarType::Text };
                let array = Expression::Function { function: made, arguments: values };
                let columns = vec![(None, ty)];
                SetFunction { function: TableFunction::Unnest, arguments: vec![array], columns }
            }
        })
    }
}
