//! The relations of `pg_catalog` about types, schemas, collations, access methods and databases, and the live
//! relations.

use super::catalogs::catalog_oid;
use super::numbered::handler_oid;
use super::types::{SCALARS, TYPES, storage_of, text_function, type_oids};
use super::{BOOL, Cell, INT, PUBLIC, SYSTEM, SystemRelation, TEXT, TEXTS};
use crate::full_names::{in_schema_of, short};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{EnumType, ScalarType, Type};
use procedure::LiveRelation;

/// The columns of `pg_type`.
pub(super) const OF_TYPES: [(&str, Type); 24] = [
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
    ("typinput", INT),
    ("typoutput", INT),
    ("typstorage", TEXT),
    ("typalign", TEXT),
    ("typbyval", BOOL),
    ("typispreferred", BOOL),
    ("typowner", INT),
    ("typisdefined", BOOL),
    ("typdefault", TEXT),
    ("typacl", TEXTS),
];

/// The types that no column can have: OID, name, length, kind and category. In PostgreSQL the catalogs have
/// columns of some of them.
const WITHOUT_VALUES: [(i64, &str, i64, &str, &str); 18] = [
    (18, "char", 1, "b", "Z"),
    (19, "name", 64, "b", "S"),
    (22, "int2vector", -1, "b", "A"),
    (24, "regproc", 4, "b", "N"),
    (30, "oidvector", -1, "b", "A"),
    (705, "unknown", -2, "p", "X"),
    (2202, "regprocedure", 4, "b", "N"),
    (2205, "regclass", 4, "b", "N"),
    (2206, "regtype", 4, "b", "N"),
    (2249, "record", -1, "p", "P"),
    (2275, "cstring", -2, "p", "P"),
    (2276, "any", 4, "p", "P"),
    (2277, "anyarray", -1, "p", "P"),
    (2278, "void", 4, "p", "P"),
    (2279, "trigger", 4, "p", "P"),
    (2283, "anyelement", 4, "p", "P"),
    (3500, "anyenum", 4, "p", "P"),
    (4089, "regnamespace", 4, "b", "N"),
];

/// The OID of the first label of an enumeration.
const FIRST_LABEL: i64 = 6_000_000;

/// Returns the privileges on the schema `public` in a new database.
fn privileges_of_public() -> Cell {
    let items = ["pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"];
    Cell::Texts(items.map(str::to_owned).to_vec())
}

/// Returns `pg_init_privs`: the privileges in a new database that differ from those of a new object.
fn pg_init_privs() -> SystemRelation {
    let columns =
        [("objoid", INT), ("classoid", INT), ("objsubid", INT), ("privtype", TEXT), ("initprivs", TEXTS)];
    let class = catalog_oid("pg_namespace").unwrap_or(0);
    let row = vec![PUBLIC.into(), class.into(), 0.into(), "i".into(), privileges_of_public()];
    SystemRelation::new(&columns, vec![row])
}

