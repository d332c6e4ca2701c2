//! One server, its clients, and the events between them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::client::{self, Outbox, Report, Request};
use crate::controller::{
    Algorithm, Arrival, Completion, Demand, Dequeue, Feedback, Init, Outcome, Response,
    ServerController, SessionEvent, SessionId, Signal, Verdict,
};
use crate::lanes::Lanes;
use crate::predict::queue::RunQueue;
use crate::random::Rng;
use crate::request::{Identity, Priority, Stage};
use crate::time::{Instant, nanos};

/// How often, at most, the server is told how busy its cores are.
const CPU_PERIOD: Duration = Duration::from_millis(5);

/// What lies between a client and the server.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Delay in each direction.
    pub latency: Duration,
    /// Probability that an explicit credit message is lost.
    pub loss: f64,
    /// Most that a credit message may be overtaken by others.
    pub jitter: Duration,
}

/// What became of the requests of one world. Latencies run from submission to reply.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests submitted.
    pub offered: u64,
    /// Requests served.
    pub served: u64,
    /// Requests served within the SLO.
    pub good: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Requests that never left their client.
    pub dropped: u64,
    /// Explicit messages from the server.
    pub pushes: u64,
    /// Messages from clients that carried no request.
    pub reports: u64,
    /// Latencies of served requests.
    pub latencies: Vec<Duration>,
    /// Requests served within the SLO, by the band of their priority.
    pub good_by_band: [u64; Priority::BANDS],
}

impl Tally {
    /// Latency that 99 % of the served requests did not exceed.
    pub fn p99(&self) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
    }
}

/// What a client asked for.
#[derive(Clone, Copy, Debug)]
struct Call {
    id: u64,
    priority: Priority,
    submitted: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    client: usize,
    call: Call,
    left: Instant,
    report: Report,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    AtServer(Sent),
    Told { client: usize, report: Report },
    AtClient { sent: Sent, served: bool, feedback: Feedback },
    Push { client: usize, feedback: Feedback },
    Done { sent: Sent, arrived: Instant },
}

/// A server with `cores` and a run queue, and clients that know nothing of each other.
#[derive(Debug)]
pub struct World {
    /// The server half under test.
    pub server: Box<dyn ServerController>,
    /// What happened since the last [`World::forget`].
    pub tally: Tally,
    algorithm: Arc<dyn Algorithm>,
    init: Init,
    link: Link,
    rng: Rng,
    now: Instant,
    sequence: u64,
    calls: u64,
    events: BTreeMap<(Instant, u64), Event>,
    clients: Vec<Option<Outbox<Call>>>,
    run_queue: Lanes<(Sent, Instant)>,
    idle_cores: u32,
    /// Nanoseconds that its cores have worked, until when, and both when it was told last.
    worked: (u64, Instant),
    told: (u64, Instant),
    service: Duration,
    budget: Option<Duration>,
    predictor: RunQueue,
}

impl World {
    /// A world without clients. Service times are exponential with mean `service`.
    pub fn new(algorithm: Arc<dyn Algorithm>, init: Init, service: Duration) -> Self {
        Self {
            server: algorithm.clone().server(init),
            tally: Tally::default(),
            algorithm,
            init,
            link: Link { latency: init.rtt / 2, loss: 0.0, jitter: Duration::ZERO },
            rng: Rng::new(init.seed),
            now: init.now,
            sequence: 0,
            calls: 0,
            events: BTreeMap::new(),
            clients: Vec::new(),
            run_queue: Lanes::default(),
            idle_cores: init.cores,
            worked: (0, init.now),
            told: (0, init.now),
            service,
            budget: None,
            predictor: RunQueue::new(init.cores),
        }
    }

    /// Lets the run queue refuse, like the live server's, what cannot start within `budget` of its
    /// submission.
    pub fn set_budget(&mut self, budget: Duration) {
        self.budget = Some(budget);
    }

    /// Replaces the link of all clients.
    pub fn set_link(&mut self, link: Link) {
        self.link = link;
    }

    /// Connects a client, and gives its number.
    pub fn connect(&mut self, identity: Identity) -> usize {
        let client = self.clients.len();
        let seed = self.init.seed.wrapping_add(client as u64 + 1);
        let init = Init { now: self.now, seed, ..self.init };
        let controller = self.algorithm.clone().client(init);
        let config = client::Config::default();
        self.clients.push(Some(Outbox::new(controller, &config, init)));
        self.server.on_session(self.now, session(client), SessionEvent::Opened(identity));
        client
    }

