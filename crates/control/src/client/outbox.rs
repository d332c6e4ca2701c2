//! Requests on their way out of one connection.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::controller::{
    ClientController, Demand, Departure, DropReason, Feedback, Init, Response,
};
use crate::estimate::Ewma;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::time::{Instant, nanos};
use crate::{replica, retry};

/// Weight of the newest gap between two replies in their mean.
const GAP_WEIGHT: f64 = 0.125;

/// How a client holds requests back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Requests that may wait for one connection's credits; beyond it the oldest gives way.
    /// Default 1024.
    pub pending_max: u32,
    /// How long a request may wait before it is given up. Default: a fifth of the SLO, which with
    /// the target delay (two fifths) leaves two fifths for the network, the service and
    /// bursts. A fresh request has more chances than an old one, so waiting long helps nobody
    /// under lasting overload.
    #[serde(with = "duration::option")]
    pub expiry: Option<Duration>,
    /// When a request goes to another replica. Default: never, unless there is a client of several
    /// replicas that says otherwise.
    pub retry: retry::Config,
    /// Which of several replicas a request goes to.
    pub replicas: replica::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            pending_max: 1024,
            expiry: None,
            retry: retry::Config::NEVER,
            replicas: replica::Config::default(),
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.expiry.is_some_and(|expiry| expiry.is_zero()) {
            let problem = "0ns is out of range; allowed is 1ns or more";
            return Err(ConfigError::new("client.expiry", problem));
        }
        self.retry.validate()?;
        self.replicas.validate()?;
        ConfigError::check_range("client.pending_max", self.pending_max, 1..=1 << 20)
    }

    /// How long a request may wait, for this SLO.
    pub fn expiry(&self, slo: Duration) -> Duration {
        self.expiry.unwrap_or(slo / 5)
    }
}

/// A request that wants to leave.
#[derive(Debug)]
pub struct Request<T> {
    /// What the caller wants back when it leaves or is dropped.
    pub item: T,
    /// What the controller is told about it; `outstanding` is filled in by the outbox.
    pub demand: Demand,
    /// A reply after this is worthless: a droppable request that has not left a round trip before
    /// it never will.
    pub deadline: Instant,
}

/// A request that leaves now.
#[derive(Debug)]
pub struct Departed<T> {
    /// What was submitted.
    pub item: T,
    /// How long it waited.
    pub waited: Duration,
    /// What the server is told with it.
    pub report: Report,
}

/// What a client tells its server about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Requests that still wait.
    pub demand: u32,
    /// The newest window applied.
    pub window_ack: u32,
}

/// Holds requests until they may leave, and counts those that have not come back.
///
/// Submit and report what comes back; then take everything that [`poll_send`](Self::poll_send),
/// [`poll_report`](Self::poll_report) and [`poll_dropped`](Self::poll_dropped) hand out, in this
/// order; then sleep until [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Outbox<T> {
    controller: Box<dyn ClientController>,
    pending: Lanes<Request<T>>,
    pending_max: usize,
    expiry: Duration,
    rtt: Duration,
    outstanding: u32,
    dropped: VecDeque<(T, DropReason)>,
    /// When the controller wants to be asked again about the head of the queue.
    retry_at: Option<Instant>,
    /// The controller's last answer was to wait for the server.
    held: bool,
    /// How many requests the server believes to wait.
    told: u32,
    /// Time between two replies while some are due, in nanoseconds.
    gap: Ewma,
    /// Since when the next reply is due.
    due_since: Instant,
}

impl<T> Outbox<T> {
    /// An empty outbox whose requests are let go by `controller`.
    pub fn new(controller: Box<dyn ClientController>, config: &Config, init: Init) -> Self {
        Self {
            controller,
            pending: Lanes::default(),
            pending_max: config.pending_max as usize,
            expiry: config.expiry(init.slo),
            rtt: init.rtt,
            outstanding: 0,
            dropped: VecDeque::new(),
            retry_at: None,
            held: false,
            told: 0,
            gap: Ewma::new(GAP_WEIGHT),
            due_since: init.now,
        }
    }

    /// Takes a request in. If the queue is full, the oldest droppable one in it gives way.
    pub fn submit(&mut self, now: Instant, request: Request<T>) {
        let droppable = request.demand.droppable;
        if self.pending.len() >= self.pending_max {
            match self.pending.pop_oldest_ordinary() {
                Some((_, oldest)) => self.dropped.push_back((oldest.item, DropReason::QueueFull)),
                None => return self.dropped.push_back((request.item, DropReason::QueueFull)),
            }
        }
        self.pending.push(now, droppable, request);
    }

