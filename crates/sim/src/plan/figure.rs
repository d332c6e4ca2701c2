//! Figures of a plan: a metric over what is swept, with one line for each thing that is compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::Params;
use super::claim::Choice;
use super::measured::Measured;
use super::{Plan, PlanError};
use crate::outcome;

/// What is drawn of a plan that names no figures.
const DEFAULTS: [&str; 4] = ["goodput", "p99_us", "client_drop_rate", "server_drop_rate"];

/// What goes across when a figure shows runs over time.
const TIME: &str = "time";

/// What goes across when a figure shows the distribution of the latencies.
const LATENCY: &str = "latency";

/// What goes up then: the share of the requests that were slower.
const SLOWER: &str = "slower";

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it shows; default: what is drawn over what.
    #[serde(default)]
    pub title: String,
    /// How to read it.
    #[serde(default)]
    pub about: String,
    /// The sweep whose values go across, `variant`, `time` for the runs' time series, `latency`
    /// for the distribution of the latencies, or a metric: then each case is a point.
    pub x: String,
    /// The metric whose values go up; over the latency it is `slower`, the share of the requests
    /// that took longer.
    pub y: String,
    /// Labels of the cases that are drawn; what is not named may be anything, and makes a line of
    /// its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Choice>,
}

/// The numbers of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Labels across, in order of the plan; none where latency or another metric goes across.
    pub labels: Vec<String>,
    /// Names of the lines, and their points: place among the labels or the other metric, and the
    /// metric; means over the seeds.
    pub lines: Vec<(String, Vec<Spot>)>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// Its place across.
    pub x: f64,
    /// The metric.
    pub y: f64,
    /// Whether all of the runs behind it are valid.
    pub valid: bool,
}

/// What the runs of one point add up to.
struct Sum {
    line: usize,
    across: usize,
    value: f64,
    count: u32,
    valid: bool,
}

impl Plan {
    /// Its figures, or the usual ones over the last sweep.
    pub fn figures(&self) -> Vec<Figure> {
        if !self.figures.is_empty() {
            return self.figures.clone();
        }
        self.sweeps.last().map_or_else(Vec::new, |sweep| Figure::usual(&sweep.name()))
    }
}

impl Sum {
    fn add(&mut self, value: f64, valid: bool) {
        self.value += value;
        self.count += 1;
        self.valid &= valid;
    }

    fn spot(&self) -> Spot {
        let y = self.value / f64::from(self.count);
        Spot { x: self.across as f64, y, valid: self.valid }
    }
}

/// Puts bins into the order of time: the first run may have none where another has one.
fn in_time(labels: &mut Vec<String>, sums: &mut [Sum]) {
    let time = |label: &String| label.parse::<f64>().unwrap_or(f64::INFINITY);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&a, &b| time(&labels[a]).total_cmp(&time(&labels[b])));
    let mut places = vec![0; labels.len()];
    order.iter().enumerate().for_each(|(place, &before)| places[before] = place);
    *labels = order.iter().map(|&before| labels[before].clone()).collect();
    sums.iter_mut().for_each(|sum| sum.across = places[sum.across]);
}

impl Figure {
    /// What is drawn when nobody says what: the usual metrics over `x`.
    pub fn usual(x: &str) -> Vec<Self> {
        let figure = |metric: &&str| Self {
            title: String::new(),
            about: String::new(),
            x: x.to_owned(),
            y: (*metric).into(),
            at: BTreeMap::new(),
        };
        DEFAULTS.iter().map(figure).collect()
    }

    /// What it shows.
    pub fn title(&self) -> String {
        if self.title.is_empty() && self.shows_latencies() {
            "distribution of the latencies".into()
        } else if self.title.is_empty() {
            format!("{} over {}", self.y, self.x)
        } else {
            self.title.clone()
        }
    }

    /// Whether it shows runs over time.
    pub fn shows_time(&self) -> bool {
        self.x == TIME
    }

    /// Whether it shows the distribution of the latencies.
    pub fn shows_latencies(&self) -> bool {
        self.x == LATENCY
    }

    /// The SLO of all the runs that it shows, in microseconds; `None` where they differ.
    pub fn slo_us(&self, runs: &[impl Measured]) -> Option<f64> {
        let mut slos = self.shown(runs).map(Measured::slo_us);
        let first = slos.next()?;
        slos.all(|slo| slo == first).then_some(first)
    }

    /// Takes its numbers from runs, in the order of their plan.
    pub fn draw(&self, runs: &[impl Measured]) -> Drawn {
        if self.shows_latencies() {
            return self.distributions(runs);
        }
        if self.is_scatter(runs) {
            return self.scatter(runs);
        }
        let mut drawn = Drawn::default();
        let mut sums: Vec<Sum> = Vec::new();
        let place = |labels: &mut Vec<String>, label: &String| {
            labels.iter().position(|known| known == label).unwrap_or_else(|| {
                labels.push(label.clone());
                labels.len() - 1
            })
        };
        let mut names = Vec::new();
        for run in self.shown(runs) {
            let line = place(&mut names, &self.name(run.params(), runs));
            for (label, value) in self.values(run) {
                let across = place(&mut drawn.labels, &label);
                let valid = run.is_valid();
                match sums.iter_mut().rev().find(|sum| (sum.line, sum.across) == (line, across)) {
                    Some(sum) => sum.add(value, valid),
                    None => sums.push(Sum { line, across, value, count: 1, valid }),
                }
            }
        }
        if self.shows_time() {
            in_time(&mut drawn.labels, &mut sums);
        }
        for (line, name) in names.into_iter().enumerate() {
            let mut points: Vec<&Sum> = sums.iter().filter(|sum| sum.line == line).collect();
            points.sort_by_key(|sum| sum.across);
            drawn.lines.push((name, points.into_iter().map(Sum::spot).collect()));
        }
        drawn
    }

