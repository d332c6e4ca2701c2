//! Clients: each with an outbox for every replica.

use std::sync::Arc;
use std::time::Duration;

use seawall_control::client::{self, Outbox};
use seawall_control::controller::{Algorithm, Feedback, Init, Response};
use seawall_control::retry::{self, End, Policy};
use seawall_control::{Instant, Rng};
use seawall_measure::Outcome;
use seawall_measure::outcome::DropReason;

use super::request::{Chain, Request, RequestId, State};
use super::{Event, Link, World};
use crate::scenario::Balance;

/// A timer that is already due is looked at this much later, so that time goes on.
const TICK: Duration = Duration::from_nanos(1);

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    id: u32,
    seeds: Rng,
    /// One for each replica.
    pub(super) connections: Vec<Connection>,
    /// How many connections each replica had before.
    generation: u16,
    /// The replica that is next in turn.
    turn: usize,
    /// Whether what failed is tried again.
    pub(super) policy: Policy,
}

/// A client's end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) outbox: Outbox<RequestId>,
    /// When a timer event is due.
    timer: Instant,
    /// When the newest message reaches the server: none overtakes another.
    delivered: Instant,
}

impl Client {
    /// A client that is not connected yet.
    pub(super) fn new(id: u32, seed: u64, replicas: usize, retry: &retry::Config) -> Self {
        let (connections, policy) = (Vec::with_capacity(replicas), Policy::new(retry));
        Self { id, seeds: Rng::new(seed), connections, generation: 0, turn: 0, policy }
    }

    fn connect(
        &mut self,
        replicas: usize,
        algorithm: &Arc<dyn Algorithm>,
        config: &client::Config,
        init: Init,
    ) {
        let connection = |seed| {
            let init = Init { seed, ..init };
            let controller = algorithm.clone().client(init);
            let outbox = Outbox::new(controller, config, init);
            Connection { outbox, timer: Instant::NEVER, delivered: init.now }
        };
        self.connections.extend((0..replicas).map(|_| connection(self.seeds.next_u64())));
    }

    /// Leaves all servers.
    fn leave(&mut self) {
        self.connections.clear();
        self.generation += 1;
    }

    fn is_away(&self) -> bool {
        self.connections.is_empty()
    }

    /// Requests that wait to be sent.
    pub(super) fn holds(&self) -> u64 {
        self.connections.iter().map(|connection| connection.outbox.pending() as u64).sum()
    }

    /// Replicas that were not tried.
    pub(super) fn untried(&self, tried: u64) -> usize {
        (0..self.connections.len()).filter(|server| tried & (1 << server) == 0).count()
    }

    pub(super) fn link(&self, server: usize) -> Link {
        Link { client: self.id, server: server as u16, generation: self.generation }
    }

    /// A replica that was not tried.
    pub(super) fn choose(&mut self, balance: Balance, tried: u64, rng: &mut Rng) -> usize {
        if self.connections.len() == 1 {
            return 0;
        }
        let untried = |server: &usize| tried & (1 << server) == 0;
        let open: Vec<usize> = (0..self.connections.len()).filter(untried).collect();
        let replicas = open.len();
        if replicas == 1 {
            return open[0];
        }
        match balance {
            Balance::First => open[0],
            Balance::RoundRobin => {
                self.turn = (self.turn + 1) % replicas;
                open[self.turn]
            }
            Balance::Random => open[rng.below(replicas as u64) as usize],
            Balance::TwoChoices => {
                let one = rng.below(replicas as u64) as usize;
                let other = (one + 1 + rng.below(replicas as u64 - 1) as usize) % replicas;
                let (one, other) = (open[one], open[other]);
                let load = |server: usize| {
                    let outbox = &self.connections[server].outbox;
                    outbox.pending() + outbox.outstanding() as usize
                };
                if load(other) < load(one) { other } else { one }
            }
        }
    }
}

