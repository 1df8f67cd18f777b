//! CREATE TYPE … AS ENUM, ALTER TYPE, DROP TYPE.
//!
//! A change of an enumeration changes the type of existing columns, so all routines are compiled again.
//! Stored values stay valid, because labels keep their positions.
//! Source: PostgreSQL 15, `pg_enum.c` and `typecmds.c`.

use crate::binder::Binder;
use crate::cascade::cascades;
use crate::error::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::schema::{Schema, unsupported};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::system::{Named, path_text};
use crate::types::{made_name, object_name};
use catalog::{EnumType, Enumeration, LabelPlace, ScalarType};
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashSet;

/// Maximum length of a label in bytes, as in PostgreSQL.
const LONGEST_LABEL: usize = 63;

fn text_of(
    literal: Option<ast::Literal>,
    source: &Source,
    node: &SyntaxNode,
) -> Result<String, StatementError> {
    let text = literal.as_ref().and_then(|text_literal| text_literal.string_value());
    let Some(text) = text else { return Err(unsupported(source, node, "this kind of label")) };
    if text.len() > LONGEST_LABEL {
        let error = SqlError::new("42602", format!("invalid enum label \"{text}\""));
        let detail = format!("Labels must be {LONGEST_LABEL} bytes or less.");
        return Err(source.error_at(node.text_range().start().into(), error.with_detail(detail)));
    }
    Ok(text)
}

impl Schema {
    pub(crate) fn create_type(
        &mut self,
        create: &ast::CreateType,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let at = |error| source.error_at(node.text_range().start().into(), error);
        let Some(ast::CreateTypeKind::EnumType(kind)) = create.kind() else {
            return Err(unsupported(source, node, "a type that is no enumeration"));
        };
        let path = create.type_name().and_then(|name| name.path());
        let Some(path) = path else { return Err(unsupported(source, node, "this name")) };
        let name = made_name(&Binder::new(self, source), &path)?;
        self.refuse_taken_type(&name, source, node)?;
        let (mut labels, mut known) = (Vec::new(), HashSet::new());
        for variant in kind.variant_list().iter().flat_map(|list| list.variants()) {
            let label = text_of(variant.literal(), source, variant.syntax())?;
            if !known.insert(label.clone()) {
                let constraint = "pg_enum_typid_label_index";
                let message = format!("duplicate key value violates unique constraint \"{constraint}\"");
                return Err(at(SqlError::new("23505", message)));
            }
            labels.push(label);
        }
        self.catalog.create_enumeration(name.clone(), labels);
        if self.is_mentioned(&name) {
            self.recompile(source, node)?;
        }
        Ok(Effect::None)
    }

    /// Returns the numbers of all enumerations, of the types of their arrays, and of all domains, with their
    /// names.
    pub(crate) fn enumeration_names(&self) -> Vec<(i64, Named)> {
        let names = |enumeration: EnumType| {
            let (oid, name) = (i64::from(enumeration.definition().oid), &enumeration.definition().name);
            let array = |is_qualified| path_text(name, is_qualified) + "[]";
            [(oid, Named::of(|is_qualified| path_text(name, is_qualified))), (oid + 1, Named::of(array))]
        };
        let domain = |own: &catalog::Domain| {
            (i64::from(own.oid), Named::of(|is_qualified| path_text(&own.name, is_qualified)))
        };
        let domains = self.catalog().domains().map(domain);
        self.catalog().enumerations().flat_map(names).chain(domains).collect()
    }