    /// The next request that may leave now.
    pub fn poll_send(&mut self, now: Instant) -> Option<Departed<T>> {
        self.expire(now);
        if self.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        (self.retry_at, self.held) = (None, false);
        while let Some((_, request)) = self.pending.peek() {
            let demand = Demand { outstanding: self.outstanding, ..request.demand };
            match self.controller.on_demand(now, &demand) {
                Departure::Now => return self.depart(now),
                Departure::At(at) => {
                    self.retry_at = Some(at);
                    return None;
                }
                Departure::Hold => {
                    self.held = true;
                    return None;
                }
                Departure::Drop(reason) => {
                    let dropped = self.pending.pop().map(|(_, request)| (request.item, reason));
                    self.dropped.extend(dropped);
                }
            }
        }
        None
    }

    /// What the server has to be told although no request can carry it: that requests wait, which
    /// it cannot know while none is outstanding. It would give its credits to others.
    ///
    /// Deviation: Breakwater's clients tell their demand with requests only (§3.3), and one whose
    /// credits were taken back while it was idle may starve. That nothing waits any more is not
    /// told: it would take a message for each request that expires, and a credit that is given in
    /// vain comes back.
    pub fn poll_report(&mut self) -> Option<Report> {
        let news = if self.controller.tells_all() {
            self.demand() != self.told
        } else {
            self.held && self.told == 0 && self.outstanding == 0
        };
        news.then(|| self.report())
    }

    /// What the server is told with a request, and may be told at any time.
    pub fn report(&mut self) -> Report {
        self.told = self.demand();
        Report { demand: self.told, window_ack: self.controller.window_ack() }
    }

    fn demand(&self) -> u32 {
        u32::try_from(self.pending.len()).unwrap_or(u32::MAX)
    }

    /// The next request that will never leave.
    pub fn poll_dropped(&mut self) -> Option<(T, DropReason)> {
        self.dropped.pop_front()
    }

