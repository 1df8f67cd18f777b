//! The OIDs and texts in the system catalogs of the objects that statements have defined.

use super::qualified::{Named, path_text};
use super::{Cell, INFORMATION, PUBLIC, SYSTEM, catalog_names};
use crate::full_names::short;
use crate::index::name_of_expression;
use crate::kept_text::{called, columns_in};
use crate::oids::{index_oid, table_oid};
use crate::quoted::quoted;
use crate::schema::{Schema, View};
use catalog::{Deferral, Index, ReferenceAction, Table};
use std::sync::Arc;

pub(super) fn columns_of(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|column| quoted(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
}

/// Returns the SQL text of an index column: the name of a column, or an expression.
pub(super) fn index_column_of(table: &Table, column: usize) -> String {
    let definition = &table.columns[column];
    match visible_column(table, column) {
        Some(column) => quoted(&table.columns[column].name),
        None if called(&definition.name).is_some() => definition.name.clone(),
        None => format!("({})", definition.name),
    }
}

/// Returns the visible column of an index column: the column itself, or for a hidden column of a partial
/// index the column whose values it has. Returns `None` for an expression.
fn visible_column(table: &Table, column: usize) -> Option<usize> {
    let definition = &table.columns[column];
    if !definition.hidden {
        return Some(column);
    }
    table.visible().iter().position(|visible| quoted(&visible.name) == definition.name)
}

/// Returns the name of an index column.
pub(super) fn index_column_name(table: &Table, column: usize) -> String {
    match visible_column(table, column) {
        Some(column) => table.columns[column].name.clone(),
        None => name_of_expression(&table.columns[column].name),
    }
}

/// Returns the columns of an index for `pg_index.indkey`: their positions from 1, and 0 for an expression.
pub(super) fn index_positions(table: &Table, index: &Index) -> Cell {
    let position = |column: &usize| visible_column(table, *column).map_or(0, |position| position as i64 + 1);
    Cell::Ints(index.columns.iter().chain(&index.details.included).map(position).collect())
}

/// Returns the expressions of an index as SQL text; `None` if it has none.
pub(super) fn index_expressions(table: &Table, index: &Index) -> Option<String> {
    let expressions = index.columns.iter().filter(|column| visible_column(table, **column).is_none());
    let texts: Vec<&str> = expressions.map(|column| table.columns[*column].name.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// Returns the columns of an index with their orders, as SQL text.
fn index_columns_of(table: &Table, index: &Index) -> String {
    let column = |(position, column): (usize, &usize)| {
        let order = index.details.orders.get(position).filter(|order| !order.is_empty());
        let order = order.map(|order| format!(" {order}")).unwrap_or_default();
        index_column_of(table, *column) + &order
    };
    index.columns.iter().enumerate().map(column).collect::<Vec<_>>().join(", ")
}

/// Returns a condition in parentheses. Adds none if it already has them.
pub(super) fn in_parentheses(text: String) -> String {
    let mut depth = 0_usize;
    let closes_early = text.char_indices().any(|(offset, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && offset + 1 < text.len()
    });
    if text.starts_with('(') && !closes_early { text } else { format!("({text})") }
}

/// Returns the positions of columns, from 1, as an array.
pub(super) fn positions(columns: &[usize]) -> Cell {
    Cell::Ints(columns.iter().map(|column| *column as i64 + 1).collect())
}

/// A row of `pg_constraint`.
pub(crate) struct Constraint<'a> {
    pub(crate) oid: i64,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) table: &'a Arc<Table>,
    pub(crate) definition: Named,
    pub(super) index: i64,
    pub(super) columns: Vec<usize>,
    pub(super) parent: Option<(i64, Vec<usize>, [ReferenceAction; 2])>,
    pub(crate) deferral: Deferral,
}

/// Returns the definition of a key.
fn key_text(table: &Table, position: usize) -> String {
    let index = &table.indexes[position];
    let kind = if table.is_primary_key(position) { "PRIMARY KEY" } else { "UNIQUE" };
    let nulls = if index.rules.nulls_equal { " NULLS NOT DISTINCT" } else { "" };
    let include = match &index.details.included[..] {
        [] => String::new(),
        included => format!(" INCLUDE ({})", columns_of(table, included)),
    };
    let columns = columns_of(table, &index.columns);
    format!("{kind}{nulls} ({columns}){include}{}", index.rules.deferral.clause())
}

pub(super) fn action_word(action: ReferenceAction) -> Option<&'static str> {
    match action {
        ReferenceAction::Refuse => None,
        ReferenceAction::Restrict => Some("RESTRICT"),
        ReferenceAction::Cascade => Some("CASCADE"),
        ReferenceAction::SetNull => Some("SET NULL"),
        ReferenceAction::SetDefault => Some("SET DEFAULT"),
    }
}

