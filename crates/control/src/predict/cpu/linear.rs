//! The paper's formula for threads that are all alike.

use alloc::vec::Vec;
use core::time::Duration;

use super::{SHORTEST, Shadow, State, WAIT_MAX, signed};

/// Σ over the threads T that stand before the one at `index`, U being the one after T:
/// ((U.vruntime − T.vruntime) / time slice + 1) × time slice.
///
/// Only threads of one group are alike, and in one tree: others are not looked at.
///
/// Deviation: the paper prints T − U, which is negative for who is before the other, and would
/// shorten the wait the farther T is ahead.
pub(super) fn wait(shadow: &Shadow, index: usize) -> Duration {
    let slice = signed(shadow.tick).max(SHORTEST);
    let own = &shadow.entities[index];
    let mut order: Vec<i64> = shadow
        .entities
        .iter()
        .filter(|it| it.parent == own.parent && it.id().is_some())
        .filter(|it| it.state == State::Waiting && it.vruntime < own.vruntime)
        .map(|it| it.vruntime)
        .chain([own.vruntime])
        .collect();
    order.sort_unstable();
    let turns = order.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) / slice + 1);
    let turns = turns.fold(0_i64, i64::saturating_add);
    Duration::from_nanos(turns.saturating_mul(slice) as u64).min(WAIT_MAX)
}
