//! What was served while as many ran as were allowed.

use core::time::Duration;

use crate::time::Instant;

/// A window in which less than this part was spent with as many inside as allowed says little
/// about the limit.
const LOADED: f64 = 0.5;

/// A window ends without a result after so many times the requests that it needs, if most of them
/// ended while fewer ran than were allowed.
const IDLE: u32 = 4;

/// Counts of one limit over some time.
///
/// Throughput is taken over the time in which as many were inside as the limit allows, whether
/// somebody waited or not. It is the same at any load then, and a gate need not be overloaded to
/// find out that it lets in too few.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    limit: u32,
    in_flight: u32,
    last: Instant,
    settled_at: Instant,
    /// Requests served while full, each with its weight.
    pub(super) work: f64,
    /// Those requests.
    pub(super) count: u32,
    /// Seconds for which it was full.
    pub(super) seconds: f64,
    /// All that were served, and what they took in seconds.
    pub(super) served: u32,
    latency_sum: f64,
}

impl Window {
    /// Begins anew, under `limit`. What ends within the first `latency` seconds began under another
    /// limit, and within twice that, if too many are still inside.
    pub(super) fn begin(&mut self, now: Instant, limit: u32, latency: f64) {
        let is_draining = self.in_flight > limit;
        let settle = if limit == self.limit { 0.0 } else { latency };
        let settle = if is_draining { settle * 2.0 } else { settle };
        let settle = Duration::try_from_secs_f64(settle).unwrap_or_default();
        let (in_flight, last) = (self.in_flight, self.last);
        *self = Self { limit, in_flight, last, settled_at: now + settle, ..Self::default() };
    }

    /// Time has passed until `now`, and from now on so many are inside.
    pub(super) fn pass(&mut self, now: Instant, in_flight: u32) {
        let from = self.last.max(self.settled_at);
        if self.is_full() {
            self.seconds += now.since(from).as_secs_f64();
        }
        self.last = self.last.max(now);
        self.in_flight = in_flight;
    }

    /// One was served, and is still counted as inside.
    pub(super) fn on_served(&mut self, now: Instant, latency: f64, weight: f64) {
        if now < self.settled_at {
            return;
        }
        self.served += 1;
        self.latency_sum += latency;
        if self.is_full() {
            self.work += weight;
            self.count += 1;
        }
    }

    /// Enough has been seen: so many served at the limit, for as long as one takes.
    pub(super) fn is_complete(&self, now: Instant, need: u32) -> bool {
        self.count >= need && now.since(self.settled_at).as_secs_f64() >= self.latency()
    }

    /// Most of what was served did not need the limit.
    pub(super) fn is_idle(&self, need: u32) -> bool {
        self.served >= need.saturating_mul(IDLE)
    }

    /// Whether it was mostly full.
    pub(super) fn is_loaded(&self) -> bool {
        let all = self.last.since(self.settled_at).as_secs_f64();
        self.seconds >= LOADED * all
    }

    /// Mean latency in seconds; infinite if nothing was served.
    pub(super) fn latency(&self) -> f64 {
        self.latency_or(f64::INFINITY)
    }

    /// The same, or `unknown`.
    pub(super) fn latency_or(&self, unknown: f64) -> f64 {
        if self.served == 0 { unknown } else { self.latency_sum / f64::from(self.served) }
    }

    fn is_full(&self) -> bool {
        self.in_flight >= self.limit
    }
}
