//! Values of domains: the checks of columns, casts, parameters, results and variables.
//!
//! A value of a domain is a value of the type under it, so expressions know that type alone. The domain of a
//! value is known where PostgreSQL shows it: of columns, variables and casts.
//! Source: PostgreSQL 15, `coerce_to_domain` and `typcache.c`.
//!
//! Held by: `domains.slt` and `domain_values.slt` in `crates/workload/tests/sql`.

use crate::binder::{Binder, Typed, Variable};
use crate::error::StatementError;
use crate::oids::table_oid;
use crate::plan::Origins;
use crate::schema::Schema;
use crate::types::{last_name, object_name};
use catalog::{Column, Domain, OnCommit, Table, TableId, Trigger, TriggerTiming, Type};
use procedure::{Check, CheckOwner, DomainValue, Expression, Procedure, Register, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A type, and the full name of the domain over it.
pub(crate) type DeclaredType = (Type, Option<String>);

/// Returns a table whose only column is `VALUE`, to bind conditions over it.
pub(crate) fn value_table(ty: Type) -> Table {
    let columns = vec![Column { name: "value".into(), ty, nullable: true, ..Column::default() }];
    Table {
        id: TableId(u32::MAX),
        name: String::new(),
        layout: Table::layout_of(&columns),
        columns,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        hidden_key: false,
        sequence: None,
        triggers: Vec::new(),
        on_commit: OnCommit::Preserve,
    }
}

/// Makes a condition over a register one about the value of a domain.
fn about_value(condition: &mut Expression, register: Register) {
    match condition {
        Expression::Register(own) if *own == register => *condition = Expression::Value,
        other => {
            other.operands_mut().into_iter().for_each(|operand| about_value(operand, register));
        }
    }
}

impl Schema {
    /// Returns the domain of the values of a register.
    pub(crate) fn domain_in(&self, origins: &Origins, register: Register) -> Option<&Domain> {
        let catalog = self.catalog();
        let Some(origin) = origins.column_of(register) else {
            let number = origins.domain_of(register)?;
            return catalog.domains().find(|own| own.oid == number);
        };
        let table = catalog.tables().find(|own| table_oid(own) == i64::from(origin.relation))?;
        let column = table.columns.get(usize::from(origin.column).checked_sub(1)?)?;
        catalog.domain(column.domain.as_deref()?)
    }
}

impl Binder<'_> {
    /// Binds the constraints of a domain, over a value in a register.
    fn bind_domain(
        &mut self,
        domain: &Domain,
        value: Register,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let check = |name: &str, condition| Check {
            name: name.into(),
            owner: CheckOwner::Domain(domain.name.clone()),
            condition,
        };
        let schema = self.schema;
        let under = schema.catalog().domains_under(domain);
        let mut checks = Vec::new();
        if under.iter().any(|own| !own.nullable) {
            let is_null = Expression::IsNull(Box::new(Expression::Register(value)));
            checks.push(check("", Expression::Not(Box::new(is_null))));
        }
        let row = value_table(domain.ty);
        // As in PostgreSQL, the constraints of a domain are checked in the order of their names, after those
        // of the domain under it.
        let texts = under.into_iter().flat_map(|own| {
            let mut texts: Vec<_> = own.checks.iter().collect();
            texts.sort();
            texts
        });
        for (name, text) in texts {
            let condition = self.bind_definition(text, node, |binder, condition| {
                binder.over_row(&row, value, |binder| binder.bind_condition(condition))
            })?;
            checks.push(check(name, condition));
        }
        Ok(checks)
    }

    /// Binds the constraints of the domains of a table's columns, over a row in registers.
    pub(crate) fn bind_domains(
        &mut self,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let mut checks = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            let Some(name) = &column.domain else { continue };
            let Some(domain) = self.schema.catalog().domain(name) else { continue };
            let value = Register(registers.0 + position as u32);
            checks.append(&mut self.bind_domain(domain, value, node)?);
        }
        Ok(checks)
    }

    /// Converts a value of the type under a domain to the domain.
    pub(crate) fn as_domain(
        &mut self,
        name: &str,
        operand: Expression,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let schema = self.schema;
        let Some(domain) = schema.catalog().domain(name) else { return Ok(operand) };
        let register = self.new_register(domain.ty);
        let mut constraints = self.bind_domain(domain, register, node)?;
        constraints.iter_mut().for_each(|own| about_value(&mut own.condition, register));
        let domain = domain.name.clone();
        Ok(Expression::Domain(Box::new(DomainValue { domain, operand, constraints })))
    }

    /// Converts the value of a register's variable to the variable's domain, if it has one.
    pub(crate) fn checked_for(
        &mut self,
        variable: Register,
        value: Expression,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        match self.domains.get(&variable).cloned() {
            Some(domain) => self.as_domain(&domain, value, node),
            None => Ok(value),
        }
    }

    /// Notes the domains of the fields of a table's rows.
    pub(crate) fn note_domains(&mut self, table: &Table, fields: &[(String, Variable)]) {
        for (column, (_, field)) in table.visible().iter().zip(fields) {
            column.domain.clone().map(|domain| self.domains.insert(field.register, domain));
        }
    }

    /// Binds the assignment of an element of an array. The array of a domain is set after a check.
    pub(crate) fn assign_element(
        &mut self,
        variable: Variable,
        index: Expression,
        value: Expression,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let Variable { register: target, ty, .. } = variable;
        if !self.domains.contains_key(&target) {
            out.push(Statement::AssignElement { array: target, index, value });
            return Ok(());
        }
        let array = self.new_register(ty);
        out.push(Statement::Assign { target: array, value: Expression::Register(target) });
        out.push(Statement::AssignElement { array, index, value });
        let value = self.checked_for(target, Expression::Register(array), node)?;
        out.push(Statement::Assign { target, value });
        Ok(())
    }

    /// Converts a value of a row to be written to the domain of its column. PostgreSQL does so before the
    /// BEFORE triggers, and the row is checked again after them.
    pub(crate) fn before_triggers(
        &mut self,
        table: &Table,
        column: usize,
        value: Expression,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let definition = &table.columns[column];
        let is_before = |own: &Trigger| own.timing == TriggerTiming::Before && own.for_each_row;
        match &definition.domain {
            Some(domain) if !definition.generated && table.triggers.iter().any(is_before) => {
                self.as_domain(domain, value, node)
            }
            _ => Ok(value),
        }
    }

    /// Converts a value of a returned column to the column's domain, if it has one.
    pub(crate) fn checked_column(
        &mut self,
        column: usize,
        value: Expression,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        match self.returned_domains.get(column).cloned().flatten() {
            Some(domain) => self.as_domain(&domain, value, node),
            None => Ok(value),
        }
    }

    /// Notes that a register has the result of a function.
    pub(crate) fn note_result(&mut self, function: &Procedure, register: Register) {
        let schema = self.schema;
        if let (true, Some((_, ty))) = (function.is_void, function.result) {
            self.origins.note_void(register, ty);
        }
        let domain = function.domains.first().cloned().flatten();
        if let Some(domain) = domain.and_then(|name| schema.catalog().domain(&name)) {
            self.origins.note_domain(register, domain);
        }
    }

    /// Returns the domain of the values of a register.
    pub(crate) fn domain_of_register(&self, register: Register) -> Option<&Domain> {
        match self.domains.get(&register) {
            Some(name) => self.schema.catalog().domain(name),
            None => self.schema.domain_in(&self.origins, register),
        }
    }

    /// Returns the domain of a value.
    pub(crate) fn domain_of(&self, value: &Expression) -> Option<&Domain> {
        match value {
            Expression::Domain(own) => self.schema.catalog().domain(&own.domain),
            Expression::Register(register) => self.domain_of_register(*register),
            _ => None,
        }
    }

    /// Notes that a register has the value of an expression.
    pub(crate) fn note_value(&mut self, register: Register, value: &Expression) {
        let ty = self.registers[register.0 as usize];
        self.origins.note_value(register, value, ty);
        let schema = self.schema;
        if let Expression::Domain(own) = value
            && let Some(domain) = schema.catalog().domain(&own.domain)
        {
            self.origins.note_domain(register, domain);
        }
    }

    /// Returns the name of the type of a value, as `pg_typeof` shows it.
    pub(crate) fn type_shown(&self, typed: &Typed) -> String {
        let domain = match typed {
            Typed::Known(value, _) => self.domain_of(value),
            _ => None,
        };
        domain.map_or_else(|| typed.shown_type(), |own| own.name.clone())
    }

    /// Returns the domain that a type names.
    pub(crate) fn domain_named_by(&self, ty: &ast::Type) -> Option<&Domain> {
        let ast::Type::PathType(path) = ty else { return None };
        self.schema.catalog().domain(&object_name(&path.path_ref()?))
    }

    /// Binds the type of a column, a parameter, a variable or a cast, which may be a domain.
    pub(crate) fn bind_declared(&self, ty: &ast::Type) -> Result<DeclaredType, StatementError> {
        match self.domain_named_by(ty) {
            Some(domain) => Ok((domain.ty, Some(domain.name.clone()))),
            None => Ok((self.bind_type(ty)?, None)),
        }
    }

    /// Binds the type of a parameter or variable, including `table.column%TYPE`.
    pub(crate) fn bind_function_type(&self, ty: &ast::FuncType) -> Result<DeclaredType, StatementError> {
        let percent = match ty {
            ast::FuncType::Type(ty) => return self.bind_declared(ty),
            ast::FuncType::PercentType(percent) => percent,
        };
        let Some(path) = percent.path_ref() else {
            return Err(self.unsupported(percent.syntax(), "this %TYPE"));
        };
        let column = last_name(&path);
        match path.qualifier() {
            Some(table) => {
                let table = self.table(&object_name(&table), table.syntax())?;
                let column = &table.columns[self.column_of(&table, &column, path.syntax())?];
                Ok((column.ty, column.domain.clone()))
            }
            None => match self.variable(&column) {
                Some(variable) => Ok((variable.ty, self.domains.get(&variable.register).cloned())),
                None => {
                    let message = format!("variable \"{column}\" does not exist");
                    Err(self.error(path.syntax(), procedure::SqlError::new("42704", message)))
                }
            },
        }
    }

    /// Refuses a use of a table that does not check the constraints of domains.
    pub(crate) fn refuse_domains(
        &self,
        table: &Table,
        what: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        match table.columns.iter().any(|column| column.domain.is_some()) {
            true => Err(self.unsupported(node, &format!("{what} of a table with a column of a domain"))),
            false => Ok(()),
        }
    }
}
