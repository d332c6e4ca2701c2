//! Graphs of microservices whose containers share the CPUs of nodes, and who moves those CPUs.
//!
//! ```text
//!   load ──► service ──pool──► service ──► …     each a container: threads share its units
//!               │                 │
//!               └── counters ─────┴──► Scaler of the node, once in an interval
//!                                        units, frequency, hints ──► containers
//! ```
//!
//! The scaler is that of `seawall-control`, the very code that a node's agent runs; the counters
//! that it is shown are exact.

mod books;
mod config;
mod container;
mod ideal;
mod job;
mod machine;
mod meters;
mod node;
mod outcome;
mod pool;
mod profile;
mod program;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use seawall_control::config::ConfigError;
use seawall_control::{Instant, Rng};
use seawall_measure::{Arrivals, Window};

pub use config::{Config, Frequency, Ideal, Responder, Slowdown, Source};
pub(crate) use outcome::{METRICS, SAMPLE_METRICS, SERVICE_METRICS};
pub use outcome::{Outcome, Sample, Served};
pub use profile::Profile;

use crate::outcome::Run;
use crate::plan::Params;
use crate::queue::Queue;
use crate::scenario::Scenario;
use crate::world::Violation;
use books::Books;
use machine::Machine;
use meters::Meters;
use node::Node;
use request::{Requests, ThreadId};

/// How long after the last arrival jobs are waited for, in times of the run.
const LINGER: u32 = 1;

/// Simulated time between two counts of all books.
const AUDIT_PERIOD: Duration = Duration::from_millis(100);

/// Something that happens at a known time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A job is due at a client.
    Due,
    /// A request reaches a service.
    Arrive(Message),
    /// A thread of this container has done its work, unless something changed since.
    Cpu { container: u16, epoch: u32 },
    /// A reply reaches the thread that waits for it.
    Reply { thread: ThreadId },
    /// A job's reply reaches its client.
    Answer { job: u32 },
    /// A node's scaler looks at its containers.
    Decide { node: u16 },
    /// What it decided is carried out.
    Apply { node: u16 },
    /// FirstResponder has raised the frequency of what a late request comes to.
    Boost { container: u16 },
    /// That ends by itself.
    BoostEnds { container: u16 },
    /// A surge of the load begins, or ends.
    Surge { on: bool },
    /// The ideal controller sees that a surge began, or ended.
    Ideal { surge: bool },
    /// The containers get what they had at first.
    Reset,
    /// The measured time begins.
    Begin,
    /// The measured time ends.
    End,
    /// A bin of the time series is over.
    Sample,
    /// All books are counted.
    Audit,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    service: u16,
    job: u32,
    caller: Option<ThreadId>,
    hint: u16,
    upstream_ns: u64,
    seed: u64,
}

/// One run of a scenario that has a graph.
pub struct World<'a> {
    scenario: &'a Scenario,
    config: &'a Config,
    now: Instant,
    window: Window,
    events: Queue<Event>,
    arrivals: Arrivals,
    nature: Rng,
    machine: Machine,
    nodes: Vec<Node>,
    requests: Requests,
    /// Requests and replies that the network has.
    on_the_way: u64,
    meters: Meters,
    books: Books,
    trace: Option<&'a mut dyn io::Write>,
    fault: Option<Fault>,
}

/// A bug that tests put in, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A reply vanishes.
    LosesReplies,
    /// A connection is given to two.
    OverfillsPools,
    /// A container gets a unit that the node does not have.
    OverbooksNodes,
    /// The next end of work is not waited for.
    ForgetsWork,
}

impl<'a> World<'a> {
    /// The world of `scenario`; equal seeds make equal runs.
    ///
    /// # Errors
    ///
    /// Names the first field of the scenario that is out of range, and what is allowed.
    pub fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, ConfigError> {
        let profile = Profile::of(scenario)?;
        Self::with_profile(scenario, seed, &profile)
    }

