//! One run: clients, network and servers, and the events between them.
//!
//! ```text
//!   load ──► client ─ outbox ──► network ──► server: messages ─► run queue ─► cores
//!              ▲                                                                │
//!              └──────────────── network ◄──────────── message of replies ◄─────┘
//! ```
//!
//! The outbox, both halves of the algorithm and the predictor of the run queue are those of
//! `seawall-control`: the same code that a live client and server run.

mod books;
mod call;
mod client;
mod copies;
mod counts;
mod drawing;
mod entry;
mod handler;
mod holds;
mod level;
mod lock;
mod memory;
mod meters;
mod noise;
mod placement;
mod recovery;
mod request;
mod retry;
mod semaphore;
mod server;
mod tracing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seawall_control::client::Report as ClientReport;
use seawall_control::config::ConfigError;
use seawall_control::controller::{Algorithm, Feedback, Init};
pub use seawall_control::retry::Counts as Retries;
use seawall_control::{Instant, Rng};
use seawall_measure::outcome::DropReason;
use seawall_measure::{
    Arrivals, Latencies, Outcome, Recorder, RecorderConfig, Series, SeriesConfig, Window,
};

pub use books::{Rule, Violation};
pub use counts::Counts;
pub use meters::MemoryUse;

use crate::queue::Queue;
use crate::scenario::Scenario;
use books::Books;
use call::{CallId, Calls};
use client::Client;
use placement::Placement;
use recovery::Recovery;
use request::{Chain, RequestId, Requests, State};
use server::Server;
use tracing::Trace;

/// How long, in SLOs, replies are waited for after the last arrival.
const LINGER: u32 = 10;

/// Simulated time between two counts of all books, while there is little to count.
const AUDIT_PERIOD: Duration = Duration::from_millis(1);

/// With so many requests more, counts are that period farther apart: those of a queue that grows
/// without bound would otherwise take longer than all else.
const AUDIT_REQUESTS: u64 = 1_000;

/// Something that happens at a known time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request is due at a client.
    Due { client: u32 },
    /// It is time for a second copy of a call, if that is not answered yet.
    Copy { call: CallId, serial: u32 },
    /// A message reaches a server; the report is of a client that sends no request, and the other
    /// of one that gives a request up.
    ToServer { link: Link, requests: Chain, report: Option<ClientReport>, cancel: Option<Cancel> },
    /// A core has done what it worked on.
    CoreDone { server: u16, core: u16 },
    /// A handler has waited for what it waits for.
    Awake { server: u16, request: RequestId },
    /// The next step that draws from a memory has ended, if nothing has changed since the memory
    /// was at this epoch.
    Memory { server: u16, epoch: u32 },
    /// A step that draws from the memory has run for a quantum, if it is still there.
    Quantum { server: u16, core: u16, turn: u32 },
    /// The meters of a server are read.
    Meters { server: u16 },
    /// A message reaches a client; `pushed` if it has no reply.
    ToClient { link: Link, replies: Chain, feedback: Feedback },
    /// An outbox wants to be looked at.
    ClientTimer { link: Link },
    /// A server's controller wants to be looked at.
    ServerTimer { server: u16 },
    /// Clients leave, as the scenario's crash of this number says.
    Crash { index: u16 },
    /// One of them is back.
    Return { client: u32 },
    /// Others take the CPU from a server.
    Noise { source: u16 },
    /// They leave it, unless more of them have come.
    Resume { server: u16 },
    /// Some work of a server's own needs a lock.
    HoldDue { holder: u16 },
    /// It is done, unless it was delayed.
    HoldDone { holder: u16 },
    /// All books are counted.
    Audit,
}

/// A request that its client gives up, as it tells the server.
#[derive(Clone, Copy, Debug)]
struct Cancel {
    request: RequestId,
    serial: u32,
}

/// One connection, and which one of those that its client had to that server one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    client: u32,
    server: u16,
    generation: u16,
}

