//! CREATE, ALTER and DROP DOMAIN, and the constraints of columns whose type is a domain.
//!
//! A column holds values of the type under its domain. The domain's constraints are bound like the CHECK
//! constraints of the table, so every way that writes a row checks them.
//! Source: PostgreSQL 15, `typecmds.c`.

use crate::binder::Binder;
use crate::cascade::cascades;
use crate::definition::bind_for;
use crate::domain_values::value_table;
use crate::error::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::generated_names::GeneratedName;
use crate::schema::{Schema, unsupported};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::types::{made_name, object_name};
use catalog::{Column, Domain, Table};
use procedure::{Check, CheckOwner, Effect, Expression, Rebuild, SqlError, sequences_in};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Returns PostgreSQL's tag of a statement about domains; `None` for any other statement.
pub(crate) fn tag_of(statement: &ast::Stmt) -> Option<&'static str> {
    Some(match statement {
        ast::Stmt::CreateDomain(_) => "CREATE DOMAIN",
        ast::Stmt::AlterDomain(_) => "ALTER DOMAIN",
        ast::Stmt::DropDomain(_) => "DROP DOMAIN",
        _ => return None,
    })
}

/// Adds a constraint to a domain.
fn add_constraint(
    schema: &Schema,
    domain: &mut Domain,
    constraint: &ast::Constraint,
    source: &Source,
) -> Result<(), StatementError> {
    let node = constraint.syntax();
    let impossible = |what: &str| {
        let message = format!("{what} constraints not possible for domains");
        source.error_at(node.text_range().start().into(), SqlError::new("42601", message))
    };
    match constraint {
        ast::Constraint::NotNullConstraint(_) => domain.nullable = false,
        ast::Constraint::NullConstraint(_) => domain.nullable = true,
        ast::Constraint::CheckConstraint(check) => add_check(schema, domain, check, source)?,
        ast::Constraint::DefaultConstraint(default) => {
            if domain.default.is_some() {
                let error = SqlError::new("42601", "multiple default expressions");
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            set_default(schema, domain, default.expr(), node, source)?;
        }
        ast::Constraint::UniqueConstraint(_) => return Err(impossible("unique")),
        ast::Constraint::PrimaryKeyConstraint(_) => return Err(impossible("primary key")),
        ast::Constraint::ExcludeConstraint(_) => return Err(impossible("exclusion")),
        ast::Constraint::ForeignKeyConstraint(_) | ast::Constraint::ReferencesConstraint(_) => {
            return Err(impossible("foreign key"));
        }
        ast::Constraint::GeneratedConstraint(_) => {
            return Err(unsupported(source, node, "GENERATED of a domain"));
        }
    }
    Ok(())
}

/// Refuses a domain with both NULL and NOT NULL.
///
/// # Errors
/// `42601`: it has both.
fn refuse_conflict(create: &ast::CreateDomain, source: &Source) -> Result<(), StatementError> {
    let mut first = None;
    for qualifier in create.domain_qualifiers() {
        let is_nullable = match qualifier {
            ast::DomainQualifier::Constraint(ast::Constraint::NotNullConstraint(_)) => false,
            ast::DomainQualifier::Constraint(ast::Constraint::NullConstraint(_)) => true,
            _ => continue,
        };
        if *first.get_or_insert(is_nullable) != is_nullable {
            let error = SqlError::new("42601", "conflicting NULL/NOT NULL constraints");
            return Err(source.error_at(create.syntax().text_range().start().into(), error));
        }
    }
    Ok(())
}

fn is_default(qualifier: &ast::DomainQualifier) -> bool {
    matches!(qualifier, ast::DomainQualifier::Constraint(ast::Constraint::DefaultConstraint(_)))
}

/// Returns whether an expression names a type.
fn names_type(text: &str, name: &str) -> bool {
    let is_it = |ty: ast::Type| match ty {
        ast::Type::PathType(path) => path.path_ref().is_some_and(|path| object_name(&path) == name),
        _ => false,
    };
    let source = Source::parse(&format!("SELECT {text}"));
    source.is_ok_and(|own| own.file.syntax().descendants().filter_map(ast::Type::cast).any(is_it))
}

/// Sets the default of a domain. A default of NULL is none.
fn set_default(
    schema: &Schema,
    domain: &mut Domain,
    default: Option<ast::Expr>,
    node: &SyntaxNode,
    source: &Source,
) -> Result<(), StatementError> {
    let mut binder = Binder::new(schema, source);
    let expression = binder.part(default, node)?;
    let column = Column { name: short(&domain.name).into(), ty: domain.ty, ..Column::default() };
    let (value, applied) = binder.applying(|binder| bind_for(binder, &expression, &column))?;
    binder.refuse_subqueries(&applied, "DEFAULT expression", node)?;
    if !applied.is_empty() || !sequences_in(&value).is_empty() {
        return Err(binder.unsupported(node, "a default of a domain that calls a function or takes a number"));
    }
    let text = source.text_of(expression.syntax()).to_owned();
    domain.default = Some(text).filter(|_| value != Expression::NULL);
    Ok(())
}

fn add_check(
    schema: &Schema,
    domain: &mut Domain,
    check: &ast::CheckConstraint,
    source: &Source,
) -> Result<(), StatementError> {
    let node = check.syntax();
    let mut binder = Binder::new(schema, source);
    if let Some(option) = check.constraint_options().next() {
        return Err(binder.unsupported(option.syntax(), "this option of a constraint"));
    }
    let given = check.constraint_name_clause().and_then(|clause| clause.constraint_name());
    let given = given.map(|name| ast::normalize_name_node(name.syntax()));
    let is_taken = |name: &str| domain.checks.iter().any(|(own, _)| own == name);
    let name = match given {
        Some(name) if is_taken(&name) => {
            let message =
                format!("constraint \"{name}\" for domain \"{}\" already exists", short(&domain.name));
            return Err(binder.error(node, SqlError::new("42710", message)));
        }
        Some(name) => name,
        None => GeneratedName::new(&domain.name, &[], "check").first_free(is_taken),
    };
    let expression = binder.part(check.expr(), node)?;
    let row = value_table(domain.ty);
    let value = binder.row_registers(&row);
    let (_, applied) = binder.applying(|binder: &mut Binder<'_>| {
        binder.over_row(&row, value, |binder| binder.bind_condition(&expression))
    })?;
    binder.refuse_subqueries(&applied, "check constraint", node)?;
    if !applied.is_empty() {
        return Err(binder.unsupported(node, "a domain whose CHECK calls a function"));
    }
    domain.checks.push((name, source.text_of(expression.syntax()).to_owned()));
    Ok(())
}

