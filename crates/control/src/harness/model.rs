//! The credit mechanism under arbitrary histories, with everything checked after every step.
//!
//! Property tests and the fuzzer feed the same [`Op`]s to the same [`Model`]. Its clients are
//! honest unless an operation says otherwise, its links delay, reorder and lose whatever messages
//! may be lost, and time jumps by anything from nothing to years.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::breakwater;
use crate::client::{self, Credit, Open, Outbox, Report};
use crate::controller::{
    Arrival, ClientController, Completion, Demand, Feedback, Init, Outcome, Response,
    ServerController, SessionEvent, SessionId, Signal, Verdict,
};
use crate::credit::{Config, Next, Server};
use crate::random::Rng;
use crate::request::{Identity, RefusalReason, Rejected, Stage, Tenant};
use crate::time::Instant;

/// Sessions that a model keeps apart at most.
pub const SESSIONS: usize = 24;

/// One thing that can happen. Indices are taken modulo what exists.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A client connects, for one of a few tenants.
    Connect {
        /// Which tenant.
        tenant: u8,
        /// Its weight.
        weight: u8,
    },
    /// A connection is cut, from either side; everything on its way is gone.
    Cut(u8),
    /// A client gets one more request to send, and sends if it may.
    Submit(u8),
    /// A client tells its demand without a request.
    TellDemand(u8),
    /// A client sends although it may not.
    Cheat(u8),
    /// The oldest request on its way to the server arrives.
    DeliverRequest(u8),
    /// A request in the server ends: served, refused later, or cancelled.
    Finish(u8, u8),
    /// A message to a client arrives; the second number picks which of those on their way.
    DeliverReply(u8, u8),
    /// An explicit credit message is lost.
    LosePush(u8),
    /// The clock moves on, by 2 to the power of this many nanoseconds.
    Tick(u8),
    /// The queueing delay is measured: 2 to the power of this many nanoseconds.
    Delay(u8),
    /// The server's timer fires.
    Timeout,
}

impl Op {
    /// Reads one operation from the front of `bytes`; `None` when too few are left.
    pub fn read(bytes: &mut &[u8]) -> Option<Self> {
        let ([kind, a, b], rest) = bytes.split_first_chunk::<3>()?;
        *bytes = rest;
        let (a, b) = (*a, *b);
        // Operations that move requests on are more frequent, so that histories get deep.
        Some(match kind % 32 {
            0 | 1 => Self::Connect { tenant: a, weight: b },
            2 => Self::Cut(a),
            3 => Self::TellDemand(a),
            4 => Self::LosePush(a),
            5 => Self::Cheat(a),
            6..=8 => Self::Tick(a % 24),
            9 => Self::Tick(a),
            10 | 11 => Self::Delay(a),
            12 | 13 => Self::Timeout,
            14..=19 => Self::Submit(a),
            20..=23 => Self::DeliverRequest(a),
            24..=27 => Self::Finish(a, b),
            _ => Self::DeliverReply(a, b),
        })
    }
}

/// A message on its way to the server.
#[derive(Debug)]
enum Flight {
    Call(Report),
    Demand(Report),
}

#[derive(Debug)]
enum News {
    Reply(Feedback),
    Push(Feedback),
}

#[derive(Debug)]
struct Client {
    id: SessionId,
    outbox: Outbox<()>,
    /// Requests sent so far.
    sent: u64,
    honest: bool,
    to_server: VecDeque<Flight>,
    in_server: VecDeque<(Instant, bool)>,
    to_client: Vec<News>,
    /// The newest window that the server told.
    window_now: u32,
}

impl Client {
    fn expects_something(&self) -> bool {
        !(self.to_server.is_empty() && self.in_server.is_empty() && self.to_client.is_empty())
    }
}

/// How often a history came to the interesting places.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Dishonest requests refused.
    pub cheats_refused: u64,
    /// Explicit messages that gave a drained session credits.
    pub grants: u64,
    /// Explicit messages that took credits from an idle session.
    pub revocations: u64,
    /// Replies that shrank a window.
    pub shrunk: u64,
    /// Replies that left their session without credits.
    pub drained: u64,
}