/// One run of a scenario.
pub struct World<'a> {
    scenario: &'a Scenario,
    algorithm: Arc<dyn Algorithm>,
    init: Init,
    /// Within how long each server has to answer.
    target_delay: Duration,
    now: Instant,
    /// The measured part; no request is due after it.
    window: Window,
    events: Queue<Event>,
    arrivals: Arrivals,
    /// What the next arrivals are, apart from when: the same for every algorithm.
    nature: Rng,
    network: Rng,
    /// Seeds for what chooses among replicas.
    selection: Rng,
    placement: Placement,
    classes: request::Mix,
    calls: Calls,
    requests: Requests,
    /// Calls and copies of them so far.
    serial: u32,
    clients: Vec<Client>,
    servers: Vec<Server>,
    noises: Vec<noise::Source<'a>>,
    holders: Vec<holds::Holder<'a>>,
    /// Requests in messages that the network has.
    on_the_way: u64,
    books: Books,
    recorder: Recorder,
    first_failures: Latencies,
    series: Option<Series>,
    recovery: Recovery,
    trace: Trace<'a>,
    fault: Option<Fault>,
}

/// A bug that tests put in, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A message of replies vanishes.
    LosesReplies,
    /// A request is answered although it was already.
    AnswersTwice,
    /// Who got the first reply to one of two copies waits for the other one, too.
    CountsCopies,
    /// A second copy is not given up when the first one is served.
    ForgetsCopies,
    /// The server takes windows as acknowledged that no client was told.
    ForgetsWindows,
    /// A core that has written something is not used again.
    ForgetsCores,
    /// A server that gets no CPU works.
    IgnoresNoise,
    /// A place of the memory semaphore is not given back.
    KeepsPlaces,
    /// The memory semaphore lets in one more than it may.
    OverbooksMemory,
    /// The next end of a step that draws from the memory is not waited for.
    ForgetsMemory,
    /// After the first overload, everything is refused.
    NeverRecovers,
}

/// What one run amounted to.
#[derive(Debug)]
pub struct Report {
    /// Counts and latencies.
    pub recorder: Recorder,
    /// How long requests took to fail at the first replica that they were for: until they were
    /// refused, or given up.
    pub first_failures: Latencies,
    /// The run over time, if the scenario asks for it.
    pub series: Option<Series>,
    /// What the servers did in the measured time.
    pub counts: Counts,
    /// What they used of their memories, and of power.
    pub memory: MemoryUse,
    /// What the clients sent again, over the whole run.
    pub retries: Retries,
    /// Whether goodput came back after the last overload; `None` when there was none, or no time
    /// to tell.
    pub recovered: Option<bool>,
    /// Events that happened.
    pub events: u64,
}

impl<'a> World<'a> {
    /// The world of `scenario`; equal seeds make equal runs.
    ///
    /// # Errors
    ///
    /// Names the first field of the scenario that is out of range, and what is allowed.
    pub fn new(scenario: &'a Scenario, seed: u64) -> Result<Self, ConfigError> {
        scenario.validate()?;
        let start = Instant::ORIGIN;
        let mut seeds = Rng::new(seed);
        let window = scenario.window();
        let slo = scenario.slo();
        let mut init = Init::new(start, seeds.next_u64());
        (init.cores, init.slo, init.rtt) = (scenario.server.cores, slo, scenario.network.rtt());
        let algorithm = scenario.admission.build_with(seawall_measure::utility::read)?;
        let classes = request::Mix::new(&scenario.workload);
        let recorder = RecorderConfig::new(slo, window).with_classes(classes.names());
        let arrivals =
            Arrivals::new(scenario.workload.arrivals, scenario.rates()?, start, seeds.next_u64())
                .over_sessions(scenario.workload.clients);
        let series = scenario.run.bin.map(|bin| {
            let config = SeriesConfig { bin, ..SeriesConfig::new(start, window.end, slo) };
            Series::new(config).expect("the scenario's bins were checked")
        });
        let mut world = Self {
            scenario,
            algorithm,
            init,
            target_delay: scenario.target_delay(),
            now: start,
            window,
            events: Queue::new(),
            arrivals,
            nature: seeds.fork(),
            network: seeds.fork(),
            selection: seeds.fork(),
            placement: Placement::new(scenario),
            calls: Calls::default(),
            requests: Requests::default(),
            serial: 0,
            books: Books::default(),
            recorder: Recorder::new(recorder).expect("the scenario was checked"),
            first_failures: Latencies::new(),
            series,
            recovery: Recovery::new(scenario),
            trace: Trace::default(),
            fault: None,
            servers: Vec::new(),
            noises: Vec::new(),
            holders: Vec::new(),
            on_the_way: 0,
            clients: Vec::new(),
            classes,
        };
        world.populate(&mut seeds);
        world.noises = noise::sources(scenario, &mut seeds);
        world.holders = holds::holders(scenario, |name| world.classes.lock(name), &mut seeds);
        world.schedule_noises();
        world.schedule_holds();
        Ok(world)
    }

