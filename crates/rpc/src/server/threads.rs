//! The threads of a server: who reads and writes, and who runs handlers.
//!
//! ```text
//!   one core                         several cores
//!   ┌──────────────────────┐         ┌────────────┐   run queue   ┌──────────┐
//!   │ tokio reactor        │         │ dispatcher │ ────────────► │ worker 1 │
//!   │  ├ connections       │         │  reactor   │               ├──────────┤
//!   │  └ worker: a slice,  │         │  connections ◄─ replies ── │ worker n │
//!   │    then I/O again    │         └────────────┘               └──────────┘
//!   └──────────────────────┘
//! ```
//!
//! Whether they get the CPU is the [guardian]'s to see, which may lend those that read priority.
//! They run no handlers then.
//!
//! A dispatcher of its own keeps a long handler from blocking the requests behind it on its
//! connections (Breakwater §3.1). On one core it could not run beside the handler anyway, so the
//! worker itself turns to its reactor between handlers, which is cheaper than two threads that take
//! the core from each other.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::estimate::{Ewma, SharedHistogram};
use seawall_control::time::nanos;
use tokio::runtime::{Builder, Handle};
use tokio::task::coop::unconstrained;

use super::guardian::loan::Loan;
use super::guardian::{Guardian, GuardianWay};
use super::run_queue::Job;
use super::{Shared, StartError};
use crate::clock;

/// Tasks that a reactor thread runs before it asks the kernel for news again.
const EVENT_INTERVAL: u32 = 64;

/// Weight of the newest turn of a handler in their mean.
const TURN_WEIGHT: f64 = 0.05;

/// All threads of one server.
#[derive(Debug)]
pub(super) struct Threads {
    /// A handle for each thread that reads and writes.
    pub(super) reactors: Vec<Handle>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    /// Starts dispatchers and workers, all of which stop when `shared.stop` says so.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StartError> {
        let (dispatchers, workers) = (shared.config.dispatchers(), shared.config.workers());
        let mut started = Self { reactors: Vec::new(), threads: Vec::new() };
        let config = &shared.config.guardian;
        let guardian = if config.wants_patrol() {
            Some(Arc::new(Guardian::new(shared.queue.clone(), config)?))
        } else {
            None
        };
        let readers = if dispatchers == 0 { workers } else { dispatchers };
        for index in 0..readers {
            let works = dispatchers == 0;
            let role = if works { "" } else { "io-" };
            let guardian = guardian.clone();
            let reactor =
                started.reactor(format!("seawall-{role}{index}"), shared, move |shared| {
                    let loan = guardian.and_then(|guardian| {
                        let loan = guardian.enlist_reader(works).inspect_err(|error| {
                            tracing::error!(%error, "the guardian does not watch a thread");
                        });
                        loan.ok()
                    });
                    if works {
                        shared.enlist();
                        // As a task among the others, not as the main future, so that connections
                        // whose bytes have come go first.
                        tokio::spawn(work(shared.clone(), loan));
                    }
                })?;
            started.reactors.push(reactor);
        }
        let are_own = dispatchers > 0 && !shared.config.threads.outside;
        for index in 0..if are_own { workers } else { 0 } {
            let name = format!("seawall-worker-{index}");
            let reactor = started.reactors[index % dispatchers].clone();
            let (shared, guardian) = (shared.clone(), guardian.clone());
            started.spawn(name, move || run_worker(&shared, guardian.as_deref(), &reactor))?;
        }
        if let Some(guardian) = guardian {
            started.patrol(shared, guardian)?;
        }
        Ok(started)
    }

    /// Waits until all threads have ended.
    pub(super) fn join(self) {
        // The last first: the patrol holds on to the others.
        for thread in self.threads.into_iter().rev() {
            // A thread that panicked has said so on standard error; there is nothing to add.
            let _ = thread.join();
        }
    }

    /// Starts the patrol, if it is permitted. The last thread that is started.
    fn patrol(&mut self, shared: &Arc<Shared>, guardian: Arc<Guardian>) -> Result<(), StartError> {
        let config = shared.config.guardian;
        let (tell, told) = mpsc::sync_channel(1);
        let (on_patrol, stop) = (guardian.clone(), shared.clone());
        self.spawn("seawall-patrol".into(), move || {
            let entered = Guardian::enter(&config);
            let is_permitted = entered.is_ok();
            _ = tell.send(entered);
            if is_permitted {
                on_patrol.patrol(&config, || stop.stop.is_stopped());
            }
        })?;
        match told.recv().map_err(io::Error::other)? {
            Ok(()) => _ = shared.guardian.set(guardian),
            Err(error) if config.way == GuardianWay::Patrol => return Err(error.into()),
            Err(error) => tracing::info!(%error, "no guardian"),
        }
        Ok(())
    }

    /// Starts a thread with a reactor, which does what `first` says before all else.
    fn reactor(
        &mut self,
        name: String,
        shared: &Arc<Shared>,
        first: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) -> io::Result<Handle> {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_all().event_interval(EVENT_INTERVAL);
        let runtime = runtime.build()?;
        let handle = runtime.handle().clone();
        let shared = shared.clone();
        self.spawn(name, move || {
            let _in_runtime = runtime.enter();
            first(&shared);
            runtime.block_on(shared.stop.wait());
        })?;
        Ok(handle)
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }
}