/// A credit server and its clients.
#[derive(Debug)]
pub struct Model {
    server: Server<breakwater::Policy>,
    clients: Vec<Option<Client>>,
    now: Instant,
    rng: Rng,
    generation: u32,
    window_max: u32,
    /// What the history reached: a test of the test.
    pub reached: Reached,
}

impl Model {
    /// A server with `cores` cores, whose sessions hold at most `window_max` credits.
    pub fn new(seed: u64, cores: u32, window_max: u32) -> Self {
        let init = Init { cores, ..Init::new(Instant::ORIGIN, seed) };
        let policy = breakwater::Policy::new(&breakwater::Config::default(), init);
        let config = Config { window_max, revoke_beyond: 0.125, ..Config::default() };
        let first = Next { pool: cores, settle: Duration::ZERO, measure: init.rtt };
        Self {
            server: Server::new(policy, config, init, first),
            clients: (0..SESSIONS).map(|_| None).collect(),
            now: Instant::ORIGIN,
            rng: Rng::new(seed),
            generation: 0,
            window_max,
            reached: Reached::default(),
        }
    }

    /// Lets `op` happen, then everything that the server wants to push, and checks all invariants.
    ///
    /// # Panics
    ///
    /// If an invariant is broken.
    pub fn apply(&mut self, op: Op) {
        match op {
            Op::Connect { tenant, weight } => self.connect(tenant, weight),
            Op::Cut(client) => self.cut(client as usize % SESSIONS),
            Op::Submit(client) => self.submit(client as usize % SESSIONS),
            Op::TellDemand(client) => self.tell_demand(client as usize % SESSIONS),
            Op::Cheat(client) => self.with(client, |client| {
                client.honest = false;
                let lie = Report { demand: u32::MAX, window_ack: u32::MAX / 3 };
                client.to_server.push_back(Flight::Call(lie));
            }),
            Op::DeliverRequest(client) => self.arrive(client as usize % SESSIONS),
            Op::Finish(client, how) => self.finish(client as usize % SESSIONS, how),
            Op::DeliverReply(client, which) => self.deliver(client as usize % SESSIONS, which),
            Op::LosePush(client) => self.with(client, |client| {
                let push = client.to_client.iter().position(|news| matches!(news, News::Push(_)));
                push.map(|at| client.to_client.remove(at));
            }),
            Op::Tick(power) => self.now = self.now + Duration::from_nanos(1 << (power % 60)),
            Op::Delay(power) => {
                let delay = Duration::from_nanos(1 << (power % 40));
                self.server.on_signal(self.now, Signal::QueueDelay(delay));
            }
            Op::Timeout => self.server.handle_timeout(self.now),
        }
        self.push();
        self.check();
    }

    /// Cuts everybody off and checks that every credit came home.
    ///
    /// # Panics
    ///
    /// If one did not.
    pub fn finish_all(&mut self) {
        (0..SESSIONS).for_each(|client| self.cut(client));
        let audit = self.server.audit();
        assert_eq!((audit.issued, audit.windows, audit.sessions), (0, 0, 0), "credits leaked");
    }

    /// Lets all messages arrive and all requests be served while there is no queue, and checks that
    /// every client that holds requests back gets to send some.
    ///
    /// # Panics
    ///
    /// If somebody starves.
    pub fn settle(&mut self) {
        let holding = |client: &Client| client.outbox.pending() > 0 && client.honest;
        let mut waiting: Vec<(usize, u64)> = (0..SESSIONS)
            .filter_map(|slot| {
                Some((slot, self.clients[slot].as_ref().filter(|c| holding(c))?.sent))
            })
            .collect();
        for _ in 0..100_000 {
            waiting.retain(|(slot, sent)| {
                self.clients[*slot].as_ref().is_some_and(|client| client.sent == *sent)
            });
            if waiting.is_empty() {
                return;
            }
            self.now = self.now + Duration::from_micros(100);
            self.server.on_signal(self.now, Signal::QueueDelay(Duration::ZERO));
            self.server.handle_timeout(self.now);
            (0..SESSIONS).for_each(|slot| self.turn(slot));
            // Whose requests have expired wants to send all the same.
            waiting.iter().for_each(|(slot, _)| self.submit(*slot));
        }
        panic!("a client with demand never got a credit: {:?}", self.clients);
    }

