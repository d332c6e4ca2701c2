//! Any algorithm under arbitrary histories: both halves, and what each may rely on.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use super::model::{Op, SESSIONS};
use crate::client::{self, Outbox, Report, Request};
use crate::controller::{
    Algorithm, Arrival, Completion, Demand, Dequeue, Feedback, Init, Outcome, Response,
    ServerController, SessionEvent, SessionId, Signal, Verdict,
};
use crate::request::{Identity, Priority, Stage};
use crate::time::Instant;

/// Algorithms whose clients wait for leave.
const CREDITS: [&str; 3] = ["breakwater", "protego", "svalinn"];

/// After so long a silent client begins anew.
const IDLE: Duration = Duration::from_secs(50);

/// A request on its way, and when it left.
#[derive(Clone, Copy, Debug)]
struct Flight {
    id: u64,
    priority: Priority,
    droppable: bool,
    left: Instant,
    demand: u32,
    window_ack: u32,
}

#[derive(Debug)]
enum News {
    Reply { flight: Flight, served: bool, feedback: Feedback },
    Push(Feedback),
}

#[derive(Debug)]
struct Party {
    session: SessionId,
    outbox: Outbox<Flight>,
    to_server: VecDeque<Flight>,
    /// A message to it was lost.
    lost: bool,
    /// What the server is to be told without a request.
    told: Option<Report>,
    /// Requests with the time of their arrival; refused ones are not admitted.
    in_server: VecDeque<(Flight, Instant, bool)>,
    to_client: VecDeque<News>,
    submitted: usize,
    sent: usize,
    dropped: usize,
    served: usize,
}

/// A server and clients of one algorithm.
///
/// After each operation it checks that no request was lost, that no timer is due again once it was
/// handled, and that what is shown are numbers.
#[derive(Debug)]
pub struct Parties {
    algorithm: Arc<dyn Algorithm>,
    init: Init,
    server: Box<dyn ServerController>,
    clients: [Option<Party>; SESSIONS],
    now: Instant,
    queue_delay: Duration,
    calls: u64,
    generation: u32,
    /// Only requests and replies pass between the two.
    silent: bool,
}

impl Parties {
    /// A server without clients, over a protocol in which neither can speak but with a request or
    /// a reply: HTTP. Its clients [poll](client::Polling).
    pub fn silent(algorithm: Arc<dyn Algorithm>, seed: u64) -> Self {
        Self { silent: true, ..Self::new(algorithm, seed) }
    }

    /// A server without clients.
    pub fn new(algorithm: Arc<dyn Algorithm>, seed: u64) -> Self {
        let init = Init::new(Instant::ORIGIN, seed);
        Self {
            server: algorithm.clone().server(init),
            algorithm,
            init,
            clients: core::array::from_fn(|_| None),
            now: init.now,
            queue_delay: Duration::ZERO,
            calls: 0,
            generation: 0,
            silent: false,
        }
    }

