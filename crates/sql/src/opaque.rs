//! Opaque PL/pgSQL statements, which the analysis does not support: functions that return rows, cursors,
//! EXECUTE, COMMIT and ROLLBACK.

use crate::binder::{Binder, Body, Name, Typed, Variable};
use crate::error::StatementError;
use crate::nameless::compile_for_client;
use crate::plan::ResultColumn;
use crate::query::{BoundRows, Work};
use crate::source::Source;
use catalog::{ScalarType, Type};
use procedure::{
    CastContext, Cursor, Destination, Expression, Opaque, QueryId, QueryTarget, Raise, RaiseOption, Register,
    SqlError, Statement, mismatch,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Columns by name.
pub(crate) type Columns = Vec<(String, Type)>;

pub(crate) fn opaque(statement: Opaque) -> Statement {
    Statement::Opaque(Box::new(statement))
}

/// Returns the type of a value, of which an unknown literal is a text.
pub(crate) fn found_type(typed: &Typed) -> Type {
    typed.known_type().unwrap_or(ScalarType::Text.into())
}

impl Binder<'_> {
    /// Adds an opaque statement, so that calls are logged by value.
    pub(crate) fn push_opaque(&mut self, statement: Opaque, out: &mut Vec<Statement>) {
        self.log_by_value(statement.cause());
        out.push(opaque(statement));
    }

    /// Binds the rows of a query, or of a statement with RETURNING.
    fn bind_any_rows(&mut self, statement: &ast::Stmt) -> Result<BoundRows, StatementError> {
        let node = statement.syntax();
        if let Some(query) = ast::SelectVariant::cast(node.clone()) {
            let bound = self.bind_query(|binder| binder.bind_variant(&query))?;
            return Ok(Self::rows_of_query(bound, node));
        }
        match self.bind_written_rows(statement)? {
            Some(bound) if !bound.items.is_empty() => Ok(bound),
            _ => Err(self.syntax(node, "a statement that returns rows is expected")),
        }
    }

    /// Binds the query whose rows a function in the language SQL returns.
    ///
    /// # Errors
    /// `42P13`: its columns are not those of the function.
    pub(crate) fn returned_query(
        &mut self,
        statement: &ast::Stmt,
        types: &[Type],
    ) -> Result<QueryId, StatementError> {
        let node = statement.syntax();
        let mut bound = self.bind_any_rows(statement)?;
        bound.items = self.columns_of_result(bound.items, types, node)?;
        let found: Vec<Type> = bound.items.iter().map(|(_, item, _)| found_type(item)).collect();
        self.check_result(&found, types, node)?;
        Ok(self.query_of_rows(bound, Some(types), node)?.0)
    }

    /// Adds a query whose columns are converted to `types`, if these are given.
    pub(crate) fn rows_query(
        &mut self,
        statement: &ast::Stmt,
        types: Option<&[Type]>,
    ) -> Result<(QueryId, Columns), StatementError> {
        let node = statement.syntax();
        let bound = self.bind_any_rows(statement)?;
        self.query_of_rows(bound, types, node)
    }

    fn query_of_rows(
        &mut self,
        bound: BoundRows,
        types: Option<&[Type]>,
        node: &SyntaxNode,
    ) -> Result<(QueryId, Columns), StatementError> {
        let Work::Query(query) = bound.work else {
            return Err(self.unsupported(node, "this form of query"));
        };
        let columns: Columns = query.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
        let query_types: Vec<Type> = columns.iter().map(|(_, ty)| *ty).collect();
        let is_returned = types.is_some();
        let types = types.unwrap_or(&query_types);
        let targets: Vec<_> = types.iter().map(|ty| (self.new_register(*ty), *ty)).collect();
        let found: Vec<String> = bound.items.iter().map(|(_, item, _)| self.type_shown(item)).collect();
        let mut outputs = self.outputs(bound.items, &targets, node)?;
        if is_returned {
            for (position, output) in outputs.iter_mut().enumerate() {
                let value = std::mem::replace(&mut output.1, Expression::NULL);
                output.1 = self.returned_value(position, value, &found[position], node)?;
            }
        }
        let target = QueryTarget::Statement { outputs, strict: false };
        Ok((self.query(query, target, node), columns))
    }

    /// Converts a value of a query to the domain of a returned column. As in PostgreSQL, PL/pgSQL takes a
    /// column of the domain alone.
    fn returned_value(
        &mut self,
        position: usize,
        value: Expression,
        found: &str,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let Some(domain) = self.returned_domains.get(position).cloned().flatten() else { return Ok(value) };
        if !matches!(self.body, Some(Body::Plpgsql(_))) {
            return self.as_domain(&domain, value, node);
        }
        if found == domain {
            return Ok(value);
        }
        let error = SqlError::new("42804", "structure of query does not match function result type");
        let detail = format!(
            "Returned type {found} does not match expected type {domain} in column {}.",
            position + 1
        );
        Err(self.error(node, error.with_detail(detail)))
    }

    /// Returns the column types of the rows that the current function returns.
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
                            let value = self.coerce(typed, *ty, CastContext::Variable, node)?;
                            values.push(self.checked_column(values.len(), value, node)?);
                        }
                        values
                    }
                    (None, [only]) => {
                        let value = self.bind_as(&value, *only, CastContext::Variable)?;
                        vec![self.checked_column(0, value, node)?]
                    }
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
        let bound = self.bind_any_rows(&statement)?;
        let found: Vec<Type> = bound.items.iter().map(|(_, item, _)| found_type(item)).collect();
        // As in PostgreSQL, the statement fails when it runs.
        if let Some(detail) = mismatch(&found, &types) {
            let raise = Raise::error("42804", "structure of query does not match function result type");
            let options = vec![(RaiseOption::Detail, Expression::text(&detail))];
            out.push(Statement::Raise(Box::new(Raise { options, ..raise })));
            return Ok(());
        }
        let (query, _) = self.query_of_rows(bound, Some(&types), statement.syntax())?;
        self.push_opaque(Opaque::ReturnQuery(query), out);
        Ok(())
    }

    pub(crate) fn bind_return_text(
        &mut self,
        end: &ast::PlpgsqlReturnQueryExecuteStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = end.syntax();
        if self.returned_domains.iter().any(Option::is_some) {
            return Err(self.unsupported(node, "RETURN QUERY EXECUTE of a function that returns a domain"));
        }
        let types = self.returned_types(node)?;
        let text = self.bind_dynamic(end.query(), end.using_clause(), Destination::Returned(types), node)?;
        self.push_opaque(text, out);
        Ok(())
    }

    /// Returns the fields of a record or row variable.
    pub(crate) fn fields(&self, name: &str) -> Option<&[(String, Variable)]> {
        match self.name(name) {
            Some(Name::Record(Some(fields)) | Name::Row(fields)) => Some(fields),
            _ => None,
        }
    }

    /// Gives a record columns. If it has these columns already, it keeps its variables, because earlier
    /// statements of a loop read them.
    pub(crate) fn record_with(&mut self, name: &str, columns: &[(String, Type)]) -> Vec<(Register, Type)> {
        let known = self.fields(name).filter(|fields| {
            let known = fields.iter().map(|(name, variable)| (name, variable.ty));
            known.eq(columns.iter().map(|(name, ty)| (name, *ty)))
        });
        let fields = match known {
            Some(fields) => fields.to_vec(),
            None => self.new_fields(columns),
        };
        let targets = fields.iter().map(|(_, variable)| (variable.register, variable.ty)).collect();
        self.redefine(name, Name::Record(Some(fields)));
        targets
    }

    pub(crate) fn new_fields(&mut self, columns: &[(String, Type)]) -> Vec<(String, Variable)> {
        let field = |(name, ty): &(String, Type)| {
            let register = self.new_register(*ty);
            (name.clone(), Variable { register, ty: *ty, constant: false })
        };
        columns.iter().map(field).collect()
    }

    /// Declares an alias: `a ALIAS FOR b`.
    pub(crate) fn declare_alias(&mut self, alias: &ast::PlpgsqlAliasDecl) -> Result<(), StatementError> {
        let node = alias.syntax();
        let name = self.part(alias.name(), node)?;
        let alias_name = ast::normalize_name_node(name.syntax());
        let text = node.text().to_string();
        let of = text.trim_end_matches(';').split_whitespace().last().unwrap_or_default().to_lowercase();
        let of = of.rsplit('.').next().unwrap_or_default().to_owned();
        let Some(what) = self.name(&of).cloned() else {
            let message = format!("variable \"{of}\" does not exist");
            return Err(self.error(node, SqlError::new("42704", message)));
        };
        self.declare(alias_name, what);
        Ok(())
    }

    /// Returns the targets of an INTO, for a row whose columns may be unknown.
    pub(crate) fn targets_of(
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
            let field = field
                .map(|accessor| accessor.syntax().text().to_string().trim_start_matches('.').to_lowercase());
            names.push((name, field, target.syntax().clone()));
        }
        self.variables_of(&names, columns, node)
    }

    /// Returns the variables that take a row: several variables, or one record.
    fn variables_of(
        &mut self,
        names: &[(String, Option<String>, SyntaxNode)],
        columns: Option<&[(String, Type)]>,
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Type)>, StatementError> {
        if let [(name, None, _)] = names {
            let of = |fields: &[(String, Variable)]| {
                fields.iter().map(|(_, variable)| (variable.register, variable.ty)).collect()
            };
            match (self.name(name).cloned(), columns) {
                (Some(Name::Row(fields)), _) => return Ok(of(&fields)),
                (Some(Name::Record(_) | Name::UnclearRecord), Some(columns)) => {
                    return Ok(self.record_with(name, columns));
                }
                (Some(Name::Record(_) | Name::UnclearRecord), None) => {
                    let what = "a record whose columns are known only when it is read";
                    return Err(self.unsupported(node, &format!("{what} (use variables or %ROWTYPE)")));
                }
                _ => {}
            }
        }
        let mut targets = Vec::new();
        for (name, field, node) in names {
            let variable = self.assignable(name, field.as_deref(), node)?;
            targets.push((variable.register, variable.ty));
        }
        Ok(targets)
    }

    pub(crate) fn loop_targets(
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
            // The record of the loop, which the loop declares as in PostgreSQL.
            let fields = self.new_fields(columns);
            let targets = fields.iter().map(|(_, variable)| (variable.register, variable.ty)).collect();
            self.declare(name.clone(), Name::Record(Some(fields)));
            return Ok(targets);
        }
        self.variables_of(&names, columns, node)
    }

    /// Binds FOR … IN EXECUTE.
    pub(crate) fn bind_for_text(
        &mut self,
        repeat: &ast::PlpgsqlForDynStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = repeat.syntax();
        let register = self.new_register(ScalarType::BigInt);
        out.push(Statement::Assign { target: register, value: Expression::NULL });
        let cursor =
            Cursor { register, name: "<unnamed portal>".into(), is_bound: false, is_forward_only: false };
        let rows = Destination::Cursor(cursor.clone());
        let query = repeat.query();
        let text = self.bind_dynamic(query.clone(), repeat.using_clause(), rows, node)?;
        let columns = self.columns_of_text(query, &text, node)?;
        self.push_opaque(text, out);
        let targets = self.loop_targets(repeat.vars(), columns.as_deref(), node)?;
        self.bind_fetching_loop(&cursor, targets, (repeat.label(), repeat.body()), node, out)
    }

    pub(crate) fn bind_execute(
        &mut self,
        execute: &ast::PlpgsqlDynExecuteStmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = execute.syntax();
        let query = execute.query();
        let mut text =
            self.bind_dynamic(query.clone(), execute.using_clause(), Destination::Nowhere, node)?;
        if let Some(into) = execute.into_clause() {
            let columns = self.columns_of_text(query, &text, node)?;
            let targets = self.targets_of(&into, columns.as_deref())?;
            if let Opaque::Text { rows, .. } = &mut text {
                *rows = Destination::First { targets, strict: into.strict_token().is_some() };
            }
        }
        self.push_opaque(text, out);
        Ok(())
    }

    /// Returns the columns of the rows of a text that is a literal; `None` if they are known only when the
    /// text is executed.
    fn columns_of_text(
        &mut self,
        text: Option<ast::PlpgsqlExpr>,
        bound: &Opaque,
        node: &SyntaxNode,
    ) -> Result<Option<Columns>, StatementError> {
        let (ast::Expr::Literal(literal), Opaque::Text { arguments, .. }) =
            (self.single_expression(text, node)?, bound)
        else {
            return Ok(None);
        };
        let source = literal.string_value().and_then(|text| Source::parse(&text).ok());
        let Some(source) = source else { return Ok(None) };
        let Some(statement) = source.file.stmts().next() else { return Ok(None) };
        let types: Vec<_> = arguments.iter().map(|(_, ty)| Some(*ty)).collect();
        // The error of a text is one of its execution.
        let compiled = compile_for_client(&statement, self.schema, &source, &types).ok();
        let column = |column: &ResultColumn| (column.name.clone(), column.ty);
        Ok(compiled.map(|compiled| compiled.columns.iter().map(column).collect()))
    }

    /// Binds the execution of a text. As in PostgreSQL, EXECUTE does not set FOUND, but RETURN QUERY EXECUTE
    /// does.
    pub(crate) fn bind_dynamic(
        &mut self,
        text: Option<ast::PlpgsqlExpr>,
        using: Option<ast::PlpgsqlUsingClause>,
        rows: Destination,
        node: &SyntaxNode,
    ) -> Result<Opaque, StatementError> {
        let text = self.single_expression(text, node)?;
        let text = self.bind_as(&text, ScalarType::Text, CastContext::Explicit)?;
        let mut arguments = Vec::new();
        for expression in using.into_iter().flat_map(|using| using.exprs()) {
            let expression = self.single_expression(Some(expression), node)?;
            let typed = self.bind(&expression)?;
            arguments.push(self.settle(typed, None, expression.syntax())?);
        }
        let found = matches!(rows, Destination::Returned(_)).then(|| self.found());
        // The text is known at run time only, so it may write and may depend on the call.
        self.writes = true;
        (self.uses_timestamp, self.uses_seed) = (true, true);
        self.follows_role = true;
        Ok(Opaque::Text { text, arguments, rows, found, role: self.schema.acting })
    }

    /// Binds COMMIT and ROLLBACK.
    pub(crate) fn bind_end(&mut self, commit: bool, out: &mut Vec<Statement>) -> Result<(), StatementError> {
        if self.result.is_some() || self.returns.is_some() {
            let raise = Raise::error("2D000", "invalid transaction termination");
            out.push(Statement::Raise(Box::new(raise)));
            return Ok(());
        }
        self.writes = true;
        self.ends_transactions = true;
        self.push_opaque(Opaque::EndTransaction { commit }, out);
        Ok(())
    }
}
