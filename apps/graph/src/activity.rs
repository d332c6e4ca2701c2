//! What of its time a request spends here, and what it waits for others.
//!
//! ```text
//!   work │ pool wait │ reply awaited │ work │ pool wait │ reply awaited │ work
//!   ◄── execTime ───►                ◄───── execTime ──►                ◄────►
//! ```
//!
//! With branches side by side, an instant is work if any of them works, else a wait for a
//! connection if any of them waits for one, else a wait for replies (SurgeGuard §III-A).

use std::future::Future;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_rpc::clock;

/// The time of one request.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<State>);

#[derive(Clone, Copy, Debug)]
struct State {
    since: Instant,
    /// Branches that work, and those that wait for a connection.
    working: u32,
    pooled: u32,
    work_ns: u64,
    pool_ns: u64,
}

impl Activity {
    /// Of a request that arrived at that time, and works since.
    pub(crate) fn new(arrived: Instant) -> Self {
        Self(Mutex::new(State { since: arrived, working: 1, pooled: 0, work_ns: 0, pool_ns: 0 }))
    }

    /// Waits for a connection.
    pub(crate) async fn pooled<F: Future>(&self, wait: F) -> F::Output {
        self.change(-1, 1);
        let got = wait.await;
        self.change(1, -1);
        got
    }

    /// Waits for a reply.
    pub(crate) async fn replied<F: Future>(&self, wait: F) -> F::Output {
        self.change(-1, 0);
        let reply = wait.await;
        self.change(1, 0);
        reply
    }

    /// So many branches begin where one works, which waits for them.
    pub(crate) fn fork(&self, branches: usize) {
        self.change(branches as i32 - 1, 0);
    }

    /// A branch has ended.
    pub(crate) fn ended(&self) {
        self.change(-1, 0);
    }

    /// All branches have ended.
    pub(crate) fn join(&self) {
        self.change(1, 0);
    }

    /// Execution time until now, and waits for connections within it, in nanoseconds.
    pub(crate) fn spent(&self) -> (u64, u64) {
        self.change(0, 0);
        let state = self.0.lock();
        (state.work_ns + state.pool_ns, state.pool_ns)
    }

    fn change(&self, working: i32, pooled: i32) {
        self.0.lock().change(clock::now(), working, pooled);
    }
}

impl State {
    fn change(&mut self, now: Instant, working: i32, pooled: i32) {
        let passed = now.since(self.since).as_nanos() as u64;
        if self.working > 0 {
            self.work_ns += passed;
        } else if self.pooled > 0 {
            self.pool_ns += passed;
        }
        self.since = now;
        self.working = self.working.saturating_add_signed(working);
        self.pooled = self.pooled.saturating_add_signed(pooled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_what_the_busiest_branch_does() {
        let at = Instant::from_nanos;
        let mut state = *Activity::new(at(100)).0.lock();
        state.change(at(110), 1, 0); // two branches instead of one: 10 of work
        state.change(at(120), -1, 1); // one of them waits for a connection, the other works: 10
        state.change(at(150), -1, 0); // still work: 30; the other now waits for a reply
        state.change(at(170), 1, -1); // 20 of pool wait; it has its connection
        state.change(at(171), -1, 0); // 1 of work to send; both wait for replies
        state.change(at(271), 1, 0); // 100 that do not count; one is back
        state.change(at(276), -1, 0); // 5 of work; it has ended
        state.change(at(300), 1, 0); // the other is back
        state.change(at(301), -1, 0); // and has ended
        state.change(at(301), 1, 0); // all have
        state.change(at(305), 0, 0);
        assert_eq!((state.work_ns, state.pool_ns), (10 + 10 + 30 + 1 + 5 + 1 + 4, 20));
    }
}
