//! A gate in front of a service that is somebody else's: so many requests are let in at once, and
//! the rest waits here, where the wait is known.
//!
//! ```text
//!               class 0: limit 1   ─┐
//!   arrivals ─► class 1: limit 12  ─┼─ turns ─► all: limit 14 ─► upstream
//!               class 2: limit 3   ─┘
//!                 │ predicted wait exceeds what the request has left: refused at once
//! ```
//!
//! A proxy cannot see the queues inside of a service, nor refuse what waits in them. So it lets in
//! only what keeps the service busy (a [`LimitPolicy`] finds out how
//! many that are), and the queue forms in front of the gate. There the one rule of all stages
//! applies.
//!
//! A request needs a place in its class and one of all. Requests of a class that waits for a lock
//! inside then hold the few places that keep the lock busy, and not those of others. Where the
//! places of all are what is scarce, classes take turns such that each gets the same time in
//! places; a class of which nobody is inside gets a place at once.
//!
//! Feed arrivals and ends; after each, carry out all that [`Gate::poll`] hands out; then sleep
//! until [`Gate::poll_timeout`] or the next fact.
//!
//! ```
//! use seawall_control::controller::Init;
//! use seawall_control::gate::{Answer, Config, End, Gate, Turn};
//! use seawall_control::limit;
//! use seawall_control::request::{Claims, Class, Context};
//! use seawall_control::Instant;
//!
//! let one_at_once = limit::Config { fixed: 1, ..limit::Config::named("fixed") };
//! let config = Config { limit: one_at_once, ..Config::default() };
//! let mut gate = Gate::new(&config, Init::new(Instant::ORIGIN, 1))?;
//!
//! let (now, class) = (Instant::ORIGIN, Class::default());
//! let request = Context::new(Claims::default(), now);
//! let first = gate.on_arrival(now, class, &request, || "first");
//! let Ok(Answer::Go(first)) = first else { panic!() };
//! let second = gate.on_arrival(now, class, &request, || "second");
//! let Ok(Answer::Wait(second)) = second else { panic!() };
//!
//! let later = Instant::from_micros(2_000);
//! gate.on_end(later, first, End::Served);
//! let Some(Turn::Go { id, item, waited }) = gate.poll(later) else { panic!() };
//! assert_eq!((id, item, waited.as_millis()), (second, "second", 2));
//! assert!(gate.poll(later).is_none());
//! # Ok::<(), seawall_control::config::ConfigError>(())
//! ```

mod config;
mod entries;
mod lane;

pub use config::Config;
pub use entries::Id;

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use entries::{Entries, Entry, Inside, State};
use lane::Lane;

use crate::config::ConfigError;
use crate::controller::Init;
use crate::limit::{Failure, FailureKind, LimitPolicy, Sample};
use crate::request::{Class, Context, Rejected, Stage};
use crate::time::Instant;

/// Entries of those who have left, in a queue or among the deadlines, are swept out once there are
/// this many more of them than of others.
const SWEEP: usize = 64;

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answer {
    /// It is let in. Tell the gate of its [end](Gate::on_end).
    Go(Id),
    /// It waits. [`Gate::poll`] hands it out once it has its turn, or not in time.
    Wait(Id),
    /// It is let in because the gate only watches, and would have been refused.
    Would(Id, Rejected),
}

/// What [`Gate::poll`] hands out.
#[derive(Debug)]
#[must_use]
pub enum Turn<T> {
    /// A request that waited is let in. Tell the gate of its [end](Gate::on_end).
    Go {
        /// The request.
        id: Id,
        /// What was left with the gate.
        item: T,
        /// How long it waited: the caller charges its context.
        waited: Duration,
    },
    /// A request has waited for as long as it could. It has left the gate.
    Refuse {
        /// The request.
        id: Id,
        /// What was left with the gate.
        item: T,
        /// What its client is told.
        rejected: Rejected,
    },
}

/// How a request ended that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer of the service's own, that took the work that such answers take.
    Served,
    /// The service refused it because of overload.
    Refused,
    /// It failed, or no answer came in time.
    Failed,
    /// The client no longer wanted it.
    Cancelled,
}

