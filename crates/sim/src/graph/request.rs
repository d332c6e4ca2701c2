//! Jobs, the visits that they pay to services, and the threads of these.

use seawall_control::{Instant, Rng};
use slab::Slab;

/// Number of a [`Visit`].
pub(super) type VisitId = u32;

/// Number of a [`Thread`].
pub(super) type ThreadId = u32;

/// What a client wants: one visit to the first service, and all that follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// When it was due; its latency counts from here.
    pub(super) due: Instant,
    /// When it began: its arrival at the first service, as that stamps it (SurgeGuard §IV).
    pub(super) start: Option<Instant>,
}

/// One request at one service.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) service: u16,
    pub(super) job: u32,
    /// The thread that waits for its reply; the client where there is none.
    pub(super) caller: Option<ThreadId>,
    pub(super) arrived: Instant,
    /// Hops of the upscale hint that it came with.
    pub(super) hint: u16,
    /// Execution at the services before this one.
    pub(super) upstream_ns: u64,
    clock: Clock,
}

/// What a visit has taken so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Threads that work.
    working: u32,
    /// Threads that wait for a connection.
    starved: u32,
    since: Instant,
    /// Execution with waits for connections (`execTime`).
    pub(super) exec_ns: u64,
    /// Waits for connections while no thread worked (`timeWaitingForFreeConn`).
    pub(super) pool_wait_ns: u64,
}

/// A change of what the threads of a visit do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    Works,
    Worked,
    Starves,
    Connected,
}

/// One flow of control of a visit.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) visit: VisitId,
    pub(super) sequence: u16,
    pub(super) at: u16,
    /// The thread that goes on when this one and its sisters have ended.
    pub(super) parent: Option<ThreadId>,
    /// Threads that it waits for.
    pub(super) branches: u32,
    /// The service that it asks, and the pool that its connection is of.
    pub(super) asks: Option<(u16, Option<u16>)>,
    /// What is by chance here: the same whatever happens elsewhere.
    pub(super) rng: Rng,
}

/// All that is in the system.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) jobs: Slab<Job>,
    pub(super) visits: Slab<Visit>,
    pub(super) threads: Slab<Thread>,
}

impl Visit {
    pub(super) fn new(service: u16, job: u32, caller: Option<ThreadId>, now: Instant) -> Self {
        let clock = Clock { working: 0, starved: 0, since: now, exec_ns: 0, pool_wait_ns: 0 };
        Self { service, job, caller, arrived: now, hint: 0, upstream_ns: 0, clock }
    }

    /// Time goes on to `now`, and a thread does something else from then on.
    pub(super) fn turns(&mut self, now: Instant, turn: Turn) {
        let clock = &mut self.clock;
        clock.advance(now);
        match turn {
            Turn::Works => clock.working += 1,
            Turn::Worked => clock.working -= 1,
            Turn::Starves => clock.starved += 1,
            Turn::Connected => clock.starved -= 1,
        }
    }

    /// What it has taken up to `now`.
    pub(super) fn taken(&self, now: Instant) -> Clock {
        let mut clock = self.clock;
        clock.advance(now);
        clock
    }
}

impl Clock {
    /// With several threads, the visit works as long as any of them does.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.since).as_nanos() as u64;
        self.since = now;
        if self.working + self.starved > 0 {
            self.exec_ns += elapsed;
        }
        if self.working == 0 && self.starved > 0 {
            self.pool_wait_ns += elapsed;
        }
    }
}

impl Requests {
    pub(super) fn job(&mut self, id: u32) -> &mut Job {
        &mut self.jobs[id as usize]
    }

    pub(super) fn thread(&mut self, id: ThreadId) -> &mut Thread {
        &mut self.threads[id as usize]
    }

    /// The visit that a thread is of.
    pub(super) fn visit_of(&mut self, thread: ThreadId) -> &mut Visit {
        &mut self.visits[self.threads[thread as usize].visit as usize]
    }

    /// A thread that begins with this sequence.
    pub(super) fn begin(
        &mut self,
        visit: VisitId,
        sequence: u16,
        parent: Option<ThreadId>,
        rng: Rng,
    ) -> ThreadId {
        let thread = Thread { visit, sequence, at: 0, parent, branches: 0, asks: None, rng };
        self.threads.insert(thread) as ThreadId
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_leaves_out_replies_and_has_waits_for_connections() {
        let at = Instant::from_nanos;
        let mut visit = Visit::new(0, 0, None, at(0));
        visit.turns(at(0), Turn::Works);
        visit.turns(at(10), Turn::Worked);
        // It waits for a reply, and then for a connection while a sister thread works half of it.
        visit.turns(at(30), Turn::Starves);
        visit.turns(at(40), Turn::Works);
        visit.turns(at(50), Turn::Worked);
        visit.turns(at(60), Turn::Connected);
        let taken = visit.taken(at(100));
        assert_eq!((taken.exec_ns, taken.pool_wait_ns), (40, 20));
    }
}
