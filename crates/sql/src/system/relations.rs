//! The relations of `pg_catalog` about tables and views, and about their columns, indexes and constraints.

use super::objects::{
    action_code, in_parentheses, index_column_name, index_expressions, index_positions, positions,
};
use super::qualified::Named;
use super::types::{TYPES, storage_of, type_modifier, type_oid};
use super::{BOOL, Cell, INT, INTS, SMALL_INTS, SystemRelation, TEXT, TEXTS};
use crate::full_names::short;
use crate::oids::{index_oid, table_oid};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{Deferral, Identity, Index, ScalarType, Table, Type};

/// The columns of a sequence.
const OF_SEQUENCE: [(&str, ScalarType); 3] =
    [("last_value", ScalarType::BigInt), ("log_cnt", ScalarType::BigInt), ("is_called", ScalarType::Boolean)];

/// Returns the order of an index column for `pg_index.indoption`: 1 for DESC plus 2 for NULLS FIRST.
fn option_of(index: &Index, position: usize) -> i64 {
    let order = index.details.orders.get(position).map(String::as_str).unwrap_or_default();
    let descends = order.contains("DESC");
    let nulls_first = if descends { !order.contains("NULLS LAST") } else { order.contains("NULLS FIRST") };
    i64::from(descends) + 2 * i64::from(nulls_first)
}

/// Returns the OID of the default of a column.
pub(super) fn default_oid(table: &Table, position: usize) -> i64 {
    6_000_000 + table_oid(table) * 100 + position as i64
}

