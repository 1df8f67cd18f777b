//! The share of a session's time that calls take.
//!
//! A session that is always in a call runs as fast as it can. Each batch of the log then takes time from its
//! core: for the write, and for the device's interrupts. A session that pauses between calls gains more from
//! an early commit. The log distinguishes the two (`LogSet::note_saturation`).

use std::time::{Duration, Instant};

/// Number of calls per measured call.
const MEASURE_EVERY: u32 = 16;
/// Measured calls per verdict.
const JUDGED: u32 = 64;
/// A session is saturated if calls take more than this share of its time, in percent.
const SATURATED: u32 = 75;

/// The measurement of one session.
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
    /// Notes the begin of a call. Returns whether the session is saturated after each `JUDGED` measured
    /// calls, and `None` after all other calls.
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

    /// Notes the end of a call.
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
