//! What a replica did not serve, another may: clients decide as live ones do.

use seawall_control::Instant;
use seawall_control::client;
use seawall_control::controller::Demand;
use seawall_control::request::Class;
use seawall_control::retry::{End, Failed, Verdict};
use seawall_measure::Outcome;
use seawall_measure::outcome::DropReason;

use super::World;
use super::client::standing;
use super::request::{RequestId, State};

impl World<'_> {
    /// Gives a request to a replica that was not tried for it, which must exist.
    ///
    /// If that has no credit for it in time, another one is next. As at a live client, the wait is
    /// predicted when the request comes; who waits longer then waits until it expires.
    pub(super) fn submit(&mut self, id: RequestId) {
        let client = self.requests[id].link.client;
        let owner = &mut self.clients[client as usize];
        let balance = self.scenario.workload.balance;
        let server = owner.choose(balance, self.requests[id].tried, &mut self.balance);
        let link = owner.link(server);
        let request = &mut self.requests[id];
        (request.link, request.tried) = (link, request.tried | 1 << server);
        let (number, class, droppable) = (request.number, request.class, request.droppable);
        let others = owner.untried(request.tried);
        let deadline = self.deadline_of(id);
        let mut demand = Demand::new(0);
        (demand.id, demand.class, demand.droppable) = (number, Class(class), droppable);
        let outbox = &mut self.clients[client as usize].connections[server].outbox;
        outbox.submit(self.now, client::Request { item: id, demand, deadline });
        self.flush(link); // with which the server may learn that somebody waits
        let retry = &self.scenario.admission.client.retry;
        let waits = self.requests.get(id).is_some_and(|request| {
            request.state == State::Waiting && request.link == link // and not elsewhere by now
        });
        if !waits || !droppable || others == 0 || !retry.is_on() {
            return;
        }
        let Some(connection) = standing(&mut self.clients, link) else { return };
        if connection.outbox.wait(self.now) > retry.patience(self.init.rtt) {
            let taken = connection.outbox.take_back();
            assert_eq!(taken, Some(id), "the newest request is the newest in the outbox");
            self.give_up(id, End::NoCredit, Outcome::DroppedAtClient(DropReason::Expired));
        }
    }

    /// When a reply to the request is worthless.
    fn deadline_of(&self, id: RequestId) -> Instant {
        let scheduled = self.requests[id].scheduled;
        self.scenario.workload.deadline.map_or(Instant::NEVER, |deadline| scheduled + deadline)
    }

    /// An attempt has failed: the request goes to another replica, or ends so.
    pub(super) fn give_up(&mut self, id: RequestId, end: End, outcome: Outcome) {
        let request = &self.requests[id];
        if request.tried.count_ones() == 1 && self.is_measured() {
            self.first_failures.record(self.now.since(request.scheduled));
        }
        let mut failed = Failed::new(end, self.deadline_of(id));
        (failed.sent, failed.rtt) = (request.attempts, self.init.rtt);
        let owner = &mut self.clients[request.link.client as usize];
        failed.others = owner.untried(request.tried);
        match owner.policy.on_failure(self.now, &failed) {
            Verdict::Enough(_) => self.end(id, outcome),
            Verdict::Again => {
                self.set_state(id, State::Waiting);
                self.requests[id].restart(self.now);
                self.submit(id);
            }
        }
    }
}