    /// The same, where the low load is known already.
    fn with_profile(
        scenario: &'a Scenario,
        seed: u64,
        profile: &Profile,
    ) -> Result<Self, ConfigError> {
        let config = scenario.graph.as_ref().expect("a scenario with a graph");
        let mut seeds = Rng::new(seed);
        let start = Instant::ORIGIN;
        let window = scenario.window();
        let slo = scenario.slo.unwrap_or(profile.latency * 2);
        let machine = Machine::new(config, profile)?;
        let workload = &scenario.workload;
        let arrivals = Arrivals::new(workload.arrivals, scenario.rates()?, start, seeds.next_u64());
        let mut world = Self {
            scenario,
            config,
            now: start,
            window,
            events: Queue::new(),
            arrivals,
            nature: seeds.fork(),
            nodes: node::nodes(scenario, &machine, &mut seeds)?,
            requests: Requests::default(),
            on_the_way: 0,
            meters: Meters::new(scenario, slo, profile.latency),
            books: Books::default(),
            trace: None,
            fault: None,
            machine,
        };
        world.schedule();
        Ok(world)
    }

    /// Writes a line about each event to `out`.
    #[must_use]
    pub fn traced(mut self, out: &'a mut dyn io::Write) -> Self {
        self.trace = Some(out);
        self
    }

    /// Runs to the end.
    ///
    /// # Errors
    ///
    /// The first rule that was broken: a bug, in a policy or in the simulator.
    pub fn run(mut self, params: Params, seed: u64) -> Result<Run, Violation> {
        self.live(self.window.end + self.scenario.run.length() * LINGER)?;
        Ok(outcome::run(self, params, seed))
    }

    /// Lets everything happen up to `last`, or until all jobs are done.
    fn live(&mut self, last: Instant) -> Result<(), Violation> {
        while let Some((at, event)) = self.events.pop()
            && at <= last
            && !(self.requests.jobs.is_empty() && at > self.window.end)
        {
            self.now = at;
            if let Some(out) = &mut self.trace {
                // Nobody may read it any more.
                _ = writeln!(out, "{} {event:?}", at.as_nanos());
            }
            self.handle(event);
            self.machine.announce(&mut self.events);
            self.books.first()?;
        }
        self.audit();
        self.books.first()
    }

    fn schedule(&mut self) {
        let start = Instant::ORIGIN;
        // What containers had before is not measured.
        if self.config.reset {
            self.events.push(self.window.start, Event::Reset);
        }
        self.events.push(self.window.start, Event::Begin);
        self.events.push(self.window.end, Event::End);
        if let Some(bin) = self.scenario.run.bin {
            self.events.push(start + bin, Event::Sample);
        }
        for (index, node) in (0..).zip(&self.nodes) {
            if let Some(interval) = node.interval() {
                self.events.push(start + interval, Event::Decide { node: index });
            }
        }
        self.schedule_surges();
        self.events.push(start + AUDIT_PERIOD, Event::Audit);
        self.schedule_arrival();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Due => self.due(),
            Event::Arrive(message) => self.arrive(message),
            Event::Cpu { container, epoch } => self.work_ends(container, epoch),
            Event::Reply { thread } => self.replied(thread),
            Event::Answer { job } => self.answer(job),
            Event::Decide { node } => self.decide(node),
            Event::Apply { node } => self.apply(node),
            Event::Boost { container } => self.boost(container),
            Event::BoostEnds { container } => self.machine.end_boost(container, self.now),
            Event::Surge { on } => {
                self.machine.advance_all(self.now);
                self.meters.surge(self.now, on, &self.machine);
            }
            Event::Ideal { surge } => self.ideal(surge),
            Event::Reset => self.reset(),
            Event::Begin => {
                self.machine.advance_all(self.now);
                self.meters.begin(&self.machine);
            }
            Event::End => {
                self.machine.advance_all(self.now);
                self.meters.end(&self.machine);
            }
            Event::Sample => self.sample(),
            Event::Audit => {
                self.audit();
                self.events.push(self.now + AUDIT_PERIOD, Event::Audit);
            }
        }
    }

    fn schedule_arrival(&mut self) {
        if let Some(next) = self.arrivals.next()
            && next.at < self.window.end
        {
            self.events.push(next.at, Event::Due);
        }
    }

    fn sample(&mut self) {
        self.meters.sample(self.now, &self.machine);
        if let Some(bin) = self.scenario.run.bin
            && self.now < self.window.end
        {
            self.events.push(self.now + bin, Event::Sample);
        }
    }

    /// Whether this bug was put in.
    fn has(&self, fault: Fault) -> bool {
        cfg!(test) && self.fault == Some(fault)
    }
}
