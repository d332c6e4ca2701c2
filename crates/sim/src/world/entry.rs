//! Requests that a server has read: which of them may join the run queue.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::client::Report;
use seawall_control::controller::{Arrival, SessionEvent, Verdict};
use seawall_control::request::{Claims, Class, Context, RefusalReason, Rejected, Stage};

use super::request::{RequestId, State};
use super::server::{Message, session};
use super::{Cancel, Fault, Link, World};

impl World<'_> {
    /// Requests have been read: which of them may join the run queue?
    pub(super) fn judge(&mut self, message: Message, queued: Instant) {
        let Message { link, mut requests, report, cancel } = message;
        let (now, waited) = (self.now, self.now.since(queued));
        let server = &mut self.servers[usize::from(link.server)];
        if server.sessions[link.client as usize].generation != link.generation {
            return self.forget(requests);
        }
        server.read_delay = server.read_delay.max(waited);
        if let Some(Report { demand, window_ack }) = report {
            let event = SessionEvent::Demand { demand, window_ack };
            server.controller.on_session(now, session(link), event);
            server.push(now);
        }
        if let Some(Cancel { request, serial }) = cancel {
            self.cancelled(request, serial);
        }
        while let Some(id) = self.requests.take_first(&mut requests) {
            match self.admit(link, id, waited) {
                Ok(()) => {
                    self.set_state(id, State::Admitted);
                    let droppable = self.requests[id].droppable;
                    self.servers[usize::from(link.server)].runnable.push(now, droppable, id);
                }
                Err(rejected) => {
                    if rejected.reason == RefusalReason::WindowExceeded {
                        self.books.refused_the_honest();
                    }
                    self.refuse(link, id, &rejected);
                }
            }
        }
    }

    fn admit(&mut self, link: Link, id: RequestId, waited: Duration) -> Result<(), Rejected> {
        let (now, budget) = (self.now, self.budget_of(id));
        let server = &mut self.servers[usize::from(link.server)];
        let request = &mut self.requests[id];
        let age = server.age(now);
        let mut arrival = Arrival::new(session(link));
        (arrival.id, arrival.class) = (request.number, Class(request.class));
        arrival.droppable = request.droppable;
        arrival.demand = request.report.demand;
        arrival.window_ack = request.report.window_ack;
        if self.fault == Some(Fault::ForgetsWindows) {
            arrival.window_ack += 1;
        }
        arrival.queue_delay = waited + age;
        request.arrived = now;

        let late = request.sent.since(request.scheduled) + waited;
        let deadline = self.scenario.workload.deadline;
        let deadline = deadline.map(|deadline| deadline.saturating_sub(late));
        let target = self.target_delay;
        let left = deadline.map_or(target, |left| left.min(target));
        let after = server.predictor.service_p99() + self.init.rtt;
        let droppable = request.droppable;
        let claims = Claims { deadline, budget, droppable, ..Claims::default() };
        let context = Context::new(claims, now).with_queues(server.queues);
        request.context = match server.budget.of(left, after) {
            Some(budget) => context.with_budget_at_most(budget),
            None => context,
        };
        let mut verdict = server.controller.on_arrival(now, &arrival);
        server.standing.on_arrival(now);
        if self.fault == Some(Fault::NeverRecovers) && server.counts.refused_at_entry > 0 {
            verdict = Verdict::Refuse(Rejected::at_entry(RefusalReason::Overload, age));
        }
        request.context.charge(waited);
        if let Verdict::Refuse(rejected) = verdict {
            return Err(rejected);
        }
        let predicted = server.predictor.wait(server.runnable.len(), age);
        request.context.admit(Stage::RUN_QUEUE, now, predicted)?;
        let most = server.standing.most(server.queues);
        request.context.admit_to_queue(Stage::RUN_QUEUE, waited + predicted, most)
    }

    pub(super) fn refuse(&mut self, link: Link, id: RequestId, rejected: &Rejected) {
        let measured = self.is_measured();
        let counts = &mut self.servers[usize::from(link.server)].counts;
        let count = match rejected.stage {
            Stage::ADMISSION => &mut counts.refused_at_entry,
            Stage::MEMORY => &mut counts.refused_at_memory,
            _ => &mut counts.refused_later,
        };
        *count += u64::from(measured);
        let request = &mut self.requests[id];
        (request.refused_at, request.refused_for) = (rejected.stage, rejected.predicted_delay);
        self.ready(link, id, State::Refused);
    }

    /// How long a request may wait in queues at the replica that has it; `None` for ever.
    pub(super) fn budget_of(&self, id: RequestId) -> Option<Duration> {
        let is_patient = self.calls[self.requests[id].call].is_patient;
        self.scenario.workload.budget.filter(|_| !is_patient)
    }
}
