//! A search for the record of a key, in stages. A caller that looks for many keys takes all of them through
//! one stage after the other, so that their cache misses overlap.

use super::key::Probe;
use super::{Approach, Index, LeafObservation};
use crate::{Guard, Handle, Record};

/// A search that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Search(Stage);

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The bucket of this hash in the point cache is being loaded.
    Bucket(u64),
    /// This record is being loaded. Its key is still to be compared.
    Guess(Handle),
    /// The leaf of the key is being loaded.
    Leaf(Approach),
    /// This record is being loaded.
    Found(Handle),
    /// The key is unknown, or its place has changed.
    Nothing,
}

impl Search {
    /// Returns the search that has found nothing.
    pub const NOTHING: Self = Self(Stage::Nothing);
}

impl Index {
    /// Begins a search for a key.
    #[inline]
    pub fn begin(&self, key: &[u8], guard: &Guard) -> Search {
        self.check(guard);
        let hash = self.points.as_ref().and_then(|points| {
            let hash = points.hash(&Probe::new(key))?;
            points.prefetch(hash, guard);
            Some(hash)
        });
        Search(hash.map_or_else(|| self.begin_in_tree(key, guard), Stage::Bucket))
    }

    #[inline]
    fn begin_in_tree(&self, key: &[u8], guard: &Guard) -> Stage {
        self.trees.approach(key, guard).map_or(Stage::Nothing, Stage::Leaf)
    }

    /// Goes on to the next stage. Returns whether there is one behind it.
    #[inline]
    pub fn go_on(&self, search: &mut Search, key: &[u8], guard: &Guard) -> bool {
        let Search(stage) = search;
        match *stage {
            Stage::Bucket(hash) => {
                self.check(guard);
                let guess = self.points.as_ref().and_then(|points| points.guess(hash, guard));
                *stage = guess.map_or_else(
                    || self.begin_in_tree(key, guard),
                    |record| {
                        record.prefetch();
                        Stage::Guess(record.handle())
                    },
                );
                matches!(stage, Stage::Leaf(_))
            }
            Stage::Leaf(approach) => {
                let found = self.arrive(&approach, key, guard).flatten();
                *stage = found.map_or(Stage::Nothing, |record| {
                    record.prefetch();
                    Stage::Found(record.handle())
                });
                false
            }
            Stage::Guess(_) | Stage::Found(_) | Stage::Nothing => false,
        }
    }

    /// Returns the record that a search has found; `None` when the caller must use `look_up`.
    #[inline]
    pub fn end<'g>(&self, search: Search, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        match search.0 {
            Stage::Guess(handle) => {
                let (record, points) = (guard.record(handle), self.points.as_ref()?);
                points.confirms(record, &Probe::new(key)).then_some(record)
            }
            Stage::Found(handle) => Some(guard.record(handle)),
            Stage::Bucket(_) | Stage::Leaf(_) | Stage::Nothing => None,
        }
    }

    /// Returns the record of an approached key; `None` when the leaf may no longer be the key's.
    #[inline]
    fn arrive<'g>(&self, approach: &Approach, key: &[u8], guard: &'g Guard) -> Option<Option<Record<'g>>> {
        let value = self.trees.arrive(approach, key, guard)?;
        let record = value.map(|value| self.record_at(value, guard));
        if let Some(record) = record {
            self.learn(key, record);
        }
        Some(record)
    }

    /// Returns the record of a key, or an observation of the leaf where the key would be.
    #[inline]
    pub fn look_up<'g>(&self, key: &[u8], guard: &'g Guard) -> Result<Record<'g>, LeafObservation> {
        self.check(guard);
        if let Some(record) = self.points.as_ref().and_then(|points| points.find(&Probe::new(key), guard)) {
            return Ok(record);
        }
        let (value, observed) = self.trees.get(key, guard);
        let record = self.record_at(value.ok_or(observed)?, guard);
        self.learn(key, record);
        Ok(record)
    }

    #[inline]
    fn learn(&self, key: &[u8], record: Record<'_>) {
        if let Some(points) = &self.points {
            points.learn(&Probe::new(key), record, || self.trees.estimated_length(record.guard()));
        }
    }
}
