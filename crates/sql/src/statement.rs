//! PL/pgSQL statements.

use crate::binder::{Binder, Name, Target, Typed, Variable};
use crate::error::StatementError;
use crate::exception::{STACKED, is_bare};
use crate::query::BoundRows;
use crate::subscripts::Subscripted;
use catalog::{ScalarType, Type};
use procedure::{
    CastContext, CompareOperator, Expression, Guarded, Machine, Raise, RaiseOption, Register, SqlError,
    Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, PlpgsqlStmt};
use std::collections::HashMap;

/// INTO's targets, and whether it is STRICT.
type BoundInto = (Vec<(Register, Type)>, bool);

/// Returns whether a record had other columns than it has now.
fn differs(before: &Name, fields: &[(String, Variable)]) -> bool {
    match before {
        Name::Record(Some(before)) => {
            !before.iter().map(|(_, field)| field.register).eq(fields.iter().map(|(_, field)| field.register))
        }
        before => matches!(before, Name::UnclearRecord),
    }
}

impl Binder<'_> {
    pub(crate) fn bind_body(
        &mut self,
        body: Option<ast::PlpgsqlBody>,
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        let body = self.part(body, node)?;
        let mut statements = Vec::new();
        for statement in body.stmts() {
            self.lifted = Some(Vec::new());
            let mut bound = Vec::new();
            self.bind_statement(&statement, &mut bound)?;
            bound.append(&mut self.take_checks(node)?);
            statements.append(&mut self.lifted.take().unwrap_or_default());
            statements.append(&mut bound);
        }
        Ok(statements)
    }

    /// Binds the statements inside a statement, which may not be executed, or not to their end. The lifted
    /// calls of the outer statement are kept separate. A record to which they give other columns than it had
    /// is unclear afterwards.
    pub(crate) fn bind_inner(
        &mut self,
        body: Option<ast::PlpgsqlBody>,
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        let outer = self.lifted.take();
        let before = self.scopes.clone();
        let bound = self.bind_body(body, node);
        self.lifted = outer;
        for ((_, names), (_, before)) in self.scopes.iter_mut().zip(&before) {
            for (name, what) in names {
                if let Name::Record(Some(fields)) = what
                    && before.get(name).is_some_and(|before| differs(before, fields))
                {
                    *what = Name::UnclearRecord;
                }
            }
        }
        bound
    }

    /// Binds a statement. If the role may not execute it, a statement that raises the error precedes it.
    fn bind_statement(
        &mut self,
        statement: &PlpgsqlStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let position = out.len();
        self.bind_allowed(statement, out)?;
        self.refuse_from(position, out);
        Ok(())
    }

    fn bind_allowed(
        &mut self,
        statement: &PlpgsqlStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = statement.syntax();
        match statement {
            PlpgsqlStmt::PlpgsqlNullStmt(_) => {}
            PlpgsqlStmt::PlpgsqlBlock(block) => out.push(self.bind_block(block)?),
            PlpgsqlStmt::PlpgsqlAssignStmt(assign) => self.bind_assign(assign, out)?,
            PlpgsqlStmt::PlpgsqlIfStmt(branch) => out.push(self.bind_if(branch)?),
            PlpgsqlStmt::PlpgsqlCaseStmt(case) => self.bind_case_statement(case, out)?,
            PlpgsqlStmt::PlpgsqlLoopStmt(repeat) => {
                let condition = Expression::boolean(true);
                let (label, body) = self.bind_loop(repeat.label(), repeat.body(), node)?;
                out.push(Statement::While { label, condition, body });
            }
            PlpgsqlStmt::PlpgsqlWhileStmt(repeat) => {
                let statement = self.bind_while(repeat)?;
                out.push(statement);
            }
            PlpgsqlStmt::PlpgsqlForIStmt(repeat) => {
                let bound = self.bind_for_range(repeat)?;
                self.push_loop(bound, repeat.syntax(), out);
            }
            PlpgsqlStmt::PlpgsqlForEachStmt(repeat) => {
                let bound = self.bind_for_each(repeat, out)?;
                self.push_loop(bound, repeat.syntax(), out);
            }
            PlpgsqlStmt::PlpgsqlForQueryStmt(repeat) => self.bind_for_rows(repeat, out)?,
            PlpgsqlStmt::PlpgsqlExitStmt(exit) => {
                let label = self.target(exit.label(), true, node)?;
                self.bind_jump(Statement::Exit(label), exit.when_clause(), node, out)?;
            }
            PlpgsqlStmt::PlpgsqlContinueStmt(again) => {
                let label = self.target(again.label(), false, node)?;
                self.bind_jump(Statement::Continue(label), again.when_clause(), node, out)?;
            }
            PlpgsqlStmt::PlpgsqlReturnStmt(end) => self.bind_return(end, out)?,
            PlpgsqlStmt::PlpgsqlReturnNextStmt(next) => self.bind_return_next(next, out)?,
            PlpgsqlStmt::PlpgsqlReturnQueryStmt(end) => self.bind_return_query(end, out)?,
            PlpgsqlStmt::PlpgsqlReturnQueryExecuteStmt(end) => self.bind_return_text(end, out)?,
            PlpgsqlStmt::PlpgsqlOpenStmt(open) => self.bind_open(open, out)?,
            PlpgsqlStmt::PlpgsqlFetchStmt(fetch) => self.bind_fetch(fetch, out)?,
            PlpgsqlStmt::PlpgsqlMoveStmt(step) => self.bind_move(step, out)?,
            PlpgsqlStmt::PlpgsqlCloseStmt(close) => self.bind_close(close, out)?,
            PlpgsqlStmt::PlpgsqlForCursorStmt(repeat) => self.bind_for_cursor(repeat, out)?,
            PlpgsqlStmt::PlpgsqlForDynStmt(repeat) => self.bind_for_text(repeat, out)?,
            PlpgsqlStmt::PlpgsqlDynExecuteStmt(execute) => self.bind_execute(execute, out)?,
            PlpgsqlStmt::PlpgsqlCommitStmt(_) => self.bind_end(true, out)?,
            PlpgsqlStmt::PlpgsqlRollbackStmt(_) => self.bind_end(false, out)?,
            PlpgsqlStmt::PlpgsqlGetDiagStmt(get) => self.bind_diagnostics(get, out)?,
            PlpgsqlStmt::PlpgsqlAssertStmt(assert) => self.bind_assert(assert, out)?,
            PlpgsqlStmt::PlpgsqlRaiseStmt(raise) if is_bare(raise) => {
                if self.variable(STACKED[0]).is_none() {
                    let message = "RAISE without parameters cannot be used outside an exception handler";
                    return Err(self.error(node, SqlError::new("0Z002", message)));
                }
                out.push(Statement::RaiseAgain);
            }
            PlpgsqlStmt::PlpgsqlRaiseStmt(raise) => {
                let raise = self.bind_raise(raise)?;
                out.push(Statement::Raise(Box::new(raise)));
            }
            PlpgsqlStmt::PlpgsqlExecSqlStmt(exec) => {
                let statement = self.part(exec.stmt(), node)?;
                match statement {
                    ast::Stmt::Notify(_) => {
                        let bound = self.bind_rows(node, |binder| binder.bind_accessing(&statement))?;
                        out.append(&mut self.discard(bound, node)?);
                    }
                    _ => self.bind_sql(&statement, out)?,
                }
            }
            PlpgsqlStmt::PlpgsqlPerformStmt(perform) => {
                let Some(select) = perform.select() else {
                    return Err(self.unsupported(node, "this kind of PERFORM"));
                };
                let bound = self.bind_performed(&ast::SelectVariant::Select(select))?;
                out.append(&mut self.discard(bound, node)?);
            }
            PlpgsqlStmt::PlpgsqlCallStmt(statement) => {
                let call = self.part(statement.call(), node)?;
                self.bind_call_statement(&call, out)?;
            }
            _ => return Err(self.unsupported(node, "this PL/pgSQL statement")),
        }
        Ok(())
    }

    /// Binds a block with its declarations.
    pub(crate) fn bind_block(&mut self, block: &ast::PlpgsqlBlock) -> Result<Statement, StatementError> {
        let node = block.syntax();
        let name = block.label().and_then(|label| label.name());
        let name = name.map(|name| ast::normalize_name_node(name.syntax()));
        let label = self.new_label();
        self.scopes.push((name.clone(), HashMap::new()));
        self.targets.push(Target { name, label, is_loop: false });
        let outer = self.lifted.take();
        let mut body = Vec::new();
        for declaration in block.declare_section().into_iter().flat_map(|section| section.decls()) {
            self.lifted = Some(Vec::new());
            let mut bound = Vec::new();
            self.refuse_declared(&declaration)?;
            self.bind_declaration(&declaration, &mut bound)?;
            body.append(&mut self.lifted.take().unwrap_or_default());
            body.append(&mut bound);
        }
        let mut inner = self.bind_body(block.body(), node)?;
        match block.exception() {
            None => body.append(&mut inner),
            Some(section) => {
                let handlers = self.bind_handlers(&section)?;
                body.push(Statement::Guarded(Box::new(Guarded { body: inner, handlers })));
            }
        }
        self.lifted = outer;
        self.targets.pop();
        self.scopes.pop();
        Ok(Statement::Block { label, body })
    }

    fn bind_declaration(
        &mut self,
        declaration: &ast::PlpgsqlDecl,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let variable = match declaration {
            ast::PlpgsqlDecl::PlpgsqlVarDecl(variable) => variable,
            ast::PlpgsqlDecl::PlpgsqlAliasDecl(alias) => return self.declare_alias(alias),
            ast::PlpgsqlDecl::PlpgsqlCursorDecl(cursor) => return self.declare_cursor(cursor, out),
        };
        let node = variable.syntax();
        let name = self.part(variable.name(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        let (ty, domain) = match self.part(variable.ty(), node)? {
            ty if variable.not_null().is_some() && self.is_row_type(&ty) => {
                return Err(self.unsupported(node, "a NOT NULL row"));
            }
            ast::PlpgsqlDeclType::FuncType(ast::FuncType::Type(ast::Type::PathType(path)))
                if path.syntax().text().to_string().eq_ignore_ascii_case("record") =>
            {
                self.declare(name, Name::Record(None));
                return Ok(());
            }
            ast::PlpgsqlDeclType::FuncType(ty)
                if ty.syntax().text().to_string().eq_ignore_ascii_case("refcursor") =>
            {
                self.declare_refcursor(name, out);
                return Ok(());
            }
            ast::PlpgsqlDeclType::FuncType(ty) => match self.table_of_type(&ty) {
                Some(table) => {
                    self.declare_row(name.clone(), &table, out);
                    return self.initial_row(&name, variable.init(), node, out);
                }
                None => self.bind_function_type(&ty)?,
            },
            ast::PlpgsqlDeclType::PlpgsqlPercentRowtype(row) => {
                let table = self.table_of_row(&row)?;
                self.declare_row(name.clone(), &table, out);
                return self.initial_row(&name, variable.init(), node, out);
            }
        };
        let value = match variable.init() {
            Some(init) => {
                let expression = self.single_expression(init.expr(), node)?;
                self.bind_as(&expression, ty, CastContext::Variable)?
            }
            None => Expression::NULL,
        };
        let register = self.new_register(ty);
        domain.map(|domain| self.domains.insert(register, domain));
        let value = self.checked_for(register, value, node)?;
        let constant = variable.constant_token().is_some();
        let shown = name.clone();
        self.declare(name, Name::Variable(Variable { register, ty, constant }));
        out.push(Statement::Assign { target: register, value });
        if variable.not_null().is_some() {
            out.push(self.declare_never_null(&shown, register, variable.init().is_some(), node)?);
        }
        Ok(())
    }

    /// Returns the variable that an assignment, a loop or INTO sets.
    pub(crate) fn assignable(
        &mut self,
        name: &str,
        field: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Variable, StatementError> {
        self.assignable_at(name, field, self.offset(node))
    }

    fn assignable_at(
        &mut self,
        name: &str,
        field: Option<&str>,
        offset: usize,
    ) -> Result<Variable, StatementError> {
        let variable = self.changeable_at(name, field, offset)?;
        Ok(Variable { register: self.target_for(variable.register), ..variable })
    }

    /// Returns a variable that a statement may change.
    fn changeable_at(
        &self,
        name: &str,
        field: Option<&str>,
        offset: usize,
    ) -> Result<Variable, StatementError> {
        let fail = |code: &str, message: String| self.source.error_at(offset, SqlError::new(code, message));
        let variable = match (self.name(name), field) {
            (Some(Name::Variable(variable)), None) => Some(*variable),
            (Some(Name::Record(Some(fields)) | Name::Row(fields)), Some(field)) => {
                fields.iter().find(|(name, _)| name == field).map(|(_, variable)| *variable)
            }
            (_, Some(field)) => self.labelled_variable(name, field),
            _ => None,
        };
        match variable {
            Some(variable) if variable.constant => {
                Err(fail("22005", format!("variable \"{name}\" is declared CONSTANT")))
            }
            Some(variable) => Ok(variable),
            None => Err(match (self.name(name), field) {
                (Some(Name::Record(_) | Name::Row(_)), Some(field)) => {
                    fail("42703", format!("record \"{name}\" has no field \"{field}\""))
                }
                _ => fail("42601", format!("\"{name}\" is not a known variable")),
            }),
        }
    }

    fn bind_assign(
        &mut self,
        assign: &ast::PlpgsqlAssignStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = assign.syntax();
        let target = node.children().find_map(ast::PlpgsqlAssignTarget::cast);
        let target = self.part(target, node)?;
        let value = node.children().find_map(ast::PlpgsqlExpr::cast);
        let value = self.single_expression(value, node)?;
        let name = self.part(target.name(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        let mut accessors = target.accessors();
        let accessor = accessors.next();
        let field = match &accessor {
            Some(ast::Accessor::FieldAccessor(field)) => {
                let text = field.syntax().text().to_string();
                let text = text.trim_start_matches('.').trim();
                Some(match text.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
                    Some(quoted) => quoted.replace("\"\"", "\""),
                    None => text.to_lowercase(),
                })
            }
            _ => None,
        };
        let accessor = if field.is_some() { accessors.next() } else { accessor };
        if let Some(second) = accessors.next() {
            return Err(self.unsupported(second.syntax(), "this target of an assignment"));
        }
        match accessor {
            None if field.is_none()
                && matches!(self.name(&name), Some(Name::Record(_) | Name::UnclearRecord | Name::Row(_))) =>
            {
                return self.assign_record(&name, &value, out);
            }
            None => {
                let variable = self.assignable(&name, field.as_deref(), target.syntax())?;
                let value = self.bind_as(&value, variable.ty, CastContext::Variable)?;
                out.push(Statement::Assign { target: variable.register, value });
            }
            Some(other @ ast::Accessor::FieldAccessor(_)) => {
                return Err(self.unsupported(other.syntax(), "this target of an assignment"));
            }
            Some(ast::Accessor::IndexAccessor(index)) => {
                let offset = self.offset(target.syntax());
                let variable = self.changeable_at(&name, field.as_deref(), offset)?;
                let Type::Array(element) = variable.ty else {
                    let message = format!("\"{name}\" is not an array");
                    return Err(self.error(target.syntax(), SqlError::new("42804", message)));
                };
                let position = self.part(index.index(), node)?;
                let index = self.bind_as(&position, ScalarType::Integer, CastContext::Assignment)?;
                let value = self.bind_as(&value, element, CastContext::Variable)?;
                self.assign_element(variable, index, value, node, out)?;
            }
            Some(slice @ ast::Accessor::SliceAccessor(_)) => {
                let offset = self.offset(target.syntax());
                let variable = self.changeable_at(&name, field.as_deref(), offset)?;
                let old = Expression::Register(variable.register);
                let subscripted = Subscripted { name: &name, old, ty: variable.ty };
                let value = self.bind(&value)?;
                let value = self.bind_subscripted(subscripted, [slice].into_iter(), Some(value), node)?;
                let value = self.checked_for(variable.register, value, node)?;
                out.push(Statement::Assign { target: variable.register, value });
            }
        }
        Ok(())
    }

    fn bind_if(&mut self, branch: &ast::PlpgsqlIfStmt) -> Result<Statement, StatementError> {
        let node = branch.syntax();
        let condition = self.single_expression(branch.cond(), node)?;
        let condition = self.bind_test(&condition)?;
        let elsifs: Vec<_> = branch.elsifs().collect();
        let (then, otherwise) = match self.known_condition(&condition) {
            Some(true) => (self.bind_inner(branch.then_body(), node)?, Vec::new()),
            Some(false) => (Vec::new(), self.bind_otherwise(&elsifs, branch)?),
            None => {
                let then = self.bind_inner(branch.then_body(), node)?;
                (then, self.bind_otherwise(&elsifs, branch)?)
            }
        };
        Ok(Statement::If { condition, then, otherwise })
    }

    /// Returns whether a condition of a trigger function is true, if that is known when the function is
    /// compiled. A branch that is not taken is then left out: PostgreSQL does not look at it, either.
    fn known_condition(&self, condition: &Expression) -> Option<bool> {
        let is_known = self.trigger.is_some() && condition.is_constant();
        let value = is_known.then(|| condition.evaluate(&mut Machine::default()))?;
        value.ok().map(|value| value.is_true())
    }

    /// Binds the branches behind the first ones. An ELSIF is an IF inside ELSE, so calls that are lifted from
    /// its condition belong in the ELSE.
    fn bind_otherwise(
        &mut self,
        elsifs: &[ast::PlpgsqlElsifClause],
        branch: &ast::PlpgsqlIfStmt,
    ) -> Result<Vec<Statement>, StatementError> {
        let Some((elsif, rest)) = elsifs.split_first() else {
            return match branch.else_clause() {
                Some(clause) => self.bind_inner(clause.body(), clause.syntax()),
                None => Ok(Vec::new()),
            };
        };
        let condition = self.single_expression(elsif.cond(), elsif.syntax())?;
        let (condition, mut statements) = self.apart(|binder| binder.bind_test(&condition))?;
        let known = self.known_condition(&condition);
        let then = match known {
            Some(false) => Vec::new(),
            _ => self.bind_inner(elsif.body(), elsif.syntax())?,
        };
        let otherwise = match known {
            Some(true) => Vec::new(),
            _ => self.bind_otherwise(rest, branch)?,
        };
        statements.push(Statement::If { condition, then, otherwise });
        Ok(statements)
    }

    fn bind_case_statement(
        &mut self,
        case: &ast::PlpgsqlCaseStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = case.syntax();
        let subject = match case.subject() {
            Some(subject) => {
                let subject = self.single_expression(Some(subject), node)?;
                let bound = self.bind(&subject)?;
                let (value, ty) = self.settle(bound, None, subject.syntax())?;
                let register = self.new_register(ty);
                out.push(Statement::Assign { target: register, value });
                Some(Typed::Known(Expression::Register(register), ty))
            }
            None => None,
        };
        let mut otherwise = match case.else_clause() {
            Some(clause) => self.bind_inner(clause.body(), clause.syntax())?,
            None => {
                let hint = Expression::text("CASE statement is missing ELSE part.");
                let options = vec![(RaiseOption::Hint, hint)];
                vec![Statement::Raise(Box::new(Raise { options, ..Raise::error("20000", "case not found") }))]
            }
        };
        let whens: Vec<_> = case.whens().collect();
        for when in whens.iter().rev() {
            let (condition, mut statements) =
                self.apart(|binder| binder.bind_alternative(subject.as_ref(), when))?;
            let then = self.bind_inner(when.body(), when.syntax())?;
            statements.push(Statement::If { condition, then, otherwise });
            otherwise = statements;
        }
        out.append(&mut otherwise);
        Ok(())
    }

    /// Binds the condition of a WHEN of a CASE statement.
    fn bind_alternative(
        &mut self,
        subject: Option<&Typed>,
        when: &ast::PlpgsqlCaseWhen,
    ) -> Result<Expression, StatementError> {
        let conditions = self.part(when.cond(), when.syntax())?;
        let mut any = Vec::new();
        for candidate in conditions.target_list().into_iter().flat_map(|list| list.targets()) {
            let candidate = self.part(candidate.expr(), when.syntax())?;
            any.push(match subject {
                None => self.bind_test(&candidate)?,
                Some(subject) => {
                    let value = self.bind(&candidate)?;
                    let (class, operands) = self.comparable(subject.clone(), value, candidate.syntax())?;
                    Expression::Compare { operator: CompareOperator::Equal, class, operands }
                }
            });
        }
        Ok(Expression::any(any))
    }

    /// Binds the targets of INTO.
    fn bind_targets_of_into(
        &mut self,
        statement: &SyntaxNode,
        items: Option<&[(String, Typed, SyntaxNode)]>,
    ) -> Result<Option<BoundInto>, StatementError> {
        let Some(into) = self.source.targets_at(self.offset(statement)).cloned() else { return Ok(None) };
        if let ([(name, None, _)], Some(items)) = (into.targets.as_slice(), items)
            && matches!(self.name(name), Some(Name::Record(_) | Name::UnclearRecord))
        {
            return Ok(Some((self.record_targets(name, items)?, into.strict)));
        }
        if let [(name, None, _)] = into.targets.as_slice()
            && let Some(Name::Row(fields)) = self.name(name)
        {
            return Ok(Some((
                fields.iter().map(|(_, variable)| (variable.register, variable.ty)).collect(),
                into.strict,
            )));
        }
        let mut targets = Vec::new();
        for (name, field, offset) in &into.targets {
            let variable = self.assignable_at(name, field.as_deref(), *offset)?;
            targets.push((variable.register, variable.ty));
        }
        Ok(Some((targets, into.strict)))
    }

    /// Binds a statement that writes as a query of the rows that it returns.
    pub(crate) fn bind_written_rows(
        &mut self,
        statement: &ast::Stmt,
    ) -> Result<Option<BoundRows>, StatementError> {
        let query = self.bind_query(|binder| binder.bind_accessing(statement))?;
        let written = query.plan.writes();
        Ok(written.then(|| Self::rows_of_query(query, statement.syntax())))
    }

    fn bind_sql(&mut self, statement: &ast::Stmt, out: &mut Vec<Statement>) -> Result<(), StatementError> {
        let node = statement.syntax();
        let bound = self.bind_rows(node, |binder| binder.bind_accessing(statement))?;
        let is_query = ast::SelectVariant::can_cast(node.kind());
        let into = self.bind_targets_of_into(node, Some(&bound.items))?;
        let (targets, strict) = match into {
            Some(_) if !is_query && bound.items.is_empty() => {
                return Err(self.syntax(node, "INTO requires a RETURNING clause"));
            }
            Some(into) => into,
            None if is_query => {
                let error = SqlError::new("42601", "query has no destination for result data");
                let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                return Err(self.error(node, error.with_hint(hint)));
            }
            None if !bound.items.is_empty() => {
                return Err(self.syntax(node, "RETURNING requires an INTO clause"));
            }
            None => (Vec::new(), false),
        };
        let outputs = self.outputs(bound.items, &targets, node)?;
        out.append(&mut self.execute(bound.work, outputs, strict, node));
        Ok(())
    }
}
