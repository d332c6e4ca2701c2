//! What a handler knows about the request it serves.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::request::{self, Priority, Rejected, Spent, Stage, Tenant, Waits};
use seawall_control::scaling::hint;
use seawall_control::time::nanos;

use super::page::Page;
use crate::client::Request;
use crate::clock;

/// How a request came to this server.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) came: Instant,
    pub(super) time_from_start: Option<Duration>,
    pub(super) page: Option<Arc<Page>>,
    pub(super) own_budget: Duration,
    pub(super) is_repeatable: bool,
}

/// The request context, as handlers see it: cheap to clone and to hand to stages.
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    request: request::Context,
    /// When the poll that runs now began, nanoseconds.
    polled_at: AtomicU64,
    /// Time on workers in all polls before it, nanoseconds.
    worked: AtomicU64,
    /// When its bytes came, before they were read.
    came: Instant,
    /// From the start of its job until then, if it says when that was and is believed.
    time_from_start: Option<Duration>,
    /// Its waits for services behind this one.
    waits: Mutex<Waits>,
    /// Where it counts, if anywhere.
    page: Option<Arc<Page>>,
    /// How long it may wait here if it is asked nothing shorter: what the server can be blamed for.
    own_budget: Duration,
    /// A stage has refused it.
    refused: AtomicBool,
    /// The CPU was missing that it would have needed in time.
    shed: AtomicBool,
    /// Why it was refused where no handler could say so.
    outright: OnceLock<Rejected>,
    /// No harm is done if its handler has begun, and another replica serves it as well.
    is_repeatable: bool,
    /// It has its reply.
    answered: AtomicBool,
}

impl Context {
    pub(super) fn new(request: request::Context, origin: Origin) -> Self {
        let Origin { came, time_from_start, page, own_budget, is_repeatable } = origin;
        Self(Arc::new(Inner {
            request,
            came,
            time_from_start,
            waits: Mutex::default(),
            page,
            polled_at: AtomicU64::new(0),
            worked: AtomicU64::new(0),
            own_budget,
            refused: AtomicBool::new(false),
            shed: AtomicBool::new(false),
            outright: OnceLock::new(),
            is_repeatable,
            answered: AtomicBool::new(false),
        }))
    }

    /// What the request has left, now: the smaller of its delay budget and its time to the
    /// deadline.
    pub fn remaining_now(&self) -> Duration {
        self.remaining(clock::now())
    }

    /// When the job began that it is a part of, nanoseconds of the realtime clock: when it came
    /// here, if nobody has said it before.
    pub fn start_time_ns(&self) -> u64 {
        match self.claims().start_time_ns {
            0 => clock::realtime_ns().saturating_sub(nanos(clock::now().since(self.0.came))),
            start => start,
        }
    }

    /// Hops of the upscale hint to put on requests that are sent for this one: what is left of the
    /// hint that it came with, or what the node agent orders, if that is more.
    pub fn upscale_hops(&self) -> u16 {
        let own = self.0.page.as_ref().map_or(0, |page| page.orders(clock::now()).hint);
        hint::forwarded(self.claims().upscale_hops, own)
    }

    /// How long it has waited for other services so far.
    pub fn spent(&self) -> Spent {
        self.0.waits.lock().spent(clock::now())
    }

    /// What is asked of another service on behalf of this request: with what it has left, with the
    /// hint, and with its claims wherever `request` has none of its own.
    ///
    /// [`Downstream`](crate::Downstream) does it to all that it sends.
    #[must_use]
    pub fn onward(&self, mut request: Request) -> Request {
        let (claims, now) = (self.claims(), clock::now());
        if request.priority == Priority::default() {
            request.priority = claims.priority;
        }
        if request.tenant == Tenant::default() {
            request.tenant = claims.tenant;
        }
        if request.path == 0 {
            request.path = claims.path;
        }
        if request.start_time_ns == 0 {
            request.start_time_ns = self.start_time_ns();
        }
        request.droppable &= claims.droppable;
        let least = |a: Option<Duration>, b: Option<Duration>| a.into_iter().chain(b).min();
        request.deadline = least(request.deadline, self.time_left(now));
        // The budget that this server gave it is of this server's waits; another gives its own.
        let budget = claims.budget.map(|budget| budget.saturating_sub(self.charged()));
        request.budget = least(request.budget, budget);
        request.upscale_hops = request.upscale_hops.max(self.upscale_hops());
        let spent = self.0.waits.lock().spent(now);
        let exec = now.since(self.0.came).saturating_sub(spent.replies + spent.connections);
        request.upstream_exec = request.upstream_exec.max(claims.upstream_exec + exec);
        request
    }

