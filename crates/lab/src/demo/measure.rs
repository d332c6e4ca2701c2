//! The measurements of one service: capacity, then each load without control and with it.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use seawall_control::Instant;
use seawall_measure::{Process, Rates, Series};
use seawall_rpc::{ClientConfig, clock};
use thread_priority::{ThreadPriority, set_current_thread_priority};

use super::interval;
use super::plan::Plan;
use super::result::{Class, Measured, NO_CONTROL, Numbers, Point};
use super::server::Spec;
use super::service::Service;
use super::spike;
use super::stalls::{Canaries, Stalled};
use crate::load::engine::{self, Offer, Run};
use crate::load::probe;
use crate::progress::Progress;
use crate::report::format;

/// The SLO as a multiple of what a request takes unloaded (Breakwater §5.1).
pub(super) const SLO_FACTOR: u32 = 10;

/// A stall of more than this part of the SLO can make a request late that is served in time.
const STALL: u32 = 4;

/// A point is disturbed if it was stalled for more than this part of its time: half of the requests
/// that a 99th percentile leaves out.
const STALLED: f64 = 0.005;

/// One service under measurement.
pub(super) struct Bench<'a> {
    pub(super) service: Service,
    pub(super) plan: &'a Plan,
    canaries: &'a Canaries,
    rtt: Duration,
    service_time: Duration,
    slo: Duration,
    capacity: f64,
}

/// A run, and what the machine did meanwhile.
pub(super) struct Watched {
    pub(super) run: Run,
    pub(super) stalled: Stalled,
    pub(super) disturbed: bool,
}

/// Measures one service; `progress` is told each step before it begins.
pub(super) fn service(
    service: Service,
    plan: &Plan,
    canaries: &Canaries,
    progress: &Progress,
) -> Result<Measured> {
    progress.step(format!("{}: capacity", service.name()));
    let bench = Bench::open(service, plan, canaries)?;
    let mut points = Vec::new();
    for load in plan.loads(service) {
        for control in plan.controls() {
            let name = if control == NO_CONTROL { "without control" } else { control };
            progress.step(format!("{}: {}, {name}", service.name(), format::load(load)));
            points.push(bench.point(load, control)?);
        }
    }
    let spike =
        if Plan::has_spike(service) { Some(spike::measure(&bench, progress)?) } else { None };
    Ok(Measured {
        service,
        about: service.about().into(),
        slo_us: micros(bench.slo),
        rtt_us: micros(bench.rtt),
        service_us: micros(bench.service_time),
        capacity: bench.capacity,
        sessions: plan.sessions,
        points,
        spike,
    })
}

impl<'a> Bench<'a> {
    /// Measures what must be known of a service before it is loaded.
    fn open(service: Service, plan: &'a Plan, canaries: &'a Canaries) -> Result<Self> {
        // Any SLO does while nothing is controlled.
        let unknown = Duration::from_millis(2);
        let mut bench = Self {
            service,
            plan,
            canaries,
            rtt: Duration::from_micros(100),
            service_time: unknown,
            slo: unknown,
            capacity: 0.0,
        };
        let server = bench.spec(NO_CONTROL).start(plan.command)?;
        let client = ClientConfig::default();
        bench.rtt = probe::round_trip(server.address, &client, &service.ping())?;
        let (times, sessions) = ((plan.warm_up(), plan.capacity()), plan.sessions as usize);
        bench.capacity =
            probe::capacity(server.address, &client, &service.workload(), sessions, times)?;
        let one = Duration::from_secs_f64(1.0 / bench.capacity);
        bench.service_time = service.service_time().unwrap_or(one);
        let trip = if service.computes() { bench.rtt } else { Duration::ZERO }; // which is little
        bench.slo = (bench.service_time + trip) * SLO_FACTOR;
        Ok(bench)
    }

    /// What a server of this service is started with.
    pub(super) fn spec(&self, algorithm: &str) -> Spec {
        Spec {
            service: self.service,
            algorithm: algorithm.to_owned(),
            slo: self.slo,
            rtt: self.rtt,
            core: self.service.computes().then_some(self.plan.cores.server),
        }
    }

