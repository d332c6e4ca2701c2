//! What must hold in every run, whatever the scenario: the checkers.

use std::fmt;

use seawall_control::Instant;
use seawall_measure::Outcome;

use super::call::Calls;
use super::request::{Requests, State};
use super::semaphore::Semaphore;
use super::server::Server;

/// A rule that did not hold: a bug in an algorithm or in the simulator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {detail}")]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was seen.
    pub detail: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A request goes from its client to a server and back, and ends once.
    OneEnd,
    /// No request is lost, and none appears from nowhere.
    NoneLost,
    /// The algorithm's own books agree: issued credits are the sum of all windows.
    BooksBalance,
    /// An honest client is never refused for sending more than it may.
    HonestyPays,
    /// No core is idle while there is something to do, and what the memory slows ends in time.
    WorkConserved,
    /// A server that gets no CPU does nothing.
    NoneWithoutCpu,
    /// The memory semaphore lets nobody in beyond its capacity, and knows who is in.
    CapacityKept,
    /// No pool has more connections than its size, and none is free while somebody waits for it.
    PoolKept,
    /// Containers have no more units than their node, and none has less than its floor.
    UnitsKept,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneEnd => "a request ends once, and in order",
            Self::NoneLost => "no request is lost",
            Self::BooksBalance => "the controller's books balance",
            Self::HonestyPays => "no honest client is refused as a cheat",
            Self::WorkConserved => "no core is idle while there is work",
            Self::NoneWithoutCpu => "who gets no CPU does nothing",
            Self::CapacityKept => "the memory semaphore keeps to its capacity",
            Self::PoolKept => "a pool keeps to its size",
            Self::UnitsKept => "containers keep to the units of their node",
        })
    }
}

/// Counts all requests, and knows which rule was broken first.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Requests in each state, by their moves.
    census: [u64; State::COUNT],
    /// Calls that have not ended.
    open: u64,
    violation: Option<Violation>,
}

impl Books {
    /// The first rule that was broken.
    pub(super) fn violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// A client got a request to send.
    pub(super) fn offered(&mut self) {
        self.open += 1;
        self.copied();
    }

    /// It is to send another copy of one.
    pub(super) fn copied(&mut self) {
        self.census[State::Waiting as usize] += 1;
    }

    pub(super) fn moves(&mut self, from: State, to: State) {
        let legal = match to {
            State::Sent => from == State::Waiting,
            State::Admitted => from == State::Sent,
            State::Served | State::Cancelled => from == State::Admitted,
            State::Refused => matches!(from, State::Sent | State::Admitted),
            // At another replica's turn.
            State::Waiting => matches!(from, State::Waiting | State::Refused),
            State::Orphan => false,
        };
        self.demand(legal, Rule::OneEnd, || format!("from {from:?} to {to:?}"));
        self.leaves(from);
        self.census[to as usize] += 1;
    }

    /// A call has ended so, by this copy of it; `open` if it had not before.
    pub(super) fn ended(&mut self, open: bool, state: State, outcome: Outcome) {
        self.closed(open);
        let legal = match outcome {
            Outcome::Success | Outcome::Failed => state == State::Served,
            Outcome::Rejected => state == State::Refused,
            Outcome::DroppedAtClient(_) => state == State::Waiting,
            _ => false,
        };
        self.demand(legal, Rule::OneEnd, || format!("{state:?} ended in {outcome:?}"));
        self.leaves(state);
    }

    /// A call has ended; `open` if it had not before.
    pub(super) fn closed(&mut self, open: bool) {
        let left = self.open.checked_sub(1);
        self.demand(open && left.is_some(), Rule::OneEnd, || "a call has ended twice".into());
        self.open = left.unwrap_or(0);
    }

    /// One copy of a call was not served, and there is another one.
    pub(super) fn failed(&mut self, open: bool, others: u8, state: State) {
        let legal = open && others > 0 && matches!(state, State::Waiting | State::Refused);
        self.demand(legal, Rule::OneEnd, || format!("{state:?} was the last copy of its call"));
        self.leaves(state);
    }

    /// A copy has come to its end after its call: it never left, or its reply has come.
    pub(super) fn surplus(&mut self, open: bool, state: State) {
        use State::{Cancelled, Refused, Served, Waiting};
        let legal = !open && matches!(state, Waiting | Served | Refused | Cancelled);
        self.demand(legal, Rule::OneEnd, || format!("{state:?} was taken for surplus"));
        self.leaves(state);
    }

