//! What was served while as many ran as were allowed.

use core::time::Duration;

use crate::time::Instant;

/// A window in which less than this part was spent with as many inside as allowed says little
/// about the limit.
const LOADED: f64 = 0.5;

/// A window ends without a result after so many times the requests that it needs, if most of them
/// ended while fewer ran than were allowed.
const IDLE: u32 = 4;

/// Where clients give up this part of the requests inside, and latencies show that they queue
/// there, too many are inside.
const GIVEN_UP: f64 = 0.1;

/// Those who exceed a new limit are waited for at most so many times as long as a request takes.
const DRAIN: u32 = 8;

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
    /// For how long a new limit is left to show, and until when at most those who exceed it are
    /// waited for before that.
    settle: Duration,
    drained_by: Instant,
    /// Requests served while full, each with its weight, less those that were given up.
    pub(super) work: f64,
    /// All of those requests.
    pub(super) count: u32,
    /// Seconds for which it was full.
    pub(super) seconds: f64,
    /// All that ended, and what they took in seconds.
    pub(super) ended: u32,
    /// Those of them that their clients gave up.
    abandoned: u32,
    latency_sum: f64,
    square_sum: f64,
}

impl Window {
    /// Begins anew, under `limit`. If it is another one, what counts begins once those who exceed
    /// it have left, since they are not as those who enter are, and `latency` seconds more have
    /// passed.
    pub(super) fn begin(&mut self, now: Instant, limit: u32, latency: f64) {
        let latency = if limit == self.limit { 0.0 } else { latency };
        let settle = Duration::try_from_secs_f64(latency).unwrap_or_default();
        let (in_flight, last) = (self.in_flight, self.last);
        // A gate lets in a few more than its limit at any time: see there.
        let drained_by = if in_flight > limit { now + settle * DRAIN } else { now };
        let settled_at = now + settle;
        *self = Self { limit, in_flight, last, settled_at, settle, drained_by, ..Self::default() };
    }

    /// Time has passed until `now`, and from now on so many are inside.
    pub(super) fn pass(&mut self, now: Instant, in_flight: u32) {
        if self.is_draining(now) {
            self.settled_at = now + self.settle;
        }
        let from = self.last.max(self.settled_at);
        if self.is_full() {
            self.seconds += now.since(from).as_secs_f64();
        }
        self.last = self.last.max(now);
        self.in_flight = in_flight;
    }

    fn is_draining(&self, now: Instant) -> bool {
        self.in_flight > self.limit && now < self.drained_by
    }

    /// One was served, and is still counted as inside.
    pub(super) fn on_served(&mut self, now: Instant, latency: f64, weight: f64) {
        self.on_end(now, latency, weight);
    }

    /// One was given up by its client, and is still counted as inside. It took a place, and work
    /// that was in vain: who let it in should have refused it.
    pub(super) fn on_abandoned(&mut self, now: Instant, latency: f64, weight: f64) {
        self.abandoned += u32::from(now >= self.settled_at);
        self.on_end(now, latency, -weight);
    }

    fn on_end(&mut self, now: Instant, latency: f64, weight: f64) {
        if now < self.settled_at {
            return;
        }
        self.ended += 1;
        self.latency_sum += latency;
        self.square_sum += latency * latency;
        if self.is_full() {
            self.work += weight;
            self.count += 1;
        }
    }

    /// Enough has been seen: so many ended at the limit, for as long as one takes.
    pub(super) fn is_complete(&self, now: Instant, need: u32) -> bool {
        self.count >= need && now.since(self.settled_at).as_secs_f64() >= self.latency()
    }

    /// Most of what ended did not need the limit.
    pub(super) fn is_idle(&self, need: u32) -> bool {
        self.ended >= need.saturating_mul(IDLE)
    }

    /// Whether it was mostly full.
    pub(super) fn is_loaded(&self) -> bool {
        let all = self.last.since(self.settled_at).as_secs_f64();
        self.seconds >= LOADED * all
    }

    /// Mean latency in seconds; infinite if nothing ended.
    pub(super) fn latency(&self) -> f64 {
        self.latency_or(f64::INFINITY)
    }

    /// The square of the latencies' deviation over their mean; not finite if nothing ended.
    pub(super) fn spread(&self) -> f64 {
        let (count, mean) = (f64::from(self.ended), self.latency());
        (self.square_sum / count / (mean * mean) - 1.0).max(0.0) * count / (count - 1.0)
    }

    /// The mean latency, or `unknown`.
    pub(super) fn latency_or(&self, unknown: f64) -> f64 {
        if self.ended == 0 { unknown } else { self.latency_sum / f64::from(self.ended) }
    }

    /// Mean latency in seconds of those inside while it was full, by Little's law. What ends
    /// soonest ends first: at the beginning it is more than [`latency`](Self::latency).
    pub(super) fn sojourn(&self) -> f64 {
        let inside = f64::from(self.limit) * self.seconds / f64::from(self.count.max(1));
        inside.max(self.latency())
    }

    /// Whether clients gave up a part of those inside that is no accident.
    pub(super) fn is_given_up(&self) -> bool {
        f64::from(self.abandoned) >= GIVEN_UP * f64::from(self.ended.max(1))
    }

    /// Requests that are inside.
    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_full(&self) -> bool {
        self.in_flight >= self.limit
    }
}
