//! The measurements of the demo: capacity, a sweep of loads, a spike.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use seawall_measure::arrivals::Rates;
use seawall_measure::{KeyValueMix, Process, Schedule};
use seawall_rpc::{ClientConfig, Request};

use super::server::{Server, Setup};
use crate::load::engine::{self, Offer, Run};
use crate::load::probe;
use crate::load::workload::Workload;
use crate::report::data::{Bin, NO_CONTROL, Point, ServiceReport, Spike, SpikeRun};
use crate::report::format;
use crate::serve::NULL;

/// A service is fast enough when it answers within this many times what it takes unloaded: the SLO
/// of Breakwater's evaluation (§5.1).
const SLO_FACTOR: u32 = 10;

/// Mean service time of the synthetic service.
const SYNTHETIC_SERVICE: Duration = Duration::from_micros(100);

/// Before each point, for the controller to settle.
const WARM_UP: Duration = Duration::from_millis(500);

/// The spike: half of the capacity, then at this time twice the capacity, for the rest.
const SPIKE: (f64, f64) = (0.5, 2.0);
const SPIKE_AT: Duration = Duration::from_secs(1);
const SPIKE_TIME: Duration = Duration::from_secs(3);

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Subject {
    /// Requests that each take 100 µs of CPU time on average
    Synthetic,
    /// The key-value store, read and written as in Breakwater's evaluation
    Kv,
}

/// The cores of server and load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    pub(super) server: usize,
    pub(super) load: usize,
}

/// What to measure of each service.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cores: Cores,
    pub(super) algorithm: String,
    pub(super) sessions: u32,
    pub(super) loads: Vec<f64>,
    pub(super) point: Duration,
}

/// What was found out about a service before it was loaded.
struct Facts {
    rtt: Duration,
    service: Duration,
    slo: Duration,
    capacity: f64,
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Kv => "kv",
        }
    }

    fn workload(self) -> Workload {
        match self {
            Self::Synthetic => Workload::Synthetic,
            Self::Kv => Workload::Kv(KeyValueMix::usr()),
        }
    }

    /// A call that does next to nothing, for the round trip.
    fn ping(self) -> Request {
        match self {
            Self::Synthetic => Request::new(NULL, ""),
            Self::Kv => crate::load::workload::get(u64::MAX),
        }
    }
}

impl Plan {
    /// How many steps one service takes.
    pub(super) fn steps(&self) -> u64 {
        1 + 2 * self.loads.len() as u64 + 2
    }

    fn controls(&self) -> [&str; 2] {
        [NO_CONTROL, &self.algorithm]
    }

    fn setup(&self, subject: Subject, algorithm: &str, facts: &Facts) -> SetupFor {
        SetupFor {
            subject,
            algorithm: algorithm.to_owned(),
            core: self.cores.server,
            slo: facts.slo,
            rtt: facts.rtt,
        }
    }
}

/// An owned [`Setup`], which also fills the store.
struct SetupFor {
    subject: Subject,
    algorithm: String,
    core: usize,
    slo: Duration,
    rtt: Duration,
}

impl SetupFor {
    fn start(&self) -> Result<Server> {
        let Self { subject, ref algorithm, core, slo, rtt } = *self;
        let server = Server::start(Setup { subject, algorithm, core, slo, rtt })?;
        if let Workload::Kv(mix) = subject.workload() {
            probe::fill(server.address, &ClientConfig::default(), &mix)?;
        }
        Ok(server)
    }
}

/// Measures one service; `progress` is told each step before it begins.
pub(super) fn service(
    subject: Subject,
    plan: &Plan,
    progress: &mut dyn FnMut(String),
) -> Result<ServiceReport> {
    let name = subject.name();
    progress(format!("{name}: round trip and capacity"));
    let facts = facts(subject, plan)?;
    let mut points = Vec::new();
    for control in plan.controls() {
        let setup = plan.setup(subject, control, &facts);
        // Every point has a fresh server: what one point left behind is not the next one's problem.
        // Filling a store takes too long for that, so its points share one, and overload it
        // as far as they can.
        let mut shared = None;
        for load in &plan.loads {
            progress(format!("{name}: {load}× capacity, control: {control}"));
            let server = match (subject, shared.take()) {
                (Subject::Kv, Some(server)) => server,
                _ => setup.start()?,
            };
            let rates = Rates::constant(load * facts.capacity);
            let times = (WARM_UP, plan.point);
            let run = offer(server.address, subject, plan, &facts, control, rates, times)?;
            points.push(point(*load, control, &run));
            shared = Some(server);
        }
    }
    let spike = spike(subject, plan, &facts, progress)?;
    Ok(report(subject, plan, &facts, points, spike))
}

fn facts(subject: Subject, plan: &Plan) -> Result<Facts> {
    // Any SLO does while nothing is controlled.
    let unknown = Facts {
        rtt: Duration::from_micros(100),
        service: Duration::ZERO,
        slo: Duration::from_millis(2),
        capacity: 0.0,
    };
    let server = plan.setup(subject, NO_CONTROL, &unknown).start()?;
    let client = ClientConfig::default();
    let rtt = probe::round_trip(server.address, &client, &subject.ping())?;
    let times = (WARM_UP, Duration::from_millis(1_500));
    let workload = subject.workload();
    let sessions = plan.sessions as usize;
    let capacity = probe::capacity(server.address, &client, &workload, sessions, times)?;
    let service = match subject {
        Subject::Synthetic => SYNTHETIC_SERVICE,
        Subject::Kv => Duration::from_secs_f64(1.0 / capacity),
    };
    Ok(Facts { rtt, service, slo: (service + rtt) * SLO_FACTOR, capacity })
}

