//! A B+tree under optimistic lock coupling; its leaf versions validate scans against phantoms.
//! Source: Leis et al., "The ART of practical synchronization" (latches); Silo §4.6 (leaf versions as phantom
//! guard).
//!
//! Leaves are not linked. A scan descends again with the fence key of the leaf that it left, so unlinking an
//! empty leaf takes no latch of a neighbour.
//! Invariants: 1. a leaf's version changes whenever its set of keys does, and its count of additions whenever
//! it gets a key. 2. a key that is added in the range of a leaf that has left its tree adds to the leaf's
//! successor. Held by: `a_leaf_observation_sees_inserts`, `an_observation_outlives_its_leaf`.
#![allow(unsafe_code)]

use super::fingers::{Approach, Finger, Fingers};
use super::key::{Key, KeyShape, MAX_WORDS, Probe};
use super::node::{NODE_BYTES, Node, prefetch_node};
use super::observation::count_departure;
use super::{Direction, Entries, InsertOutcome, LeafChange, LeafObservation};
use crate::latch::Version;
use crate::memory::Freed;
use crate::{Guard, OutOfMemory};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering as MemoryOrdering};

/// Upper bound of the depth: no tree of 1,024-byte nodes that fits a machine is deeper.
const MAX_DEPTH: usize = 24;

#[derive(Debug)]
pub(super) struct Tree<K> {
    root: AtomicU64,
    /// The tree's number, unique in the process.
    number: u64,
    shape: PhantomData<K>,
}

/// The number of the next tree.
static NEXT_TREE: AtomicU64 = AtomicU64::new(0);

/// The leaf that a descent looks for.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// The leaf whose range contains the key.
    At(&'a Probe<'a>),
    /// The leaf of the greatest key below this one; the last leaf when `None`.
    Before(Option<&'a Probe<'a>>),
}

/// A node, and the version in which it is read.
pub(super) struct Visit<'g, K> {
    pub(super) node: &'g Node<K>,
    pub(super) version: Version,
}

impl<K> Clone for Visit<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Visit<'_, K> {}

/// The leaf where a key is or would be, under a parent that has room for one more child.
struct Place<'g, K> {
    leaf: Visit<'g, K>,
    parent: Option<Visit<'g, K>>,
    /// The upper bound of the leaf's range.
    fence: Option<[u64; MAX_WORDS]>,
}

struct Descent<'g, K> {
    leaf: Visit<'g, K>,
    /// The bound of the leaf's range: the upper one for `At`, the lower one for `Before`.
    fence: Option<Key<K>>,
}

impl<K: KeyShape> Tree<K> {
    pub(super) fn new(guard: &Guard) -> Result<Self, OutOfMemory> {
        let root = AtomicU64::new(Node::<K>::create(0, guard)?.address());
        Ok(Self { root, number: NEXT_TREE.fetch_add(1, MemoryOrdering::Relaxed), shape: PhantomData })
    }

