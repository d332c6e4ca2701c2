//! What must hold in every run of a graph: the checkers.

use std::time::Duration;

use crate::world::{Rule, Violation};

use super::World;

/// How far the work that was done may be from what was asked, in nanoseconds for each time that
/// some was asked: ends are announced in whole nanoseconds, and a thread at twice the base
/// frequency does two of work in one.
const ROUNDING_NS: f64 = 4.0;

/// Counts jobs and work, and knows which rule was broken first.
#[derive(Debug, Default)]
pub(super) struct Books {
    begun: u64,
    ended: u64,
    asked: u64,
    asked_ns: f64,
    forgotten: u64,
    violation: Option<Violation>,
}

impl Books {
    pub(super) fn begun(&mut self) {
        self.begun += 1;
    }

    pub(super) fn ended(&mut self) {
        self.ended += 1;
    }

    /// A thread asked for work.
    pub(super) fn asked(&mut self, work: Duration) {
        self.asked += 1;
        self.asked_ns += work.as_nanos() as f64;
    }

    /// For the bug of that name: the hundredth end of work is forgotten.
    pub(super) fn forgets_now(&mut self) -> bool {
        self.forgotten += 1;
        self.forgotten > 100
    }

    /// The first rule that was broken, if any was.
    pub(super) fn first(&mut self) -> Result<(), Violation> {
        self.violation.take().map_or(Ok(()), Err)
    }

    pub(super) fn demand(&mut self, holds: bool, rule: Rule, detail: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(Violation { rule, detail: detail() });
        }
    }
}

impl World<'_> {
    /// Counts everything.
    pub(super) fn audit(&mut self) {
        self.machine.advance_all(self.now);
        self.audit_requests();
        self.audit_pools();
        for node in 0..self.nodes.len() as u16 {
            self.check_units(node);
        }
        self.audit_work();
    }

    /// A node never gives more units than it has.
    pub(super) fn check_units(&mut self, node: u16) {
        let (given, all) = (self.machine.units_of(node), self.config.node_units);
        let detail = || format!("node {node} gives {given} of {all}");
        self.books.demand(given <= all, Rule::UnitsKept, detail);
        let bare = self.machine.containers.iter().find(|container| container.cpu.units() == 0);
        let bare = bare.map(|container| container.name.clone());
        let detail = || format!("{} has none", bare.clone().unwrap_or_default());
        self.books.demand(bare.is_none(), Rule::UnitsKept, detail);
    }

    /// Every job is somewhere: each thread works, waits for a connection, for a reply, or for
    /// threads of its own.
    fn audit_requests(&mut self) {
        let open = self.books.begun - self.books.ended;
        let jobs = self.requests.jobs.len() as u64;
        let detail = || format!("{open} jobs have begun and not ended, there are {jobs}");
        self.books.demand(open == jobs, Rule::NoneLost, detail);
        let working: usize = self.machine.containers.iter().map(|c| c.cpu.runnable()).sum();
        let starved: usize = self.machine.pools.iter().map(super::pool::Pool::waiting).sum();
        let forked = self.requests.threads.iter().filter(|(_, thread)| thread.branches > 0).count();
        let asking = self.requests.threads.iter().filter(|(_, thread)| thread.asks.is_some());
        let asking = asking.count() - starved;
        let threads = self.requests.threads.len();
        let detail = || {
            format!(
                "of {threads} threads {working} work, {starved} wait for a connection, \
                     {asking} for a reply, {forked} for others"
            )
        };
        let all = working + starved + asking + forked;
        self.books.demand(all == threads, Rule::NoneLost, detail);
        // Who waits for a reply is waited for: by a visit, or by a message.
        let visits = self.requests.visits.len();
        let waited_for = visits as u64 + self.on_the_way;
        let waiting = asking as u64 + jobs;
        let detail = || format!("{waiting} wait for replies, and {waited_for} are to come");
        self.books.demand(waiting == waited_for, Rule::NoneLost, detail);
    }

    fn audit_pools(&mut self) {
        let mut used = vec![0_u32; self.machine.pools.len()];
        for (_, thread) in &self.requests.threads {
            if let Some((_, Some(pool))) = thread.asks {
                used[usize::from(pool)] += 1;
            }
        }
        for (index, pool) in self.machine.pools.iter().enumerate() {
            let (held, waiting, size) = (used[index], pool.waiting() as u32, pool.size);
            let holds = held - waiting == pool.used
                && pool.used <= size
                && (waiting == 0 || pool.used == size);
            let used = pool.used;
            let detail =
                || format!("{used} of {size} connections are in use, {waiting} wait, {held} asked");
            self.books.demand(holds, Rule::PoolKept, detail);
        }
    }

    /// What was asked for was done, or is left: no unit is idle while a thread could use it.
    fn audit_work(&mut self) {
        let cpus = || self.machine.containers.iter().map(|container| &container.cpu);
        let done: f64 = cpus().map(|cpu| cpu.used().done).sum();
        let left: f64 = cpus().map(super::container::Cpu::left).sum();
        let asked = self.books.asked_ns;
        let is_near = (done + left - asked).abs() <= ROUNDING_NS * self.books.asked as f64;
        let detail = || format!("{asked:.0} ns were asked, {done:.0} done, {left:.0} are left");
        self.books.demand(is_near, Rule::WorkConserved, detail);
    }
}