    /// Cuts a client off: what it had in the server is no longer wanted.
    pub fn cut(&mut self, client: usize) {
        if self.clients[client].take().is_some() {
            self.server.on_session(self.now, session(client), SessionEvent::Closed);
        }
    }

    /// Lets the clients offer `rate` requests per second in all, for `time`.
    pub fn offer(&mut self, rate: f64, time: Duration) {
        let end = self.now + time;
        let gap = Duration::from_secs_f64(1.0 / rate);
        loop {
            let next = self.now + self.rng.exponential_duration(gap);
            if next > end {
                return self.run_until(end);
            }
            self.run_until(next);
            let client = self.rng.below(self.clients.len() as u64) as usize;
            self.submit(client);
        }
    }

    /// Lets one client submit a request now.
    pub fn submit(&mut self, client: usize) {
        self.submit_as(client, Priority::default());
    }

    /// Lets one client submit a request of this priority now.
    pub fn submit_as(&mut self, client: usize, priority: Priority) {
        self.tally.offered += 1;
        self.calls += 1;
        let (id, now) = (self.calls, self.now);
        let Some(outbox) = &mut self.clients[client] else { return };
        let item = Call { id, priority, submitted: now };
        let demand = Demand { id, priority, ..Demand::new(0) };
        outbox.submit(now, Request { item, demand, deadline: Instant::NEVER });
        self.drain(client);
    }

    /// Carries out all events until `end`.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(at) = self.next_event().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Forgets what happened so far, to measure from here on.
    pub fn forget(&mut self) {
        self.tally = Tally::default();
    }

    /// The manual clock.
    pub fn now(&self) -> Instant {
        self.now
    }

    fn next_event(&self) -> Option<Instant> {
        let event = self.events.keys().next().map(|(at, _)| *at);
        let clients = self.clients.iter().flatten().filter_map(Outbox::poll_timeout);
        clients.chain(event).chain(self.server.poll_timeout()).min()
    }

    /// Everything that is due now, one event at most.
    fn step(&mut self) {
        for client in 0..self.clients.len() {
            let due = |outbox: &Outbox<_>| outbox.poll_timeout().is_some_and(|at| at <= self.now);
            if self.clients[client].as_ref().is_some_and(due) {
                let outbox = self.clients[client].as_mut().expect("just seen");
                outbox.handle_timeout(self.now);
                self.drain(client);
            }
        }
        if self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.signal();
            self.server.handle_timeout(self.now);
        }
        if let Some(entry) = self.events.first_entry()
            && entry.key().0 <= self.now
        {
            let event = entry.remove();
            self.handle(event);
        }
        while let Some((to, feedback)) = self.server.poll_push(self.now) {
            self.tally.pushes += 1;
            if !self.rng.chance(self.link.loss) {
                let jitter = self.link.jitter.mul_f64(self.rng.uniform());
                let push = Event::Push { client: to.slot as usize, feedback };
                self.schedule(self.link.latency + jitter, push);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::AtServer(sent) => self.arrive(sent),
            Event::Told { client, report: Report { demand, window_ack } } => {
                if self.clients[client].is_some() {
                    let event = SessionEvent::Demand { demand, window_ack };
                    self.server.on_session(self.now, session(client), event);
                }
            }
            Event::Done { sent, arrived } => {
                self.count_work();
                self.idle_cores += 1;
                self.start_next();
                self.reply(sent, arrived, Outcome::Done);
            }
            Event::AtClient { sent, served, feedback } => {
                let Some(outbox) = &mut self.clients[sent.client] else { return };
                let latency = self.now.since(sent.left);
                let mut response = Response::new(latency, feedback);
                response.served = served;
                outbox.on_response(self.now, &response);
                if served {
                    let latency = self.now.since(sent.call.submitted);
                    self.tally.served += 1;
                    let good = u64::from(latency <= self.init.slo);
                    self.tally.good += good;
                    self.tally.good_by_band[sent.call.priority.band()] += good;
                    self.tally.latencies.push(latency);
                } else {
                    self.tally.refused += 1;
                }
                self.drain(sent.client);
            }
            Event::Push { client, feedback } => {
                let Some(outbox) = &mut self.clients[client] else { return };
                outbox.on_push(self.now, feedback);
                self.drain(client);
            }
        }
    }

