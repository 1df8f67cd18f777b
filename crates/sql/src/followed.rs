//! Keeps the queries of views valid when a table or its columns get other names.
//!
//! A view is kept as the text of its query, so a renamed table gets its earlier name there as an alias, and
//! renamed columns get theirs as the names of the alias: `FROM t` becomes `FROM new_t AS t (id, old_column)`.
//! All other parts of the text stay valid.
//! Invariant: the columns of a view keep their names, as in PostgreSQL.
//! Held by: `crates/workload/tests/sql/altered.slt`.

use crate::binder::Binder;
use crate::full_names::short;
use crate::quoted::{quoted, quoted_path};
use crate::schema::{Schema, View};
use crate::source::Source;
use crate::types::{last_name, object_name};
use catalog::Table;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A name that no column of a user has.
const UNKNOWN: &str = "a column that is looked for";

/// Returns whether a name of FROM is a query of WITH.
fn is_query_of_with(name: &str, item: &SyntaxNode) -> bool {
    let mut inner = item.clone();
    while let Some(outer) = inner.parent() {
        if let Some(with) = ast::WithClause::cast(inner.clone()) {
            // A query of WITH sees those before it; of WITH RECURSIVE, all.
            let own = item.text_range().start();
            let mut seen = with
                .with_tables()
                .filter(|query| with.recursive_token().is_some() || query.syntax().text_range().end() <= own);
            if seen.any(|query| is_named(&query, name)) {
                return true;
            }
        } else if let Some(with) = outer.children().find_map(ast::WithClause::cast)
            && *with.syntax() != inner
            && with.with_tables().any(|query| is_named(&query, name))
        {
            return true;
        }
        inner = outer;
    }
    false
}

fn is_named(query: &ast::WithTable, name: &str) -> bool {
    query.name().is_some_and(|own| ast::normalize_name_node(own.syntax()) == name)
}

/// A table in FROM of a view.
struct Use {
    range: std::ops::Range<usize>,
    alias: String,
    /// The names that the view has given to the first columns.
    names: Vec<String>,
}

/// Returns the uses of a table in a query.
fn uses_of(table: &str, source: &Source) -> Vec<Use> {
    let items = source.file.syntax().descendants().filter_map(ast::RelationFromItem::cast);
    let used = items.filter_map(|item| {
        let path = item.relation_name_ref()?.path_ref()?;
        let is_meant = object_name(&path) == table
            && (path.qualifier().is_some() || !is_query_of_with(table, item.syntax()));
        let names = match item.alias().and_then(|alias| alias.columns()) {
            Some(ast::FromAliasColumns::ColumnList(list)) => Binder::column_names(Some(list)),
            _ => Vec::new(),
        };
        let alias = item.alias().and_then(|alias| alias.name());
        let alias = alias.map(|name| ast::normalize_name_node(name.syntax()));
        let (begin, end) = (source.range_of(path.syntax()).start, source.range_of(item.syntax()).end);
        let alias = alias.unwrap_or_else(|| last_name(&path));
        is_meant.then_some(Use { range: begin..end, alias, names })
    });
    used.collect()
}

impl View {
    /// Returns the view with another name for a table, and the names that it sees for the table's columns;
    /// `None` if it does not use the table. `seen` returns them, of the names that the view has given.
    fn following(&self, old: &str, new: &Table, seen: impl Fn(&[String]) -> Vec<String>) -> Option<Self> {
        let source = Source::parse(&self.query).ok()?;
        let uses = uses_of(old, &source);
        let mut query = self.query.clone();
        // From the end, so that earlier offsets stay valid.
        for Use { range, alias, names } in uses.iter().rev() {
            let columns = seen(names);
            let mut text = quoted_path(&new.name);
            let own_names = new.columns[..new.visible().len()].iter().map(|own| &own.name);
            let are_own = columns.iter().eq(own_names);
            if !are_own {
                let columns: Vec<_> = columns.iter().map(|name| quoted(name)).collect();
                text += &format!(" AS {} ({})", quoted(alias), columns.join(", "));
            } else if *alias != new.short_name() {
                text += &format!(" AS {}", quoted(alias));
            }
            query.replace_range(range.clone(), &text);
        }
        (!uses.is_empty()).then(|| Self { query, ..self.clone() })
    }
}

