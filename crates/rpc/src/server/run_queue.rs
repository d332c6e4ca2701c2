//! The run queue: every request that could run and does not, stamped since when.
//!
//! It is Seawall's own so that its delay can be measured: in a runtime's queue a request is
//! invisible until its handler starts, which under overload is when it is too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_task::Runnable;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::delay::QueueAge;
use seawall_control::lanes::Lanes;
use seawall_control::request::Stage;
use seawall_control::time::nanos;

use super::context::Context;
use crate::clock;

/// A request that can run: one poll of its handler.
pub(super) type Job = Runnable<Context>;

/// Requests that can run, in order, those that may not be dropped ahead of the others.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    jobs: Mutex<Jobs>,
    age: QueueAge,
    len: AtomicUsize,
    /// How long the workers are predicted to wait for a CPU, nanoseconds; zero while they run.
    cpu_delay: AtomicU64,
    /// Until when the workers stand still, nanoseconds, as far as that can be told; zero while they
    /// do not.
    halted_until: AtomicU64,
    least_left: LeastLeft,
}

/// The least that requests had left when they came, nanoseconds: lately, and before that.
#[derive(Debug)]
struct LeastLeft {
    lately: AtomicU64,
    before: AtomicU64,
}

impl Default for LeastLeft {
    fn default() -> Self {
        Self { lately: AtomicU64::new(u64::MAX), before: AtomicU64::new(u64::MAX) }
    }
}

#[derive(Debug, Default)]
struct Jobs {
    lanes: Lanes<Job>,
    idle: Vec<Waker>,
    closed: bool,
}

impl RunQueue {
    /// Puts a job in that can run since `now`, and wakes a worker if one sleeps.
    pub(super) fn push(&self, now: Instant, job: Job) {
        let droppable = job.metadata().claims().droppable;
        let mut jobs = self.jobs.lock();
        if jobs.closed {
            drop(jobs);
            drop(job); // which cancels it
            return;
        }
        jobs.lanes.push(now, droppable, job);
        self.publish(&jobs.lanes);
        let worker = if self.is_halted() { None } else { jobs.idle.pop() };
        drop(jobs);
        if let Some(worker) = worker {
            worker.wake();
        }
    }

    /// Cancels all jobs, and those that come: no worker takes them any more.
    ///
    /// A job keeps its queue alive, so that without this neither would ever be freed.
    pub(super) fn close(&self) {
        let mut jobs = self.jobs.lock();
        jobs.closed = true;
        let cancelled = std::mem::take(&mut jobs.lanes);
        self.publish(&jobs.lanes);
        drop(jobs);
        drop(cancelled);
    }

    /// True once it was [closed](Self::close).
    pub(super) fn is_closed(&self) -> bool {
        self.jobs.lock().closed
    }

    /// Takes the next job, and since when it could run.
    pub(super) fn pop(&self) -> Option<(Instant, Job)> {
        self.runs();
        if self.len.load(Relaxed) == 0 || self.is_halted() {
            return None;
        }
        let mut jobs = self.jobs.lock();
        let popped = jobs.lanes.pop();
        self.publish(&jobs.lanes);
        popped
    }

    /// Takes the next job, or arranges that `waker` is woken when there is one.
    pub(super) fn poll_pop(&self, waker: &Waker) -> Poll<(Instant, Job)> {
        self.runs();
        let mut jobs = self.jobs.lock();
        let popped = if self.is_halted() { None } else { jobs.lanes.pop() };
        match popped {
            Some(popped) => {
                self.publish(&jobs.lanes);
                Poll::Ready(popped)
            }
            None => {
                if !jobs.idle.iter().any(|known| known.will_wake(waker)) {
                    jobs.idle.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    /// Refuses those of the oldest `examined` jobs that have not begun and cannot wait for `delay`
    /// at the `stage` that holds the workers.
    pub(super) fn refuse(&self, stage: Stage, now: Instant, delay: Duration, examined: usize) {
        let mut jobs = self.jobs.lock();
        let refused = jobs.lanes.take_ordinary(examined, |since, job: &Job| {
            let context = job.metadata();
            !context.has_begun() && context.refuse_outright(stage, now, since, delay)
        });
        self.publish(&jobs.lanes);
        drop(jobs);
        drop(refused); // which answers them
    }

    /// Sets how long the workers are predicted to wait for a CPU; `None` while they run.
    pub(super) fn set_cpu_delay(&self, delay: Option<Duration>) {
        self.cpu_delay.store(delay.map_or(0, |delay| nanos(delay).max(1)), Relaxed);
    }

    /// How long the workers are predicted to wait for a CPU, if they do.
    pub(super) fn cpu_delay(&self) -> Option<Duration> {
        match self.cpu_delay.load(Relaxed) {
            0 => None,
            delay => Some(Duration::from_nanos(delay)),
        }
    }

    /// No worker takes a job until they [go on](Self::resume), about then.
    pub(super) fn halt(&self, until: Instant) {
        self.halted_until.store(until.as_nanos().max(1), SeqCst);
    }

    /// Workers take jobs again.
    pub(super) fn resume(&self) {
        self.halted_until.store(0, SeqCst);
        // Nobody has been woken for jobs that came meanwhile.
        let idle = std::mem::take(&mut self.jobs.lock().idle);
        idle.into_iter().for_each(Waker::wake);
    }

    /// How long the workers still stand still, as far as that can be told, if they do.
    pub(super) fn halted_for(&self, now: Instant) -> Option<Duration> {
        match self.halted_until.load(SeqCst) {
            0 => None,
            until => Some(Instant::from_nanos(until).since(now)),
        }
    }

    fn is_halted(&self) -> bool {
        self.halted_until.load(SeqCst) != 0
    }

    /// A worker runs: whoever comes now does not wait for that.
    fn runs(&self) {
        if self.cpu_delay.load(Relaxed) != 0 {
            self.set_cpu_delay(None);
        }
    }

    /// A request has come that has so much left, and may be refused.
    pub(super) fn note_left(&self, left: Duration) {
        let (left, lately) = (nanos(left), &self.least_left.lately);
        if left < lately.load(Relaxed) {
            lately.store(left, Relaxed); // of two that come at once, either will do
        }
    }

    /// The least that requests had left which came since it was last but one forgotten.
    pub(super) fn least_left(&self) -> Duration {
        let LeastLeft { lately, before } = &self.least_left;
        Duration::from_nanos(lately.load(Relaxed).min(before.load(Relaxed)))
    }

    /// Forgets the requests that came before this was last called.
    pub(super) fn forget_least_left(&self) {
        let LeastLeft { lately, before } = &self.least_left;
        before.store(lately.swap(u64::MAX, Relaxed), Relaxed);
    }

    /// Age of the oldest job.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.age.age(now)
    }

    /// Jobs that wait.
    pub(super) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Where the scheduler of a handler puts it whenever it can run.
    pub(super) fn scheduler(self: &Arc<Self>) -> impl Fn(Job) + Send + Sync + 'static {
        let queue = self.clone();
        move |job| queue.push(clock::now(), job)
    }

    fn publish(&self, lanes: &Lanes<Job>) {
        self.age.set_oldest(lanes.oldest());
        self.len.store(lanes.len(), Relaxed);
    }
}