    /// Writes a line about each event to `out`.
    #[must_use]
    pub fn traced(mut self, out: &'a mut dyn io::Write) -> Self {
        self.trace = Trace::to(out);
        self
    }

    fn populate(&mut self, seeds: &mut Rng) {
        for (index, &speed) in self.scenario.server.speeds.iter().enumerate() {
            let init = Init { seed: seeds.next_u64(), slo: self.target_delay, ..self.init };
            let (index, classes) = (index as u16, &self.classes);
            let server = Server::new(index, self.scenario, speed, classes, &self.algorithm, init);
            if let Some(meters) = &server.meters {
                let first = Instant::ORIGIN + meters.interval;
                self.events.push(first, Event::Meters { server: index });
            }
            self.servers.push(server);
        }
        for client in 0..self.scenario.workload.clients {
            let retry = &self.scenario.admission.client.retry;
            let away = Client::new(client, seeds.next_u64(), self.servers.len(), retry);
            self.clients.push(away);
            self.connect(client);
        }
        for (index, crash) in self.scenario.workload.crashes.iter().enumerate() {
            self.events.push(Instant::ORIGIN + crash.at, Event::Crash { index: index as u16 });
        }
        self.events.push(Instant::ORIGIN + AUDIT_PERIOD, Event::Audit);
        self.schedule_arrival();
    }

    /// Runs to the end.
    ///
    /// # Errors
    ///
    /// The first rule that was broken: a bug, in an algorithm or in the simulator.
    pub fn run(mut self) -> Result<Report, Violation> {
        let last = self.window.end + self.init.slo * LINGER;
        while let Some((at, event)) = self.events.pop()
            && at <= last
        {
            debug_assert!(at >= self.now, "time runs backwards");
            self.now = at;
            self.trace.event(at, &event);
            self.handle(event);
            if let Some(violation) = self.books.violation() {
                return Err(violation);
            }
        }
        self.audit();
        self.forsake_the_rest();
        match self.books.violation() {
            Some(violation) => Err(violation),
            None => Ok(self.report()),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Due { client } => {
                self.schedule_arrival();
                self.offer(client);
            }
            Event::Copy { call, serial } => self.copy(call, serial),
            Event::ToServer { link, requests, report, cancel } => {
                self.receive(link, requests, report, cancel);
            }
            Event::CoreDone { server, core } => self.core_done(server, core),
            Event::Awake { server, request } => self.awake(server, request),
            Event::Memory { server, epoch } => self.memory_event(server, epoch),
            Event::Quantum { server, core, turn } => self.quantum(server, core, turn),
            Event::Meters { server } => self.read_meters(server),
            Event::ToClient { link, replies, feedback } => self.answer(link, replies, feedback),
            Event::ClientTimer { link } => self.client_timer(link),
            Event::ServerTimer { server } => self.server_timer(server),
            Event::Crash { index } => self.crash(index),
            Event::Return { client } => self.connect(client),
            Event::Noise { source } => self.noise(source),
            Event::Resume { server } => self.resume(server),
            Event::HoldDue { holder } => self.hold_due(holder),
            Event::HoldDone { holder } => self.hold_done(holder),
            Event::Audit => {
                self.audit();
                if self.now < self.window.end {
                    let periods = 1 + self.requests.len() / AUDIT_REQUESTS;
                    self.events.push(self.now + AUDIT_PERIOD * periods as u32, Event::Audit);
                }
            }
        }
    }

