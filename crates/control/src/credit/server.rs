//! The server half: sessions, distribution, revocation, enforcement, and when to ask the policy.

use core::cmp::Ordering;
use core::time::Duration;

use super::config::{Config, Demand, Wake};
use super::policy::{ClassCounts, Next, PoolPolicy, Window};
use super::roster::{List, Rosters};
use super::round_trip::RoundTrip;
use super::session::{Session, Sessions};
use super::shares::Shares;
use crate::controller::{
    Arrival, Completion, Feedback, Init, Outcome, ServerController, SessionEvent, SessionId,
    Signal, Verdict,
};
use crate::metrics::Metrics;
use crate::random::Rng;
use crate::request::{Identity, RefusalReason, Rejected, Stage};
use crate::time::Instant;

/// Candidates among which [`Wake::ByRate`] looks for the fastest session.
const RATE_CANDIDATES: usize = 4;

/// Server half of a credit scheme whose pool is sized by `P`.
#[derive(Debug)]
pub struct Server<P> {
    policy: P,
    config: Config,
    cores: u32,
    /// The pool of a server without sessions.
    first_pool: u32,
    rng: Rng,
    sessions: Sessions,
    rosters: Rosters,
    shares: Shares,
    /// Sessions that have sent at least one request: n_c of Breakwater's equations 3 and 4.
    registered: u32,
    pool: u32,
    /// The policy's last decision made the pool smaller.
    shrinking: bool,
    issued: u32,
    /// Requests in the server.
    in_server: u32,
    /// Those of them that are not droppable.
    privileged: u32,
    /// Those of them whose clients know nothing of credits.
    guests: u32,
    window: Window,
    measure_from: Instant,
    measure_to: Instant,
    /// Nothing happened in the last window, and the policy left the pool as it was.
    resting: bool,
    round_trip: RoundTrip,
    /// Explicit messages that may be sent now; replies earn more of them.
    messages: f64,
}

/// What the mechanism's books say, for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The pool.
    pub pool: u32,
    /// Credits issued according to the running total.
    pub issued: u32,
    /// Credits issued according to a count over all sessions.
    pub windows: u32,
    /// Sessions that have sent at least one request.
    pub sessions: u32,
}

impl<P: PoolPolicy> Server<P> {
    /// A server without sessions. `first` says how large the pool is at the start and again
    /// whenever the last session has left, and when to ask `policy` for the first time.
    pub fn new(policy: P, config: Config, init: Init, first: Next) -> Self {
        let measure_from = init.now + first.settle;
        let cores = init.cores.max(1);
        let first_pool = first.pool.max(cores);
        Self {
            policy,
            cores,
            first_pool,
            rng: Rng::new(init.seed),
            sessions: Sessions::default(),
            rosters: Rosters::default(),
            shares: Shares::default(),
            registered: 0,
            pool: first_pool,
            shrinking: false,
            issued: 0,
            in_server: 0,
            privileged: 0,
            guests: 0,
            window: Window { start: measure_from, ..Window::default() },
            measure_from,
            measure_to: measure_from + first.measure,
            resting: false,
            round_trip: RoundTrip::new(init),
            messages: f64::from(config.message_burst),
            config,
        }
    }

    /// Counts everything again, O(sessions).
    pub fn audit(&self) -> Audit {
        Audit {
            pool: self.pool,
            issued: self.issued,
            windows: self.sessions.iter().map(|session| session.window).sum(),
            sessions: self.registered,
        }
    }

    /// What an honest client of `session` may have outstanding: the largest window that it was told
    /// and has not acknowledged as superseded. For checkers.
    pub fn allowed(&self, session: SessionId) -> u32 {
        self.sessions.peek_id(session).map_or(0, Session::allowed)
    }

    /// Requests that `session` is believed to hold back. For checkers.
    pub fn demand(&self, session: SessionId) -> u32 {
        self.sessions.peek_id(session).map_or(0, |session| session.demand)
    }

