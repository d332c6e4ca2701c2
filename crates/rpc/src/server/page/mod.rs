//! What a server publishes of its requests, and what it believes of the node agent's orders.
//!
//! ```text
//!   arrival ─► late? ─► boosted-until, doorbell        agent
//!      │                                                 │ orders
//!   handler ◄── hint, grace ◄───────── page ◄────────────┘
//!      │                                ▲
//!   reply ───► one of three counts ─────┘
//! ```

mod config;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_abi::page::{Description, Orders, Publisher, Sample, Shard, Unpublished};
use seawall_abi::responder::{Doorbell, Late};
use seawall_control::Instant;
use seawall_control::request::Claims;
use seawall_control::scaling::growth;
use seawall_control::scaling::responder::{self, Responder, Trust, lateness, observed};
use seawall_control::time::nanos;
use thiserror::Error;

pub use config::PageConfig;

use super::config::ServerConfig;
use super::job::{End, Reply};
use crate::clock;

/// The page of one server.
#[derive(Debug)]
pub(crate) struct Page {
    publisher: Arc<Publisher>,
    judge: Mutex<Judge>,
    /// The last request that could be judged was late.
    was_late: AtomicBool,
    doorbell: Doorbell,
    /// How much longer requests may wait while capacity grows.
    grace: Duration,
}

/// Which requests call for a boost.
#[derive(Debug, Default)]
struct Judge {
    responder: Responder,
    trust: Trust,
}

/// When all requests have been late for so long, they are not believed until one is in time: then
/// clocks disagree, or it is no surge. The longest of the paper's evaluation takes 5 s.
const LATE_MAX: Duration = Duration::from_secs(10);

