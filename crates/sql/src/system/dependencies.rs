//! `pg_depend` and `pg_rewrite`: the dependencies between objects, which determine the order of objects in
//! the output of `pg_dump`.
//! Source: PostgreSQL 15's `pg_depend`. Differs: it has no dependencies on system objects, which no statement
//! can drop.

use super::catalogs::catalog_oid;
use super::qualified::Named;
use super::relations::default_oid;
use super::routine_text::RoutineText;
use super::{Cell, INT, SystemRelation, TEXT};
use crate::binder::Binder;
use crate::kept_text;
use crate::oids::{index_oid, key_oid, routine_oid, table_oid};
use crate::schema::{Schema, View};
use crate::source::Source;
use crate::types::object_name;
use catalog::{Column, Table};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;

/// The OID of the first view's rule.
const FIRST_RULE: i64 = 2_500_000;

/// An object or a column of it: the system table that has it, its OID, and the position of the column from 1;
/// 0 for the object itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    class: &'static str,
    oid: i64,
    column: i64,
}

fn whole(class: &'static str, oid: i64) -> Object {
    Object { class, oid, column: 0 }
}

fn column_of(table: &Table, column: usize) -> Object {
    Object { class: "pg_class", oid: table_oid(table), column: column as i64 + 1 }
}

