//! Whole rows as values: the name of a relation or of a record, or `ROW(…)`.
//!
//! A whole row has the type RECORD: its value is the text that PostgreSQL shows. Where the fields matter, as
//! in comparisons, IS NULL and JSON, the binder takes the fields themselves.

use crate::binder::{Binder, Name, TriggerFrame, Typed, Variable};
use crate::error::StatementError;
use crate::operators::boolean;
use crate::plan::if_present;
use crate::row_values::row_of;
use crate::types::object_name;
use catalog::{Datum, ScalarType, Table, Type};
use procedure::{CompareOperator, Expression, Function, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// The fields of a whole row.
pub(crate) enum RowFields {
    /// NEW or OLD of an event that has no such row.
    Absent,
    /// The fields with their names.
    Present(Vec<(String, Typed)>),
}

impl RowFields {
    /// Returns the fields; none of an absent row.
    pub(crate) fn present(self) -> Vec<(String, Typed)> {
        match self {
            Self::Absent => Vec::new(),
            Self::Present(fields) => fields,
        }
    }
}

impl Binder<'_> {
    /// Returns the fields of a whole row; `None` for any other expression.
    pub(crate) fn row_fields(&mut self, expression: &ast::Expr) -> Result<Option<RowFields>, StatementError> {
        let node = expression.syntax();
        if let Some(row) = row_of(expression) {
            let mut fields = Vec::new();
            for (position, value) in self.bind_row(&row)?.into_iter().enumerate() {
                fields.push((format!("f{}", position + 1), value));
            }
            return Ok(Some(RowFields::Present(fields)));
        }
        let name = match expression {
            ast::Expr::NameRef(name) => name.text(),
            ast::Expr::FieldExpr(field) if field.star_token().is_some() => match field.base() {
                Some(ast::Expr::NameRef(name)) => name.text(),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let is_absent = |frame: &TriggerFrame| frame.absent.contains(&name.as_str());
        if self.trigger.as_ref().is_some_and(is_absent) {
            return Ok(Some(RowFields::Absent));
        }
        if matches!(self.name(&name), Some(Name::Record(None))) && !self.names_relation(&name) {
            return Ok(Some(RowFields::Absent));
        }
        if matches!(self.name(&name), Some(Name::UnclearRecord)) && !self.names_relation(&name) {
            return Err(self.unclear_record(expression.syntax()));
        }
        if let Some(record) = self.record_of(expression) {
            let value =
                |variable: Variable| Typed::Known(Expression::Register(variable.register), variable.ty);
            let fields = record.into_iter().map(|(name, variable)| (name, value(variable)));
            return Ok(Some(RowFields::Present(fields.collect())));
        }
        let is_column = self.locate_column(None, &name, node)?.is_some();
        if is_column || !self.names_relation(&name) {
            return Ok(None);
        }
        if self.names_nullable(&name) {
            return Err(self.unsupported(node, "a whole row of an outer join"));
        }
        let columns = self.star(Some(&name), node)?;
        Ok(Some(RowFields::Present(columns.into_iter().map(|(name, value, _)| (name, value)).collect())))
    }

    /// Returns whether an expression is the name of a relation or a record, or a call that returns rows.
    pub(crate) fn names_row(&mut self, expression: &ast::Expr) -> Result<bool, StatementError> {
        match expression {
            ast::Expr::CallExpr(call) => Ok(self.calls_row(call)),
            _ => Ok(row_of(expression).is_none() && self.row_fields(expression)?.is_some()),
        }
    }

    /// Binds a whole row as a value.
    pub(crate) fn bind_row_value(&mut self, expression: &ast::Expr) -> Result<Typed, StatementError> {
        let node = expression.syntax();
        let fields = match self.row_fields(expression)? {
            Some(RowFields::Present(fields)) => fields,
            Some(RowFields::Absent) => return Ok(Typed::Known(Expression::NULL, ScalarType::Record.into())),
            None => return Err(self.unsupported(node, "this kind of row")),
        };
        Ok(Typed::Known(self.row_as_text(fields, node)?, ScalarType::Record.into()))
    }

    /// Returns the text of a row that is not NULL.
    pub(crate) fn row_as_text(
        &self,
        fields: Vec<(String, Typed)>,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let values = fields.into_iter().map(|(_, value)| self.as_printed(value, node));
        let arguments = values.collect::<Result<_, _>>()?;
        Ok(Expression::Function { function: Function::RowText, arguments })
    }

    /// Binds IS [NOT] NULL of a row: whether all its fields are NULL, or none.
    pub(crate) fn row_is_null(
        &mut self,
        fields: RowFields,
        negated: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let mut all = Vec::new();
        for (_, value) in fields.present() {
            let (value, _) = self.settle(value, None, node)?;
            let is_null = Expression::IsNull(Box::new(value));
            all.push(if negated { Expression::Not(Box::new(is_null)) } else { is_null });
        }
        Ok(boolean(Expression::all(all)))
    }

    /// Binds `=` and `<>` of two whole rows, one of which is no `ROW(…)`. As in PostgreSQL, fields that are
    /// NULL are equal.
    ///
    /// # Errors
    /// `0A000`: the rows are compared by another operator.
    pub(crate) fn bind_whole_rows(
        &mut self,
        operator: CompareOperator,
        left: &ast::Expr,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let mut present = Vec::new();
        let left = self.compared_row(left, &mut present)?;
        let (Some(left), Some(right)) = (left, self.compared_row(right, &mut present)?) else {
            return Ok(None);
        };
        let compared = match operator {
            CompareOperator::Equal => self.distinct_rows(left, right, true, node)?,
            CompareOperator::NotEqual => self.distinct_rows(left, right, false, node)?,
            _ => return Err(self.unsupported(node, "an order of whole rows")),
        };
        if present.is_empty() {
            return Ok(Some(compared));
        }
        let compared = self.bind_condition_of(compared, node)?;
        Ok(Some(boolean(if_present(Expression::all(present), compared))))
    }

    /// Returns the fields of a row that is compared. Adds to `present` what is TRUE unless a call's row is
    /// NULL.
    fn compared_row(
        &mut self,
        expression: &ast::Expr,
        present: &mut Vec<Expression>,
    ) -> Result<Option<RowFields>, StatementError> {
        let ast::Expr::CallExpr(call) = expression else { return self.row_fields(expression) };
        let row = self.row_of_call(call)?;
        Ok(row.map(|row| {
            present.push(row.is_present);
            RowFields::Present(row.fields)
        }))
    }

    /// Binds IS DISTINCT FROM of two rows, or, for `equal`, IS NOT DISTINCT FROM.
    ///
    /// # Errors
    /// `42601`: the rows have different numbers of fields.
    pub(crate) fn distinct_rows(
        &mut self,
        left: RowFields,
        right: RowFields,
        equal: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let (left, right) = match (left, right) {
            (RowFields::Present(left), RowFields::Present(right)) => (left, right),
            (left, right) => {
                let is_same = matches!((left, right), (RowFields::Absent, RowFields::Absent));
                return Ok(boolean(Expression::Constant(Datum::boolean(is_same == equal))));
            }
        };
        self.check_lengths(left.len(), right.len(), node)?;
        let mut any = Vec::new();
        for ((_, left), (_, right)) in left.into_iter().zip(right) {
            let distinct = self.distinct(left, right, false, node)?;
            any.push(self.bind_condition_of(distinct, node)?);
        }
        let any = Expression::any(any);
        Ok(boolean(if equal { Expression::Not(Box::new(any)) } else { any }))
    }

    /// Returns the table whose rows a variable of `table%ROWTYPE` holds.
    pub(crate) fn table_of_row(
        &self,
        row: &ast::PlpgsqlPercentRowtype,
    ) -> Result<Arc<Table>, StatementError> {
        let node = row.syntax();
        if row.array_bounds().next().is_some() || row.array_token().is_some() {
            return Err(self.unsupported(node, "an array of rows"));
        }
        let path = self.part(row.path_ref(), node)?;
        self.table(&object_name(&path), node)
    }

    /// Returns the table that is named in place of a type.
    pub(crate) fn table_of_type(&self, ty: &ast::FuncType) -> Option<Arc<Table>> {
        let ast::FuncType::Type(ty) = ty else { return None };
        self.table_named_by(ty)
    }

    pub(crate) fn table_named_by(&self, ty: &ast::Type) -> Option<Arc<Table>> {
        let ast::Type::PathType(path) = ty else { return None };
        let path = path.syntax().children().find_map(ast::PathRef::cast)?;
        let table = self.schema.catalog().table(&object_name(&path)).ok()?;
        table.sequence.is_none().then(|| table.clone())
    }

    /// Declares a variable with the columns of a table.
    pub(crate) fn declare_row(&mut self, name: String, table: &Table, out: &mut Vec<Statement>) {
        let columns: Vec<(String, Type)> =
            table.visible().iter().map(|column| (column.name.clone(), column.ty)).collect();
        let fields = self.new_fields(&columns);
        self.note_domains(table, &fields);
        for (_, field) in &fields {
            out.push(Statement::Assign { target: field.register, value: Expression::NULL });
        }
        self.declare(name, Name::Row(fields));
    }

    /// Binds the initial value of a row variable.
    pub(crate) fn initial_row(
        &mut self,
        name: &str,
        init: Option<ast::PlpgsqlVarInit>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let Some(init) = init else { return Ok(()) };
        let value = self.single_expression(init.expr(), node)?;
        self.assign_record(name, &value, out)
    }
}
