//! The system catalogs: `pg_catalog` and `information_schema`, as relations that follow from the definitions.
//! Source: PostgreSQL 15's documentation of the system catalogs. Columns that nobody asked for yet are left out.
//!
//! Each is a list of rows, made where a query names it. Numbers of objects (OIDs) follow from the numbers of the catalog, so they
//! stay as long as the object does.

use crate::schema::{Schema, View};
use catalog::{Identity, ReferenceAction, ScalarType, Table, Type};
use procedure::{Mode, Procedure};
use std::sync::Arc;

/// A value of a system relation.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
}

/// A system relation: its columns, and its rows.
pub(crate) struct SystemRelation {
    pub(crate) columns: Vec<(&'static str, Type)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// Who owns everything, as there are no roles yet.
pub(crate) const OWNER: &str = "postgres";
const PUBLIC: i64 = 2200;
const SYSTEM: i64 = 11;
const INFORMATION: i64 = 13_000;

const BOOL: Type = Type::Scalar(ScalarType::Boolean);
const INT: Type = Type::Scalar(ScalarType::Integer);
const TEXT: Type = Type::Scalar(ScalarType::Text);
const INTS: Type = Type::Array(ScalarType::Integer);
const TEXTS: Type = Type::Array(ScalarType::Text);

/// A type's OID, and that of an array of it.
pub fn type_oids(scalar: ScalarType) -> (u32, u32) {
    match scalar {
        ScalarType::SmallInt => (21, 1005),
        ScalarType::Integer => (23, 1007),
        ScalarType::BigInt => (20, 1016),
        ScalarType::Numeric { .. } | ScalarType::AnyNumeric => (1700, 1231),
        ScalarType::Double => (701, 1022),
        ScalarType::Boolean => (16, 1000),
        ScalarType::Char(_) => (1042, 1014),
        ScalarType::Varchar(_) => (1043, 1015),
        ScalarType::Text => (25, 1009),
        ScalarType::Timestamp => (1114, 1115),
        ScalarType::Timestamptz => (1184, 1185),
        ScalarType::Date => (1082, 1182),
        ScalarType::Bytea => (17, 1001),
        ScalarType::Uuid => (2950, 2951),
    }
}

/// A type's modifier; -1 where it has none.
pub fn type_modifier(scalar: ScalarType) -> i32 {
    match scalar {
        ScalarType::Numeric { precision, scale } => (i32::from(precision) << 16 | i32::from(scale)) + 4,
        ScalarType::Char(limit) | ScalarType::Varchar(limit) => i32::try_from(limit).unwrap_or(-5) + 4,
        _ => -1,
    }
}

/// Bytes of a type's values; -1 where they vary.
pub fn type_length(scalar: ScalarType) -> i16 {
    let oid = i64::from(type_oids(scalar).0);
    TYPES.iter().find(|own| own.0 == oid).map_or(-1, |own| own.3)
}

/// All types: OID, name as the catalogs have it, name as SQL has it, bytes of a value, category.
pub(crate) const TYPES: [(i64, &str, &str, i16, &str); 14] = [
    (16, "bool", "boolean", 1, "B"),
    (17, "bytea", "bytea", -1, "U"),
    (20, "int8", "bigint", 8, "N"),
    (21, "int2", "smallint", 2, "N"),
    (23, "int4", "integer", 4, "N"),
    (25, "text", "text", -1, "S"),
    (701, "float8", "double precision", 8, "N"),
    (1042, "bpchar", "character", -1, "S"),
    (1043, "varchar", "character varying", -1, "S"),
    (1082, "date", "date", 4, "D"),
    (1114, "timestamp", "timestamp without time zone", 8, "D"),
    (1184, "timestamptz", "timestamp with time zone", 8, "D"),
    (1700, "numeric", "numeric", -1, "N"),
    (2950, "uuid", "uuid", 16, "U"),
];

fn type_oid(ty: Type) -> i64 {
    let (own, array) = type_oids(ty.element());
    i64::from(if matches!(ty, Type::Array(_)) { array } else { own })
}

fn table_oid(table: &Table) -> i64 {
    16_384 + i64::from(table.id.0)
}

fn index_oid(index: &catalog::Index) -> i64 {
    1_000_000 + i64::from(index.id.0)
}

fn routine_oid(procedure: &Procedure) -> i64 {
    3_000_000 + i64::from(procedure.id.0)
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// A name as SQL has it, in quotes where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.into() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

fn columns_of(table: &Table, columns: &[usize]) -> String {
    columns.iter().map(|column| quoted(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
}

fn places(columns: &[usize]) -> Cell {
    Cell::Ints(columns.iter().map(|column| *column as i64 + 1).collect())
}

/// A constraint, as `pg_constraint` has it.
pub(crate) struct Constraint<'a> {
    pub(crate) oid: i64,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) table: &'a Arc<Table>,
    pub(crate) definition: String,
    index: i64,
    columns: Vec<usize>,
    parent: Option<(i64, Vec<usize>, [ReferenceAction; 2])>,
}

fn action_word(action: ReferenceAction) -> Option<&'static str> {
    match action {
        ReferenceAction::Refuse => None,
        ReferenceAction::Cascade => Some("CASCADE"),
        ReferenceAction::SetNull => Some("SET NULL"),
        ReferenceAction::SetDefault => Some("SET DEFAULT"),
    }
}

fn action_code(action: ReferenceAction) -> &'static str {
    match action {
        ReferenceAction::Refuse => "a",
        ReferenceAction::Cascade => "c",
        ReferenceAction::SetNull => "n",
        ReferenceAction::SetDefault => "d",
    }
}

impl Schema {
    fn namespace_oid(&self, name: &str) -> i64 {
        let Some((schema, _)) = name.rsplit_once('.') else { return PUBLIC };
        let place = self.namespaces().position(|own| own == schema).unwrap_or(0);
        5_000_000 + place as i64
    }