/// When a request that waits has waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Expiry {
    at: Instant,
    id: Id,
    since: Instant,
}

/// The gate of one service. `T` is what a request leaves behind while it waits, to be woken by.
#[derive(Debug)]
pub struct Gate<T> {
    config: Config,
    init: Init,
    policy: Box<dyn LimitPolicy>,
    in_flight: u32,
    lanes: Vec<Option<Lane>>,
    entries: Entries<T>,
    expiries: BinaryHeap<Reverse<Expiry>>,
    waiting: u32,
    /// [`Lane::used`] of the class that had the last turn: who begins to use the gate begins there.
    used: f64,
}

impl<T> Gate<T> {
    /// A gate with nobody inside.
    ///
    /// # Errors
    ///
    /// Names the first field of `config` that is out of range, and what is allowed.
    pub fn new(config: &Config, init: Init) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            policy: config.limit.build(init, None)?,
            config: config.clone(),
            init,
            in_flight: 0,
            lanes: Vec::new(),
            entries: Entries::default(),
            expiries: BinaryHeap::new(),
            waiting: 0,
            used: 0.0,
        })
    }

    /// A request of `class` is here. `item` is what to wake it by, and only asked for if it waits.
    ///
    /// # Errors
    ///
    /// [`Rejected`] at [`Stage::GATE`] if it would have to wait for longer than it can.
    pub fn on_arrival(
        &mut self,
        now: Instant,
        class: Class,
        context: &Context,
        item: impl FnOnce() -> T,
    ) -> Result<Answer, Rejected> {
        self.ensure(now, class);
        let droppable = context.claims().droppable;
        if !self.config.enforce {
            let judged = self.judge(now, class, context);
            let id = self.enter_new(now, class);
            return Ok(
                judged.map_or_else(|rejected| Answer::Would(id, rejected), |()| Answer::Go(id))
            );
        }
        self.lane(class).standing.on_arrival(now);
        if self.is_free(class) && !self.is_anyone_due() {
            // A request whose budget is spent, or whose deadline has passed, is refused here too.
            context.admit(Stage::GATE, now, Duration::ZERO)?;
            return Ok(Answer::Go(self.enter_new(now, class)));
        }
        let places = self.places(class);
        let start = self.used;
        let lane = self.lane(class);
        lane.limited += u64::from(lane.is_full());
        if lane.waiting == 0 {
            lane.on_backlog(now, places);
        }
        self.judge(now, class, context)?;
        let id = self.entries.insert(Entry { class, state: State::Waiting(item()) });
        let lane = self.lane(class);
        if lane.waiting == 0 {
            lane.used = lane.used.max(start);
        }
        lane.queue.push(now, droppable, id);
        lane.waiting += 1;
        self.waiting += 1;
        if droppable {
            let at = now + context.remaining(now);
            if at != Instant::NEVER {
                self.expiries.push(Reverse(Expiry { at, id, since: now }));
            }
        }
        Ok(Answer::Wait(id))
    }

    /// A request has ended that was let in, or one that waits was given up. False if the gate does
    /// not know it: it has been told of its end before.
    pub fn on_end(&mut self, now: Instant, id: Id, end: End) -> bool {
        let Some(Entry { class, state }) = self.entries.remove(id) else { return false };
        match state {
            State::Waiting(_) => self.leave_queue(class),
            State::Inside(inside) => self.leave(now, class, inside, end),
        }
        true
    }

    /// No more requests of `class` will come; those that are here go on.
    pub fn retire(&mut self, class: Class) {
        if let Some(Some(lane)) = self.lanes.get_mut(usize::from(class.0)) {
            lane.is_retired = true;
            self.forget(class);
        }
    }

    /// The next request that is let in, or that has waited for too long.
    pub fn poll(&mut self, now: Instant) -> Option<Turn<T>> {
        if self.waiting == 0 {
            // Else there would be times to wake up at for nobody.
            self.expiries.clear();
            return None;
        }
        self.poll_expired(now).or_else(|| self.poll_turn(now))
    }

    /// When to [`poll`](Self::poll) although nothing has happened.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.expiries.peek().map(|Reverse(expiry)| expiry.at)
    }

    /// How long a request of `class` must expect to wait if it arrives now.
    pub fn predicted_wait(&self, now: Instant, class: Class) -> Duration {
        let is_free = self.is_free(class) && !self.is_anyone_due();
        match self.known(class) {
            Some(lane) if !is_free => lane.wait(now),
            _ => Duration::ZERO,
        }
    }

    /// Time until all who wait in `class` have had their turns: when to come back.
    pub fn drained_in(&self, class: Class) -> Duration {
        self.known(class).map_or(Duration::ZERO, Lane::drained_in)
    }

    /// Age of the oldest request that waits, in any class.
    pub fn queue_delay(&self, now: Instant) -> Duration {
        self.lanes.iter().flatten().map(|lane| lane.age(now)).max().unwrap_or_default()
    }

    /// Requests that were let in.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests that wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many may be inside at once. Classes of which nobody is inside may exceed it by one each.
    pub fn limit(&self) -> u32 {
        self.policy.limit().max(1)
    }

    /// What steers the limit of all.
    pub fn policy(&self) -> &dyn LimitPolicy {
        &*self.policy
    }

    /// The classes that the gate knows, as they are now.
    pub fn classes(&self, now: Instant) -> impl Iterator<Item = View> + '_ {
        let limit = self.limit();
        let lanes = self.lanes.iter().enumerate();
        lanes.filter_map(move |(class, lane)| {
            let lane = lane.as_ref()?;
            Some(View {
                class: Class(class as u8),
                limit: lane.limit().min(limit),
                in_flight: lane.in_flight,
                waiting: lane.waiting,
                age: lane.age(now),
                limited: lane.limited,
                turns_per_second: lane.rate(),
                latency: lane.latency().map(Duration::from_secs_f64),
            })
        })
    }

    /// Counts the books again: for checkers.
    ///
    /// # Errors
    ///
    /// Says what does not add up: a bug.
    pub fn check(&self) -> Result<(), &'static str> {
        let sum = |count: fn(&Lane) -> u32| self.lanes.iter().flatten().map(count).sum::<u32>();
        if sum(|lane| lane.in_flight) != self.in_flight {
            return Err("in flight is not their sum");
        }
        if sum(|lane| lane.waiting) != self.waiting {
            return Err("waiting is not their sum");
        }
        if self.entries.len() != (self.in_flight + self.waiting) as usize {
            return Err("requests are not those inside and those that wait");
        }
        let queued = |lane: &Lane| lane.queue.len() as u32;
        if self.lanes.iter().flatten().any(|lane| queued(lane) < lane.waiting) {
            return Err("somebody waits outside of the queue");
        }
        Ok(())
    }

    /// Whether a request may wait for as long as it must.
    fn judge(&self, now: Instant, class: Class, context: &Context) -> Result<(), Rejected> {
        let Some(lane) = self.known(class) else { return Ok(()) };
        let predicted = if self.config.enforce { lane.wait(now) } else { self.wait_unheld(class) };
        // By then those ahead have had their turns. Who came back as soon as the queue has become
        // short enough would find that others had come before, who were refused just as closely.
        let explain = |rejected: Rejected| rejected.with_retry_after(predicted);
        context.admit(Stage::GATE, now, predicted).map_err(explain)?;
        let most = self.config.wait_max;
        let is_too_long = predicted > most || lane.waiting >= self.config.queue_max;
        if context.claims().droppable && is_too_long {
            return Err(explain(Rejected::new(Stage::GATE, predicted, most)));
        }
        if lane.waiting == 0 {
            // However much comes, one who waits is of use. If nobody did there would be no turns,
            // and demand would look as if it were within capacity.
            return Ok(());
        }
        let most = lane.standing.most(self.config.queues);
        context.admit_to_queue(Stage::GATE, lane.queued(), most)
    }

    /// How long it would wait if those who exceed the limit did, and were let in as fast as those
    /// inside leave by Little's law.
    fn wait_unheld(&self, class: Class) -> Duration {
        let Some(lane) = self.known(class) else { return Duration::ZERO };
        let limit = self.limit().min(lane.limit());
        let in_flight = if lane.limit() < self.limit() { lane.in_flight } else { self.in_flight };
        let ahead = f64::from((in_flight + 1).saturating_sub(limit));
        let seconds = ahead * lane.latency().unwrap_or(0.0) / f64::from(in_flight.max(1));
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn poll_expired(&mut self, now: Instant) -> Option<Turn<T>> {
        while let Some(Reverse(Expiry { at, id, since })) = self.expiries.peek().copied() {
            let is_waiting = self.entries.is_waiting(id);
            if at > now && is_waiting {
                return None;
            }
            self.expiries.pop();
            if !is_waiting {
                continue;
            }
            let Some(Entry { class, state: State::Waiting(item) }) = self.entries.remove(id) else {
                continue;
            };
            self.leave_queue(class);
            let waited = now.since(since);
            let rejected = Rejected::new(Stage::GATE, waited, Duration::ZERO)
                .with_retry_after(self.drained_in(class));
            return Some(Turn::Refuse { id, item, rejected });
        }
        None
    }

    fn poll_turn(&mut self, now: Instant) -> Option<Turn<T>> {
        let class = self.next_class()?;
        let entries = &self.entries;
        let lane = self.lanes[usize::from(class.0)].as_mut().expect("who waits has a lane");
        let (since, id) = loop {
            let (since, id) = lane.queue.pop().expect("who waits stands in the queue");
            if entries.is_waiting(id) {
                break (since, id);
            }
        };
        lane.waiting -= 1;
        lane.on_turn(now);
        self.waiting -= 1;
        self.tidy(class);
        let inside = self.count_in(now, class);
        let item = self.entries.enter(id, inside).expect("who waits has left an item");
        Some(Turn::Go { id, item, waited: now.since(since) })
    }

    /// Of the classes in which somebody waits and could enter, that which has used the least time
    /// in places.
    fn next_class(&self) -> Option<Class> {
        let lanes = self.lanes.iter().enumerate();
        let due = lanes.filter_map(|(class, lane)| {
            let lane = lane.as_ref()?;
            let class = Class(class as u8);
            (lane.waiting > 0 && self.is_place_free(lane)).then_some((lane.used, class))
        });
        due.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, class)| class)
    }

    fn is_anyone_due(&self) -> bool {
        self.waiting > 0 && self.next_class().is_some()
    }

    /// Whether a request of the class that arrives now could enter, were it for its class alone.
    fn is_free(&self, class: Class) -> bool {
        self.known(class).is_none_or(|lane| lane.waiting == 0 && self.is_place_free(lane))
    }

    fn is_place_free(&self, lane: &Lane) -> bool {
        !lane.is_full() && (lane.in_flight == 0 || self.in_flight < self.limit())
    }

    /// Places that a class can expect to have.
    fn places(&self, class: Class) -> u32 {
        let limit = self.known(class).map_or(u32::MAX, Lane::limit);
        let others = self.in_flight - self.known(class).map_or(0, |lane| lane.in_flight);
        limit.min(self.limit().saturating_sub(others)).max(1)
    }

    fn enter_new(&mut self, now: Instant, class: Class) -> Id {
        let inside = self.count_in(now, class);
        self.entries.insert(Entry { class, state: State::Inside(inside) })
    }

    /// Counts one more inside.
    fn count_in(&mut self, now: Instant, class: Class) -> Inside {
        self.in_flight += 1;
        self.policy.on_start(now, self.in_flight);
        let (in_flight, start) = (self.in_flight, self.used);
        let lane = self.lane(class);
        lane.in_flight += 1;
        if let Some(policy) = &mut lane.policy {
            policy.on_start(now, lane.in_flight);
        }
        let (in_class, charged) = (lane.in_flight, lane.expected());
        let begins_at = lane.used.max(start);
        lane.used = begins_at + charged;
        self.used = begins_at;
        Inside { since: now, in_flight, in_class, charged }
    }

    fn leave(&mut self, now: Instant, class: Class, inside: Inside, end: End) {
        let latency = now.since(inside.since);
        let in_flight = self.in_flight;
        let sample =
            |in_flight, in_flight_start| Sample { latency, in_flight, in_flight_start, class };
        let kind = match end {
            End::Served => None,
            End::Refused => Some(FailureKind::Refused),
            End::Failed => Some(FailureKind::Failed),
            End::Cancelled => Some(FailureKind::Cancelled),
        };
        let tell = |policy: &mut dyn LimitPolicy, in_flight, at_start| match kind {
            None => policy.on_sample(now, &sample(in_flight, at_start)),
            Some(kind) => {
                let mut failure = Failure::new(kind, latency, in_flight);
                failure.class = class;
                policy.on_failure(now, &failure);
            }
        };
        tell(&mut *self.policy, in_flight, inside.in_flight);
        self.in_flight -= 1;
        let lane = self.lane(class);
        if let Some(policy) = &mut lane.policy {
            tell(&mut **policy, lane.in_flight, inside.in_class);
        }
        lane.in_flight -= 1;
        lane.used += latency.as_secs_f64() - inside.charged;
        if kind.is_none() {
            lane.on_latency(latency);
        }
        self.forget(class);
    }

    /// One who waited has left, and still stands in the queue.
    fn leave_queue(&mut self, class: Class) {
        self.waiting -= 1;
        self.lane(class).waiting -= 1;
        self.tidy(class);
        self.forget(class);
    }

    /// Sweeps out those who have left.
    fn tidy(&mut self, class: Class) {
        let entries = &self.entries;
        let lane = self.lanes[usize::from(class.0)].as_mut().expect("who waited has a lane");
        lane.queue.discard_heads(|id| !entries.is_waiting(*id));
        if lane.queue.len() > 2 * lane.waiting as usize + SWEEP {
            lane.queue.retain(|id| entries.is_waiting(*id));
        }
        if self.expiries.len() > 2 * self.waiting as usize + SWEEP {
            self.expiries.retain(|Reverse(expiry)| entries.is_waiting(expiry.id));
        }
    }

    /// Makes the lane of a class, if there is none.
    fn ensure(&mut self, now: Instant, class: Class) {
        let index = usize::from(class.0);
        if let Some(Some(lane)) = self.lanes.get_mut(index) {
            lane.is_retired = false;
            return;
        }
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        self.lanes[index] = Some(Lane::new(self.used));
        if self.lanes.iter().flatten().count() > 1 {
            self.limit_classes(now);
        }
    }

    /// Gives each class a limit of its own, which begins at half of that of all.
    fn limit_classes(&mut self, now: Instant) {
        let (first, init) = (self.limit().div_ceil(2), Init { now, ..self.init });
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.policy.is_none()) {
            // The configuration was checked when the gate was made.
            lane.policy = self.config.limit.build(init, Some(first)).ok();
            if let Some(policy) = lane.policy.as_mut().filter(|_| lane.in_flight > 0) {
                policy.on_start(now, lane.in_flight);
            }
        }
    }

    /// Forgets a class that is retired and empty. The last that is left needs no limit of its own.
    fn forget(&mut self, class: Class) {
        let index = usize::from(class.0);
        if self.lanes[index].as_ref().is_some_and(Lane::is_gone) {
            self.lanes[index] = None;
            if self.lanes.iter().flatten().count() == 1 {
                self.lanes.iter_mut().flatten().for_each(|lane| lane.policy = None);
            }
        }
    }

    fn known(&self, class: Class) -> Option<&Lane> {
        self.lanes.get(usize::from(class.0))?.as_ref()
    }

    fn lane(&mut self, class: Class) -> &mut Lane {
        self.lanes[usize::from(class.0)].as_mut().expect("a class of the gate has a lane")
    }
}

/// One class at a gate, for screens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct View {
    /// The class.
    pub class: Class,
    /// How many of it may be inside at once.
    pub limit: u32,
    /// How many are.
    pub in_flight: u32,
    /// How many wait.
    pub waiting: u32,
    /// How long the oldest waits.
    pub age: Duration,
    /// Requests so far that found the limit of the class itself reached, and not only that of all:
    /// [`Classes::on_limited`](crate::classes::Classes::on_limited) wants to know if it grows.
    pub limited: u64,
    /// How often somebody who waited has a turn, if somebody has waited.
    pub turns_per_second: Option<f64>,
    /// Mean latency behind the gate, once somebody was served.
    pub latency: Option<Duration>,
}