    /// A request that left got its terminal reply.
    pub fn on_response(&mut self, now: Instant, response: &Response) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.gap.observe(nanos(now.since(self.due_since)) as f64);
        self.due_since = now;
        self.retry_at = None; // what it says may let the head of the queue leave sooner
        self.controller.on_response(now, response);
    }

    /// A request that left was given up before its reply, and none will come: its credit is free
    /// again, and nothing was learned.
    pub fn on_given_up(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.retry_at = None;
    }

    /// A request that [`poll_send`](Self::poll_send) handed out was not sent after all.
    pub fn withdraw(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.told = 0; // nor was its report
    }

    /// The server told something outside of a reply.
    pub fn on_push(&mut self, now: Instant, feedback: Feedback) {
        self.retry_at = None;
        // When it takes unused credits back, it takes it that nothing waits.
        self.told = 0;
        self.controller.on_push(now, feedback);
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.controller.poll_timeout().is_some_and(|at| at <= now) {
            self.controller.handle_timeout(now);
        }
        self.expire(now);
    }

    /// When something can happen without news from the server.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let too_long = self.expiry.saturating_add(Duration::from_nanos(1));
        let expiry = self.pending.peek_oldest_ordinary().map(|(since, _)| *since + too_long);
        [expiry, self.retry_at, self.controller.poll_timeout()].into_iter().flatten().min()
    }

    /// Empties the queue, oldest first within each lane: the connection is gone.
    pub fn take_pending(&mut self) -> impl Iterator<Item = T> + '_ {
        core::iter::from_fn(|| self.pending.pop().map(|(_, request)| request.item))
    }

    /// How long the newest request will wait, if the server's replies go on as they came: each lets
    /// one leave that waits. [`Duration::MAX`] if none is due that could let anything leave.
    pub fn wait(&self, now: Instant) -> Duration {
        let late = now.since(self.due_since);
        match (self.outstanding, self.gap.value()) {
            (0, _) => Duration::MAX,
            (_, None) => late.max(self.rtt),
            (_, Some(gap)) => {
                let turns = Duration::from_nanos((gap * self.pending.len() as f64) as u64);
                turns.saturating_add(late.saturating_sub(Duration::from_nanos(gap as u64)))
            }
        }
    }

    /// Takes the newest droppable request back that has not left: it goes elsewhere.
    pub fn take_back(&mut self) -> Option<T> {
        self.pending.pop_newest_ordinary().map(|(_, request)| request.item)
    }

    /// Requests that left and have not come back.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Requests that wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The controller's state worth watching.
    pub fn metrics(&self) -> Metrics {
        self.controller.metrics()
    }

    fn depart(&mut self, now: Instant) -> Option<Departed<T>> {
        let (since, request) = self.pending.pop()?;
        if self.outstanding == 0 {
            self.due_since = now;
        }
        self.outstanding += 1;
        let waited = now.since(since);
        Some(Departed { item: request.item, waited, report: self.report() })
    }

    /// Gives up ordinary requests that waited too long. They wait in order, so the first that has
    /// not expired ends the search; a deadline that comes before the expiry is checked when it
    /// would leave.
    fn expire(&mut self, now: Instant) {
        while let Some((since, request)) = self.pending.peek_oldest_ordinary() {
            let deadline = request.deadline;
            let in_time = deadline == Instant::NEVER || now + self.rtt < deadline;
            if now.since(*since) <= self.expiry && in_time {
                break;
            }
            let expired = self.pending.pop_oldest_ordinary();
            let expired = expired.map(|(_, request)| (request.item, DropReason::Expired));
            self.dropped.extend(expired);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Credit;
    use alloc::vec::Vec;

    const SLO: Duration = Duration::from_micros(500);

    fn outbox(pending_max: u32) -> Outbox<u32> {
        let config = Config { pending_max, ..Config::default() };
        let init = Init { slo: SLO, ..Init::new(Instant::ORIGIN, 0) };
        Outbox::new(Box::new(Credit::default()), &config, init)
    }

    fn request(item: u32) -> Request<u32> {
        Request { item, demand: Demand::new(0), deadline: Instant::NEVER }
    }

    fn sent(outbox: &mut Outbox<u32>, now: Instant) -> Vec<(u32, u32)> {
        core::iter::from_fn(|| outbox.poll_send(now))
            .map(|out| (out.item, out.report.demand))
            .collect()
    }

    #[test]
    fn sends_what_the_window_allows_and_tells_what_waits() {
        let (mut outbox, now) = (outbox(8), Instant::ORIGIN);
        (0..5).for_each(|item| outbox.submit(now, request(item)));
        assert_eq!(sent(&mut outbox, now), [(0, 4)]);
        let feedback = Feedback::Window { size: 3, seq: 1 };
        outbox.on_response(now, &Response::new(Duration::ZERO, feedback));
        assert_eq!(sent(&mut outbox, now), [(1, 3), (2, 2), (3, 1)]);
        assert_eq!((outbox.outstanding(), outbox.pending()), (3, 1));
    }

    #[test]
    fn what_is_given_up_frees_its_credit_and_tells_nothing() {
        let (mut outbox, now) = (outbox(8), Instant::ORIGIN);
        outbox.on_push(now, Feedback::Window { size: 1, seq: 1 });
        (0..3).for_each(|item| outbox.submit(now, request(item)));
        assert_eq!(sent(&mut outbox, now), [(0, 2)]);
        let wait = outbox.wait(now);
        outbox.on_given_up();
        assert_eq!((outbox.outstanding(), outbox.wait(now)), (0, Duration::MAX));
        assert_eq!(sent(&mut outbox, now), [(1, 1)]);
        assert_eq!(outbox.wait(now), wait, "no reply has come");
    }

    #[test]
    fn old_requests_expire_and_young_ones_stay() {
        let mut outbox = outbox(8);
        outbox.submit(Instant::ORIGIN, request(0));
        assert_eq!(sent(&mut outbox, Instant::ORIGIN).len(), 1);
        outbox.submit(Instant::from_micros(10), request(1));
        outbox.submit(Instant::from_micros(60), request(2));
        outbox.handle_timeout(Instant::from_micros(110));
        assert_eq!(outbox.poll_dropped(), None);
        let late = Instant::from_nanos(110_001);
        assert_eq!(outbox.poll_timeout(), Some(late));
        outbox.handle_timeout(late);
        assert_eq!(outbox.poll_dropped(), Some((1, DropReason::Expired)));
        assert_eq!((outbox.poll_dropped(), outbox.pending()), (None, 1));
    }

    #[test]
    fn the_server_is_told_once_that_requests_wait() {
        let (mut outbox, now) = (outbox(8), Instant::ORIGIN);
        let report = |outbox: &mut Outbox<u32>| {
            assert_eq!(sent(outbox, now), []);
            outbox.poll_report().map(|report| report.demand)
        };
        let window = |size, seq| Feedback::Window { size, seq };
        outbox.submit(now, request(0));
        assert_eq!(sent(&mut outbox, now), [(0, 0)]);
        outbox.submit(now, request(1));
        assert_eq!(report(&mut outbox), None, "the reply may bring a credit");
        outbox.on_response(now, &Response::new(Duration::ZERO, window(0, 0)));
        assert_eq!(report(&mut outbox), Some(1));
        outbox.submit(now, request(2));
        assert_eq!(report(&mut outbox), None, "it knows");
        // It has crossed the news that unused credits were taken back, and with them the demand.
        outbox.on_push(now, window(0, 2));
        assert_eq!((report(&mut outbox), report(&mut outbox)), (Some(2), None));
        outbox.on_push(now, window(1, 3));
        assert_eq!(sent(&mut outbox, now), [(1, 1)]);
    }

    #[test]
    fn what_may_not_wait_leaves_at_once_or_never() {
        let init = Init { slo: Duration::ZERO, ..Init::new(Instant::ORIGIN, 0) };
        let mut outbox = Outbox::new(Box::new(Credit::default()), &Config::default(), init);
        (0..2).for_each(|item| outbox.submit(Instant::ORIGIN, request(item)));
        assert_eq!(sent(&mut outbox, Instant::ORIGIN), [(0, 1)]);
        outbox.handle_timeout(outbox.poll_timeout().unwrap());
        assert_eq!(outbox.poll_dropped(), Some((1, DropReason::Expired)));
        let expiry = Some(Duration::ZERO);
        let error = Config { expiry, ..Config::default() }.validate().unwrap_err();
        assert_eq!(error.field, "client.expiry");
    }

    #[test]
    fn a_full_queue_gives_up_its_oldest() {
        let (mut outbox, now) = (outbox(2), Instant::ORIGIN);
        outbox.submit(now, request(0));
        assert_eq!(sent(&mut outbox, now), [(0, 0)]);
        (1..4).for_each(|item| outbox.submit(now, request(item)));
        assert_eq!(outbox.poll_dropped(), Some((1, DropReason::QueueFull)));
        assert_eq!(outbox.take_pending().collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn what_may_not_be_dropped_leaves_first_and_does_not_expire() {
        let (mut outbox, now) = (outbox(8), Instant::ORIGIN);
        let mut privileged = request(9);
        privileged.demand.droppable = false;
        outbox.submit(now, request(1));
        outbox.submit(now, privileged);
        assert_eq!(sent(&mut outbox, now), [(9, 1)]);
    }

    #[test]
    fn what_cannot_be_answered_in_time_does_not_leave() {
        let mut outbox = outbox(8); // a round trip takes 100 µs
        let due =
            |item, deadline| Request { deadline: Instant::from_micros(deadline), ..request(item) };
        outbox.submit(Instant::ORIGIN, due(1, 100));
        outbox.submit(Instant::ORIGIN, due(2, 101));
        assert_eq!(sent(&mut outbox, Instant::ORIGIN), [(2, 0)]);
        assert_eq!(outbox.poll_dropped(), Some((1, DropReason::Expired)));
    }

    #[test]
    fn what_has_no_deadline_leaves_however_long_a_round_trip_takes() {
        let init = Init { slo: SLO, rtt: Duration::MAX, ..Init::new(Instant::ORIGIN, 0) };
        let mut outbox = Outbox::new(Box::new(Credit::default()), &Config::default(), init);
        outbox.submit(Instant::ORIGIN, request(1));
        assert_eq!(sent(&mut outbox, Instant::ORIGIN), [(1, 0)]);
    }

    #[test]
    fn the_wait_is_that_of_the_replies_before_it() {
        let (mut outbox, at) = (outbox(8), Instant::from_micros);
        let us = Duration::from_micros;
        assert_eq!(outbox.wait(at(0)), Duration::MAX, "no reply is due");
        (0..3).for_each(|item| outbox.submit(at(0), request(item)));
        assert_eq!(sent(&mut outbox, at(0)).len(), 1);
        assert_eq!(outbox.wait(at(0)), us(100), "a round trip at least");
        let reply = |size, seq| Response::new(us(40), Feedback::Window { size, seq });
        outbox.on_response(at(40), &reply(1, 1));
        assert_eq!(sent(&mut outbox, at(40)).len(), 1);
        assert_eq!(outbox.wait(at(40)), us(40), "one waits, for one more reply");
        assert_eq!(outbox.wait(at(100)), us(40 + 20), "which is late already");
        outbox.submit(at(50), request(3));
        assert_eq!(outbox.wait(at(50)), us(80));
        // The newest goes elsewhere, and nobody else.
        assert_eq!((outbox.take_back(), outbox.pending()), (Some(3), 1));
    }
}
