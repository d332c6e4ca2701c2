//! Time off the CPU, on demand: what a handler waits for a disk or another service.
//!
//! Tokio's timers tick once in a millisecond. This one is a thread of its own that sleeps until
//! just before the next handler is due and spins for the rest, so that a wait is late by
//! microseconds. Who is woken goes through the server's run queue like everybody, where the time
//! until a worker has time for it is measured.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use seawall_control::Instant;
use seawall_rpc::clock;

/// The thread spins for this long before somebody is due: about half of what a sleeping thread is
/// late, so that spinning stays a small part of a core.
const SPIN: Duration = Duration::from_micros(20);

static TIMER: LazyLock<&'static Timer> = LazyLock::new(|| {
    let timer: &'static Timer = Box::leak(Box::default());
    thread::Builder::new()
        .name("seawall-timer".into())
        .spawn(|| timer.run())
        .expect("the system has a thread for the timer");
    timer
});

/// Starts the thread, if it does not run yet.
pub(super) fn start() {
    LazyLock::force(&TIMER);
}

/// Waits for `time`, and no shorter.
pub(super) fn sleep(time: Duration) -> Sleep {
    Sleep { due: clock::now() + time, waker: None }
}

/// Blocks this thread for `time`, and no shorter; longer by what the system takes to wake it.
pub(super) fn block(time: Duration) {
    thread_local! {
        /// A sleeping thread may be woken late by its slack, by default 50 µs.
        static SLACK: () = _ = nix::sys::prctl::set_timerslack(1);
    }
    SLACK.with(|()| thread::sleep(time));
}

/// A wait under way.
#[derive(Debug)]
pub(super) struct Sleep {
    due: Instant,
    /// Whom the timer will wake.
    waker: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::now() >= self.due {
            return Poll::Ready(());
        }
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
            TIMER.add(Sleeper { due: self.due, waker: cx.waker().clone() });
        }
        Poll::Pending
    }
}

#[derive(Debug, Default)]
struct Timer {
    sleepers: Mutex<BinaryHeap<Sleeper>>,
    earlier: Condvar,
}

#[derive(Debug)]
struct Sleeper {
    due: Instant,
    waker: Waker,
}

impl Timer {
    fn add(&self, sleeper: Sleeper) {
        let mut sleepers = self.lock();
        let first = sleepers.peek().is_none_or(|first| sleeper.due < first.due);
        sleepers.push(sleeper);
        drop(sleepers);
        if first {
            self.earlier.notify_one();
        }
    }

    fn run(&self) -> ! {
        // A sleeping thread may be woken late by its slack, by default 50 µs. Without leave to
        // change that it works all the same.
        let _ = nix::sys::prctl::set_timerslack(1);
        loop {
            self.wait().wake();
        }
    }

    /// Waits until somebody is due, and takes him out.
    fn wait(&self) -> Waker {
        let mut sleepers = self.lock();
        loop {
            let Some(first) = sleepers.peek() else {
                sleepers = self.earlier.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (due, now) = (first.due, clock::now());
            if due <= now {
                return sleepers.pop().expect("it was just looked at").waker;
            }
            let left = due.since(now);
            if left > SPIN {
                let waited = self.earlier.wait_timeout(sleepers, left - SPIN);
                sleepers = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                drop(sleepers);
                while clock::now() < due {
                    std::hint::spin_loop();
                }
                sleepers = self.lock();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BinaryHeap<Sleeper>> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first in a heap is the largest, and must be who is due first.
impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Sleeper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wakes_early_and_everybody_wakes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // Later ones first, so that earlier ones overtake them.
            let sleepers: Vec<_> = (0..200_u64)
                .rev()
                .map(|i| {
                    let time = Duration::from_micros(37 * i);
                    tokio::spawn(async move {
                        let began = clock::now();
                        sleep(time).await;
                        clock::now().since(began) >= time
                    })
                })
                .collect();
            for sleeper in sleepers {
                assert!(sleeper.await.unwrap());
            }
        });
    }

    #[test]
    fn a_wait_that_is_given_up_disturbs_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let given_up = tokio::spawn(sleep(Duration::from_millis(5)));
            let kept = sleep(Duration::from_millis(10));
            tokio::task::yield_now().await;
            given_up.abort();
            kept.await;
        });
    }
}
