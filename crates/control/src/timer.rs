//! A table of deadlines, one for each kind of timer.

use crate::time::Instant;

/// Deadlines indexed by a small enum: set, stop, and ask for the next.
///
/// ```
/// use seawall_control::{Instant, timer::Timers};
/// # #[derive(Clone, Copy)]
/// enum Timer { Update = 0, Expiry = 1 }
/// let mut timers = Timers::<2>::default();
/// timers.set(Timer::Expiry as usize, Instant::from_micros(5));
/// assert_eq!(timers.next(), Some(Instant::from_micros(5)));
/// assert!(timers.expire(Timer::Expiry as usize, Instant::from_micros(7)));
/// assert_eq!(timers.next(), None);
/// # let _ = Timer::Update;
/// ```
#[derive(Clone, Debug)]
pub struct Timers<const N: usize> {
    deadlines: [Instant; N],
}

impl<const N: usize> Default for Timers<N> {
    fn default() -> Self {
        Self { deadlines: [Instant::NEVER; N] }
    }
}

impl<const N: usize> Timers<N> {
    /// Lets `timer` expire at `deadline`, whatever it was set to before.
    pub fn set(&mut self, timer: usize, deadline: Instant) {
        self.deadlines[timer] = deadline;
    }

    /// Forgets `timer`.
    pub fn stop(&mut self, timer: usize) {
        self.deadlines[timer] = Instant::NEVER;
    }

    /// True, once, when `timer` has expired by `now`; it is then stopped.
    pub fn expire(&mut self, timer: usize, now: Instant) -> bool {
        let expired = self.deadlines[timer] <= now && self.deadlines[timer] != Instant::NEVER;
        if expired {
            self.stop(timer);
        }
        expired
    }

    /// When the earliest timer expires; `None` when none is set.
    pub fn next(&self) -> Option<Instant> {
        self.deadlines.iter().copied().min().filter(|deadline| *deadline != Instant::NEVER)
    }
}
