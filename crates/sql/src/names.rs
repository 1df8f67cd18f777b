//! Names in expressions: variables, columns, fields of records and rows.

use crate::binder::{Binder, Body, Name, Typed};
use crate::error::StatementError;
use crate::expression::calls_expandarray;
use crate::name_conflicts::NameConflict;
use crate::operators::boolean;
use crate::whole_rows::RowFields;
use catalog::ScalarType;
use procedure::{CastContext, Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    fn undefined(&self, name: &str, node: &SyntaxNode) -> StatementError {
        self.error(node, SqlError::new("42703", format!("column \"{name}\" does not exist")))
    }

    fn ambiguous(&self, name: &str, node: &SyntaxNode) -> StatementError {
        let message = format!("column reference \"{name}\" is ambiguous");
        let detail = "It could refer to either a PL/pgSQL variable or a table column.";
        self.error(node, SqlError::new("42702", message).with_detail(detail))
    }

    pub(crate) fn bind_name(&mut self, name: &ast::NameRef) -> Result<Typed, StatementError> {
        let node = name.syntax();
        if name.current_timestamp_token().is_some() {
            return Ok(self.now(ScalarType::Timestamptz));
        }
        for (is_it, ty) in [
            (name.localtimestamp_token().is_some(), ScalarType::Timestamp),
            (name.localtime_token().is_some(), ScalarType::Time),
            (name.current_date_token().is_some(), ScalarType::Date),
        ] {
            if is_it {
                let now = self.now(ScalarType::Timestamptz);
                let local = self.coerce(now, ty.into(), CastContext::Explicit, node)?;
                return Ok(Typed::Known(local, ty.into()));
            }
        }
        let text = name.text();
        let column = self.find_column(None, &text, node)?;
        let column = match (column, self.name(&text), self.name_conflict) {
            (Some(_), Some(_), NameConflict::Error) => return Err(self.ambiguous(&text, node)),
            (Some(_), Some(_), NameConflict::Variable) => None,
            (column, ..) => column,
        };
        match (column, self.name(&text)) {
            (Some(column), _) => Ok(column),
            (None, Some(Name::Variable(variable))) => {
                Ok(Typed::Known(Expression::Register(variable.register), variable.ty))
            }
            (None, Some(Name::Constant(value, ty))) => Ok(Typed::Known(value.clone(), *ty)),
            (None, Some(Name::Cursor(_))) => Err(self.unsupported(node, "a cursor as a value")),
            (None, Some(Name::Record(None))) => Err(self.unassigned(&text, node)),
            (None, Some(Name::UnclearRecord)) => Err(self.unclear_record(node)),
            (None, Some(Name::Record(_) | Name::Row(_))) => self.bind_row_value(&expression(name)),
            (None, None) if text == "found" && matches!(self.body, Some(Body::Plpgsql(_))) => {
                let register = self.found();
                Ok(boolean(Expression::Register(register)))
            }
            (None, None) => match self.session_value(&node.text().to_string().to_lowercase()) {
                Some(value) => Ok(value),
                None if self.names_relation(&text) => self.bind_row_value(&expression(name)),
                None => Err(self.undefined(&text, node)),
            },
        }
    }

    /// Binds a column by the schema, the name of its table or view, and its name.
    fn column_by_path(
        &mut self,
        schema: &str,
        table: &str,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let fail = |binder: &Self, code: &str, message: String| {
            Err(binder.error(node, SqlError::new(code, message)))
        };
        if !self.names_stored(schema, table) {
            let kind = if self.reads_stored(schema, table) { "invalid reference to" } else { "missing" };
            return fail(self, "42P01", format!("{kind} FROM-clause entry for table \"{table}\""));
        }
        match self.find_column(Some(table), name, node)? {
            Some(column) => Ok(column),
            None => fail(self, "42703", format!("column {schema}.{table}.{name} does not exist")),
        }
    }

    pub(crate) fn bind_field(&mut self, field: &ast::FieldExpr) -> Result<Typed, StatementError> {
        let node = field.syntax();
        if let (Some(ast::Expr::ParenExpr(base)), Some(name)) = (field.base(), field.field())
            && let Some(value) = self.bind_part(&base, &name.text())?
        {
            return Ok(value);
        }
        if let (Some(ast::Expr::FieldExpr(base)), Some(name)) = (field.base(), field.field())
            && let (Some(ast::Expr::NameRef(schema)), Some(table)) = (base.base(), base.field())
            && (self.body.is_none() || self.names_stored(&schema.text(), &table.text()))
        {
            return self.column_by_path(&schema.text(), &table.text(), &name.text(), node);
        }
        if field.star_token().is_some() {
            return self.bind_row_value(&ast::Expr::FieldExpr(field.clone()));
        }
        let (Some(ast::Expr::NameRef(base)), Some(name)) = (field.base(), field.field()) else {
            return Err(self.unsupported(node, "this kind of reference"));
        };
        self.field_of(&base.text(), &name.text(), node)
    }

    fn unassigned(&self, record: &str, node: &SyntaxNode) -> StatementError {
        self.error(node, SqlError::new("55000", format!("record \"{record}\" is not assigned yet")))
    }

    /// Returns the error for a record whose columns depend on the branch that has been executed.
    pub(crate) fn unclear_record(&self, node: &SyntaxNode) -> StatementError {
        self.unsupported(node, "a record to which branches before have assigned different columns")
    }

    /// Binds a column of a relation, or a field of a record or row.
    fn field_of(&mut self, base: &str, name: &str, node: &SyntaxNode) -> Result<Typed, StatementError> {
        if self.names_relation(base) {
            return match self.find_column(Some(base), name, node)? {
                Some(column) => Ok(column),
                None => {
                    let message = format!("column {base}.{name} does not exist");
                    Err(self.error(node, SqlError::new("42703", message)))
                }
            };
        }
        let variable = match self.name(base) {
            Some(Name::Record(Some(fields)) | Name::Row(fields)) => {
                fields.iter().find(|(field, _)| *field == name).map(|(_, variable)| *variable)
            }
            Some(Name::Record(None)) => return Err(self.unassigned(base, node)),
            Some(Name::UnclearRecord) => return Err(self.unclear_record(node)),
            _ => self.labelled_variable(base, name),
        };
        let is_scope = self.scopes.iter().any(|(label, _)| label.as_deref() == Some(base));
        if variable.is_none() && self.name(base).is_none() && !is_scope {
            let message = format!("missing FROM-clause entry for table \"{base}\"");
            return Err(self.error(node, SqlError::new("42P01", message)));
        }
        match variable {
            Some(variable) => Ok(Typed::Known(Expression::Register(variable.register), variable.ty)),
            None if is_scope => Err(self.undefined(&format!("{base}.{name}"), node)),
            None => {
                let message = format!("record \"{base}\" has no field \"{name}\"");
                Err(self.error(node, SqlError::new("42703", message)))
            }
        }
    }

    /// Binds `(…).x`: a field of a whole row, or of the result of `_pg_expandarray`, in the list of its call
    /// or in an outer query.
    fn bind_part(&mut self, base: &ast::ParenExpr, name: &str) -> Result<Option<Typed>, StatementError> {
        match base.expr() {
            Some(ast::Expr::CallExpr(call)) if calls_expandarray(&call) => {
                let position = usize::from(name == "n");
                let columns = self.rows_in_list("_pg_expandarray", &call)?;
                let column = columns.and_then(|columns| columns.get(position).copied());
                Ok(column.map(|(register, ty)| Typed::Known(Expression::Register(register), ty)))
            }
            Some(ast::Expr::CallExpr(call)) => self.field_of_call(&call, name),
            Some(ast::Expr::FieldExpr(inner)) => match (inner.base(), inner.field()) {
                (Some(ast::Expr::NameRef(relation)), Some(column)) => {
                    let name = format!("{}.{name}", column.text());
                    self.find_column(Some(&relation.text()), &name, base.syntax())
                }
                _ => Ok(None),
            },
            Some(ast::Expr::NameRef(row)) => {
                let (row, node) = (row.text(), base.syntax());
                match self.find_column(None, &row, node)? {
                    Some(_) => Ok(None),
                    None => self.field_of(&row, name, node).map(Some),
                }
            }
            Some(row @ ast::Expr::TupleExpr(_)) => {
                let fields = self.row_fields(&row)?.map(RowFields::present).unwrap_or_default();
                Ok(fields.into_iter().find(|(own, _)| own == name).map(|(_, value)| value))
            }
            _ => Ok(None),
        }
    }
}

fn expression(name: &ast::NameRef) -> ast::Expr {
    ast::Expr::NameRef(name.clone())
}
