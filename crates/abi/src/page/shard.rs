//! Counters, in shards so that threads do not wait for each other's cache lines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One part of a service's counters.
///
/// Any thread may use any shard; threads that use different ones do not disturb each other. Every
/// request that [arrives](Self::on_arrival) ends in exactly one of the three ways below.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Shard {
    pub(super) arrived: AtomicU64,
    pub(super) served: AtomicU64,
    pub(super) shed: AtomicU64,
    pub(super) unserved: AtomicU64,
    pub(super) exec_ns: AtomicU64,
    pub(super) pool_wait_ns: AtomicU64,
    pub(super) time_from_start_ns: AtomicU64,
    pub(super) upstream_exec_ns: AtomicU64,
    pub(super) hinted: AtomicU64,
    pub(super) started: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) waiting_since_ns: AtomicU64,
}

/// What one request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// From arrival to reply, without waits for downstream services' replies, with waits for a free
    /// connection to them (`execTime`, SurgeGuard §III-A), nanoseconds.
    pub exec_ns: u64,
    /// Waits for a free connection within that (`timeWaitingForFreeConn`), nanoseconds.
    pub pool_wait_ns: u64,
    /// From the start of its job to its arrival, nanoseconds; `None` if it does not say when that
    /// was, or is not believed.
    pub time_from_start_ns: Option<u64>,
    /// Execution at the services before this one, nanoseconds; 0 if it does not say. It counts only
    /// beside a time from the start, from which it is taken.
    pub upstream_exec_ns: u64,
    /// Whether it arrived with an upscale hint above zero.
    pub is_hinted: bool,
}

impl Shard {
    /// A request has arrived, and is in flight until it ends.
    pub fn on_arrival(&self) {
        self.arrived.fetch_add(1, Relaxed);
    }

    /// A request begins to wait for a connection to another service; monotonic nanoseconds.
    pub fn on_wait(&self, now_ns: u64) {
        self.waiting.fetch_add(1, Relaxed);
        self.waiting_since_ns.fetch_add(now_ns, Relaxed);
    }

    /// The wait that began then is over. It need not be the same shard.
    pub fn on_waited(&self, since_ns: u64) {
        self.waiting.fetch_sub(1, Relaxed);
        self.waiting_since_ns.fetch_sub(since_ns, Relaxed);
    }

    /// A request was served.
    pub fn on_completion(&self, sample: &Sample) {
        self.served.fetch_add(1, Relaxed);
        self.exec_ns.fetch_add(sample.exec_ns, Relaxed);
        // An addition costs more than the question whether there is something to add.
        add(&self.pool_wait_ns, sample.pool_wait_ns);
        if let Some(time_from_start_ns) = sample.time_from_start_ns {
            self.started.fetch_add(1, Relaxed);
            add(&self.time_from_start_ns, time_from_start_ns);
            add(&self.upstream_exec_ns, sample.upstream_exec_ns);
        }
        add(&self.hinted, sample.is_hinted.into());
    }

    /// A request was refused because there was no CPU for it in time.
    pub fn on_shed(&self) {
        self.shed.fetch_add(1, Relaxed);
    }

    /// So many requests were refused for want of CPU before the service saw them: by the kernel.
    pub fn on_bounced(&self, requests: u64) {
        add(&self.arrived, requests);
        add(&self.shed, requests);
    }

    /// A request ended without being served for another reason: cancelled, refused at a lock,
    /// failed before it ran.
    pub fn on_unserved(&self) {
        self.unserved.fetch_add(1, Relaxed);
    }
}

fn add(sum: &AtomicU64, increment: u64) {
    if increment != 0 {
        sum.fetch_add(increment, Relaxed);
    }
}

/// Sums of all shards since the service began. They only grow, but for
/// `in_flight` and those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were served.
    pub requests: u64,
    /// Requests in it now.
    pub in_flight: u64,
    /// Sum of [`Sample::exec_ns`].
    pub exec_ns: u64,
    /// Sum of [`Sample::pool_wait_ns`].
    pub pool_wait_ns: u64,
    /// Requests whose job's start is known, among those served.
    pub started: u64,
    /// Sum of [`Sample::time_from_start_ns`] over these.
    pub time_from_start_ns: u64,
    /// Sum of [`Sample::upstream_exec_ns`] over these.
    pub upstream_exec_ns: u64,
    /// Requests that arrived with an upscale hint, among those served.
    pub hinted: u64,
    /// Requests refused because there was no CPU for them in time.
    pub shed: u64,
    /// Requests that ended unserved for another reason.
    pub unserved: u64,
    /// Requests that wait for a connection to another service now.
    pub waiting: u64,
    /// Sum of the times at which they began to, modulo 2^64.
    pub waiting_since_ns: u64,
}

impl Counters {
    /// For how long they have waited so far, together. Who reads while one begins or ends may see
    /// nonsense once.
    pub fn waiting_ns(&self, now_ns: u64) -> u64 {
        positive(self.waiting.wrapping_mul(now_ns).wrapping_sub(self.waiting_since_ns))
    }
}

/// Zero for what is less.
pub(super) fn positive(wrapped: u64) -> u64 {
    u64::try_from(wrapped.cast_signed()).unwrap_or(0)
}
