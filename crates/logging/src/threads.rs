//! Work that several threads share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns what `work` makes of each number below `count`, in order. Each of the threads takes the next
/// number that none has.
///
/// # Panics
/// `work` panics.
pub fn on_threads<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let run = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = numbers.take_while(|number| *number < count);
        own.map(|number| (number, work(number))).collect::<Vec<_>>()
    };
    if threads.min(count) <= 1 {
        return (0..count).map(work).collect();
    }
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.min(count)).map(|_| scope.spawn(run)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("the work does not panic")).collect()
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for (threads, count) in [(0, 3), (1, 3), (4, 3), (4, 1000), (4, 0)] {
            let made = on_threads(threads, count, |number| number * 2);
            assert_eq!(made, (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
    }
}
