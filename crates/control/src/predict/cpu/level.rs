//! Siblings in a run queue, and who of them is chosen.

use super::{Cfs, Entity, State, signed};

/// The weighted average of virtual runtimes: the time at which everybody had the same share.
pub(super) struct Average {
    base: i64,
    sum: i128,
    weight: i128,
}

impl Average {
    /// Of all of these that are in the queue; `None` if none is.
    pub(super) fn of<'a>(siblings: impl Iterator<Item = &'a Entity>) -> Option<Self> {
        let mut queued = siblings.filter(|it| it.is_queued()).peekable();
        let mut average = Self { base: queued.peek()?.vruntime, sum: 0, weight: 0 };
        for it in queued {
            let weight = i128::from(it.weight);
            average.sum += weight * i128::from(it.vruntime.wrapping_sub(average.base));
            average.weight += weight;
        }
        Some(average)
    }

    /// Whether it had no more than its share.
    pub(super) fn is_eligible(&self, it: &Entity) -> bool {
        self.sum >= self.weight * i128::from(it.vruntime.wrapping_sub(self.base))
    }

    pub(super) fn time(&self) -> i64 {
        self.base.saturating_add((self.sum / self.weight) as i64)
    }

    /// Where one that wakes with this lag is placed, so that it has the same lag once it is in the
    /// queue and moves the average.
    pub(super) fn place(&self, it: &Entity) -> i64 {
        let weight = i128::from(it.weight);
        let lag = i128::from(it.lag) * (self.weight + weight) / self.weight;
        self.time().saturating_sub(i64::try_from(lag).unwrap_or(i64::MAX))
    }
}

/// EEVDF's choice among siblings, by their index: of those eligible, who has the earliest deadline.
/// With `protect`, one that runs and is protected still stays.
pub(super) fn earliest_deadline<'a>(
    siblings: impl Iterator<Item = (usize, &'a Entity)> + Clone,
    protect: bool,
) -> Option<usize> {
    let average = Average::of(siblings.clone().map(|(_, it)| it))?;
    let queued = siblings.filter(|(_, it)| it.is_queued());
    let mut eligible = queued.clone().filter(|(_, it)| average.is_eligible(it));
    let is_protected = |it: &Entity| it.state == State::Running && it.vruntime < it.protected;
    if protect && let Some((index, _)) = eligible.clone().find(|(_, it)| is_protected(it)) {
        return Some(index);
    }
    // Somebody is always eligible, but for rounding.
    let first = eligible.next().or_else(|| queued.min_by_key(|(_, it)| it.vruntime))?;
    // At equal deadlines the queue's order stays, and who runs goes behind it.
    let key = |it: &Entity| (it.deadline, it.state == State::Running);
    let best = eligible.fold(first, |best, it| if key(it.1) < key(best.1) { it } else { best });
    Some(best.0)
}

/// CFS's choice among siblings, by their index: the lowest virtual runtime.
pub(super) fn lowest_runtime<'a>(
    siblings: impl Iterator<Item = (usize, &'a Entity)>,
) -> Option<usize> {
    let queued = siblings.filter(|(_, it)| it.is_queued());
    queued.min_by_key(|(_, it)| it.vruntime).map(|(index, _)| index)
}

impl Cfs {
    /// The slice of the lowest entity of a path that runs, from the top down. Each comes with the
    /// number and the total weight of its siblings, itself included.
    pub(super) fn slice<'a>(
        &self,
        path: impl DoubleEndedIterator<Item = (&'a Entity, usize, u64)>,
    ) -> i64 {
        let mut slice = None;
        for (entity, count, total) in path.rev() {
            let period = signed(self.latency)
                .max(signed(self.granularity).saturating_mul(i64::try_from(count).unwrap_or(1)));
            let whole = i128::from(slice.unwrap_or(period));
            let part = whole * i128::from(entity.weight) / i128::from(total.max(1));
            slice = Some(i64::try_from(part).unwrap_or(i64::MAX));
        }
        slice.unwrap_or(0)
    }
}
