//! The relations of `pg_catalog` that do not describe relations: types, schemas, and relations that are
//! always empty.

use super::types::{SCALARS, TYPES, type_oids};
use super::{BOOL, Cell, INT, INTS, OWNER, PUBLIC, SYSTEM, SystemRelation, TEXT, TEXTS};
use crate::schema::Schema;
use catalog::{EnumType, ScalarType, Type};
use procedure::RecoveryColumn;

/// The number of the first label of an enumeration.
const FIRST_LABEL: i64 = 6_000_000;

/// Relations without rows, because their objects are not supported.
const EMPTY: &[(&str, &[(&str, Type)])] = &[
    ("pg_shdescription", &[("objoid", INT), ("classoid", INT), ("objsubid", INT), ("description", TEXT)]),
    ("pg_inherits", &[("inhrelid", INT), ("inhparent", INT), ("inhseqno", INT), ("inhdetachpending", BOOL)]),
    (
        "pg_policy",
        &[
            ("oid", INT),
            ("polname", TEXT),
            ("polrelid", INT),
            ("polcmd", TEXT),
            ("polpermissive", BOOL),
            ("polroles", INTS),
            ("polqual", TEXT),
            ("polwithcheck", TEXT),
        ],
    ),
    (
        "pg_statistic_ext",
        &[
            ("oid", INT),
            ("stxrelid", INT),
            ("stxname", TEXT),
            ("stxnamespace", INT),
            ("stxkind", TEXTS),
            ("stxstattarget", INT),
        ],
    ),
    ("pg_publication", &[("oid", INT), ("pubname", TEXT), ("puballtables", BOOL)]),
    ("pg_publication_namespace", &[("oid", INT), ("pnpubid", INT), ("pnnspid", INT)]),
    (
        "pg_publication_rel",
        &[("oid", INT), ("prpubid", INT), ("prrelid", INT), ("prqual", TEXT), ("prattrs", INTS)],
    ),
    ("pg_auth_members", &[("roleid", INT), ("member", INT), ("admin_option", BOOL)]),
    ("pg_range", &[("rngtypid", INT), ("rngsubtype", INT)]),
    ("pg_extension", &[("oid", INT), ("extname", TEXT), ("extnamespace", INT), ("extversion", TEXT)]),
    ("pg_rewrite", &[("oid", INT), ("rulename", TEXT), ("ev_class", INT), ("ev_type", TEXT)]),
    ("pg_partitioned_table", &[("partrelid", INT), ("partstrat", TEXT)]),
    ("pg_foreign_table", &[("ftrelid", INT), ("ftserver", INT)]),
    ("pg_foreign_server", &[("oid", INT), ("srvname", TEXT)]),
];

impl Schema {
    /// Returns a relation of `pg_catalog` that does not describe relations; `None` for any other name.
    pub(super) fn other_catalog(&self, name: &str) -> Option<SystemRelation> {
        if let Some((_, columns)) = EMPTY.iter().find(|(own, _)| *own == name) {
            return Some(SystemRelation::new(columns, Vec::new()));
        }
        Some(match name {
            "pg_namespace" => self.pg_namespace(),
            "pg_type" => self.pg_type(),
            "pg_enum" => self.pg_enum(),
            "reprise_recovery" => reprise_recovery(),
            "pg_description" => self.pg_description(),
            "pg_settings" => self.pg_settings(),
            "pg_trigger" => self.pg_trigger(),
            "pg_am" => self.pg_am(),
            "pg_collation" => self.pg_collation(),
            "pg_database" => self.pg_database(),
            "pg_roles" | "pg_user" | "pg_authid" => self.pg_roles(),
            "pg_tablespace" => self.pg_tablespace(),
            _ => return None,
        })
    }

