//! Cursors of PL/pgSQL.

use crate::binder::{Binder, CursorVariable, Name, Variable};
use crate::error::StatementError;
use crate::opaque::{Columns, opaque};
use catalog::{Datum, ScalarType, Type};
use procedure::{
    CastContext, Cursor, Destination, Expression, Movement, Opaque, Register, SqlError, Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

/// Returns whether a cursor moves forward only. As in PostgreSQL, FOR UPDATE implies NO SCROLL.
pub(crate) fn is_forward_only(scroll: Option<ast::CursorScroll>, query: Option<&SyntaxNode>) -> bool {
    match scroll {
        Some(ast::CursorScroll::NoScroll(_)) => true,
        Some(ast::CursorScroll::Scroll(_)) => false,
        None => query.is_some_and(|query| locking_clause(query).is_some()),
    }
}

/// Returns the first locking clause of a query, such as FOR UPDATE.
pub(crate) fn locking_clause(query: &SyntaxNode) -> Option<ast::LockingClause> {
    query.children().find_map(ast::LockingClause::cast)
}

impl Binder<'_> {
    /// Declares a cursor that has no query yet.
    pub(crate) fn declare_refcursor(&mut self, name: String, out: &mut Vec<Statement>) {
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let cursor = Cursor { register, name: name.clone(), is_bound: false, is_forward_only: false };
        let variable = CursorVariable { cursor, arguments: Vec::new(), query: None, columns: None };
        self.declare(name, Name::Cursor(Box::new(variable)));
    }

    /// Declares a cursor with a query: `name CURSOR (arguments) FOR query`.
    pub(crate) fn declare_cursor(
        &mut self,
        declaration: &ast::PlpgsqlCursorDecl,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = declaration.syntax();
        let name = self.part(declaration.name(), node)?;
        let name = ast::normalize_name_node(name.syntax());
        let mut arguments = Vec::new();
        for argument in declaration.args().into_iter().flat_map(|list| list.plpgsql_cursor_args()) {
            let argument_name = self.part(argument.name(), node)?;
            let argument_name = ast::normalize_name_node(argument_name.syntax());
            let (ty, domain) = match self.part(argument.ty(), node)? {
                ast::PlpgsqlDeclType::FuncType(ty) => self.bind_function_type(&ty)?,
                ast::PlpgsqlDeclType::PlpgsqlPercentRowtype(row) => {
                    return Err(self.unsupported(row.syntax(), "%ROWTYPE of a cursor's argument"));
                }
            };
            let register = self.new_register(ty);
            domain.map(|domain| self.domains.insert(register, domain));
            arguments.push((argument_name, Variable { register, ty, constant: false }));
        }
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let query = self.part(declaration.query(), node)?;
        let is_forward_only = is_forward_only(declaration.scroll(), Some(query.syntax()));
        let query = Some(query);
        let cursor = Cursor { register, name: name.clone(), is_bound: true, is_forward_only };
        let variable = CursorVariable { cursor, arguments, query, columns: None };
        self.declare(name, Name::Cursor(Box::new(variable)));
        Ok(())
    }

    fn cursor_of(
        &self,
        reference: Option<ast::PlpgsqlCursorVariableRef>,
        node: &SyntaxNode,
    ) -> Result<(String, CursorVariable), StatementError> {
        let reference = self.part(reference, node)?;
        let name = reference.syntax().text().to_string().trim().trim_matches('"').to_lowercase();
        match self.name(&name) {
            Some(Name::Cursor(variable)) => Ok((name, (**variable).clone())),
            _ => {
                let message = format!("\"{name}\" is not a cursor variable");
                Err(self.error(reference.syntax(), SqlError::new("42804", message)))
            }
        }
    }

    /// Opens a cursor on its declared query.
    fn open_declared(
        &mut self,
        (name, variable): (&str, &CursorVariable),
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let Some(query) = variable.query.clone() else {
            return Err(self.syntax(node, "a cursor without a query needs OPEN … FOR"));
        };
        let given: Vec<_> = list.into_iter().flat_map(|list| list.args()).collect();
        if given.len() != variable.arguments.len() {
            let (count, wanted) = (given.len(), variable.arguments.len());
            return Err(self.syntax(node, &format!("cursor \"{name}\" has {wanted} arguments, not {count}")));
        }
        for (position, argument) in given.iter().enumerate() {
            let (declared, expression) = match self.part(argument.func_arg_expr(), node)? {
                ast::FuncArgExpr::Expr(expression) => (Some(&variable.arguments[position]), expression),
                ast::FuncArgExpr::NamedArg(named) => {
                    let of = self.part(named.name(), node)?;
                    let of = ast::normalize_name_node(of.syntax());
                    let declared = variable.arguments.iter().find(|(declared, _)| *declared == of);
                    (declared, self.part(named.expr(), node)?)
                }
            };
            let (_, parameter) = *self.part(declared, argument.syntax())?;
            let value = self.bind_as(&expression, parameter.ty, CastContext::Variable)?;
            let value = self.checked_for(parameter.register, value, node)?;
            out.push(Statement::Assign { target: parameter.register, value });
        }
        let names =
            variable.arguments.iter().map(|(name, variable)| (name.clone(), Name::Variable(*variable)));
        // As in PostgreSQL, the query does not know the name of its cursor.
        let scope = self.scopes.iter().rposition(|(_, names)| names.contains_key(name));
        let hidden = scope.and_then(|scope| self.scopes[scope].1.remove(name));
        self.scopes.push((Some(name.to_owned()), names.collect::<HashMap<_, _>>()));
        let bound = self.rows_query(&query, None);
        self.scopes.pop();
        if let (Some(scope), Some(hidden)) = (scope, hidden) {
            self.scopes[scope].1.insert(name.to_owned(), hidden);
        }
        let (query, columns) = bound?;
        self.knows_columns(name, variable, columns);
        self.push_opaque(Opaque::Open(variable.cursor.clone(), query), out);
        Ok(())
    }

    fn knows_columns(&mut self, name: &str, variable: &CursorVariable, columns: Columns) {
        let variable = CursorVariable { columns: Some(columns), ..variable.clone() };
        self.redefine(name, Name::Cursor(Box::new(variable)));
    }

    pub(crate) fn bind_open(
        &mut self,
        open: &ast::PlpgsqlOpenStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = open.syntax();
        let (name, mut variable) = self.cursor_of(open.cursor(), node)?;
        match open.source() {
            None => self.open_declared((&name, &variable), open.args(), node, out),
            Some(ast::PlpgsqlOpenSource::PlpgsqlOpenQuery(query)) => {
                let statement = self.part(query.query(), node)?;
                variable.cursor.is_forward_only = is_forward_only(open.scroll(), Some(statement.syntax()));
                let (query, columns) = self.rows_query(&statement, None)?;
                self.knows_columns(&name, &variable, columns);
                self.push_opaque(Opaque::Open(variable.cursor, query), out);
                Ok(())
            }
            Some(ast::PlpgsqlOpenSource::PlpgsqlOpenExecute(text)) => {
                variable.cursor.is_forward_only = is_forward_only(open.scroll(), None);
                let rows = Destination::Cursor(variable.cursor);
                let text = self.bind_dynamic(text.query(), text.using_clause(), rows, node)?;
                self.push_opaque(text, out);
                Ok(())
            }
        }
    }

    fn movement(
        &mut self,
        action: Option<ast::CursorAction>,
        moves: bool,
        node: &SyntaxNode,
    ) -> Result<Movement, StatementError> {
        let by = |count: i64| Movement::By(Expression::Constant(Datum::Int(count)));
        let all = || Expression::Constant(Datum::Int(i64::MAX));
        let mut count = |expression: Option<ast::Expr>| {
            let expression = self.part(expression, node)?;
            self.bind_as(&expression, ScalarType::BigInt, CastContext::Assignment)
        };
        Ok(match action {
            None | Some(ast::CursorAction::Next(_)) => by(1),
            Some(ast::CursorAction::Prior(_)) => by(-1),
            Some(ast::CursorAction::First(_)) => Movement::First,
            Some(ast::CursorAction::Last(_)) => Movement::Last,
            Some(ast::CursorAction::Absolute(action)) => Movement::To(count(action.expr())?),
            Some(ast::CursorAction::Relative(action)) => Movement::By(count(action.expr())?),
            Some(ast::CursorAction::Forward(action))
                if action.expr().is_none() && action.all_token().is_none() =>
            {
                by(1)
            }
            Some(ast::CursorAction::Backward(action))
                if action.expr().is_none() && action.all_token().is_none() =>
            {
                by(-1)
            }
            Some(ast::CursorAction::Forward(action)) if moves && action.all_token().is_none() => {
                Movement::Forward(count(action.expr())?)
            }
            Some(ast::CursorAction::Backward(action)) if moves && action.all_token().is_none() => {
                Movement::Back(count(action.expr())?)
            }
            Some(ast::CursorAction::Backward(_)) if moves => Movement::Back(all()),
            Some(ast::CursorAction::Forward(_) | ast::CursorAction::All(_)) if moves => {
                Movement::Forward(all())
            }
            Some(ast::CursorAction::Expr(offset)) if moves => Movement::Forward(count(Some(offset))?),
            Some(other) => return Err(self.unsupported(other.syntax(), "FETCH of several rows")),
        })
    }

    pub(crate) fn bind_fetch(
        &mut self,
        fetch: &ast::PlpgsqlFetchStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = fetch.syntax();
        let (_, variable) = self.cursor_of(fetch.cursor(), node)?;
        let movement = self.movement(fetch.direction(), false, node)?;
        let into = self.part(fetch.into_clause(), node)?;
        let targets = self.targets_of(&into, variable.columns.as_deref())?;
        let found = self.found();
        self.push_opaque(Opaque::Fetch { cursor: variable.cursor, movement, targets, found }, out);
        Ok(())
    }

    pub(crate) fn bind_move(
        &mut self,
        step: &ast::PlpgsqlMoveStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = step.syntax();
        let (_, variable) = self.cursor_of(step.cursor(), node)?;
        let movement = self.movement(step.direction(), true, node)?;
        let found = self.found();
        let targets = Vec::new();
        self.push_opaque(Opaque::Fetch { cursor: variable.cursor, movement, targets, found }, out);
        Ok(())
    }

    pub(crate) fn bind_close(
        &mut self,
        close: &ast::PlpgsqlCloseStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let (_, variable) = self.cursor_of(close.cursor(), close.syntax())?;
        self.push_opaque(Opaque::Close(variable.cursor), out);
        Ok(())
    }

    /// Binds a loop over the rows of an open cursor, which is closed after the loop.
    pub(crate) fn bind_fetching_loop(
        &mut self,
        cursor: &Cursor,
        targets: Vec<(Register, Type)>,
        (label, body): (Option<ast::PlpgsqlLabel>, Option<ast::PlpgsqlBody>),
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let (is_row, any) = (self.new_register(ScalarType::Boolean), self.new_register(ScalarType::Boolean));
        let (label, mut inner) = self.bind_loop(label, body, node)?;
        let assign = |value| Statement::Assign { target: any, value };
        let movement = Movement::Next;
        let fetch = Opaque::Fetch { cursor: cursor.clone(), movement, targets, found: is_row };
        let mut body = vec![opaque(fetch)];
        body.push(Statement::If {
            condition: Expression::Register(is_row),
            then: vec![assign(Expression::boolean(true))],
            otherwise: vec![Statement::Exit(label)],
        });
        body.append(&mut inner);
        out.push(assign(Expression::boolean(false)));
        out.push(Statement::While { label, condition: Expression::boolean(true), body });
        self.push_opaque(Opaque::Close(cursor.clone()), out);
        let found = self.found();
        out.push(Statement::Assign { target: found, value: Expression::Register(any) });
        Ok(())
    }

    /// Binds FOR … IN a cursor with a declared query.
    pub(crate) fn bind_for_cursor(
        &mut self,
        repeat: &ast::PlpgsqlForCursorStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = repeat.syntax();
        let (name, variable) = self.cursor_of(repeat.cursor(), node)?;
        self.open_declared((&name, &variable), repeat.args(), node, out)?;
        let (_, variable) = self.cursor_of(repeat.cursor(), node)?;
        self.scopes.push((None, HashMap::new()));
        let targets = self.loop_targets(repeat.vars(), variable.columns.as_deref(), node);
        let parts = (repeat.label(), repeat.body());
        let bound =
            targets.and_then(|targets| self.bind_fetching_loop(&variable.cursor, targets, parts, node, out));
        self.scopes.pop();
        bound
    }
}
