//! The queue in front of a lock: who waits, since when, and how much work that is.
//!
//! ```text
//!   privileged   ─► [W]─[W]               requests that must not be dropped wait ahead, within
//!                                         bounds
//!   ordinary     ─► [W]─[R]─[R]─[W]       each lane in the order of arrival
//!                    └ node in a future or on a stack, linked while it waits
//! ```
//!
//! Nothing here is atomic: a queue is behind the lock of its [`Site`], which is held for a few
//! dozen instructions at a time and never while somebody is woken.

mod lane;
mod site;
mod waiter;
mod wakes;
mod watcher;

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::estimate::SharedHistogram;
use seawall_control::lanes::PRIVILEGED_RUN;
use seawall_control::predict::hold::Holds;
use seawall_control::standing::Standing;
use seawall_control::time::nanos;

use lane::{Lane, with};
pub(crate) use site::{Settings, Site};
pub(crate) use waiter::{Entry, Offer, Progress, Turn, Waiter};
pub(crate) use wakes::Wakes;
use watcher::Watcher;

/// What has happened at a queue so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Requests refused.
    pub(crate) refusals: u64,
    /// Waiters that were given what they waited for.
    pub(crate) waits: u64,
    /// Waiters that gave up: their future was dropped.
    pub(crate) given_up: u64,
    /// How long all of them waited.
    pub(crate) waited: Duration,
    /// How long those waited who got their turn and were not passed ahead of others, and by how
    /// much that was more or less than predicted.
    foretold: Duration,
    error: Duration,
}

/// All who wait at one place. Whoever has access to it holds its lock.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    privileged: Lane,
    ordinary: Lane,
    /// Privileged turns in a row for which somebody ordinary was passed over.
    privileged_run: u32,
    len: u32,
    /// Permits' worth of time that the waiters need.
    work: u64,
    /// Since when the queue has not moved: the last turn began then, or somebody began to wait.
    turn_since: Instant,
    pub(crate) counts: Counts,
    /// How long waiters waited that got their turn, at all places of one name.
    pub(crate) times: Arc<SharedHistogram>,
    /// What holders say that they do.
    pub(crate) holds: Holds,
    /// Who wants to know when there is something to do here again.
    pub(crate) watcher: Watcher,
    /// Whether the queue stands.
    pub(crate) standing: Standing,
}

// SAFETY: the pointers are to waiters, which are `Send` and `Sync` and touched under the queue's
// lock only.
unsafe impl Send for Queue {}

impl Queue {
    /// Puts `waiter` at the end of its lane. `capacity` is the work of a turn that nobody else
    /// shares.
    ///
    /// # Safety
    ///
    /// The waiter is filled, linked nowhere, and stays where it is until it was removed from this
    /// queue.
    pub(crate) unsafe fn push(&mut self, waiter: NonNull<Waiter>, capacity: u32) {
        // SAFETY: this queue's lock is held, and the caller keeps the waiter where it is.
        unsafe {
            let (privileged, since) = with(waiter, |entry| (entry.privileged, entry.since));
            self.lane(privileged).push(waiter);
            if self.len == 0 {
                self.turn_since = since;
            }
            self.weigh(waiter, capacity);
        }
        self.len += 1;
    }

    /// Takes `waiter` out, wherever it stands.
    ///
    /// # Safety
    ///
    /// The waiter is linked in this queue.
    pub(crate) unsafe fn remove(&mut self, waiter: NonNull<Waiter>, capacity: u32) {
        // SAFETY: this queue's lock is held, and the waiter is linked in it, hence alive.
        unsafe {
            let (privileged, work) = with(waiter, |entry| (entry.privileged, entry.work));
            self.work -= work;
            if let Some(next) = self.lane(privileged).remove(waiter) {
                self.weigh(next, capacity); // who stands behind another now may share its turn
            }
        }
        self.len -= 1;
    }

    /// Gives `waiter` its turn: takes it out, accounts for its wait, tells it, and returns whom to
    /// wake. From then on it belongs to its owner alone.
    ///
    /// # Safety
    ///
    /// The waiter is linked in this queue.
    pub(crate) unsafe fn grant(
        &mut self,
        waiter: NonNull<Waiter>,
        now: Instant,
        capacity: u32,
    ) -> Option<std::task::Waker> {
        // SAFETY: this queue's lock is held, and the waiter is linked in it. It is alive until it
        // sees its progress, which is written last.
        unsafe {
            let waker = self.begin_turn(waiter, now, capacity);
            Waiter::tell_granted(waiter);
            waker
        }
    }

