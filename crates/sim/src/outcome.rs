//! What one run of a plan amounted to: what `seawall sim --json` prints.

use std::time::Duration;

use seawall_control::Instant;
use seawall_measure::latency::Slower;
use seawall_measure::recorder::Figures;
use seawall_measure::{Bin, ClassSummary, Series, Settled, Stability};
use serde::{Deserialize, Serialize};

use crate::graph;
use crate::plan::{Measured, Params};
use crate::scenario::Scenario;
use crate::world::{Counts, Report};

/// One run. No clock and no machine has a part in it: equal seeds make equal runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which case of the plan it is.
    pub params: Params,
    /// Its seed.
    pub seed: u64,
    /// The SLO, in microseconds.
    pub slo_us: f64,
    /// Requests per second that `1x` means.
    pub capacity: f64,
    /// All requests.
    pub figures: Figures,
    /// Those of each class.
    pub classes: Vec<ClassSummary>,
    /// Messages that the servers received, per second.
    pub received: f64,
    /// Messages that they sent, per second.
    pub sent: f64,
    /// Messages among them that only told a client its window, per second.
    pub credits: f64,
    /// Part of the cores' time that was used, 0 to 1.
    pub busy: f64,
    /// What the servers did, counted.
    pub counts: Counts,
    /// Requests that were sent again to another replica, for each request offered.
    #[serde(default)]
    pub retry_share: f64,
    /// Requests that one replica gave no credit for in time, for each request offered.
    #[serde(default)]
    pub move_share: f64,
    /// Second copies of requests that were slow, for each request offered.
    #[serde(default)]
    pub copy_share: f64,
    /// Requests that were refused everywhere and sent once more, to wait as long as it takes, for
    /// each request offered.
    #[serde(default)]
    pub last_resort_share: f64,
    /// 99th percentile of the time until a request was refused by the first replica that it was
    /// for, or given up there, in microseconds; `None` when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure_p99_us: Option<f64>,
    /// What all servers drew from their memories, in GB per second; `None` when no step says what
    /// it draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<f64>,
    /// How many a memory semaphore let in at once, on average over time and servers; `None`
    /// without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore_capacity: Option<f64>,
    /// How many that of the first server let in for most of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore_mode: Option<u32>,
    /// For which part of the time it let in that many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore_mode_share: Option<f64>,
    /// Requests refused at a memory semaphore, per second.
    #[serde(default)]
    pub memory_refusals: f64,
    /// Power of all servers, in watts; `None` unless the scenario says what they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// How the semaphore of the first server took each change of the mix; only of runs with a time
    /// series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<Mix>,
    /// How many the semaphore of the first server let in, on average over each bin of the time
    /// series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<f64>,
    /// How the servers took each shift of the load; only of runs with a time series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts: Vec<Shift>,
    /// The run over time, if the scenario asks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Bin>,
    /// The distribution of the latencies, if a figure of the plan shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ccdf: Vec<Slower>,
    /// What only a graph of services has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<graph::Outcome>,
    /// Whether goodput came back after the last overload: nine tenths of what was offered, once
    /// the queue of a server without control would have drained and half a second more. `None`
    /// when there was no overload, or no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<bool>,
    /// Events simulated.
    pub events: u64,
}

/// How the servers took one shift of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// When it was, in seconds since the start.
    pub at_s: f64,
    /// Offered before, per second.
    pub from: f64,
    /// Offered from then on, per second.
    pub to: f64,
    /// How long after it goodput and tail were stable, in milliseconds; `None` if they never were,
    /// or there was no time to tell.
    pub stable_after_ms: Option<f64>,
    /// The same for goodput alone.
    pub goodput_back_ms: Option<f64>,
    /// The time until the next shift, or the end; in milliseconds.
    pub lasts_ms: f64,
    /// The highest 99th percentile of a bin after it, in microseconds.
    pub p99_peak_us: Option<f64>,
    /// The highest mean delay of refusals of a bin after it, in microseconds.
    pub reject_peak_us: Option<f64>,
    /// The lowest goodput of a bin after it, over the mean of the last quarter until the next
    /// shift.
    pub goodput_dip: Option<f64>,
}

/// How a memory semaphore took one change of the mix of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// When it was, in seconds since the start.
    pub at_s: f64,
    /// How many it let in later on: the mean over the second half of the time until the next
    /// change, or the end.
    pub capacity: f64,
    /// How long after the change it first let in as many, but for one; in milliseconds.
    pub settled_after_ms: f64,
}

