//! PL/pgSQL that the analysis does not look into: functions that return rows, cursors, EXECUTE, COMMIT.

use crate::binder::{Binder, CursorVariable, Name, Variable};
use crate::error::StatementError;
use crate::query::BoundSelect;
use catalog::{Datum, ScalarType, Type};
use procedure::{
    Cursor, Destination, Expression, Movement, Opaque, OperationId, OperationKind, QueryOperation, Register,
    SqlError, Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

/// Columns by name.
type Columns = Vec<(String, Type)>;

fn opaque(statement: Opaque) -> Statement {
    Statement::Opaque(Box::new(statement))
}

impl Binder<'_> {
    /// Takes note of a statement that the analysis does not look into.
    fn push_opaque(&mut self, statement: Opaque, out: &mut Vec<Statement>) {
        self.by_value = true;
        out.push(opaque(statement));
    }

    /// The rows of a query or of a statement that returns what it wrote.
    fn bind_any_rows(&mut self, statement: &ast::Stmt) -> Result<BoundSelect, StatementError> {
        let node = statement.syntax();
        if let Some(query) = ast::SelectVariant::cast(node.clone()) {
            let bound = self.bind_query(|binder| binder.bind_variant(&query))?;
            return Ok(Self::rows_of_query(bound, node));
        }
        match self.bind_written_rows(statement)? {
            Some(bound) if !bound.items.is_empty() => Ok(bound),
            _ => Err(self.syntax(node, "a statement with rows is expected here")),
        }
    }

    /// Makes the operation of a query whose columns are converted to types; as they are without any.
    fn rows_operation(
        &mut self,
        statement: &ast::Stmt,
        types: Option<&[Type]>,
    ) -> Result<(OperationId, Columns), StatementError> {
        let node = statement.syntax();
        let bound = self.bind_any_rows(statement)?;
        let crate::query::SelectRows::Query(query) = bound.rows else {
            return Err(self.unsupported(node, "this query here"));
        };
        let columns: Columns = query.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
        let own: Vec<Type> = columns.iter().map(|(_, ty)| *ty).collect();
        let types = types.unwrap_or(&own);
        if types.len() != columns.len() {
            let error = SqlError::new("42804", "structure of query does not match function result type");
            let detail = format!("The query has {} columns, not {}.", columns.len(), types.len());
            return Err(self.error(node, error.with_detail(detail)));
        }
        let targets: Vec<_> = types.iter().map(|ty| (self.new_register(*ty), *ty)).collect();
        let outputs = self.outputs(bound.items, &targets, node)?;
        let own = QueryOperation { query, outputs, strict: false, to_client: false };
        Ok((self.operation(OperationKind::Query(Box::new(own)), node), columns))
    }

    /// The columns of the rows that the function in hand returns.
    fn returned_types(&self, node: &SyntaxNode) -> Result<Vec<Type>, StatementError> {
        match &self.returns {
            Some(columns) => Ok(columns.iter().map(|(_, ty)| *ty).collect()),
            None => {
                let message = "this can only be used in a function that returns rows";
                Err(self.error(
                    node,
                    SqlError::new("42804", message).with_hint("Declare RETURNS SETOF or TABLE."),
                ))
            }
        }
    }

    pub(crate) fn bind_return_next(
        &mut self,
        next: &ast::PlpgsqlReturnNextStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = next.syntax();
        let types = self.returned_types(node)?;
        let values = match (next.expr(), self.returned.is_empty()) {
            (None, false) => self.returned.iter().map(|register| Expression::Register(*register)).collect(),
            (None, true) => return Err(self.syntax(node, "RETURN NEXT must have a parameter")),
            (Some(expression), false) => {
                let message = "RETURN NEXT cannot have a parameter in a function with OUT parameters";
                return Err(self.syntax(expression.syntax(), message));
            }
            (Some(expression), true) => {
                let value = self.single_expression(Some(expression), node)?;
                let record = match &value {
                    ast::Expr::NameRef(name) => self.fields(&name.text()).map(<[_]>::to_vec),
                    _ => None,
                };
                match (record, types.as_slice()) {
                    (Some(fields), types) if fields.len() == types.len() => {
                        let mut values = Vec::new();
                        for ((_, field), ty) in fields.iter().zip(types) {
                            let typed =
                                crate::binder::Typed::Known(Expression::Register(field.register), field.ty);
                            values.push(self.coerce(typed, *ty, false, node)?);
                        }
                        values
                    }
                    (None, [only]) => vec![self.bind_as(&value, *only)?],
                    _ => {
                        let message = "wrong record type supplied in RETURN NEXT";
                        return Err(self.error(node, SqlError::new("42804", message)));
                    }
                }
            }
        };
        self.push_opaque(Opaque::ReturnNext(values), out);
        Ok(())
    }

    pub(crate) fn bind_return_query(
        &mut self,
        end: &ast::PlpgsqlReturnQueryStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let types = self.returned_types(end.syntax())?;
        let statement = self.part(end.query(), end.syntax())?;
        let (operation, _) = self.rows_operation(&statement, Some(&types))?;
        self.push_opaque(Opaque::ReturnQuery(operation), out);
        Ok(())
    }

    pub(crate) fn bind_return_text(
        &mut self,
        end: &ast::PlpgsqlReturnQueryExecuteStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = end.syntax();
        let types = self.returned_types(node)?;
        let text = self.bind_dynamic(end.query(), end.using_clause(), Destination::Returned(types), node)?;
        self.push_opaque(text, out);
        Ok(())
    }

    /// The fields of a record or row variable.
    pub(crate) fn fields(&self, name: &str) -> Option<&[(String, Variable)]> {
        match self.name(name) {
            Some(Name::Record(Some(fields)) | Name::Row(fields)) => Some(fields),
            _ => None,
        }
    }

    /// Declares a variable with the columns of a table.
    pub(crate) fn declare_row(
        &mut self,
        name: String,
        row: &ast::PlpgsqlPercentRowtype,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = row.syntax();
        if row.array_bounds().next().is_some() || row.array_token().is_some() {
            return Err(self.unsupported(node, "an array of rows"));
        }
        let path = self.part(row.path_ref(), node)?;
        let table = self.table(&crate::types::object_name(&path), node)?;
        let columns: Columns =
            table.visible().iter().map(|column| (column.name.clone(), column.ty.into())).collect();
        let fields = self.new_fields(&columns);
        for (_, field) in &fields {
            out.push(Statement::Assign { target: field.register, value: Expression::NULL });
        }
        self.declare(name, Name::Row(fields));
        Ok(())
    }

    /// Gives a record columns; it keeps its variables where it has them already, as what comes before in a loop reads those.
    pub(crate) fn record_with(&mut self, name: &str, columns: &[(String, Type)]) -> Vec<(Register, Type)> {
        let known = self.fields(name).filter(|fields| {
            let own = fields.iter().map(|(own, variable)| (own, variable.ty));
            own.eq(columns.iter().map(|(own, ty)| (own, *ty)))
        });
        let fields = match known {
            Some(fields) => fields.to_vec(),
            None => self.new_fields(columns),
        };
        let targets = fields.iter().map(|(_, own)| (own.register, own.ty)).collect();
        self.redefine(name, Name::Record(Some(fields)));
        targets
    }

    fn new_fields(&mut self, columns: &[(String, Type)]) -> Vec<(String, Variable)> {
        let field = |(name, ty): &(String, Type)| {
            let register = self.new_register(*ty);
            (name.clone(), Variable { register, ty: *ty, constant: false })
        };
        columns.iter().map(field).collect()
    }

    /// `a ALIAS FOR b`.
    pub(crate) fn declare_alias(&mut self, alias: &ast::PlpgsqlAliasDecl) -> Result<(), StatementError> {
        let node = alias.syntax();
        let name = self.part(alias.name(), node)?;
        let own = ast::normalize_name_node(name.syntax());
        let text = node.text().to_string();
        let of = text.trim_end_matches(';').split_whitespace().last().unwrap_or_default().to_lowercase();
        let of = of.rsplit('.').next().unwrap_or_default().to_owned();
        let Some(what) = self.name(&of).cloned() else {
            let message = format!("variable \"{of}\" does not exist");
            return Err(self.error(node, SqlError::new("42704", message)));
        };
        self.declare(own, what);
        Ok(())
    }

    /// Declares a cursor that has no query yet.
    pub(crate) fn declare_refcursor(&mut self, name: String, out: &mut Vec<Statement>) {
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let cursor = Cursor { register, name: name.clone() };
        let variable = CursorVariable { cursor, arguments: Vec::new(), query: None, columns: None };
        self.declare(name, Name::Cursor(Box::new(variable)));
    }

    /// `name CURSOR (arguments) FOR query`.
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
            let own = self.part(argument.name(), node)?;
            let own = ast::normalize_name_node(own.syntax());
            let ty = match self.part(argument.ty(), node)? {
                ast::PlpgsqlDeclType::FuncType(ty) => self.bind_function_type(&ty)?,
                ast::PlpgsqlDeclType::PlpgsqlPercentRowtype(row) => {
                    return Err(self.unsupported(row.syntax(), "%ROWTYPE of a cursor's argument"));
                }
            };
            let register = self.new_register(ty);
            arguments.push((own, Variable { register, ty, constant: false }));
        }
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let cursor = Cursor { register, name: name.clone() };
        let query = Some(self.part(declaration.query(), node)?);
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

    /// Opens a cursor on the query that it was declared with.
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
            let (own, wanted) = (given.len(), variable.arguments.len());
            return Err(self.syntax(node, &format!("cursor \"{name}\" has {wanted} arguments, not {own}")));
        }
        for (place, argument) in given.iter().enumerate() {
            let (own, expression) = match self.part(argument.func_arg_expr(), node)? {
                ast::FuncArgExpr::Expr(expression) => (Some(&variable.arguments[place]), expression),
                ast::FuncArgExpr::NamedArg(named) => {
                    let of = self.part(named.name(), node)?;
                    let of = ast::normalize_name_node(of.syntax());
                    let own = variable.arguments.iter().find(|(own, _)| *own == of);
                    (own, self.part(named.expr(), node)?)
                }
            };
            let (_, own) = *self.part(own, argument.syntax())?;
            let value = self.bind_as(&expression, own.ty)?;
            out.push(Statement::Assign { target: own.register, value });
        }
        let names =
            variable.arguments.iter().map(|(own, own_variable)| (own.clone(), Name::Variable(*own_variable)));
        self.scopes.push((Some(name.to_owned()), names.collect::<HashMap<_, _>>()));
        let bound = self.rows_operation(&query, None);
        self.scopes.pop();
        let (operation, columns) = bound?;
        self.knows_columns(name, variable, columns);
        self.push_opaque(Opaque::Open(variable.cursor.clone(), operation), out);
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
        let (name, variable) = self.cursor_of(open.cursor(), node)?;
        match open.source() {
            None => self.open_declared((&name, &variable), open.args(), node, out),
            Some(ast::PlpgsqlOpenSource::PlpgsqlOpenQuery(query)) => {
                let statement = self.part(query.query(), node)?;
                let (operation, columns) = self.rows_operation(&statement, None)?;
                self.knows_columns(&name, &variable, columns);
                self.push_opaque(Opaque::Open(variable.cursor, operation), out);
                Ok(())
            }
            Some(ast::PlpgsqlOpenSource::PlpgsqlOpenExecute(text)) => {
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
        let mut count = |own: Option<ast::Expr>| {
            let own = self.part(own, node)?;
            self.bind_as(&own, ScalarType::BigInt)
        };
        Ok(match action {
            None | Some(ast::CursorAction::Next(_)) => by(1),
            Some(ast::CursorAction::Prior(_)) => by(-1),
            Some(ast::CursorAction::First(_)) => Movement::First,
            Some(ast::CursorAction::Last(_)) => Movement::Last,
            Some(ast::CursorAction::Absolute(own)) => Movement::To(count(own.expr())?),
            Some(ast::CursorAction::Relative(own)) => Movement::By(count(own.expr())?),
            Some(ast::CursorAction::Forward(own)) if own.expr().is_none() && own.all_token().is_none() => {
                by(1)
            }
            Some(ast::CursorAction::Backward(own)) if own.expr().is_none() && own.all_token().is_none() => {
                by(-1)
            }
            Some(ast::CursorAction::Forward(own)) if moves && own.all_token().is_none() => {
                Movement::By(count(own.expr())?)
            }
            Some(ast::CursorAction::Backward(own)) if moves && own.all_token().is_none() => {
                Movement::Back(count(own.expr())?)
            }
            Some(ast::CursorAction::Backward(_)) if moves => {
                Movement::To(Expression::Constant(Datum::Int(0)))
            }
            Some(ast::CursorAction::Forward(_) | ast::CursorAction::All(_)) if moves => Movement::BehindAll,
            Some(ast::CursorAction::Expr(own)) if moves => Movement::By(count(Some(own))?),
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

    /// Where an INTO sends a row whose columns are known, or not.
    fn targets_of(
        &mut self,
        into: &ast::PlpgsqlIntoClause,
        columns: Option<&[(String, Type)]>,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        let node = into.syntax();
        let list = self.part(into.targets(), node)?;
        let mut names = Vec::new();
        for target in list.plpgsql_into_targets() {
            let name = self.part(target.name(), target.syntax())?;
            let name = ast::normalize_name_node(name.syntax());
            let field = target.field_accessors().next();
            let field =
                field.map(|own| own.syntax().text().to_string().trim_start_matches('.').to_lowercase());
            names.push((name, field, target.syntax().clone()));
        }
        self.variables_of(&names, columns, node)
    }

    /// Variables that a row goes to: several of them, or one record.
    fn variables_of(
        &mut self,
        names: &[(String, Option<String>, SyntaxNode)],
        columns: Option<&[(String, Type)]>,
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        if let [(name, None, _)] = names {
            let of = |fields: &[(String, Variable)]| {
                fields.iter().map(|(_, own)| (own.register, own.ty)).collect()
            };
            match (self.name(name).cloned(), columns) {
                (Some(Name::Row(fields)), _) => return Ok(of(&fields)),
                (Some(Name::Record(_)), Some(columns)) => return Ok(self.record_with(name, columns)),
                (Some(Name::Record(_)), None) => {
                    let what = "a record whose columns are known only when it is read";
                    return Err(self.unsupported(node, &format!("{what} (use variables or %ROWTYPE)")));
                }
                _ => {}
            }
        }
        let variable = |(name, field, node): &(String, Option<String>, SyntaxNode)| {
            self.assignable(name, field.as_deref(), node).map(|own| (own.register, own.ty))
        };
        names.iter().map(variable).collect()
    }

    fn loop_targets(
        &mut self,
        variables: ast::AstChildren<ast::PlpgsqlForVariable>,
        columns: Option<&[(String, Type)]>,
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        let mut names = Vec::new();
        for variable in variables {
            let name = self.part(variable.name(), node)?;
            let name = ast::normalize_name_node(name.syntax());
            names.push((name, None, variable.syntax().clone()));
        }
        if let ([(name, _, _)], Some(columns)) = (names.as_slice(), columns)
            && self.name(name).is_none()
        {
            // The loop's own record, which PostgreSQL declares.
            let fields = self.new_fields(columns);
            let targets = fields.iter().map(|(_, own)| (own.register, own.ty)).collect();
            self.declare(name.clone(), Name::Record(Some(fields)));
            return Ok(targets);
        }
        self.variables_of(&names, columns, node)
    }

    /// A loop over the rows of an open cursor, which is closed after it.
    fn bind_fetching_loop(
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

    /// FOR … IN a cursor that was declared with a query.
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

    /// FOR … IN EXECUTE.
    pub(crate) fn bind_for_text(
        &mut self,
        repeat: &ast::PlpgsqlForDynStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = repeat.syntax();
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let cursor = Cursor { register, name: "<unnamed portal>".into() };
        let rows = Destination::Cursor(cursor.clone());
        let text = self.bind_dynamic(repeat.query(), repeat.using_clause(), rows, node)?;
        self.push_opaque(text, out);
        let targets = self.loop_targets(repeat.vars(), None, node)?;
        self.bind_fetching_loop(&cursor, targets, (repeat.label(), repeat.body()), node, out)
    }

    pub(crate) fn bind_execute(
        &mut self,
        execute: &ast::PlpgsqlDynExecuteStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = execute.syntax();
        let rows = match execute.into_clause() {
            Some(into) => {
                let targets = self.targets_of(&into, None)?;
                Destination::First { targets, strict: into.strict_token().is_some() }
            }
            None => Destination::Nowhere,
        };
        let text = self.bind_dynamic(execute.query(), execute.using_clause(), rows, node)?;
        self.push_opaque(text, out);
        Ok(())
    }

    /// A statement that is given as text. As in PostgreSQL, EXECUTE leaves FOUND alone, but RETURN QUERY EXECUTE does not.
    fn bind_dynamic(
        &mut self,
        text: Option<ast::PlpgsqlExpr>,
        using: Option<ast::PlpgsqlUsingClause>,
        rows: Destination,
        node: &SyntaxNode,
    ) -> Result<Opaque, StatementError> {
        let text = self.single_expression(text, node)?;
        let text = self.bind_as(&text, ScalarType::Text)?;
        let mut arguments = Vec::new();
        for expression in using.into_iter().flat_map(|using| using.exprs()) {
            let expression = self.single_expression(Some(expression), node)?;
            let typed = self.bind(&expression)?;
            arguments.push(self.settle(typed, None, expression.syntax())?);
        }
        let found = matches!(rows, Destination::Returned(_)).then(|| self.found());
        // Nobody knows what it does.
        self.writes = true;
        (self.uses_timestamp, self.uses_seed) = (true, true);
        Ok(Opaque::Text { text, arguments, rows, found })
    }

    /// COMMIT and ROLLBACK.
    pub(crate) fn bind_end(
        &mut self,
        commit: bool,
        node: &SyntaxNode,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        if self.result.is_some() || self.returns.is_some() {
            let error = SqlError::new("2D000", "invalid transaction termination");
            return Err(self.error(node, error.with_hint("Only procedures end transactions.")));
        }
        self.writes = true;
        self.ends_transactions = true;
        self.push_opaque(Opaque::EndTransaction { commit }, out);
        Ok(())
    }
}
