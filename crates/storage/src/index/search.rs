//! A search for the record of a key, in stages. A caller that looks for many keys takes all of them through
//! one stage after the other, so that their cache misses overlap.

use super::key::{Buffer, Probe, ShortKey};
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

impl Index {
    /// Begins a search for a key.
    #[inline]
    pub fn begin(&self, key: &ShortKey, guard: &Guard) -> Search {
        self.check(guard);
        let mut buffer = Buffer::default();
        let probe = key.probe(&mut buffer);
        let hash = self.points.as_ref().and_then(|points| {
            let hash = points.hash(&probe)?;
            points.prefetch(hash, guard);
            Some(hash)
        });
        Search(hash.map_or_else(|| self.begin_in_tree(&probe, guard), Stage::Bucket))
    }

    fn begin_in_tree(&self, probe: &Probe<'_>, guard: &Guard) -> Stage {
        self.trees.approach(probe, guard).map_or(Stage::Nothing, Stage::Leaf)
    }

    /// Goes on to the next stage. Returns whether there is one behind it.
    #[inline]
    pub fn go_on(&self, search: &mut Search, key: &ShortKey, guard: &Guard) -> bool {
        let Search(stage) = search;
        match *stage {
            Stage::Bucket(hash) => {
                self.check(guard);
                if let Some(record) = self.points.as_ref().and_then(|points| points.guess(hash, guard)) {
                    record.prefetch();
                    *stage = Stage::Guess(record.handle());
                    return false;
                }
                *stage = self.begin_in_tree(&key.probe(&mut Buffer::default()), guard);
                true
            }
            Stage::Leaf(approach) => {
                *stage = self.arrive(&approach, &key.probe(&mut Buffer::default()), guard);
                false
            }
            Stage::Guess(_) | Stage::Found(_) | Stage::Nothing => false,
        }
    }

    /// Returns the record that a search has found; `None` when the caller must use `look_up`.
    #[inline]
    pub fn end<'g>(&self, search: &Search, key: &ShortKey, guard: &'g Guard) -> Option<Record<'g>> {
        match search.0 {
            Stage::Guess(handle) => {
                let (record, points) = (guard.record(handle), self.points.as_ref()?);
                points.confirms(record, &key.probe(&mut Buffer::default())).then_some(record)
            }
            Stage::Found(handle) => Some(guard.record(handle)),
            Stage::Bucket(_) | Stage::Leaf(_) | Stage::Nothing => None,
        }
    }

    /// Returns the stage after the leaf of a key was loaded. The leaf may no longer be the key's.
    fn arrive(&self, approach: &Approach, probe: &Probe<'_>, guard: &Guard) -> Stage {
        let value = self.trees.arrive(approach, probe, guard).flatten();
        value.map_or(Stage::Nothing, |value| {
            let record = self.record_at(value, guard);
            record.prefetch();
            self.learn(probe, record);
            Stage::Found(record.handle())
        })
    }

    /// Returns the record of a key, or an observation of the leaf where the key would be.
    #[inline]
    pub fn look_up<'g>(&self, key: &[u8], guard: &'g Guard) -> Result<Record<'g>, LeafObservation> {
        self.check(guard);
        let probe = Probe::new(key);
        if let Some(record) = self.points.as_ref().and_then(|points| points.find(&probe, guard)) {
            return Ok(record);
        }
        let (value, observed) = self.trees.get(&probe, guard);
        let record = self.record_at(value.ok_or(observed)?, guard);
        self.learn(&probe, record);
        Ok(record)
    }

    /// Returns the record of a key, and an observation of the leaf where the key is or would be.
    pub fn observe<'g>(&self, key: &[u8], guard: &'g Guard) -> (Option<Record<'g>>, LeafObservation) {
        self.check(guard);
        let (value, observed) = self.trees.get(&Probe::new(key), guard);
        (value.map(|value| self.record_at(value, guard)), observed)
    }

    #[inline]
    fn learn(&self, probe: &Probe<'_>, record: Record<'_>) {
        if let Some(points) = &self.points {
            points.learn(probe, record, || self.trees.estimated_length(record.guard()));
        }
    }
}
