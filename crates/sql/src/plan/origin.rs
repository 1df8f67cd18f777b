//! Finds the column of a table or view that a result column has the values of, for the row description that
//! the client receives.
//! Source: PostgreSQL, `markTargetListOrigin` in parse_target.c.

use crate::system::{VECTORS, catalog_type};
use catalog::{Column, Datum, Domain, Type};
use procedure::query::OutputColumn;
use procedure::{Expression, Register};
use std::collections::{HashMap, HashSet};

/// A column of a table or view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnOrigin {
    /// The OID of the table or view in the system catalogs.
    pub relation: u32,
    /// The position of the column, from 1.
    pub column: u16,
}

impl ColumnOrigin {
    /// The origin of the results of functions that return `void`: no column.
    pub const VOID: Self = Self { relation: 0, column: 0 };
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
    /// The full name of the domain of its values, if they are those of a column or a conversion.
    pub domain: Option<String>,
    /// Whether an operator or a function computes its values, so that its type has no declared limit.
    pub(crate) is_computed: bool,
}

impl ResultColumn {
    /// Makes a column of computed values.
    pub(crate) fn computed(name: &str, ty: Type, register: Register) -> Self {
        Self { name: name.into(), ty, register, origin: None, domain: None, is_computed: true }
    }

    /// Returns its type as PostgreSQL has it: a computed value has no limit of length or precision.
    pub fn declared_type(&self) -> Type {
        if self.is_computed { self.ty.base() } else { self.ty }
    }
}

/// What is known of the values of registers: their columns, and whether they are computed.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    known: HashMap<Register, Known>,
    /// The decimal constants that casts have made, with their types. A literal has no declared precision.
    casts: HashSet<(i64, Type)>,
}

/// A column, with its type. A value of another type in the same register is converted, so that it is no value
/// of the column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    origin: Option<ValueOrigin>,
    ty: Type,
    /// Whether an operator or a function computes the values.
    is_computed: bool,
}

/// The origin of a value whose type is more than the type of its register.
#[derive(Clone, Copy, Debug)]
enum ValueOrigin {
    /// A column of a table or view.
    Column(ColumnOrigin),
    /// A conversion to a domain, by its number in `pg_type`.
    Domain(u32),
}

impl Origins {
    /// Notes a register with the values of a column of a relation.
    pub(super) fn note_column(&mut self, register: Register, oid: i64, column: usize, ty: Type) {
        let origin = ColumnOrigin { relation: oid as u32, column: column as u16 + 1 };
        self.note_origin(register, ValueOrigin::Column(origin), ty);
    }

    /// Notes a register with the result of a function that returns `void`.
    pub(crate) fn note_void(&mut self, register: Register, ty: Type) {
        self.note_origin(register, ValueOrigin::Column(ColumnOrigin::VOID), ty);
    }

    /// Notes a register with values of a domain.
    pub(crate) fn note_domain(&mut self, register: Register, domain: &Domain) {
        self.note_origin(register, ValueOrigin::Domain(domain.oid), domain.ty);
    }

    fn note_origin(&mut self, register: Register, origin: ValueOrigin, ty: Type) {
        let is_computed = self.has_computed(register);
        self.note(register, Some(Known { origin: Some(origin), ty, is_computed }));
    }

    /// Notes that an operator or a function computes the values of a register.
    pub(crate) fn note_computed(&mut self, register: Register, ty: Type) {
        let known = self.of(register).unwrap_or(Known { origin: None, ty, is_computed: true });
        self.note(register, Some(Known { is_computed: true, ..known }));
    }

    /// Takes over which registers of a view's query are computed.
    pub(super) fn take_computed(&mut self, inner: &Self) {
        for (register, known) in inner.known.iter().filter(|(_, known)| known.is_computed) {
            self.note_computed(*register, known.ty);
        }
    }

    /// Notes that a cast has made a value of a type.
    pub(crate) fn note_cast(&mut self, value: &Expression, ty: Type) {
        if let Expression::Constant(Datum::Int(number)) = value {
            self.casts.insert((*number, ty));
        }
    }

