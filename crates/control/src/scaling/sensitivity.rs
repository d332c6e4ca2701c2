//! What a unit more, or less, is worth to a container (SurgeGuard §III-C).

use alloc::collections::BTreeMap;
use core::ops::Bound;

use super::intake::Block;
use crate::time::Instant;

/// Allocations that are remembered of one container. Those that are farthest from the latest one
/// go first.
const ALLOCATIONS_MAX: usize = 128;

/// One row of the paper's `execAvg`: the running average of a container's execution time at each
/// number of units that it has had.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    averages: BTreeMap<u32, f64>,
    pending: Option<Pending>,
}

/// Blocks at one allocation that are not enough yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    units: u32,
    requests: u64,
    sum: f64,
}

impl Curve {
    /// Takes a block of requests into account that ran while the container had `units`; the older
    /// average keeps the weight `alpha`.
    ///
    /// Blocks that began before `since`, when the allocation last changed and had not yet shown,
    /// are left out: they tell of another allocation. The rest is collected until it has
    /// `samples_min` requests, or the allocation changes: in a surge it does so before there are as
    /// many, and a rough value is better than none.
    pub(super) fn observe(
        &mut self,
        units: u32,
        block: &Block,
        since: Instant,
        samples_min: u64,
        alpha: f64,
    ) {
        if let Some(pending) = self.pending
            && pending.units != units
        {
            self.pending = None;
            self.insert(pending.units, pending.sum / pending.requests as f64, alpha);
        }
        if block.began < since || block.requests == 0 {
            return;
        }
        let pending = self.pending.get_or_insert(Pending { units, requests: 0, sum: 0.0 });
        pending.requests = pending.requests.saturating_add(block.requests);
        pending.sum += block.means.exec_time * block.requests as f64;
        if pending.requests >= samples_min {
            let mean = pending.sum / pending.requests as f64;
            self.pending = None;
            self.insert(units, mean, alpha);
        }
    }

    fn insert(&mut self, units: u32, mean: f64, alpha: f64) {
        if !mean.is_finite() {
            return;
        }
        let average = self.averages.entry(units).or_insert(mean);
        *average = alpha * *average + (1.0 - alpha) * mean;
        if self.averages.len() <= ALLOCATIONS_MAX {
            return;
        }
        let lowest = self.averages.first_key_value().map_or(units, |(units, _)| *units);
        let highest = self.averages.last_key_value().map_or(units, |(units, _)| *units);
        let farthest = if units - lowest > highest - units { lowest } else { highest };
        self.averages.remove(&farthest);
    }

    /// As it was learned before; the first of them if they are too many, which [`iter`](Self::iter)
    /// never gives.
    pub(super) fn recall(averages: &[(u32, f64)]) -> Self {
        let averages = averages.iter().copied().take(ALLOCATIONS_MAX).collect();
        Self { averages, pending: None }
    }

    /// All that was learned.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.averages.iter().map(|(units, average)| (*units, *average))
    }

    /// `sens[units]`: the share of the execution time that one unit more than `units` saves. `None`
    /// while one of the two was not tried.
    pub(super) fn sensitivity(&self, units: u32) -> Option<f64> {
        let (now, more) = (self.average(units)?, self.average(units.checked_add(1)?)?);
        (now > 0.0).then(|| 1.0 - more / now)
    }

    /// `execAvg[units]`, nanoseconds.
    pub(super) fn average(&self, units: u32) -> Option<f64> {
        self.averages.get(&units).copied()
    }

    /// The averages at fewer units than `units`, and at least `floor`, from the fewest on.
    pub(super) fn below(&self, floor: u32, units: u32) -> impl Iterator<Item = (u32, f64)> {
        let range = (Bound::Included(floor), Bound::Excluded(units.max(floor)));
        // A range whose bounds are equal and exclude each other would panic.
        let range = (floor < units).then(|| self.averages.range(range));
        range.into_iter().flatten().map(|(units, average)| (*units, *average))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::intake::Means;

    fn block(began: u64, requests: u64, exec_time: f64) -> Block {
        let means = Means { exec_metric: exec_time, exec_time, ..Means::default() };
        Block { began: Instant::from_micros(began), requests, means }
    }

    #[test]
    fn averages_and_compares_as_the_paper_says() {
        let mut curve = Curve::default();
        let mut observe =
            |units, exec| curve.observe(units, &block(1, 10, exec), Instant::ORIGIN, 10, 0.5);
        observe(3, 100.0);
        observe(3, 200.0);
        observe(4, 75.0);
        assert_eq!((curve.average(3), curve.average(4)), (Some(150.0), Some(75.0)));
        assert_eq!((curve.sensitivity(3), curve.sensitivity(4)), (Some(0.5), None));
        assert_eq!(curve.sensitivity(u32::MAX), None);
        assert!(curve.below(1, 4).eq([(3, 150.0)]));
        assert_eq!(curve.below(4, 4).count() + curve.below(5, 4).count(), 0);
    }

    #[test]
    fn waits_for_enough_requests_unless_the_allocation_changes() {
        let mut curve = Curve::default();
        let since = Instant::from_micros(5);
        curve.observe(3, &block(6, 60, 10.0), since, 100, 0.5);
        assert_eq!(curve.average(3), None);
        curve.observe(4, &block(7, 60, 90.0), since, 100, 0.5);
        assert_eq!((curve.average(3), curve.average(4)), (Some(10.0), None));
        curve.observe(4, &block(1, 60, 99.0), since, 100, 0.5); // began too early
        assert_eq!(curve.average(4), None);
        curve.observe(4, &block(9, 60, 30.0), since, 100, 0.5);
        assert_eq!(curve.average(4), Some(60.0));
    }

    #[test]
    fn is_bounded() {
        let mut curve = Curve::default();
        for units in 0..1_000 {
            curve.insert(units, 1.0, 0.5);
        }
        assert_eq!(curve.averages.len(), ALLOCATIONS_MAX);
        assert_eq!(curve.average(999), Some(1.0));
    }
}
