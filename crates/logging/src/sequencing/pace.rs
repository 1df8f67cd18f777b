//! How long a logger rests between two batches.
//!
//! While cores are idle it does not rest: the next batch begins as soon as the last is durable. Once the process keeps
//! all cores busy, every batch takes one from the workers, twice a batch; then larger batches, further apart, leave the
//! cores to the workers. The kernel tells how much processor time the process has used.

use std::time::{Duration, Instant};

/// The longest rest.
const LONGEST: Duration = Duration::from_millis(4);
/// The shortest rest that is worth one.
const SHORTEST: Duration = Duration::from_micros(250);
/// The kernel is asked this often; it counts in hundredths of a second.
const ASK_EVERY: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(10);
/// Cores are short when more than this part of them is busy, in percent.
const CROWDED: u32 = 90;
/// Cores are there when less than this part of them is busy, in percent.
const CALM: u32 = 80;

/// One logger's pace.
#[derive(Debug)]
pub(super) struct Pace {
    floor: Duration,
    rest: Duration,
    cores: u32,
    asked: Instant,
    used: Option<Duration>,
}

impl Pace {
    /// Batches begin at least `floor` apart.
    pub(super) fn new(floor: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Self { floor, rest: Duration::ZERO, cores, asked: Instant::now(), used: processor_time() }
    }

    /// How long to rest after a batch that took a time.
    pub(super) fn rest_after(&mut self, batch: Duration) -> Duration {
        let elapsed = self.asked.elapsed();
        if elapsed >= ASK_EVERY
            && let (Some(before), Some(now)) = (self.used, processor_time())
        {
            (self.used, self.asked) = (Some(now), Instant::now());
            self.adjust(now.saturating_sub(before), elapsed * self.cores);
        }
        self.rest.max(self.floor).saturating_sub(batch)
    }

    fn adjust(&mut self, used: Duration, available: Duration) {
        if used > available * CROWDED / 100 {
            self.rest = (self.rest * 2).clamp(SHORTEST, LONGEST);
        } else if used < available * CALM / 100 {
            self.rest = if self.rest > SHORTEST { self.rest / 2 } else { Duration::ZERO };
        }
    }
}

/// Processor time that this process has used; `None` where the system does not say.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may hold anything; the times are the 12th and 13th words behind it.
    let mut words = text[text.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_only_where_cores_are_short() {
        let mut pace = Pace::new(Duration::ZERO);
        for _ in 0..20 {
            pace.adjust(Duration::from_millis(195), Duration::from_millis(200));
        }
        assert_eq!(pace.rest, LONGEST);
        for _ in 0..20 {
            pace.adjust(Duration::from_millis(120), Duration::from_millis(200));
        }
        assert_eq!(pace.rest_after(Duration::ZERO), Duration::ZERO);
        let mut floored = Pace::new(Duration::from_millis(1));
        assert_eq!(floored.rest_after(Duration::from_micros(300)), Duration::from_micros(700));
    }
}