    /// Lets all messages arrive, and checks that the server knows who waits for credits.
    ///
    /// # Panics
    ///
    /// If it takes somebody who does for one who does not.
    pub fn deliver_all(&mut self) {
        (0..SESSIONS).for_each(|slot| self.send(slot));
        let busy = |client: &Option<Client>| client.as_ref().is_some_and(Client::expects_something);
        while let Some(slot) = self.clients.iter().position(busy) {
            self.turn(slot);
        }
        for client in self.clients.iter().flatten().filter(|client| client.honest) {
            let waits = client.outbox.pending() > 0;
            assert!(
                !waits || self.server.demand(client.id) > 0,
                "is not known to wait: {client:?}"
            );
        }
    }

    /// Moves one thing on in each place between a client and the server.
    fn turn(&mut self, slot: usize) {
        self.apply(Op::DeliverRequest(slot as u8));
        self.apply(Op::Finish(slot as u8, 0));
        self.apply(Op::DeliverReply(slot as u8, 0));
        self.send(slot);
    }

    fn with(&mut self, client: u8, change: impl FnOnce(&mut Client)) {
        if let Some(client) = &mut self.clients[client as usize % SESSIONS] {
            change(client);
        }
    }

    fn connect(&mut self, tenant: u8, weight: u8) {
        let Some(slot) = self.clients.iter().position(Option::is_none) else { return };
        self.generation += 1;
        let id = SessionId { slot: slot as u32, generation: self.generation };
        let guest = weight % 8 == 7;
        let identity = Identity {
            tenant: Tenant(u32::from(tenant % 3)),
            weight: u32::from(weight),
            speaks_credits: !guest,
        };
        self.server.on_session(self.now, id, SessionEvent::Opened(identity));
        let controller: Box<dyn ClientController> =
            if guest { Box::new(Open) } else { Box::new(Credit::default()) };
        let init = Init::new(self.now, 0);
        self.clients[slot] = Some(Client {
            id,
            outbox: Outbox::new(controller, &client::Config::default(), init),
            sent: 0,
            honest: true,
            to_server: VecDeque::new(),
            in_server: VecDeque::new(),
            to_client: Vec::new(),
            window_now: 0,
        });
    }

    fn cut(&mut self, client: usize) {
        if let Some(client) = self.clients[client].take() {
            self.server.on_session(self.now, client.id, SessionEvent::Closed);
        }
    }

    fn submit(&mut self, slot: usize) {
        if let Some(client) = &mut self.clients[slot] {
            let demand = Demand::new(0);
            let request = client::Request { item: (), demand, deadline: Instant::NEVER };
            client.outbox.submit(self.now, request);
            self.send(slot);
        }
    }

    fn send(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        while let Some(departed) = client.outbox.poll_send(self.now) {
            client.sent += 1;
            client.to_server.push_back(Flight::Call(departed.report));
        }
        client.to_server.extend(client.outbox.poll_report().map(Flight::Demand));
        while client.outbox.poll_dropped().is_some() {}
    }

    /// Tells the server what it may know already.
    fn tell_demand(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        let report = client.outbox.report();
        client.to_server.push_back(Flight::Demand(report));
    }