    /// The policy, to look at.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    fn open(&mut self, id: SessionId, identity: Identity) {
        let share = self.shares.open(identity);
        self.sessions.open(id, Session::new(share, !identity.speaks_credits));
    }

    fn close(&mut self, id: SessionId) {
        self.leave_list(id);
        let Some(session) = self.sessions.close(id) else { return };
        self.issued -= session.window;
        self.shares.exchange(session.share, session.window, 0);
        self.shares.close(session.share);
        self.in_server -= session.pending;
        self.privileged -= session.privileged;
        if session.guest {
            self.guests -= session.pending;
        }
        self.registered -= u32::from(session.registered);
        if self.registered == 0 {
            (self.pool, self.shrinking) = (self.first_pool, false);
        } else {
            self.pool = self.clamp(self.pool); // the bound has come down with the session
        }
    }

    /// From its first word on a session takes part in the distribution.
    fn register(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        if !core::mem::replace(&mut session.registered, true) {
            self.registered += 1;
            let pool = self.policy.on_session(self.pool, self.registered);
            self.pool = self.clamp(pool);
        }
    }

    /// Takes the session off whatever list it is on.
    fn leave_list(&mut self, id: SessionId) {
        let Some(place) = self.sessions.get(id).and_then(|session| session.place.take()) else {
            return;
        };
        if let Some((moved, place)) = self.rosters.leave(place) {
            self.sessions.at(moved).place = place;
        }
    }

    /// Puts a session that has nothing in the server on the list where it belongs.
    fn enter_list(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id) else { return };
        if session.pending > 0 || session.place.is_some() || !session.registered || session.guest {
            return;
        }
        let list = match (session.window, session.demand) {
            (0, 0) => List::Quiet,
            (0, _) => List::Hungry,
            _ => List::Idle,
        };
        session.place = self.rosters.enter(list, id.slot);
    }

    /// Gives the session `window` credits from now on.
    fn book(&mut self, id: SessionId, window: u32) {
        let Some(session) = self.sessions.get(id) else { return };
        let before = core::mem::replace(&mut session.window, window);
        self.shares.exchange(session.share, before, window);
        self.issued = self.issued - before + window;
    }

    /// Breakwater's lazy distribution (§4): the window a session should have now.
    ///
    /// Equations 5 and 6 speak of unused credits; windows are absolute here, so the requests in the
    /// server are added. The clamps and their order are those of the released code.
    fn fair_window(&mut self, id: SessionId, woken: bool) -> u32 {
        let (pool, issued) = (i64::from(self.pool), i64::from(self.issued));
        let sessions = i64::from(self.registered.max(1));
        let window_max = i64::from(self.config.window_max);
        let few_sessions = self.registered <= self.cores;
        let Some(session) = self.sessions.get(id) else { return 0 };
        let (held, pending) = (i64::from(session.window), i64::from(session.pending));
        // What a cheat has in the server beyond its window was refused, and earns it nothing.
        let allowed = i64::from(session.log.allowed());
        let available = pool - issued;
        // Equation 4. Deviation: the session's own unused credits count as available. Of a thousand
        // sessions it makes no difference, and a single one would halve its window at every other
        // reply.
        let unused = (held - pending).max(0);
        let speculates = self.config.demand == Demand::Speculate;
        let overcommit = if speculates { ((available + unused) / sessions).max(1) } else { 0 };
        let wanted = pending + i64::from(session.demand) + overcommit;
        // Room for one more credit to each session beyond the pool, and no further.
        let room = pool + sessions - issued;

        let mut window = match self.shares.compare(session.share, self.pool) {
            _ if issued < pool => wanted.min(held + available), // equation 5
            Ordering::Greater => held - 1,                      // equation 6
            Ordering::Less if room > 0 => wanted.min(held + 1),
            _ => held,
        };
        if (woken || few_sessions) && room > 0 {
            window = window.max(overcommit);
        }
        if speculates && held > 0 && window <= 0 && !session.refused_in_batch {
            window = 1; // a session drains only when the server had to refuse it something
        }
        window.max(pending.min(allowed)).min(window_max).min(wanted).max(0) as u32
    }

    /// Computes the session's window and what to tell its client.
    fn grant(&mut self, now: Instant, id: SessionId, woken: bool) -> Feedback {
        let window = self.fair_window(id, woken);
        self.book(id, window);
        self.leave_list(id);
        self.enter_list(id);
        let Some(session) = self.sessions.get(id) else { return Feedback::None };
        session.refused_in_batch = false;
        let seq = if window > session.pending {
            session.log.tell_and_time(now, window)
        } else {
            session.log.tell(window)
        };
        Feedback::Window { size: window, seq }
    }

    /// Asks the policy when a measuring window has ended.
    fn update(&mut self, now: Instant) {
        if now < self.measure_to || self.registered == 0 {
            return;
        }
        self.window.duration = now.since(self.window.start);
        self.window.sessions = self.registered;
        self.window.issued = self.issued;
        self.window.pool = self.pool;
        self.round_trip.update();
        self.window.round_trip = self.round_trip.value();
        let next = self.policy.on_window(now, &self.window);
        self.shrinking = next.pool < self.pool;
        let pool = self.clamp(next.pool);
        let unchanged = core::mem::replace(&mut self.pool, pool) == pool;
        self.measure_from = now + next.settle;
        self.measure_to = self.measure_from + next.measure;
        let queue_delay = self.window.queue_delay;
        let idle = self.in_server == 0 && self.window.total() == ClassCounts::default();
        self.window = Window { start: self.measure_from, queue_delay, ..Window::default() };
        self.resting = idle && unchanged;
        if idle {
            // No reply pays, and yet somebody may need a credit before there can be one. A message
            // for each core; a whole burst could keep the cores busy with nothing but messages.
            self.messages = self.messages.max(f64::from(self.cores));
        }
    }

    /// Counts an answer in the window in which it is given.
    fn count_answer(&mut self, now: Instant, completion: &Completion) {
        let counted = u32::from(now >= self.measure_from);
        let counts = &mut self.window.classes[completion.class.row()];
        match completion.outcome {
            Outcome::Done => {
                counts.served += counted;
                counts.served_in_budget += counted * u32::from(completion.in_budget);
                self.round_trip.on_served(now.since(completion.arrived));
            }
            Outcome::Refused(Stage::ADMISSION) | Outcome::Cancelled => {}
            Outcome::Refused(_) => counts.refused += counted,
        }
    }

    /// Replies pay for the messages that have none to travel on.
    fn earn_messages(&mut self) {
        let burst = f64::from(self.config.message_burst);
        self.messages = (self.messages + self.config.messages_per_reply).min(burst);
    }

    fn spend_message(&mut self) -> bool {
        let enough = self.messages >= 1.0;
        if enough {
            self.messages -= 1.0;
        }
        enough
    }

    /// At least one credit for each core, at most `window_max` for each session.
    fn clamp(&self, pool: u32) -> u32 {
        pool.min(self.pool_max()).max(self.cores)
    }

    /// Sessions without credits and without requests in the server.
    fn drained(&self) -> usize {
        self.rosters.members(List::Hungry).len() + self.rosters.members(List::Quiet).len()
    }

    fn pool_max(&self) -> u32 {
        self.config.window_max.saturating_mul(self.registered)
    }

    /// Notes a reported queueing delay.
    fn observe_delay(&mut self, delay: Duration) {
        self.window.queue_delay = delay;
        self.window.queue_delay_max = self.window.queue_delay_max.max(delay);
    }

    /// The next drained session to be given credits, if the pool has any.
    fn next_to_wake(&mut self) -> Option<SessionId> {
        if self.issued >= self.pool {
            return None;
        }
        if !self.rosters.members(List::Hungry).is_empty() {
            return self.pick(List::Hungry);
        }
        // Of the others it can only be guessed that they have something to send.
        if self.config.demand == Demand::Speculate { self.pick(List::Quiet) } else { None }
    }

    /// A session of `list`, if a message to it can be afforded.
    fn pick(&mut self, list: List) -> Option<SessionId> {
        let members = self.rosters.members(list);
        if members.is_empty() || !self.spend_message() {
            return None;
        }
        let members = self.rosters.members(list);
        let candidates = if self.config.wake == Wake::ByRate { RATE_CANDIDATES } else { 1 };
        let mut best = members[self.rng.below(members.len() as u64) as usize];
        for _ in 1..candidates {
            let other = members[self.rng.below(members.len() as u64) as usize];
            let rate = |slot| self.sessions.peek(slot).rate.per_second(self.measure_from);
            if rate(other) > rate(best) {
                best = other;
            }
        }
        Some(self.sessions.id_at(best))
    }

    /// The next idle session that must give its unused credits back, if more are issued than the
    /// pool holds: Breakwater's negative credits (§3.2.1).
    fn next_to_revoke(&mut self) -> Option<SessionId> {
        // With few sessions each keeps a credit, or none could ever tell its demand.
        let excess = self.issued.saturating_sub(self.pool);
        let beyond = f64::from(excess) > f64::from(self.pool) * self.config.revoke_beyond;
        if !beyond || self.registered <= self.cores {
            return None;
        }
        self.pick(List::Idle)
    }

    /// Takes what an idle session holds, or as much of it as exceeds the pool.
    fn revoke(&mut self, id: SessionId) -> Feedback {
        let excess = self.issued - self.pool;
        let Some(session) = self.sessions.get(id) else { return Feedback::None };
        session.demand = 0; // or it would have used them
        let window = session.window.saturating_sub(excess);
        self.book(id, window);
        self.leave_list(id);
        self.enter_list(id);
        let Some(session) = self.sessions.get(id) else { return Feedback::None };
        Feedback::Window { size: window, seq: session.log.tell(window) }
    }

    /// True when guests hold more than their share of a pool that is used up, and that its policy
    /// makes smaller. A pool that still grows says nothing: it starts small, whatever the
    /// server could do.
    fn guests_exceed_their_share(&self) -> bool {
        let share = (f64::from(self.pool) * self.config.guest_share) as u32;
        self.shrinking && self.issued > self.pool && self.guests > share.max(self.cores)
    }

    fn refuse(reason: RefusalReason, arrival: &Arrival) -> Verdict {
        Verdict::Refuse(Rejected::at_entry(reason, arrival.queue_delay))
    }
}