    /// Returns whether an operator or a function computes the values of a register.
    pub(crate) fn has_computed(&self, register: Register) -> bool {
        self.of(register).is_some_and(|known| known.is_computed)
    }

    /// Returns whether a value of a type, or a branch of it, is a literal or computed by an operator or a
    /// function.
    pub(crate) fn is_computed(&self, value: &Expression, ty: Type) -> bool {
        let of_any = |values: &[Expression]| values.iter().any(|value| self.is_computed(value, ty));
        match value {
            Expression::Arithmetic { .. } => true,
            Expression::Constant(Datum::Int(number)) => {
                ty.element().is_numeric() && !self.casts.contains(&(*number, ty))
            }
            Expression::Register(register) => self.has_computed(*register),
            // As in PostgreSQL, the NULL of a missing ELSE has no declared limit.
            Expression::Case { branches, otherwise } => {
                **otherwise == Expression::NULL
                    || self.is_computed(otherwise, ty)
                    || branches.iter().any(|(_, value)| self.is_computed(value, ty))
            }
            Expression::Array(values) => {
                let element = Type::Scalar(ty.element());
                values.iter().any(|value| self.is_computed(value, element))
            }
            Expression::Coalesce(values) | Expression::Function { arguments: values, .. } => of_any(values),
            Expression::Element(operands) => self.is_computed(&operands[0], Type::Array(ty.element())),
            _ => false,
        }
    }

    /// Notes that consecutive registers hold the columns of a relation.
    pub(super) fn note_row(&mut self, first: Register, oid: i64, columns: &[Column]) {
        for (position, column) in columns.iter().enumerate() {
            self.note_column(Register(first.0 + position as u32), oid, position, column.ty);
        }
    }

    /// Notes that a register has the value of an expression.
    pub(crate) fn note_value(&mut self, register: Register, value: &Expression, ty: Type) {
        if let Expression::Register(from) = value {
            self.note(register, self.of(*from));
        } else if self.is_computed(value, ty) {
            self.note_computed(register, ty);
        }
    }

    pub(super) fn note(&mut self, register: Register, known: Option<Known>) {
        known.map(|known| self.known.insert(register, known));
    }

    pub(super) fn of(&self, register: Register) -> Option<Known> {
        self.known.get(&register).copied()
    }

    /// Returns the column whose values a register has.
    pub(crate) fn column_of(&self, register: Register) -> Option<ColumnOrigin> {
        match self.of(register)?.origin? {
            ValueOrigin::Column(origin) => Some(origin),
            ValueOrigin::Domain(_) => None,
        }
    }

    /// Returns the number in `pg_type` of the domain to which the values of a register have been converted.
    pub(crate) fn domain_of(&self, register: Register) -> Option<u32> {
        match self.of(register)?.origin? {
            ValueOrigin::Column(_) => None,
            ValueOrigin::Domain(number) => Some(number),
        }
    }

    /// Returns whether a register has values of a column of the catalogs whose arrays begin at subscript 0.
    pub(crate) fn is_vector(&self, register: Register) -> bool {
        let oid = self.column_of(register).and_then(catalog_type);
        oid.is_some_and(|oid| VECTORS.contains(&oid))
    }

    /// Returns whether a register has values of a column of the catalogs that has another type in PostgreSQL.
    pub(crate) fn has_catalog_type(&self, register: Register) -> bool {
        self.column_of(register).and_then(catalog_type).is_some()
    }

    /// Returns the description of a column.
    pub(crate) fn described(&self, column: &OutputColumn) -> ResultColumn {
        let OutputColumn { name, ty, register } = column.clone();
        let is_converted = self.of(register).is_some_and(|known| known.ty != ty);
        let origin = self.column_of(register).filter(|_| !is_converted);
        let is_computed = self.has_computed(register);
        ResultColumn { name, ty, register, origin, domain: None, is_computed }
    }
}
