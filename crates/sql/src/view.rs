//! CREATE VIEW, CREATE SCHEMA.
//!
//! A view is kept as the text of its query, and bound in each query that names it. A change of definitions is
//! refused if a view cannot be bound after it.

use crate::StatementError;
use crate::binder::{Binder, ExpandedStar};
use crate::full_names::short;
use crate::quoted::{quoted, quoted_path};
use crate::roles::acl::RoleId;
use crate::roles::clause::Clause;
use crate::schema::{Schema, View, unsupported};
use crate::session_schema::is_temporary_name;
use crate::simple_view::{CheckOption, WriteKind};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::check_width;
use crate::types::made_name;
use crate::view_options::read_options;
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// The query of a view as CREATE VIEW has it.
struct Written<'a> {
    query: &'a ast::SelectVariant,
    /// The given names of the first columns.
    names: Vec<String>,
    stars: Vec<ExpandedStar>,
}

impl Written<'_> {
    /// Returns the view. As in PostgreSQL, it keeps the columns that `*` has now.
    fn into_view(self, name: String, source: &Source) -> View {
        let Self { query, mut names, mut stars } = self;
        let whole = source.range_of(query.syntax());
        let mut text = source.text_of(query.syntax()).to_owned();
        if let ast::SelectVariant::Select(select) = query {
            let targets = select.select_clause().and_then(|clause| clause.target_list());
            let targets: Vec<_> = targets.into_iter().flat_map(|list| list.targets()).collect();
            named(&targets, &mut names, &mut stars, source);
        } else if let (ast::SelectVariant::Table(_), Some(star)) = (query, stars.first_mut()) {
            star.name(&mut std::mem::take(&mut names).into_iter());
        }
        stars.sort_by_key(|star| star.range.start);
        stars.dedup_by_key(|star| star.range.start);
        // From the end, so that earlier offsets stay valid.
        for ExpandedStar { range, columns, table } in stars.into_iter().rev() {
            let list = columns.join(", ");
            let list = table.map_or_else(|| list.clone(), |table| format!("SELECT {list} FROM {table}"));
            text.replace_range(range.start - whole.start..range.end - whole.start, &list);
        }
        View { name, query: text, names, invoker: None, check: None }
    }
}

impl ExpandedStar {
    /// Gives the first columns names.
    fn name(&mut self, names: &mut impl Iterator<Item = String>) {
        for column in &mut self.columns {
            let Some(name) = names.next() else { return };
            *column += &format!(" AS {}", quoted(&name));
        }
    }
}

/// Writes the given names of columns into the targets of a query, so that it needs none.
fn named(targets: &[ast::Target], names: &mut Vec<String>, stars: &mut Vec<ExpandedStar>, source: &Source) {
    let mut given = std::mem::take(names).into_iter();
    for target in targets {
        let range = source.range_of(target.syntax());
        if let Some(star) = stars.iter_mut().find(|star| star.range == range) {
            star.name(&mut given);
        } else if let (Some(expression), Some(name)) = (target.expr(), given.next()) {
            let range = source.range_of(expression.syntax()).end..range.end;
            let columns = vec![format!(" AS {}", quoted(&name))];
            stars.push(ExpandedStar { range, columns, table: None });
        }
    }
}

