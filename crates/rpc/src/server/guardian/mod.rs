//! The guardian: answers for a process that does not get the CPU.
//!
//! ```text
//!   patrol, SCHED_FIFO: every 1 to 10 ms           SCHED_OTHER: waits for its turn
//!   ┌───────────────────────────────────┐   lends  ┌────────────────────────────────┐
//!   │ have they run, or do they want to,│ ───────► │ who reads: reads, judges,      │
//!   │ and who could be late by that?    │ ◄─────── │ refuses, writes; no handlers   │
//!   └───────────────────────────────────┘  repays  └────────────────────────────────┘
//! ```
//!
//! LIBROS has the kernel cancel requests where they arrive, because the application cannot while it
//! waits for the CPU itself (§IV.A). Here the [`patrol`] sees that it waits, and lends the threads
//! that read real-time [priority](loan) for as long as it takes to say so. A request that has less
//! left than the [predicted](CpuDelay) wait of those who run handlers is refused at
//! [`Stage::CPU`]: at entry, or on the run queue if its handler has not begun.
//!
//! Nothing is taken out of a byte stream, and nothing is counted twice: there is one reader of each
//! stream, and a refused call is an admitted one that ends like others. While nobody is starved,
//! nobody has real-time priority but the patrol, which sleeps.

mod arrivals;
mod config;
pub(super) mod kernel;
pub(super) mod loan;
mod patrol;
mod watched;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::predict::starvation::{CpuDelay, Episodes};
use seawall_control::request::Stage;

pub use config::{CpuPredictor, GuardianConfig, GuardianWay};
pub use kernel::{KernelError, install_bouncer, install_cpu_delay};
pub use loan::RealtimeError;

use super::StartError;
use super::run_queue::RunQueue;
use crate::clock;
use arrivals::Arrivals;
use loan::Loan;
use patrol::{Beat, Round};

/// Jobs that one look examines, the oldest: so much time at the borrowed priority it may take.
/// Those behind them were judged when they came.
const EXAMINED: usize = 1024;

/// Watches whether threads get the CPU.
#[derive(Debug)]
pub(super) struct Guardian {
    queue: Arc<RunQueue>,
    beat: Mutex<Beat>,
    arrivals: Arc<Arrivals>,
    predictor: Mutex<Box<dyn CpuDelay>>,
}

impl Guardian {
    /// A guardian of those who take jobs from `queue`, with the predictor that `config` asks for.
    ///
    /// # Errors
    ///
    /// The kernel's run queues cannot be seen, or the system gives no more descriptors.
    pub(super) fn new(queue: Arc<RunQueue>, config: &GuardianConfig) -> Result<Self, StartError> {
        let predictor = match config.predictor {
            CpuPredictor::EarlierWaits => Box::new(Episodes::default()),
            CpuPredictor::RunQueues => kernel::cpu_delay()?,
        };
        let (beat, arrivals) = (Mutex::default(), Arc::new(Arrivals::new()?));
        Ok(Self { queue, beat, arrivals, predictor: Mutex::new(predictor) })
    }

    /// The thread that calls runs handlers, and others read.
    pub(super) fn enlist_worker(&self) {
        self.beat.lock().add_worker();
    }

    /// The thread that calls, a reactor's, reads and perhaps `works`.
    ///
    /// # Errors
    ///
    /// The system gives no more descriptors.
    pub(super) fn enlist_reader(self: &Arc<Self>, works: bool) -> io::Result<Arc<Loan>> {
        let loan = Arc::new(Loan::of_this_thread(self.arrivals.clone())?);
        let bell = loan.bell()?;
        let (guardian, debtor) = (self.clone(), loan.clone());
        tokio::spawn(async move {
            while bell.rings().await.is_ok() {
                guardian.refuse();
                // What has come is read and judged, and refusals are written.
                tokio::task::yield_now().await;
                debtor.repay();
                if works && !debtor.is_open() {
                    // It has the CPU: whoever comes now does not wait for that.
                    guardian.queue.set_cpu_delay(None);
                }
            }
        });
        self.beat.lock().add_reader(loan.clone(), works);
        Ok(loan)
    }

    /// Those who read are hurried, while they are starved, when bytes come on this connection; on
    /// those that are not watched, they are in ten milliseconds.
    pub(super) fn watch(&self, connection: impl AsFd) {
        if let Err(error) = self.arrivals.watch(connection) {
            tracing::debug!(%error, "the guardian does not watch a connection");
        }
    }

    /// Predicts by `predictor` from now on.
    pub(super) fn predict_by(&self, predictor: Box<dyn CpuDelay>) {
        *self.predictor.lock() = predictor;
    }

    /// Gives the thread that calls real-time priority, above what it lends.
    ///
    /// # Errors
    ///
    /// That is not permitted.
    pub(super) fn enter(config: &GuardianConfig) -> Result<(), RealtimeError> {
        loan::enter(config.priority + 1)
    }

    /// Goes on patrol until it is told to stop, on a thread that [may](Self::enter).
    pub(super) fn patrol(&self, config: &GuardianConfig, is_stopped: impl Fn() -> bool) {
        let _at_last = Disband(&self.beat);
        let (mut due, mut has_come) = (clock::now(), false);
        while !is_stopped() {
            let heeds = self.turn(config, &mut due, has_come);
            has_come = self.arrivals.wait(due.since(clock::now()), heeds);
        }
    }

    /// Takes back what was repaid, looks when that is `due`, and lends when bytes have come. True
    /// if somebody could be lent priority when more do.
    fn turn(&self, config: &GuardianConfig, due: &mut Instant, has_come: bool) -> bool {
        let (mut beat, now) = (self.beat.lock(), clock::now());
        let predictor = &mut **self.predictor.lock();
        let mut round = Round { now, queue: &self.queue, predictor, config };
        beat.collect();
        if now >= *due {
            *due = now + beat.look(&mut round);
        }
        if has_come {
            beat.heed(&round);
        }
        beat.heeds(config)
    }

    /// Refuses what cannot wait in the run queue until those who run handlers are predicted to.
    fn refuse(&self) {
        if let Some(delay) = self.queue.cpu_delay() {
            self.queue.refuse(Stage::CPU, clock::now(), delay, EXAMINED);
        }
    }
}

/// Nobody keeps what was lent when the patrol ends, even if a predictor panics.
struct Disband<'a>(&'a Mutex<Beat>);

impl Drop for Disband<'_> {
    fn drop(&mut self) {
        self.0.lock().disband();
    }
}