impl<P: PoolPolicy> ServerController for Server<P> {
    fn on_session(&mut self, now: Instant, id: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Opened(identity) => self.open(id, identity),
            SessionEvent::Closed => self.close(id),
            SessionEvent::Demand { demand, window_ack } => {
                let Some(session) = self.sessions.get(id) else { return };
                session.demand = demand;
                session.log.acknowledge(window_ack);
                self.register(id);
                self.leave_list(id);
                self.enter_list(id);
            }
        }
        self.update(now);
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.observe_delay(arrival.queue_delay);
        self.leave_list(arrival.session);
        self.register(arrival.session);
        let Some(session) = self.sessions.get(arrival.session) else { return Verdict::Admit };
        if !session.called {
            session.log.begin(arrival.window_ack);
        }
        session.log.acknowledge(arrival.window_ack);
        if let Some(turnaround) = session.log.on_use(now, arrival.window_ack) {
            self.round_trip.on_use(turnaround);
        }
        let allowed = session.allowed();
        session.called = true;
        session.pending += 1;
        self.in_server += 1;
        session.demand = arrival.demand;
        if self.config.wake == Wake::ByRate {
            session.rate.observe(now);
        }
        session.privileged += u32::from(!arrival.droppable);
        self.privileged += u32::from(!arrival.droppable);

