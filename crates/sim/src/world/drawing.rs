//! Steps that draw from the memory, through its semaphore, or that may be preempted.

use std::time::Duration;

use seawall_control::request::Rejected;

use super::memory::Drawn;
use super::request::RequestId;
use super::semaphore::Entry;
use super::server::Work;
use super::{Event, Fault, World};
use crate::scenario::{Bandwidth, Preempt};

impl World<'_> {
    /// A step that draws from the memory or may be preempted has its lock, if it needs one. It
    /// begins or goes on, or waits for the memory, or is refused there.
    pub(super) fn step_with_pauses(&mut self, index: u16, id: RequestId) {
        let request = &mut self.requests[id];
        let step = self.classes.step(request.class, request.step).expect("its steps are not over");
        let (memory, plain) = (step.memory, step.plain);
        if memory.is_some() && request.draws_since.is_none() {
            match self.enter_memory(index, id, plain) {
                Ok(true) => {}
                Ok(false) => return,
                Err(rejected) => {
                    self.unlock(index, id);
                    let link = self.requests[id].link;
                    return self.refuse(link, id, &rejected);
                }
            }
        }
        let time = self.work_left(id);
        match (memory, &self.scenario.server.preempt) {
            (Some(draw), _) => self.draw(index, id, time, draw),
            (None, Some(preempt)) => {
                let slice = time.min(preempt.quantum);
                self.requests[id].left = time - slice;
                self.occupy(index, Work::Running { request: id }, slice);
            }
            (None, None) => self.occupy(index, Work::Running { request: id }, time),
        }
    }

    /// What the step has left to do, or all of it if it begins.
    fn work_left(&mut self, id: RequestId) -> Duration {
        let request = &mut self.requests[id];
        if !request.left.is_zero() {
            return std::mem::take(&mut request.left);
        }
        let step = self.classes.step(request.class, request.step).expect("its steps are not over");
        let time = step.cpu.sample(&mut request.work);
        // Of a step that the memory may slow it is known when it is over.
        request.worked += if step.memory.is_some() { Duration::ZERO } else { time };
        time
    }

    /// A request comes to the memory semaphore, if there is one: true if it may go on, false if it
    /// waits.
    fn enter_memory(&mut self, index: u16, id: RequestId, plain: bool) -> Result<bool, Rejected> {
        let overbooks = self.has(Fault::OverbooksMemory);
        let server = &mut self.servers[usize::from(index)];
        let Some(semaphore) = &mut server.semaphore else { return Ok(true) };
        let request = &mut self.requests[id];
        let mut entry = semaphore.enter(self.now, id, &request.context, plain);
        if overbooks && matches!(entry, Entry::Refused(_)) {
            semaphore.overbook();
            entry = Entry::Enters;
        }
        match entry {
            Entry::Enters => {
                request.draws_since = Some(self.now);
                self.books.entered_memory(semaphore.holders(), semaphore.capacity());
                Ok(true)
            }
            Entry::Waits => Ok(false),
            Entry::Refused(rejected) => Err(rejected),
        }
    }

    /// Gives the memory semaphore back, if the request holds it.
    pub(super) fn leave_memory(&mut self, index: u16, id: RequestId) {
        let Some(since) = self.requests[id].draws_since.take() else { return };
        if self.has(Fault::KeepsPlaces) {
            return;
        }
        if let Some(semaphore) = &mut self.servers[usize::from(index)].semaphore {
            semaphore.leave(self.now.since(since));
        }
        self.let_in(index);
    }

    /// Gives free places of the memory semaphore to who waits for them.
    pub(super) fn let_in(&mut self, index: u16) {
        let server = &mut self.servers[usize::from(index)];
        let Some(semaphore) = &mut server.semaphore else { return };
        while let Some((next, waited)) = semaphore.take_next(self.now) {
            self.books.entered_memory(semaphore.holders(), semaphore.capacity());
            self.requests[next].draws_since = Some(self.now);
            self.requests[next].context.charge(waited);
            server.runnable.push(self.now, self.requests[next].droppable, next);
        }
    }

    /// A step begins, or goes on, on an idle core; it takes `time` if the memory does not slow it.
    fn draw(&mut self, index: u16, id: RequestId, time: Duration, draw: Bandwidth) {
        let server = &mut self.servers[usize::from(index)];
        let (core, turn) = server.draw(self.now, id, time, draw);
        if let Some(Preempt { quantum, .. }) = self.scenario.server.preempt {
            self.events.push(self.now + quantum, Event::Quantum { server: index, core, turn });
        }
    }

    /// A step that draws has ended, or several.
    pub(super) fn memory_event(&mut self, index: u16, epoch: u32) {
        let memory = self.servers[usize::from(index)].memory.as_mut();
        if !memory.expect("it has one").on_event(epoch) {
            return;
        }
        while let Some((core, drawn)) = self.servers[usize::from(index)].take_drawn(self.now) {
            self.drew(index, core, &drawn);
            self.core_done(index, core);
        }
        self.dispatch(index);
    }

    /// What a request has worked is told by how long it had its core.
    fn drew(&mut self, index: u16, core: u16, drawn: &Drawn) {
        let id = self.servers[usize::from(index)].running(core);
        let request = &mut self.requests[id];
        request.worked += drawn.time;
        request.left = drawn.left;
    }

    /// A step that draws has run for a quantum, if it still does: if others wait it goes behind
    /// them.
    pub(super) fn quantum(&mut self, index: u16, core: u16, turn: u32) {
        let Some(Preempt { quantum, .. }) = self.scenario.server.preempt else { return };
        let server = &mut self.servers[usize::from(index)];
        let memory = server.memory.as_mut().expect("it has one");
        if !memory.runs(core, turn) {
            return;
        }
        if !server.has_waiting() {
            self.events.push(self.now + quantum, Event::Quantum { server: index, core, turn });
            return;
        }
        let drawn = server.stop_drawing(self.now, core);
        self.drew(index, core, &drawn);
        self.core_done(index, core);
    }

    /// A request that has work left has run for a quantum on this core, which is not idle yet.
    pub(super) fn preempt(&mut self, index: u16, core: u16, id: RequestId) {
        let server = &mut self.servers[usize::from(index)];
        server.give_back(core);
        match &self.scenario.server.preempt {
            Some(Preempt { cost, .. }) if server.has_waiting() => {
                self.occupy(index, Work::Switching { request: id }, *cost);
            }
            _ => self.step(index, id),
        }
    }
}
