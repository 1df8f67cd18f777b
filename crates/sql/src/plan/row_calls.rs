//! Calls of the schema's functions of rows as values: `f(x)`, `(f(x)).a`, `(f(x)).*`.

use super::applied::{RowsCall, add_rows};
use super::{Applied, Binder, apply_ahead, sets};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::query::{OutputColumn, Plan, Query};
use procedure::{Expression, Procedure, Register, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

fn values_of(columns: Vec<(Register, Type)>) -> impl Iterator<Item = Typed> {
    columns.into_iter().map(|(register, ty)| Typed::Known(Expression::Register(register), ty))
}

/// The fields of a row, by name.
pub(crate) type Fields = Vec<(String, Typed)>;

/// The row of a call of a function that returns one row.
pub(crate) struct CalledRow {
    pub(crate) fields: Fields,
    /// TRUE unless the row is NULL.
    pub(crate) is_present: Expression,
}

/// The first row of a call, and the query that finds it.
pub(crate) struct FirstRow {
    pub(crate) query: Query,
    pub(crate) fields: Fields,
    /// Whether the row is not NULL.
    pub(crate) is_present: Expression,
}

/// Returns a value of a row that is NULL where the row is NULL.
pub(crate) fn if_present(is_present: Expression, value: Expression) -> Expression {
    Expression::Case { branches: vec![(is_present, value)], otherwise: Box::new(Expression::NULL) }
}

impl Binder<'_> {
    /// Returns the names of the columns of a call of a function of rows; `None` for any other call.
    fn columns_of_call(&self, call: &ast::CallExpr) -> Option<Vec<String>> {
        let name = self.callee(call).ok()?;
        let columns = self.schema.procedure(&name)?.rows.as_ref()?;
        Some(columns.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Returns whether a call returns a row, or rows of several columns.
    pub(crate) fn calls_row(&self, call: &ast::CallExpr) -> bool {
        let routine = self.callee(call).ok().and_then(|name| self.schema.procedure(&name));
        routine.is_some_and(|routine| {
            routine.is_row || routine.rows.as_ref().is_some_and(|columns| columns.len() > 1)
        })
    }

    /// Binds a call of a function of one row, which is evaluated before the current expression. As in
    /// PostgreSQL, each reference to a field is a call. Returns `None` for any other call.
    ///
    /// # Errors
    /// `0A000`: no routine can be called in this context. Those of the call.
    pub(crate) fn called_row(&mut self, call: &ast::CallExpr) -> Result<Option<CalledRow>, StatementError> {
        let Ok(name) = self.callee(call) else { return Ok(None) };
        let routine = self.schema.procedure(&name).filter(|routine| routine.is_row).cloned();
        let Some(procedure) = routine else { return Ok(None) };
        let node = call.syntax();
        if self.queries.applied.is_none() && self.lifted.is_none() {
            return Err(self.unsupported(node, &format!("a call of {} in this context", procedure.name)));
        }
        let names = procedure.rows.iter().flatten().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let values = self.lifting_all(node, |binder| {
            let arguments = binder.function_arguments(&procedure, call.arg_list(), node)?;
            let arguments = binder.call_arguments(&procedure, arguments, node)?;
            let columns = binder.registers_of_rows(&procedure);
            binder.note_call(&procedure);
            let registers = columns.iter().map(|(register, _)| *register).collect();
            let applied = binder.queries.applied.get_or_insert_default();
            applied.push(Applied::Row { procedure, arguments, registers });
            Ok(values_of(columns).collect())
        })?;
        let mut values = values.into_iter();
        let fields = names.into_iter().zip(values.by_ref()).collect();
        let is_present = match values.next() {
            Some(Typed::Known(is_present, _)) => is_present,
            _ => Expression::boolean(true),
        };
        Ok(Some(CalledRow { fields, is_present }))
    }

    /// Returns the fields of the rows of a call; `None` for a call of single values.
    pub(crate) fn fields_of_call(&mut self, call: &ast::CallExpr) -> Result<Option<Fields>, StatementError> {
        if let Some(row) = self.called_row(call)? {
            return Ok(Some(row.fields));
        }
        let Some(names) = self.columns_of_call(call) else { return Ok(None) };
        let name = self.callee(call)?;
        let Some(columns) = self.rows_in_list(&name, call)? else { return Ok(None) };
        Ok(Some(names.into_iter().zip(values_of(columns)).collect()))
    }

    /// Returns the row of a call; `None` for a call of single values.
    pub(crate) fn row_of_call(&mut self, call: &ast::CallExpr) -> Result<Option<CalledRow>, StatementError> {
        if let Some(row) = self.called_row(call)? {
            return Ok(Some(row));
        }
        let fields = self.fields_of_call(call)?.filter(|fields| fields.len() > 1);
        Ok(fields.map(|fields| CalledRow { fields, is_present: Expression::boolean(true) }))
    }

    /// Returns the row of a call as a value; `None` for a call of single values.
    pub(crate) fn bind_row_call(&mut self, call: &ast::CallExpr) -> Result<Option<Typed>, StatementError> {
        let Some(CalledRow { fields, is_present }) = self.row_of_call(call)? else { return Ok(None) };
        let row = if_present(is_present, self.row_as_text(fields, call.syntax())?);
        Ok(Some(Typed::Known(row, ScalarType::Record.into())))
    }

    /// Returns a field of the row of a call.
    ///
    /// # Errors
    /// `42703`: the row has no such field.
    pub(crate) fn field_of_call(
        &mut self,
        call: &ast::CallExpr,
        name: &str,
    ) -> Result<Option<Typed>, StatementError> {
        let Some(fields) = self.fields_of_call(call)? else { return Ok(None) };
        match fields.into_iter().find(|(own, _)| own == name) {
            Some((_, value)) => Ok(Some(value)),
            None => {
                let message = format!("column \"{name}\" not found in data type record");
                Err(self.error(call.syntax(), SqlError::new("42703", message)))
            }
        }
    }

    /// Returns new registers for the columns of a function of rows. The last one of a function of one row is
    /// TRUE unless the row is NULL.
    fn registers_of_rows(&mut self, procedure: &Procedure) -> Vec<(Register, Type)> {
        let types = procedure.rows.iter().flatten().map(|(_, ty)| *ty);
        let is_present = procedure.is_row.then_some(ScalarType::Boolean.into());
        types.chain(is_present).map(|ty| (self.new_register(ty), ty)).collect()
    }

    /// Binds a set-returning function in a list of targets. Returns its registers; `None` for any other
    /// function. As in PostgreSQL, an input row for which the function returns no rows is left out.
    ///
    /// # Errors
    /// `0A000`: the call is where no set is allowed. Those of the call.
    pub(crate) fn rows_in_list(
        &mut self,
        name: &str,
        call: &ast::CallExpr,
    ) -> Result<Option<Vec<(Register, Type)>>, StatementError> {
        let node = call.syntax();
        let is_of_rows = |routine: &&Arc<Procedure>| routine.rows.is_some() && !routine.is_row;
        let routine = self.schema.procedure(name).filter(is_of_rows).cloned();
        let is_set = routine.is_some() || name == "_pg_expandarray" || sets::returns_set(name);
        if is_set && name != "_pg_expandarray" {
            self.check_set_placement(node)?;
        }
        let Some(applied) = self.queries.applied.as_ref().filter(|_| is_set) else { return Ok(None) };
        let text = node.text().to_string();
        let calls = applied.iter().filter_map(|applied| match applied {
            Applied::Rows(calls) => Some(calls),
            _ => None,
        });
        if let Some(known) = calls.flatten().find(|call| call.text == text) {
            return Ok(Some(known.columns.clone()));
        }
        let (plan, columns) = match routine {
            Some(procedure) => {
                let arguments = self.function_arguments(&procedure, call.arg_list(), node)?;
                let arguments = self.call_arguments(&procedure, arguments, node)?;
                let columns = self.registers_of_rows(&procedure);
                self.note_call(&procedure);
                let registers = columns.iter().map(|(register, _)| *register).collect();
                (Plan::Rows { procedure, arguments, registers, ordinality: None }, columns)
            }
            None => {
                let arguments = self.plain_arguments(call.arg_list())?;
                let bound =
                    arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
                let is_numbered = name == "_pg_expandarray";
                let set = self.set_function(if is_numbered { "unnest" } else { name }, bound, node)?;
                if set.columns.len() != 1 && name != "unnest" {
                    let what = format!("{name}, which returns rows of several columns, outside FROM");
                    return Err(self.unsupported(node, &what));
                }
                let columns = set.columns.into_iter();
                let mut columns: Vec<_> = columns.map(|(_, ty)| (self.new_register(ty), ty)).collect();
                let registers = columns.iter().map(|(register, _)| *register).collect();
                let ordinality = is_numbered.then(|| self.new_register(ScalarType::BigInt));
                columns.extend(ordinality.map(|register| (register, ScalarType::BigInt.into())));
                let (function, arguments) = (set.function, set.arguments);
                (Plan::Function { function, arguments, registers, ordinality }, columns)
            }
        };
        if let Some(applied) = &mut self.queries.applied
            && !add_rows(applied, RowsCall { text, plan, columns: columns.clone() })
        {
            return Err(self.unsupported(node, "this combination of set-returning functions in one list"));
        }
        Ok(Some(columns))
    }

    /// Binds the first row of a call of a function of rows, in a statement of its own. Returns the query and
    /// the fields; `None` for any other expression.
    pub(crate) fn first_row_of_call(
        &mut self,
        expression: &ast::Expr,
    ) -> Result<Option<FirstRow>, StatementError> {
        let ast::Expr::CallExpr(call) = expression else { return Ok(None) };
        let Some(names) = self.columns_of_call(call) else { return Ok(None) };
        let (name, node, count) = (self.callee(call)?, call.syntax(), names.len());
        let Some(procedure) = self.schema.procedure(&name).cloned() else { return Ok(None) };
        let bind = |binder: &mut Self| {
            let (arguments, applied) = binder.applying(|binder| {
                let arguments = binder.function_arguments(&procedure, call.arg_list(), node)?;
                binder.call_arguments(&procedure, arguments, node)
            })?;
            let columns = binder.registers_of_rows(&procedure);
            let registers = columns.iter().map(|(register, _)| *register).collect();
            binder.note_call(&procedure);
            let names = names.iter().cloned().chain([String::new()]);
            let columns = names.zip(columns);
            let columns = columns.map(|(name, (register, ty))| OutputColumn { name, ty, register });
            let columns = columns.collect();
            let rows = Plan::Rows { procedure: procedure.clone(), arguments, registers, ordinality: None };
            Ok(super::Bound { plan: apply_ahead(applied, rows), columns, ..super::Bound::default() })
        };
        let query = self.bind_query(bind)?;
        let value = |column: &OutputColumn| {
            (column.name.clone(), Typed::Known(Expression::Register(column.register), column.ty))
        };
        let fields = query.columns.iter().take(count).map(value).collect();
        let is_present = query.columns.get(count).map(|column| Expression::Register(column.register));
        let is_present = is_present.unwrap_or(Expression::boolean(true));
        Ok(Some(FirstRow { query, fields, is_present }))
    }
}