pub(super) fn action_code(action: ReferenceAction) -> &'static str {
    match action {
        ReferenceAction::Refuse => "a",
        ReferenceAction::Restrict => "r",
        ReferenceAction::Cascade => "c",
        ReferenceAction::SetNull => "n",
        ReferenceAction::SetDefault => "d",
    }
}

impl Schema {
    pub(crate) fn namespace_oid(&self, name: &str) -> i64 {
        let Some((schema, _)) = name.rsplit_once('.') else { return PUBLIC };
        let position = self.namespaces().position(|known| known == schema).unwrap_or(0);
        5_000_000 + position as i64
    }

    pub(super) fn namespace_of<'a>(&self, name: &'a str) -> &'a str {
        name.rsplit_once('.').map_or("public", |(schema, _)| schema)
    }

    pub(crate) fn view_oid(&self, view: &View) -> i64 {
        if let Some(table) = self.partitions.table(&view.name) {
            return table_oid(table);
        }
        2_000_000 + self.views().position(|known| known.name == view.name).unwrap_or(0) as i64
    }

    /// Returns the OIDs of relations, and their names as SQL text.
    pub(crate) fn relation_names(&self) -> Vec<(i64, Named)> {
        // As in PostgreSQL, a name that the session would not find has its schema.
        let named = |oid: i64, name: &str| {
            let form = |is_qualified: bool| match self.is_on_path(name) {
                true if !is_qualified => quoted(short(name)),
                is_on_path => path_text(name, is_qualified || !is_on_path),
            };
            (oid, Named::of(form))
        };
        let tables = self.shown_tables().map(|table| named(table_oid(table), &table.name));
        let indexes = self.shown_tables().flat_map(|table| {
            let visible = table.indexes.iter().skip(usize::from(table.hidden_key));
            visible.map(|index| named(index_oid(index), &index.name))
        });
        let views = self.views().map(|view| named(self.view_oid(view), &view.name));
        let system = catalog_names().map(|(oid, name)| (oid, Named::same(name)));
        tables.chain(indexes).chain(views).chain(system).collect()
    }

    /// Returns the CREATE INDEX statements of all indexes, by OID.
    pub(crate) fn index_definitions(&self) -> Vec<(i64, Named)> {
        let of = |table: &Arc<Table>| {
            let visible = table.indexes.iter().skip(usize::from(table.hidden_key));
            visible.map(|index| (index_oid(index), self.index_definition(table, index))).collect::<Vec<_>>()
        };
        self.shown_tables().flat_map(of).collect()
    }

    fn index_definition(&self, table: &Table, index: &Index) -> Named {
        let unique = if index.is_key() { "UNIQUE " } else { "" };
        let columns = index_columns_of(table, index);
        let (name, on) = (quoted(short(&index.name)), path_text(&table.name, true));
        let on = if self.is_partitioned(&table.name) { format!("ONLY {on}") } else { on };
        let start = format!("CREATE {unique}INDEX {name} ON {on} USING btree ({columns})");
        let include = match &index.details.included[..] {
            [] => String::new(),
            included => format!(" INCLUDE ({})", columns_of(table, included)),
        };
        let nulls = if index.rules.nulls_equal { " NULLS NOT DISTINCT" } else { "" };
        let condition = index.details.condition.as_ref().map(|text| self.named(text, false));
        Named::of(|is_qualified| {
            let condition = condition.as_ref().map(|text| text.form(is_qualified));
            let condition = condition.map(|text| format!(" WHERE {}", in_parentheses(text)));
            format!("{start}{include}{nulls}{}", condition.unwrap_or_default())
        })
    }

    /// Returns the SQL texts of index columns, by the OID of the index and the position in it, from 1.
    pub(crate) fn index_columns(&self) -> impl Iterator<Item = ((i64, i64), String)> {
        let indexes = self.shown_tables().flat_map(|table| {
            table.indexes.iter().skip(usize::from(table.hidden_key)).map(move |index| (table, index))
        });
        indexes.flat_map(|(table, index)| {
            let column = |(position, column): (usize, &usize)| {
                ((index_oid(index), position as i64 + 1), index_column_of(table, *column))
            };
            index.columns.iter().enumerate().map(column).collect::<Vec<_>>()
        })
    }

    pub(crate) fn constraints(&self) -> Vec<Constraint<'_>> {
        let mut all = Vec::new();
        for table in self.shown_tables() {
            let base = 4_000_000 + i64::from(table.id.0) * 1_000;
            let indexes = table.indexes.iter().enumerate();
            for (position, index) in indexes.filter(|(_, index)| index.is_constraint) {
                all.push(Constraint {
                    deferral: index.rules.deferral,
                    oid: base + all.len() as i64 % 1_000,
                    name: short(&index.name),
                    kind: if table.is_primary_key(position) { "p" } else { "u" },
                    table,
                    definition: Named::same(key_text(table, position)),
                    index: index_oid(index),
                    columns: index.columns.clone(),
                    parent: None,
                });
            }
            for (name, text) in &table.checks {
                all.push(Constraint {
                    deferral: Deferral::Never,
                    oid: base + all.len() as i64 % 1_000,
                    name,
                    kind: "c",
                    table,
                    definition: {
                        let text = self.named(text, false);
                        Named::of(|is_qualified| format!("CHECK ({})", text.form(is_qualified)))
                    },
                    index: 0,
                    columns: columns_in(text).iter().filter_map(|name| table.column(name)).collect(),
                    parent: None,
                });
            }
            for key in &table.foreign_keys {
                let Ok(parent) = self.catalog().table(&key.parent) else { continue };
                let definition = Named::of(|is_qualified| {
                    let mut definition = format!(
                        "FOREIGN KEY ({}) REFERENCES {}({})",
                        columns_of(table, &key.columns),
                        path_text(&parent.name, is_qualified),
                        columns_of(parent, &key.parent_columns)
                    );
                    for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
                        if let Some(word) = action_word(action) {
                            definition += &format!(" ON {event} {word}");
                        }
                    }
                    definition + key.deferral.clause()
                });
                let actions = [key.on_update, key.on_delete];
                let index = parent.unique_index_of(&key.parent_columns);
                all.push(Constraint {
                    deferral: key.deferral,
                    oid: base + all.len() as i64 % 1_000,
                    name: &key.name,
                    kind: "f",
                    table,
                    definition,
                    index: index.map_or(0, |position| index_oid(&parent.indexes[position])),
                    columns: key.columns.clone(),
                    parent: Some((table_oid(parent), key.parent_columns.clone(), actions)),
                });
            }
        }
        all
    }

    pub(crate) fn view_definitions(&self) -> Vec<(i64, Named)> {
        let of = |view: &Arc<View>| {
            let text = view.query.trim().trim_end_matches(';').to_owned();
            let names = |text: String| match view.names.as_slice() {
                [] => text,
                // The query lacks the column names of CREATE VIEW.
                names => {
                    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
                    format!("SELECT * FROM ({text}) AS {} ({})", quoted(short(&view.name)), names.join(", "))
                }
            };
            let text = self.named(&text, true);
            let write = |is_qualified: bool| format!(" {};", names(text.form(is_qualified)));
            (self.view_oid(view), Named::of(write))
        };
        self.views().map(of).collect()
    }

    pub(crate) fn namespace_names(&self) -> Vec<(i64, String)> {
        let defined = self
            .namespaces()
            .enumerate()
            .map(|(position, name)| (5_000_000 + position as i64, name.to_owned()));
        let system = [(SYSTEM, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")];
        system.into_iter().map(|(oid, name)| (oid, name.to_owned())).chain(defined).collect()
    }

    /// Returns the OID of a relation by name, for a literal of type `regclass`.
    pub(crate) fn relation_oid(&self, name: &str) -> Option<i64> {
        let plain = name.strip_prefix("public.").unwrap_or(name);
        let plain = plain.strip_prefix("pg_catalog.").unwrap_or(plain);
        let is_it = |known: &Named| {
            let name = known.qualified.strip_prefix("public.").unwrap_or(&known.qualified);
            name == plain || name.replace('"', "") == plain
        };
        self.relation_names().into_iter().find(|(_, known)| is_it(known)).map(|(oid, _)| oid)
    }
}