/// Why a server has no page although it should. It serves all the same.
#[derive(Debug, Error)]
enum NoPage {
    #[error(transparent)]
    Unpublished(#[from] Unpublished),
    #[error("cannot tell which process this is: {0}")]
    Io(#[from] io::Error),
}

thread_local! {
    /// The shard in which this thread counts.
    static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Shards that were given to threads.
static SHARDS: AtomicUsize = AtomicUsize::new(0);

impl Page {
    /// Publishes, if the configuration says where. A server whose page cannot be made says so once,
    /// and runs without.
    pub(super) fn publish(config: &ServerConfig, port: u16) -> Option<Arc<Self>> {
        let folder = config.page.folder()?;
        let publish = || -> Result<Self, NoPage> {
            let description = Description::of_this_process(config.page.service(), port)?;
            let publisher = Arc::new(Publisher::create(&folder, &description)?);
            publisher.beat(clock::now().as_nanos());
            Ok(Self {
                publisher,
                judge: Mutex::default(),
                was_late: AtomicBool::new(false),
                doorbell: Doorbell::new(&folder)?,
                grace: config.page.grace.unwrap_or_else(|| config.target_delay()),
            })
        };
        match publish() {
            Ok(page) => Some(Arc::new(page)),
            Err(error) => {
                tracing::warn!(%error, "no page of metrics");
                None
            }
        }
    }

    /// The page itself.
    pub(super) fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// The agent's orders, as far as they count.
    pub(super) fn orders(&self, now: Instant) -> Orders {
        self.publisher.orders().standing(now.as_nanos())
    }

    /// How much longer than its budget a request may wait.
    pub(super) fn grace(&self, now: Instant) -> Duration {
        let until = Instant::from_nanos(self.orders(now).growing_until_ns);
        growth::grace(now, until, self.grace)
    }

    /// The server lives.
    pub(super) fn beat(&self, now: Instant) {
        self.publisher.beat(now.as_nanos());
    }

    /// A request has been read `now`, after its bytes had `waited`. Gives how long its job was
    /// under way when they came, if it says so and can be believed.
    pub(super) fn on_arrival(
        &self,
        now: Instant,
        claims: &Claims,
        waited: Duration,
    ) -> Option<Duration> {
        shard(&self.publisher).on_arrival();
        let came = clock::realtime_ns().saturating_sub(nanos(waited));
        let age_max = responder::Config::default().age_max;
        // What cannot be, because clocks disagree, is neither late nor counted.
        let time_from_start = observed(claims.start_time_ns, came, age_max).ok()?;
        self.judge(now, claims.path, time_from_start);
        Some(time_from_start)
    }

    /// The FirstResponder of a machine without the agent's eBPF program (SurgeGuard §IV-A).
    fn judge(&self, now: Instant, path: u16, time_from_start: Duration) {
        let orders = self.orders(now);
        let some = |ns: u64| (ns > 0).then(|| Duration::from_nanos(ns));
        let default = responder::Config::default();
        let config = responder::Config {
            expected: some(orders.expected_time_from_start_ns),
            window: some(orders.freeze_ns).unwrap_or(default.window),
            ..default
        };
        let is_late = lateness(time_from_start, &config).is_some();
        // One in time after another needs no lock.
        if !is_late && !self.was_late.load(Relaxed) {
            return;
        }
        let mut judge = self.judge.lock();
        self.was_late.store(is_late, Relaxed);
        let is_believed = judge.trust.on_judged(now, is_late, LATE_MAX);
        if is_late {
            self.publisher.on_late();
        }
        if !is_believed {
            return;
        }
        let Some(late_by) = judge.responder.on_arrival(now, path, time_from_start, &config) else {
            return;
        };
        // As long as its path is frozen: if requests are late then, it is boosted again.
        let granted = judge.trust.grant(now, now + config.window);
        drop(judge);
        // Where one sender's clock is behind, others' requests in time restore belief in it.
        let Some(until) = granted else { return };
        self.publisher.boost_until(until.as_nanos());
        let Description { port, process, .. } = self.publisher.description();
        let (pid, port, namespace) = (process.pid, *port, process.namespace);
        let (at_ns, late_by_ns) = (now.as_nanos(), nanos(late_by));
        if !self.doorbell.ring(&Late { path, pid, port, at_ns, late_by_ns, namespace }) {
            self.publisher.on_bell_lost();
        }
    }

    /// A request that arrived has its terminal reply.
    pub(super) fn on_end(&self, now: Instant, reply: &Reply) {
        let shard = shard(&self.publisher);
        match &reply.end {
            End::Done(_) | End::Failed { .. } if reply.handled => {
                shard.on_completion(&sample(now, reply));
            }
            // A handler may pass a refusal of another service on: the CPU is missing there.
            End::Rejected(_) if !reply.handled && reply.context.is_shed() => shard.on_shed(),
            _ => shard.on_unserved(),
        }
    }

    /// The kernel has refused so many requests for want of CPU that never arrived here.
    pub(super) fn on_bounced(&self, requests: u64) {
        shard(&self.publisher).on_bounced(requests);
    }

    /// A request begins to wait for a connection to another service.
    pub(crate) fn on_wait(&self, now: Instant) {
        shard(&self.publisher).on_wait(now.as_nanos());
    }

    /// Its wait that began then is over.
    pub(crate) fn on_waited(&self, since: Instant) {
        shard(&self.publisher).on_waited(since.as_nanos());
    }

    /// So many requests that arrived will never have a reply.
    pub(super) fn on_forgotten(&self, requests: u32) {
        let shard = shard(&self.publisher);
        (0..requests).for_each(|_| shard.on_unserved());
    }

    /// A request came with a hint that is not believed.
    pub(super) fn on_hint_distrusted(&self) {
        self.publisher.on_hint_distrusted();
    }
}

/// The shard of the thread that calls. Threads take them in turn.
fn shard(publisher: &Publisher) -> &Shard {
    let number = SHARD.get().unwrap_or_else(|| {
        let number = SHARDS.fetch_add(1, Relaxed);
        SHARD.set(Some(number));
        number
    });
    publisher.shard(number)
}

/// What a request took that its handler has answered.
fn sample(now: Instant, reply: &Reply) -> Sample {
    let context = &reply.context;
    let spent = context.waits().lock().spent(now);
    let exec = now.since(context.came()).saturating_sub(spent.replies);
    Sample {
        exec_ns: nanos(exec),
        pool_wait_ns: nanos(spent.connections.min(exec)),
        time_from_start_ns: context.time_from_start().map(nanos),
        upstream_exec_ns: nanos(context.claims().upstream_exec),
        is_hinted: context.claims().upscale_hops > 0,
    }
}
