//! Loops of PL/pgSQL over values and over rows.

use crate::binder::{Binder, Name, Target, Typed, Variable};
use crate::error::StatementError;
use crate::query::{BoundRows, Work};
use crate::source::mentions;
use catalog::{Datum, ScalarType, Type};
use procedure::{Cast, CastContext, Expression, Label, Register, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

impl Binder<'_> {
    pub(crate) fn bind_loop(
        &mut self,
        label: Option<ast::PlpgsqlLabel>,
        body: Option<ast::PlpgsqlBody>,
        node: &SyntaxNode,
    ) -> Result<(Label, Vec<Statement>), StatementError> {
        let name = label.and_then(|label| label.name());
        let name = name.map(|name| ast::normalize_name_node(name.syntax()));
        let label = self.new_label();
        self.targets.push(Target { name, label, is_loop: true });
        let mut checked = self.take_checks(node)?;
        checked.append(&mut self.bind_inner(body, node)?);
        self.targets.pop();
        Ok((label, checked))
    }

    /// Binds WHILE. The calls and subqueries of its condition run before each round.
    pub(crate) fn bind_while(&mut self, repeat: &ast::PlpgsqlWhileStmt) -> Result<Statement, StatementError> {
        let node = repeat.syntax();
        let condition = self.single_expression(repeat.cond(), node)?;
        let (condition, mut ahead) = self.apart(|binder| binder.bind_test(&condition))?;
        let (label, mut body) = self.bind_loop(repeat.label(), repeat.body(), node)?;
        if ahead.is_empty() {
            return Ok(Statement::While { label, condition, body });
        }
        let (then, otherwise) = (Vec::new(), vec![Statement::Exit(label)]);
        ahead.push(Statement::If { condition, then, otherwise });
        ahead.append(&mut body);
        Ok(Statement::While { label, condition: Expression::boolean(true), body: ahead })
    }

    /// Adds a loop over values. If the procedure reads FOUND, the loop sets it to whether it had a round.
    pub(crate) fn push_loop(&mut self, mut repeat: Statement, node: &SyntaxNode, out: &mut Vec<Statement>) {
        let (Statement::ForRange { body, .. } | Statement::ForEach { body, .. }) = &mut repeat else {
            unreachable!("the loop is over values")
        };
        if !mentions(node, "found") {
            out.push(repeat);
            return;
        }
        let any = self.new_register(ScalarType::Boolean);
        let target = self.found();
        body.insert(0, Statement::Assign { target: any, value: Expression::boolean(true) });
        out.push(Statement::Assign { target: any, value: Expression::boolean(false) });
        out.push(repeat);
        out.push(Statement::Assign { target, value: Expression::Register(any) });
    }

    pub(crate) fn bind_for_range(
        &mut self,
        repeat: &ast::PlpgsqlForIStmt,
    ) -> Result<Statement, StatementError> {
        let node = repeat.syntax();
        let range = self.part(repeat.range(), node)?;
        let mut bound = |expression: Option<ast::PlpgsqlExpr>| {
            let expression = self.single_expression(expression, node)?;
            self.bind_as(&expression, ScalarType::Integer, CastContext::Variable)
        };
        let (from, to) = (bound(range.lower())?, bound(range.upper())?);
        let step = match range.step() {
            Some(step) => bound(Some(step))?,
            None => Expression::Constant(Datum::Int(1)),
        };
        let name = self.loop_variable(repeat.vars(), node)?;
        let register = self.new_register(ScalarType::Integer);
        let variable = Variable { register, ty: ScalarType::Integer.into(), constant: false };
        self.scopes.push((None, HashMap::from([(name, Name::Variable(variable))])));
        let (label, body) = self.bind_loop(repeat.label(), repeat.body(), node)?;
        self.scopes.pop();
        let reverse = repeat.reverse_token().is_some();
        Ok(Statement::ForRange {
            label,
            variable: register,
            from,
            to,
            step,
            reverse,
            ahead: Vec::new(),
            body,
        })
    }

    pub(crate) fn loop_variable(
        &self,
        mut variables: ast::AstChildren<ast::PlpgsqlForVariable>,
        node: &SyntaxNode,
    ) -> Result<String, StatementError> {
        match (variables.next().and_then(|variable| variable.name()), variables.next()) {
            (Some(name), None) => Ok(ast::normalize_name_node(name.syntax())),
            _ => Err(self.unsupported(node, "several variables of this loop")),
        }
    }

    pub(crate) fn bind_for_each(
        &mut self,
        repeat: &ast::PlpgsqlForEachStmt,
        out: &mut Vec<Statement>,
    ) -> Result<Statement, StatementError> {
        let node = repeat.syntax();
        if let Some(slice) = repeat.slice() {
            let dimensions =
                slice.literal().and_then(|literal| literal.syntax().text().to_string().parse().ok());
            match self.part(dimensions, slice.syntax())? {
                0 => {}
                dimensions => return self.bind_for_slices(repeat, dimensions, out),
            }
        }
        let name = self.loop_variable(repeat.vars(), node)?;
        let variable = self.assignable(&name, None, node)?;
        let array = self.single_expression(repeat.array(), node)?;
        let Typed::Known(array, Type::Array(element)) = self.bind(&array)? else {
            return Err(self.error(node, SqlError::new("42804", "FOREACH expression must yield an array")));
        };
        let Some(cast) = variable.ty.scalar().and_then(|ty| Cast::between(element, ty, false)) else {
            return Err(self.error(
                node,
                SqlError::new("42804", "the type of the loop variable does not match the elements"),
            ));
        };
        let (label, mut body) = self.bind_loop(repeat.label(), repeat.body(), node)?;
        let register = match cast {
            Cast::Same => variable.register,
            cast => {
                let raw = self.new_register(element);
                let operand = Box::new(Expression::Register(raw));
                let value = Expression::Cast { cast, operand };
                body.insert(0, Statement::Assign { target: variable.register, value });
                raw
            }
        };
        Ok(Statement::ForEach { label, variable: register, array, body })
    }

    pub(crate) fn bind_for_rows(
        &mut self,
        repeat: &ast::PlpgsqlForQueryStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = repeat.syntax();
        let query = self.part(repeat.query(), node)?;
        let select = query.syntax().clone();
        let bound = match ast::SelectVariant::cast(select.clone()) {
            Some(query) => match self.bind_rows_of(&query)? {
                // One row of expressions is a row of a plan here.
                BoundRows { work: Work::Values, .. } => {
                    let bound = self.bind_query(|binder| binder.bind_variant(&query))?;
                    Self::rows_of_query(bound, &select)
                }
                bound => bound,
            },
            None => match self.bind_written_rows(&query)? {
                Some(bound) => bound,
                None => return Err(self.unsupported(node, "a loop over a statement that is not a query")),
            },
        };
        let variables: Vec<_> = repeat.vars().collect();
        let first = variables.first().and_then(|variable| variable.name());
        let first = first.map(|name| ast::normalize_name_node(name.syntax())).unwrap_or_default();
        let is_record =
            variables.len() == 1 && matches!(self.name(&first), Some(Name::Record(_) | Name::UnclearRecord));
        let row = self.fields(&first).filter(|_| variables.len() == 1 && !is_record);
        let targets: Vec<(Register, Type)> = if is_record {
            self.record_targets(&first, &bound.items)?
        } else if let Some(fields) = row {
            fields.iter().map(|(_, variable)| (variable.register, variable.ty)).collect()
        } else {
            let mut targets = Vec::new();
            for variable in &variables {
                let name = self.part(variable.name(), node)?;
                let name = ast::normalize_name_node(name.syntax());
                let variable = self.assignable(&name, None, variable.syntax())?;
                targets.push((variable.register, variable.ty));
            }
            targets
        };
        let outputs = self.outputs(bound.items, &targets, &select)?;
        let bind_body = |binder: &mut Self| binder.bind_loop(repeat.label(), repeat.body(), node);
        match self.repeat(bound.work, outputs, &select, bind_body)? {
            Some(statement) => out.push(statement),
            None => return Err(self.unsupported(&select, "a loop over a SELECT without FROM")),
        }
        Ok(())
    }

    /// Gives a RECORD the fields of a query.
    pub(crate) fn record_targets(
        &mut self,
        name: &str,
        items: &[(String, Typed, SyntaxNode)],
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        let column = |(name, item, _): &(String, Typed, SyntaxNode)| match item {
            Typed::Known(_, ty) => (name.clone(), *ty),
            _ => (name.clone(), ScalarType::Text.into()),
        };
        let columns: Vec<_> = items.iter().map(column).collect();
        Ok(self.record_with(name, &columns))
    }

    pub(crate) fn target(
        &self,
        label: Option<ast::PlpgsqlLabelNameRef>,
        exit: bool,
        node: &SyntaxNode,
    ) -> Result<Label, StatementError> {
        let name = label.map(|label| ast::normalize_name_node(label.syntax()));
        let found = self.targets.iter().rev().find(|target| match &name {
            Some(_) => target.name == name && (exit || target.is_loop),
            None => target.is_loop,
        });
        match (found, name) {
            (Some(target), _) => Ok(target.label),
            (None, Some(name)) => {
                let message = format!("there is no label \"{name}\" attached to an enclosing block or loop");
                Err(self.syntax(node, &message))
            }
            (None, None) => {
                let word = if exit { "EXIT" } else { "CONTINUE" };
                let unless = if exit { ", unless it has a label" } else { "" };
                Err(self.syntax(node, &format!("{word} cannot be used outside a loop{unless}")))
            }
        }
    }

    pub(crate) fn bind_jump(
        &mut self,
        jump: Statement,
        when: Option<ast::PlpgsqlExitWhen>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let Some(when) = when else {
            out.push(jump);
            return Ok(());
        };
        let condition = self.single_expression(when.cond(), node)?;
        let condition = self.bind_test(&condition)?;
        out.push(Statement::If { condition, then: vec![jump], otherwise: Vec::new() });
        Ok(())
    }
}
