//! A service behind a gate, and what comes to it: a seeded loop over events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use seawall_control::classes::{Classes, Key, Request};
use seawall_control::controller::Init;
use seawall_control::gate::{self, Answer, End, Gate, Id, Turn};
use seawall_control::request::{Claims, Class, Context};
use seawall_control::{Instant, Rng, classes};

/// A place inside of the service: so many are served at once, and the others stand in line.
pub(crate) struct Station {
    pub(crate) servers: u32,
    busy: u32,
    line: VecDeque<usize>,
}

impl Station {
    pub(crate) fn new(servers: u32) -> Self {
        Self { servers, busy: 0, line: VecDeque::new() }
    }

    /// Nobody waits here: sleeping, or a resource of which there is enough.
    pub(crate) fn ample() -> Self {
        Self::new(u32::MAX)
    }
}

/// How long visits to a station take.
#[derive(Clone, Copy)]
pub(crate) enum Times {
    Fixed,
    Exponential,
}

/// Requests of one kind.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) rate: f64,
    pub(crate) method: &'static str,
    pub(crate) path: fn(&mut Rng) -> String,
    pub(crate) header: fn(&mut Rng) -> String,
    pub(crate) size: fn(&mut Rng) -> u64,
    /// Stations that it visits, and the mean time at each in milliseconds.
    pub(crate) visits: Vec<(usize, f64)>,
    pub(crate) times: Times,
    /// Part that fails at once, without a visit.
    pub(crate) fails: f64,
}

impl Kind {
    pub(crate) fn new(rate: f64, visits: &[(usize, f64)]) -> Self {
        Self {
            rate,
            method: "GET",
            path: |_| "/x".into(),
            header: |_| "one".into(),
            size: |_| 0,
            visits: visits.into(),
            times: Times::Fixed,
            fails: 0.0,
        }
    }
}

/// What became of the requests of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) offered: u32,
    pub(crate) refused: u32,
    pub(crate) failed: u32,
    pub(crate) given_up: u32,
    /// Seconds from arrival to reply of those that were served.
    pub(crate) latencies: Vec<f64>,
    pub(crate) waits: Vec<f64>,
    pub(crate) inside: Vec<f64>,
}

/// What happened in some seconds.
pub(crate) struct Report {
    pub(crate) kinds: Vec<Outcome>,
    pub(crate) seconds: f64,
    pub(crate) limit: u32,
    pub(crate) names: Vec<String>,
}

impl Report {
    /// Served in time, per second.
    pub(crate) fn good(&self, kind: usize) -> f64 {
        let in_time = |latency: &&f64| **latency <= DEADLINE;
        self.kinds[kind].latencies.iter().filter(in_time).count() as f64 / self.seconds
    }

    pub(crate) fn good_all(&self) -> f64 {
        (0..self.kinds.len()).map(|kind| self.good(kind)).sum()
    }

    /// The part of the requests that their clients gave up inside.
    pub(crate) fn given_up(&self) -> f64 {
        let count = |of: fn(&Outcome) -> u32| self.kinds.iter().map(of).sum::<u32>();
        f64::from(count(|kind| kind.given_up)) / f64::from(count(|kind| kind.offered))
    }

    pub(crate) fn refused(&self) -> u32 {
        self.kinds.iter().map(|kind| kind.refused).sum()
    }

    /// Milliseconds.
    pub(crate) fn p99(&self) -> f64 {
        quantile(self.kinds.iter().flat_map(|kind| &kind.latencies), 0.99)
    }

    pub(crate) fn show(&self, what: &str) {
        let parts = self.kinds.iter().enumerate().map(|(index, kind)| {
            let inside = quantile(kind.inside.iter(), 0.5);
            let p99 = quantile(kind.latencies.iter(), 0.99);
            let (good, refused) = (self.good(index), f64::from(kind.refused) / self.seconds);
            let rates = format!("{good:.0}/s good {refused:.0}/s refused");
            format!("{rates}, inside p50 {inside:.1} ms, p99 {p99:.1} ms")
        });
        let parts: Vec<_> = parts.collect();
        println!("{what}: {} | limit {} | {:?}", parts.join(" + "), self.limit, self.names);
    }
}