/// Metrics that claims may name, beside those of [`Figures`] and of shifts.
const METRICS: [&str; 19] = [
    "goodput_share",
    "received",
    "sent",
    "credits",
    "busy",
    "revoked",
    "retry_share",
    "move_share",
    "copy_share",
    "last_resort_share",
    "sent_again_share",
    "first_failure_p99_us",
    "memory_bandwidth",
    "semaphore_capacity",
    "semaphore_mode",
    "semaphore_mode_share",
    "memory_refusals",
    "power",
    "mix_settled_after_ms",
];

/// Checks the name of a metric, of runs with these classes of requests, or with these services of
/// a graph.
///
/// # Errors
///
/// Says what to write instead of one that is unknown.
pub(crate) fn check_metric(
    name: &str,
    classes: &[String],
    services: &[String],
) -> Result<(), String> {
    if !services.is_empty() {
        return check_metric_of_graph(name, classes, services);
    }
    let is_of = |front: &str, fields: &[&str]| {
        let numbered = name.strip_prefix(front).and_then(|rest| rest.split_once('.'));
        numbered.is_some_and(|(number, field)| {
            number.parse::<usize>().is_ok_and(|number| number > 0) && fields.contains(&field)
        })
    };
    if is_of("shift", &SHIFT_METRICS) || is_of("mix", &MIX_METRICS) {
        return Ok(());
    }
    check_metric_of_requests(name, classes, &METRICS).map_err(|problem| {
        format!(
            "{problem}, of the first shift of the load shift1.{}, and of that of the mix mix1.{}",
            SHIFT_METRICS.join(", shift1."),
            MIX_METRICS.join(", mix1."),
        )
    })
}

fn check_metric_of_graph(
    name: &str,
    classes: &[String],
    services: &[String],
) -> Result<(), String> {
    let of_service = name.split_once('.').is_some_and(|(field, service)| {
        graph::SERVICE_METRICS.contains(&field) && services.iter().any(|known| known == service)
    });
    if of_service {
        return Ok(());
    }
    check_metric_of_requests(name, classes, &graph::METRICS).map_err(|problem| {
        let names = services.join(", ");
        let fields = graph::SERVICE_METRICS.join(".NAME, ");
        format!("{problem}, of one service {fields}.NAME (services: {names})")
    })
}

/// Checks what is drawn over time, of runs of a graph with these services, or of none.
///
/// # Errors
///
/// Says what is allowed.
pub(crate) fn check_over_time(name: &str, services: &[String]) -> Result<(), String> {
    let of_service = name.split_once('.').is_some_and(|(field, service)| {
        graph::SAMPLE_METRICS.contains(&field) && services.iter().any(|known| known == service)
    });
    if of_service || BIN_METRICS.contains(&name) {
        return Ok(());
    }
    let mut allowed = BIN_METRICS.join(", ");
    if !services.is_empty() {
        let fields = graph::SAMPLE_METRICS.join(".NAME, ");
        allowed += &format!(", {fields}.NAME (services: {})", services.join(", "));
    }
    Err(format!("{name} is not known over time; allowed: {allowed}"))
}

/// Checks the name of a metric: one of [`Figures`], of all requests or of one of `classes`, or one
/// of `more`.
///
/// # Errors
///
/// Says what to write instead of one that is unknown.
pub fn check_metric_of_requests(
    name: &str,
    classes: &[String],
    more: &[&str],
) -> Result<(), String> {
    let class = |rest: &str| {
        let (class, field) = rest.rsplit_once('.')?;
        Some(classes.iter().any(|known| known == class) && Figures::METRICS.contains(&field))
    };
    let is_known = more.contains(&name)
        || Figures::METRICS.contains(&name)
        || name.strip_prefix("class.").and_then(class).unwrap_or(false);
    if is_known {
        return Ok(());
    }
    Err(format!(
        "{name} is unknown; allowed are {}, these of one class as class.NAME.goodput (classes: \
         {}), {}",
        Figures::METRICS.join(", "),
        classes.join(", "),
        more.join(", "),
    ))
}

/// One of [`Figures`] by its name, of all requests or of one class (`class.NAME.goodput`); `None`
/// when there is no such, or nothing was measured.
pub fn of_requests(all: &Figures, classes: &[ClassSummary], name: &str) -> Option<f64> {
    match name.strip_prefix("class.").and_then(|rest| rest.rsplit_once('.')) {
        Some((class, field)) => {
            classes.iter().find(|summary| summary.name == class)?.figures.metric(field)
        }
        None => all.metric(name),
    }
}

/// Metrics of a time series.
const BIN_METRICS: [&str; 5] = ["offered", "goodput", "throughput", "p99_us", "reject_mean_us"];

const SHIFT_METRICS: [&str; 5] =
    ["stable_after_ms", "goodput_back_ms", "p99_peak_us", "reject_peak_us", "goodput_dip"];

const MIX_METRICS: [&str; 2] = ["capacity", "settled_after_ms"];