        let guest = session.guest;
        let exceeded = !guest && session.pending > allowed;
        let (window, pending) = (session.window, session.pending);
        if guest {
            self.guests += 1;
            self.book(arrival.session, pending);
        } else {
            // Credits beyond what the session can use now go back at once; its client learns of it
            // with the next reply, and may use them until then.
            let useful = pending.saturating_add(arrival.demand);
            self.book(arrival.session, window.min(useful));
        }

        let verdict = if exceeded {
            Self::refuse(RefusalReason::WindowExceeded, arrival)
        } else if guest && arrival.droppable && self.guests_exceed_their_share() {
            Self::refuse(RefusalReason::Overload, arrival)
        } else if !arrival.droppable && self.privileged > self.config.privileged_max {
            Self::refuse(RefusalReason::PrivilegeExceeded, arrival)
        } else {
            self.policy.on_arrival(now, arrival)
        };
        if now >= self.measure_from {
            let refused = matches!(verdict, Verdict::Refuse(_));
            self.window.arrivals_by_priority[arrival.priority.band()] += 1;
            let counts = &mut self.window.classes[arrival.class.row()];
            counts.arrivals += 1;
            counts.refused_at_entry += u32::from(refused);
        }
        verdict
    }

    fn on_completion(&mut self, now: Instant, completion: &Completion) {
        let Some(session) = self.sessions.get(completion.session) else { return };
        session.pending -= 1;
        self.in_server -= 1;
        session.refused_in_batch |= matches!(completion.outcome, Outcome::Refused(_));
        session.privileged -= u32::from(!completion.droppable);
        self.privileged -= u32::from(!completion.droppable);
        if session.guest {
            let pending = session.pending;
            self.guests -= 1;
            self.book(completion.session, pending);
        }
        self.earn_messages();
        self.count_answer(now, completion);
        if completion.arrived >= self.measure_from {
            let counts = &mut self.window.classes[completion.class.row()];
            match completion.outcome {
                Outcome::Done => {
                    counts.completions += 1;
                    counts.in_budget += u32::from(completion.in_budget);
                    counts.queue_delay_max = counts.queue_delay_max.max(completion.queue_delay);
                }
                Outcome::Refused(Stage::ADMISSION) | Outcome::Cancelled => {}
                Outcome::Refused(_) => counts.refused_later += 1,
            }
        }
        self.update(now);
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        match signal {
            Signal::QueueDelay(delay) => self.observe_delay(delay),
            Signal::Power { .. } | Signal::Bandwidth { .. } | Signal::Cpu { .. } => {}
        }
        self.policy.on_signal(now, signal);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.update(now);
    }

    /// Due while an update could change something: the pool can still grow, or credits can still
    /// move.
    fn poll_timeout(&self) -> Option<Instant> {
        let full = self.pool == self.pool_max().max(self.cores);
        let settled = (full || self.resting) && self.drained() == 0 && self.issued <= self.pool;
        (self.registered > 0 && !settled).then_some(self.measure_to)
    }

    fn feedback(&mut self, now: Instant, id: SessionId) -> Feedback {
        match self.sessions.get(id) {
            Some(session) if !session.guest => self.grant(now, id, false),
            _ => Feedback::None,
        }
    }

    fn poll_push(&mut self, now: Instant) -> Option<(SessionId, Feedback)> {
        if let Some(id) = self.next_to_revoke() {
            return Some((id, self.revoke(id)));
        }
        let id = self.next_to_wake()?;
        Some((id, self.grant(now, id, true)))
    }

    fn check(&self) -> Result<(), &'static str> {
        let Audit { issued, windows, .. } = self.audit();
        if issued == windows { Ok(()) } else { Err("issued credits are not the sum of windows") }
    }

    fn metrics(&self) -> Metrics {
        let metrics = Metrics::new()
            .with("credit_pool", f64::from(self.pool))
            .with("credits_issued", f64::from(self.issued))
            .with("sessions_registered", f64::from(self.registered))
            .with("sessions_drained", self.drained() as f64)
            .with("privileged_in_flight", f64::from(self.privileged))
            .with("queueing_delay_seconds", self.window.queue_delay.as_secs_f64())
            .with("credit_round_trip_seconds", self.round_trip.value().as_secs_f64());
        self.policy.metrics(metrics)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