    /// Takes out a waiter whose turn begins, and accounts for its wait.
    ///
    /// # Safety
    ///
    /// The waiter is linked in this queue.
    pub(crate) unsafe fn begin_turn(
        &mut self,
        waiter: NonNull<Waiter>,
        now: Instant,
        capacity: u32,
    ) -> Option<std::task::Waker> {
        // SAFETY: this queue's lock is held; between the two the waiter stays where it is.
        unsafe {
            self.remove(waiter, capacity);
            self.standing.on_turn(now.since(self.turn_since));
            self.turn_since = now;
            let passes_over = self.ordinary.first().is_some();
            with(waiter, |entry| {
                let passes_over = passes_over && entry.privileged;
                self.privileged_run = if passes_over { self.privileged_run + 1 } else { 0 };
                entry.granted_at = now;
                entry.settle(now);
                let foretold = (!entry.privileged).then_some(entry.predicted);
                let waited = now.since(entry.since);
                self.counts.turn_began(waited, foretold);
                self.times.observe(waited);
                entry.waker.take()
            })
        }
    }

    /// Who is next.
    pub(crate) fn first(&self) -> Option<NonNull<Waiter>> {
        self.heads().next()
    }

    /// Who is next of those who came until `then`.
    pub(crate) fn first_of(&self, then: Instant) -> Option<NonNull<Waiter>> {
        self.heads().find(|waiter| {
            // SAFETY: this queue's lock is held, and the waiter is linked in it.
            unsafe { with(*waiter, |entry| entry.since <= then) }
        })
    }

    /// How many wait.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True when nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Age of the oldest waiter of either lane; zero when nobody waits.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        let ages = self.heads().map(|waiter| {
            // SAFETY: this queue's lock is held, and the waiter is linked in it.
            unsafe { with(waiter, |entry| now.since(entry.since)) }
        });
        ages.max().unwrap_or_default()
    }

    /// For how long the present turn is known to last; zero when nobody waits for its end.
    pub(crate) fn held(&self, now: Instant) -> Duration {
        if self.is_empty() { Duration::ZERO } else { now.since(self.turn_since) }
    }

    /// Permits' worth of time ahead of an ordinary newcomer, its own share included: until its turn
    /// begins, the present one must end.
    pub(crate) fn work_ahead(&self, need: u32, turn: Turn, available: u32, capacity: u32) -> u64 {
        let own = match turn {
            Turn::Weighted => i64::from(need) - i64::from(available),
            // Who joins readers at the end waits for what is ahead of those.
            Turn::Shared if self.ends_shared() => 0,
            Turn::Exclusive | Turn::Shared => i64::from(capacity),
        };
        self.work.saturating_add_signed(own)
    }

    fn ends_shared(&self) -> bool {
        // SAFETY: this queue's lock is held, and the waiter is linked in it.
        self.ordinary.last().is_some_and(|last| unsafe { is_shared(last) })
    }

    /// The oldest of each lane, who is next first.
    fn heads(&self) -> impl Iterator<Item = NonNull<Waiter>> {
        let mut lanes = [&self.privileged, &self.ordinary];
        if self.privileged_run >= PRIVILEGED_RUN {
            lanes.reverse();
        }
        lanes.into_iter().filter_map(Lane::first)
    }

    fn lane(&mut self, privileged: bool) -> &mut Lane {
        if privileged { &mut self.privileged } else { &mut self.ordinary }
    }

    /// Works out anew how much work `waiter` adds, which depends on who stands in front of it.
    ///
    /// # Safety
    ///
    /// The waiter is linked in this queue.
    unsafe fn weigh(&mut self, waiter: NonNull<Waiter>, capacity: u32) {
        // SAFETY: this queue's lock is held; a linked waiter's neighbour is linked.
        unsafe {
            let previous = with(waiter, |entry| entry.previous);
            let follows_reader = previous.is_some_and(|previous| is_shared(previous));
            with(waiter, |entry| {
                self.work -= entry.work;
                entry.work = match entry.turn {
                    Turn::Weighted => u64::from(entry.need),
                    Turn::Shared if follows_reader => 0,
                    Turn::Shared | Turn::Exclusive => u64::from(capacity),
                };
                self.work += entry.work;
            });
        }
    }
}

impl Counts {
    fn turn_began(&mut self, waited: Duration, predicted: Option<Duration>) {
        self.waits += 1;
        self.waited += waited;
        if let Some(predicted) = predicted {
            self.foretold += waited;
            self.error += waited.abs_diff(predicted);
        }
    }

    /// A waiter gave up after it had waited that long.
    pub(crate) fn gave_up(&mut self, waited: Duration) {
        self.given_up += 1;
        self.waited += waited;
    }

    /// By how much predictions missed, relative to the waits, as a mean over all waits that were
    /// predicted; `None` before the first.
    pub(crate) fn relative_error(&self) -> Option<f64> {
        let waited = nanos(self.foretold);
        (waited > 0).then(|| nanos(self.error) as f64 / waited as f64)
    }
}

/// Whether a waiter shares its turn with its neighbours.
///
/// # Safety
///
/// The waiter is linked in a queue whose lock the caller holds.
unsafe fn is_shared(waiter: NonNull<Waiter>) -> bool {
    // SAFETY: as the caller promises.
    unsafe { with(waiter, |entry| entry.turn == Turn::Shared) }
}