impl Schema {
    /// Returns a relation of `pg_catalog` about relations; `None` for any other name.
    pub(super) fn relations_catalog(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "pg_class" => self.pg_class(),
            "pg_attribute" => self.pg_attribute(),
            "pg_attrdef" => self.pg_attrdef(),
            "pg_index" => self.pg_index(),
            "pg_constraint" => self.pg_constraint(),
            "pg_sequence" => self.pg_sequence(),
            "pg_tables" => self.pg_tables(),
            "pg_views" => self.pg_views(),
            "pg_indexes" => self.pg_indexes(),
            "pg_inherits" => self.pg_inherits(),
            "pg_partitioned_table" => self.pg_partitioned_table(),
            _ => return None,
        })
    }

    fn pg_class(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("relname", TEXT),
            ("relnamespace", INT),
            ("relkind", TEXT),
            ("relowner", INT),
            ("relam", INT),
            ("relpersistence", TEXT),
            ("relhasindex", BOOL),
            ("relchecks", INT),
            ("relnatts", INT),
            ("reltuples", Type::Scalar(ScalarType::Double)),
            ("relpages", INT),
            ("relhasrules", BOOL),
            ("relhastriggers", BOOL),
            ("relrowsecurity", BOOL),
            ("relforcerowsecurity", BOOL),
            ("relispartition", BOOL),
            ("reltablespace", INT),
            ("reloftype", INT),
            ("reltoastrelid", INT),
            ("relreplident", TEXT),
            ("relpartbound", TEXT),
            ("reltype", INT),
            ("relfilenode", INT),
            ("relisshared", BOOL),
            ("relhassubclass", BOOL),
            ("relispopulated", BOOL),
            ("relacl", TEXTS),
            ("reloptions", TEXTS),
        ];
        let mut rows = Vec::new();
        let mut add =
            |oid: i64, name: &str, kind: &str, columns: usize, checks: usize, keys: bool, am: i64| {
                let table = self.shown_table(name).filter(|_| "rp".contains(kind));
                let has_index =
                    table.is_some_and(|table| table.indexes.len() > usize::from(table.hidden_key));
                let namespace = self.namespace_oid(name);
                rows.push(vec![
                    oid.into(),
                    short(name).into(),
                    namespace.into(),
                    kind.into(),
                    self.owner_cell(&Subject::Relation(name.into())),
                    am.into(),
                    if crate::session_schema::is_temporary_name(name) { "t" } else { "p" }.into(),
                    has_index.into(),
                    (checks as i64).into(),
                    (columns as i64).into(),
                    Cell::Int(-1),
                    0.into(),
                    (kind == "v").into(),
                    keys.into(),
                    false.into(),
                    false.into(),
                    (self.is_partition(name) || self.is_index_of_partition(name)).into(),
                    0.into(),
                    0.into(),
                    0.into(),
                    "d".into(),
                    self.bound_text(name).map_or(Cell::Null, Cell::Text),
                    0.into(),
                    oid.into(),
                    false.into(),
                    self.is_partitioned(name).into(),
                    true.into(),
                    self.acl_cell(&Subject::Relation(name.into())),
                    self.view(name)
                        .filter(|_| kind == "v")
                        .and_then(|view| view.options())
                        .map_or(Cell::Null, Cell::Texts),
                ]);
            };
        for table in self.shown_tables() {
            let is_partitioned = self.is_partitioned(&table.name);
            let kind = if table.sequence.is_some() {
                "S"
            } else if is_partitioned {
                "p"
            } else {
                "r"
            };
            let keys = self.has_triggers(table);
            let am = if kind == "r" { 2 } else { 0 };
            let columns = if kind == "S" { OF_SEQUENCE.len() } else { table.visible().len() };
            add(table_oid(table), &table.name, kind, columns, table.checks.len(), keys, am);
            for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                let kind = if is_partitioned { "I" } else { "i" };
                add(index_oid(index), &index.name, kind, index.columns.len(), 0, false, 403);
            }
        }
        for view in self.views() {
            add(self.view_oid(view), &view.name, "v", self.view_columns(view).len(), 0, false, 0);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_attribute(&self) -> SystemRelation {
        let columns = [
            ("attrelid", INT),
            ("attname", TEXT),
            ("atttypid", INT),
            ("atttypmod", INT),
            ("attnum", INT),
            ("attlen", INT),
            ("attnotnull", BOOL),
            ("atthasdef", BOOL),
            ("attisdropped", BOOL),
            ("attidentity", TEXT),
            ("attgenerated", TEXT),
            ("attcollation", INT),
            ("attndims", INT),
            ("attislocal", BOOL),
            ("attstattarget", INT),
            ("attstorage", TEXT),
            ("attcompression", TEXT),
            ("attfdwoptions", TEXTS),
            ("attoptions", TEXTS),
            ("attacl", TEXTS),
            ("atthasmissing", BOOL),
        ];
        let mut rows = Vec::new();
        let mut add = |(relation, owner): (i64, &str),
                       position: usize,
                       name: &str,
                       ty: Type,
                       (not_null, has_default, dimensions): (bool, bool, i64),
                       identity: &str,
                       generated: &str| {
            let scalar = ty.element();
            let oid = type_oid(ty);
            let length = TYPES.iter().find(|known| known.0 == oid).map_or(-1, |known| i64::from(known.3));
            let collation = if scalar.is_text() { 100 } else { 0 };
            let is_enumeration = matches!(ty, Type::Scalar(scalar) if scalar.enumeration().is_some());
            let (storage, _) = storage_of(oid);
            let domain = self.domain_of_column(owner, name);
            rows.push(vec![
                relation.into(),
                name.into(),
                domain.map_or(oid, |domain| domain.oid.into()).into(),
                Cell::Int(domain.map_or(type_modifier(scalar).into(), |_| -1)),
                (position as i64 + 1).into(),
                length.into(),
                not_null.into(),
                has_default.into(),
                false.into(),
                identity.into(),
                generated.into(),
                collation.into(),
                dimensions.into(),
                true.into(),
                Cell::Int(-1),
                if is_enumeration { "p" } else { storage }.into(),
                "".into(),
                Cell::Null,
                Cell::Null,
                self.acl_cell(&Subject::Column(owner.into(), name.into())),
                false.into(),
            ]);
        };
        for table in self.shown_tables() {
            if table.sequence.is_some() {
                for (position, (name, ty)) in OF_SEQUENCE.into_iter().enumerate() {
                    add((table_oid(table), &table.name), position, name, ty.into(), (true, false, 0), "", "");
                }
                continue;
            }
            for (position, column) in table.visible().iter().enumerate() {
                let identity = match column.identity {
                    None => "",
                    Some(Identity::Always) => "a",
                    Some(Identity::ByDefault) => "d",
                };
                let has_default = column.default.is_some() && identity.is_empty();
                add(
                    (table_oid(table), &table.name),
                    position,
                    &column.name,
                    column.ty,
                    (!column.nullable, has_default, i64::from(column.ty.is_array())),
                    identity,
                    if column.generated { "s" } else { "" },
                );
            }
            for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                for (position, column) in index.columns.iter().enumerate() {
                    let (name, ty) = (index_column_name(table, *column), table.columns[*column].ty);
                    let dimensions = i64::from(ty.is_array());
                    add(
                        (index_oid(index), &index.name),
                        position,
                        &name,
                        ty,
                        (false, false, dimensions),
                        "",
                        "",
                    );
                }
            }
        }
        for view in self.views() {
            for (position, (name, ty)) in self.view_columns(view).into_iter().enumerate() {
                add((self.view_oid(view), &view.name), position, &name, ty, (false, false, 0), "", "");
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_attrdef(&self) -> SystemRelation {
        let columns = [("oid", INT), ("adrelid", INT), ("adnum", INT), ("adbin", TEXT)];
        let mut rows = Vec::new();
        for table in self.shown_tables() {
            for (position, column) in table.visible().iter().enumerate() {
                if let Some(default) = column.default.as_ref().filter(|_| column.identity.is_none()) {
                    let text = self.named(&self.shown_default(default, column.ty), false);
                    let write = |is_qualified: bool| {
                        let form = text.form(is_qualified);
                        match form.strip_prefix("nextval('").and_then(|form| form.strip_suffix("')")) {
                            Some(sequence) => format!("nextval('{sequence}'::regclass)"),
                            None => form,
                        }
                    };
                    rows.push(vec![
                        default_oid(table, position).into(),
                        table_oid(table).into(),
                        (position as i64 + 1).into(),
                        Cell::Named(Named::of(write)),
                    ]);
                }
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_index(&self) -> SystemRelation {
        let columns = [
            ("indexrelid", INT),
            ("indrelid", INT),
            ("indnatts", INT),
            ("indnkeyatts", INT),
            ("indisunique", BOOL),
            ("indnullsnotdistinct", BOOL),
            ("indisprimary", BOOL),
            ("indisexclusion", BOOL),
            ("indisclustered", BOOL),
            ("indisvalid", BOOL),
            ("indisready", BOOL),
            ("indislive", BOOL),
            ("indisreplident", BOOL),
            ("indimmediate", BOOL),
            ("indkey", INTS),
            ("indoption", INTS),
            ("indexprs", TEXT),
            ("indpred", TEXT),
        ];
        let mut rows = Vec::new();
        for table in self.shown_tables() {
            for (index_position, index) in
                table.indexes.iter().enumerate().skip(usize::from(table.hidden_key))
            {
                let count = index.columns.len() as i64;
                rows.push(vec![
                    index_oid(index).into(),
                    table_oid(table).into(),
                    (count + index.details.included.len() as i64).into(),
                    count.into(),
                    index.is_key().into(),
                    index.rules.nulls_equal.into(),
                    table.is_primary_key(index_position).into(),
                    false.into(),
                    false.into(),
                    true.into(),
                    true.into(),
                    true.into(),
                    false.into(),
                    (!index.is_deferrable()).into(),
                    index_positions(table, index),
                    Cell::Ints((0..index.columns.len()).map(|position| option_of(index, position)).collect()),
                    index_expressions(table, index)
                        .map_or(Cell::Null, |text| self.named(&text, false).into()),
                    index
                        .details
                        .condition
                        .as_ref()
                        .map_or(Cell::Null, |text| self.named(&in_parentheses(text.clone()), false).into()),
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_constraint(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("conname", TEXT),
            ("connamespace", INT),
            ("contype", TEXT),
            ("condeferrable", BOOL),
            ("condeferred", BOOL),
            ("convalidated", BOOL),
            ("conrelid", INT),
            ("conindid", INT),
            ("conparentid", INT),
            ("confrelid", INT),
            ("confupdtype", TEXT),
            ("confdeltype", TEXT),
            ("confmatchtype", TEXT),
            ("conkey", SMALL_INTS),
            ("confkey", SMALL_INTS),
            ("contypid", INT),
            ("conislocal", BOOL),
            ("connoinherit", BOOL),
            ("conbin", TEXT),
        ];
        let mut rows = Vec::new();
        for constraint in self.constraints() {
            let (parent, keys, [update, delete]) = match &constraint.parent {
                Some((parent, columns, actions)) => {
                    (*parent, positions(columns), actions.map(|action| Cell::from(action_code(action))))
                }
                None => (0, Cell::Null, [" ".into(), " ".into()]),
            };
            rows.push(vec![
                constraint.oid.into(),
                constraint.name.into(),
                self.namespace_oid(&constraint.table.name).into(),
                constraint.kind.into(),
                (constraint.deferral != Deferral::Never).into(),
                (constraint.deferral == Deferral::Deferred).into(),
                true.into(),
                table_oid(constraint.table).into(),
                constraint.index.into(),
                0.into(),
                parent.into(),
                update,
                delete,
                "s".into(),
                positions(&constraint.columns),
                keys,
                0.into(),
                true.into(),
                false.into(),
                Cell::Null,
            ]);
        }
        rows.extend(self.domain_constraint_rows(&columns));
        SystemRelation::new(&columns, rows)
    }

    fn pg_sequence(&self) -> SystemRelation {
        let columns = [
            ("seqrelid", INT),
            ("seqtypid", INT),
            ("seqstart", Type::Scalar(ScalarType::BigInt)),
            ("seqincrement", Type::Scalar(ScalarType::BigInt)),
            ("seqmax", Type::Scalar(ScalarType::BigInt)),
            ("seqmin", Type::Scalar(ScalarType::BigInt)),
            ("seqcache", Type::Scalar(ScalarType::BigInt)),
            ("seqcycle", BOOL),
        ];
        let mut rows = Vec::new();
        for table in self.shown_tables() {
            let Some(sequence) = &table.sequence else { continue };
            rows.push(vec![
                table_oid(table).into(),
                type_oid(sequence.ty.into()).into(),
                sequence.start.into(),
                sequence.increment.into(),
                sequence.greatest.into(),
                sequence.least.into(),
                1.into(),
                sequence.cycles.into(),
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    /// Returns whether a table has triggers. As in PostgreSQL, a foreign key has some on both of its tables.
    fn has_triggers(&self, table: &Table) -> bool {
        !table.foreign_keys.is_empty()
            || !table.triggers.is_empty()
            || self.catalog().references_to(&table.name).next().is_some()
    }

    fn pg_tables(&self) -> SystemRelation {
        let columns = [
            ("schemaname", TEXT),
            ("tablename", TEXT),
            ("tableowner", TEXT),
            ("tablespace", TEXT),
            ("hasindexes", BOOL),
            ("hasrules", BOOL),
            ("hastriggers", BOOL),
            ("rowsecurity", BOOL),
        ];
        let mut rows = Vec::new();
        for table in self.shown_tables().filter(|table| table.sequence.is_none()) {
            rows.push(vec![
                self.namespace_of(&table.name).into(),
                table.short_name().into(),
                self.owner_name(&table.name),
                Cell::Null,
                (table.indexes.len() > usize::from(table.hidden_key)).into(),
                false.into(),
                self.has_triggers(table).into(),
                false.into(),
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_views(&self) -> SystemRelation {
        let columns = [("schemaname", TEXT), ("viewname", TEXT), ("viewowner", TEXT), ("definition", TEXT)];
        let mut rows = Vec::new();
        for view in self.views() {
            let (schema, name) = (self.namespace_of(&view.name), short(&view.name));
            rows.push(vec![
                schema.into(),
                name.into(),
                self.owner_name(&view.name),
                format!("{};", view.query.trim()).into(),
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_indexes(&self) -> SystemRelation {
        let columns = [
            ("schemaname", TEXT),
            ("tablename", TEXT),
            ("indexname", TEXT),
            ("tablespace", TEXT),
            ("indexdef", TEXT),
        ];
        let mut rows = Vec::new();
        let definitions = self.index_definitions();
        for table in self.shown_tables() {
            for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                let definition = definitions.iter().find(|(oid, _)| *oid == index_oid(index));
                let definition = definition.map_or(Cell::Null, |(_, text)| text.clone().into());
                let schema = self.namespace_of(&table.name);
                rows.push(vec![
                    schema.into(),
                    table.short_name().into(),
                    short(&index.name).into(),
                    Cell::Null,
                    definition,
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }
}
