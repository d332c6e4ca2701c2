//! Others that take the CPU from a server in bursts, and the guardian that refuses meanwhile what
//! would wait for too long (LIBROS §IV).
//!
//! ```text
//!   message ──► server without CPU ─► guardian ─ longer than it may wait ──► refusal, at once
//!                                        └─ soon enough ──► is read when the burst is over
//! ```

use std::time::Duration;

use seawall_control::controller::Feedback;
use seawall_control::request::Stage;
use seawall_control::{Instant, Rng};

use super::request::{Chain, RequestId, State};
use super::{Event, World};
use crate::scenario::{Noise, Scenario};

/// One noise of one server.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    server: u16,
    noise: &'a Noise,
    /// Draws the times, and the errors of predictions, whatever else happens.
    rng: Rng,
}

/// A server's time without CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// When it ends, or has ended.
    pub(super) until: Instant,
    /// When that was predicted to be, if it was.
    foreseen: Option<Instant>,
}

impl Stall {
    /// Whether no core runs anything.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        now < self.until
    }
}

/// All noises of a scenario.
pub(super) fn sources<'a>(scenario: &'a Scenario, seeds: &mut Rng) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for noise in &scenario.server.noise {
        for server in scenario.replicas(noise.replica) {
            sources.push(Source { server, noise, rng: seeds.fork() });
        }
    }
    sources
}

impl World<'_> {
    /// Each noise is quiet at first.
    pub(super) fn schedule_noises(&mut self) {
        for (index, source) in self.noises.iter_mut().enumerate() {
            let first = self.now + source.noise.every.sample(&mut source.rng);
            self.events.push(first, Event::Noise { source: index as u16 });
        }
    }

    /// A burst begins.
    pub(super) fn noise(&mut self, index: u16) {
        let now = self.now;
        let Source { server, noise, rng } = &mut self.noises[usize::from(index)];
        let server = *server;
        let until = now + noise.lasts.sample(rng);
        let next = until + noise.every.sample(rng);
        let foreseen = noise.foreseen.map(|error| {
            let error = error.sample(rng);
            if rng.chance(0.5) { until + error } else { until - error }
        });
        if next < self.window.end {
            self.events.push(next, Event::Noise { source: index });
        }
        self.stall(server, until, foreseen);
    }

    /// A server gets no CPU until then.
    fn stall(&mut self, index: u16, until: Instant, foreseen: Option<Instant>) {
        let now = self.now;
        let server = &mut self.servers[usize::from(index)];
        let begin = server.stall.until.max(now);
        if until <= begin {
            return; // another burst lasts longer
        }
        let delay = until.since(begin);
        server.stall = Stall { until, foreseen };
        server.delay_work(delay);
        self.delay_holds(index, delay);
        self.events.push(until, Event::Resume { server: index });
        if self.scenario.server.guardian {
            self.guard_unread(index);
        }
    }

    /// A server may have its CPU again.
    pub(super) fn resume(&mut self, index: u16) {
        if !self.servers[usize::from(index)].stall.is_on(self.now) {
            self.dispatch(index);
        }
    }

    /// What clients sent before a burst and nobody has read is judged when it begins.
    fn guard_unread(&mut self, index: u16) {
        let mut messages = std::mem::take(&mut self.servers[usize::from(index)].messages);
        for (message, queued) in messages.iter_mut().filter_map(super::server::Task::unread) {
            message.requests = self.guard(index, message.requests, self.now.since(queued));
        }
        self.servers[usize::from(index)].messages = messages;
    }

    /// The guardian judges requests that have waited for so long to be read; those it refuses are
    /// on their way back. Gives the others.
    pub(super) fn guard(&mut self, index: u16, mut requests: Chain, waited: Duration) -> Chain {
        let stall = self.servers[usize::from(index)].stall;
        let Some(foreseen) = stall.foreseen.filter(|_| stall.is_on(self.now)) else {
            return requests;
        };
        let predicted = foreseen.since(self.now);
        let (mut kept, mut refused) = (Chain::EMPTY, Chain::EMPTY);
        while let Some(id) = self.requests.take_first(&mut requests) {
            if self.is_too_long(id, waited, predicted) {
                self.set_state(id, State::Refused);
                let request = &mut self.requests[id];
                (request.refused_at, request.refused_for) = (Stage::CPU, predicted);
                self.requests.append(&mut refused, id);
            } else {
                self.requests.append(&mut kept, id);
            }
        }
        if refused.len > 0 {
            let link = self.requests[refused.first()].link;
            let measured = u64::from(self.is_measured());
            let counts = &mut self.servers[usize::from(index)].counts;
            counts.refused_at_cpu += measured * u64::from(refused.len);
            counts.sent += measured;
            self.on_the_way += u64::from(refused.len);
            let delay = self.network_delay();
            // Nobody asks the controller, so that there is nothing new about credits.
            let message = Event::ToClient { link, replies: refused, feedback: Feedback::None };
            self.events.push(self.now + delay, message);
        }
        kept
    }

    /// Whether a request that waited for so long has less left than that.
    fn is_too_long(&self, id: RequestId, waited: Duration, predicted: Duration) -> bool {
        let request = &self.requests[id];
        if request.state != State::Sent || !request.droppable {
            return false;
        }
        let to_deadline = self.deadline_of(id);
        let to_deadline = (to_deadline < Instant::NEVER).then(|| to_deadline.since(self.now));
        let budget = self.budget_of(id).map(|budget| budget.saturating_sub(waited));
        [budget, to_deadline].into_iter().flatten().min().is_some_and(|left| predicted > left)
    }
}
