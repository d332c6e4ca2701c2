//! A chain of services with bounded connection pools, in virtual time.
//!
//! ```text
//!   arrivals ─► service 0 ─pool─► service 1 ─pool─► … ─► service n
//!                 queue, slots
//! ```
//!
//! A request waits for a slot of its service, works in it, then waits for a connection to the next
//! service and keeps that until the reply. A unit is a slot.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use seawall_control::scaling::{
    Change, Config, Container, ContainerId, Counters, Expected, Node, Outcome, Report, Scaler,
    Snapshot, hint,
};
use seawall_control::{Instant, Rng};

const MS: u64 = 1_000_000;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Slots of each service at the start, which are their floors.
    pub(crate) slots: Vec<u32>,
    /// Slots that nobody has at the start.
    pub(crate) spare: u32,
    /// Connections from each service to the next; the last counts for those behind.
    pub(crate) pools: Vec<usize>,
    /// Whether services report requests that wait, not only those that have waited.
    pub(crate) tells_waits: bool,
    /// Mean work of a request at each service, ms; exponential.
    pub(crate) work_ms: f64,
    /// Requests per second, and in the surge.
    pub(crate) rates: (f64, f64),
    /// From and to, ms.
    pub(crate) surge_ms: (u64, u64),
    pub(crate) end_ms: u64,
    pub(crate) seed: u64,
}

