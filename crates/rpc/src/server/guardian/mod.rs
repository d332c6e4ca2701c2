//! The guardian: answers for a process that does not get the CPU.
//!
//! ```text
//!   SCHED_FIFO: gets the CPU at once                SCHED_OTHER: waits for its turn
//!   ┌──────────────────────────────────┐  run queue  ┌──────────────┐
//!   │ dispatchers: read, admit, write  │ ──────────► │ workers      │
//!   │  └ watch: have the workers run?  │             └──────────────┘
//!   └──────────────────────────────────┘ takes back what cannot wait until they do
//! ```
//!
//! LIBROS has the kernel cancel requests where they arrive, because the application cannot while it
//! waits for the CPU itself (§IV.A). Here the threads that read and write have real-time
//! [priority](realtime), so that they can, and know how long the [workers] have not run. A request
//! that has less left than the workers' [predicted](CpuDelay) wait is refused at [`Stage::CPU`]: at
//! entry, or on the run queue if its handler has not begun.
//!
//! Nothing is taken out of a byte stream, and nothing is counted twice: a refused call is an
//! admitted one that ends like others.
//!
//! [`Stage::CPU`]: seawall_control::request::Stage::CPU

mod config;
pub(super) mod kernel;
pub(super) mod realtime;
mod timer;
mod workers;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::predict::starvation::{CpuDelay, Episodes, Starved};

pub use config::{GuardianConfig, GuardianWay};
pub use kernel::{BouncerError, install_bouncer};
pub use realtime::RealtimeError;

use super::run_queue::RunQueue;
use crate::clock;
use timer::Timer;
use workers::Workers;

/// How often the workers are looked at while something waits for them. A worker that is woken runs
/// within 0.1 ms on a CPU that is free, so that this is the first sign that it is not.
const LOOK: Duration = Duration::from_micros(250);

/// Looks at the run queue, if there is much in it, take one in so many parts of the guardian's
/// time.
const PARTS: u32 = 10;

/// Jobs that one look examines, the oldest: so much of the guardian's time it may take. Those
/// behind them were judged when they came.
const EXAMINED: usize = 1024;

/// Watches whether workers get the CPU.
#[derive(Debug)]
pub(super) struct Guardian {
    queue: Arc<RunQueue>,
    workers: Workers,
    predictor: Mutex<Box<dyn CpuDelay>>,
}

impl Guardian {
    /// A guardian of those who take jobs from `queue`.
    pub(super) fn new(queue: Arc<RunQueue>) -> Self {
        let predictor = Mutex::new(Box::new(Episodes::default()) as Box<dyn CpuDelay>);
        Self { queue, workers: Workers::default(), predictor }
    }

    /// The thread that calls is a worker.
    pub(super) fn enlist(&self) {
        self.workers.enlist();
    }

    /// Predicts by `predictor` from now on.
    pub(super) fn predict_by(&self, predictor: Box<dyn CpuDelay>) {
        *self.predictor.lock() = predictor;
    }

    /// Watches for ever. Has to run on a thread of real-time priority.
    ///
    /// # Errors
    ///
    /// The system has no timers.
    pub(super) async fn watch(self: Arc<Self>) -> io::Result<()> {
        let mut timer = Timer::new()?;
        loop {
            self.queue.until_busy().await;
            timer.every(LOOK)?;
            // The first look tells nothing: it is what the next is compared with.
            self.workers.have_run();
            let (mut ran_at, mut starved) = (clock::now(), false);
            let mut next = Instant::ORIGIN;
            loop {
                timer.tick().await?;
                let now = clock::now();
                if self.workers.have_run() || !self.workers.can_run() {
                    if std::mem::take(&mut starved) {
                        self.predictor.lock().on_episode(now, now.since(ran_at));
                    }
                    ran_at = now;
                    self.queue.set_cpu_delay(None);
                    if self.queue.len() == 0 {
                        break;
                    }
                } else if now >= next {
                    starved = true;
                    self.refuse(now, ran_at);
                    next = now + clock::now().since(now) * PARTS;
                }
            }
            timer.stop()?;
        }
    }

    /// Refuses what cannot wait any longer for workers that have not run since `since`.
    fn refuse(&self, now: Instant, since: Instant) {
        let delay = self.workers.with_threads(|threads| {
            self.predictor.lock().predict(now, &Starved::new(since, threads))
        });
        self.queue.set_cpu_delay(Some(delay));
        self.queue.refuse(now, delay, EXAMINED);
    }
}
