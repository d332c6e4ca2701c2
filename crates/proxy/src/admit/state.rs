//! What one lock owns: gate, classes, and the entry that all servers of Seawall have.

use std::time::Duration;

use seawall_control::classes::{Classes, Event, Key};
use seawall_control::controller::{Init, Outcome, SessionId};
use seawall_control::entry::{self, Entry};
use seawall_control::fields::{self, Name};
use seawall_control::gate::{self, End, Gate, Id};
use seawall_control::predict::queue::RunQueue;
use seawall_control::request::{Budget, Class, Context, Rejected, Stage};
use seawall_control::standing::Queues;
use seawall_control::{Instant, Rng};
use seawall_tower::clock;
use seawall_tower::server::parts::{self, Sessions};
use tokio::sync::oneshot;

use super::{Arriving, Refusal};
use crate::config;

/// Classes that routes may name, beside those that are learned.
pub(crate) const NAMED_MAX: usize = 64;

/// What a request that waits is told: how long it has waited and may go, or that it may not.
pub(super) type Turn = Result<Duration, Rejected>;

/// Gate, classes and entry.
#[derive(Debug)]
pub(super) struct State {
    pub(super) gate: Gate<oneshot::Sender<Turn>>,
    pub(super) classes: Classes,
    entry: Entry,
    sessions: Sessions,
    /// Clients are told what the algorithm has for them, and their credits are this proxy's.
    tells: bool,
    /// How long requests of each class take behind, learned classes first.
    tails: Vec<RunQueue>,
    slo: Option<Duration>,
    /// The classes that routes give.
    names: Vec<String>,
    /// Spreads those who are sent away.
    rng: Rng,
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
    /// Where the entry counts it, if it does.
    pub(super) session: Option<SessionId>,
}

/// A request that the entry was asked about. Its session must be told of its
/// [end](State::complete).
pub(super) struct Asked {
    pub(super) session: SessionId,
    pub(super) context: Context,
    /// What the entry says.
    pub(super) decision: Result<(), Rejected>,
}

impl State {
    pub(super) fn new(
        config: &config::Upstream,
        enforces: bool,
        tells: bool,
        names: &[String],
    ) -> Self {
        const CHECKED: &str = "the configuration was checked";
        let now = clock::now();
        let mut init = Init::new(now, now.as_nanos());
        init.slo = config.slo.unwrap_or(config::SLO_UNSET);
        let told = entry::Config {
            cores: init.cores,
            seed: init.seed,
            target_delay: config.slo.unwrap_or(Duration::MAX),
            rtt: init.rtt,
            // The gate bounds waits, whatever the algorithm is.
            budget: Budget::Auto,
            // As long as its own configuration lets them be.
            queues: Queues::Full,
            service_p99: None,
        };
        let mut entry = Entry::new(now, config.algorithm().expect(CHECKED), &told);
        let gate = gate::Config { enforce: enforces, ..config.gate.clone() };
        Self {
            gate: Gate::new(&gate, init).expect(CHECKED),
            classes: Classes::new(&config.classes, now, init.seed).expect(CHECKED),
            sessions: Sessions::open(now, &mut entry, config.limits),
            entry,
            tells,
            tails: vec![RunQueue::new(1); Class::COUNT + names.len()],
            slo: config.slo,
            names: names.to_vec(),
            rng: Rng::new(init.seed),
            armed: Instant::NEVER,
        }
    }

    /// The time that counts here: the clock's as read by the caller, but never earlier than it was.
    pub(super) fn advance(&mut self, now: Instant) -> Instant {
        self.entry.advance(now)
    }

    /// Asks the entry. A request may wait for what its deadline and the SLO leave after the time
    /// that 99 % of its class take behind (Protego §3.2).
    pub(super) fn ask(&mut self, now: Instant, arriving: &Arriving<'_>, class: Class) -> Asked {
        let &Arriving { claims, told, sender: (known, peer), .. } = arriving;
        let owner = if self.tells { told.owner(known) } else { None };
        let (session, excess) = self.sessions.arrive(now, &mut self.entry, owner, peer.identity);
        // Of its own class: a queue that it does not stand in does not delay it.
        let wait = self.gate.predicted_wait(now, class);
        let arriving = entry::Arriving {
            session,
            claims: &claims,
            class,
            demand: told.fields.demand.unwrap_or(0),
            window_ack: told.fields.ack.unwrap_or(0),
            waited: Duration::ZERO,
            network_p99: Duration::ZERO,
            service_p99: Some(self.tail(class)),
            queue: (self.gate.waiting() as usize, wait),
            grace: Duration::ZERO,
            excess,
        };
        let judgement = self.entry.on_arrival(now, &arriving);
        let context = judgement.context(&claims, class);
        // The only stage is the gate, which decides by itself who may wait.
        let decision = judgement.decide(&context, []);
        Asked { session, context, decision }
    }