impl Schema {
    pub(crate) fn create_view(
        &mut self,
        create: &ast::CreateView,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        if create.recursive_token().is_some() {
            return Err(unsupported(source, node, "a recursive view"));
        }
        let mut binder = Binder::new(self, source);
        let path = binder.part(create.view().and_then(|name| name.path()), node)?;
        let name = made_name(&binder, &path)?;
        binder.refuse_outside_of_session(create.persistence(), &name)?;
        let query = binder.part(create.query(), node)?;
        binder.stars = Some(Vec::new());
        let columns = binder.bind_query(|binder| binder.bind_variant(&query))?.columns;
        let stars = binder.stars.take().unwrap_or_default();
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
        if create.or_replace().is_some() && (self.is_partition(&name) || self.catalog.table(&name).is_ok()) {
            let error = SqlError::new("42809", format!("\"{}\" is not a view", short(&name)));
            return Err(binder.error(node, error));
        }
        let old = self.views.get(&name).filter(|_| create.or_replace().is_some()).cloned();
        if old.is_none() {
            self.refuse_taken(&name, source, node)?;
        }
        let written = Written { query: &query, names, stars };
        let check = create.with_check_option().map(|option| match option.check_option_level() {
            Some(ast::CheckOptionLevel::LocalCheckOption(_)) => CheckOption::Local,
            _ => CheckOption::Cascaded,
        });
        let invoker = read_options(create.with_params().and_then(|with| with.attribute_list()), source)?;
        let view = View { invoker, check, ..written.into_view(name.clone(), source) };
        let view = Arc::new(view);
        if let Some(old) = old {
            self.check_replaced(&old, &view, source, node)?;
        }
        if check.is_some() {
            self.check_option(&view, source, node)?;
        }
        let is_mentioned = !is_temporary_name(&name) && self.is_mentioned(&name);
        self.open_temporary_schema(&name);
        if self.views.insert(name, view).is_some() || is_mentioned {
            self.recompile(source, node)?;
        }
        Ok(Effect::None)
    }

    /// Refuses another view in the place of a view unless it begins with the same columns.
    fn check_replaced(
        &self,
        old: &View,
        new: &View,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let (before, after) = (self.view_columns(old), self.view_columns(new));
        let refused = |message: String| {
            Err(source.error_at(node.text_range().start().into(), SqlError::new("42P16", message)))
        };
        for (position, (name, ty)) in before.iter().enumerate() {
            match after.get(position) {
                None => return refused("cannot drop columns from view".into()),
                Some((other, _)) if other != name => {
                    return refused(format!("cannot change name of view column \"{name}\" to \"{other}\""));
                }
                Some((_, other)) if other != ty => {
                    let of = format!("cannot change data type of view column \"{name}\" from {ty}");
                    return refused(format!("{of} to {other}"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that rows can be written through a view with CHECK OPTION.
    fn check_option(&self, view: &View, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        let simple = self.simple_view(view);
        let reason = simple.map_or_else(Some, |simple| simple.refusal(WriteKind::Insert));
        if let Some(reason) = reason {
            let message = "WITH CHECK OPTION is supported only on automatically updatable views";
            let error = SqlError::new("0A000", message).with_hint(reason);
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        let mut schema = self.clone();
        schema.views.insert(view.name.clone(), Arc::new(view.clone()));
        let text = format!("DELETE FROM {}", quoted_path(&view.name));
        let statement = Source::parse(&text)?;
        let path = statement.file.syntax().descendants().find_map(ast::PathRef::cast);
        let bound = Binder::new(&schema, &statement).bind_checks(path, statement.file.syntax());
        bound.map_err(|error| source.error_at(node.text_range().start().into(), error.error))
    }

    /// Returns the columns of a view; empty if it cannot be bound.
    pub(crate) fn view_columns(&self, view: &View) -> Vec<(String, catalog::Type)> {
        let bind = || {
            let source = self.trees.parse(&view.query).ok()?;
            let query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast)?;
            let mut binder = Binder::new(self, &source);
            binder.is_kept_text = true;
            let mut columns = binder.bind_query(|binder| binder.bind_variant(&query)).ok()?.columns;
            for column in &mut columns {
                column.ty = binder.origins.described(column).declared_type();
            }
            Some(columns)
        };
        let columns = bind().unwrap_or_default();
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

    /// Returns a view that can no longer be bound, with its error. Those of partitions are written again.
    pub(crate) fn broken_view(&self) -> Option<(&Arc<View>, StatementError)> {
        self.views().filter(|view| !self.is_partition(&view.name)).find_map(|view| {
            let bind = || {
                let source = self.trees.parse(&view.query)?;
                let query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast);
                let mut binder = Binder::new(self, &source);
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
                self.notices.skip_existing("42P06", &format!("schema \"{name}\""));
                return Ok(Effect::None);
            }
            // After a DROP of `public`, which stays, it is created.
            return match name == "public" && self.is_empty_schema(&name) {
                true => Ok(Effect::None),
                false => refused("42P06", format!("schema \"{name}\" already exists")),
            };
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