    /// Lets `op` happen, and checks what must hold.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Connect { tenant, weight } => self.connect(tenant, weight),
            Op::Cut(at) => self.cut(at as usize % SESSIONS),
            Op::Submit(at) => self.submit(at, Priority(at.wrapping_mul(41)), true),
            Op::Cheat(at) => self.submit(at, Priority::default(), false),
            Op::TellDemand(at) if !self.silent => self.tell_demand(at),
            Op::TellDemand(_) => {}
            Op::DeliverRequest(at) => self.arrive(at),
            Op::Finish(at, how) => self.finish(at, how),
            Op::DeliverReply(at, _) => self.deliver(at),
            Op::LosePush(at) => {
                let Some(party) = self.party(at) else { return };
                let push = party.to_client.iter().position(|news| matches!(news, News::Push(_)));
                party.lost |= push.and_then(|at| party.to_client.remove(at)).is_some();
            }
            Op::Tick(power) => self.now = self.now + Duration::from_nanos(1 << (power % 60)),
            Op::Delay(power) => {
                self.queue_delay = Duration::from_nanos(1 << (power % 40));
                self.server.on_signal(self.now, Signal::QueueDelay(self.queue_delay));
                let utilization = f64::from(power) / 255.0;
                self.server.on_signal(self.now, Signal::Cpu { utilization });
            }
            Op::Timeout => self.handle_timeouts(),
        }
        self.push();
        self.check();
    }

    /// Ends the overload, and lets everybody ask until he is served.
    ///
    /// Connections that lost a message are cut first: none does and lives on, and a client that was
    /// never told of its only credit would wait for ever.
    ///
    /// # Panics
    ///
    /// If somebody never is.
    pub fn settle(&mut self) {
        self.queue_delay = Duration::ZERO;
        for at in 0..SESSIONS as u8 {
            if self.party(at).is_some_and(|party| party.lost) {
                self.cut(usize::from(at));
            }
        }
        self.clients.iter_mut().flatten().for_each(|party| party.served = 0);
        for _ in 0..20_000 {
            if self.clients.iter().flatten().all(|party| party.served > 0) {
                return;
            }
            self.now = self.now + Duration::from_millis(1);
            self.server.on_signal(self.now, Signal::QueueDelay(Duration::ZERO));
            self.server.on_signal(self.now, Signal::Cpu { utilization: 0.0 });
            self.handle_timeouts();
            for at in 0..SESSIONS as u8 {
                self.submit(at, Priority::default(), true);
                while self.party(at).is_some_and(|party| !party.to_server.is_empty()) {
                    self.arrive(at);
                }
                while self.party(at).is_some_and(|party| !party.in_server.is_empty()) {
                    self.finish(at, 0);
                }
                self.push();
                while self.party(at).is_some_and(|party| !party.to_client.is_empty()) {
                    self.deliver(at);
                }
            }
            self.check();
        }
        panic!("somebody is never served: {:?}", self.clients);
    }

    fn party(&mut self, at: u8) -> Option<&mut Party> {
        self.clients[at as usize % SESSIONS].as_mut()
    }

    fn connect(&mut self, tenant: u8, weight: u8) {
        let Some(slot) = self.clients.iter().position(Option::is_none) else { return };
        self.generation += 1;
        let session = SessionId { slot: slot as u32, generation: self.generation };
        let identity = Identity {
            tenant: crate::request::Tenant(u32::from(tenant % 3)),
            weight: u32::from(weight),
            speaks_credits: true,
        };
        self.server.on_session(self.now, session, SessionEvent::Opened(identity));
        let seed = self.init.seed.wrapping_add(u64::from(self.generation));
        let init = Init { now: self.now, seed, ..self.init };
        let mut controller = self.algorithm.clone().client(init);
        if self.silent && CREDITS.contains(&self.algorithm.name()) {
            let patience = client::Config::default().expiry(init.slo) / 2;
            controller = Box::new(client::Polling::new(controller, init, patience, IDLE));
        }
        self.clients[slot] = Some(Party {
            session,
            outbox: Outbox::new(controller, &client::Config::default(), init),
            lost: false,
            told: None,
            to_server: VecDeque::new(),
            in_server: VecDeque::new(),
            to_client: VecDeque::new(),
            submitted: 0,
            sent: 0,
            dropped: 0,
            served: 0,
        });
    }

    fn cut(&mut self, slot: usize) {
        if let Some(party) = self.clients[slot].take() {
            self.server.on_session(self.now, party.session, SessionEvent::Closed);
        }
    }

    fn submit(&mut self, at: u8, priority: Priority, droppable: bool) {
        self.calls += 1;
        let (id, now) = (self.calls, self.now);
        let Some(party) = self.party(at) else { return };
        let item = Flight { id, priority, droppable, left: now, demand: 0, window_ack: 0 };
        let demand = Demand { id, priority, droppable, ..Demand::new(0) };
        party.submitted += 1;
        party.outbox.submit(now, Request { item, demand, deadline: Instant::NEVER });
        party.drain(now);
    }

    fn tell_demand(&mut self, at: u8) {
        let now = self.now;
        let Some(party) = self.party(at) else { return };
        let event = SessionEvent::Demand { demand: party.outbox.pending() as u32, window_ack: 0 };
        let session = party.session;
        self.server.on_session(now, session, event);
    }

    fn arrive(&mut self, at: u8) {
        let (now, queue_delay) = (self.now, self.queue_delay);
        let Some(party) = self.clients[at as usize % SESSIONS].as_mut() else { return };
        let Some(flight) = party.to_server.pop_front() else { return };
        let arrival = Arrival {
            id: flight.id,
            priority: flight.priority,
            droppable: flight.droppable,
            demand: flight.demand,
            window_ack: flight.window_ack,
            queue_delay,
            ..Arrival::new(party.session)
        };
        let admitted = self.server.on_arrival(now, &arrival) == Verdict::Admit;
        party.in_server.push_back((flight, now, admitted));
    }

    fn finish(&mut self, at: u8, how: u8) {
        let now = self.now;
        let Some(party) = self.clients[at as usize % SESSIONS].as_mut() else { return };
        let Some((flight, arrived, admitted)) = party.in_server.pop_front() else { return };
        let mut dequeue = Dequeue::new(party.session, now.since(arrived).min(self.queue_delay));
        dequeue.droppable = flight.droppable;
        let outcome = match how % 8 {
            _ if !admitted => Outcome::Refused(Stage::ADMISSION),
            _ if self.server.on_dequeue(now, &dequeue) != Verdict::Admit => {
                assert!(flight.droppable, "a privileged request was refused when it was to run");
                Outcome::Refused(Stage::RUN_QUEUE)
            }
            6 => Outcome::Refused(Stage::RUN_QUEUE),
            7 => Outcome::Cancelled,
            _ => Outcome::Done,
        };
        self.server.on_completion(now, &Completion::new(party.session, outcome, arrived));
        let feedback = self.server.feedback(now, party.session);
        let served = outcome == Outcome::Done;
        party.to_client.push_back(News::Reply { flight, served, feedback });
    }

    fn deliver(&mut self, at: u8) {
        let now = self.now;
        let Some(party) = self.party(at) else { return };
        match party.to_client.pop_front() {
            Some(News::Reply { flight, served, feedback }) => {
                let mut response = Response::new(now.since(flight.left), feedback);
                response.served = served;
                party.served += usize::from(served);
                party.outbox.on_response(now, &response);
            }
            Some(News::Push(feedback)) => party.outbox.on_push(now, feedback),
            None => return,
        }
        party.drain(now);
    }

    /// Delivers what clients have to tell, and all that the server has to tell them.
    fn push(&mut self) {
        for party in self.clients.iter_mut().flatten() {
            if let Some(Report { demand, window_ack }) = party.told.take()
                && !self.silent
            {
                let event = SessionEvent::Demand { demand, window_ack };
                self.server.on_session(self.now, party.session, event);
            }
        }
        for _ in 0..10_000 {
            let Some((id, feedback)) = self.server.poll_push(self.now) else { return };
            let party = self.clients[id.slot as usize].as_mut();
            let party = party.filter(|party| party.session == id).expect("pushed to a closed one");
            if self.silent {
                continue; // the next reply tells
            }
            party.to_client.push_back(News::Push(feedback));
        }
        panic!("the server never stops pushing");
    }

    fn handle_timeouts(&mut self) {
        let now = self.now;
        let later = |at: Option<Instant>| at.is_none_or(|at| at > now);
        if !later(self.server.poll_timeout()) {
            self.server.handle_timeout(now);
            assert!(later(self.server.poll_timeout()), "the server's timer is due again");
        }
        for party in self.clients.iter_mut().flatten() {
            party.outbox.handle_timeout(now);
            party.drain(now);
            assert!(later(party.outbox.poll_timeout()), "the client's timer is due again");
        }
    }

    fn check(&self) {
        for party in self.clients.iter().flatten() {
            let known = party.sent + party.dropped + party.outbox.pending();
            assert_eq!(party.submitted, known, "a request is lost");
        }
        let outboxes = self.clients.iter().flatten().map(|party| party.outbox.metrics());
        for metrics in outboxes.chain([self.server.metrics()]) {
            assert!(metrics.iter().all(|(_, value)| value.is_finite()), "{metrics:?}");
        }
    }
}

impl Party {
    /// Lets everything leave that may leave.
    fn drain(&mut self, now: Instant) {
        while let Some(departed) = self.outbox.poll_send(now) {
            self.sent += 1;
            self.to_server.push_back(Flight {
                left: now,
                demand: departed.report.demand,
                window_ack: departed.report.window_ack,
                ..departed.item
            });
        }
        self.told = self.outbox.poll_report().or(self.told);
        self.dropped += core::iter::from_fn(|| self.outbox.poll_dropped()).count();
    }
}