    /// Requests per second that make a load of 1.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity
    }

    /// Offers a load, of which `time` is measured after a warm-up.
    pub(super) fn offer(
        &self,
        server: SocketAddr,
        control: &str,
        rates: Rates,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Watched> {
        let offer = Offer {
            servers: vec![server],
            client: ClientConfig { rtt: self.rtt, ..ClientConfig::default() },
            web: None,
            workload: self.service.workload(),
            sessions: self.plan.sessions,
            retries: false,
            threads: 1,
            sleep: !self.service.computes(),
            process: Process::Poisson,
            rates,
            warm_up,
            time,
            slo: Some(self.slo),
            // A deadline is control: the server would reject what cannot meet it.
            deadline: (control != NO_CONTROL).then_some(self.slo),
            budget: None,
            algorithm: Some(control.to_owned()),
            seed: 1,
            linger: None,
            violation: None,
        };
        let run = on_time(&offer)?;
        let begin = run.start + warm_up;
        let stalled = self.canaries.between(begin, clock::now(), self.slo / STALL);
        let disturbed = stalled.total > time.mul_f64(STALLED);
        Ok(Watched { run, stalled, disturbed })
    }

    /// Measures a load, and once more if the machine disturbed that.
    fn point(&self, load: f64, control: &str) -> Result<Point> {
        let first = self.try_point(load, control, 1)?;
        if first.valid && !first.disturbed {
            return Ok(first);
        }
        let second = self.try_point(load, control, 2)?;
        let clean = |point: &Point| (point.valid, !point.disturbed, -point.stalled_ms);
        let better =
            clean(&second).partial_cmp(&clean(&first)).is_some_and(std::cmp::Ordering::is_ge);
        Ok(if better { second } else { Point { tries: 2, ..first } })
    }

    fn try_point(&self, load: f64, control: &str, tries: u32) -> Result<Point> {
        let rate = load * self.capacity;
        let time = self.plan.point(rate, self.capacity);
        let server = self.spec(control).start(self.plan.command)?;
        let rates = Rates::constant(rate);
        let warm_up = self.plan.warm_up();
        let Watched { run, stalled, disturbed } =
            self.offer(server.address, control, rates, warm_up, time)?;
        let summary = &run.summary;
        let numbers = |name: &&str, class: &seawall_measure::ClassSummary| Class {
            class: (*name).into(),
            numbers: Numbers::from(&class.figures),
        };
        let names = self.service.classes();
        let classes = match names.len() {
            0 | 1 => Vec::new(),
            _ => names.iter().zip(&summary.classes).map(|(n, c)| numbers(n, c)).collect(),
        };
        Ok(Point {
            load,
            control: control.to_owned(),
            seconds: time.as_secs_f64(),
            tries,
            valid: summary.valid,
            invalid_reason: summary.invalid_reason.clone(),
            disturbed,
            stalled_ms: stalled.total.as_secs_f64() * 1e3,
            longest_stall_ms: stalled.longest.as_secs_f64() * 1e3,
            lateness_p99_us: summary.lateness_p99_us,
            all: Numbers::from(&summary.total),
            goodput_interval: interval::half_width(&goodputs(&run.series, run.start + warm_up)),
            classes,
        })
    }
}

/// Offers the load from a thread that goes before others, where the system permits that, so that a
/// neighbour makes the service late and not the load. Servers, which are started elsewhere, do not.
fn on_time(offer: &Offer) -> Result<Run> {
    thread::scope(|scope| {
        let generator = scope.spawn(|| {
            _ = set_current_thread_priority(ThreadPriority::Max);
            engine::run(offer, |_| {})
        });
        generator.join().unwrap_or_else(|_| bail!("the generator of the load panicked"))
    })
}

/// The goodput of each bin that begins at `from` or later.
fn goodputs(series: &Series, from: Instant) -> Vec<f64> {
    let from = from.since(series.config().start).as_secs_f64();
    series.bins().filter(|bin| bin.begin_seconds >= from).map(|bin| bin.goodput).collect()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
