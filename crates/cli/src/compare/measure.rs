//! The runs of a comparison: for each point a fresh server in a process of its own.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::noise::{self, Noise};
use super::plan::{Plan, Rate, Subject, case};
use super::point::{Contended, Point};
use crate::child::Server;
use crate::cores::Cores;
use crate::groups::Groups;
use crate::load::engine::{self, Offer};
use crate::load::probe;
use crate::load::retries::Retries;
use crate::load::workload::Workload;
use crate::pin;
use crate::progress::Progress;
use crate::serve::Stages;

/// Shortest time of which the server's CPU time says how busy it was: ten of the ticks in which
/// Linux counts.
const SHORTEST: Duration = Duration::from_millis(100);

/// Where a comparison runs.
pub(super) struct Place {
    /// Processors of the server.
    servers: Vec<usize>,
    /// That of the load.
    load: usize,
}

impl Place {
    /// The processors of a server that has `count` of them, and what a reader of the numbers should
    /// know of it. Those of the load's own core are taken last.
    ///
    /// # Errors
    ///
    /// If there are not as many.
    pub(super) fn new(
        cores: Cores,
        count: usize,
        available: &[usize],
        siblings: fn(usize) -> Vec<usize>,
    ) -> Result<(Self, Option<&'static str>)> {
        let Cores { server, load, .. } = cores;
        if count == 1 {
            return Ok((Self { servers: vec![server], load }, cores.note()));
        }
        let same_core = siblings(load);
        let others = available.iter().copied().filter(|&core| core != load);
        let (beside, apart): (Vec<usize>, Vec<usize>) =
            others.partition(|core| same_core.contains(core));
        let note = (count > apart.len()).then_some(
            "The load and a part of the server are hardware threads of one core, so each slows the \
             other down.",
        );
        let servers: Vec<usize> = apart.into_iter().chain(beside).take(count).collect();
        if servers.len() < count {
            bail!(
                "cores is {count}, and beside that of the load this machine has {}",
                servers.len()
            );
        }
        Ok((Self { servers, load }, note))
    }

    fn start(&self, options: &[String], is_program: bool) -> Result<Server> {
        if is_program {
            return self.on_servers(|| Server::of_program(options));
        }
        let options = options.iter().cloned();
        match self.servers[..] {
            [core] => Server::start(std::iter::once(format!("--pin={core}")).chain(options)),
            _ => self.on_servers(|| Server::start(options)),
        }
    }

    /// Starts processes on the servers' processors: what a process is kept to, it inherits.
    fn on_servers<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        pin::to_cores(&self.servers)?;
        let started = start();
        pin::to_core(self.load)?;
        started
    }
}

/// Measures all points, in order of rates, variants and rounds. They run round by round and rate by
/// rate, the variants in turns: so what changes on the machine meanwhile hits all of them.
///
/// # Errors
///
/// If a server does not start, or a load cannot be offered.
pub(super) fn all(plan: &Plan, place: &Place) -> Result<Vec<Point>> {
    let (subjects, rates) = (plan.subjects()?, plan.rates()?);
    let rounds = u64::from(plan.rounds);
    let groups = plan.noise.iter().any(Noise::is_program) || plan.limit.is_some();
    let groups = groups.then(|| Groups::new(plan.replicas, plan.limit)).transpose()?;
    let progress = Progress::of_steps(rounds * (subjects.len() * rates.len()) as u64);
    let mut points = Vec::new();
    for round in 1..=rounds {
        for (step, rate) in rates.iter().enumerate() {
            for turn in 0..subjects.len() {
                // Nobody is always the first.
                let index = (turn + step + round as usize) % subjects.len();
                let subject = &subjects[index];
                progress.step(format!("round {round}: {}/s, {}", rate.label, subject.name));
                let last = round == rounds && step + 1 == rates.len();
                let (series, ccdf) = (plan.shows_time(), plan.shows_latencies());
                let (noise, groups) = (&plan.noise, groups.as_ref());
                let run = Run { place, subject, rate, round, last, series, ccdf, noise, groups };
                let point = run.measure().with_context(|| format!("variant {}", subject.name))?;
                points.push(((step, index, round), point));
            }
        }
    }
    points.sort_by_key(|(at, _)| *at);
    Ok(points.into_iter().map(|(_, point)| point).collect())
}

/// One point to be measured.
struct Run<'a> {
    place: &'a Place,
    subject: &'a Subject,
    rate: &'a Rate,
    round: u64,
    /// The variant's last one, whose server is asked at which stages requests waited.
    last: bool,
    /// Keep the run over time.
    series: bool,
    /// Keep the distribution of the latencies.
    ccdf: bool,
    noise: &'a [Noise],
    groups: Option<&'a Groups>,
}

