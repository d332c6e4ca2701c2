//! Clients: each with an outbox for every replica.

use std::sync::Arc;
use std::time::Duration;

use seawall_control::client::{self, Outbox};
use seawall_control::controller::{Algorithm, Feedback, Init, Response};
use seawall_control::replica::{self, Selector};
use seawall_control::retry::{self, End, Policy};
use seawall_control::{Instant, Rng};
use seawall_measure::Outcome;
use seawall_measure::outcome::DropReason;

use super::call::Call;
use super::request::{Chain, Request, RequestId, State};
use super::{Cancel, Event, Link, World};

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
    /// Which of them a request goes to.
    pub(super) selector: Selector,
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
        let selector = Selector::new(&replica::Config::default(), 0, 0);
        Self { id, seeds: Rng::new(seed), connections, generation: 0, selector, policy }
    }

    fn connect(
        &mut self,
        replicas: usize,
        algorithm: &Arc<dyn Algorithm>,
        config: &client::Config,
        init: Init,
        seed: u64,
    ) {
        let connection = |seed| {
            let init = Init { seed, ..init };
            let controller = algorithm.clone().client(init);
            let outbox = Outbox::new(controller, config, init);
            Connection { outbox, timer: Instant::NEVER, delivered: init.now }
        };
        self.selector = Selector::new(&config.replicas, replicas, seed);
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

    pub(super) fn link(&self, server: usize) -> Link {
        Link { client: self.id, server: server as u16, generation: self.generation }
    }
}

impl World<'_> {
    /// Connects a client to all servers.
    pub(super) fn connect(&mut self, client: u32) {
        let client = &mut self.clients[client as usize];
        let init = Init { now: self.now, ..self.init };
        let config = &self.scenario.admission.client;
        let seed = self.selection.next_u64();
        client.connect(self.servers.len(), &self.algorithm, config, init, seed);
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
            self.bereave(id);
        }
        for client in gone {
            self.clients[client as usize].leave();
            (0..self.servers.len()).for_each(|server| self.close(server, client));
            self.events.push(self.now + crash.away, Event::Return { client });
        }
    }

    /// The client of this request is gone: its call ends here and now, although somebody still has
    /// the request.
    fn bereave(&mut self, id: RequestId) {
        let Request { state, call: owner, .. } = self.requests[id];
        if state == State::Orphan {
            return;
        }
        let call = &mut self.calls[owner];
        if std::mem::replace(&mut call.is_open, false) {
            let requests = &self.requests;
            let sent = call.copies().any(|copy| requests[copy].state != State::Waiting);
            let (class, scheduled) = (call.class, call.scheduled);
            let dropped = Outcome::DroppedAtClient(DropReason::Disconnected);
            self.books.closed(true);
            self.tell(class, scheduled, if sent { Outcome::Cancelled } else { dropped });
        }
        if state == State::Waiting {
            self.drop_surplus(id);
        } else {
            self.books.orphaned(state);
            self.requests[id].state = State::Orphan;
        }
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
        let hedge = owner.policy.hedge_after();
        let link = owner.link(0);
        let kind = (class, self.classes.is_droppable(class));
        let eligible = self.placement.draw(&mut self.nature);
        let (serial, call) = (self.next_serial(), self.next_serial());
        let call_id = self.calls.insert(Call::new(self.now, class, call, eligible));
        let request = Request::new((call_id, serial), self.now, link, kind, nature);
        let id = self.requests.insert(request);
        self.calls[call_id].add(id);
        self.books.offered();
        if let Some(after) = hedge {
            self.events.push(self.now + after, Event::Copy { call: call_id, serial: call });
        }
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
            let (state, is_surplus) = (request.state, request.is_surplus);
            let mut response = Response::new(self.now.since(request.sent), feedback);
            response.served = state != State::Refused;
            if let Some(connection) = standing(&mut self.clients, link) {
                connection.outbox.on_response(self.now, &response);
            }
            match state {
                _ if is_surplus => self.drop_surplus(id),
                State::Served => self.served(id),
                _ => self.refused(id),
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
        self.flush_with(link, None);
    }

    /// The same when `newest` was just put into the outbox, and may go elsewhere if it would wait
    /// for too long; that is decided before anything that is given up comes to another outbox.
    pub(super) fn flush_with(&mut self, link: Link, newest: Option<RequestId>) {
        let Some(connection) = standing(&mut self.clients, link) else { return };
        let (mut leaving, mut surplus) = (Chain::EMPTY, Vec::new());
        while let Some(departed) = connection.outbox.poll_send(self.now) {
            let id = departed.item;
            if self.requests[id].is_surplus {
                connection.outbox.withdraw();
                surplus.push(id);
                continue;
            }
            self.books.moves(self.requests[id].state, State::Sent);
            let request = &mut self.requests[id];
            request.state = State::Sent;
            request.sent = self.now;
            request.report = departed.report;
            self.requests.append(&mut leaving, id);
        }
        let report = connection.outbox.poll_report();
        let mut dropped = Vec::new();
        while let Some(drop) = connection.outbox.poll_dropped() {
            dropped.push(drop);
        }
        self.rearm(link);
        let waits = |id: &RequestId| {
            self.requests[*id].state == State::Waiting
                && dropped.iter().all(|(dropped, _)| dropped != id)
        };
        let moves = newest.filter(waits).filter(|id| self.take_back(link, *id));
        surplus.into_iter().for_each(|id| self.drop_surplus(id));
        for (id, reason) in dropped {
            if self.requests[id].is_surplus {
                self.drop_surplus(id);
                continue;
            }
            self.give_up(id, End::NoCredit, Outcome::DroppedAtClient(reason.into()));
        }
        if leaving.len > 0 || report.is_some() {
            self.send(link, leaving, report, None);
        }
        if let Some(id) = moves {
            self.give_up(id, End::NoCredit, Outcome::DroppedAtClient(DropReason::Expired));
        }
    }

    /// A message leaves for a server.
    pub(super) fn send(
        &mut self,
        link: Link,
        requests: Chain,
        report: Option<client::Report>,
        cancel: Option<Cancel>,
    ) {
        self.on_the_way += u64::from(requests.len);
        let delay = self.network_delay();
        let Some(connection) = standing(&mut self.clients, link) else { return };
        connection.delivered = connection.delivered.max(self.now + delay);
        let message = Event::ToServer { link, requests, report, cancel };
        self.events.push(connection.delivered, message);
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
