//! What one lock owns: gate, classes and algorithm.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::classes::{Classes, Event, Key};
use seawall_control::controller::{
    Arrival, Completion, Init, Outcome, ServerController, SessionEvent, SessionId, Signal, Verdict,
};
use seawall_control::gate::{self, End, Gate, Id};
use seawall_control::predict::queue::RunQueue;
use seawall_control::request::{Budget, Claims, Class, Context, Identity, Rejected, Stage};
use tokio::sync::oneshot;

use crate::clock;
use crate::config;

/// Classes that routes may name, beside those that are learned.
pub(crate) const NAMED_MAX: usize = 64;

/// What a request that waits is told: how long it has waited and may go, or that it may not.
pub(super) type Turn = Result<Duration, Rejected>;

/// All clients are one session: nobody here is told of credits.
const GUEST: SessionId = SessionId { slot: 0, generation: 0 };

/// Gate, classes and algorithm.
#[derive(Debug)]
pub(super) struct State {
    pub(super) gate: Gate<oneshot::Sender<Turn>>,
    pub(super) classes: Classes,
    controller: Box<dyn ServerController>,
    /// How long requests of each class take behind, learned classes first.
    tails: Vec<RunQueue>,
    /// The classes that routes give.
    names: Vec<String>,
    slo: Option<Duration>,
    now: Instant,
    /// When the timer looks again.
    armed: Instant,
}

/// A request that was let in, or waits.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) id: Id,
    pub(super) context: Context,
    /// What its class was told by, if it was.
    pub(super) key: Option<Key>,
    /// Whether the algorithm counts it.
    pub(super) is_counted: bool,
}

impl State {
    pub(super) fn new(config: &config::Upstream, enforces: bool, names: &[String]) -> Self {
        const CHECKED: &str = "the configuration was checked";
        let now = clock::now();
        let mut init = Init::new(now, now.as_nanos());
        init.slo = config.slo.unwrap_or(config::SLO_UNSET);
        let gate = gate::Config { enforce: enforces, ..config.gate.clone() };
        let mut controller = config.algorithm().expect(CHECKED).server(init);
        let identity = Identity { speaks_credits: false, ..Identity::default() };
        controller.on_session(now, GUEST, SessionEvent::Opened(identity));
        Self {
            gate: Gate::new(&gate, init).expect(CHECKED),
            classes: Classes::new(&config.classes, now, init.seed).expect(CHECKED),
            controller,
            tails: vec![RunQueue::new(1); Class::COUNT + names.len()],
            names: names.to_vec(),
            slo: config.slo,
            now,
            armed: Instant::NEVER,
        }
    }

    /// The time that counts here: the clock's as read by the caller, but never earlier than it was.
    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// A request as stages see it: it may wait for what its deadline and the SLO leave after the
    /// time that 99 % of its class take behind (Protego §3.2).
    pub(super) fn context(&self, now: Instant, claims: &Claims, class: Class) -> Context {
        let context = Context::new(*claims, now).with_class(class);
        let left = match (claims.deadline, self.slo) {
            (None, None) => return context,
            (Some(left), None) | (None, Some(left)) => left,
            (Some(left), Some(slo)) => left.min(slo),
        };
        match Budget::Auto.of(left, self.tails[usize::from(class.0)].service_p99()) {
            Some(budget) => context.with_budget_at_most(budget),
            None => context,
        }
    }

    /// What the algorithm says. Unless it is [refused](Self::forget_refused), the request must
    /// [end](Self::on_end).
    pub(super) fn ask(&mut self, now: Instant, claims: &Claims, class: Class) -> Verdict {
        let mut arrival = Arrival::new(GUEST);
        arrival.class = class;
        arrival.priority = claims.priority;
        arrival.tenant = claims.tenant;
        arrival.droppable = claims.droppable;
        arrival.attempt = claims.attempt;
        // Of its own class: a queue that it does not stand in does not delay it.
        arrival.queue_delay = self.gate.predicted_wait(now, class);
        self.controller.on_arrival(now, &arrival)
    }

    /// A request that the algorithm was asked about goes no further.
    pub(super) fn forget_refused(&mut self, now: Instant, context: &Context, stage: Stage) {
        self.complete(now, context, Outcome::Refused(stage));
    }

    fn complete(&mut self, now: Instant, context: &Context, outcome: Outcome) {
        let delay = self.gate.queue_delay(now);
        self.controller.on_signal(now, Signal::QueueDelay(delay));
        let mut completion = Completion::new(GUEST, outcome, context.arrived());
        completion.class = context.class();
        completion.droppable = context.claims().droppable;
        completion.queue_delay = context.charged();
        completion.in_budget = !context.remaining(now).is_zero();
        self.controller.on_completion(now, &completion);
    }