    fn arrive(&mut self, sent: Sent) {
        if self.clients[sent.client].is_none() {
            return;
        }
        let mut arrival = Arrival::new(session(sent.client));
        arrival.demand = sent.report.demand;
        arrival.window_ack = sent.report.window_ack;
        (arrival.id, arrival.priority) = (sent.call.id, sent.call.priority);
        arrival.queue_delay = self.queue_delay();
        let predicted = self.predictor.wait(self.run_queue.len(), self.queue_delay());
        match self.server.on_arrival(self.now, &arrival) {
            Verdict::Admit if self.too_late(&sent, predicted) => {
                self.reply(sent, self.now, Outcome::Refused(Stage::RUN_QUEUE));
            }
            Verdict::Admit => {
                self.run_queue.push(self.now, true, (sent, self.now));
                self.start_next();
            }
            Verdict::Refuse(_) => {
                self.reply(sent, self.now, Outcome::Refused(Stage::ADMISSION));
            }
        }
    }

    fn reply(&mut self, sent: Sent, arrived: Instant, outcome: Outcome) {
        if self.clients[sent.client].is_none() {
            return;
        }
        self.signal();
        let to = session(sent.client);
        self.server.on_completion(self.now, &Completion::new(to, outcome, arrived));
        let feedback = self.server.feedback(self.now, to);
        let served = outcome == Outcome::Done;
        self.schedule(self.link.latency, Event::AtClient { sent, served, feedback });
    }

    fn too_late(&self, sent: &Sent, predicted: Duration) -> bool {
        let waited = self.now.since(sent.call.submitted);
        self.budget.is_some_and(|budget| waited + predicted > budget)
    }

    fn start_next(&mut self) {
        if self.idle_cores == 0 {
            return;
        }
        while let Some((_, (sent, arrived))) = self.run_queue.pop() {
            let dequeue = Dequeue::new(session(sent.client), self.now.since(arrived));
            let refused = self.server.on_dequeue(self.now, &dequeue) != Verdict::Admit;
            if refused || self.too_late(&sent, Duration::ZERO) {
                self.reply(sent, arrived, Outcome::Refused(Stage::RUN_QUEUE));
                continue;
            }
            self.count_work();
            self.idle_cores -= 1;
            let service = self.rng.exponential_duration(self.service);
            self.predictor.on_served(service, service);
            self.schedule(service, Event::Done { sent, arrived });
            return;
        }
    }

    /// Lets everything leave that may leave.
    fn drain(&mut self, client: usize) {
        let (now, latency) = (self.now, self.link.latency);
        let Some(outbox) = &mut self.clients[client] else { return };
        let mut leaving = Vec::new();
        while let Some(departed) = outbox.poll_send(now) {
            leaving.push(Sent { client, call: departed.item, left: now, report: departed.report });
        }
        let report = outbox.poll_report();
        while outbox.poll_dropped().is_some() {
            self.tally.dropped += 1;
        }
        leaving.into_iter().for_each(|sent| self.schedule(latency, Event::AtServer(sent)));
        if let Some(report) = report {
            self.tally.reports += 1;
            self.schedule(latency, Event::Told { client, report });
        }
    }

    fn signal(&mut self) {
        self.server.on_signal(self.now, Signal::QueueDelay(self.queue_delay()));
        let since = self.now.since(self.told.1);
        if since >= CPU_PERIOD {
            self.count_work();
            let worked = (self.worked.0 - self.told.0) as f64;
            let utilization = worked / (nanos(since) as f64 * f64::from(self.init.cores));
            self.told = self.worked;
            self.server.on_signal(self.now, Signal::Cpu { utilization });
        }
    }

    /// What the cores have done since this was called before.
    fn count_work(&mut self) {
        let (worked, until) = self.worked;
        let busy = u64::from(self.init.cores - self.idle_cores);
        self.worked = (worked + busy * nanos(self.now.since(until)), self.now);
    }

    fn queue_delay(&self) -> Duration {
        self.run_queue.oldest().map_or(Duration::ZERO, |oldest| self.now.since(oldest))
    }

    fn schedule(&mut self, delay: Duration, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }
}

fn session(client: usize) -> SessionId {
    SessionId { slot: client as u32, generation: 0 }
}