impl Run<'_> {
    /// The plan's noise, if it disturbs this variant: in one round all at the same times.
    fn start_noise(&self, seed: u64) -> Result<Vec<noise::Running>> {
        let Some(groups) = self.groups.filter(|_| self.subject.noise) else {
            return Ok(Vec::new());
        };
        let start = |(noise, number): (&Noise, u64)| noise.start(groups, seed ^ number << 32);
        let programs = self.noise.iter().filter(|noise| noise.is_program());
        self.place.on_servers(|| programs.zip(1..).map(start).collect())
    }

    fn measure(&self) -> Result<Point> {
        let is_program = self.subject.is_program;
        let start = |options: &Vec<String>| self.place.start(options, is_program);
        let servers: Vec<Server> = self.subject.serve.iter().map(start).collect::<Result<_>>()?;
        let base = &self.subject.offer;
        let offer = Offer {
            servers: servers.iter().map(|server| server.address).collect(),
            rates: self.rate.rates.clone(),
            seed: base.seed.wrapping_add(self.round - 1),
            ..base.clone()
        };
        if let Workload::Kv(mix) = &offer.workload {
            for server in &servers {
                probe::fill(server.address, &offer.client, mix, |_| {})?;
            }
        }
        if let Some(groups) = self.groups {
            for (replica, server) in servers.iter().enumerate() {
                groups.of(replica).take_in(server.id())?;
            }
        }
        let noise = self.start_noise(offer.seed)?;
        let mut clock = Clock::new(&servers, offer.warm_up);
        let run = engine::run(&offer, |passed| clock.passed(passed))?;
        drop(noise);
        let busy = clock.busy(self.place.servers.len());
        let mut stages = Vec::new();
        if self.last && !is_program {
            for server in servers {
                let report = server.last_words()?;
                let report: Stages = serde_json::from_str(&report)
                    .with_context(|| format!("the server's last words are {report:?}"))?;
                stages.extend(report.stages);
            }
        }
        let summary = run.summary;
        Ok(Point {
            params: case(&self.subject.name, &self.rate.label),
            round: self.round,
            valid: summary.valid,
            invalid_reason: summary.invalid_reason,
            lateness_p99_us: summary.lateness_p99_us,
            algorithm: run.algorithm,
            sessions: run.sessions,
            slo_us: summary.slo_us,
            figures: summary.total,
            classes: summary.classes,
            busy,
            failure: run.first_failure,
            retries: run.retries.map(Retries::from),
            stages: Contended::by_name(Stages { stages }),
            series: if self.series { run.series.bins().collect() } else { Vec::new() },
            ccdf: if self.ccdf { run.latencies.ccdf() } else { Vec::new() },
        })
    }
}

/// The servers' CPU time over the time that is measured.
struct Clock<'a> {
    servers: &'a [Server],
    warm_up: Duration,
    /// Time since the start of the load and CPU time of the server: when the warm-up was over, and
    /// most recently.
    first: Option<(Duration, Duration)>,
    last: Option<(Duration, Duration)>,
}

impl<'a> Clock<'a> {
    fn new(servers: &'a [Server], warm_up: Duration) -> Self {
        Self { servers, warm_up, first: None, last: None }
    }

    fn passed(&mut self, time: Duration) {
        if time >= self.warm_up {
            let used: Option<Duration> = self.servers.iter().map(Server::cpu_time).sum();
            self.last = used.map(|used| (time, used));
            self.first = self.first.or(self.last);
        }
    }

    fn busy(&self, cores: usize) -> Option<f64> {
        let ((begin, before), (end, after)) = self.first.zip(self.last)?;
        let time = end.saturating_sub(begin);
        let used = after.saturating_sub(before);
        (time >= SHORTEST).then(|| used.div_duration_f64(time) / cores as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Apart;

    #[test]
    fn a_server_of_several_cores_leaves_one_to_the_load() {
        let cores = Cores { server: 0, load: 2, apart: Apart::Cores };
        let pairs = |processor| vec![processor / 2 * 2, processor / 2 * 2 + 1];
        let servers = |count, available: &[usize]| {
            let (place, note) = Place::new(cores, count, available, pairs)?;
            anyhow::Ok((place.servers, note.is_some()))
        };
        assert_eq!(servers(1, &[0, 1, 2]).unwrap(), (vec![0], false));
        assert_eq!(servers(3, &[0, 1, 2, 3, 4]).unwrap(), (vec![0, 1, 4], false));
        assert_eq!(servers(3, &[0, 1, 2, 3]).unwrap(), (vec![0, 1, 3], true), "its sibling last");
        let error = servers(3, &[0, 1, 2]).unwrap_err().to_string();
        assert_eq!(error, "cores is 3, and beside that of the load this machine has 2");
    }
}