impl Schema {
    /// Returns a relation of `pg_catalog` that is not about relations, routines or roles; `None` for any
    /// other name.
    pub(super) fn other_catalog(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "pg_namespace" => self.pg_namespace(),
            "pg_type" => self.pg_type(),
            "pg_enum" => self.pg_enum(),
            "pg_locks" => SystemRelation::live(LiveRelation::Locks),
            "pg_stat_activity" => SystemRelation::live(LiveRelation::Activity),
            "reprise_checkpoints" => SystemRelation::live(LiveRelation::Checkpoints),
            "reprise_counts" => SystemRelation::live(LiveRelation::Counts),
            "reprise_log" => SystemRelation::live(LiveRelation::Log),
            "reprise_recovery" => SystemRelation::live(LiveRelation::Recovery),
            "reprise_tables" => SystemRelation::live(LiveRelation::Tables),
            "pg_description" => self.pg_description(),
            "pg_settings" => SystemRelation::live(LiveRelation::Settings),
            "pg_trigger" => self.pg_trigger(),
            "pg_am" => self.pg_am(),
            "pg_init_privs" => pg_init_privs(),
            "pg_collation" => self.pg_collation(),
            "pg_database" => self.pg_database(),
            "pg_rewrite" => self.pg_rewrite(),
            "pg_depend" => self.pg_depend(),
            "pg_tablespace" => self.pg_tablespace(),
            _ => return None,
        })
    }

    fn pg_namespace(&self) -> SystemRelation {
        let columns = [("oid", INT), ("nspname", TEXT), ("nspowner", INT), ("nspacl", TEXTS)];
        let mut rows = Vec::new();
        for (oid, name) in self.namespace_names() {
            let subject = Subject::Namespace(name.clone());
            rows.push(vec![oid.into(), name.into(), self.owner_cell(&subject), self.acl_cell(&subject)]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_type(&self) -> SystemRelation {
        let mut rows = Vec::new();
        let mut add =
            |oid: i64, path: &str, kind: &str, length: i64, category: &str, element: i64, array: i64| {
                let is_defined = oid >= i64::from(u16::MAX);
                let namespace = if is_defined { self.namespace_oid(path) } else { SYSTEM };
                let name = short(path);
                let of_texts = TYPES.iter().any(|known| known.0 == element && known.4 == "S");
                let collation = if category == "S" || of_texts { 100 } else { 0 };
                let (storage, alignment) = storage_of(oid);
                rows.push(vec![
                    oid.into(),
                    name.into(),
                    namespace.into(),
                    length.into(),
                    kind.into(),
                    category.into(),
                    element.into(),
                    array.into(),
                    0.into(),
                    0.into(),
                    Cell::Int(-1),
                    false.into(),
                    collation.into(),
                    ",".into(),
                    handler_oid(&text_function(name, kind, "in")).into(),
                    handler_oid(&text_function(name, kind, "out")).into(),
                    if kind == "e" { "p" } else { storage }.into(),
                    alignment.into(),
                    (1..=8).contains(&length).into(),
                    matches!(oid, 16 | 25 | 701 | 1184).into(),
                    self.owner_cell(&Subject::Type(path.into())),
                    true.into(),
                    Cell::Null,
                    self.acl_cell(&Subject::Type(path.into())),
                ]);
            };
        for scalar in SCALARS {
            let (scalar_oid, array) = type_oids(scalar);
            let Some((oid, name, _, length, category)) =
                TYPES.iter().find(|ty| ty.0 == i64::from(scalar_oid))
            else {
                continue;
            };
            add(*oid, name, "b", i64::from(*length), category, 0, array.into());
            add(array.into(), &format!("_{name}"), "b", -1, "A", *oid, 0);
        }
        for (oid, name, length, kind, category) in WITHOUT_VALUES {
            add(oid, name, kind, length, category, 0, 0);
        }
        for definition in self.catalog.enumerations().map(EnumType::definition) {
            let oid = i64::from(definition.oid);
            add(oid, &definition.name, "e", 4, "E", 0, oid + 1);
            let array = in_schema_of(&definition.name, format!("_{}", definition.short_name()));
            add(oid + 1, &array, "b", -1, "A", oid, 0);
        }
        let domains: Vec<_> =
            self.catalog.domains().filter_map(|domain| self.domain_row(domain, &rows)).collect();
        rows.extend(domains);
        SystemRelation::new(&OF_TYPES, rows)
    }

    fn pg_enum(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("enumtypid", INT),
            ("enumsortorder", ScalarType::Double.into()),
            ("enumlabel", TEXT),
        ];
        let mut rows = Vec::new();
        for enumeration in self.catalog.enumerations().map(EnumType::definition) {
            for (index, label) in enumeration.labels.iter().enumerate() {
                // Labels are rows of `pg_enum` only, so their OIDs must differ from those of other labels.
                let oid = FIRST_LABEL + rows.len() as i64;
                let order = Cell::Int(index as i64 + 1);
                rows.push(vec![
                    oid.into(),
                    i64::from(enumeration.oid).into(),
                    order,
                    label.text.clone().into(),
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_am(&self) -> SystemRelation {
        let columns = [("oid", INT), ("amname", TEXT), ("amhandler", INT), ("amtype", TEXT)];
        let row = |(oid, name, handler, kind): (i64, &str, i64, &str)| {
            vec![oid.into(), name.into(), handler.into(), kind.into()]
        };
        let rows = [(2, "heap", 3, "t"), (403, "btree", 330, "i")].map(row);
        SystemRelation::new(&columns, rows.to_vec())
    }

    fn pg_collation(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("collname", TEXT),
            ("collnamespace", INT),
            ("collowner", INT),
            ("collprovider", TEXT),
            ("collisdeterministic", BOOL),
            ("collencoding", INT),
            ("collcollate", TEXT),
            ("collctype", TEXT),
        ];
        let row = |(oid, name, provider): (i64, &str, &str)| {
            let locale = || if oid == 100 { Cell::Null } else { name.into() };
            vec![
                oid.into(),
                name.into(),
                SYSTEM.into(),
                10.into(),
                provider.into(),
                true.into(),
                Cell::Int(-1),
                locale(),
                locale(),
            ]
        };
        let rows = [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")].map(row);
        SystemRelation::new(&columns, rows.to_vec())
    }

    fn pg_database(&self) -> SystemRelation {
        let columns = [
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
        let rows = vec![vec![
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
            self.acl_cell(&Subject::Database),
        ]];
        SystemRelation::new(&columns, rows)
    }

    fn pg_tablespace(&self) -> SystemRelation {
        let columns = [("oid", INT), ("spcname", TEXT)];
        let rows = vec![vec![1663.into(), "pg_default".into()]];
        SystemRelation::new(&columns, rows)
    }
}
