//! Domains in the system catalogs.

use super::general::OF_TYPES;
use super::types::{type_modifier, type_oid};
use super::{Cell, Named};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{Domain, Type};

/// The OID of the first constraint of a domain.
const FIRST_CONSTRAINT: i64 = 7_000_000;

/// Sets columns of a row by name.
fn fill<const COUNT: usize>(row: &mut [Cell], columns: &[(&str, Type)], values: [(&str, Cell); COUNT]) {
    for (name, value) in values {
        if let Some(position) = columns.iter().position(|(column, _)| *column == name) {
            row[position] = value;
        }
    }
}

/// A CHECK constraint of a domain.
pub(crate) struct DomainConstraint<'a> {
    pub(crate) oid: i64,
    pub(crate) domain: &'a Domain,
    pub(crate) name: &'a str,
    pub(crate) definition: Named,
}

impl Schema {
    /// Returns the row of `pg_type` of a domain: the row of its base type with the columns that differ.
    pub(super) fn domain_row(&self, domain: &Domain, rows: &[Vec<Cell>]) -> Option<Vec<Cell>> {
        let base = type_oid(domain.ty);
        let mut row = rows.iter().find(|row| matches!(row[0], Cell::Int(oid) if oid == base))?.clone();
        let subject = Subject::Type(domain.name.clone());
        let under = domain.base.as_deref().and_then(|name| self.catalog().domain(name));
        let values: [(&str, Cell); 13] = [
            ("oid", i64::from(domain.oid).into()),
            ("typname", domain.name.rsplit('.').next().unwrap_or_default().into()),
            ("typnamespace", self.namespace_oid(&domain.name).into()),
            ("typtype", "d".into()),
            ("typarray", 0.into()),
            ("typbasetype", under.map_or(base, |own| own.oid.into()).into()),
            ("typtypmod", i64::from(type_modifier(domain.ty.element())).into()),
            ("typnotnull", (!domain.nullable).into()),
            ("typispreferred", false.into()),
            ("typowner", self.owner_cell(&subject)),
            (
                "typdefault",
                domain.default.as_deref().map_or(Cell::Null, |text| self.named(text, false).into()),
            ),
            ("typacl", self.acl_cell(&subject)),
            ("typelem", 0.into()),
        ];
        fill(&mut row, &OF_TYPES, values);
        Some(row)
    }

    /// Returns the domain that is the type of a table's column.
    pub(super) fn domain_of_column(&self, table: &str, column: &str) -> Option<&Domain> {
        let table = self.catalog().table(table).ok()?;
        let name = table.visible().iter().find(|visible| visible.name == column)?.domain.as_deref()?;
        self.catalog().domain(name)
    }

    /// Returns the rows of `pg_constraint` of domains.
    pub(super) fn domain_constraint_rows(&self, columns: &[(&str, Type)]) -> Vec<Vec<Cell>> {
        let row = |constraint: DomainConstraint<'_>| {
            let mut row = vec![Cell::Null; columns.len()];
            for name in ["conrelid", "conindid", "conparentid", "confrelid"] {
                fill(&mut row, columns, [(name, 0.into())]);
            }
            for name in ["confupdtype", "confdeltype", "confmatchtype"] {
                fill(&mut row, columns, [(name, " ".into())]);
            }
            let values: [(&str, Cell); 10] = [
                ("oid", constraint.oid.into()),
                ("conname", constraint.name.into()),
                ("connamespace", self.namespace_oid(&constraint.domain.name).into()),
                ("contype", "c".into()),
                ("condeferrable", false.into()),
                ("condeferred", false.into()),
                ("convalidated", true.into()),
                ("contypid", i64::from(constraint.domain.oid).into()),
                ("conislocal", true.into()),
                ("connoinherit", false.into()),
            ];
            fill(&mut row, columns, values);
            row
        };
        self.domain_constraints().into_iter().map(row).collect()
    }

    /// Returns the CHECK constraints of domains.
    pub(crate) fn domain_constraints(&self) -> Vec<DomainConstraint<'_>> {
        let mut all = Vec::new();
        for domain in self.catalog().domains() {
            for (name, text) in &domain.checks {
                let oid = FIRST_CONSTRAINT + all.len() as i64;
                let text = self.named(text, false);
                let definition = Named::of(|is_qualified| format!("CHECK ({})", text.form(is_qualified)));
                all.push(DomainConstraint { oid, domain, name, definition });
            }
        }
        all
    }
}