/// The dependencies: an object, the object on which it depends, and the kind.
#[derive(Default)]
struct Dependencies(BTreeSet<(Object, Object, &'static str)>);

impl Dependencies {
    fn add(&mut self, object: Object, on: Object, kind: &'static str) {
        if object != on {
            self.0.insert((object, on, kind));
        }
    }
}

/// Returns the visible columns that a column of an index reads: itself, or those in its expression.
fn read_by(table: &Table, column: usize) -> Vec<usize> {
    let definition = &table.columns[column];
    if !definition.hidden {
        return vec![column];
    }
    let names = kept_text::columns_in(definition.default.as_deref().unwrap_or_default());
    names.iter().filter_map(|name| table.column(name)).collect()
}

impl Schema {
    /// Returns the OID of the rule of a view.
    fn rule_oid(&self, view: &View) -> i64 {
        self.view_oid(view) - 2_000_000 + FIRST_RULE
    }

    /// Returns the CREATE RULE statements of the views, by OID.
    pub(crate) fn rule_definitions(&self) -> Vec<(i64, Named)> {
        let texts = self.view_definitions();
        let of = |(view, (_, text)): (&std::sync::Arc<View>, (i64, Named))| {
            let write = |is_qualified: bool| {
                let query = if is_qualified { &text.qualified } else { &text.plain };
                let name = super::path_text(&view.name, is_qualified);
                format!("CREATE RULE \"_RETURN\" AS\n    ON SELECT TO {name} DO INSTEAD {query}")
            };
            (self.rule_oid(view), Named::of(write))
        };
        self.views().zip(texts).map(of).collect()
    }

    pub(super) fn pg_rewrite(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("rulename", TEXT),
            ("ev_class", INT),
            ("ev_type", TEXT),
            ("ev_enabled", TEXT),
            ("is_instead", super::BOOL),
        ];
        let row = |view: &std::sync::Arc<View>| {
            vec![
                self.rule_oid(view).into(),
                "_RETURN".into(),
                self.view_oid(view).into(),
                "1".into(),
                "O".into(),
                true.into(),
            ]
        };
        SystemRelation::new(&columns, self.views().map(row).collect())
    }

    /// Returns the objects of the schema that an expression or a query names.
    fn named_in(&self, node: &SyntaxNode) -> Vec<Object> {
        let mut found = Vec::new();
        let relation = |name: &str| {
            let table = self.catalog().table(name).ok().map(|table| table_oid(table));
            let oid = table.or_else(|| self.view(name).map(|view| self.view_oid(view)));
            oid.map(|oid| whole("pg_class", oid))
        };
        for node in node.descendants() {
            if let Some(path) = ast::RelationNameRef::cast(node.clone()).and_then(|name| name.path_ref()) {
                found.extend(relation(&object_name(&path)));
            } else if let Some(call) = ast::CallExpr::cast(node.clone()) {
                let name = match call.expr() {
                    Some(ast::Expr::NameRef(name)) => name.text(),
                    Some(ast::Expr::FieldExpr(field)) => {
                        field.field().map(|field| field.text()).unwrap_or_default()
                    }
                    _ => continue,
                };
                found.extend(self.procedure(&name).map(|routine| whole("pg_proc", routine_oid(routine))));
                if matches!(name.as_str(), "nextval" | "currval" | "setval") {
                    let literals = call.syntax().descendants().filter_map(ast::Literal::cast);
                    let names = literals.filter_map(|literal| literal.string_value());
                    found.extend(names.filter_map(|name| {
                        relation(&name.strip_prefix("public.").unwrap_or(&name).replace('"', ""))
                    }));
                }
            } else if let Some(path) = ast::PathType::cast(node).and_then(|name| name.path_ref())
                && let Some(enumeration) = self.catalog().enumeration(&object_name(&path))
            {
                found.push(whole("pg_type", enumeration.definition().oid.into()));
            }
        }
        found
    }

    fn named_in_text(&self, text: &str) -> Vec<Object> {
        let source = Source::parse(&format!("SELECT {text}"));
        source.map(|source| self.named_in(source.file.syntax())).unwrap_or_default()
    }

    pub(super) fn pg_depend(&self) -> SystemRelation {
        let columns = [
            ("classid", INT),
            ("objid", INT),
            ("objsubid", INT),
            ("refclassid", INT),
            ("refobjid", INT),
            ("refobjsubid", INT),
            ("deptype", TEXT),
        ];
        let mut all = Dependencies::default();
        for table in self.shown_tables() {
            self.add_table_dependencies(table, &mut all);
        }
        self.add_constraint_dependencies(&mut all);
        for (oid, table, trigger) in self.all_triggers() {
            let object = whole("pg_trigger", oid);
            all.add(object, whole("pg_class", table_oid(table)), "a");
            let function = self.procedure(&trigger.function);
            function.inspect(|function| all.add(object, whole("pg_proc", routine_oid(function)), "n"));
            for on in trigger.condition.iter().flat_map(|text| self.named_in_text(text)) {
                all.add(object, on, "n");
            }
        }
        for view in self.views() {
            self.add_view_dependencies(view, &mut all);
        }
        for routine in self.procedures() {
            let object = whole("pg_proc", routine_oid(routine));
            if routine.name.contains('.') {
                all.add(object, whole("pg_namespace", self.namespace_oid(&routine.name)), "n");
            }
            // `pg_dump` writes a function that returns rows of a table after the table.
            let of_rows = RoutineText::of(routine, self).row_type;
            if let Some(table) = of_rows.and_then(|name| self.catalog().table(&name).ok()) {
                all.add(object, whole("pg_class", table_oid(table)), "n");
            }
            for ty in routine
                .parameters
                .iter()
                .map(|parameter| parameter.ty)
                .chain(routine.result.map(|result| result.1))
            {
                if let Some(enumeration) = ty.element().enumeration() {
                    all.add(object, whole("pg_type", enumeration.oid.into()), "n");
                }
            }
        }
        let number = |class: &str| Cell::Int(catalog_oid(class).unwrap_or(0));
        let row = |(object, on, kind): (Object, Object, &str)| {
            vec![
                number(object.class),
                object.oid.into(),
                object.column.into(),
                number(on.class),
                on.oid.into(),
                on.column.into(),
                kind.into(),
            ]
        };
        SystemRelation::new(&columns, all.0.into_iter().map(row).collect())
    }

    fn add_table_dependencies(&self, table: &Table, all: &mut Dependencies) {
        let object = whole("pg_class", table_oid(table));
        if table.name.contains('.') {
            all.add(object, whole("pg_namespace", self.namespace_oid(&table.name)), "n");
        }
        if let Some((owner, column)) = table.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref())
            && let Ok(owner) = self.catalog().table(owner)
            && let Some(position) = owner.column(column)
        {
            let kind = if owner.columns[position].identity.is_some() { "i" } else { "a" };
            all.add(object, column_of(owner, position), kind);
        }
        for (position, column) in table.visible().iter().enumerate() {
            if let Some(ty) = column.ty.element().enumeration() {
                all.add(column_of(table, position), whole("pg_type", ty.oid.into()), "n");
            }
            self.add_default_dependencies(table, position, column, all);
        }
        for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
            if !index.is_constraint {
                let object = whole("pg_class", index_oid(index));
                for column in index.columns.iter().flat_map(|column| read_by(table, *column)) {
                    all.add(object, column_of(table, column), "a");
                }
            }
        }
    }

    fn add_default_dependencies(
        &self,
        table: &Table,
        position: usize,
        column: &Column,
        all: &mut Dependencies,
    ) {
        let Some(text) = column.default.as_ref().filter(|_| column.identity.is_none()) else { return };
        let object = whole("pg_attrdef", default_oid(table, position));
        all.add(object, column_of(table, position), "a");
        for on in self.named_in_text(text) {
            all.add(object, on, "n");
        }
    }

    fn add_constraint_dependencies(&self, all: &mut Dependencies) {
        for constraint in self.constraints() {
            let object = whole("pg_constraint", constraint.oid);
            all.add(object, whole("pg_class", table_oid(constraint.table)), "a");
            constraint
                .columns
                .iter()
                .for_each(|column| all.add(object, column_of(constraint.table, *column), "a"));
            match &constraint.parent {
                Some((parent, columns, _)) => {
                    for column in columns {
                        let on = Object { column: *column as i64 + 1, ..whole("pg_class", *parent) };
                        all.add(object, on, "n");
                    }
                    if constraint.index != 0 {
                        all.add(object, whole("pg_class", constraint.index), "n");
                    }
                }
                None if constraint.index != 0 => all.add(whole("pg_class", constraint.index), object, "i"),
                None => {
                    for on in self.named_in_text(constraint.definition.plain.trim_start_matches("CHECK ")) {
                        all.add(object, on, "n");
                    }
                }
            }
        }
    }

    fn add_view_dependencies(&self, view: &View, all: &mut Dependencies) {
        let (rule, object) =
            (whole("pg_rewrite", self.rule_oid(view)), whole("pg_class", self.view_oid(view)));
        if view.name.contains('.') {
            all.add(object, whole("pg_namespace", self.namespace_oid(&view.name)), "n");
        }
        all.add(rule, object, "i");
        all.add(rule, object, "n");
        let Ok(source) = self.trees.parse(&view.query) else { return };
        for on in self.named_in(source.file.syntax()) {
            all.add(rule, on, "n");
        }
        let Some(query) = source.file.syntax().descendants().find_map(ast::SelectVariant::cast) else {
            return;
        };
        let mut binder = Binder::new(self, &source);
        if binder.bind_query(|binder| binder.bind_variant(&query)).is_err() {
            return;
        }
        // A query that is grouped by a primary key may have columns that are no group keys. It depends on the
        // constraint.
        for key in binder.queries.grouped_by {
            let mut constraints = self.constraints().into_iter();
            let constraint = constraints.find(|known| known.kind == "p" && known.index == key_oid(key));
            constraint.inspect(|constraint| all.add(rule, whole("pg_constraint", constraint.oid), "n"));
        }
    }
}
