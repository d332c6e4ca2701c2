//! The thread that keeps the time of virtual cores.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use seawall_control::Instant;
use seawall_rpc::clock;

use super::slots::{Grant, JobId, Slots};

/// A wait in a condition variable ends some tens of microseconds late; the thread spins for the
/// last of that.
const SPIN: Duration = Duration::from_micros(20);

/// Says at any time what the slots are worth.
pub type Granted = Arc<dyn Fn(Instant) -> Grant + Send + Sync>;

/// Virtual cores and their thread, which ends with the last handle.
pub struct VirtualCores {
    shared: Arc<Shared>,
}

struct Shared {
    granted: Granted,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    slots: Slots,
    /// By job; those that are free have no number in `slots`.
    jobs: slab::Slab<Job>,
    stopped: bool,
}

#[derive(Default)]
struct Job {
    done: bool,
    /// Nobody waits for it any more; its place is free once it is done.
    abandoned: bool,
    waker: Option<Waker>,
}

/// Work under way.
pub struct Work {
    shared: Arc<Shared>,
    job: JobId,
}

impl VirtualCores {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has none.
    pub fn start(quantum: Duration, granted: Granted) -> std::io::Result<Self> {
        let state = State { slots: Slots::new(quantum), jobs: slab::Slab::new(), stopped: false };
        let changed = Condvar::new();
        let shared = Arc::new(Shared { granted, state: Mutex::new(state), changed });
        let on_thread = shared.clone();
        thread::Builder::new().name("seawall-cores".into()).spawn(move || on_thread.run())?;
        Ok(Self { shared })
    }

    /// Occupies a slot for so long at the base frequency, once there is one.
    pub fn work(&self, work: Duration) -> Work {
        let now = clock::now();
        let grant = (self.shared.granted)(now);
        let mut state = self.shared.state.lock();
        let before = state.slots.next();
        let job = state.jobs.insert(Job::default());
        state.slots.submit(now, job, work, grant);
        if state.slots.next() != before {
            self.shared.changed.notify_one();
        }
        Work { shared: self.shared.clone(), job }
    }

    /// Jobs in slots, and jobs that wait for one.
    pub fn jobs(&self) -> (usize, usize) {
        self.shared.state.lock().slots.jobs()
    }

    /// For how long they were occupied, all together.
    pub fn occupied(&self) -> Duration {
        self.shared.state.lock().slots.occupied()
    }
}

impl Drop for VirtualCores {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_one();
    }
}

impl std::fmt::Debug for VirtualCores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualCores").field("jobs", &self.jobs()).finish_non_exhaustive()
    }
}

impl Shared {
    fn run(&self) {
        // A sleeping thread may be woken late by its slack, by default 50 µs. Without leave to
        // change that it works all the same.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut state = self.state.lock();
        while !state.stopped {
            let Some(next) = state.slots.next() else {
                self.changed.wait(&mut state);
                continue;
            };
            let now = clock::now();
            if now < next {
                let left = next.since(now);
                if left > SPIN {
                    _ = self.changed.wait_for(&mut state, left - SPIN);
                } else {
                    std::hint::spin_loop();
                }
                continue;
            }
            let grant = (self.granted)(now);
            let State { slots, jobs, .. } = &mut *state;
            let mut wakers = Vec::new();
            slots.advance(now, grant, |job| {
                if jobs[job].abandoned {
                    jobs.remove(job);
                } else {
                    jobs[job].done = true;
                    wakers.extend(jobs[job].waker.take());
                }
            });
            MutexGuard::unlocked(&mut state, || wakers.into_iter().for_each(Waker::wake));
        }
    }
}

impl Future for Work {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state.lock();
        let job = &mut state.jobs[self.job];
        if job.done {
            return Poll::Ready(());
        }
        job.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let job = &mut state.jobs[self.job];
        if job.done {
            state.jobs.remove(self.job);
        } else {
            // What has begun is done to its end, as by a thread that nobody stops.
            job.abandoned = true;
            job.waker = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn work_takes_its_time_and_grants_are_looked_up() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let granted: Granted = Arc::new(move |_| {
            counted.fetch_add(1, Relaxed);
            Grant::slots(1)
        });
        let cores = VirtualCores::start(Duration::from_millis(1), granted).unwrap();
        let began = clock::now();
        runtime().block_on(async {
            let work = Duration::from_millis(3);
            futures_util::future::join(cores.work(work), cores.work(work)).await;
        });
        assert!(clock::now().since(began) >= Duration::from_millis(6));
        // At each submission and at the end of each of six quanta, of which a thread that is late
        // may see several at once.
        assert!(asked.load(Relaxed) >= 3, "{asked:?}");
        assert_eq!(cores.jobs(), (0, 0));
        assert!(cores.shared.state.lock().jobs.is_empty());
    }

    #[test]
    fn work_that_nobody_waits_for_leaves_nothing_behind() {
        let cores = VirtualCores::start(Duration::from_millis(1), Arc::new(|_| Grant::slots(1)));
        let cores = cores.unwrap();
        drop(cores.work(Duration::from_millis(1)));
        runtime().block_on(cores.work(Duration::from_millis(1)));
        assert!(cores.shared.state.lock().jobs.is_empty());
    }
}