    /// A line for each case: at each share the latency that it exceeds, the mean over the seeds.
    fn distributions(&self, runs: &[impl Measured]) -> Drawn {
        let mut drawn = Drawn::default();
        let mut cases: Vec<&Params> = self.shown(runs).map(Measured::params).collect();
        cases.dedup();
        for case in cases {
            let of_case = || runs.iter().filter(|run| run.params() == case);
            let count = of_case().count() as f64;
            let valid = of_case().all(Measured::is_valid);
            let length = of_case().map(|run| run.ccdf().len()).min().unwrap_or(0);
            let point = |index: usize| {
                let points = of_case().map(|run| run.ccdf()[index]);
                let (x, y) = points.fold((0.0, 0.0), |(x, _), at| (x + at.than_us, at.share));
                Spot { x: x / count, y, valid }
            };
            drawn.lines.push((self.name(case, runs), (0..length).map(point).collect()));
        }
        drawn
    }

    /// Each case as a point, with a name for those of each variant.
    fn scatter(&self, runs: &[impl Measured]) -> Drawn {
        let mut drawn = Drawn::default();
        let mut cases: Vec<&Params> = self.shown(runs).map(Measured::params).collect();
        cases.dedup();
        for case in cases {
            let mean = |metric: &str| {
                let of_case = runs.iter().filter(|run| run.params() == case);
                let values: Option<Vec<f64>> = of_case.map(|run| run.metric(metric)).collect();
                values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
            };
            let name = case.0.get("variant").cloned().unwrap_or_default();
            let Some((x, y)) = mean(&self.x).zip(mean(&self.y)) else { continue };
            let valid = runs.iter().all(|run| run.params() != case || run.is_valid());
            let point = Spot { x, y, valid };
            match drawn.lines.iter_mut().find(|line| line.0 == name) {
                Some((_, points)) => points.push(point),
                None => drawn.lines.push((name, vec![point])),
            }
        }
        drawn
    }

    /// Whether a metric goes across, and not what was varied.
    fn is_scatter(&self, runs: &[impl Measured]) -> bool {
        let varied = runs.first().is_some_and(|run| run.params().0.contains_key(&self.x));
        !varied && !self.shows_time()
    }

    /// The runs of its cases.
    fn shown<'a, R: Measured>(&self, runs: &'a [R]) -> impl Iterator<Item = &'a R> {
        runs.iter().filter(|run| self.shows(run.params()))
    }

    fn shows(&self, params: &Params) -> bool {
        let meets = |(name, choice): (&String, &Choice)| {
            params.0.get(name).is_some_and(|label| choice.allows(label))
        };
        self.at.iter().all(meets)
    }

    /// What a run has to show: one number, or one for each bin of its time series.
    fn values(&self, run: &impl Measured) -> Vec<(String, f64)> {
        if self.shows_time() {
            let values = run.over_time(&self.y).into_iter();
            return values.map(|(at, value)| (format!("{at:.6}"), value)).collect();
        }
        let label = run.params().0.get(&self.x).cloned();
        label.zip(run.metric(&self.y)).into_iter().collect()
    }

    /// What tells the cases of one line from those of the others, as far as it varies at all.
    fn name(&self, params: &Params, runs: &[impl Measured]) -> String {
        let varies = |name: &str| {
            let mut labels = self.shown(runs).map(|run| run.params().0.get(name));
            let first = labels.next();
            labels.any(|label| Some(label) != first)
        };
        let fixed = |name: &String| *name == self.x || !varies(name);
        let variant = params.0.get("variant").filter(|_| self.x != "variant");
        let mut parts: Vec<&str> = variant.into_iter().map(String::as_str).collect();
        let others = params.0.iter().filter(|(name, _)| !fixed(name) && *name != "variant");
        parts.extend(others.map(|(_, label)| label.as_str()));
        parts.join(", ")
    }

    /// Checks it against what is varied, and the services of a graph; `known` says whether there is
    /// such a metric, and what is allowed.
    ///
    /// # Errors
    ///
    /// Names the field that makes no sense, and what is allowed.
    pub fn check(
        &self,
        params: &[String],
        services: &[String],
        known: impl Fn(&str) -> Result<(), String>,
    ) -> Result<(), PlanError> {
        if self.shows_latencies() {
            if self.y == SLOWER {
                return Ok(());
            }
            let problem = format!("{} is not known over the latency; allowed: {SLOWER}", self.y);
            return Err(PlanError::field("figure.y", problem));
        }
        if self.shows_time() {
            return outcome::check_over_time(&self.y, services)
                .map_err(|problem| PlanError::field("figure.y", problem));
        }
        if !params.contains(&self.x) && known(&self.x).is_err() {
            let allowed = params.join(", ");
            let problem =
                format!("{} is no sweep; allowed: time, latency, {allowed}, or a metric", self.x);
            return Err(PlanError::field("figure.x", problem));
        }
        known(&self.y).map_err(|problem| PlanError::field("figure.y", problem))?;
        match self.at.keys().find(|name| !params.contains(name)) {
            Some(name) => {
                let problem = format!("{name} is no sweep; allowed: {}", params.join(", "));
                Err(PlanError::field("figure.at", problem))
            }
            None => Ok(()),
        }
    }
}