impl Run {
    /// Makes a run's result of what was recorded.
    pub(crate) fn new(params: Params, seed: u64, scenario: &Scenario, report: &Report) -> Self {
        let summary = report.recorder.summary();
        let seconds = scenario.run.time.as_secs_f64();
        let per_second = |count: u64| count as f64 / seconds;
        let cores = f64::from(scenario.server.cores) * scenario.server.speeds.len() as f64;
        let counts = report.counts;
        let calls = report.retries.calls.max(1) as f64;
        Self {
            params,
            seed,
            slo_us: scenario.slo().as_secs_f64() * 1e6,
            capacity: scenario.capacity(),
            figures: summary.total,
            classes: summary.classes,
            received: per_second(counts.received),
            sent: per_second(counts.sent),
            credits: per_second(counts.credits),
            busy: counts.busy_ns as f64 / 1e9 / seconds / cores,
            counts,
            retry_share: report.retries.retries as f64 / calls,
            move_share: report.retries.moves as f64 / calls,
            copy_share: report.retries.hedges as f64 / calls,
            last_resort_share: report.retries.last_resorts as f64 / calls,
            first_failure_p99_us: report.first_failures.quantile_us(0.99),
            memory_bandwidth: report.memory.bandwidth.map(|bytes| bytes / 1e9),
            semaphore_capacity: report.memory.capacity,
            semaphore_mode: report.memory.mode.map(|(mode, _)| mode),
            semaphore_mode_share: report.memory.mode.map(|(_, share)| share),
            memory_refusals: per_second(counts.refused_at_memory),
            power: report.memory.power,
            mixes: mixes(scenario, &report.memory.capacities),
            capacities: report.memory.capacities.clone(),
            shifts: report.series.as_ref().map_or_else(Vec::new, |series| shifts(scenario, series)),
            series: report.series.as_ref().map_or_else(Vec::new, |series| series.bins().collect()),
            ccdf: Vec::new(),
            graph: None,
            recovered: report.recovered,
            events: report.events,
        }
    }
}

impl Measured for Run {
    fn params(&self) -> &Params {
        &self.params
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn slo_us(&self) -> f64 {
        self.slo_us
    }

    fn classes(&self) -> &[ClassSummary] {
        &self.classes
    }

    fn series(&self) -> &[Bin] {
        &self.series
    }

    fn ccdf(&self) -> &[Slower] {
        &self.ccdf
    }

    fn over_time(&self, name: &str) -> Vec<(f64, f64)> {
        let of_graph = self.graph.as_ref().and_then(|graph| graph.over_time(name));
        of_graph.unwrap_or_else(|| over_time(&self.series, name))
    }

    fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "goodput_share" => Some(self.figures.goodput / self.capacity),
            "received" => Some(self.received),
            "sent" => Some(self.sent),
            "credits" => Some(self.credits),
            "busy" => Some(self.busy),
            "revoked" => Some(self.counts.revoked as f64),
            "retry_share" => Some(self.retry_share),
            "move_share" => Some(self.move_share),
            "copy_share" => Some(self.copy_share),
            "last_resort_share" => Some(self.last_resort_share),
            "sent_again_share" => Some(self.retry_share + self.copy_share + self.last_resort_share),
            "first_failure_p99_us" => self.first_failure_p99_us,
            "memory_bandwidth" => self.memory_bandwidth,
            "semaphore_capacity" => self.semaphore_capacity,
            "semaphore_mode" => self.semaphore_mode.map(f64::from),
            "semaphore_mode_share" => self.semaphore_mode_share,
            "memory_refusals" => Some(self.memory_refusals),
            "power" => self.power,
            "mix_settled_after_ms" => {
                let sum: f64 = self.mixes.iter().map(|mix| mix.settled_after_ms).sum();
                (!self.mixes.is_empty()).then(|| sum / self.mixes.len() as f64)
            }
            _ if let Some(value) = self.graph.as_ref().and_then(|graph| graph.metric(name)) => {
                Some(value)
            }
            _ => {
                if let Some((index, field)) = numbered(name, "shift") {
                    self.shifts.get(index)?.metric(field)
                } else if let Some((index, field)) = numbered(name, "mix") {
                    self.mixes.get(index)?.metric(field)
                } else {
                    of_requests(&self.figures, &self.classes, name)
                }
            }
        }
    }
}

impl Shift {
    fn metric(&self, name: &str) -> Option<f64> {
        match name {
            // What never is takes at least as long as there is.
            "stable_after_ms" => Some(self.stable_after_ms.unwrap_or(self.lasts_ms)),
            "goodput_back_ms" => Some(self.goodput_back_ms.unwrap_or(self.lasts_ms)),
            "p99_peak_us" => self.p99_peak_us,
            "reject_peak_us" => self.reject_peak_us,
            "goodput_dip" => self.goodput_dip,
            _ => None,
        }
    }
}