    /// A request that the entry was asked about has ended, or goes no further.
    pub(super) fn complete(
        &mut self,
        now: Instant,
        session: SessionId,
        context: &Context,
        outcome: Outcome,
    ) {
        self.entry.on_queue(now, self.gate.queue_delay(now));
        self.entry.on_completion(now, &entry::completion(now, session, context, outcome));
        self.sessions.leave(now, session);
        // Nobody can be told but with a response. Who waits for credits asks, and finds them.
        while self.entry.poll_push().is_some() {}
    }

    /// What a client that names itself is told with a response of `class`.
    pub(super) fn news(
        &mut self,
        now: Instant,
        session: SessionId,
        class: Class,
    ) -> fields::Response {
        let mut news = fields::Response::default();
        let now = self.advance(now);
        news.feedback = self.entry.feedback(now, session);
        news.queue = Some(self.gate.predicted_wait(now, class));
        news
    }

    /// The refusal of a request that has [ended](Self::complete) with it.
    pub(super) fn refusal(
        &mut self,
        now: Instant,
        session: Option<SessionId>,
        context: &Context,
        rejected: Rejected,
    ) -> Box<Refusal> {
        let mut news = fields::Response::default();
        if let Some(session) = session.filter(|_| self.tells) {
            news.feedback = self.entry.feedback(now, session);
        }
        let name = rejected.stage.name().and_then(Name::new);
        let name = name.unwrap_or_else(|| Name::lossy(&rejected.stage.to_string()));
        let is_late = context.time_left(now).is_some_and(|left| left.is_zero());
        let spread = self.rng.uniform();
        Box::new(Refusal {
            rejected,
            told: parts::Refusal::new(&rejected, is_late, name, &news, spread),
            slo: self.slo.map(|slo| (slo, self.tail(context.class()))),
        })
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
        if let Some(session) = entered.session {
            let outcome = match end {
                End::Served | End::Failed => Outcome::Done,
                End::Refused => Outcome::Refused(Stage::HANDLER),
                End::Cancelled => Outcome::Cancelled,
            };
            self.complete(now, session, &entered.context, outcome);
        }
    }

    /// A request that waited was refused: the gate has forgotten it.
    pub(super) fn on_expired(
        &mut self,
        now: Instant,
        entered: &Entered,
        rejected: Rejected,
    ) -> Box<Refusal> {
        let now = self.advance(now);
        if let Some(session) = entered.session {
            self.complete(now, session, &entered.context, Outcome::Refused(rejected.stage));
        }
        self.refusal(now, entered.session, &entered.context, rejected)
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
    pub(super) fn settle(&mut self, now: Instant) -> bool {
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
        let now = self.advance(now);
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
        self.entry.handle_timeout(now, self.gate.queue_delay(now));
        while self.entry.poll_push().is_some() {}
        self.sessions.sweep(now, &mut self.entry);
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
        let both = [self.gate.poll_timeout(), self.entry.poll_timeout()];
        both.into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }

    /// Time that 99 % of a class take behind; zero before the first.
    pub(super) fn tail(&self, class: Class) -> Duration {
        self.tails[usize::from(class.0)].service_p99()
    }

    /// What a class is called.
    pub(super) fn name(&self, class: Class) -> String {
        match usize::from(class.0).checked_sub(Class::COUNT) {
            Some(named) => self.names[named].clone(),
            None => self.classes.name(class),
        }
    }

    /// Requests that are with the upstream, or wait for it.
    pub(super) fn outstanding(&self) -> u32 {
        self.gate.in_flight() + self.gate.waiting()
    }

    /// What the algorithm has to show.
    pub(super) fn metrics(&self) -> seawall_control::metrics::Metrics {
        self.entry.metrics()
    }

    /// Sessions of clients that name themselves.
    pub(super) fn session_count(&self) -> usize {
        self.sessions.count()
    }
}