impl View {
    /// Returns the view with another name for a view in its query; `None` if it does not use that view.
    fn following_view(&self, old: &str, new: &str) -> Option<Self> {
        let source = Source::parse(&self.query).ok()?;
        let uses = uses_of(old, &source);
        let mut query = self.query.clone();
        for Use { range, alias, names } in uses.iter().rev() {
            let mut text = quoted_path(new);
            let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
            if alias != short(new) || !names.is_empty() {
                text += &format!(" AS {}", quoted(alias));
            }
            if !names.is_empty() {
                text += &format!(" ({})", names.join(", "));
            }
            query.replace_range(range.clone(), &text);
        }
        (!uses.is_empty()).then(|| Self { query, ..self.clone() })
    }
}

impl Schema {
    /// Gives a view another name, which other views follow.
    pub(crate) fn rename_view(&mut self, old: &str, new: &str) {
        let Some(view) = self.views.remove(old) else { return };
        self.views.insert(new.into(), Arc::new(View { name: new.into(), ..View::clone(&view) }));
        for view in self.views.values_mut() {
            if let Some(followed) = view.following_view(old, new) {
                *view = Arc::new(followed);
            }
        }
        self.rename_subjects_of_view(old, new);
    }

    /// Makes views follow a table that has got another name or other columns. `column` returns the new name
    /// of a column; `None` if it is dropped.
    pub(crate) fn follow_in_views(
        &mut self,
        old: &Table,
        new: &Table,
        column: impl Fn(&str) -> Option<String>,
    ) {
        let has_names = |table: &Table| -> Vec<String> {
            table.columns[..table.visible().len()].iter().map(|own| own.name.clone()).collect()
        };
        let (before, after) = (has_names(old), has_names(new));
        if old.name == new.name && before == after {
            return;
        }
        let followed: Vec<Option<String>> = before.iter().map(|name| column(name)).collect();
        let seen = |given: &[String]| {
            let mut names: Vec<String> = Vec::new();
            for name in &after {
                let origin = followed.iter().position(|own| own.as_ref() == Some(name));
                let mut name = match origin {
                    Some(origin) => given.get(origin).unwrap_or(&before[origin]).clone(),
                    None => name.clone(),
                };
                while names.contains(&name) {
                    name += "_1";
                }
                names.push(name);
            }
            names
        };
        let changed = self.views.values().filter_map(|view| view.following(&old.name, new, seen));
        let changed: Vec<_> = changed.map(|view| (view.name.clone(), Arc::new(view))).collect();
        self.views.extend(changed);
    }

    /// Returns a view whose query uses a column of a table itself.
    pub(crate) fn view_using(&self, table: &Table, column: usize) -> Option<&Arc<View>> {
        let columns_of = |view: &View| -> Option<Vec<String>> {
            let plain = View { names: Vec::new(), ..view.clone() };
            let columns = self.view_columns(&plain).into_iter().map(|(name, _)| name);
            Some(columns.collect::<Vec<_>>()).filter(|columns| !columns.is_empty())
        };
        let seen = |given: &[String]| {
            let names = table.columns[..table.visible().len()].iter().enumerate();
            let name = |(place, own): (usize, &catalog::Column)| match place == column {
                true => UNKNOWN.to_owned(),
                false => given.get(place).unwrap_or(&own.name).clone(),
            };
            names.map(name).collect()
        };
        self.views.values().filter(|view| !self.is_partition(&view.name)).find(|view| {
            let Some(without) = view.following(&table.name, table, seen) else { return false };
            let (now, without) = (columns_of(view), columns_of(&without));
            without.is_none() || now != without
        })
    }
}