impl World<'_> {
    /// Connects a client to all servers.
    pub(super) fn connect(&mut self, client: u32) {
        let client = &mut self.clients[client as usize];
        let init = Init { now: self.now, ..self.init };
        let config = &self.scenario.admission.client;
        client.connect(self.servers.len(), &self.algorithm, config, init);
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.open(self.now, client.link(index));
        }
    }

    /// Some clients fail: what they waited for nobody wants any more.
    pub(super) fn crash(&mut self, index: u16) {
        let crash = &self.scenario.workload.crashes[usize::from(index)];
        let share = (self.clients.len() as f64 * crash.share).ceil() as u32;
        let gone: Vec<u32> =
            (0..share).filter(|&client| !self.clients[client as usize].is_away()).collect();
        for id in self.requests.ids_of(|link| gone.binary_search(&link.client).is_ok()) {
            match self.requests[id].state {
                State::Orphan => {}
                State::Waiting => self.end(id, Outcome::DroppedAtClient(DropReason::Disconnected)),
                _ => self.orphan(id),
            }
        }
        for client in gone {
            self.clients[client as usize].leave();
            (0..self.servers.len()).for_each(|server| self.close(server, client));
            self.events.push(self.now + crash.away, Event::Return { client });
        }
    }

    /// The request ends here and now, although somebody still has it.
    fn orphan(&mut self, id: RequestId) {
        self.books.orphaned(self.requests[id].state);
        self.requests[id].state = State::Orphan;
        let Request { class, scheduled, .. } = self.requests[id];
        self.tell(class, scheduled, Outcome::Cancelled);
    }

    /// A request is due at a client.
    pub(super) fn offer(&mut self, client: u32) {
        let class = self.classes.draw(self.now, &mut self.nature);
        let nature = self.nature.next_u64();
        let owner = &mut self.clients[client as usize];
        if owner.is_away() {
            let dropped = Outcome::DroppedAtClient(DropReason::Disconnected);
            return self.tell(class, self.now, dropped);
        }
        owner.policy.on_call();
        let link = owner.link(0);
        let kind = (class, self.classes.is_droppable(class));
        let id = self.requests.insert(Request::new(self.now, link, kind, nature));
        self.books.offered();
        self.submit(id);
    }

    /// A message has reached its client.
    pub(super) fn answer(&mut self, link: Link, mut replies: Chain, feedback: Feedback) {
        self.on_the_way -= u64::from(replies.len);
        let Some(connection) = standing(&mut self.clients, link) else {
            return self.forget(replies);
        };
        if replies.len == 0 {
            connection.outbox.on_push(self.now, feedback);
        }
        while let Some(id) = self.requests.take_first(&mut replies) {
            let request = &self.requests[id];
            let served = request.state == State::Served;
            let mut response = Response::new(self.now.since(request.sent), feedback);
            response.served = served;
            if let Some(connection) = standing(&mut self.clients, link) {
                connection.outbox.on_response(self.now, &response);
            }
            if served {
                self.end(id, Outcome::Success);
            } else {
                self.give_up(id, End::Refused, Outcome::Rejected);
            }
        }
        self.flush(link);
    }

    /// An outbox wanted to be looked at.
    pub(super) fn client_timer(&mut self, link: Link) {
        let Some(connection) = standing(&mut self.clients, link) else { return };
        if connection.timer == self.now {
            connection.timer = Instant::NEVER;
            connection.outbox.handle_timeout(self.now);
            self.flush(link);
        }
    }

    /// Lets everything leave that may, in one message, and gives up what will never.
    pub(super) fn flush(&mut self, link: Link) {
        let Some(connection) = standing(&mut self.clients, link) else { return };
        let mut leaving = Chain::EMPTY;
        while let Some(departed) = connection.outbox.poll_send(self.now) {
            let id = departed.item;
            self.books.moves(self.requests[id].state, State::Sent);
            let request = &mut self.requests[id];
            request.state = State::Sent;
            request.sent = self.now;
            request.attempts = request.attempts.saturating_add(1);
            request.report = departed.report;
            self.requests.append(&mut leaving, id);
        }
        let report = connection.outbox.poll_report();
        let mut dropped = Vec::new();
        while let Some(drop) = connection.outbox.poll_dropped() {
            dropped.push(drop);
        }
        self.rearm(link);
        for (id, reason) in dropped {
            self.give_up(id, End::NoCredit, Outcome::DroppedAtClient(reason.into()));
        }
        if leaving.len > 0 || report.is_some() {
            self.on_the_way += u64::from(leaving.len);
            let delay = self.network_delay();
            let Some(connection) = standing(&mut self.clients, link) else { return };
            connection.delivered = connection.delivered.max(self.now + delay);
            let message = Event::ToServer { link, requests: leaving, report };
            self.events.push(connection.delivered, message);
        }
    }

    /// Sees to it that the outbox is looked at when it wants to be.
    fn rearm(&mut self, link: Link) {
        let Some(connection) = standing(&mut self.clients, link) else { return };
        if let Some(at) = connection.outbox.poll_timeout()
            && at < connection.timer
        {
            // What is due already was just looked at.
            connection.timer = at.max(self.now + TICK);
            self.events.push(connection.timer, Event::ClientTimer { link });
        }
    }
}

/// The connection that `link` names, if it still stands.
pub(super) fn standing(clients: &mut [Client], link: Link) -> Option<&mut Connection> {
    let client = &mut clients[link.client as usize];
    let stands = link.generation == client.generation;
    if stands { client.connections.get_mut(usize::from(link.server)) } else { None }
}