/// Makes the checks of a new constraint of a domain those of the columns, and moves them to the front.
fn mark_added(rebuild: &mut Rebuild, domains: &[String], constraint: &str) {
    let width = rebuild.old.columns.len() as u32;
    let checks = std::mem::take(&mut rebuild.checks);
    let is_added = |own: &Check| match &own.owner {
        CheckOwner::Domain(domain) => own.name == constraint && domains.contains(domain),
        _ => false,
    };
    let (mut added, unchanged): (Vec<_>, Vec<_>) = checks.into_iter().partition(is_added);
    for check in &mut added {
        let mut column = 0;
        check.condition.walk(&mut |part| {
            if let Expression::Register(register) = part {
                column = register.0.saturating_sub(width) as usize;
            }
        });
        check.owner = CheckOwner::DomainOf(column);
    }
    rebuild.checks = added.into_iter().chain(unchanged).collect();
}

impl Schema {
    pub(crate) fn create_domain(
        &mut self,
        create: &ast::CreateDomain,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let before = self.clone();
        let binder = Binder::new(&before, source);
        let path = binder.part(create.domain().and_then(|name| name.path()), node)?;
        let name = made_name(&binder, &path)?;
        self.refuse_taken_type(&name, source, node)?;
        let written = binder.part(create.ty(), node)?;
        let (ty, base) = binder.bind_declared(&written)?;
        let mut domain = self.catalog.create_domain(name.clone(), ty);
        // As in PostgreSQL, a domain keeps the default that the domain under it had.
        let inherited = base.as_deref().and_then(|own| before.catalog.domain(own)?.default.clone());
        domain.base = base;
        refuse_conflict(create, source)?;
        for qualifier in create.domain_qualifiers() {
            match qualifier {
                ast::DomainQualifier::Constraint(constraint) => {
                    add_constraint(&before, &mut domain, &constraint, source)?;
                }
                ast::DomainQualifier::Collate(collate) => {
                    return Err(unsupported(source, collate.syntax(), "COLLATE of a domain"));
                }
            }
        }
        if !create.domain_qualifiers().any(|own| is_default(&own)) {
            domain.default = inherited;
        }
        self.catalog.replace_domain(&name, domain);
        if self.is_mentioned(&name) {
            self.recompile(source, node)?;
        }
        Ok(Effect::None)
    }

