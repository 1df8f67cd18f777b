//! Assignments of rows to records and to variables of the type of a table, and RETURN of a row.

use crate::binder::{Binder, Name, Typed};
use crate::error::StatementError;
use crate::plan::{Fields, FirstRow};
use crate::whole_rows::RowFields;
use catalog::{ScalarType, Type};
use procedure::query::Query;
use procedure::{CastContext, Expression, QueryTarget, Register, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The row that an assignment has on its right side.
enum RowValue {
    /// Fields that expressions have.
    Fields(RowFields),
    /// The first row of a call.
    Row(Box<FirstRow>),
    /// A row as a text, in a register.
    Text(Register),
}

impl Binder<'_> {
    /// Declares that the function returns one row.
    pub(crate) fn declare_row_result(&mut self, columns: Vec<(String, Type)>) {
        self.returned = columns.iter().map(|(_, ty)| self.new_register(*ty)).collect();
        self.returns = Some(columns);
        self.declare_row_end();
        self.returns_row = true;
    }

    /// Binds the assignment of a row, or of NULL, to a record or row variable.
    pub(crate) fn assign_record(
        &mut self,
        name: &str,
        value: &ast::Expr,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = value.syntax();
        let row = self.row_value(value, out)?;
        let is_record = matches!(self.name(name), Some(Name::Record(_) | Name::UnclearRecord));
        let targets = match &row {
            RowValue::Fields(RowFields::Present(fields)) if is_record => {
                self.columns_of_record(name, fields, node)?
            }
            RowValue::Row(row) if is_record => self.columns_of_record(name, &row.fields, node)?,
            RowValue::Text(_) if is_record => return Err(self.unsupported(node, "this value of a record")),
            _ => {
                let fields = self.fields(name).unwrap_or_default();
                fields.iter().map(|(_, field)| (field.register, field.ty)).collect()
            }
        };
        self.assign_row(&targets, row, None, node, out)
    }

    /// Returns the fields of a record that takes a row.
    fn columns_of_record(
        &mut self,
        name: &str,
        fields: &Fields,
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        let mut columns = Vec::new();
        for (name, value) in fields {
            let (_, ty) = self.settle(value.clone(), None, node)?;
            columns.push((name.clone(), ty));
        }
        Ok(self.record_with(name, &columns))
    }

    /// Binds the assignment of a row to registers. A row of another number of fields raises an error.
    pub(crate) fn assign_fields(
        &mut self,
        targets: &[(Register, Type)],
        value: &ast::Expr,
        mismatch: &str,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let row = self.row_value(value, out)?;
        self.assign_row(targets, row, Some(mismatch), value.syntax(), out)
    }

    fn row_value(&mut self, value: &ast::Expr, out: &mut Vec<Statement>) -> Result<RowValue, StatementError> {
        let is_null = |literal: &ast::Literal| matches!(literal.kind(), Some(ast::LitKind::Null(_)));
        if matches!(value, ast::Expr::Literal(literal) if is_null(literal)) {
            return Ok(RowValue::Fields(RowFields::Absent));
        }
        if let Some(fields) = self.row_fields(value)? {
            return Ok(RowValue::Fields(fields));
        }
        if let Some(row) = self.first_row_of_call(value)? {
            return Ok(RowValue::Row(Box::new(row)));
        }
        let Typed::Known(row, Type::Scalar(ScalarType::Record)) = self.bind(value)? else {
            return Err(self.unsupported(value.syntax(), "this value of a record"));
        };
        let register = self.new_register(ScalarType::Record);
        out.push(Statement::Assign { target: register, value: row });
        Ok(RowValue::Text(register))
    }

    fn assign_row(
        &mut self,
        targets: &[(Register, Type)],
        row: RowValue,
        mismatch: Option<&str>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let mut is_present = Expression::boolean(true);
        let (query, fields) = match row {
            RowValue::Fields(fields) => (None, fields),
            RowValue::Row(row) => {
                is_present = row.is_present;
                (Some(row.query), RowFields::Present(row.fields))
            }
            RowValue::Text(register) => {
                is_present = Expression::IsNull(Box::new(Expression::Register(register)));
                is_present = Expression::Not(Box::new(is_present));
                let mut fields = Vec::new();
                for (position, (_, ty)) in targets.iter().enumerate() {
                    let row = Expression::Register(register);
                    let value = self.part_of_row(row, position, targets.len(), *ty, node)?;
                    fields.push((String::new(), Typed::Known(value, *ty)));
                }
                (None, RowFields::Present(fields))
            }
        };
        let is_absent = matches!(fields, RowFields::Absent);
        let values: Vec<Typed> = match fields {
            RowFields::Absent => vec![Typed::Null; targets.len()],
            RowFields::Present(fields) => fields.into_iter().map(|(_, value)| value).collect(),
        };
        if values.len() != targets.len() {
            return Err(match mismatch {
                Some(message) => self.error(node, SqlError::new("42804", message)),
                None => {
                    let what = "a row with another number of fields as the value of a record";
                    self.unsupported(node, what)
                }
            });
        }
        // The new fields may depend on the old ones, so none is set before all are computed.
        let mut sources = Vec::new();
        for ((_, ty), value) in targets.iter().zip(values) {
            let value = self.coerce(value, *ty, CastContext::Variable, node)?;
            sources.push((self.new_register(*ty), value));
        }
        let registers: Vec<Register> = sources.iter().map(|(source, _)| *source).collect();
        if let (Some(end), true) = (self.row_end, targets.iter().map(|(target, _)| target).eq(&self.returned))
        {
            let value = if is_absent { Expression::NULL } else { is_present };
            sources.push((end.is_present, value));
        }
        match query {
            None => {
                let assign = |(target, value)| Statement::Assign { target, value };
                out.extend(sources.into_iter().map(assign));
            }
            Some(query) => self.fetch_row(query, sources, node, out),
        }
        let mut checked = Vec::new();
        for ((target, _), source) in targets.iter().zip(registers) {
            let value = Expression::Register(source);
            // As in PostgreSQL, a row that is NULL has fields that are NULL, whatever their domains are.
            let value = if is_absent { value } else { self.checked_for(*target, value, node)? };
            checked.push((*target, value));
        }
        self.assign_together(checked, out);
        Ok(())
    }

    /// Sets variables after all values have been checked.
    fn assign_together(&mut self, values: Vec<(Register, Expression)>, out: &mut Vec<Statement>) {
        let mut later = Vec::new();
        for (target, value) in values {
            let value = match value {
                Expression::Domain(_) => {
                    let checked = self.new_register(self.registers[target.0 as usize]);
                    out.push(Statement::Assign { target: checked, value });
                    Expression::Register(checked)
                }
                value => value,
            };
            later.push(Statement::Assign { target, value });
        }
        out.append(&mut later);
    }

    /// Adds a query for its first row. An assignment leaves FOUND as it is.
    fn fetch_row(
        &mut self,
        query: Query,
        outputs: Vec<(Register, Expression)>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) {
        let (found, kept) = (self.found(), self.new_register(ScalarType::Boolean));
        let id = self.query(query, QueryTarget::Statement { outputs, strict: false }, node);
        out.push(Statement::Assign { target: kept, value: Expression::Register(found) });
        out.push(Statement::Query(id));
        out.push(Statement::Assign { target: found, value: Expression::Register(kept) });
    }
}