fn offer(
    server: SocketAddr,
    subject: Subject,
    plan: &Plan,
    facts: &Facts,
    control: &str,
    rates: Rates,
    (warm_up, time): (Duration, Duration),
) -> Result<Run> {
    let controlled = control != NO_CONTROL;
    let offer = Offer {
        servers: vec![server],
        client: ClientConfig { rtt: facts.rtt, ..ClientConfig::default() },
        workload: subject.workload(),
        sessions: plan.sessions,
        threads: 1,
        process: Process::Poisson,
        rates,
        warm_up,
        time,
        slo: Some(facts.slo),
        // A deadline is control: the server would refuse what cannot meet it.
        deadline: controlled.then_some(facts.slo),
        seed: 1,
    };
    engine::run(&offer, |_| {})
}

fn point(load: f64, control: &str, run: &Run) -> Point {
    let summary = &run.summary;
    let total = &summary.total;
    Point {
        load,
        control: control.to_owned(),
        valid: summary.valid,
        invalid_reason: summary.invalid_reason.clone(),
        lateness_p99_us: summary.lateness_p99_us,
        offered: total.offered,
        goodput: total.goodput,
        throughput: total.throughput,
        p50_us: total.p50_us,
        p99_us: total.p99_us,
        p999_us: total.p999_us,
        client_drop_rate: total.client_drop_rate,
        server_drop_rate: total.server_drop_rate,
        reject_p99_us: total.reject_p99_us,
        unanswered: total.unanswered,
        failed: total.failed,
    }
}

fn spike(
    subject: Subject,
    plan: &Plan,
    facts: &Facts,
    progress: &mut dyn FnMut(String),
) -> Result<Spike> {
    let (from, to) = SPIKE;
    let shift = WARM_UP + SPIKE_AT;
    let mut runs = Vec::new();
    for control in plan.controls() {
        progress(format!("{}: spike to {to}× capacity, control: {control}", subject.name()));
        let server = plan.setup(subject, control, facts).start()?;
        let schedule: Schedule = format!("0s:{from}x,{}ms:{to}x", shift.as_millis()).parse()?;
        let rates = schedule.rates(Some(facts.capacity))?;
        // What is measured begins at the shift; what was before it is in the series.
        let times = (shift, SPIKE_TIME);
        let run = offer(server.address, subject, plan, facts, control, rates, times)?;
        runs.push((control, run));
    }
    let at_s = shift.as_secs_f64();
    let (_, controlled) = &runs[1];
    let before: Vec<f64> = controlled
        .series
        .bins()
        .filter(|bin| (WARM_UP.as_secs_f64()..at_s).contains(&bin.begin_seconds))
        .map(|bin| bin.goodput)
        .collect();
    Ok(Spike {
        stable_after_ms: stable_after_ms(controlled, shift),
        from_load: from,
        to_load: to,
        at_s,
        goodput_before: before.iter().sum::<f64>() / before.len().max(1) as f64,
        goodput_after: controlled.summary.total.goodput,
        p99_us_after: controlled.summary.total.p99_us,
        runs: runs.iter().map(|(control, run)| spike_run(control, run, shift)).collect(),
    })
}

fn spike_run(control: &str, run: &Run, shift: Duration) -> SpikeRun {
    let bins = run.series.bins().map(|bin| Bin {
        t_s: bin.begin_seconds,
        offered: bin.offered,
        goodput: bin.goodput,
        throughput: bin.throughput,
        drops: bin.client_drops + bin.server_drops,
        p99_us: bin.p99_us,
    });
    SpikeRun {
        control: control.to_owned(),
        stable_after_ms: stable_after_ms(run, shift),
        series: bins.collect(),
    }
}

fn stable_after_ms(run: &Run, shift: Duration) -> Option<f64> {
    let start = run.series.config().start;
    run.series.stable_after(start + shift).map(|after| after.as_secs_f64() * 1e3)
}

fn report(
    subject: Subject,
    plan: &Plan,
    facts: &Facts,
    points: Vec<Point>,
    spike: Spike,
) -> ServiceReport {
    let uncontrolled = points.iter().filter(|point| point.control == NO_CONTROL && point.valid);
    let peak = uncontrolled.map(|point| point.throughput).fold(0.0, f64::max);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let mut notes = vec![
        format!(
            "Round trip: median of 1,000 calls that do nothing, one at a time, over loopback: {}.",
            format::delay(micros(facts.rtt)),
        ),
        "With control, requests carry the SLO as their deadline, and the server refuses at its run \
         queue what cannot meet it; without, nothing is refused or held back anywhere."
            .into(),
    ];
    if subject == Subject::Kv {
        notes.push(
            "Service time: what one request costs the server's core at capacity, network included."
                .into(),
        );
    }
    if plan.cores.server == plan.cores.load {
        notes.push("Server and load share the only core, so each disturbs the other.".into());
    }
    ServiceReport {
        service: subject.name().to_owned(),
        slo_us: micros(facts.slo),
        rtt_us: micros(facts.rtt),
        service_us: micros(facts.service),
        capacity: facts.capacity,
        peak_uncontrolled: peak,
        sessions: plan.sessions,
        notes,
        points,
        spike: Some(spike),
    }
}
