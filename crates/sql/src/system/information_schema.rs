//! The relations of `information_schema` that are no queries, except for those about privileges (`grants`).

use super::types::{TYPES, type_oid, type_oids};
use super::{Cell, INT, SystemRelation, TEXT};
use crate::full_names::short;
use crate::roles::acl::{AclKind, CHANGING};
use crate::schema::Schema;
use crate::simple_view::{DELETED, INSERTED, UPDATED};
use crate::subject::Subject;
use catalog::{Column, Deferral, Identity, ScalarType};

/// The name of the database in the system catalogs. A client may connect under another name.
pub const DATABASE: &str = "postgres";

impl Schema {
    /// Returns a relation of `information_schema`; `None` for any other name.
    pub(super) fn information(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "views" => self.information_views(),
            "columns" => self.information_columns(),
            "table_constraints" => self.information_table_constraints(),
            "key_column_usage" => self.information_key_column_usage(),
            "triggers" => self.information_triggers(),
            _ => return self.grants_view(name),
        })
    }

    fn information_views(&self) -> SystemRelation {
        let columns = [
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("view_definition", TEXT),
            ("check_option", TEXT),
            ("is_updatable", TEXT),
            ("is_insertable_into", TEXT),
            ("is_trigger_updatable", TEXT),
            ("is_trigger_deletable", TEXT),
            ("is_trigger_insertable_into", TEXT),
        ];
        let mut rows = Vec::new();
        for view in self.views().filter(|view| self.shows_relation(&view.name, AclKind::Table.all())) {
            let (schema, name) = (self.namespace_of(&view.name), short(&view.name));
            let is_own = self.owns(self.acting, &Subject::Relation(view.name.clone()));
            let events = self.events_of(&view.name, None);
            let can = |wanted: i64| Cell::from(if events & wanted == wanted { "YES" } else { "NO" });
            let check = view.check.map_or("NONE".into(), |check| check.name().to_uppercase());
            rows.push(vec![
                DATABASE.into(),
                schema.into(),
                name.into(),
                if is_own { view.query.as_str().into() } else { Cell::Null },
                check.as_str().into(),
                can(UPDATED | DELETED),
                can(INSERTED),
                "NO".into(),
                "NO".into(),
                "NO".into(),
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn information_columns(&self) -> SystemRelation {
        let columns = [
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
            ("datetime_precision", INT),
            ("udt_name", TEXT),
            ("is_identity", TEXT),
            ("identity_generation", TEXT),
            ("is_generated", TEXT),
            ("generation_expression", TEXT),
            ("is_updatable", TEXT),
            ("is_self_referencing", TEXT),
            ("numeric_precision_radix", INT),
            ("udt_schema", TEXT),
            ("dtd_identifier", TEXT),
            ("domain_catalog", TEXT),
            ("domain_schema", TEXT),
            ("domain_name", TEXT),
        ];
        let mut rows = Vec::new();
        let mut add = |table: &str, position: usize, column: &Column| {
            if !self.shows_column(table, &column.name) {
                return;
            }
            let domain = column.domain.as_deref();
            let of_domain = |text: &dyn Fn(&str) -> Cell| domain.map_or(Cell::Null, text);
            let Column { name, ty, nullable, default, generated, identity, .. } = column;
            let is_nullable = |name: &str| self.catalog().domain(name).is_none_or(|own| own.nullable);
            let (ty, nullable) = (*ty, *nullable && domain.is_none_or(is_nullable));
            let text = default.as_ref().map(|text| self.shown_default(text, ty));
            let text = text.map(|text| Cell::from(self.named(&text, false).plain));
            let shown = |is_shown: bool| text.clone().filter(|_| is_shown).unwrap_or(Cell::Null);
            let scalar = ty.element();
            let oid = type_oid(ty);
            let known = TYPES.iter().find(|known| known.0 == i64::from(type_oids(scalar).0));
            let (udt, sql) = match scalar.enumeration() {
                Some(enumeration) => (enumeration.short_name(), "USER-DEFINED"),
                None => known.map_or(("", ""), |known| (known.1, known.2)),
            };
            let is_updatable = self.is_column_updatable(table, position);
            let radix = if scalar.is_numeric() { 10 } else { 2 };
            let is_array = oid != i64::from(type_oids(scalar).0);
            let number = |value: u32| Cell::Int(i64::from(value));
            let length = match scalar {
                _ if is_array => Cell::Null,
                ScalarType::Char(limit) | ScalarType::Varchar(limit) if limit < u32::MAX => number(limit),
                _ => Cell::Null,
            };
            let (precision, scale) = match scalar {
                _ if is_array => (Cell::Null, Cell::Null),
                ScalarType::Numeric { precision, scale } => (number(precision.into()), number(scale.into())),
                ScalarType::LongNumeric { precision, scale } => {
                    // As in PostgreSQL, a negative scale is shown as the bits of the modifier.
                    (number(precision.into()), Cell::Int(i64::from(scale & 0x7ff)))
                }
                ScalarType::SmallInt => (number(16), number(0)),
                ScalarType::Integer => (number(32), number(0)),
                ScalarType::BigInt => (number(64), number(0)),
                ScalarType::Real => (number(24), Cell::Null),
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
                name.as_str().into(),
                (position as i64 + 1).into(),
                shown(!generated && identity.is_none()),
                yes(nullable),
                if is_array { "ARRAY" } else { sql }.into(),
                length,
                precision,
                scale,
                match scalar {
                    _ if is_array => Cell::Null,
                    ScalarType::Date => number(0),
                    ScalarType::Interval | ScalarType::Time => number(6),
                    _ => scalar.timestamp_precision().map_or(Cell::Null, |digits| number(digits.into())),
                },
                if is_array { format!("_{udt}") } else { udt.into() }.into(),
                yes(identity.is_some()),
                generation,
                if *generated { "ALWAYS" } else { "NEVER" }.into(),
                shown(*generated),
                yes(is_updatable),
                "NO".into(),
                if scalar.is_number() && !is_array { number(radix) } else { Cell::Null },
                scalar
                    .enumeration()
                    .map_or("pg_catalog", |enumeration| self.namespace_of(&enumeration.name))
                    .into(),
                (position as i64 + 1).to_string().into(),
                of_domain(&|_| DATABASE.into()),
                of_domain(&|name| self.namespace_of(name).into()),
                of_domain(&|name| short(name).into()),
            ]);
        };
        for table in self.shown_tables().filter(|table| table.sequence.is_none()) {
            for (position, column) in table.visible().iter().enumerate() {
                add(&table.name, position, column);
            }
        }
        for view in self.views() {
            for (position, (name, ty)) in self.view_columns(view).into_iter().enumerate() {
                add(&view.name, position, &Column { name, ty, nullable: true, ..Column::default() });
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn information_table_constraints(&self) -> SystemRelation {
        let columns = [
            ("constraint_catalog", TEXT),
            ("constraint_schema", TEXT),
            ("constraint_name", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("constraint_type", TEXT),
            ("is_deferrable", TEXT),
            ("initially_deferred", TEXT),
            ("enforced", TEXT),
        ];
        let mut rows = Vec::new();
        let shown = self.constraints().into_iter();
        for constraint in shown.filter(|constraint| self.shows_relation(&constraint.table.name, CHANGING)) {
            let kind = match constraint.kind {
                "p" => "PRIMARY KEY",
                "u" => "UNIQUE",
                "f" => "FOREIGN KEY",
                _ => "CHECK",
            };
            let schema = self.namespace_of(&constraint.table.name);
            rows.push(vec![
                DATABASE.into(),
                schema.into(),
                constraint.name.into(),
                schema.into(),
                constraint.table.short_name().into(),
                kind.into(),
                if constraint.deferral == Deferral::Never { "NO" } else { "YES" }.into(),
                if constraint.deferral == Deferral::Deferred { "YES" } else { "NO" }.into(),
                "YES".into(),
            ]);
        }
        SystemRelation::new(&columns, rows)
    }

    fn information_key_column_usage(&self) -> SystemRelation {
        let columns = [
            ("constraint_schema", TEXT),
            ("constraint_name", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("column_name", TEXT),
            ("ordinal_position", INT),
            ("position_in_unique_constraint", INT),
        ];
        let mut rows = Vec::new();
        for constraint in self.constraints().into_iter().filter(|constraint| constraint.kind != "c") {
            for (index, column) in constraint.columns.iter().enumerate() {
                if !self.shows_column(&constraint.table.name, &constraint.table.columns[*column].name) {
                    continue;
                }
                let schema = self.namespace_of(&constraint.table.name);
                let position = Cell::Int(index as i64 + 1);
                let other = if constraint.parent.is_some() { position.clone() } else { Cell::Null };
                rows.push(vec![
                    schema.into(),
                    constraint.name.into(),
                    schema.into(),
                    constraint.table.short_name().into(),
                    constraint.table.columns[*column].name.as_str().into(),
                    position,
                    other,
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }
}
