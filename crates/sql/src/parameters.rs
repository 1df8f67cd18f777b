//! The parameters of routines: modes, types, defaults.

use crate::actual::is_polymorphic;
use crate::binder::{Binder, Name};
use crate::error::StatementError;
use catalog::{Datum, ScalarType, Table, Type, value_from_datum};
use procedure::{CastContext, Expression, Function, Machine, Mode, Parameter, Register, SqlError, Statement};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Binds the type of a parameter. Returns it with its name, if that is a table, whose rows it has, a
    /// domain, or polymorphic.
    pub(crate) fn parameter_type(
        &self,
        ty: &ast::FuncType,
    ) -> Result<(Type, Option<String>), StatementError> {
        match self.table_of_type(ty) {
            Some(table) => {
                self.refuse_domains(&table, "a row parameter", ty.syntax())?;
                Ok((ScalarType::Record.into(), Some(table.name.clone())))
            }
            None => {
                let name = ty.syntax().text().to_string().to_lowercase();
                let (ty, domain) = self.bind_function_type(ty)?;
                if domain.is_some() {
                    return Ok((ty, domain));
                }
                let ty = ty.base();
                Ok((ty, (self.actual.is_none() && is_polymorphic(&name)).then_some(name)))
            }
        }
    }

    pub(crate) fn bind_parameter(&mut self, parameter: &ast::Param) -> Result<Parameter, StatementError> {
        let node = parameter.syntax();
        let (mode, is_variadic) = match parameter.mode() {
            None | Some(ast::ParamMode::ParamIn(_)) => (Mode::In, false),
            Some(ast::ParamMode::ParamOut(_)) => (Mode::Out, false),
            Some(ast::ParamMode::ParamInOut(_)) => (Mode::InOut, false),
            Some(ast::ParamMode::ParamVariadic(_)) => (Mode::In, true),
        };
        let written = self.part(parameter.func_type(), node)?;
        let (ty, type_of) = self.parameter_type(&written)?;
        if mode != Mode::In && self.table_of_type(&written).is_some() {
            return Err(self.unsupported(node, "an OUT parameter of the type of a table"));
        }
        if is_variadic && !matches!(ty, Type::Array(_)) {
            let error = SqlError::new("42P13", "VARIADIC parameter must be an array");
            return Err(self.error(node, error));
        }
        let name = parameter.name().map(|name| ast::normalize_name_node(name.syntax())).unwrap_or_default();
        let is_of_domain = type_of.as_ref().is_some_and(|name| self.schema.catalog().domain(name).is_some());
        let mut bound = Parameter { is_variadic, type_of, is_of_domain, ..Parameter::new(name, ty, mode) };
        if let Some(expression) = parameter.param_default().and_then(|default| default.expr()) {
            if mode == Mode::Out {
                let error = SqlError::new("42P13", "only input parameters can have default values");
                return Err(self.error(expression.syntax(), error));
            }
            let value = self.bind_as(&expression, ty, CastContext::Variable)?;
            if value.is_constant() {
                let mut machine = Machine::default();
                let datum = value.evaluate(&mut machine).unwrap_or(Datum::Null);
                bound.default = Some(value_from_datum(datum, ty, &machine.frame.arena));
            }
            // The text of a constant with a time zone has no offset, so a session in a zone would misread it.
            if !value.is_constant() || ty.element().base() == ScalarType::Timestamptz {
                bound.computed = Some(expression.syntax().text().to_string());
            }
        }
        Ok(bound)
    }

    /// Declares the row of a parameter, whose fields are set before the first statement of the body.
    pub(crate) fn declare_row_parameter(
        &mut self,
        parameter: &Parameter,
        position: usize,
        names: [&str; 2],
    ) -> Result<(), StatementError> {
        let node = self.source.file.syntax().clone();
        let table = parameter.type_of.as_deref().unwrap_or_default();
        let table = self.table(table, &node)?;
        let columns = Self::row_columns(&table);
        let fields = self.new_fields(&columns);
        for (part, (_, field)) in fields.iter().enumerate() {
            let row = Expression::Register(Register(position as u32));
            let value = self.part_of_row(row, part, columns.len(), field.ty, &node)?;
            self.prologue.push(Statement::Assign { target: field.register, value });
        }
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            self.declare(name.to_owned(), Name::Row(fields.clone()));
        }
        Ok(())
    }

    /// Returns names and types of the fields of a table's rows.
    pub(crate) fn row_columns(table: &Table) -> Vec<(String, Type)> {
        table.visible().iter().map(|column| (column.name.clone(), column.ty)).collect()
    }

    /// Returns a field of a row that is a text.
    pub(crate) fn part_of_row(
        &self,
        row: Expression,
        position: usize,
        count: usize,
        ty: Type,
        node: &squawk_syntax::SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let function = Function::RowPart { position: position as u16, count: count as u16 };
        let part = Expression::Function { function, arguments: vec![row] };
        let part = crate::binder::Typed::Known(part, ScalarType::Text.into());
        self.coerce(part, ty, CastContext::Variable, node)
    }
}