    /// Its client is gone.
    pub(super) fn orphaned(&mut self, state: State) {
        let legal = !matches!(state, State::Waiting | State::Orphan);
        self.demand(legal, Rule::OneEnd, || format!("{state:?} was orphaned"));
        self.leaves(state);
        self.census[State::Orphan as usize] += 1;
    }

    /// Whoever had an orphan has it no more.
    pub(super) fn forgotten(&mut self, state: State) {
        self.demand(state == State::Orphan, Rule::NoneLost, || format!("{state:?} was forgotten"));
        self.leaves(state);
    }

    /// A server refused a request as beyond its client's window, and all our clients are honest.
    pub(super) fn refused_the_honest(&mut self) {
        self.demand(false, Rule::HonestyPays, || "refused for a window that it kept".into());
    }

    pub(super) fn core_was_idle(&mut self) {
        self.demand(false, Rule::WorkConserved, || "an idle core has done something".into());
    }

    /// A core has begun something; `stalled` if its server gets no CPU.
    pub(super) fn core_begins(&mut self, stalled: bool) {
        self.demand(!stalled, Rule::NoneWithoutCpu, || "a core works without CPU".into());
    }

    /// Counts the calls: those that have not ended have a copy that may still be served, and the
    /// others have none.
    pub(super) fn check_calls(&mut self, calls: &Calls, requests: &Requests) {
        let open = calls.iter().filter(|call| call.is_open).count() as u64;
        let booked = self.open;
        self.demand(open == booked, Rule::NoneLost, || {
            format!("{open} calls are open where {booked} are booked")
        });
        let is_wanted = |copy| {
            let request = &requests[copy];
            !(request.is_surplus || request.state == State::Orphan)
        };
        let wrong = calls.iter().find(|call| call.is_open != call.copies().any(is_wanted));
        self.demand(wrong.is_none(), Rule::NoneLost, || format!("nobody works for {wrong:?}"));
        let copies: usize = calls.iter().map(|call| call.copies().count()).sum();
        let alive = requests.len();
        self.demand(copies as u64 == alive, Rule::NoneLost, || {
            format!("{alive} requests are {copies} copies of calls")
        });
    }

    /// Counts the requests that there are; somebody must have each of them, and `held` are.
    pub(super) fn check_requests(&mut self, requests: &Requests, held: u64) {
        let alive = requests.len();
        self.demand(alive == held, Rule::NoneLost, || format!("{held} of {alive} are somewhere"));
        let (found, booked) = (requests.census(), self.census);
        self.demand(found == booked, Rule::NoneLost, || {
            format!("found {found:?} where {booked:?} are booked")
        });
    }

    /// Looks at a server between two events.
    pub(super) fn check_server(&mut self, now: Instant, server: &Server) {
        let neglects = server.neglects_work(now);
        self.demand(!neglects, Rule::WorkConserved, || "a core is idle while work waits".into());
        let overdue = server.memory.as_ref().is_some_and(|memory| memory.is_overdue(now));
        self.demand(!overdue, Rule::WorkConserved, || "a step should have ended".into());
        if let Err(problem) = server.controller.check() {
            self.demand(false, Rule::BooksBalance, || problem.into());
        }
    }

    /// Looks at a memory semaphore, of which requests hold so many places.
    pub(super) fn check_semaphore(&mut self, semaphore: &Semaphore, held: u32) {
        let holders = semaphore.holders();
        self.demand(holders == held, Rule::CapacityKept, || {
            format!("{held} hold places, and {holders} are booked")
        });
        let neglects = semaphore.neglects_waiters();
        self.demand(!neglects, Rule::CapacityKept, || "a place is free while some wait".into());
    }

    /// A request was let into the memory semaphore, where that many are now.
    pub(super) fn entered_memory(&mut self, holders: u32, capacity: u32) {
        self.demand(holders <= capacity, Rule::CapacityKept, || {
            format!("one is let in as number {holders} of {capacity}")
        });
    }

    fn leaves(&mut self, state: State) {
        let left = self.census[state as usize].checked_sub(1);
        self.demand(left.is_some(), Rule::NoneLost, || format!("{state:?} that nobody entered"));
        self.census[state as usize] = left.unwrap_or(0);
    }

    fn demand(&mut self, holds: bool, rule: Rule, detail: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation { rule, detail: detail() });
        }
    }
}