fn quantile<'a>(values: impl Iterator<Item = &'a f64>, q: f64) -> f64 {
    let mut values: Vec<f64> = values.copied().collect();
    values.sort_by(f64::total_cmp);
    values.get((values.len() as f64 * q) as usize).map_or(0.0, |seconds| seconds * 1e3)
}

/// The queueing delay that a request may have, and its deadline, in seconds.
pub(crate) const BUDGET: f64 = 0.02;
pub(crate) const DEADLINE: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    /// A visit of a request ends.
    Done(usize),
    /// A client has waited for as long as it wants; the service does not learn of it.
    GivenUp(usize, Id),
    /// The gate has something to do.
    Timer,
}

struct Job {
    kind: usize,
    arrived: Instant,
    entered: Instant,
    id: Option<Id>,
    key: Key,
    visit: usize,
}

/// The service, its gate, and the classes that are learned.
pub(crate) struct World {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) stations: Vec<Station>,
    pub(crate) gate: Gate<usize>,
    pub(crate) classes: Classes,
    now: Instant,
    timer: Instant,
    rng: Rng,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    number: u64,
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    outcomes: Vec<Outcome>,
}

impl World {
    pub(crate) fn new(seed: u64, stations: Vec<Station>, kinds: Vec<Kind>) -> Self {
        Self::with(seed, stations, kinds, &gate::Config::default(), &config_of_classes())
    }

    pub(crate) fn with(
        seed: u64,
        stations: Vec<Station>,
        kinds: Vec<Kind>,
        gate: &gate::Config,
        classes: &classes::Config,
    ) -> Self {
        let init = Init::new(Instant::ORIGIN, seed);
        let mut world = Self {
            kinds,
            stations,
            gate: Gate::new(gate, init).unwrap(),
            classes: Classes::new(classes, Instant::ORIGIN, seed).unwrap(),
            now: Instant::ORIGIN,
            timer: Instant::NEVER,
            rng: Rng::new(seed),
            events: BinaryHeap::new(),
            number: 0,
            jobs: Vec::new(),
            free: Vec::new(),
            outcomes: Vec::new(),
        };
        world.push(Instant::ORIGIN, Event::Arrival);
        world
    }