    /// Refuses the name of a new index.
    ///
    /// # Errors
    /// `42P07`: a relation has the name.
    pub(crate) fn refuse_taken_relation(
        &self,
        name: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if self.relation_exists(name) {
            let error = SqlError::new("42P07", format!("relation \"{name}\" already exists"));
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        Ok(())
    }

    /// Refuses the name of a new table, view or sequence.
    ///
    /// # Errors
    /// `42P07`: a relation has the name. `42710`: a type has it.
    pub(crate) fn refuse_taken(
        &self,
        name: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        self.refuse_taken_relation(name, source, node)?;
        if self.catalog.type_number(name).is_some() {
            let hint = "A relation has an associated type of the same name, so you must use a name that \
                        doesn't conflict with any existing type.";
            let error = SqlError::new("42710", format!("type \"{}\" already exists", short(name)));
            return Err(source.error_at(node.text_range().start().into(), error.with_hint(hint)));
        }
        Ok(())
    }

    /// Refuses the name of a new type.
    ///
    /// # Errors
    /// `42710`: a type or a relation has it.
    pub(crate) fn refuse_taken_type(
        &self,
        name: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        // Each relation defines a row type of the same name.
        if self.catalog.type_number(name).is_some() || self.relation_exists(name) {
            let error = SqlError::new("42710", format!("type \"{name}\" already exists"));
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        Ok(())
    }

    fn named_enumeration(
        &self,
        name: Option<ast::TypeNameRef>,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<EnumType, StatementError> {
        let path = name.and_then(|name| name.path_ref());
        let name = path.as_ref().map(object_name).unwrap_or_default();
        self.catalog.enumeration(&name).ok_or_else(|| {
            let error = SqlError::new("42704", format!("type \"{name}\" does not exist"));
            source.error_at(node.text_range().start().into(), error)
        })
    }

    pub(crate) fn alter_type(
        &mut self,
        alter: &ast::AlterType,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        if let Some(domain) = self.domain_of(alter.type_name_ref()) {
            return self.alter_domain_as_type(domain, alter, At { source, node });
        }
        let enumeration = self.named_enumeration(alter.type_name_ref(), source, node)?;
        let mut changed = enumeration.definition().clone();
        let at = |error: SqlError| source.error_at(node.text_range().start().into(), error);
        match alter.action() {
            Some(ast::AlterTypeAction::OwnerTo(_)) => return Ok(Effect::None),
            Some(ast::AlterTypeAction::AddValue(add)) => {
                let label = text_of(add.literal(), source, node)?;
                if add.if_not_exists().is_some() && changed.has(&label) {
                    self.notices.skip_existing("42710", &format!("enum label \"{label}\""));
                    return Ok(Effect::None);
                }
                let position = match add.value_position() {
                    None => LabelPlace::Last,
                    Some(ast::ValuePosition::BeforeValue(position)) => {
                        LabelPlace::Before(text_of(position.literal(), source, node)?)
                    }
                    Some(ast::ValuePosition::AfterValue(position)) => {
                        LabelPlace::After(text_of(position.literal(), source, node)?)
                    }
                };
                changed.add(label, &position).map_err(|error| at(error.into()))?;
            }
            Some(ast::AlterTypeAction::RenameValue(rename)) => {
                let mut texts = rename.syntax().children().filter_map(ast::Literal::cast);
                let old = text_of(texts.next(), source, node)?;
                let new = text_of(texts.next(), source, node)?;
                changed.rename(&old, new).map_err(|error| at(error.into()))?;
                // Expressions of tables are kept as texts.
                let quoted = format!("'{}'", old.replace('\'', "''"));
                if self.is_written_in_tables(&quoted) {
                    return Err(unsupported(
                        source,
                        node,
                        "a new name of a label that a table's expression uses",
                    ));
                }
            }
            Some(ast::AlterTypeAction::TypeRenameTo(rename)) => {
                let path = rename.type_name().and_then(|name| name.path());
                let new =
                    path.and_then(|path| path.segment()).map(|segment| segment.text()).unwrap_or_default();
                let new = in_schema_of(&changed.name, new);
                self.refuse_taken_type(&new, source, node)?;
                let short = changed.short_name();
                if self.is_mentioned(&changed.name) || self.is_written_in_tables(short) {
                    return Err(unsupported(source, node, "a new name of a type that other objects use"));
                }
                let subjects = [&changed.name, &new].map(|name| Subject::Type(name.clone()));
                let [before, after] = subjects;
                self.rename_subject(&before, after);
                changed.name = new;
            }
            _ => return Err(unsupported(source, node, "this change of a type")),
        }
        self.replace_type(enumeration, changed, source, node)
    }

    fn replace_type(
        &mut self,
        old: EnumType,
        new: Enumeration,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        let tables = self.catalog.replace_enumeration(old, new);
        self.recompile(source, node)?;
        Ok(Effect::All(tables.into_iter().map(Effect::Redefine).collect()))
    }

    /// Returns whether an expression of a table contains a text.
    fn is_written_in_tables(&self, text: &str) -> bool {
        let holds = |expression: &str| expression.contains(text);
        let is_in_domain = |own: &catalog::Domain| {
            own.default.as_deref().is_some_and(holds) || own.checks.iter().any(|(_, text)| holds(text))
        };
        self.catalog.domains().any(is_in_domain)
            || self.catalog.tables().any(|table| {
                table.checks.iter().any(|(_, condition)| holds(condition))
                    || table.columns.iter().any(|column| column.default.as_deref().is_some_and(holds))
                    || table.triggers.iter().any(|trigger| trigger.condition.as_deref().is_some_and(holds))
                    || table.indexes.iter().any(|index| index.details.condition.as_deref().is_some_and(holds))
            })
    }

    pub(crate) fn drop_type(
        &mut self,
        drop: &ast::DropType,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = drop.syntax();
        let mut effects = Vec::new();
        for name in drop.type_name_refs() {
            if let Some(domain) = self.domain_of(Some(name.clone())) {
                effects.push(self.drop_named_domain(&domain.name, At { source, node })?);
                continue;
            }
            let enumeration = match self.named_enumeration(Some(name), source, node) {
                Err(error) if error.error.sqlstate == "42704" && drop.if_exists().is_some() => {
                    self.notices.skip_missing_of(&error.error);
                    continue;
                }
                enumeration => enumeration?,
            };
            if cascades(node) {
                let ty = ScalarType::Enum(enumeration);
                let at = At { source, node };
                effects.push(self.drop_columns_of_type(|column| column.ty.element() == ty, at)?);
            }
            self.remove_type(&enumeration.definition().name, source, node)?;
            self.recompile(source, node)?;
        }
        Ok(Effect::All(effects))
    }

    /// Removes an enumeration that no column has.
    pub(crate) fn remove_type(
        &mut self,
        name: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if self.catalog.domain(name).is_some() {
            return self.remove_domain(name, source, node);
        }
        let Some(enumeration) = self.catalog.enumeration(name) else { return Ok(()) };
        let ty = ScalarType::Enum(enumeration);
        let user = self.catalog.tables().find_map(|table| {
            let column = table.columns.iter().find(|own| own.ty.element() == ty)?;
            Some((column.name.as_str(), table.short_name()))
        });
        if let Some((column, table)) = user {
            let message = format!("cannot drop type {ty} because other objects depend on it");
            let detail = format!("column {column} of table {table} depends on type {ty}");
            let error = SqlError::new("2BP01", message).with_detail(detail);
            let error = error.with_hint("Use DROP ... CASCADE to drop the dependent objects too.");
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        if let Some(domain) = self.catalog.domains().find(|own| own.ty.element() == ty) {
            let message = format!("cannot drop type {ty} because other objects depend on it");
            let detail = format!("type {} depends on type {ty}", domain.name);
            let error = SqlError::new("2BP01", message).with_detail(detail);
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        self.catalog.drop_enumeration(name);
        Ok(())
    }
}