    fn namespace_of<'a>(&self, name: &'a str) -> &'a str {
        name.rsplit_once('.').map_or("public", |(schema, _)| schema)
    }

    fn view_oid(&self, view: &View) -> i64 {
        2_000_000 + self.views().position(|own| own.name == view.name).unwrap_or(0) as i64
    }

    /// Relations by OID, with their names as SQL has them.
    pub(crate) fn relation_names(&self) -> Vec<(i64, String)> {
        let tables = self.catalog().tables().map(|own| (table_oid(own), quoted_path(&own.name)));
        let indexes = self.catalog().tables().flat_map(|table| {
            let visible = table.indexes.iter().skip(usize::from(table.hidden_key));
            visible.map(|index| (index_oid(index), quoted_path(&index.name)))
        });
        let views = self.views().map(|own| (self.view_oid(own), quoted_path(&own.name)));
        tables.chain(indexes).chain(views).collect()
    }

    /// What CREATE INDEX would say.
    pub(crate) fn index_definitions(&self) -> Vec<(i64, String)> {
        let of = |table: &Arc<Table>| {
            let visible = table.indexes.iter().skip(usize::from(table.hidden_key));
            let define = |index: &catalog::Index| {
                let unique = if index.unique { "UNIQUE " } else { "" };
                let columns = columns_of(table, &index.columns);
                let (name, on) = (
                    quoted(short(&index.name)),
                    quoted_path(&format!("{}.{}", self.namespace_of(&table.name), table.short_name())),
                );
                (index_oid(index), format!("CREATE {unique}INDEX {name} ON {on} USING btree ({columns})"))
            };
            visible.map(define).collect::<Vec<_>>()
        };
        self.catalog().tables().flat_map(of).collect()
    }

    /// The columns of indexes, by their indexes' numbers and their places from 1 on.
    pub(crate) fn index_columns(&self) -> impl Iterator<Item = ((i64, i64), String)> {
        let indexes = self.catalog().tables().flat_map(|table| {
            table.indexes.iter().skip(usize::from(table.hidden_key)).map(move |index| (table, index))
        });
        indexes.flat_map(|(table, index)| {
            let column = |(place, column): (usize, &usize)| {
                ((index_oid(index), place as i64 + 1), quoted(&table.columns[*column].name))
            };
            index.columns.iter().enumerate().map(column).collect::<Vec<_>>()
        })
    }

    pub(crate) fn constraints(&self) -> Vec<Constraint<'_>> {
        let mut all = Vec::new();
        for table in self.catalog().tables() {
            let base = 4_000_000 + i64::from(table.id.0) * 1_000;
            for index in table.indexes.iter().filter(|index| index.is_constraint) {
                let is_primary = index.id == table.primary().id && !table.hidden_key;
                let word = if is_primary { "PRIMARY KEY" } else { "UNIQUE" };
                all.push(Constraint {
                    oid: base + all.len() as i64 % 1_000,
                    name: short(&index.name),
                    kind: if is_primary { "p" } else { "u" },
                    table,
                    definition: format!("{word} ({})", columns_of(table, &index.columns)),
                    index: index_oid(index),
                    columns: index.columns.clone(),
                    parent: None,
                });
            }
            for (name, text) in &table.checks {
                all.push(Constraint {
                    oid: base + all.len() as i64 % 1_000,
                    name,
                    kind: "c",
                    table,
                    definition: format!("CHECK ({text})"),
                    index: 0,
                    columns: Vec::new(),
                    parent: None,
                });
            }
            for key in &table.foreign_keys {
                let Ok(parent) = self.catalog().table(&key.parent) else { continue };
                let mut definition = format!(
                    "FOREIGN KEY ({}) REFERENCES {}({})",
                    columns_of(table, &key.columns),
                    quoted_path(&parent.name),
                    columns_of(parent, &key.parent_columns)
                );
                for (event, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
                    if let Some(word) = action_word(action) {
                        definition += &format!(" ON {event} {word}");
                    }
                }
                let actions = [key.on_update, key.on_delete];
                let index = parent.unique_index_of(&key.parent_columns);
                all.push(Constraint {
                    oid: base + all.len() as i64 % 1_000,
                    name: &key.name,
                    kind: "f",
                    table,
                    definition,
                    index: index.map_or(0, |place| index_oid(&parent.indexes[place])),
                    columns: key.columns.clone(),
                    parent: Some((table_oid(parent), key.parent_columns.clone(), actions)),
                });
            }
        }
        all
    }

    /// What a routine returns, and what it takes.
    pub(crate) fn routine_texts(&self) -> Vec<(i64, String, String)> {
        let texts = |own: &Arc<Procedure>| {
            let arguments = own.parameters.iter().map(|parameter| {
                let mode = match parameter.mode {
                    Mode::In if own.result.is_none() => "IN ",
                    Mode::In => "",
                    Mode::Out => "OUT ",
                    Mode::InOut => "INOUT ",
                };
                let name =
                    if parameter.name.is_empty() { String::new() } else { quoted(&parameter.name) + " " };
                let ty = match parameter.ty {
                    Type::Scalar(scalar) => Type::Scalar(scalar.unlimited()),
                    Type::Array(scalar) => Type::Array(scalar.unlimited()),
                };
                format!("{mode}{name}{ty}")
            });
            let result = own.result.map(|(_, ty)| ty.to_string()).unwrap_or_default();
            (routine_oid(own), result, arguments.collect::<Vec<_>>().join(", "))
        };
        self.procedures().map(texts).collect()
    }

    pub(crate) fn view_definitions(&self) -> Vec<(i64, String)> {
        self.views().map(|own| (self.view_oid(own), format!("{};", own.query.trim()))).collect()
    }

    pub(crate) fn namespace_names(&self) -> Vec<(i64, String)> {
        let own =
            self.namespaces().enumerate().map(|(place, name)| (5_000_000 + place as i64, name.to_owned()));
        let system = [(SYSTEM, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")];
        system.into_iter().map(|(oid, name)| (oid, name.to_owned())).chain(own).collect()
    }

    /// The number of a relation by name, as a literal of type `regclass` has it.
    pub(crate) fn relation_oid(&self, name: &str) -> Option<i64> {
        let plain = name.strip_prefix("public.").unwrap_or(name);
        let own =
            self.relation_names().into_iter().find(|(_, own)| own == plain || own.replace('"', "") == plain);
        own.map(|(oid, _)| oid)
    }

    /// A system relation by name; the schema may be left out of those of `pg_catalog`.
    pub(crate) fn system_relation(&self, name: &str) -> Option<SystemRelation> {
        match name.strip_prefix("information_schema.") {
            Some(name) => self.information(name),
            None => self.system_catalog(name.strip_prefix("pg_catalog.").unwrap_or(name)),
        }
    }

    fn system_catalog(&self, name: &str) -> Option<SystemRelation> {
        let columns: &[(&'static str, Type)];
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        let tables = || self.catalog().tables();
        match name {
            "pg_namespace" => {
                columns = &[("oid", INT), ("nspname", TEXT), ("nspowner", INT), ("nspacl", TEXTS)];
                for (oid, name) in self.namespace_names() {
                    rows.push(vec![oid.into(), name.into(), 10.into(), Cell::Null]);
                }
            }
            "pg_class" => {
                columns = &[
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
                let mut add =
                    |oid: i64, name: &str, kind: &str, columns: usize, checks: usize, keys: bool, am: i64| {
                        let namespace = self.namespace_oid(name);
                        rows.push(vec![
                            oid.into(),
                            short(name).into(),
                            namespace.into(),
                            kind.into(),
                            10.into(),
                            am.into(),
                            "p".into(),
                            (kind == "r").into(),
                            (checks as i64).into(),
                            (columns as i64).into(),
                            Cell::Int(-1),
                            0.into(),
                            (kind == "v").into(),
                            keys.into(),
                            false.into(),
                            false.into(),
                            false.into(),
                            0.into(),
                            0.into(),
                            0.into(),
                            "d".into(),
                            Cell::Null,
                            0.into(),
                            oid.into(),
                            false.into(),
                            false.into(),
                            true.into(),
                            Cell::Null,
                            Cell::Null,
                        ]);
                    };
                for table in tables() {
                    let kind = if table.sequence.is_some() { "S" } else { "r" };
                    let keys = !table.foreign_keys.is_empty()
                        || self.catalog().references_to(&table.name).next().is_some();
                    let am = if kind == "r" { 2 } else { 0 };
                    add(
                        table_oid(table),
                        &table.name,
                        kind,
                        table.visible().len(),
                        table.checks.len(),
                        keys,
                        am,
                    );
                    for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                        add(index_oid(index), &index.name, "i", index.columns.len(), 0, false, 403);
                    }
                }
                for view in self.views() {
                    add(self.view_oid(view), &view.name, "v", self.view_columns(view).len(), 0, false, 0);
                }
            }
            "pg_attribute" => {
                columns = &[
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
                let mut add = |relation: i64,
                               place: usize,
                               name: &str,
                               ty: Type,
                               not_null: bool,
                               has_default: bool,
                               identity: &str| {
                    let scalar = ty.element();
                    let oid = type_oid(ty);
                    let length = TYPES.iter().find(|own| own.0 == oid).map_or(-1, |own| i64::from(own.3));
                    let collation = if scalar.is_text() { 100 } else { 0 };
                    rows.push(vec![
                        relation.into(),
                        name.into(),
                        oid.into(),
                        i64::from(type_modifier(scalar)).into(),
                        (place as i64 + 1).into(),
                        length.into(),
                        not_null.into(),
                        has_default.into(),
                        false.into(),
                        identity.into(),
                        "".into(),
                        collation.into(),
                        0.into(),
                        true.into(),
                        Cell::Int(-1),
                        "p".into(),
                        "".into(),
                        Cell::Null,
                        Cell::Null,
                        Cell::Null,
                        false.into(),
                    ]);
                };
                for table in tables() {
                    for (place, column) in table.visible().iter().enumerate() {
                        let identity = match column.identity {
                            None => "",
                            Some(Identity::Always) => "a",
                            Some(Identity::ByDefault) => "d",
                        };
                        let has_default = column.default.is_some() && identity.is_empty();
                        add(
                            table_oid(table),
                            place,
                            &column.name,
                            column.ty.into(),
                            !column.nullable,
                            has_default,
                            identity,
                        );
                    }
                    for index in table.indexes.iter().skip(usize::from(table.hidden_key)) {
                        for (place, column) in index.columns.iter().enumerate() {
                            let column = &table.columns[*column];
                            add(index_oid(index), place, &column.name, column.ty.into(), false, false, "");
                        }
                    }
                }
                for view in self.views() {
                    for (place, (name, ty)) in self.view_columns(view).into_iter().enumerate() {
                        add(self.view_oid(view), place, &name, ty, false, false, "");
                    }
                }
            }
            "pg_attrdef" => {
                columns = &[("oid", INT), ("adrelid", INT), ("adnum", INT), ("adbin", TEXT)];
                for table in tables() {
                    for (place, column) in table.visible().iter().enumerate() {
                        if let Some(default) = column.default.as_ref().filter(|_| column.identity.is_none()) {
                            let text = match default
                                .strip_prefix("nextval('")
                                .and_then(|own| own.strip_suffix("')"))
                            {
                                Some(sequence) => format!("nextval('{sequence}'::regclass)"),
                                None => default.clone(),
                            };
                            let oid = 6_000_000 + table_oid(table) * 100 + place as i64;
                            rows.push(vec![
                                oid.into(),
                                table_oid(table).into(),
                                (place as i64 + 1).into(),
                                text.into(),
                            ]);
                        }
                    }
                }
            }
            "pg_index" => {
                columns = &[
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
                for table in tables() {
                    for (place, index) in table.indexes.iter().enumerate().skip(usize::from(table.hidden_key))
                    {
                        let count = index.columns.len() as i64;
                        rows.push(vec![
                            index_oid(index).into(),
                            table_oid(table).into(),
                            count.into(),
                            count.into(),
                            index.unique.into(),
                            false.into(),
                            (place == 0).into(),
                            false.into(),
                            false.into(),
                            true.into(),
                            true.into(),
                            true.into(),
                            false.into(),
                            true.into(),
                            places(&index.columns),
                            Cell::Ints(vec![0; index.columns.len()]),
                            Cell::Null,
                            Cell::Null,
                        ]);
                    }
                }
            }
            "pg_constraint" => {
                columns = &[
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
                    ("conkey", INTS),
                    ("confkey", INTS),
                    ("contypid", INT),
                    ("conislocal", BOOL),
                    ("connoinherit", BOOL),
                    ("conbin", TEXT),
                ];
                for own in self.constraints() {
                    let (parent, keys, [update, delete]) = match &own.parent {
                        Some((parent, columns, actions)) => {
                            (*parent, places(columns), actions.map(|action| Cell::from(action_code(action))))
                        }
                        None => (0, Cell::Null, [" ".into(), " ".into()]),
                    };
                    rows.push(vec![
                        own.oid.into(),
                        own.name.into(),
                        self.namespace_oid(&own.table.name).into(),
                        own.kind.into(),
                        false.into(),
                        false.into(),
                        true.into(),
                        table_oid(own.table).into(),
                        own.index.into(),
                        0.into(),
                        parent.into(),
                        update,
                        delete,
                        "s".into(),
                        places(&own.columns),
                        keys,
                        0.into(),
                        true.into(),
                        false.into(),
                        Cell::Null,
                    ]);
                }
            }
            "pg_type" => {
                columns = &[
                    ("oid", INT),
                    ("typname", TEXT),
                    ("typnamespace", INT),
                    ("typlen", INT),
                    ("typtype", TEXT),
                    ("typcategory", TEXT),
                    ("typelem", INT),
                    ("typarray", INT),
                    ("typrelid", INT),
                    ("typbasetype", INT),
                    ("typtypmod", INT),
                    ("typnotnull", BOOL),
                    ("typcollation", INT),
                    ("typdelim", TEXT),
                    ("typinput", TEXT),
                    ("typowner", INT),
                    ("typisdefined", BOOL),
                    ("typdefault", TEXT),
                ];
                let mut add =
                    |oid: i64, name: String, length: i64, category: &str, element: i64, array: i64| {
                        let collation = if category == "S" { 100 } else { 0 };
                        rows.push(vec![
                            oid.into(),
                            name.into(),
                            SYSTEM.into(),
                            length.into(),
                            "b".into(),
                            category.into(),
                            element.into(),
                            array.into(),
                            0.into(),
                            0.into(),
                            Cell::Int(-1),
                            false.into(),
                            collation.into(),
                            ",".into(),
                            "".into(),
                            10.into(),
                            true.into(),
                            Cell::Null,
                        ]);
                    };
                let all = [
                    ScalarType::SmallInt,
                    ScalarType::Integer,
                    ScalarType::BigInt,
                    ScalarType::AnyNumeric,
                    ScalarType::Double,
                    ScalarType::Boolean,
                    ScalarType::Char(1),
                    ScalarType::Varchar(1),
                    ScalarType::Text,
                    ScalarType::Timestamp,
                    ScalarType::Timestamptz,
                    ScalarType::Date,
                    ScalarType::Bytea,
                    ScalarType::Uuid,
                ];
                for scalar in all {
                    let (own, array) = type_oids(scalar);
                    let Some((oid, name, _, length, category)) =
                        TYPES.iter().find(|ty| ty.0 == i64::from(own))
                    else {
                        continue;
                    };
                    add(*oid, (*name).into(), i64::from(*length), category, 0, array.into());
                    add(array.into(), format!("_{name}"), -1, "A", *oid, 0);
                }
            }
            "pg_proc" => {
                columns = &[
                    ("oid", INT),
                    ("proname", TEXT),
                    ("pronamespace", INT),
                    ("proowner", INT),
                    ("prolang", INT),
                    ("prokind", TEXT),
                    ("prosecdef", BOOL),
                    ("proisstrict", BOOL),
                    ("proretset", BOOL),
                    ("provolatile", TEXT),
                    ("proparallel", TEXT),
                    ("pronargs", INT),
                    ("pronargdefaults", INT),
                    ("prorettype", INT),
                    ("proargtypes", INTS),
                    ("proallargtypes", INTS),
                    ("proargnames", TEXTS),
                    ("proargmodes", TEXTS),
                    ("prosrc", TEXT),
                    ("proacl", TEXTS),
                ];
                for own in self.procedures() {
                    let kind = if own.result.is_some() { "f" } else { "p" };
                    let types: Vec<i64> = own.inputs().map(|(_, parameter)| type_oid(parameter.ty)).collect();
                    let defaults = own.parameters.iter().filter(|own| own.default.is_some()).count() as i64;
                    rows.push(vec![
                        routine_oid(own).into(),
                        own.name.as_str().into(),
                        PUBLIC.into(),
                        10.into(),
                        13_500.into(),
                        kind.into(),
                        false.into(),
                        false.into(),
                        false.into(),
                        "v".into(),
                        "u".into(),
                        (types.len() as i64).into(),
                        defaults.into(),
                        own.result.map_or(2278, |(_, ty)| type_oid(ty)).into(),
                        Cell::Ints(types),
                        Cell::Null,
                        Cell::Null,
                        Cell::Null,
                        own.source.to_string().into(),
                        Cell::Null,
                    ]);
                }
            }
            "pg_language" => {
                columns = &[("oid", INT), ("lanname", TEXT), ("lanpltrusted", BOOL)];
                rows.push(vec![13_500.into(), "plpgsql".into(), true.into()]);
            }
            "pg_settings" => {
                columns = &[("name", TEXT), ("setting", TEXT), ("context", TEXT), ("vartype", TEXT)];
                let known =
                    [("max_identifier_length", "63"), ("max_index_keys", "32"), ("block_size", "8192")];
                for (name, setting) in known {
                    rows.push(vec![name.into(), setting.into(), "internal".into(), "integer".into()]);
                }
            }
            "pg_am" => {
                columns = &[("oid", INT), ("amname", TEXT), ("amtype", TEXT)];
                rows.push(vec![2.into(), "heap".into(), "t".into()]);
                rows.push(vec![403.into(), "btree".into(), "i".into()]);
            }
            "pg_collation" => {
                columns = &[("oid", INT), ("collname", TEXT), ("collnamespace", INT), ("collprovider", TEXT)];
                rows.push(vec![100.into(), "default".into(), SYSTEM.into(), "d".into()]);
            }
            "pg_database" => {
                columns = &[
                    ("oid", INT),
                    ("datname", TEXT),
                    ("datdba", INT),
                    ("encoding", INT),
                    ("datlocprovider", TEXT),
                    ("datistemplate", BOOL),
                    ("datallowconn", BOOL),
                    ("datconnlimit", INT),
                    ("dattablespace", INT),
                    ("datcollate", TEXT),
                    ("datctype", TEXT),
                    ("daticulocale", TEXT),
                    ("datacl", TEXTS),
                ];
                rows.push(vec![
                    5.into(),
                    "postgres".into(),
                    10.into(),
                    6.into(),
                    "c".into(),
                    false.into(),
                    true.into(),
                    Cell::Int(-1),
                    1663.into(),
                    "C".into(),
                    "C".into(),
                    Cell::Null,
                    Cell::Null,
                ]);
            }
            "pg_roles" | "pg_user" | "pg_authid" => {
                columns = &[
                    ("oid", INT),
                    ("rolname", TEXT),
                    ("rolsuper", BOOL),
                    ("rolinherit", BOOL),
                    ("rolcreaterole", BOOL),
                    ("rolcreatedb", BOOL),
                    ("rolcanlogin", BOOL),
                    ("rolreplication", BOOL),
                    ("rolconnlimit", INT),
                    ("rolvaliduntil", Type::Scalar(ScalarType::Timestamptz)),
                    ("rolbypassrls", BOOL),
                    ("usename", TEXT),
                    ("usesysid", INT),
                ];
                rows.push(vec![
                    10.into(),
                    OWNER.into(),
                    true.into(),
                    true.into(),
                    true.into(),
                    true.into(),
                    true.into(),
                    true.into(),
                    Cell::Int(-1),
                    Cell::Null,
                    true.into(),
                    OWNER.into(),
                    10.into(),
                ]);
            }
            "pg_sequence" => {
                columns = &[
                    ("seqrelid", INT),
                    ("seqtypid", INT),
                    ("seqstart", Type::Scalar(ScalarType::BigInt)),
                    ("seqincrement", Type::Scalar(ScalarType::BigInt)),
                    ("seqmax", Type::Scalar(ScalarType::BigInt)),
                    ("seqmin", Type::Scalar(ScalarType::BigInt)),
                    ("seqcache", Type::Scalar(ScalarType::BigInt)),
                    ("seqcycle", BOOL),
                ];
                for table in tables() {
                    let Some(own) = &table.sequence else { continue };
                    rows.push(vec![
                        table_oid(table).into(),
                        type_oid(own.ty.into()).into(),
                        own.start.into(),
                        own.increment.into(),
                        own.greatest.into(),
                        own.least.into(),
                        1.into(),
                        own.cycles.into(),
                    ]);
                }
            }
            "pg_tables" => {
                columns = &[
                    ("schemaname", TEXT),
                    ("tablename", TEXT),
                    ("tableowner", TEXT),
                    ("tablespace", TEXT),
                    ("hasindexes", BOOL),
                ];
                for table in tables().filter(|own| own.sequence.is_none()) {
                    rows.push(vec![
                        self.namespace_of(&table.name).into(),
                        table.short_name().into(),
                        OWNER.into(),
                        Cell::Null,
                        (table.indexes.len() > usize::from(table.hidden_key)).into(),
                    ]);
                }
            }
            "pg_views" => {
                columns =
                    &[("schemaname", TEXT), ("viewname", TEXT), ("viewowner", TEXT), ("definition", TEXT)];
                for view in self.views() {
                    let (schema, name) = (self.namespace_of(&view.name), short(&view.name));
                    rows.push(vec![
                        schema.into(),
                        name.into(),
                        OWNER.into(),
                        format!("{};", view.query.trim()).into(),
                    ]);
                }
            }
            "pg_indexes" => {
                columns = &[
                    ("schemaname", TEXT),
                    ("tablename", TEXT),
                    ("indexname", TEXT),
                    ("tablespace", TEXT),
                    ("indexdef", TEXT),
                ];
                let definitions = self.index_definitions();
                for table in tables() {
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
            }
            "pg_tablespace" => {
                columns = &[("oid", INT), ("spcname", TEXT)];
                rows.push(vec![1663.into(), "pg_default".into()]);
            }
            "pg_description" | "pg_shdescription" => {
                columns = &[("objoid", INT), ("classoid", INT), ("objsubid", INT), ("description", TEXT)];
            }
            "pg_inherits" => {
                columns =
                    &[("inhrelid", INT), ("inhparent", INT), ("inhseqno", INT), ("inhdetachpending", BOOL)];
            }
            "pg_trigger" => {
                columns = &[
                    ("oid", INT),
                    ("tgrelid", INT),
                    ("tgparentid", INT),
                    ("tgname", TEXT),
                    ("tgenabled", TEXT),
                    ("tgisinternal", BOOL),
                    ("tgfoid", INT),
                    ("tgtype", INT),
                    ("tgconstraint", INT),
                ];
            }
            "pg_policy" => {
                columns = &[
                    ("oid", INT),
                    ("polname", TEXT),
                    ("polrelid", INT),
                    ("polcmd", TEXT),
                    ("polpermissive", BOOL),
                    ("polroles", INTS),
                    ("polqual", TEXT),
                    ("polwithcheck", TEXT),
                ];
            }
            "pg_statistic_ext" => {
                columns = &[
                    ("oid", INT),
                    ("stxrelid", INT),
                    ("stxname", TEXT),
                    ("stxnamespace", INT),
                    ("stxkind", TEXTS),
                    ("stxstattarget", INT),
                ];
            }
            "pg_publication" => columns = &[("oid", INT), ("pubname", TEXT), ("puballtables", BOOL)],
            "pg_publication_namespace" => columns = &[("oid", INT), ("pnpubid", INT), ("pnnspid", INT)],
            "pg_publication_rel" => {
                columns =
                    &[("oid", INT), ("prpubid", INT), ("prrelid", INT), ("prqual", TEXT), ("prattrs", INTS)];
            }
            "pg_auth_members" => columns = &[("roleid", INT), ("member", INT), ("admin_option", BOOL)],
            "pg_enum" => {
                columns = &[("oid", INT), ("enumtypid", INT), ("enumlabel", TEXT), ("enumsortorder", INT)]
            }
            "pg_range" => columns = &[("rngtypid", INT), ("rngsubtype", INT)],
            "pg_extension" => {
                columns = &[("oid", INT), ("extname", TEXT), ("extnamespace", INT), ("extversion", TEXT)];
            }
            "pg_rewrite" => {
                columns = &[("oid", INT), ("rulename", TEXT), ("ev_class", INT), ("ev_type", TEXT)]
            }
            "pg_depend" => {
                columns = &[
                    ("classid", INT),
                    ("objid", INT),
                    ("objsubid", INT),
                    ("refclassid", INT),
                    ("refobjid", INT),
                    ("refobjsubid", INT),
                    ("deptype", TEXT),
                ];
                for table in tables() {
                    let Some((owner, column)) = table.sequence.as_ref().and_then(|own| own.owner.as_ref())
                    else {
                        continue;
                    };
                    let Ok(owner) = self.catalog().table(owner) else { continue };
                    let place = owner.column(column).map_or(0, |place| place as i64 + 1);
                    rows.push(vec![
                        1259.into(),
                        table_oid(table).into(),
                        0.into(),
                        1259.into(),
                        table_oid(owner).into(),
                        place.into(),
                        "a".into(),
                    ]);
                }
            }
            "pg_partitioned_table" => columns = &[("partrelid", INT), ("partstrat", TEXT)],
            "pg_foreign_table" => columns = &[("ftrelid", INT), ("ftserver", INT)],
            "pg_foreign_server" => columns = &[("oid", INT), ("srvname", TEXT)],
            _ => return None,
        }
        Some(SystemRelation { columns: columns.to_vec(), rows })
    }

    fn information(&self, name: &str) -> Option<SystemRelation> {
        let columns: &[(&'static str, Type)];
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        const DATABASE: &str = "postgres";
        match name {
            "schemata" => {
                columns = &[("catalog_name", TEXT), ("schema_name", TEXT), ("schema_owner", TEXT)];
                for (_, name) in self.namespace_names() {
                    rows.push(vec![DATABASE.into(), name.into(), OWNER.into()]);
                }
            }
            "tables" => {
                columns = &[
                    ("table_catalog", TEXT),
                    ("table_schema", TEXT),
                    ("table_name", TEXT),
                    ("table_type", TEXT),
                    ("is_insertable_into", TEXT),
                ];
                let tables = self.catalog().tables().filter(|own| own.sequence.is_none());
                let tables = tables.map(|own| (&own.name, "BASE TABLE", "YES"));
                for (name, kind, writable) in tables.chain(self.views().map(|own| (&own.name, "VIEW", "NO")))
                {
                    let schema = self.namespace_of(name);
                    rows.push(vec![
                        DATABASE.into(),
                        schema.into(),
                        short(name).into(),
                        kind.into(),
                        writable.into(),
                    ]);
                }
            }
            "views" => {
                columns = &[
                    ("table_catalog", TEXT),
                    ("table_schema", TEXT),
                    ("table_name", TEXT),
                    ("view_definition", TEXT),
                ];
                for view in self.views() {
                    let (schema, own) = (self.namespace_of(&view.name), short(&view.name));
                    rows.push(vec![DATABASE.into(), schema.into(), own.into(), view.query.as_str().into()]);
                }
            }
            "columns" => {
                columns = &[
                    ("table_catalog", TEXT),
                    ("table_schema", TEXT),
                    ("table_name", TEXT),
                    ("column_name", TEXT),
                    ("ordinal_position", INT),
                    ("column_default", TEXT),
                    ("is_nullable", TEXT),
                    ("data_type", TEXT),
                    ("character_maximum_length", INT),
                    ("numeric_precision", INT),
                    ("numeric_scale", INT),
                    ("udt_name", TEXT),
                    ("is_identity", TEXT),
                    ("identity_generation", TEXT),
                ];
                let mut add = |table: &str,
                               place: usize,
                               name: &str,
                               ty: Type,
                               default: Option<&String>,
                               nullable: bool,
                               identity: Option<Identity>| {
                    let scalar = ty.element();
                    let oid = type_oid(ty);
                    let known = TYPES.iter().find(|own| own.0 == i64::from(type_oids(scalar).0));
                    let (udt, sql) = known.map_or(("", ""), |own| (own.1, own.2));
                    let is_array = oid != i64::from(type_oids(scalar).0);
                    let number = |value: u32| Cell::Int(i64::from(value));
                    let length = match scalar {
                        ScalarType::Char(limit) | ScalarType::Varchar(limit) => number(limit),
                        _ => Cell::Null,
                    };
                    let (precision, scale) = match scalar {
                        ScalarType::Numeric { precision, scale } => {
                            (number(precision.into()), number(scale.into()))
                        }
                        ScalarType::SmallInt => (number(16), number(0)),
                        ScalarType::Integer => (number(32), number(0)),
                        ScalarType::BigInt => (number(64), number(0)),
                        ScalarType::Double => (number(53), Cell::Null),
                        _ => (Cell::Null, Cell::Null),
                    };
                    let yes = |value: bool| Cell::from(if value { "YES" } else { "NO" });
                    let generation = match identity {
                        None => Cell::Null,
                        Some(Identity::Always) => "ALWAYS".into(),
                        Some(Identity::ByDefault) => "BY DEFAULT".into(),
                    };
                    rows.push(vec![
                        DATABASE.into(),
                        self.namespace_of(table).into(),
                        short(table).into(),
                        name.into(),
                        (place as i64 + 1).into(),
                        default.map_or(Cell::Null, |text| text.clone().into()),
                        yes(nullable),
                        if is_array { "ARRAY" } else { sql }.into(),
                        length,
                        precision,
                        scale,
                        if is_array { format!("_{udt}") } else { udt.into() }.into(),
                        yes(identity.is_some()),
                        generation,
                    ]);
                };
                for table in self.catalog().tables().filter(|own| own.sequence.is_none()) {
                    for (place, column) in table.visible().iter().enumerate() {
                        let default = column.default.as_ref().filter(|_| column.identity.is_none());
                        add(
                            &table.name,
                            place,
                            &column.name,
                            column.ty.into(),
                            default,
                            column.nullable,
                            column.identity,
                        );
                    }
                }
                for view in self.views() {
                    for (place, (name, ty)) in self.view_columns(view).into_iter().enumerate() {
                        add(&view.name, place, &name, ty, None, true, None);
                    }
                }
            }
            "table_constraints" => {
                columns = &[
                    ("constraint_catalog", TEXT),
                    ("constraint_schema", TEXT),
                    ("constraint_name", TEXT),
                    ("table_schema", TEXT),
                    ("table_name", TEXT),
                    ("constraint_type", TEXT),
                    ("is_deferrable", TEXT),
                ];
                for own in self.constraints() {
                    let kind = match own.kind {
                        "p" => "PRIMARY KEY",
                        "u" => "UNIQUE",
                        "f" => "FOREIGN KEY",
                        _ => "CHECK",
                    };
                    let schema = self.namespace_of(&own.table.name);
                    rows.push(vec![
                        DATABASE.into(),
                        schema.into(),
                        own.name.into(),
                        schema.into(),
                        own.table.short_name().into(),
                        kind.into(),
                        "NO".into(),
                    ]);
                }
            }
            "key_column_usage" => {
                columns = &[
                    ("constraint_schema", TEXT),
                    ("constraint_name", TEXT),
                    ("table_schema", TEXT),
                    ("table_name", TEXT),
                    ("column_name", TEXT),
                    ("ordinal_position", INT),
                    ("position_in_unique_constraint", INT),
                ];
                for own in self.constraints().into_iter().filter(|own| own.kind != "c") {
                    for (place, column) in own.columns.iter().enumerate() {
                        let schema = self.namespace_of(&own.table.name);
                        let position = Cell::Int(place as i64 + 1);
                        let other = if own.parent.is_some() { position.clone() } else { Cell::Null };
                        rows.push(vec![
                            schema.into(),
                            own.name.into(),
                            schema.into(),
                            own.table.short_name().into(),
                            own.table.columns[*column].name.as_str().into(),
                            position,
                            other,
                        ]);
                    }
                }
            }
            "sequences" => {
                columns = &[
                    ("sequence_catalog", TEXT),
                    ("sequence_schema", TEXT),
                    ("sequence_name", TEXT),
                    ("data_type", TEXT),
                    ("start_value", TEXT),
                    ("increment", TEXT),
                ];
                for table in self.catalog().tables() {
                    let Some(own) = &table.sequence else { continue };
                    let schema = self.namespace_of(&table.name);
                    rows.push(vec![
                        DATABASE.into(),
                        schema.into(),
                        table.short_name().into(),
                        own.ty.to_string().into(),
                        own.start.to_string().into(),
                        own.increment.to_string().into(),
                    ]);
                }
            }
            "routines" => {
                columns = &[
                    ("routine_catalog", TEXT),
                    ("routine_schema", TEXT),
                    ("routine_name", TEXT),
                    ("routine_type", TEXT),
                    ("data_type", TEXT),
                    ("external_language", TEXT),
                ];
                for own in self.procedures() {
                    let kind = if own.result.is_some() { "FUNCTION" } else { "PROCEDURE" };
                    let result = own.result.map_or(Cell::Null, |(_, ty)| ty.to_string().into());
                    rows.push(vec![
                        DATABASE.into(),
                        "public".into(),
                        own.name.as_str().into(),
                        kind.into(),
                        result,
                        "PLPGSQL".into(),
                    ]);
                }
            }
            _ => return None,
        }
        Some(SystemRelation { columns: columns.to_vec(), rows })
    }
}
