//! Enumerations: types whose values are labels in an order.
//!
//! A value is held as the position of its label. Positions leave room between them, so that a label is added
//! anywhere without a change of stored values, and the order of the integers is that of the labels.
//! Definitions of one content are one object, which stays until the process ends, so that a type is copied
//! freely.
//! Invariant: a label keeps its position as long as the type exists. Held by:
//! `a_label_comes_where_it_is_wanted`.

use crate::ValueError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The distance between the positions of two labels that are declared side by side.
const ROOM: i64 = 1 << 32;

/// A label.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnumLabel {
    /// The text.
    pub text: String,
    /// The integer that stands for it.
    pub position: i64,
}

/// The definition of an enumeration. A checkpoint holds it, so no field is renamed.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enumeration {
    /// The name, preceded by its schema and a dot unless the schema is `public`.
    pub name: String,
    /// The number in `pg_type`; that of the type of arrays follows it.
    pub oid: u32,
    /// The labels, in the order of their positions.
    pub labels: Vec<EnumLabel>,
}

/// Where a label is added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelPlace {
    /// At the end.
    Last,
    /// Before a label.
    Before(String),
    /// After a label.
    After(String),
}

impl Enumeration {
    /// Makes an enumeration of labels in their order.
    pub fn new(name: String, oid: u32, labels: Vec<String>) -> Self {
        let label = |(place, text)| EnumLabel { text, position: place as i64 * ROOM };
        Self { name, oid, labels: labels.into_iter().enumerate().map(label).collect() }
    }

    fn place_of(&self, text: &str) -> Option<usize> {
        self.labels.iter().position(|own| own.text == text)
    }

    /// Returns whether there is a label.
    pub fn has(&self, text: &str) -> bool {
        self.place_of(text).is_some()
    }

    /// Returns the position of a label.
    ///
    /// # Errors
    /// `22P02`: there is no such label.
    pub fn position(&self, text: &str) -> Result<i64, ValueError> {
        let found = self.place_of(text).map(|place| self.labels[place].position);
        found.ok_or_else(|| {
            let name = self.short_name();
            ValueError::new("22P02", format!("invalid input value for enum {name}: \"{text}\""))
        })
    }

    /// Returns the label at a position; empty if there is none.
    pub fn label(&self, position: i64) -> &str {
        let place = self.labels.binary_search_by_key(&position, |own| own.position);
        place.map_or("", |place| &self.labels[place].text)
    }

    /// Returns the name without its schema.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    fn existing(&self, text: &str) -> Result<usize, ValueError> {
        let missing = || ValueError::new("22023", format!("\"{text}\" is not an existing enum label"));
        self.place_of(text).ok_or_else(missing)
    }

    fn refuse_existing(&self, text: &str) -> Result<(), ValueError> {
        match self.has(text) {
            true => Err(ValueError::new("42710", format!("enum label \"{text}\" already exists"))),
            false => Ok(()),
        }
    }

    /// Adds a label.
    ///
    /// # Errors
    /// `42710`: it exists. `22023`: the label beside it does not. `0A000`: there is no room left.
    pub fn add(&mut self, text: String, place: &LabelPlace) -> Result<(), ValueError> {
        self.refuse_existing(&text)?;
        let place = match place {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(other) => self.existing(other)?,
            LabelPlace::After(other) => self.existing(other)? + 1,
        };
        let before = place.checked_sub(1).map(|place| self.labels[place].position);
        let position = match (before, self.labels.get(place).map(|own| own.position)) {
            (None, None) => Some(0),
            (Some(before), None) => before.checked_add(ROOM),
            (None, Some(after)) => after.checked_sub(ROOM),
            (Some(before), Some(after)) => Some(before + (after - before) / 2).filter(|own| *own > before),
        };
        let full = || ValueError::new("0A000", "a further label between these two is not supported");
        self.labels.insert(place, EnumLabel { text, position: position.ok_or_else(full)? });
        Ok(())
    }

    /// Renames a label.
    ///
    /// # Errors
    /// `22023`: it does not exist. `42710`: the new one does.
    pub fn rename(&mut self, old: &str, new: String) -> Result<(), ValueError> {
        let place = self.existing(old)?;
        self.refuse_existing(&new)?;
        self.labels[place].text = new;
        Ok(())
    }
}

/// An enumeration as a type of values.
#[derive(Clone, Copy, Debug)]
pub struct EnumType(&'static Enumeration);

impl EnumType {
    /// Returns the type of a definition.
    pub fn of(definition: Enumeration) -> Self {
        static KNOWN: LazyLock<Mutex<HashSet<&'static Enumeration>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = known.get(&definition) {
            return Self(own);
        }
        let own: &'static Enumeration = Box::leak(Box::new(definition));
        known.insert(own);
        Self(own)
    }

    /// Returns the definition.
    pub fn definition(self) -> &'static Enumeration {
        self.0
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.oid.hash(state);
    }
}

impl Serialize for EnumType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EnumType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Enumeration::deserialize(deserializer).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_comes_where_it_is_wanted() {
        let mut own = Enumeration::new("t".into(), 1, vec!["b".into(), "d".into()]);
        let before = own.clone();
        own.add("a".into(), &LabelPlace::Before("b".into())).unwrap();
        own.add("e".into(), &LabelPlace::Last).unwrap();
        own.add("c".into(), &LabelPlace::After("b".into())).unwrap();
        let texts: Vec<&str> = own.labels.iter().map(|own| own.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c", "d", "e"]);
        assert!(own.labels.is_sorted_by_key(|own| own.position));
        for label in &before.labels {
            assert_eq!(own.position(&label.text), Ok(label.position), "a label keeps its position");
        }
        let twice = own.add("c".into(), &LabelPlace::Last).unwrap_err();
        assert_eq!(twice.sqlstate, "42710");
        let mut added = 0;
        while own.add(format!("x{added}"), &LabelPlace::After("b".into())).is_ok() {
            added += 1;
        }
        assert_eq!(added, 31, "room for as many labels is left between two");
        assert!(own.labels.is_sorted_by_key(|own| own.position));
        assert_eq!(EnumType::of(own.clone()), EnumType::of(own));
    }
}
