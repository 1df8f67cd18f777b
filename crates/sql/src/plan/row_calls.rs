//! Calls of the schema's functions of rows as values: `f(x)`, `(f(x)).a`, `(f(x)).*`.

use super::{Binder, apply_ahead};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::whole_rows::RowFields;
use catalog::ScalarType;
use procedure::query::{OutputColumn, Plan, Query};
use procedure::{Expression, Function, Register, SqlError};
use squawk_syntax::ast::{self, AstNode};

/// The fields of a row, by name.
pub(crate) type Fields = Vec<(String, Typed)>;

impl Binder<'_> {
    /// Returns the names of the columns of a call of a function of rows; `None` for any other call.
    fn columns_of_call(&self, call: &ast::CallExpr) -> Option<Vec<String>> {
        let name = self.callee(call).ok()?;
        let columns = self.schema.procedure(&name)?.rows.as_ref()?;
        Some(columns.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Returns the fields of the rows of a call in a list of targets; `None` for any other call.
    pub(crate) fn fields_of_call(&mut self, call: &ast::CallExpr) -> Result<Option<Fields>, StatementError> {
        let Some(names) = self.columns_of_call(call) else { return Ok(None) };
        let name = self.callee(call)?;
        let Some(columns) = self.rows_in_list(&name, call)? else { return Ok(None) };
        let value = |(register, ty)| Typed::Known(Expression::Register(register), ty);
        Ok(Some(names.into_iter().zip(columns.into_iter().map(value)).collect()))
    }

    /// Returns a row of several fields as a value.
    pub(crate) fn row_of_fields(
        &mut self,
        fields: Fields,
        node: &squawk_syntax::SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let values = fields.into_iter().map(|(_, value)| self.as_printed(value, node));
        let arguments = values.collect::<Result<_, _>>()?;
        let row = Expression::Function { function: Function::RowText, arguments };
        Ok(Typed::Known(row, ScalarType::Record.into()))
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

    /// Binds the first row of a call of a function of rows, in a statement of its own. Returns the query and
    /// the fields; `None` for any other expression.
    pub(crate) fn first_row_of_call(
        &mut self,
        expression: &ast::Expr,
    ) -> Result<Option<(Query, RowFields)>, StatementError> {
        let ast::Expr::CallExpr(call) = expression else { return Ok(None) };
        let Some(names) = self.columns_of_call(call) else { return Ok(None) };
        let (name, node) = (self.callee(call)?, call.syntax());
        let Some(procedure) = self.schema.procedure(&name).cloned() else { return Ok(None) };
        let bind = |binder: &mut Self| {
            let (arguments, applied) = binder.applying(|binder| {
                let arguments = binder.function_arguments(&procedure, call.arg_list(), node)?;
                binder.call_arguments(&procedure, arguments, node)
            })?;
            let types: Vec<_> = procedure.rows.iter().flatten().map(|(_, ty)| *ty).collect();
            let registers: Vec<Register> = types.iter().map(|ty| binder.new_register(*ty)).collect();
            binder.note_call(&procedure);
            let columns = names.iter().zip(&types).zip(&registers);
            let columns = columns.map(|((name, ty), register)| OutputColumn {
                name: name.clone(),
                ty: *ty,
                register: *register,
            });
            let columns = columns.collect();
            let rows = Plan::Rows { procedure: procedure.clone(), arguments, registers, ordinality: None };
            Ok(super::Bound { plan: apply_ahead(applied, rows), columns, ..super::Bound::default() })
        };
        let query = self.bind_query(bind)?;
        let value = |column: &OutputColumn| {
            (column.name.clone(), Typed::Known(Expression::Register(column.register), column.ty))
        };
        let fields = query.columns.iter().map(value).collect();
        Ok(Some((query, RowFields::Present(fields))))
    }
}
