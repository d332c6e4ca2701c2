//! Second copies of calls that are slow: the first reply counts, and the other copy is given up.

use seawall_control::retry::{End, Failed, Verdict};
use seawall_measure::Outcome;

use super::call::CallId;
use super::request::{Chain, Request, RequestId, State};
use super::{Cancel, Fault, World};

impl World<'_> {
    /// A call's newest attempt was to be answered by now; if it is not, another replica may get a
    /// copy of it.
    pub(super) fn copy(&mut self, id: CallId, serial: u32) {
        let is_it = self.calls.get(id).filter(|call| call.serial == serial && call.is_open);
        let Some(call) = is_it else { return };
        let first = call.copies().next().expect("an open call is under way");
        let mut slow = Failed::new(End::Unknown, self.deadline_of(first));
        slow.sent = call.sent.saturating_add(1);
        (slow.others, slow.idempotent, slow.rtt) = (call.left(), true, self.init.rtt);
        let Request { link, class, droppable, number, scheduled, .. } = self.requests[first];
        let policy = &mut self.clients[link.client as usize].policy;
        if policy.on_slow(self.now, &slow) != Verdict::Again {
            return;
        }
        let copy = (id, self.next_serial());
        let copy = Request::new(copy, scheduled, link, (class, droppable), number);
        let copy = self.requests.insert(copy);
        self.calls[id].add(copy);
        self.books.copied();
        self.submit(copy);
    }

    /// A call is served: what else is under way for it is given up.
    pub(super) fn served(&mut self, id: RequestId) {
        self.on_reply(id);
        let call = &self.calls[self.requests[id].call];
        if !self.has(Fault::ForgetsCopies) {
            for other in call.copies().filter(|other| *other != id) {
                self.give_up_copy(other);
            }
        }
        let failed = self.requests[id].fails(self.scenario.workload.errors);
        self.end(id, if failed { Outcome::Failed } else { Outcome::Success });
    }

    /// Nobody waits for this copy any more.
    fn give_up_copy(&mut self, id: RequestId) {
        if self.has(Fault::CountsCopies) {
            return;
        }
        let now = self.now;
        let request = &mut self.requests[id];
        request.is_surplus = true;
        let Request { link, state, asked, serial, .. } = *request;
        let selector = &mut self.clients[link.client as usize].selector;
        let server = usize::from(link.server);
        selector.on_silence(now, server, now.since(asked));
        selector.on_end(server);
        // One that waits for leave to be sent is forgotten when it gets that, as at a live client.
        if state != State::Waiting {
            self.send(link, Chain::EMPTY, None, Some(Cancel { request: id, serial }));
        }
    }

    /// A copy whose call has ended is back, or never left.
    pub(super) fn drop_surplus(&mut self, id: RequestId) {
        let request = self.requests.remove(id);
        let open = self.calls[request.call].is_open;
        self.books.surplus(open, request.state);
        self.calls.remove_copy(request.call, id);
    }

    /// A server is told that a request is given up. One that has not run yet never will, and one
    /// that has ends after the step that it is at; each is answered, so that its credit returns.
    pub(super) fn cancelled(&mut self, id: RequestId, serial: u32) {
        let Some(request) = self.requests.find(id, serial) else { return };
        request.is_cancelled = matches!(request.state, State::Sent | State::Admitted);
    }

    /// A request that was given up has its turn, or its next one.
    pub(super) fn drop_cancelled(&mut self, index: u16, id: RequestId) {
        self.leave_memory(index, id);
        self.unlock(index, id);
        let link = self.requests[id].link;
        self.ready(link, id, State::Cancelled);
    }

    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }
}