    /// Its waits for services behind this one.
    pub(crate) fn waits(&self) -> &Mutex<Waits> {
        &self.0.waits
    }

    /// Work that no worker of the server does: a device, another process, a thread of the
    /// application. For as long as the result lives, nothing is taken for a wait for other
    /// services, also if calls to them are out.
    #[must_use]
    pub fn working(&self) -> Working {
        self.0.waits.lock().on_work(clock::now());
        Working(self.clone())
    }

    /// Where it counts, if anywhere.
    pub(crate) fn page(&self) -> Option<&Page> {
        self.0.page.as_deref()
    }

    /// When its bytes came.
    pub(super) fn came(&self) -> Instant {
        self.0.came
    }

    /// From the start of its job until then, if that is known.
    pub(super) fn time_from_start(&self) -> Option<Duration> {
        self.0.time_from_start
    }

    /// A worker begins to poll the handler, which has waited for that since `since`.
    pub(super) fn begin_poll(&self, since: Instant, now: Instant) {
        self.charge(now.since(since));
        self.0.polled_at.store(now.as_nanos(), Relaxed);
        self.0.waits.lock().on_work(now);
    }

    /// The poll has ended.
    pub(super) fn end_poll(&self, now: Instant) {
        self.0.worked.fetch_add(nanos(now.since(self.polled_at())), Relaxed);
        self.0.waits.lock().on_rest(now);
    }

    /// Its handler has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.polled_at() != Instant::ORIGIN
    }

    /// No harm is done if its handler has begun, and another replica serves it as well.
    pub(super) fn is_repeatable(&self) -> bool {
        self.0.is_repeatable
    }

    /// Refuses a request that has waited since `since`, uncharged, if it cannot wait for `delay`
    /// more at the `stage` that holds its worker. True if it did: then it has to be answered.
    pub(super) fn refuse_outright(
        &self,
        stage: Stage,
        now: Instant,
        since: Instant,
        delay: Duration,
    ) -> bool {
        let Err(rejected) = self.admit_waiting(stage, now, since, delay) else { return false };
        self.charge(now.since(since));
        if stage == Stage::CPU {
            self.judge_shed(delay);
        }
        self.0.outright.set(rejected.with_retry_after(delay)).is_ok()
    }

    /// The refusal of a request that was refused [outright](Self::refuse_outright).
    pub(super) fn outright_refusal(&self) -> Option<Rejected> {
        self.0.outright.get().copied()
    }

    /// True for the first that asks: it answers the request.
    pub(super) fn may_answer(&self) -> bool {
        !self.0.answered.swap(true, Relaxed)
    }

    /// A stage has refused it that predicted a wait of `delay` more for CPU. That was for want of
    /// CPU only if the server itself would not let it wait for so long: a client may ask for less
    /// than anybody can do.
    pub(super) fn judge_shed(&self, delay: Duration) {
        if self.charged().saturating_add(delay) >= self.0.own_budget {
            self.set_shed();
        }
    }

    /// The algorithm has refused it, because there is too much to do.
    pub(super) fn set_shed(&self) {
        self.0.shed.store(true, Relaxed);
    }

    /// True if it was refused for want of CPU.
    pub(super) fn is_shed(&self) -> bool {
        self.0.shed.load(Relaxed)
    }

    /// A stage has refused it.
    pub(super) fn set_refused(&self) {
        self.0.refused.store(true, Relaxed);
    }

    /// True if a stage has refused it.
    pub(super) fn is_refused(&self) -> bool {
        self.0.refused.load(Relaxed)
    }

    /// When the poll that runs now began.
    pub(super) fn polled_at(&self) -> Instant {
        Instant::from_nanos(self.0.polled_at.load(Relaxed))
    }

    /// Time on workers, the poll that runs now included.
    pub(super) fn worked(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.0.worked.load(Relaxed)) + now.since(self.polled_at())
    }
}

/// A request [works](Context::working) until this is dropped.
#[derive(Debug)]
pub struct Working(Context);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.waits.lock().on_rest(clock::now());
    }
}

impl Deref for Context {
    type Target = request::Context;

    fn deref(&self) -> &request::Context {
        &self.0.request
    }
}
