//! How long a logger rests between two batches.
//!
//! With a core to itself it does not rest: the next batch begins as soon as the last is durable. Where it has to wait for
//! a core, every batch takes one from the workers; then larger batches, further apart, cost the same latency as the
//! waiting did and leave the cores to the workers. The kernel tells how long the thread was ready but not running.

use std::time::{Duration, Instant};

/// The longest rest.
const LONGEST: Duration = Duration::from_millis(4);
/// The shortest rest that is worth one.
const SHORTEST: Duration = Duration::from_micros(250);
/// The kernel is asked this often.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Cores are short when the thread waits for one for more than this part of the time (1 in so many).
const CROWDED: u32 = 50;
/// Cores are there when it waits for less than this part of the time (1 in so many).
const CALM: u32 = 400;

/// One logger's pace.
#[derive(Debug)]
pub(super) struct Pace {
    floor: Duration,
    rest: Duration,
    asked: Instant,
    waited: Option<Duration>,
}

impl Pace {
    /// Batches begin at least `floor` apart.
    pub(super) fn new(floor: Duration) -> Self {
        Self { floor, rest: Duration::ZERO, asked: Instant::now(), waited: waited_for_core() }
    }

    /// How long to rest after a batch that took a time.
    pub(super) fn rest_after(&mut self, batch: Duration) -> Duration {
        let elapsed = self.asked.elapsed();
        if elapsed >= ASK_EVERY
            && let (Some(before), Some(now)) = (self.waited, waited_for_core())
        {
            (self.waited, self.asked) = (Some(now), Instant::now());
            self.adjust(now.saturating_sub(before), elapsed);
        }
        self.rest.max(self.floor).saturating_sub(batch)
    }

    fn adjust(&mut self, waited: Duration, elapsed: Duration) {
        if waited > elapsed / CROWDED {
            self.rest = (self.rest * 2).clamp(SHORTEST, LONGEST);
        } else if waited < elapsed / CALM {
            self.rest = if self.rest > SHORTEST { self.rest / 2 } else { Duration::ZERO };
        }
    }
}

/// How long this thread was ready to run but had no core; `None` where the system does not say.
fn waited_for_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_only_where_cores_are_short() {
        let mut pace = Pace::new(Duration::ZERO);
        for _ in 0..20 {
            pace.adjust(Duration::from_millis(2), Duration::from_millis(20));
        }
        assert_eq!(pace.rest, LONGEST);
        for _ in 0..20 {
            pace.adjust(Duration::ZERO, Duration::from_millis(20));
        }
        assert_eq!(pace.rest_after(Duration::ZERO), Duration::ZERO);
        let mut floored = Pace::new(Duration::from_millis(1));
        assert_eq!(floored.rest_after(Duration::from_micros(300)), Duration::from_micros(700));
    }
}