    /// Lets `seconds` pass, and tells what happened to requests that ended in them.
    pub(crate) fn run(&mut self, seconds: f64) -> Report {
        self.outcomes = vec![Outcome::default(); self.kinds.len()];
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= end) {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::Arrival => self.arrive(),
                Event::Done(job) => self.done(job),
                Event::GivenUp(job, id) => self.give_up(job, id),
                Event::Timer => self.timer = Instant::NEVER,
            }
            self.carry_out();
            self.gate.check().unwrap();
        }
        self.now = end;
        Report {
            kinds: std::mem::take(&mut self.outcomes),
            seconds,
            limit: self.gate.limit(),
            names: self.classes.classes().map(|class| class.name).collect(),
        }
    }

    fn arrive(&mut self) {
        let total: f64 = self.kinds.iter().map(|kind| kind.rate).sum();
        let gap = Duration::from_secs_f64(self.rng.exponential() / total);
        self.push(self.now + gap, Event::Arrival);
        let mut pick = self.rng.uniform() * total;
        let last = self.kinds.len() - 1;
        let is_it = |kind: &Kind| {
            pick -= kind.rate;
            pick < 0.0
        };
        let kind = self.kinds.iter().position(is_it).unwrap_or(last);

        let Kind { method, path, header, size, .. } = self.kinds[kind].clone();
        let (path, header) = (path(&mut self.rng), header(&mut self.rng));
        let headers = [Some(header.as_str())];
        let size = Some(size(&mut self.rng));
        let request = Request { method, path: &path, size, headers: &headers };
        let (class, key) = self.classes.on_request(self.now, &request);
        self.outcomes[kind].offered += 1;

        let claims = Claims {
            budget: Some(Duration::from_secs_f64(BUDGET)),
            deadline: Some(Duration::from_secs_f64(DEADLINE)),
            ..Claims::default()
        };
        let context = Context::new(claims, self.now);
        let job =
            self.job(Job { kind, arrived: self.now, entered: self.now, id: None, key, visit: 0 });
        match self.gate.on_arrival(self.now, class, &context, || job) {
            Ok(Answer::Go(id) | Answer::Would(id, _)) => self.enter(job, id),
            Ok(Answer::Wait(_)) => {}
            Err(_) => self.refuse(job),
        }
    }

    fn carry_out(&mut self) {
        while let Some(turn) = self.gate.poll(self.now) {
            match turn {
                Turn::Go { id, item, .. } => self.enter(item, id),
                Turn::Refuse { item, .. } => self.refuse(item),
            }
        }
        while let Some(event) = self.classes.poll_event() {
            if let classes::Event::Merged { class, .. } = event {
                self.gate.retire(class);
            }
        }
        if let Some(at) = self.gate.poll_timeout().filter(|at| *at < self.timer) {
            self.timer = at;
            self.push(at, Event::Timer);
        }
    }

    fn enter(&mut self, job: usize, id: Id) {
        let it = self.jobs[job].as_mut().unwrap();
        (it.id, it.entered) = (Some(id), self.now);
        let until = it.arrived + Duration::from_secs_f64(DEADLINE);
        self.push(until, Event::GivenUp(job, id));
        let it = self.jobs[job].as_mut().unwrap();
        if self.rng.chance(self.kinds[it.kind].fails) {
            it.visit = usize::MAX;
            self.push(self.now + Duration::from_micros(50), Event::Done(job));
        } else {
            self.visit(job);
        }
    }

    fn visit(&mut self, job: usize) {
        let it = self.jobs[job].as_ref().unwrap();
        let Some((station, _)) = self.kinds[it.kind].visits.get(it.visit).copied() else {
            return self.leave(job, End::Served);
        };
        let station = &mut self.stations[station];
        if station.busy >= station.servers {
            return station.line.push_back(job);
        }
        station.busy += 1;
        self.begin(job);
    }

    fn begin(&mut self, job: usize) {
        let it = self.jobs[job].as_ref().unwrap();
        let kind = &self.kinds[it.kind];
        let factor = match kind.times {
            Times::Fixed => 1.0,
            Times::Exponential => self.rng.exponential(),
        };
        let takes = Duration::from_secs_f64(kind.visits[it.visit].1 * factor / 1e3);
        self.push(self.now + takes, Event::Done(job));
    }

    fn done(&mut self, job: usize) {
        let it = self.jobs[job].as_mut().unwrap();
        if it.visit == usize::MAX {
            return self.leave(job, End::Failed);
        }
        let station = &mut self.stations[self.kinds[it.kind].visits[it.visit].0];
        it.visit += 1;
        station.busy -= 1;
        let next = if station.busy < station.servers { station.line.pop_front() } else { None };
        if let Some(next) = next {
            station.busy += 1;
            self.begin(next);
        }
        self.visit(job);
    }

    fn leave(&mut self, job: usize, end: End) {
        let it = self.jobs[job].take().unwrap();
        self.free.push(job);
        let Some(id) = it.id else { return };
        assert!(self.gate.on_end(self.now, id, end));
        let outcome = &mut self.outcomes[it.kind];
        if end != End::Served {
            outcome.failed += 1;
            return;
        }
        self.classes.on_served(self.now, &it.key, self.now.since(it.entered));
        outcome.latencies.push(self.now.since(it.arrived).as_secs_f64());
        outcome.waits.push(it.entered.since(it.arrived).as_secs_f64());
        outcome.inside.push(self.now.since(it.entered).as_secs_f64());
    }

    fn give_up(&mut self, job: usize, id: Id) {
        let Some(it) = self.jobs[job].as_mut().filter(|it| it.id == Some(id)) else { return };
        it.id = None;
        assert!(self.gate.on_end(self.now, id, End::Cancelled));
        self.outcomes[it.kind].given_up += 1;
    }

    fn refuse(&mut self, job: usize) {
        let it = self.jobs[job].take().unwrap();
        self.free.push(job);
        self.outcomes[it.kind].refused += 1;
    }

    fn job(&mut self, job: Job) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[place] = Some(job);
        place
    }

    fn push(&mut self, at: Instant, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    pub(crate) fn limits(&self) -> Vec<(Class, u32)> {
        self.gate.classes(self.now).map(|class| (class.class, class.limit)).collect()
    }
}

pub(crate) fn config_of_classes() -> classes::Config {
    classes::Config { headers: vec!["x-tenant".into()], ..classes::Config::default() }
}