    /// Whether this bug was put in.
    fn has(&self, fault: Fault) -> bool {
        cfg!(test) && self.fault == Some(fault)
    }

    fn schedule_arrival(&mut self) {
        if let Some(next) = self.arrivals.next()
            && next.at < self.window.end
        {
            self.events.push(next.at, Event::Due { client: next.session });
        }
    }

    /// A call has come to its end, whatever it is, by this copy of it.
    fn end(&mut self, id: RequestId, outcome: Outcome) {
        let request = self.requests.remove(id);
        let call = &mut self.calls[request.call];
        let was_open = std::mem::replace(&mut call.is_open, false);
        self.books.ended(was_open, request.state, outcome);
        self.calls.remove_copy(request.call, id);
        self.tell(request.class, request.scheduled, outcome);
    }

    /// Those of these requests that ended when their client did are forgotten for good.
    fn forget(&mut self, mut requests: Chain) {
        while let Some(id) = self.requests.take_first(&mut requests) {
            self.forget_one(id);
        }
    }

    fn forget_one(&mut self, id: RequestId) {
        let request = self.requests.remove(id);
        self.books.forgotten(request.state);
        self.calls.remove_copy(request.call, id);
    }

    /// Counts how a request ended.
    fn tell(&mut self, class: u8, scheduled: Instant, outcome: Outcome) {
        self.recorder.record(usize::from(class), scheduled, self.now, outcome);
        self.recovery.record(scheduled, self.now, outcome);
        if let Some(series) = &mut self.series {
            series.record(scheduled, self.now, outcome);
        }
    }

    fn set_state(&mut self, id: RequestId, state: State) {
        let request = &mut self.requests[id];
        self.books.moves(request.state, state);
        request.state = state;
    }

    /// The delay of one message.
    fn network_delay(&mut self) -> Duration {
        self.scenario.network.delay.sample(&mut self.network)
    }

    fn audit(&mut self) {
        for server in &self.servers {
            self.books.check_server(self.now, server);
        }
        if self.servers.iter().any(|server| server.semaphore.is_some()) {
            let held = self.requests.drawing(self.servers.len());
            for (server, held) in self.servers.iter().zip(held) {
                if let Some(semaphore) = &server.semaphore {
                    self.books.check_semaphore(semaphore, held);
                }
            }
        }
        let at_clients: u64 = self.clients.iter().map(Client::holds).sum();
        let at_servers: u64 = self.servers.iter().map(Server::holds).sum();
        self.books.check_requests(&self.requests, at_clients + self.on_the_way + at_servers);
        self.books.check_calls(&self.calls, &self.requests);
    }

    /// Calls that nothing has come back for.
    fn forsake_the_rest(&mut self) {
        let (calls, requests) = (std::mem::take(&mut self.calls), &self.requests);
        let is_sent = |copy| requests[copy].state != State::Waiting;
        let rest = calls.iter().filter(|call| call.is_open);
        let rest: Vec<(u8, Instant, bool)> =
            rest.map(|call| (call.class, call.scheduled, call.copies().any(is_sent))).collect();
        for (class, scheduled, sent) in rest {
            let dropped = Outcome::DroppedAtClient(DropReason::Expired);
            self.tell(class, scheduled, if sent { Outcome::Unanswered } else { dropped });
        }
    }

    fn report(self) -> Report {
        let mut counts = Counts::default();
        self.servers.iter().for_each(|server| counts.add(server.counts()));
        let retries = self.clients.iter().map(|client| client.policy.counts()).sum();
        let memory = self.memory_use();
        Report {
            recorder: self.recorder,
            first_failures: self.first_failures,
            series: self.series,
            counts,
            memory,
            retries,
            recovered: self.recovery.verdict(),
            events: self.events.scheduled(),
        }
    }
}

#[cfg(test)]
mod tests;
