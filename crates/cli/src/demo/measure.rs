//! The measurements of one service: capacity, then a sweep of loads.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use seawall_measure::{Process, Rates};
use seawall_rpc::ClientConfig;

use super::plan::{Plan, SYNTHETIC_SERVICE, Subject};
use super::server::Setup;
use super::spike;
use crate::load::engine::{self, Offer, Run};
use crate::load::probe;
use crate::progress::Progress;
use crate::report::data::{NO_CONTROL, Point, SLO_FACTOR, ServiceReport, Spike};
use crate::report::format;

/// What was found out about a service before it was loaded.
struct Facts {
    rtt: Duration,
    service: Duration,
    slo: Duration,
    capacity: f64,
}

impl Facts {
    /// Before anything is known. Any SLO does while nothing is controlled.
    const UNKNOWN: Self = Self {
        rtt: Duration::from_micros(100),
        service: Duration::ZERO,
        slo: Duration::from_millis(2),
        capacity: 0.0,
    };
}

/// One service under measurement.
pub(super) struct Bench<'a> {
    pub(super) subject: Subject,
    pub(super) plan: &'a Plan,
    facts: Facts,
}

/// Measures one service; `progress` is told each step before it begins.
pub(super) fn service(subject: Subject, plan: &Plan, progress: &Progress) -> Result<ServiceReport> {
    progress.step(format!("{}: round trip and capacity", subject.name()));
    let mut bench = Bench { subject, plan, facts: Facts::UNKNOWN };
    bench.facts = bench.facts()?;
    let points = bench.sweep(progress)?;
    let spike = spike::measure(&bench, progress)?;
    Ok(bench.report(points, spike))
}

impl Bench<'_> {
    /// What a server of this service is told.
    pub(super) fn setup<'a>(&'a self, algorithm: &'a str) -> Setup<'a> {
        let &Facts { slo, rtt, .. } = &self.facts;
        let Plan { cores, screen, .. } = self.plan;
        Setup { subject: self.subject, algorithm, core: cores.server, slo, rtt, screen }
    }

    /// Requests per second that make a load of 1.0.
    pub(super) fn capacity(&self) -> f64 {
        self.facts.capacity
    }

    /// Offers a load, of which `time` is measured after a warm-up.
    pub(super) fn offer(
        &self,
        server: SocketAddr,
        control: &str,
        rates: Rates,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Run> {
        let &Facts { slo, rtt, .. } = &self.facts;
        let offer = Offer {
            servers: vec![server],
            client: ClientConfig { rtt, ..ClientConfig::default() },
            web: None,
            workload: self.subject.workload(),
            sessions: self.plan.sessions,
            retries: false,
            threads: 1,
            sleep: false,
            process: Process::Poisson,
            rates,
            warm_up,
            time,
            slo: Some(slo),
            // A deadline is control: the server would refuse what cannot meet it.
            deadline: (control != NO_CONTROL).then_some(slo),
            budget: None,
            algorithm: Some(control.to_owned()),
            seed: 1,
            linger: None,
            violation: None,
        };
        engine::run(&offer, |_| {})
    }

    fn facts(&self) -> Result<Facts> {
        let server = self.setup(NO_CONTROL).start()?;
        let client = ClientConfig::default();
        let rtt = probe::round_trip(server.address, &client, &self.subject.ping())?;
        let workload = self.subject.workload();
        let times = (self.plan.warm_up(), self.plan.capacity());
        let sessions = self.plan.sessions as usize;
        let capacity = probe::capacity(server.address, &client, &workload, sessions, times)?;
        let service = match self.subject {
            Subject::Synthetic => SYNTHETIC_SERVICE.mean(),
            Subject::Kv => Duration::from_secs_f64(1.0 / capacity),
        };
        Ok(Facts { rtt, service, slo: (service + rtt) * SLO_FACTOR, capacity })
    }

    fn sweep(&self, progress: &Progress) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for control in self.plan.controls() {
            // Every point has a fresh server: what one point left behind is not the next one's
            // problem. Filling a store takes too long for that, so its points share one, and
            // overload it as far as they can.
            let mut shared = None;
            for &load in &self.plan.loads {
                let name = self.subject.name();
                progress.step(format!("{name}: {load}× capacity, control: {control}"));
                let server = match (self.subject, shared.take()) {
                    (Subject::Kv, Some(server)) => server,
                    _ => self.setup(control).start()?,
                };
                let rates = Rates::constant(load * self.facts.capacity);
                let (warm_up, time) = (self.plan.warm_up(), self.plan.point);
                let run = self.offer(server.address, control, rates, warm_up, time)?;
                points.push(point(load, control, &run));
                shared = Some(server);
            }
        }
        Ok(points)
    }

    fn report(&self, points: Vec<Point>, spike: Spike) -> ServiceReport {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let Facts { rtt, service, slo, capacity } = self.facts;
        ServiceReport {
            service: self.subject.name().to_owned(),
            slo_us: micros(slo),
            rtt_us: micros(rtt),
            service_us: micros(service),
            capacity,
            peak_uncontrolled: peak(&points),
            sessions: self.plan.sessions,
            notes: self.notes(),
            points,
            spike: Some(spike),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "Round trip: median of {} calls that do nothing, one at a time, over loopback: {}.",
                probe::PINGS,
                format::delay(self.facts.rtt.as_secs_f64() * 1e6),
            ),
            "With control, requests carry the SLO as their deadline, and the server refuses at its \
             run queue what cannot meet it; without, nothing is refused or held back anywhere."
                .into(),
        ];
        if self.subject == Subject::Kv {
            notes.push(
                "Service time: what one request costs the server's core at capacity, network \
                 included."
                    .into(),
            );
        }
        notes.extend(self.plan.cores.note().map(String::from));
        notes
    }
}

/// The highest throughput without control, if the load was enough to reach it.
fn peak(points: &[Point]) -> Option<f64> {
    let without = points.iter().filter(|point| point.control == NO_CONTROL && point.valid);
    let full = without.clone().any(|point| point.load >= 1.0);
    full.then(|| without.map(|point| point.throughput).fold(0.0, f64::max))
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
        latency_censored: total.latency_censored,
        client_drop_rate: total.client_drop_rate,
        server_drop_rate: total.server_drop_rate,
        reject_p99_us: total.reject_p99_us,
        lost_rate: total.lost_rate,
        unanswered: total.unanswered,
        failed: total.failed,
        classes: summary.classes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_peak_needs_a_valid_point_at_the_capacity() {
        let mut points = sample::service().points;
        let highest = peak(&points).unwrap();
        assert!(points.iter().any(|point| point.throughput == highest && point.valid));
        points.retain(|point| point.load < 1.0);
        assert_eq!(peak(&points), None);
        let mut points = sample::service().points;
        points.iter_mut().for_each(|point| point.valid = point.control != NO_CONTROL);
        assert_eq!(peak(&points), None);
    }
}