    /// A request of `class` waits. If that is for its own class's limit, the class is worth
    /// keeping.
    pub(super) fn note_limited(&mut self, now: Instant, class: Class) {
        let is_full = self.gate.in_flight() >= self.gate.limit();
        let own = |view: &gate::View| view.class == class;
        let view = if is_full { None } else { self.gate.classes(now).find(own) };
        if view.is_some_and(|view| view.in_flight >= view.limit) {
            self.classes.on_limited(now, class);
        }
    }

    /// A request has ended, or was given up while it waited. `latency` is how long the upstream
    /// took for it, if that is known.
    pub(super) fn on_end(
        &mut self,
        now: Instant,
        entered: &Entered,
        end: End,
        latency: Option<Duration>,
    ) {
        let now = self.advance(now);
        self.gate.on_end(now, entered.id, end);
        let class = entered.context.class();
        if end == End::Served
            && let Some(latency) = latency
        {
            self.tails[usize::from(class.0)].on_served(latency, latency);
            if let Some(key) = &entered.key {
                self.classes.on_served(now, key, latency);
            }
        }
        if entered.is_counted {
            let outcome = match end {
                End::Served | End::Failed => Outcome::Done,
                End::Refused => Outcome::Refused(Stage::HANDLER),
                End::Cancelled => Outcome::Cancelled,
            };
            self.complete(now, &entered.context, outcome);
        }
    }

    /// A request that waited was refused: the gate has forgotten it.
    pub(super) fn on_expired(&mut self, now: Instant, entered: &Entered) {
        let now = self.advance(now);
        if entered.is_counted {
            self.complete(now, &entered.context, Outcome::Refused(Stage::GATE));
        }
    }

    /// The upstream refused a request at a stage that it names.
    pub(super) fn on_refused_behind(&mut self, now: Instant, entered: &Entered, stage: &str) {
        let now = self.advance(now);
        if let Some(key) = &entered.key {
            self.classes.on_refused(now, key, stage);
        }
    }

    /// Gives turns to who can have them, and lets classes go that are no more. True if classes have
    /// changed.
    pub(super) fn settle(&mut self) -> bool {
        let mut have_changed = false;
        while let Some(event) = self.classes.poll_event() {
            have_changed = true;
            match event {
                Event::Split { name, why, .. } => tracing::info!(name, why, "a class of its own"),
                Event::Merged { class, into } => {
                    tracing::info!(class = class.0, into = into.0, "a class is no more");
                    self.gate.retire(class);
                }
                _ => {}
            }
        }
        let now = self.now;
        while let Some(turn) = self.gate.poll(now) {
            match turn {
                gate::Turn::Go { id, item, waited } => {
                    // Who has left meanwhile tells so itself, but maybe later.
                    if item.send(Ok(waited)).is_err() {
                        self.gate.on_end(now, id, End::Cancelled);
                    }
                }
                gate::Turn::Refuse { item, rejected, .. } => _ = item.send(Err(rejected)),
            }
        }
        have_changed
    }

    /// Does what is due, and says when the next is.
    pub(super) fn on_time(&mut self, now: Instant) -> Instant {
        let now = self.advance(now);
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            let delay = self.gate.queue_delay(now);
            self.controller.on_signal(now, Signal::QueueDelay(delay));
            self.controller.handle_timeout(now);
        }
        // There is one session, which is told of nothing.
        while self.controller.poll_push(now).is_some() {}
        self.armed = self.next();
        self.armed
    }

    /// Whether something is to happen before the timer looks again; it is told of that once.
    pub(super) fn is_sooner(&mut self) -> bool {
        let next = self.next();
        let is_sooner = next < self.armed;
        if is_sooner {
            self.armed = next;
        }
        is_sooner
    }

    fn next(&self) -> Instant {
        let both = [self.gate.poll_timeout(), self.controller.poll_timeout()];
        both.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// What a class is called.
    pub(super) fn name(&self, class: Class) -> String {
        match usize::from(class.0).checked_sub(Class::COUNT) {
            Some(named) => self.names[named].clone(),
            None => self.classes.name(class),
        }
    }

    /// What the algorithm has to show.
    pub(super) fn metrics(&self) -> seawall_control::metrics::Metrics {
        self.controller.metrics()
    }
}
