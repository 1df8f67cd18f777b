//! How much of a session's time goes into calls.
//!
//! A session that is always in a call submits as fast as it can, so every batch of the log that is written
//! takes time from it: from its core, and from the device's interrupts on that core. One that pauses between
//! calls would rather have its commits soon. The log asks for this difference.

use std::time::{Duration, Instant};

/// One call in this many is measured.
const MEASURE_EVERY: u32 = 16;
/// Measured calls that are judged together.
const JUDGED: u32 = 64;
/// Saturated means in calls for more than this part of the time, in percent.
const SATURATED: u32 = 75;

/// One session's measure.
#[derive(Default, Debug)]
pub(crate) struct Utilization {
    calls: u32,
    begun: Option<Instant>,
    in_call: Duration,
    busy: Duration,
    whole: Duration,
    measured: u32,
}

impl Utilization {
    /// To be called when a call begins. Whether the session turned out to be saturated; `None` mostly, as
    /// that takes some calls to tell.
    #[inline]
    pub(crate) fn call_begins(&mut self) -> Option<bool> {
        self.calls += 1;
        if !self.calls.is_multiple_of(MEASURE_EVERY) && self.begun.is_none() {
            return None;
        }
        self.measure(Instant::now())
    }

    fn measure(&mut self, now: Instant) -> Option<bool> {
        let Some(begun) = self.begun.take() else {
            self.begun = Some(now);
            return None;
        };
        self.busy += self.in_call;
        self.whole += now - begun;
        self.measured += 1;
        if self.measured < JUDGED {
            return None;
        }
        let saturated = self.busy > self.whole * SATURATED / 100;
        (self.busy, self.whole, self.measured) = (Duration::ZERO, Duration::ZERO, 0);
        Some(saturated)
    }

    /// To be called when a call ends.
    #[inline]
    pub(crate) fn call_ends(&mut self) {
        if let Some(begun) = self.begun {
            self.in_call = begun.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_calls_are_told_from_none() {
        for (pause, expected) in [(1, true), (30, false)] {
            let mut utilization = Utilization::default();
            let mut now = Instant::now();
            let mut judged = Vec::new();
            for _ in 0..300 {
                judged.extend(utilization.measure(now));
                utilization.in_call = Duration::from_micros(10);
                now += Duration::from_micros(10 + pause);
            }
            assert_eq!(judged, [expected, expected], "pauses of {pause} µs");
        }
    }
}