impl Mix {
    fn metric(&self, name: &str) -> Option<f64> {
        match name {
            "capacity" => Some(self.capacity),
            "settled_after_ms" => Some(self.settled_after_ms),
            _ => None,
        }
    }
}

/// The index and the field of a name such as `shift2.goodput_dip`.
fn numbered<'a>(name: &'a str, front: &str) -> Option<(usize, &'a str)> {
    let (number, field) = name.strip_prefix(front)?.split_once('.')?;
    Some((number.parse::<usize>().ok()?.checked_sub(1)?, field))
}

/// How a memory semaphore took each change of the mix, by what it let in over time.
fn mixes(scenario: &Scenario, capacities: &[f64]) -> Vec<Mix> {
    let Some(bin) = scenario.run.bin.filter(|_| !capacities.is_empty()) else { return Vec::new() };
    let index = |at: Duration| {
        let bins = at.as_nanos().div_ceil(bin.as_nanos());
        usize::try_from(bins).unwrap_or(usize::MAX).min(capacities.len())
    };
    let mixes = scenario.workload.mixes();
    let times: Vec<Duration> = mixes.iter().skip(1).map(|(at, _)| *at).collect();
    let mix = |(number, &at): (usize, &Duration)| {
        let until = times.get(number + 1).copied().unwrap_or(Duration::MAX);
        let part = &capacities[index(at)..index(until)];
        let late = &part[part.len() / 2..];
        let capacity = late.iter().sum::<f64>() / late.len().max(1) as f64;
        let before = part.iter().take_while(|now| (*now - capacity).abs() > 1.0).count();
        Mix {
            at_s: at.as_secs_f64(),
            capacity,
            settled_after_ms: before as f64 * bin.as_secs_f64() * 1e3,
        }
    };
    times.iter().enumerate().map(mix).collect()
}

/// A number of a time series by its name, with the begin of each bin in seconds.
pub(crate) fn over_time(series: &[Bin], name: &str) -> Vec<(f64, f64)> {
    series.iter().filter_map(|bin| Some((bin.begin_seconds, of_bin(bin, name)?))).collect()
}

/// A number of a bin by its name; `None` when there is no such, or nothing was measured.
fn of_bin(bin: &Bin, name: &str) -> Option<f64> {
    match name {
        "offered" => Some(bin.offered),
        "goodput" => Some(bin.goodput),
        "throughput" => Some(bin.throughput),
        "p99_us" => bin.p99_us,
        "reject_mean_us" => bin.reject_mean_us,
        _ => None,
    }
}

/// How each shift went, judged up to the next one.
fn shifts(scenario: &Scenario, series: &Series) -> Vec<Shift> {
    let Ok(rates) = scenario.rates() else { return Vec::new() };
    let length = scenario.run.length();
    let times: Vec<Duration> = rates.shifts().take_while(|&at| at < length).collect();
    let bins: Vec<Bin> = series.bins().collect();
    let shift = |(index, &at): (usize, &Duration)| {
        let until = times.get(index + 1).copied().unwrap_or(length);
        let within = |bin: &&Bin| {
            bin.begin_seconds >= at.as_secs_f64() - 1e-9
                && bin.begin_seconds < until.as_secs_f64() - 1e-9
        };
        let part: Vec<&Bin> = bins.iter().filter(within).collect();
        let last = &part[part.len() - part.len().div_ceil(4)..];
        let settled = last.iter().map(|bin| bin.goodput).sum::<f64>() / last.len().max(1) as f64;
        let lowest = part.iter().map(|bin| bin.goodput).fold(f64::INFINITY, f64::min);
        let start = Instant::ORIGIN;
        let stable_after =
            |rule: &Stability| match series.stable_between(start + at, start + until, rule) {
                Settled::After(after) => Some(after.as_secs_f64() * 1e3),
                Settled::Never | Settled::TooShort => None,
            };
        let rule = Stability::default();
        Shift {
            at_s: at.as_secs_f64(),
            from: rates.at(at.saturating_sub(Duration::from_nanos(1))),
            to: rates.at(at),
            stable_after_ms: stable_after(&rule),
            goodput_back_ms: stable_after(&rule.goodput_alone()),
            lasts_ms: (until - at).as_secs_f64() * 1e3,
            p99_peak_us: part.iter().filter_map(|bin| bin.p99_us).reduce(f64::max),
            reject_peak_us: part.iter().filter_map(|bin| bin.reject_mean_us).reduce(f64::max),
            goodput_dip: (settled > 0.0).then_some(lowest / settled),
        }
    };
    times.iter().enumerate().map(shift).collect()
}
