//! The only place of this crate that reads time, and only for those who wait.

#[cfg(any(loom, not(test)))]
use seawall_control::Instant;

/// Now, on the monotonic clock of the kernel, whose origin is the machine's start.
///
/// The origin is the kernel's so that all who read this clock agree on it without knowing each
/// other: the deadline of a context that another crate made is understood here.
#[cfg(not(any(loom, test)))]
pub(crate) fn now() -> Instant {
    use std::time::Duration;

    use nix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock always runs");
    Instant::from_nanos(u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}

/// Each look at it takes 40 µs, whatever the machine does: the model checker repeats executions.
/// Its threads all run on one.
#[cfg(loom)]
pub(crate) fn now() -> Instant {
    std::thread_local! {
        static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    LOOKS.set(LOOKS.get() + 1);
    Instant::from_micros(40 * LOOKS.get())
}

#[cfg(all(test, not(loom)))]
pub(crate) use manual::now;

/// A clock that unit tests turn by hand, one for each thread.
#[cfg(all(test, not(loom)))]
pub(crate) mod manual {
    use std::cell::Cell;
    use std::time::Duration;

    use seawall_control::Instant;

    thread_local! {
        static HAND: Cell<Instant> = const { Cell::new(Instant::from_micros(1_000)) };
    }

    /// What this thread's clock shows.
    pub(crate) fn now() -> Instant {
        HAND.get()
    }

    /// Turns this thread's clock on.
    pub(crate) fn advance(time: Duration) {
        HAND.set(HAND.get() + time);
    }
}
