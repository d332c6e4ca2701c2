//! What a replica did not serve, another may: clients decide as live ones do.

use seawall_control::Instant;
use seawall_control::client;
use seawall_control::controller::Demand;
use seawall_control::replica::Answered;
use seawall_control::request::Class;
use seawall_control::retry::{End, Failed, Hedge, Verdict};
use seawall_measure::Outcome;

use super::client::standing;
use super::request::{Request, RequestId, State};
use super::{Link, World};

impl World<'_> {
    /// Gives a request to a replica that its call was not given to, which must exist.
    pub(super) fn submit(&mut self, id: RequestId) {
        let Request { link, call, .. } = self.requests[id];
        let untried = self.calls[call].untried();
        let selector = &mut self.clients[link.client as usize].selector;
        let server = selector.choose(self.now, |server| untried & (1 << server) != 0);
        let server = server.expect("a replica is left");
        let others = self.calls[call].left() - 1;
        self.submit_to(server, others, id);
    }

    /// Gives a request to this replica.
    ///
    /// If that has no credit for it in time, another one is next, if there are others. As at a live
    /// client, the wait is predicted when the request comes; who waits longer then waits until it
    /// expires.
    fn submit_to(&mut self, server: usize, others: usize, id: RequestId) {
        let deadline = self.deadline_of(id);
        let request = &mut self.requests[id];
        let owner = &mut self.clients[request.link.client as usize];
        let link = owner.link(server);
        (request.link, request.asked) = (link, self.now);
        self.calls[request.call].tried |= 1 << server;
        owner.selector.on_submit(server);
        let (number, class, droppable) = (request.number, request.class, request.droppable);
        let mut demand = Demand::new(0);
        (demand.id, demand.class, demand.droppable) = (number, Class(class), droppable);
        let outbox = &mut owner.connections[server].outbox;
        outbox.submit(self.now, client::Request { item: id, demand, deadline });
        let retry = &self.scenario.admission.client.retry;
        let may_move = droppable && others > 0 && retry.is_on();
        // With which the server may learn that somebody waits.
        self.flush_with(link, may_move.then_some(id));
    }

    /// True if the newest request of an outbox would wait there for longer than it does where there
    /// are others; it is taken out then.
    pub(super) fn take_back(&mut self, link: Link, id: RequestId) -> bool {
        let patience = self.scenario.admission.client.retry.patience(self.init.rtt);
        let Some(connection) = standing(&mut self.clients, link) else { return false };
        if connection.outbox.wait(self.now) <= patience {
            return false;
        }
        let taken = connection.outbox.take_back();
        assert_eq!(taken, Some(id), "the newest request is the newest in the outbox");
        true
    }

    /// When a reply to the request is worthless.
    pub(super) fn deadline_of(&self, id: RequestId) -> Instant {
        let scheduled = self.requests[id].scheduled;
        self.scenario.workload.deadline.map_or(Instant::NEVER, |deadline| scheduled + deadline)
    }

    /// A request was served; the client learns from that.
    pub(super) fn on_reply(&mut self, id: RequestId) {
        let request = &self.requests[id];
        let owner = &mut self.clients[request.link.client as usize];
        let server = usize::from(request.link.server);
        let latency = self.now.since(request.asked);
        let (service, queue_delay) = (request.service, request.queue_delay);
        let reply = Answered { latency, service, queue_delay };
        owner.selector.on_reply(self.now, server, reply);
        owner.selector.on_end(server);
        let hedges = self.scenario.admission.client.retry.hedge != Hedge::Never;
        if hedges && self.calls[request.call].is_first {
            owner.policy.on_latency(self.now.since(request.scheduled));
        }
    }

    /// A server has refused a request.
    pub(super) fn refused(&mut self, id: RequestId) {
        let Request { link, call, refused_at, refused_for, .. } = self.requests[id];
        let server = usize::from(link.server);
        let selector = &mut self.clients[link.client as usize].selector;
        selector.on_refusal(self.now, server, refused_at, refused_for);
        let call = &mut self.calls[call];
        call.sent = call.sent.saturating_add(1);
        call.on_refusal(self.now, server, refused_for);
        self.give_up(id, End::Refused, Outcome::Rejected);
    }

    /// An attempt has failed: the request goes to another replica, or ends so, unless another copy
    /// of its call may still be served.
    pub(super) fn give_up(&mut self, id: RequestId, end: End, outcome: Outcome) {
        let Request { link, call: owner, scheduled, .. } = self.requests[id];
        self.clients[link.client as usize].selector.on_end(usize::from(link.server));
        let call = &mut self.calls[owner];
        call.is_first = false;
        if call.tried.count_ones() == 1 && self.window.contains(self.now) {
            self.first_failures.record(self.now.since(scheduled));
        }
        let under_way = call.others(id);
        let (sent, others) = (call.sent.saturating_add(under_way), call.left());
        let mut failed = Failed::new(end, self.deadline_of(id));
        (failed.sent, failed.others) = (sent, others);
        (failed.idempotent, failed.rtt) = (true, self.init.rtt);
        let policy = &mut self.clients[link.client as usize].policy;
        match policy.on_failure(self.now, &failed) {
            Verdict::Again => {
                self.restart(id);
                self.submit(id);
            }
            Verdict::Enough(_) if under_way > 0 => {
                let state = self.requests.remove(id).state;
                self.books.failed(self.calls[owner].is_open, under_way, state);
                self.calls.remove_copy(owner, id);
            }
            Verdict::Enough(why) => {
                let call = &mut self.calls[owner];
                let has_budget = self.scenario.workload.budget.is_some() && !call.is_patient;
                match call.soonest.filter(|_| has_budget) {
                    Some((soonest, _)) if policy.on_refused_everywhere(why) => {
                        call.is_patient = true;
                        self.restart(id);
                        self.submit_to(soonest, 0, id);
                    }
                    _ => self.end(id, outcome),
                }
            }
        }
    }

    /// A request begins anew, at its client.
    fn restart(&mut self, id: RequestId) {
        self.set_state(id, State::Waiting);
        self.requests[id].restart(self.now);
    }
}
