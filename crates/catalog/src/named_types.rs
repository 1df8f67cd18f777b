//! The types that a catalog has by name: enumerations and domains.

use crate::{Catalog, Column, Domain, EnumType, Enumeration, ScalarType, Table, Type};
use std::sync::Arc;

/// The number in `pg_type` of the first enumeration or domain.
const FIRST_NUMBER: u32 = 4_000_000;

impl Catalog {
    /// Returns a number for a type, which the type of its arrays follows.
    fn next_number(&mut self) -> u32 {
        self.next_enumeration += 1;
        FIRST_NUMBER + 2 * (self.next_enumeration - 1)
    }

    /// Returns an enumeration by name.
    pub fn enumeration(&self, name: &str) -> Option<EnumType> {
        self.enumerations.get(name).copied()
    }

    /// Returns all enumerations, by name.
    pub fn enumerations(&self) -> impl Iterator<Item = EnumType> {
        self.enumerations.values().copied()
    }

    /// Adds an enumeration.
    pub fn create_enumeration(&mut self, name: String, labels: Vec<String>) {
        let oid = self.next_number();
        self.enumerations.insert(name.clone(), EnumType::of(Enumeration::new(name, oid, labels)));
    }

    /// Replaces an enumeration, also as the type of columns. Returns the changed tables. Stored values stay.
    pub fn replace_enumeration(&mut self, old: EnumType, new: Enumeration) -> Vec<Arc<Table>> {
        let new = EnumType::of(new);
        self.enumerations.remove(&old.definition().name);
        self.enumerations.insert(new.definition().name.clone(), new);
        let over = self.domains.values_mut().filter(|own| own.ty.element() == ScalarType::Enum(old));
        over.for_each(|own| own.ty = own.ty.with_element(ScalarType::Enum(new)));
        let mut changed = Vec::new();
        for table in self.tables.values_mut() {
            if table.columns.iter().any(|own| own.ty.element() == ScalarType::Enum(old)) {
                let of_type = Arc::make_mut(table).columns.iter_mut();
                let of_type = of_type.filter(|own| own.ty.element() == ScalarType::Enum(old));
                of_type.for_each(|own| own.ty = own.ty.with_element(ScalarType::Enum(new)));
                changed.push(Arc::clone(table));
            }
        }
        changed
    }

    /// Removes an enumeration, which no column has as its type.
    pub fn drop_enumeration(&mut self, name: &str) {
        self.enumerations.remove(name);
    }

    /// Returns a domain by name.
    pub fn domain(&self, name: &str) -> Option<&Domain> {
        self.domains.get(name)
    }

    /// Returns a domain and the domains under it, the lowest first.
    pub fn domains_under<'c>(&'c self, domain: &'c Domain) -> Vec<&'c Domain> {
        let under = std::iter::successors(Some(domain), |own| self.domain(own.base.as_deref()?));
        let mut all: Vec<_> = under.collect();
        all.reverse();
        all
    }

    /// Returns the names of a domain and of the domains over it.
    pub fn domains_over(&self, name: &str) -> Vec<String> {
        let is_over = |own: &&Domain| self.domains_under(own).iter().any(|under| under.name == name);
        self.domains().filter(is_over).map(|own| own.name.clone()).collect()
    }

    /// Returns the default of a column: its own, or that of its domain.
    pub fn default_of<'c>(&'c self, column: &'c Column) -> Option<&'c str> {
        let of_domain = || self.domain(column.domain.as_deref()?)?.default.as_deref();
        column.default.as_deref().or_else(of_domain)
    }

    /// Returns all domains, by name.
    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.values()
    }

    /// Returns the number in `pg_type` of an enumeration or domain by name.
    pub fn type_number(&self, name: &str) -> Option<u32> {
        let enumeration = self.enumeration(name).map(|own| own.definition().oid);
        enumeration.or_else(|| self.domain(name).map(|own| own.oid))
    }

    /// Adds a domain without constraints.
    pub fn create_domain(&mut self, name: String, ty: Type) -> Domain {
        let (oid, nullable, base, default) = (self.next_number(), true, None, None);
        let domain = Domain { name: name.clone(), oid, ty, base, nullable, default, checks: Vec::new() };
        self.domains.insert(name, domain.clone());
        domain
    }

    /// Replaces a domain, also as the domain of columns. Returns the changed tables. Stored values stay.
    pub fn replace_domain(&mut self, old: &str, new: Domain) -> Vec<Arc<Table>> {
        self.domains.remove(old);
        let mut changed = Vec::new();
        if new.name != old {
            let uses = |table: &Table| table.columns.iter().any(|own| own.domain.as_deref() == Some(old));
            for table in self.tables.values_mut().filter(|table| uses(table)) {
                let columns = Arc::make_mut(table).columns.iter_mut();
                let columns = columns.filter(|own| own.domain.as_deref() == Some(old));
                columns.for_each(|own| own.domain = Some(new.name.clone()));
                changed.push(Arc::clone(table));
            }
        }
        let over = self.domains.values_mut().filter(|own| own.base.as_deref() == Some(old));
        over.for_each(|own| own.base = Some(new.name.clone()));
        self.domains.insert(new.name.clone(), new);
        changed
    }

    /// Removes a domain, which no column has.
    pub fn drop_domain(&mut self, name: &str) {
        self.domains.remove(name);
    }
}