/// Runs jobs on the thread that calls, until the server stops.
pub(super) fn run_worker(shared: &Arc<Shared>, guardian: Option<&Guardian>, reactor: &Handle) {
    shared.enlist();
    guardian.inspect(|guardian| guardian.enlist_worker());
    reactor.block_on(shared.stop.or(work(shared.clone(), None)));
}

/// Runs jobs for ever, a slice at a time: after each, its time is counted, and other tasks of the
/// thread, or the order to stop, get their turn.
///
/// Unconstrained, because tokio's bound on what one task may do in one poll is meant for one task.
/// Here it would hold all handlers of a slice to it, and then let none of them go on.
///
/// While the thread has a borrowed priority, the `loan`, it takes no jobs: it was lent for those
/// who read.
fn work(shared: Arc<Shared>, loan: Option<Arc<Loan>>) -> impl Future<Output = ()> {
    unconstrained(async move {
        let mut turn = Ewma::new(TURN_WEIGHT);
        loop {
            let next = poll_fn(|cx| match &loan {
                Some(loan) if loan.is_open() => Poll::Ready(None),
                _ => shared.queue.poll_pop(cx.waker()).map(Some),
            });
            let Some((since, job)) = next.await else {
                yield_to_reactor().await;
                continue;
            };
            let began = clock::now();
            let now = run_slice(&shared, loan.as_deref(), (began, since, job), &mut turn);
            shared.counters.busy_nanos.fetch_add(now.since(began).as_nanos() as u64, Relaxed);
            if shared.queue.len() > 0 {
                yield_to_reactor().await;
            }
        }
    })
}

/// Runs a job that could run since a time, now that it is `began`, and more until the slice is
/// over; gives the time then.
fn run_slice(
    shared: &Shared,
    loan: Option<&Loan>,
    (began, since, job): (Instant, Instant, Job),
    turn: &mut Ewma,
) -> Instant {
    let slice = shared.config.threads.slice;
    // Else who writes is another thread, and awake already.
    let writes = shared.config.dispatchers() == 0;
    let waits = &shared.counters.waits.run_queue;
    let (mut now, mut refused) = run(waits, since, began, job, turn);
    while now.since(began) < slice {
        // A refusal waits no longer than a slice: it leaves before the next handler runs, if that
        // is expected to outlast it. Where handlers are quick, refusals share a write.
        let next = Duration::from_nanos(turn.value().unwrap_or(0.0) as u64);
        if writes && refused && now.since(began) + next > slice {
            break;
        }
        if loan.is_some_and(Loan::is_open) {
            break;
        }
        let Some((since, job)) = shared.queue.pop() else { break };
        let ran = run(waits, since, now, job, turn);
        (now, refused) = (ran.0, refused || ran.1);
    }
    now
}

/// Polls one handler, and charges what it waited since it could run. Gives the time, and whether a
/// stage has refused the request; of one that was not, `turn` learns how long that took.
fn run(
    waits: &SharedHistogram,
    since: Instant,
    began: Instant,
    job: Job,
    turn: &mut Ewma,
) -> (Instant, bool) {
    let context = job.metadata().clone();
    context.begin_poll(since, began);
    waits.observe(began.since(since));
    // A handler that panics fails its own call and nobody else's.
    if catch_unwind(AssertUnwindSafe(|| job.run())).is_err() {
        tracing::error!("a handler panicked; its call was answered with an error");
    }
    let now = clock::now();
    context.end_poll(now);
    let refused = context.is_refused();
    if !refused {
        turn.observe(nanos(now.since(began)) as f64);
    }
    (now, refused)
}

/// Lets all other tasks of the thread run, and its reactor look for news.
async fn yield_to_reactor() {
    tokio::task::yield_now().await;
}

/// A flag that threads and tasks can wait for.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stopped: std::sync::atomic::AtomicBool,
    notify: tokio::sync::Notify,
}

impl Stop {
    /// Lets all waiters go on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, std::sync::atomic::Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// True once [`stop`](Self::stop) was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Waits for [`stop`](Self::stop).
    pub(super) async fn wait(&self) {
        let notified = self.notify.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if !self.is_stopped() {
            notified.await;
        }
    }

    /// Runs `future` until [`stop`](Self::stop).
    async fn or(&self, future: impl Future<Output = ()>) {
        let stopped = self.wait();
        tokio::pin!(stopped);
        tokio::pin!(future);
        poll_fn(|cx| {
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            future.as_mut().poll(cx)
        })
        .await;
    }
}
