//! Looks that need many granules of a table: background threads help with them before they go on.

use catalog::TableId;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The granules that a look needs, each handed out once.
#[derive(Debug)]
struct Demand {
    table: TableId,
    end: usize,
    /// The next granule that no thread has been given.
    next: AtomicUsize,
}

impl Demand {
    fn next(&self) -> Option<usize> {
        // A place behind the end may grow by one a thread and call, and a look has few of both.
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|granule| *granule < self.end)
    }
}

/// The looks that wait for many granules.
#[derive(Default, Debug)]
pub(super) struct Demands {
    open: Mutex<Vec<Arc<Demand>>>,
    /// The number of them, so that threads need no lock where there is none.
    count: AtomicUsize,
}

impl Demands {
    /// Begins a look into these granules of a table.
    pub(super) fn begin(&self, table: TableId, granules: Range<usize>) -> Open<'_> {
        let demand = Arc::new(Demand { table, end: granules.end, next: AtomicUsize::new(granules.start) });
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(Arc::clone(&demand));
        self.count.store(open.len(), Ordering::Relaxed);
        Open { demands: self, demand }
    }

    /// Returns a granule that the oldest look needs and that no thread has been given.
    pub(super) fn next(&self) -> Option<(TableId, usize)> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().find_map(|demand| Some((demand.table, demand.next()?)))
    }
}

/// A look that has begun; it ends when this is dropped.
pub(super) struct Open<'d> {
    demands: &'d Demands,
    demand: Arc<Demand>,
}

impl Open<'_> {
    /// Returns the next granule that no thread has been given.
    pub(super) fn next(&self) -> Option<usize> {
        self.demand.next()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut open = self.demands.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|demand| !Arc::ptr_eq(demand, &self.demand));
        self.demands.count.store(open.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each granule is given out once, of the older look first; nothing of one that has ended.
    #[test]
    fn granules_are_given_out_once() {
        let demands = Demands::default();
        assert_eq!(demands.next(), None);
        let (first, second) = (demands.begin(TableId(1), 3..5), demands.begin(TableId(2), 0..9));
        assert_eq!((first.next(), demands.next()), (Some(3), Some((TableId(1), 4))));
        assert_eq!((first.next(), demands.next()), (None, Some((TableId(2), 0))));
        drop(second);
        assert_eq!(demands.next(), None);
    }
}