    fn pg_namespace(&self) -> SystemRelation {
        let columns = [("oid", INT), ("nspname", TEXT), ("nspowner", INT), ("nspacl", TEXTS)];
        let mut rows = Vec::new();
        for (oid, name) in self.namespace_names() {
            rows.push(vec![oid.into(), name.into(), 10.into(), Cell::Null]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_type(&self) -> SystemRelation {
        let columns = [
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
        let mut rows = Vec::new();
        let mut add =
            |oid: i64, name: &str, kind: &str, length: i64, category: &str, element: i64, array: i64| {
                let namespace = if oid < i64::from(u16::MAX) { SYSTEM } else { PUBLIC };
                let collation = if category == "S" { 100 } else { 0 };
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
                    "".into(),
                    10.into(),
                    true.into(),
                    Cell::Null,
                ]);
            };
        for scalar in SCALARS {
            let (own, array) = type_oids(scalar);
            let Some((oid, name, _, length, category)) = TYPES.iter().find(|ty| ty.0 == i64::from(own))
            else {
                continue;
            };
            add(*oid, name, "b", i64::from(*length), category, 0, array.into());
            add(array.into(), &format!("_{name}"), "b", -1, "A", *oid, 0);
        }
        for own in self.catalog.enumerations().map(EnumType::definition) {
            let (oid, name) = (i64::from(own.oid), own.short_name());
            add(oid, name, "e", 4, "E", 0, oid + 1);
            add(oid + 1, &format!("_{name}"), "b", -1, "A", oid, 0);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_enum(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("enumtypid", INT),
            ("enumsortorder", ScalarType::Double.into()),
            ("enumlabel", TEXT),
        ];
        let mut rows = Vec::new();
        for own in self.catalog.enumerations().map(EnumType::definition) {
            for (place, label) in own.labels.iter().enumerate() {
                // A label of a type is no other object, so any number does that no other label has.
                let oid = FIRST_LABEL + rows.len() as i64;
                let order = Cell::Int(place as i64 + 1);
                rows.push(vec![oid.into(), i64::from(own.oid).into(), order, label.text.clone().into()]);
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_settings(&self) -> SystemRelation {
        let columns = [("name", TEXT), ("setting", TEXT), ("context", TEXT), ("vartype", TEXT)];
        let mut rows = Vec::new();
        let known = [("max_identifier_length", "63"), ("max_index_keys", "32"), ("block_size", "8192")];
        for (name, setting) in known {
            rows.push(vec![name.into(), setting.into(), "internal".into(), "integer".into()]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn pg_am(&self) -> SystemRelation {
        let columns = [("oid", INT), ("amname", TEXT), ("amtype", TEXT)];
        let rows =
            vec![vec![2.into(), "heap".into(), "t".into()], vec![403.into(), "btree".into(), "i".into()]];
        SystemRelation::new(&columns, rows)
    }

    fn pg_collation(&self) -> SystemRelation {
        let columns = [("oid", INT), ("collname", TEXT), ("collnamespace", INT), ("collprovider", TEXT)];
        let rows = vec![vec![100.into(), "default".into(), SYSTEM.into(), "d".into()]];
        SystemRelation::new(&columns, rows)
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
            Cell::Null,
        ]];
        SystemRelation::new(&columns, rows)
    }

    fn pg_roles(&self) -> SystemRelation {
        let columns = [
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
        let rows = vec![vec![
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
        ]];
        SystemRelation::new(&columns, rows)
    }

    fn pg_tablespace(&self) -> SystemRelation {
        let columns = [("oid", INT), ("spcname", TEXT)];
        let rows = vec![vec![1663.into(), "pg_default".into()]];
        SystemRelation::new(&columns, rows)
    }
}

/// The recovery of the database, as one row.
fn reprise_recovery() -> SystemRelation {
    let columns = RecoveryColumn::ALL.map(|(name, ty, _)| (name, ty.into()));
    let row = RecoveryColumn::ALL.map(|(.., column)| Cell::Recovery(column));
    SystemRelation::new(&columns, vec![row.to_vec()])
}
