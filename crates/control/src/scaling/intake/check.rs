//! What can be, and what cannot.

use core::time::Duration;

use super::super::refusals::Absurd;
use super::super::{Averages, Counters};
use crate::time::nanos;

/// Requests that may end while a page is read, so that some of its sums contain them and others do
/// not.
const TORN_MAX: u64 = 16;

/// A page is read somewhat before or after the moment that a snapshot names.
const READ_SKEW: Duration = Duration::from_millis(2);

/// No container serves a request every 10 ns.
const REQUESTS_PER_SECOND_MAX: u64 = 100_000_000;

/// What the sums grew by; `None` if one of them shrank, and so the container began anew.
pub(super) fn growth(before: &Counters, after: &Counters) -> Option<Counters> {
    Some(Counters {
        requests: after.requests.checked_sub(before.requests)?,
        in_flight: after.in_flight,
        exec_ns: after.exec_ns.checked_sub(before.exec_ns)?,
        pool_wait_ns: after.pool_wait_ns.checked_sub(before.pool_wait_ns)?,
        started: after.started.checked_sub(before.started)?,
        time_from_start_ns: after.time_from_start_ns.checked_sub(before.time_from_start_ns)?,
        upstream_exec_ns: after.upstream_exec_ns.checked_sub(before.upstream_exec_ns)?,
        hinted: after.hinted.checked_sub(before.hinted)?,
        shed: after.shed.checked_sub(before.shed)?,
        waiting: after.waiting,
        waiting_ns: after.waiting_ns,
    })
}

/// For how long requests have waited that still wait, nanoseconds: waits grow no faster than time,
/// though it may seem so to who reads while one begins.
pub(super) fn waited(before: u64, now: &Counters, span: Duration) -> u64 {
    let span = nanos(span.saturating_add(READ_SKEW));
    now.waiting_ns.min(before.saturating_add(now.waiting.saturating_mul(span)))
}

/// How much execution a container can have had that it has not reported yet, in nanoseconds.
///
/// Each request that was there at some time between two snapshots can have executed for all that
/// time, whether it has ended or not. What has ended is reported, and leaves the allowance. Most
/// requests wait for others meanwhile and never execute for all their time: what is left is at
/// most that of the requests which are still there, or it would grow for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance(u128);

impl Allowance {
    /// For a container that was there before: its requests may be as old as requests can be.
    pub(super) fn new(in_flight: u64, longest: Duration) -> Self {
        Self(u128::from(in_flight.saturating_add(TORN_MAX)) * u128::from(nanos(longest)))
    }

    /// Whether `growth` can have happened in `span`, in which `before` requests were there already.
    pub(super) fn spend(
        &mut self,
        before: u64,
        growth: &Counters,
        span: Duration,
        longest: Duration,
    ) -> bool {
        let requests = before
            .saturating_add(growth.in_flight)
            .saturating_add(growth.requests)
            .saturating_add(TORN_MAX);
        let span = u128::from(nanos(span.saturating_add(READ_SKEW)));
        let allowance = self.0.saturating_add(u128::from(requests).saturating_mul(span));
        let exec = u128::from(growth.exec_ns);
        let most = Self::new(growth.in_flight, longest).0;
        self.0 = allowance.saturating_sub(exec).min(most);
        exec <= allowance
    }
}

/// What is absurd about the growth of the sums in `span`, apart from execution as a whole.
pub(super) fn absurd_growth(growth: &Counters, span: Duration) -> Option<Absurd> {
    let span = u128::from(nanos(span.saturating_add(READ_SKEW)));
    let requests_max = span * u128::from(REQUESTS_PER_SECOND_MAX) / 1_000_000_000;
    if u128::from(growth.requests) > requests_max {
        return Some(Absurd::RequestsTooMany);
    }
    if growth.hinted > growth.requests.saturating_add(TORN_MAX) {
        return Some(Absurd::HintedTooMany);
    }
    if growth.started > growth.requests.saturating_add(TORN_MAX) {
        return Some(Absurd::StartedTooMany);
    }
    if growth.waiting > growth.in_flight.saturating_add(TORN_MAX) {
        return Some(Absurd::WaitingTooMany);
    }
    None
}

/// What is absurd about the sums over a block of requests.
pub(super) fn absurd_block(sum: &Counters, longest: Duration) -> Option<Absurd> {
    // A request that ended during the reading may be in one sum and not in the other.
    if sum.pool_wait_ns > sum.exec_ns.saturating_add(sum.exec_ns / 8) {
        return Some(Absurd::PoolWaitTooLong);
    }
    if u128::from(sum.exec_ns) > u128::from(nanos(longest)) * u128::from(sum.requests) {
        return Some(Absurd::ExecTooLong);
    }
    let longest = u128::from(nanos(longest)) * u128::from(sum.started);
    if sum.started > 0 && u128::from(sum.time_from_start_ns) > longest {
        return Some(Absurd::Clock);
    }
    None
}

/// What is absurd about averages.
pub(super) fn absurd_averages(averages: &Averages, longest: Duration) -> Option<Absurd> {
    let Averages { exec_metric_ns, exec_time_ns, time_from_start_ns, is_hinted: _ } = *averages;
    let longest = nanos(longest) as f64;
    let is_number = |value: f64| value.is_finite() && value >= 0.0;
    if !is_number(exec_metric_ns) || !is_number(exec_time_ns) || !time_from_start_ns.is_finite() {
        return Some(Absurd::NotANumber);
    }
    if exec_time_ns > longest {
        return Some(Absurd::ExecTooLong);
    }
    // A little, because services average the two separately.
    if exec_metric_ns > exec_time_ns * 1.01 + 1.0 {
        return Some(Absurd::PoolWaitTooLong);
    }
    if time_from_start_ns < 0.0 || time_from_start_ns > longest {
        return Some(Absurd::Clock);
    }
    None
}