impl Default for Plan {
    /// Five services of 5 ms; 400 requests per second, and 700 for two seconds.
    fn default() -> Self {
        Self {
            slots: vec![6, 3, 3, 3, 3],
            spare: 8,
            pools: vec![12],
            tells_waits: true,
            work_ms: 5.0,
            rates: (400.0, 700.0),
            surge_ms: (3_000, 5_000),
            end_ms: 10_000,
            seed: 1,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Mean excess over twice the latency at low load, ms per request.
    pub(crate) violation_ms: f64,
    /// Slots that services had, on average.
    pub(crate) slots_mean: f64,
    /// The most slots that each had.
    pub(crate) slots_max: Vec<u32>,
    /// In the second half of the surge: mean execution with and without waits for connections, ms.
    pub(crate) exec_ms: Vec<(f64, f64)>,
    /// Containers in the order in which they first became candidates.
    pub(crate) candidates: Vec<u64>,
    /// Everything that was decided.
    pub(crate) decisions: Vec<String>,
    /// Slots at the end.
    pub(crate) slots_end: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    WorkDone { service: usize, request: usize },
    Decide,
}

#[derive(Clone, Debug, Default)]
struct Request {
    start: u64,
    hops: Vec<Hop>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    arrived: u64,
    worked: u64,
    connected: u64,
    hint: u16,
}

#[derive(Debug, Default)]
struct Service {
    busy: u32,
    queue: VecDeque<usize>,
    connections: usize,
    waiting: VecDeque<usize>,
    counters: Counters,
    middle: Counters,
}

struct Chain<'a> {
    plan: &'a Plan,
    now: u64,
    sequence: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    requests: Vec<Request>,
    services: Vec<Service>,
    snapshot: Snapshot,
    arrivals: Rng,
    work: Rng,
    latencies: Vec<u64>,
}

/// Runs the plan under a policy.
pub(crate) fn run(plan: &Plan, config: &Config) -> Run {
    let mut scaler = config.build(plan.seed).expect("valid");
    let mut chain = Chain::new(plan);
    let mut run = Run { slots_max: plan.slots.clone(), ..Run::default() };
    let mut slot_time = 0.0;
    chain.at(0, Event::Arrival);
    chain.at(0, Event::Decide);
    let middle = (plan.surge_ms.0 + plan.surge_ms.1) / 2 * MS;
    while let Some(Reverse((at, _, event))) = chain.events.pop() {
        if at > plan.end_ms * MS {
            break;
        }
        let slots: u32 = chain.snapshot.containers.iter().map(|it| it.units).sum();
        slot_time += f64::from(slots) * (at - chain.now) as f64;
        if chain.now < middle && at >= middle {
            chain.services.iter_mut().for_each(|service| service.middle = service.counters);
        }
        if chain.now < plan.surge_ms.1 * MS && at >= plan.surge_ms.1 * MS {
            run.exec_ms = chain.services.iter().map(exec_since_middle).collect();
        }
        chain.now = at;
        match event {
            Event::Arrival => chain.on_arrival(),
            Event::WorkDone { service, request } => chain.on_work_done(service, request),
            Event::Decide => chain.on_decide(&mut scaler, &mut run),
        }
    }
    run.slots_mean = slot_time / (plan.end_ms * MS) as f64;
    // Twice the mean of the whole chain at low load.
    let target = 2.0 * plan.work_ms * plan.slots.len() as f64;
    let excess = |latency: &u64| (*latency as f64 / MS as f64 - target).max(0.0);
    run.violation_ms =
        chain.latencies.iter().map(excess).sum::<f64>() / chain.latencies.len() as f64;
    run.slots_end = chain.snapshot.containers.iter().map(|it| it.units).collect();
    run
}

fn exec_since_middle(service: &Service) -> (f64, f64) {
    let (before, after) = (&service.middle, &service.counters);
    let requests = (after.requests - before.requests).max(1) as f64 * MS as f64;
    let exec = (after.exec_ns - before.exec_ns) as f64 / requests;
    let wait = (after.pool_wait_ns - before.pool_wait_ns) as f64 / requests;
    (exec, exec - wait)
}

impl<'a> Chain<'a> {
    fn new(plan: &'a Plan) -> Self {
        let expected = Duration::from_nanos((2.0 * 1.08 * plan.work_ms * MS as f64) as u64);
        let container = |(at, slots): (usize, &u32)| Container {
            id: ContainerId(at as u64),
            units: *slots,
            floor: *slots,
            limit: 100,
            level: 0,
            hint: 0,
            depth: at as u16,
            cpu_time: None,
            expected: Expected { exec: Some(expected), time_from_start: None },
            report: Report::None,
        };
        let units = plan.slots.iter().sum::<u32>() + plan.spare;
        let containers = plan.slots.iter().enumerate().map(container).collect();
        let node = Node { units, ..Node::default() };
        let last = plan.pools.last().expect("a pool");
        let pool = |at| *plan.pools.get(at).unwrap_or(last);
        let service = |at| Service { connections: pool(at), ..Service::default() };
        let mut seeds = Rng::new(plan.seed);
        Self {
            plan,
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            requests: Vec::new(),
            services: (0..plan.slots.len()).map(service).collect(),
            snapshot: Snapshot { node, containers },
            arrivals: seeds.fork(),
            work: seeds.fork(),
            latencies: Vec::new(),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    fn on_arrival(&mut self) {
        let (from, to) = self.plan.surge_ms;
        let is_surge = (from * MS..to * MS).contains(&self.now);
        let rate = if is_surge { self.plan.rates.1 } else { self.plan.rates.0 };
        let gap = (self.arrivals.exponential() * 1e9 / rate) as u64;
        self.at(self.now + gap, Event::Arrival);
        self.requests.push(Request { start: self.now, hops: Vec::new() });
        self.enter(0, self.requests.len() - 1, 0);
    }

    fn enter(&mut self, service: usize, request: usize, hint: u16) {
        let hop = Hop { arrived: self.now, hint, ..Hop::default() };
        self.requests[request].hops.push(hop);
        self.services[service].counters.in_flight += 1;
        self.services[service].queue.push_back(request);
        self.work(service);
    }

    /// Gives slots to those that wait for one.
    fn work(&mut self, service: usize) {
        let slots = self.snapshot.containers[service].units;
        while self.services[service].busy < slots {
            let Some(request) = self.services[service].queue.pop_front() else { return };
            self.services[service].busy += 1;
            let work = (self.work.exponential() * self.plan.work_ms * MS as f64) as u64;
            self.at(self.now + work, Event::WorkDone { service, request });
        }
    }

    fn on_work_done(&mut self, service: usize, request: usize) {
        self.services[service].busy -= 1;
        self.requests[request].hops[service].worked = self.now;
        self.work(service);
        if service + 1 == self.services.len() {
            self.requests[request].hops[service].connected = self.now;
            self.reply(service, request);
        } else {
            self.services[service].waiting.push_back(request);
            self.connect(service);
        }
    }

    /// Gives connections to the next service to those that wait for one.
    fn connect(&mut self, service: usize) {
        while self.services[service].connections > 0 {
            let Some(request) = self.services[service].waiting.pop_front() else { return };
            self.services[service].connections -= 1;
            let hop = &mut self.requests[request].hops[service];
            hop.connected = self.now;
            let own = self.snapshot.containers[service].hint;
            let hops = hint::forwarded(hop.hint, own);
            self.enter(service + 1, request, hops);
        }
    }

    /// The request is answered at `service`, and so at all before it.
    fn reply(&mut self, service: usize, request: usize) {
        for service in (0..=service).rev() {
            let Request { start, hops } = &self.requests[request];
            let (hop, start) = (hops[service], *start);
            let exec = |hop: &Hop| hop.connected - hop.arrived;
            let upstream: u64 = hops[..service].iter().map(exec).sum();
            let counters = &mut self.services[service].counters;
            counters.in_flight -= 1;
            counters.requests += 1;
            counters.exec_ns += exec(&hop);
            counters.pool_wait_ns += hop.connected - hop.worked;
            counters.started += 1;
            counters.time_from_start_ns += hop.arrived - start;
            counters.upstream_exec_ns += upstream;
            counters.hinted += u64::from(hop.hint > 0);
            if service > 0 {
                self.services[service - 1].connections += 1;
                self.connect(service - 1);
            }
        }
        self.latencies.push(self.now - self.requests[request].start);
        self.requests[request].hops = Vec::new();
    }

    fn on_decide(&mut self, scaler: &mut Scaler, run: &mut Run) {
        for (at, service) in self.services.iter().enumerate() {
            let mut counters = service.counters;
            if self.plan.tells_waits {
                let waited = |request: &usize| self.now - self.requests[*request].hops[at].worked;
                counters.waiting = service.waiting.len() as u64;
                counters.waiting_ns = service.waiting.iter().map(waited).sum();
            }
            self.snapshot.containers[at].report = Report::Counters(counters);
        }
        let outcome = scaler.on_snapshot(Instant::from_nanos(self.now), &self.snapshot);
        for candidate in &outcome.candidates {
            if !run.candidates.contains(&candidate.container.0) {
                run.candidates.push(candidate.container.0);
            }
        }
        self.carry_out(&outcome, run);
        self.at(self.now + scaler.interval().as_nanos() as u64, Event::Decide);
    }

    fn carry_out(&mut self, outcome: &Outcome, run: &mut Run) {
        for decision in &outcome.decisions {
            let at = decision.container.0 as usize;
            let container = &mut self.snapshot.containers[at];
            match decision.change {
                Change::Units { to, .. } => container.units = to,
                Change::Level { to, .. } => container.level = to,
                Change::Hint { to, .. } => container.hint = to,
            }
            run.slots_max[at] = run.slots_max[at].max(container.units);
            let ms = self.now / MS;
            run.decisions.push(format!("{ms} {at} {} ({})", decision.change, decision.reason));
            self.work(at);
        }
    }
}