    fn named_domain(
        &self,
        name: Option<ast::DomainRef>,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Domain, StatementError> {
        let path = name.and_then(|name| name.path_ref());
        let name = path.as_ref().map(object_name).unwrap_or_default();
        self.catalog.domain(&name).cloned().ok_or_else(|| {
            let error = match self.catalog.enumeration(&name).is_some() || self.relation_exists(&name) {
                true => SqlError::new("42809", format!("\"{name}\" is not a domain")),
                false => SqlError::new("42704", format!("type \"{name}\" does not exist")),
            };
            source.error_at(node.text_range().start().into(), error)
        })
    }

    /// Returns a column of a domain, and its table.
    fn column_of_domain(&self, domain: &str) -> Option<(&str, &Arc<Table>)> {
        self.catalog.tables().find_map(|table| {
            let column = table.columns.iter().find(|own| own.domain.as_deref() == Some(domain))?;
            Some((column.name.as_str(), table))
        })
    }

    pub(crate) fn alter_domain(
        &mut self,
        alter: &ast::AlterDomain,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        use ast::AlterDomainAction as Action;
        let node = alter.syntax();
        let mut domain = self.named_domain(alter.domain_ref(), source, node)?;
        let old = domain.name.clone();
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
        // The constraint that the rows of tables must meet, too; empty for NOT NULL.
        let mut added = None;
        match alter.action() {
            Some(Action::OwnerTo(_)) => return Ok(Effect::None),
            Some(Action::AddConstraint(add)) => {
                let constraint = Binder::new(self, source).part(add.constraint(), node)?;
                if !matches!(constraint, ast::Constraint::CheckConstraint(_)) {
                    return Err(unsupported(source, node, "this constraint"));
                }
                add_constraint(self, &mut domain, &constraint, source)?;
                added = domain.checks.last().map(|(name, _)| name.clone());
            }
            Some(Action::SetDefault(set)) => set_default(self, &mut domain, set.expr(), node, source)?,
            Some(Action::DropDefault(_)) => domain.default = None,
            Some(Action::SetNotNull(_)) => {
                added = Some(String::new()).filter(|_| domain.nullable);
                domain.nullable = false;
            }
            Some(Action::DropNotNull(_)) => domain.nullable = true,
            Some(Action::DropConstraint(drop)) => {
                self.drop_domain_constraint(&mut domain, &drop).map_err(at)?;
            }
            Some(Action::DomainRenameTo(rename)) => {
                let path = rename.domain().and_then(|name| name.path());
                self.rename_domain(&mut domain, path, At { source, node })?;
            }
            _ => return Err(unsupported(source, node, "this change of a domain")),
        }
        let name = domain.name.clone();
        let tables = self.catalog.replace_domain(&old, domain);
        self.recompile(source, node)?;
        let mut effects: Vec<_> = tables.into_iter().map(Effect::Redefine).collect();
        if let Some(constraint) = added {
            effects.append(&mut self.check_columns_of(&name, &constraint, At { source, node })?);
        }
        Ok(Effect::All(effects))
    }

    fn drop_domain_constraint(
        &mut self,
        domain: &mut Domain,
        drop: &ast::DropConstraint,
    ) -> Result<(), SqlError> {
        let path = drop.constraint_name_ref().and_then(|name| name.path_ref());
        let name = path.as_ref().map(object_name).unwrap_or_default();
        let before = domain.checks.len();
        domain.checks.retain(|(own, _)| *own != name);
        if domain.checks.len() < before {
            return Ok(());
        }
        let object = format!("constraint \"{name}\" of domain \"{}\"", short(&domain.name));
        if drop.if_exists().is_none() {
            return Err(SqlError::new("42704", format!("{object} does not exist")));
        }
        self.notices.skip_missing(&object);
        Ok(())
    }

    /// Returns the domain that a statement about types names.
    pub(crate) fn domain_of(&self, name: Option<ast::TypeNameRef>) -> Option<Domain> {
        let path = name.and_then(|name| name.path_ref())?;
        self.catalog.domain(&object_name(&path)).cloned()
    }

    /// Executes ALTER TYPE for a domain.
    pub(crate) fn alter_domain_as_type(
        &mut self,
        mut domain: Domain,
        alter: &ast::AlterType,
        at: At<'_>,
    ) -> Result<Effect, StatementError> {
        let At { source, node } = at;
        let old = domain.name.clone();
        match alter.action() {
            Some(ast::AlterTypeAction::OwnerTo(_)) => return Ok(Effect::None),
            Some(ast::AlterTypeAction::TypeRenameTo(rename)) => {
                let path = rename.type_name().and_then(|name| name.path());
                self.rename_domain(&mut domain, path, at)?;
            }
            Some(ast::AlterTypeAction::AddValue(_) | ast::AlterTypeAction::RenameValue(_)) => {
                let error = SqlError::new("42809", format!("{} is not an enum", short(&old)));
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            _ => return Err(unsupported(source, node, "this change of a type")),
        }
        let tables = self.catalog.replace_domain(&old, domain);
        self.recompile(source, node)?;
        Ok(Effect::All(tables.into_iter().map(Effect::Redefine).collect()))
    }

    fn rename_domain(
        &mut self,
        domain: &mut Domain,
        path: Option<ast::Path>,
        At { source, node }: At<'_>,
    ) -> Result<(), StatementError> {
        let new = path.and_then(|path| path.segment()).map(|own| own.text()).unwrap_or_default();
        let new = in_schema_of(&domain.name, new);
        self.refuse_taken_type(&new, source, node)?;
        if self.is_kept_in_text(&domain.name) {
            return Err(unsupported(source, node, "a new name of a domain that an expression uses"));
        }
        let [from, to] = [&domain.name, &new].map(|name| Subject::Type(name.clone()));
        self.rename_subject(&from, to);
        domain.name = new;
        Ok(())
    }

    /// Returns the effects that check the rows of tables against a new constraint of a domain.
    fn check_columns_of(
        &mut self,
        domain: &str,
        constraint: &str,
        at: At<'_>,
    ) -> Result<Vec<Effect>, StatementError> {
        let domains = self.catalog.domains_over(domain);
        let is_of = |own: &Column| own.domain.as_ref().is_some_and(|name| domains.contains(name));
        let uses = |table: &&Arc<Table>| table.columns.iter().any(is_of);
        let tables: Vec<_> = self.catalog.tables().filter(uses).cloned().collect();
        let mut effects = Vec::new();
        for table in tables {
            let mut rebuild = self.rebuild_same(&table, at)?;
            mark_added(&mut rebuild, &domains, constraint);
            effects.push(Effect::Rebuild(Arc::new(rebuild)));
        }
        Ok(effects)
    }

    /// Returns whether a domain is named by an expression of a table or of a domain, which is kept as text.
    fn is_kept_in_text(&self, domain: &str) -> bool {
        let of_table = |table: &Table| {
            let checks = table.checks.iter().map(|(_, text)| text);
            let defaults = table.columns.iter().filter_map(|own| own.default.as_ref());
            let triggers = table.triggers.iter().filter_map(|own| own.condition.as_ref());
            let indexes = table.indexes.iter().filter_map(|own| own.details.condition.as_ref());
            let mut texts = checks.chain(defaults).chain(triggers).chain(indexes);
            texts.any(|text| names_type(text, domain))
        };
        let of_domain = |own: &Domain| {
            let mut texts = own.checks.iter().map(|(_, text)| text).chain(&own.default);
            texts.any(|text| names_type(text, domain))
        };
        self.catalog.tables().any(|table| of_table(table)) || self.catalog.domains().any(of_domain)
    }

    pub(crate) fn drop_domain(
        &mut self,
        drop: &ast::DropDomain,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = drop.syntax();
        let mut effects = Vec::new();
        for name in drop.domain_refs() {
            let domain = match self.named_domain(Some(name), source, node) {
                Err(error) if error.error.sqlstate == "42704" && drop.if_exists().is_some() => {
                    self.notices.skip_missing_of(&error.error);
                    continue;
                }
                domain => domain?,
            };
            effects.push(self.drop_named_domain(&domain.name, At { source, node })?);
        }
        Ok(Effect::All(effects))
    }

    /// Drops a domain; with CASCADE, the columns that use it, too.
    pub(crate) fn drop_named_domain(&mut self, name: &str, at: At<'_>) -> Result<Effect, StatementError> {
        let At { source, node } = at;
        let mut effect = Effect::None;
        if cascades(node) {
            effect = self.drop_columns_of_type(|column| column.domain.as_deref() == Some(name), at)?;
        }
        self.remove_domain(name, source, node)?;
        self.recompile(source, node)?;
        Ok(effect)
    }

    /// Removes a domain that no column uses.
    ///
    /// # Errors
    /// `2BP01`: a column uses it.
    pub(crate) fn remove_domain(
        &mut self,
        name: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if let Some((column, table)) = self.column_of_domain(name) {
            let table = table.short_name();
            let message = format!("cannot drop type {name} because other objects depend on it");
            let detail = format!("column {column} of table {table} depends on type {name}");
            let error = SqlError::new("2BP01", message).with_detail(detail);
            let error = error.with_hint("Use DROP ... CASCADE to drop the dependent objects too.");
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        let over = self.catalog.domains().find(|own| own.base.as_deref() == Some(name));
        if over.is_some() || self.is_kept_in_text(name) {
            let message = format!("cannot drop type {name} because other objects depend on it");
            let detail = over.map(|own| format!("type {} depends on type {name}", own.name));
            let detail = detail.unwrap_or_else(|| format!("an expression depends on type {name}"));
            let error = SqlError::new("2BP01", message).with_detail(detail);
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        self.catalog.drop_domain(name);
        Ok(())
    }
}
