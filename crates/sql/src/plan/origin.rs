//! Finds the column of a table or view that a result column has the values of, for the row description that
//! the client receives.
//! Source: PostgreSQL, `markTargetListOrigin` in parse_target.c.

use crate::system::{VECTORS, catalog_type};
use catalog::{Column, Type};
use procedure::query::OutputColumn;
use procedure::{Expression, Register};
use std::collections::HashMap;

/// A column of a table or view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnOrigin {
    /// The OID of the table or view in the system catalogs.
    pub relation: u32,
    /// The position of the column, from 1.
    pub column: u16,
}

/// A column of the rows that a statement returns.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// The name that clients receive.
    pub name: String,
    /// The type of its values.
    pub ty: Type,
    /// The register that holds its value.
    pub register: Register,
    /// The column of a table or view that it has the values of; `None` for a computed value.
    pub origin: Option<ColumnOrigin>,
}

/// The columns of tables and views by the registers that have their values.
#[derive(Debug, Default)]
pub(crate) struct Origins(HashMap<Register, Known>);

/// A column, with its type. A value of another type in the same register is converted, so that it is no value
/// of the column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    origin: ColumnOrigin,
    ty: Type,
}

impl Origins {
    /// Notes a register with the values of a column of a relation.
    pub(super) fn note_column(&mut self, register: Register, oid: i64, column: usize, ty: Type) {
        let origin = ColumnOrigin { relation: oid as u32, column: column as u16 + 1 };
        self.note(register, Some(Known { origin, ty }));
    }

    /// Notes that consecutive registers hold the columns of a relation.
    pub(super) fn note_row(&mut self, first: Register, oid: i64, columns: &[Column]) {
        for (position, column) in columns.iter().enumerate() {
            self.note_column(Register(first.0 + position as u32), oid, position, column.ty);
        }
    }

    /// Notes that a register has the value of an expression.
    pub(super) fn note_value(&mut self, register: Register, value: &Expression) {
        if let Expression::Register(from) = value {
            self.note(register, self.of(*from));
        }
    }

    pub(super) fn note(&mut self, register: Register, known: Option<Known>) {
        known.map(|known| self.0.insert(register, known));
    }

    pub(super) fn of(&self, register: Register) -> Option<Known> {
        self.0.get(&register).copied()
    }

    /// Returns whether a register has values of a column of the catalogs whose arrays begin at subscript 0.
    pub(crate) fn is_vector(&self, register: Register) -> bool {
        let oid = self.of(register).and_then(|known| catalog_type(known.origin));
        oid.is_some_and(|oid| VECTORS.contains(&oid))
    }

    /// Returns whether a register has values of a column of the catalogs that has another type in PostgreSQL.
    pub(crate) fn has_catalog_type(&self, register: Register) -> bool {
        self.of(register).and_then(|known| catalog_type(known.origin)).is_some()
    }

    /// Returns the description of a column.
    pub(crate) fn described(&self, column: &OutputColumn) -> ResultColumn {
        let OutputColumn { name, ty, register } = column.clone();
        let known = self.of(register).filter(|known| known.ty == ty);
        ResultColumn { name, ty, register, origin: known.map(|known| known.origin) }
    }
}
