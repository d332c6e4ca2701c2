//! What one run of a graph amounted to.

use seawall_control::Instant;
use serde::{Deserialize, Serialize};

use super::World;
use super::container::Used;
use crate::outcome::Run;
use crate::plan::Params;

/// What only runs of graphs have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Area of the latency curve above the SLO, in milliseconds times seconds (SurgeGuard Fig. 3).
    pub violation_volume: f64,
    /// What requests took above the SLO, on average over all of them, in milliseconds: the
    /// violation volume of the authors' load generator.
    pub excess_ms: f64,
    /// 98th percentile of the latency, in microseconds.
    pub p98_us: Option<f64>,
    /// Units that the containers had, on average over the measured time.
    pub cores: f64,
    /// The most that they had.
    pub cores_peak: f64,
    /// Energy of units at work, by the plan's model, in seconds of a unit at the base frequency.
    /// Nothing measures it.
    pub energy: f64,
    /// Mean latency of jobs that were due in a surge, in microseconds.
    pub surge_mean_us: Option<f64>,
    /// The longest of these.
    pub surge_max_us: Option<f64>,
    /// Units that the containers had in surges, on average.
    pub surge_cores: Option<f64>,
    /// Decisions that changed units, frequencies and hints, and requests at which FirstResponder
    /// raised frequencies.
    pub unit_changes: u64,
    /// Those that changed frequencies.
    pub level_changes: u64,
    /// Those that changed hints.
    pub hint_changes: u64,
    /// Late requests at which FirstResponder raised frequencies.
    pub boosts: u64,
    /// Each service.
    pub services: Vec<Served>,
    /// Allocations at the end of each bin of the time series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// One service of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// Units that its container had, on average.
    pub units: f64,
    /// The part of them that was at work.
    pub busy: f64,
    /// Its share of all units that the containers had in surges.
    pub surge_share: Option<f64>,
}

/// Allocations at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Units of each service, in the graph's order.
    pub units: Vec<u32>,
    /// Their levels of frequency.
    pub levels: Vec<u16>,
}

/// Metrics of a run, by the names of the fields of [`Outcome`].
pub(crate) const METRICS: [&str; 13] = [
    "violation_volume",
    "excess_ms",
    "p98_us",
    "cores",
    "cores_peak",
    "energy",
    "surge_mean_us",
    "surge_max_us",
    "surge_cores",
    "unit_changes",
    "level_changes",
    "hint_changes",
    "boosts",
];

/// Metrics of one service, written `units.NAME`.
pub(crate) const SERVICE_METRICS: [&str; 3] = ["units", "busy", "surge_share"];

/// What a service has over time, written `units.NAME`.
pub(crate) const SAMPLE_METRICS: [&str; 2] = ["units", "level"];

impl Outcome {
    /// A number by its name; `None` when there is no such, or nothing was measured.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        if let Some((field, service)) = name.split_once('.') {
            let service = self.services.iter().find(|served| served.name == service)?;
            return match field {
                "units" => Some(service.units),
                "busy" => Some(service.busy),
                "surge_share" => service.surge_share,
                _ => None,
            };
        }
        match name {
            "violation_volume" => Some(self.violation_volume),
            "excess_ms" => Some(self.excess_ms),
            "p98_us" => self.p98_us,
            "cores" => Some(self.cores),
            "cores_peak" => Some(self.cores_peak),
            "energy" => Some(self.energy),
            "surge_mean_us" => self.surge_mean_us,
            "surge_max_us" => self.surge_max_us,
            "surge_cores" => self.surge_cores,
            "unit_changes" => Some(self.unit_changes as f64),
            "level_changes" => Some(self.level_changes as f64),
            "hint_changes" => Some(self.hint_changes as f64),
            "boosts" => Some(self.boosts as f64),
            _ => None,
        }
    }

    /// What a service had over time, by a name such as `units.frontend`.
    pub(crate) fn over_time(&self, name: &str) -> Option<Vec<(f64, f64)>> {
        let (field, service) = name.split_once('.')?;
        let at = self.services.iter().position(|served| served.name == service)?;
        let value = |sample: &Sample| match field {
            "units" => Some(f64::from(*sample.units.get(at)?)),
            "level" => Some(f64::from(*sample.levels.get(at)?)),
            _ => None,
        };
        self.samples.iter().map(|sample| Some((sample.at_s, value(sample)?))).collect()
    }
}

/// What a world that has come to its end amounts to.
pub(super) fn run(mut world: World<'_>, params: Params, seed: u64) -> Run {
    let end = world.now.max(world.window.end);
    let rest: Vec<Instant> = world.requests.jobs.iter().map(|(_, job)| job.due).collect();
    rest.into_iter().for_each(|due| world.meters.unanswered(due, end));
    let meters = &world.meters;
    let summary = meters.recorder.summary();
    let seconds = world.scenario.run.time.as_secs_f64();
    let sum = |of: fn(&Used) -> f64| meters.used.iter().map(of).sum::<f64>() / 1e9;
    let (granted, busy) = (sum(|used| used.granted), sum(|used| used.busy));
    Run {
        params,
        seed,
        slo_us: summary.slo_us,
        capacity: world.scenario.capacity(),
        figures: summary.total,
        classes: summary.classes,
        busy: busy / granted.max(f64::MIN_POSITIVE),
        series: meters.series.as_ref().map_or_else(Vec::new, |series| series.bins().collect()),
        events: world.events.scheduled(),
        graph: Some(Outcome {
            cores: granted / seconds,
            energy: sum(|used| used.energy),
            ..outcome(&world, end, seconds)
        }),
        ..Run::default()
    }
}

fn outcome(world: &World<'_>, end: Instant, seconds: f64) -> Outcome {
    let meters = &world.meters;
    let volume = meters.violation.volume(end);
    let surges = &meters.surges;
    let in_surges: f64 = surges.used.iter().map(|used| used.granted).sum();
    let micros = |duration: std::time::Duration| duration.as_secs_f64() * 1e6;
    let had_surges = surges.jobs > 0;
    let services = world.machine.containers.iter().zip(&meters.used).enumerate();
    let served = services.map(|(at, (container, used))| Served {
        name: container.name.clone(),
        units: used.granted / 1e9 / seconds,
        busy: used.busy / used.granted.max(f64::MIN_POSITIVE),
        surge_share: surges.used.get(at).map(|used| used.granted / in_surges),
    });
    Outcome {
        violation_volume: volume.area_ms_s,
        excess_ms: volume.excess_ms,
        p98_us: meters.recorder.latencies().quantile_us(0.98),
        cores_peak: f64::from(meters.units_peak),
        surge_mean_us: had_surges.then(|| micros(surges.mean_latency())),
        surge_max_us: had_surges.then(|| micros(surges.longest)),
        surge_cores: surges.cores(),
        unit_changes: meters.changes.units,
        level_changes: meters.changes.levels,
        hint_changes: meters.changes.hints,
        boosts: meters.changes.boosts,
        services: served.collect(),
        samples: meters.samples.clone(),
        ..Outcome::default()
    }
}