    fn arrive(&mut self, client: usize) {
        let Some(client) = &mut self.clients[client] else { return };
        let report = match client.to_server.pop_front() {
            Some(Flight::Call(report)) => report,
            Some(Flight::Demand(Report { demand, window_ack })) => {
                let event = SessionEvent::Demand { demand, window_ack };
                return self.server.on_session(self.now, client.id, event);
            }
            None => return,
        };
        let mut arrival = Arrival::new(client.id);
        arrival.demand = report.demand;
        arrival.window_ack = report.window_ack;
        let verdict = self.server.on_arrival(self.now, &arrival);
        let exceeded = matches!(
            verdict,
            Verdict::Refuse(Rejected { reason: RefusalReason::WindowExceeded, .. })
        );
        assert!(!(client.honest && exceeded), "an honest client was refused: {client:?}");
        self.reached.cheats_refused += u64::from(exceeded);
        client.in_server.push_back((self.now, verdict == Verdict::Admit));
    }

    fn finish(&mut self, client: usize, how: u8) {
        let Some(client) = &mut self.clients[client] else { return };
        let Some((arrived, admitted)) = client.in_server.pop_front() else { return };
        let outcome = match (admitted, how % 8) {
            (false, _) => Outcome::Refused(Stage::ADMISSION),
            (true, 6) => Outcome::Refused(Stage::RUN_QUEUE),
            (true, 7) => Outcome::Cancelled,
            _ => Outcome::Done,
        };
        self.server.on_completion(self.now, &Completion::new(client.id, outcome, arrived));
        let before = (self.server.audit().issued, self.server.allowed(client.id));
        let feedback = self.server.feedback(self.now, client.id);
        client.to_client.push(News::Reply(feedback));
        if let Feedback::Window { size, .. } = feedback {
            self.reached.shrunk += u64::from(size < client.window_now);
            self.reached.drained += u64::from(size == 0);
            client.window_now = size;
            self.check_grant(size, before);
        }
    }

    fn push(&mut self) {
        for _ in 0..10_000 {
            let issued = self.server.audit().issued;
            let allowed: [u32; SESSIONS] = core::array::from_fn(|slot| {
                let client = self.clients[slot].as_ref();
                client.map_or(0, |client| self.server.allowed(client.id))
            });
            let Some((id, feedback)) = self.server.poll_push(self.now) else { return };
            let client = self.clients[id.slot as usize].as_mut();
            let client =
                client.filter(|client| client.id == id).expect("pushed to a closed session");
            client.to_client.push(News::Push(feedback));
            if let Feedback::Window { size, .. } = feedback {
                self.reached.grants += u64::from(size > client.window_now);
                self.reached.revocations += u64::from(size < client.window_now);
                client.window_now = size;
                self.check_grant(size, (issued, allowed[id.slot as usize]));
            }
        }
        panic!("the server never stops pushing");
    }

    fn deliver(&mut self, client: usize, which: u8) {
        let slot = client;
        let Some(client) = &mut self.clients[client] else { return };
        if client.to_client.is_empty() {
            return;
        }
        // Whole messages may overtake each other: stricter than TCP.
        match client.to_client.remove(which as usize % client.to_client.len()) {
            News::Reply(feedback) => {
                let response = Response::new(Duration::ZERO, feedback);
                client.outbox.on_response(self.now, &response);
            }
            News::Push(feedback) => client.outbox.on_push(self.now, feedback),
        }
        if self.rng.chance(0.9) {
            self.send(slot);
        }
    }

    /// No grant raises what is issued above pool + sessions. A window that the client could still
    /// be using anyway is no grant: the server only takes note of what it has in it.
    fn check_grant(&self, size: u32, (issued, allowed): (u32, u32)) {
        let audit = self.server.audit();
        if size > allowed && audit.issued > issued {
            let bound = audit.pool + audit.sessions;
            assert!(audit.issued <= bound, "granted beyond the bound: {audit:?}");
        }
    }

    fn check(&self) {
        let audit = self.server.audit();
        assert_eq!(audit.issued, audit.windows, "issued is the sum of all windows");
        let registered = self.clients.iter().flatten().count() as u32;
        assert!(audit.sessions <= registered, "a closed session is still counted");
        let most = audit.sessions.saturating_mul(self.window_max).max(audit.pool.min(64));
        assert!(audit.pool <= most, "the pool left its bounds: {audit:?}");
    }
}
