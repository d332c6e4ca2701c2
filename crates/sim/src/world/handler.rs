//! A request's handler: steps on a core, with a lock or with memory or without, and waits in
//! between.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::controller::{Dequeue, Verdict};
use seawall_control::predict::lock::LockKind;
use seawall_control::request::{Class, Context, Rejected, Stage};

use super::lock::Lock;
use super::request::{RequestId, State};
use super::server::{Work, session};
use super::{Event, World};

impl World<'_> {
    /// A core takes a request that waited since then, unless it waited too long.
    pub(super) fn run_first(&mut self, index: u16, since: Instant, id: RequestId) {
        let now = self.now;
        let request = &mut self.requests[id];
        if request.state == State::Orphan {
            return self.drop_orphan(index, id);
        }
        request.context.charge(now.since(since));
        if request.is_cancelled {
            return self.drop_cancelled(index, id);
        }
        if !std::mem::replace(&mut request.begun, true) {
            (request.started, request.waited) = (now, request.context.charged());
            if let Err(rejected) = self.still_worth_it(index, id) {
                let link = self.requests[id].link;
                return self.refuse(link, id, &rejected);
            }
            let request = &mut self.requests[id];
            if request.fails(self.scenario.workload.errors) {
                let link = request.link;
                return self.ready(link, id, State::Served);
            }
        }
        self.step(index, id);
    }

    /// The last look at a request before it runs.
    fn still_worth_it(&mut self, index: u16, id: RequestId) -> Result<(), Rejected> {
        let request = &self.requests[id];
        request.context.admit(Stage::RUN_QUEUE, self.now, Duration::ZERO)?;
        let server = &mut self.servers[usize::from(index)];
        if server.controller.judges_dequeues() {
            let waited = request.context.charged();
            let mut dequeue = Dequeue::new(session(request.link), waited);
            dequeue.class = Class(request.class);
            dequeue.droppable = request.droppable;
            if let Verdict::Refuse(rejected) = server.controller.on_dequeue(self.now, &dequeue) {
                return Err(rejected);
            }
        }
        Ok(())
    }

    /// The request's next step begins or goes on on an idle core, or it waits for the step's lock
    /// or for the memory, or is refused there.
    pub(super) fn step(&mut self, index: u16, id: RequestId) {
        let request = &mut self.requests[id];
        let step = self.classes.step(request.class, request.step).expect("its steps are not over");
        let locks = &mut self.servers[usize::from(index)].locks;
        if let Some(number) = step.lock
            && !request.has_lock
        {
            let lock = &mut locks[number];
            let stage = Stage(Stage::FIRST_OWN + number as u8);
            let policy = if step.plain { LockKind::Plain } else { self.scenario.server.locks };
            if let Err(rejected) = approach(policy, lock, &request.context, stage, self.now) {
                let link = request.link;
                return self.refuse(link, id, &rejected);
            }
            let waits_in_turn = request.droppable || step.plain;
            if !lock.acquire(self.now, id, waits_in_turn) {
                return;
            }
        }
        request.has_lock = step.lock.is_some();
        if step.memory.is_some() || self.scenario.server.preempt.is_some() {
            return self.step_with_pauses(index, id);
        }
        let time = step.cpu.sample(&mut request.work);
        request.worked += time;
        self.occupy(index, Work::Running { request: id }, time);
    }

    /// A step's work on a core has ended; what it waits for comes then.
    pub(super) fn ran(&mut self, index: u16, id: RequestId) {
        let request = &mut self.requests[id];
        let step = self.classes.step(request.class, request.step).expect("its steps are not over");
        let wait = step.wait;
        match wait {
            Some(wait) => {
                let time = wait.sample(&mut request.work);
                self.servers[usize::from(index)].asleep += 1;
                self.events.push(self.now + time, Event::Awake { server: index, request: id });
            }
            None => {
                if self.ended(index, id) {
                    self.step(index, id);
                }
            }
        }
    }

    /// A step has waited for long enough; the next one waits for a core.
    pub(super) fn awake(&mut self, index: u16, id: RequestId) {
        self.servers[usize::from(index)].asleep -= 1;
        if self.ended(index, id) {
            let droppable = self.requests[id].droppable;
            self.servers[usize::from(index)].runnable.push(self.now, droppable, id);
        }
        self.dispatch(index);
    }

    /// A step has ended. True if there is another one.
    fn ended(&mut self, index: u16, id: RequestId) -> bool {
        self.leave_memory(index, id);
        self.unlock(index, id);
        let request = &mut self.requests[id];
        request.step += 1;
        if request.state == State::Orphan {
            self.drop_orphan(index, id);
            return false;
        }
        if self.classes.step(request.class, request.step).is_some() {
            if request.is_cancelled {
                self.drop_cancelled(index, id);
                return false;
            }
            return true;
        }
        let service = request.service_until(self.now);
        request.service = service;
        let server = &mut self.servers[usize::from(index)];
        server.predictor.on_served(request.worked, service);
        server.standing.on_turn(request.worked / self.scenario.server.cores);
        let link = request.link;
        self.ready(link, id, State::Served);
        false
    }

    /// Hands the lock that the request's step needed, if it has it, to who waits longest.
    pub(super) fn unlock(&mut self, index: u16, id: RequestId) {
        let request = &mut self.requests[id];
        if !std::mem::take(&mut request.has_lock) {
            return;
        }
        let step = self.classes.step(request.class, request.step).expect("its steps are not over");
        if let Some(lock) = step.lock {
            self.hand_over(index, lock);
        }
    }

    /// Nobody wants the request any more, and its turn has come.
    fn drop_orphan(&mut self, index: u16, id: RequestId) {
        self.leave_memory(index, id);
        self.unlock(index, id);
        self.forget_one(id);
    }
}

/// Decides, where a request comes to a lock, whether it may wait for it.
fn approach(
    policy: LockKind,
    lock: &mut Lock,
    context: &Context,
    stage: Stage,
    now: Instant,
) -> Result<(), Rejected> {
    match policy {
        LockKind::Try if lock.is_held() && context.claims().droppable => {
            Err(Rejected::new(stage, lock.backlog(now).age, context.remaining(now)))
        }
        LockKind::Plain | LockKind::Try => Ok(()),
        _ => {
            lock.standing.on_arrival(now);
            let (backlog, most) = (lock.backlog(now), lock.standing.most(context.queues()));
            context.admit(stage, now, policy.estimate().wait(&backlog))?;
            context.admit_to_queue(stage, backlog.queued(), most)
        }
    }
}