    /// Reads the root; `None` while another thread replaces it.
    #[inline]
    pub(super) fn root<'g>(&self, guard: &'g Guard) -> Option<Visit<'g, K>> {
        let address = self.root.load(MemoryOrdering::Acquire);
        // SAFETY: the root pointer always names a live node (roots are never freed while they are the root).
        let node = unsafe { Node::<K>::at(address, guard) };
        let version = node.latch.read()?;
        (self.root.load(MemoryOrdering::Acquire) == address).then_some(Visit { node, version })
    }

    /// Descends one level; `None` when the node changed during the read.
    #[inline(always)]
    fn step<'g>(
        from: Visit<'g, K>,
        target: Target<'_>,
        fence: &mut Option<Key<K>>,
        guard: &'g Guard,
    ) -> Option<Visit<'g, K>> {
        let node = from.node;
        let slots = node.slots();
        let place = match target {
            Target::At(probe) => slots.upper_bound(probe),
            Target::Before(Some(probe)) => slots.lower_bound(probe),
            Target::Before(None) => slots.count(),
        };
        let child = slots.child(place);
        prefetch_node(child);
        match target {
            Target::At(_) if place < slots.count() => *fence = Some(slots.key(place)),
            Target::Before(_) if place > 0 => *fence = Some(slots.key(place - 1)),
            _ => {}
        }
        if !node.latch.validate(from.version) {
            return None;
        }
        // SAFETY: the pointer was validated, so it named a child of a live node during the guard's stay.
        let child = unsafe { Node::<K>::at(child, guard) };
        let version = child.latch.read()?;
        node.latch.validate(from.version).then_some(Visit { node: child, version })
    }

    #[inline]
    fn try_descend<'g>(&self, target: Target<'_>, guard: &'g Guard) -> Option<Descent<'g, K>> {
        let mut descent = Descent { leaf: self.root(guard)?, fence: None };
        while descent.leaf.node.level() > 0 {
            descent.leaf = Self::step(descent.leaf, target, &mut descent.fence, guard)?;
        }
        Some(descent)
    }

    #[inline]
    fn descend<'g>(&self, target: Target<'_>, guard: &'g Guard) -> Descent<'g, K> {
        loop {
            if let Some(descent) = self.try_descend(target, guard) {
                return descent;
            }
            std::hint::spin_loop();
        }
    }

    /// Descends to the parent of a key's leaf and prefetches that leaf. `None` when another thread changes
    /// the path, or when the tree is too shallow for a prefetch to pay.
    #[inline]
    pub(super) fn approach(&self, probe: &Probe<'_>, guard: &Guard) -> Option<Approach> {
        let mut at = self.root(guard)?;
        while at.node.level() > 1 {
            at = Self::step(at, Target::At(probe), &mut None, guard)?;
        }
        if at.node.level() == 0 {
            return None;
        }
        let slots = at.node.slots();
        let leaf = slots.child(slots.upper_bound(probe));
        prefetch_node(leaf);
        at.node.latch.validate(at.version).then(|| Approach {
            parent: at.node.address(),
            version: at.version,
            leaf,
            tree: self.number,
            stay: guard.stay(),
        })
    }

    /// Returns the parent and the leaf of an approach, if it is of this tree and this stay.
    #[inline]
    fn approached<'g>(&self, approach: &Approach, guard: &'g Guard) -> Option<(&'g Node<K>, &'g Node<K>)> {
        let is_near = approach.tree == self.number && approach.stay == guard.stay();
        // SAFETY: both were read from this tree and validated, in the stay that the guard still is in.
        is_near
            .then(|| unsafe { (Node::<K>::at(approach.parent, guard), Node::<K>::at(approach.leaf, guard)) })
    }

    /// Returns the value of a key in the leaf that was approached for it; `None` when the parent or the leaf
    /// has changed.
    #[inline]
    pub(super) fn arrive(
        &self,
        approach: &Approach,
        probe: &Probe<'_>,
        guard: &Guard,
    ) -> Option<Option<u64>> {
        let (parent, leaf) = self.approached(approach, guard)?;
        let version = leaf.latch.read()?;
        let slots = leaf.slots();
        let value = slots.find(probe).map(|slot| slots.value(slot));
        // An unchanged parent means that the key still belongs to this leaf.
        (leaf.latch.validate(version) && parent.latch.validate(approach.version)).then_some(value)
    }

    /// Returns the value of a key, and an observation of its leaf.
    #[inline]
    pub(super) fn get(&self, probe: &Probe<'_>, guard: &Guard) -> (Option<u64>, LeafObservation) {
        loop {
            let Visit { node: leaf, version } = self.descend(Target::At(probe), guard).leaf;
            let slots = leaf.slots();
            let value = slots.find(probe).map(|slot| slots.value(slot));
            if leaf.latch.validate(version) {
                return (value, LeafObservation { leaf: leaf.address(), version, stay: guard.stay() });
            }
        }
    }

    /// Returns the leaf of the last insert, if the key belongs to it and lies behind the last one.
    #[inline]
    fn follow<'g>(&self, finger: &Finger, probe: &Probe<'_>, guard: &'g Guard) -> Option<Place<'g, K>> {
        let Finger { approach, last, fence } = finger;
        let (parent, node) = self.approached(approach, guard)?;
        if !K::lies_between(last, probe, fence.as_ref()) {
            return None;
        }
        let version = node.latch.read()?;
        // An unchanged parent means that the leaf's range is as it was.
        parent.latch.validate(approach.version).then_some(Place {
            leaf: Visit { node, version },
            parent: Some(Visit { node: parent, version: approach.version }),
            fence: *fence,
        })
    }

    /// Adds a key unless it is present. Calls `on_change` for every change of a leaf.
    pub(super) fn insert(
        &self,
        key: &[u8],
        value: u64,
        guard: &Guard,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<InsertOutcome, OutOfMemory> {
        let probe = Probe::new(key);
        let finger = fingers.cell(self.number, &probe);
        let mut following = finger.take().and_then(|finger| self.follow(&finger, &probe, guard));
        let ascends = following.is_some();
        loop {
            let place = match following.take() {
                Some(place) => place,
                None => match self.descend_splitting(&probe, guard)? {
                    Some(place) => place,
                    None => continue,
                },
            };
            let Place { leaf, parent, fence } = place;
            let Visit { node, version } = leaf;
            let slots = node.slots();
            let count = slots.count();
            let slot = if ascends { slots.lower_bound_from_end(&probe) } else { slots.lower_bound(&probe) };
            if slots.is_at(slot, &probe) {
                let existing = slots.value(slot);
                if node.latch.validate(version) {
                    return Ok(InsertOutcome::Exists(existing));
                }
                continue;
            }
            if slots.is_full_for(&probe) {
                let keep = match slot {
                    _ if slot >= count => count - 1,
                    1.. if ascends => slot,
                    _ => count / 2,
                };
                if let Some(change) = self.split(parent, leaf, keep, guard)? {
                    on_change(change);
                }
                continue;
            }
            if !node.latch.validate(version) {
                continue;
            }
            let words = K::make(&probe, guard)?;
            if !node.latch.try_lock(version) {
                // SAFETY: the key was never linked.
                unsafe { K::retire(words, guard) };
                continue;
            }
            node.insert_slot(slot, words, value);
            let after = node.latch.unlock();
            *finger = match parent {
                Some(parent) if K::WHOLE => {
                    let (leaf, parent, version) = (node.address(), parent.node.address(), parent.version);
                    let (tree, stay) = (self.number, guard.stay());
                    Some(Finger {
                        approach: Approach { parent, version, leaf, tree, stay },
                        last: words.words(),
                        fence,
                    })
                }
                _ => None,
            };
            on_change(LeafChange::of(node.address(), version, after, guard));
            return Ok(InsertOutcome::Inserted);
        }
    }

    /// Descends to a leaf and splits full inner nodes on the way, so that the leaf's parent has room.
    fn descend_splitting<'g>(
        &self,
        probe: &Probe<'_>,
        guard: &'g Guard,
    ) -> Result<Option<Place<'g, K>>, OutOfMemory> {
        let Some(mut at) = self.root(guard) else { return Ok(None) };
        let (mut parent, mut fence) = (None, None);
        while at.node.level() > 0 {
            let slots = at.node.slots();
            if slots.is_full() {
                let count = slots.count();
                let keep = if slots.upper_bound(probe) < count { count / 2 } else { count - 1 };
                self.split(parent, at, keep, guard)?;
                return Ok(None);
            }
            let Some(child) = Self::step(at, Target::At(probe), &mut fence, guard) else { return Ok(None) };
            parent = Some(at);
            at = child;
        }
        Ok(Some(Place { leaf: at, parent, fence: fence.map(Key::words) }))
    }

    /// Splits a full node; the left one keeps `keep` slots. For ascending keys the caller chooses `keep` so
    /// that the left node stays full.
    fn split(
        &self,
        parent: Option<Visit<'_, K>>,
        full: Visit<'_, K>,
        keep: usize,
        guard: &Guard,
    ) -> Result<Option<LeafChange>, OutOfMemory> {
        let node = full.node;
        let slots = node.slots();
        if slots.count() < K::CAPACITY {
            return Ok(None);
        }
        let is_leaf = node.level() == 0;
        let separator = slots.key(keep);
        if !node.latch.validate(full.version) {
            return Ok(None);
        }
        let right = Node::<K>::create(node.level(), guard)?;
        let new_root = match parent {
            Some(_) => None,
            None => Some(Node::<K>::create(node.level() + 1, guard)?),
        };
        // A leaf keeps its key, so the parent gets a copy; an inner node's separator moves up.
        let separator = if is_leaf {
            let mut bytes = Vec::new();
            // SAFETY: read from a node of this tree, and validated.
            unsafe { write_key(separator, &mut bytes) };
            K::make(&Probe::new(&bytes), guard)?
        } else {
            separator
        };
        if !self.lock_for_split(parent, full) {
            // SAFETY: neither node nor the copied separator was ever linked.
            unsafe {
                right.free(guard);
                if let Some(root) = new_root {
                    root.free(guard);
                }
                if is_leaf {
                    K::retire(separator, guard);
                }
            }
            return Ok(None);
        }
        if is_leaf {
            node.move_tail(keep, right);
        } else {
            right.set_leftmost(slots.value(keep));
            node.move_tail(keep + 1, right);
            node.truncate(keep);
        }
        if let Some(root) = new_root {
            root.set_leftmost(node.address());
            root.insert_slot(0, separator, right.address());
            self.root.store(root.address(), MemoryOrdering::Release);
        } else if let Some(Visit { node: parent, .. }) = parent {
            let place = parent.slots().place_of(node.address()).expect("a locked parent names its child");
            parent.insert_slot(place, separator, right.address());
            parent.latch.unlock();
        }
        let sibling = right.latch.read().map(|version| (right.address(), version));
        let after = node.latch.unlock();
        let change = LeafChange::of(node.address(), full.version, after, guard);
        Ok(is_leaf.then_some(change.with_sibling(sibling)))
    }

    fn lock_for_split(&self, parent: Option<Visit<'_, K>>, full: Visit<'_, K>) -> bool {
        if let Some(parent) = parent
            && !parent.node.latch.try_lock(parent.version)
        {
            return false;
        }
        if !full.node.latch.try_lock(full.version) {
            if let Some(parent) = parent {
                parent.node.latch.unlock_unchanged();
            }
            return false;
        }
        if parent.is_none() && self.root.load(MemoryOrdering::Acquire) != full.node.address() {
            full.node.latch.unlock_unchanged();
            return false;
        }
        true
    }

    /// Removes a key and returns its value, unless the value differs from `expected`. Calls `on_change`,
    /// which returns whether the leaf must stay.
    pub(super) fn remove_own(
        &self,
        key: &[u8],
        expected: Option<u64>,
        guard: &Guard,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> Option<u64> {
        let mut stays = false;
        let (value, emptied) = self.take(key, expected, guard, &mut |change| stays = on_change(change))?;
        if emptied && !stays {
            self.unlink_empty(&Probe::new(key), guard);
        }
        Some(value)
    }

    /// Removes a key; returns its value, and whether its leaf is empty now. Calls `on_change` for the change
    /// of the leaf.
    fn take(
        &self,
        key: &[u8],
        expected: Option<u64>,
        guard: &Guard,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Option<(u64, bool)> {
        let probe = Probe::new(key);
        loop {
            let Visit { node, version } = self.descend(Target::At(&probe), guard).leaf;
            let slots = node.slots();
            let Some(slot) = slots.find(&probe) else {
                if node.latch.validate(version) {
                    return None;
                }
                continue;
            };
            if !node.latch.try_lock(version) {
                continue;
            }
            let (words, value) = (slots.key(slot), slots.value(slot));
            if expected.is_some_and(|expected| expected != value) {
                node.latch.unlock_unchanged();
                return None;
            }
            node.remove_slot(slot);
            let after = node.latch.unlock_after_removal();
            // SAFETY: the key was just removed from its node.
            unsafe { K::retire(words, guard) };
            on_change(LeafChange::of(node.address(), version, after, guard));
            return Some((value, slots.count() == 1));
        }
    }

    /// Unlinks the leaf of a key if it is empty, together with the ancestors that have no other child.
    fn unlink_empty(&self, probe: &Probe<'_>, guard: &Guard) {
        for _ in 0..8 {
            match self.try_unlink_empty(probe, guard) {
                Some(()) => return,
                None => std::hint::spin_loop(),
            }
        }
    }

    fn try_unlink_empty(&self, probe: &Probe<'_>, guard: &Guard) -> Option<()> {
        let mut path = [self.root(guard)?; MAX_DEPTH];
        let mut depth = 0;
        while path[depth].node.level() > 0 {
            path[depth + 1] = Self::step(path[depth], Target::At(probe), &mut None, guard)?;
            depth += 1;
        }
        if path[depth].node.slots().count() > 0 {
            return Some(());
        }
        // Finds the nearest ancestor with another child. Without one, the tree is empty and stays as it is.
        let Some(holder) = (0..depth).rev().find(|level| path[*level].node.slots().count() > 0) else {
            return Some(());
        };
        for level in holder..=depth {
            if !path[level].node.latch.try_lock(path[level].version) {
                for locked in &path[holder..level] {
                    locked.node.latch.unlock_unchanged();
                }
                return None;
            }
        }
        let (parent, child) = (path[holder].node, path[holder + 1].node.address());
        let slots = parent.slots();
        let place = slots.place_of(child).expect("a locked parent names its child");
        if holder + 1 == depth {
            let neighbour = slots.child(if place == 0 { 1 } else { place - 1 });
            // SAFETY: a child of a node whose latch this thread holds, so the child stays in the tree.
            let neighbour = unsafe { Node::<K>::at(neighbour, guard) };
            let version = neighbour.latch.read().expect("it leaves only under its parent's latch");
            path[depth].node.set_successor(neighbour, version);
            count_departure();
        }
        let slot = place.saturating_sub(1);
        let separator = slots.key(slot);
        if place == 0 {
            parent.set_leftmost(slots.value(0));
        }
        parent.remove_slot(slot);
        for gone in &path[holder + 1..=depth] {
            gone.node.latch.unlock_obsolete();
            // SAFETY: unlinked above, under the latches of the node and of its parent.
            unsafe { gone.node.retire(guard) };
        }
        parent.latch.unlock();
        // SAFETY: the separator was just removed from its node.
        unsafe { K::retire(separator, guard) };
        Some(())
    }

    /// Frees all nodes and keys; visits the values of all entries.
    ///
    /// # Safety
    /// No thread uses the tree, now or later.
    pub(super) unsafe fn take_apart(&mut self, freed: &mut Freed, mut visit: impl FnMut(u64, &mut Freed)) {
        let mut nodes = vec![*self.root.get_mut()];
        while let Some(address) = nodes.pop() {
            // SAFETY: the tree names the node, its owner holds the memory, and no other thread changes the
            // tree.
            let node = unsafe { Node::<K>::alone(address) };
            let slots = node.slots();
            match node.level() {
                0 => (0..slots.count()).for_each(|slot| visit(slots.value(slot), freed)),
                _ => nodes.extend((0..=slots.count()).map(|place| slots.child(place))),
            }
            // SAFETY: no thread reads them again, by the contract. Each key is in one node, because splits
            // copy or move keys.
            unsafe {
                (0..slots.count()).for_each(|slot| K::free(slots.key(slot), freed));
                freed.add(address, NODE_BYTES);
            }
        }
    }

    /// Reads the entries of one leaf inside a range: the range's first leaf, or its last when the scan
    /// descends. Appends them in the scan's order and moves the range's bound past the leaf. Returns an
    /// observation of the leaf and whether the range is exhausted.
    pub(super) fn read_leaf(
        &self,
        range: &mut super::KeyRange,
        direction: Direction,
        entries: &mut Entries,
        guard: &Guard,
    ) -> (LeafObservation, bool) {
        loop {
            let (lower, upper) = (Probe::new(&range.lower), range.upper.as_deref().map(Probe::new));
            let target = match direction {
                Direction::Forward => Target::At(&lower),
                Direction::Backward => Target::Before(upper.as_ref()),
            };
            let Descent { leaf: Visit { node: leaf, version }, fence } = self.descend(target, guard);
            let slots = leaf.slots();
            let start = slots.lower_bound(&lower);
            let end = upper.as_ref().map_or(slots.count(), |upper| slots.lower_bound(upper));
            let add = |slot: usize, entries: &mut Entries| {
                entries.values.push(slots.value(slot));
                if entries.with_keys {
                    // SAFETY: read from a node of this tree, below its count.
                    unsafe { K::append_bytes(slots.key(slot), &mut entries.keys) };
                    entries.key_ends.push(entries.keys.len());
                }
            };
            match direction {
                Direction::Forward => (start..end).for_each(|slot| add(slot, entries)),
                Direction::Backward => (start..end).rev().for_each(|slot| add(slot, entries)),
            }
            if !leaf.latch.validate(version) {
                entries.clear();
                continue;
            }
            let done = match (fence, direction) {
                (None, _) => true,
                (Some(fence), Direction::Forward) => {
                    // SAFETY: a descent of this tree read and validated it.
                    unsafe { write_key(fence, &mut range.lower) };
                    range.upper.as_ref().is_some_and(|upper| K::compare_bytes(&range.lower, upper).is_ge())
                }
                (Some(fence), Direction::Backward) => {
                    let upper = range.upper.get_or_insert_default();
                    // SAFETY: as above.
                    unsafe { write_key(fence, upper) };
                    K::compare_bytes(upper, &range.lower).is_le()
                }
            };
            return (LeafObservation { leaf: leaf.address(), version, stay: guard.stay() }, done);
        }
    }
}

/// # Safety
/// As for `KeyShape::append_bytes`.
pub(super) unsafe fn write_key<K: KeyShape>(key: Key<K>, out: &mut Vec<u8>) {
    out.clear();
    // SAFETY: passed on.
    unsafe { K::append_bytes(key, out) };
}
