//! Work of a server's own that holds a lock, and may say how long (LIBROS §VI).

use std::time::Duration;

use seawall_control::{Instant, Rng};

use super::lock::Next;
use super::{Event, World};
use crate::scenario::{Hold, Scenario};

/// What the holders of one lock call what they do; as many as there may be kinds.
const LABELS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

/// One kind of such work of one server.
#[derive(Clone, Debug)]
pub(super) struct Holder<'a> {
    server: u16,
    kind: usize,
    hold: &'a Hold,
    lock: usize,
    /// When it is done, while it has the lock.
    due: Option<Instant>,
    rng: Rng,
}

/// All of a scenario; `lock` gives the number of a lock by its name.
pub(super) fn holders<'a>(
    scenario: &'a Scenario,
    lock: impl Fn(&str) -> Option<usize>,
    seeds: &mut Rng,
) -> Vec<Holder<'a>> {
    let mut holders = Vec::new();
    for (kind, hold) in scenario.server.holds.iter().enumerate() {
        let lock = lock(&hold.lock).expect("the scenario was checked");
        for server in scenario.replicas(hold.replica) {
            holders.push(Holder { server, kind, hold, lock, due: None, rng: seeds.fork() });
        }
    }
    holders
}

impl Holder<'_> {
    /// What is done next, and how long that takes.
    fn draw(&mut self) -> (u64, Duration) {
        let Hold { amounts, each, base, scatter, .. } = self.hold;
        let amount = amounts[self.rng.below(amounts.len() as u64) as usize];
        let time = *base + each.mul_f64(amount as f64);
        // As of service times, the mean of the factor is 1.
        let factor = (scatter * self.rng.normal() - scatter * scatter / 2.0).exp();
        (amount, time.mul_f64(factor))
    }
}

impl World<'_> {
    /// Each holder waits at first.
    pub(super) fn schedule_holds(&mut self) {
        for index in 0..self.holders.len() {
            self.schedule_hold(index as u16);
        }
    }

    fn schedule_hold(&mut self, index: u16) {
        let holder = &mut self.holders[usize::from(index)];
        let next = self.now + holder.hold.every.sample(&mut holder.rng);
        if next < self.window.end {
            self.events.push(next, Event::HoldDue { holder: index });
        }
    }

    /// It is time for somebody to hold a lock.
    pub(super) fn hold_due(&mut self, index: u16) {
        let holder = &self.holders[usize::from(index)];
        let lock = &mut self.servers[usize::from(holder.server)].locks[holder.lock];
        if lock.acquire_for(self.now, index) {
            self.hold_begins(index);
        }
    }

    fn hold_begins(&mut self, index: u16) {
        let now = self.now;
        let holder = &mut self.holders[usize::from(index)];
        let (amount, time) = holder.draw();
        let server = &mut self.servers[usize::from(holder.server)];
        if holder.hold.announced {
            server.locks[holder.lock].holds.begin(now, LABELS[holder.kind], amount);
        }
        let due = server.stall.until.max(now) + time;
        holder.due = Some(due);
        self.events.push(due, Event::HoldDone { holder: index });
    }

    /// A server gets no CPU for so long.
    pub(super) fn delay_holds(&mut self, server: u16, delay: Duration) {
        let of_server = self.holders.iter_mut().filter(|holder| holder.server == server);
        of_server.filter_map(|holder| holder.due.as_mut()).for_each(|due| *due = *due + delay);
    }

    /// A hold was to be over by now.
    pub(super) fn hold_done(&mut self, index: u16) {
        let holder = &mut self.holders[usize::from(index)];
        let due = holder.due.expect("it has the lock");
        if due > self.now {
            return self.events.push(due, Event::HoldDone { holder: index });
        }
        holder.due = None;
        let (server, lock) = (holder.server, holder.lock);
        self.hand_over(server, lock);
        self.schedule_hold(index);
        self.dispatch(server);
    }

    /// Gives a lock that nobody needs any more to who is next.
    pub(super) fn hand_over(&mut self, index: u16, lock: usize) {
        let server = &mut self.servers[usize::from(index)];
        match server.locks[lock].release(self.now) {
            Next::Nobody => {}
            Next::Holder(holder) => self.hold_begins(holder),
            Next::Request(next, waited) => {
                let request = &mut self.requests[next];
                request.has_lock = true;
                request.context.charge(waited);
                server.runnable.push(self.now, request.droppable, next);
            }
        }
    }
}
