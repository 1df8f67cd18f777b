//! CREATE VIEW, CREATE SCHEMA.
//!
//! A view is kept as the text of its query, and bound in each query that names it. A change of definitions is
//! refused if a view cannot be bound after it.

use crate::StatementError;
use crate::binder::Binder;
use crate::roles::acl::RoleId;
use crate::roles::clause::Clause;
use crate::schema::{Schema, View, unsupported};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::check_width;
use crate::types::made_name;
use crate::view_options::read_options;
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Returns the positions of the columns of a query that operators or CASE compute: they show no precision.
fn computed_by(query: &ast::SelectVariant) -> Vec<usize> {
    use ast::Expr::{BinExpr, CaseExpr, ParenExpr, PrefixExpr};
    let ast::SelectVariant::Select(select) = query else { return Vec::new() };
    let targets = select.select_clause().and_then(|clause| clause.target_list());
    let targets: Vec<_> = targets.into_iter().flat_map(|list| list.targets()).collect();
    if targets.iter().any(|target| target.star_token().is_some()) {
        return Vec::new();
    }
    let is_computed = |target: &ast::Target| {
        let mut expression = target.expr();
        while let Some(ParenExpr(paren)) = &expression {
            expression = paren.expr();
        }
        matches!(expression, Some(BinExpr(_) | CaseExpr(_) | PrefixExpr(_)))
    };
    (0..targets.len()).filter(|place| is_computed(&targets[*place])).collect()
}

impl Schema {
    pub(crate) fn create_view(
        &mut self,
        create: &ast::CreateView,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        for (present, what) in [
            (create.persistence().is_some(), "a temporary view"),
            (create.recursive_token().is_some(), "a recursive view"),
            (create.with_check_option().is_some(), "WITH CHECK OPTION"),
        ] {
            if present {
                return Err(unsupported(source, node, what));
            }
        }
        let mut binder = Binder::new(self, source);
        let path = binder.part(create.view().and_then(|name| name.path()), node)?;
        let name = made_name(&binder, &path)?;
        let query = binder.part(create.query(), node)?;
        let columns = binder.bind_query(|binder| binder.bind_variant(&query))?.columns;
        let names: Vec<String> = create
            .column_list()
            .into_iter()
            .flat_map(|list| list.column_names())
            .map(|segment| segment.text())
            .collect();
        let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
        all.extend(columns.iter().skip(names.len()).map(|column| column.name.as_str()));
        check_width(&binder, columns.len(), node)?;
        if names.len() > columns.len() {
            return Err(binder.syntax(node, "CREATE VIEW specifies more column names than columns"));
        }
        if let Some(twice) = (1..all.len()).find(|position| all[..*position].contains(&all[*position])) {
            let message = format!("column \"{}\" specified more than once", all[twice]);
            return Err(binder.error(node, SqlError::new("42701", message)));
        }
        if create.or_replace().is_none() || !self.views.contains_key(&name) {
            self.refuse_taken(&name, source, node)?;
        }
        let query = source.text_of(query.syntax()).to_owned();
        let invoker = read_options(create.with_params().and_then(|with| with.attribute_list()), source)?;
        let view = Arc::new(View { name: name.clone(), query, names, invoker });
        let is_mentioned = self.is_mentioned(&name);
        if self.views.insert(name, view).is_some() || is_mentioned {
            self.recompile(source, node)?;
        }
        Ok(Effect::None)
    }

    /// Returns the columns of a view; empty if it cannot be bound.
    pub(crate) fn view_columns(&self, view: &View) -> Vec<(String, catalog::Type)> {
        let bind = || {
            let source = Source::parse(&view.query).ok()?;
            let query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast)?;
            let mut binder = Binder::new(self, &source);
            binder.is_kept_text = true;
            let bound = binder.bind_query(|binder| binder.bind_variant(&query)).ok()?;
            Some((bound.columns, query))
        };
        let (mut columns, computed) = match bind() {
            Some((columns, query)) => (columns, computed_by(&query)),
            None => (Vec::new(), Vec::new()),
        };
        for place in computed {
            columns[place].ty = columns[place].ty.base();
        }
        let names = view
            .names
            .iter()
            .cloned()
            .chain(columns.iter().skip(view.names.len()).map(|column| column.name.clone()));
        names.zip(columns.iter().map(|column| column.ty)).collect()
    }

    /// Checks that all views can still be bound, after a change that they may depend on.
    pub(crate) fn check_views(&self, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        match self.broken_view() {
            None => Ok(()),
            Some((view, error)) => {
                let message = format!("view {} depends on it: {}", view.name, error.error);
                let error = SqlError::new("2BP01", message).with_hint("Drop the view first.");
                Err(source.error_at(node.text_range().start().into(), error))
            }
        }
    }

    /// Returns a view that can no longer be bound, with its error.
    pub(crate) fn broken_view(&self) -> Option<(&Arc<View>, StatementError)> {
        self.views.values().find_map(|view| {
            let bind = || {
                let source = Source::parse(&view.query)?;
                let query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast);
                let mut binder = Binder::new(self, &source);
                binder.is_kept_text = true;
                binder.is_kept_text = true;
                let query = binder.part(query, source.file.syntax())?;
                binder.bind_query(|binder| binder.bind_variant(&query))
            };
            bind().err().map(|error| (view, error))
        })
    }

    pub(crate) fn create_namespace(
        &mut self,
        create: &ast::CreateSchema,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        if create.schema_elements().next().is_some() {
            return Err(unsupported(source, node, "CREATE SCHEMA with its contents"));
        }
        let (name, owner) = self.schema_to_create(create, source)?;
        let refused = |code: &str, message: String| {
            Err(source.error_at(node.text_range().start().into(), SqlError::new(code, message)))
        };
        if name.starts_with("pg_") || name.contains('.') {
            return refused("42939", format!("unacceptable schema name \"{name}\""));
        }
        if self.has_namespace(&name) || name == "information_schema" {
            if create.if_not_exists().is_some() {
                return Ok(Effect::None);
            }
            return refused("42P06", format!("schema \"{name}\" already exists"));
        }
        self.namespaces.insert(name.clone());
        self.adopt(&Subject::Namespace(name), owner);
        Ok(Effect::None)
    }

    /// Returns the name of a schema that is created, and its owner.
    ///
    /// # Errors
    /// `42704`: there is no such role. `42501`: the acting role is no member of it.
    fn schema_to_create(
        &self,
        create: &ast::CreateSchema,
        source: &Source,
    ) -> Result<(String, RoleId), StatementError> {
        let node = create.syntax();
        let (name, role) = match create.create_schema_target() {
            Some(ast::CreateSchemaTarget::NamedSchema(target)) => {
                let name = target.schema().map(|name| ast::normalize_name_node(name.syntax()));
                (name, target.role_ref().map(|role| role.syntax().clone()))
            }
            Some(ast::CreateSchemaTarget::AuthorizationSchema(target)) => {
                (None, target.role().map(|role| role.syntax().clone()))
            }
            None => (None, None),
        };
        let Some(role) = role else { return Ok((name.unwrap_or_default(), self.maker)) };
        let mut clause = Clause::new(source, &role);
        let role = clause.role()?;
        let owner = self.role_meant(&role, &clause)?;
        if !self.is_member_of(self.maker, owner) {
            let message = format!("must be member of role \"{}\"", self.role_name(owner));
            return Err(source.error_at(node.text_range().start().into(), SqlError::new("42501", message)));
        }
        Ok((name.unwrap_or_else(|| self.role_name(owner).to_owned()), owner))
    }
}
