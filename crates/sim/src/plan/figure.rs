//! Figures of a plan: a metric over what is swept, with one line for each thing that is compared.

use std::collections::BTreeMap;

use seawall_measure::Bin;
use serde::{Deserialize, Serialize};

use super::case::Params;
use super::claim::Choice;
use super::{Plan, PlanError};
use crate::outcome::{self, Run};

/// What is drawn of a plan that names no figures.
const DEFAULTS: [&str; 4] = ["goodput", "p99_us", "client_drop_rate", "server_drop_rate"];

/// What goes across when a figure shows runs over time.
const TIME: &str = "time";

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
    /// The sweep whose values go across, `variant`, `time` for the runs' time series, or a metric:
    /// then each case is a point.
    pub x: String,
    /// The metric whose values go up.
    pub y: String,
    /// Labels of the cases that are drawn; what is not named may be anything, and makes a line of
    /// its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Choice>,
}

/// The numbers of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Labels across, in order of the plan; none where another metric goes across.
    pub labels: Vec<String>,
    /// Names of the lines, and their points: place among the labels or the other metric, and the
    /// metric; means over the seeds.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plan {
    /// Its figures, or the usual ones over the last sweep.
    pub fn figures(&self) -> Vec<Figure> {
        if !self.figures.is_empty() {
            return self.figures.clone();
        }
        let Some(sweep) = self.sweeps.last() else { return Vec::new() };
        let figure = |metric: &&str| Figure {
            title: String::new(),
            about: String::new(),
            x: sweep.name(),
            y: (*metric).into(),
            at: BTreeMap::new(),
        };
        DEFAULTS.iter().map(figure).collect()
    }
}

impl Figure {
    /// What it shows.
    pub fn title(&self) -> String {
        if self.title.is_empty() {
            format!("{} over {}", self.y, self.x)
        } else {
            self.title.clone()
        }
    }

    /// Takes its numbers from runs, in the order of their plan.
    pub fn draw(&self, runs: &[Run]) -> Drawn {
        if self.is_scatter(runs) {
            return self.scatter(runs);
        }
        let mut drawn = Drawn::default();
        let mut sums: Vec<(usize, usize, f64, u32)> = Vec::new();
        let place = |labels: &mut Vec<String>, label: &String| {
            labels.iter().position(|known| known == label).unwrap_or_else(|| {
                labels.push(label.clone());
                labels.len() - 1
            })
        };
        let mut names = Vec::new();
        let shown = || runs.iter().filter(|run| self.shows(&run.params));
        let varies = |name: &str| {
            let mut labels = shown().map(|run| run.params.0.get(name));
            let first = labels.next();
            labels.any(|label| Some(label) != first)
        };
        for run in shown() {
            let line = place(&mut names, &self.name(&run.params, varies));
            for (label, value) in self.values(run) {
                let across = place(&mut drawn.labels, &label);
                match sums.iter_mut().rev().find(|sum| (sum.0, sum.1) == (line, across)) {
                    Some(sum) => (sum.2, sum.3) = (sum.2 + value, sum.3 + 1),
                    None => sums.push((line, across, value, 1)),
                }
            }
        }
        for (line, name) in names.into_iter().enumerate() {
            let points = sums.iter().filter(|sum| sum.0 == line);
            let mut points: Vec<(usize, f64)> =
                points.map(|sum| (sum.1, sum.2 / f64::from(sum.3))).collect();
            points.sort_by_key(|point| point.0);
            let points = points.into_iter().map(|(place, value)| (place as f64, value));
            drawn.lines.push((name, points.collect()));
        }
        drawn
    }

    /// Each case as a point, with a name for those of each variant.
    fn scatter(&self, runs: &[Run]) -> Drawn {
        let mut drawn = Drawn::default();
        let shown = runs.iter().filter(|run| self.shows(&run.params));
        let mut cases: Vec<&Params> = shown.map(|run| &run.params).collect();
        cases.dedup();
        for case in cases {
            let mean = |metric: &str| {
                let of_case = runs.iter().filter(|run| run.params == *case);
                let values: Option<Vec<f64>> = of_case.map(|run| run.metric(metric)).collect();
                values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
            };
            let name = case.0.get("variant").cloned().unwrap_or_default();
            let Some(point) = mean(&self.x).zip(mean(&self.y)) else { continue };
            match drawn.lines.iter_mut().find(|line| line.0 == name) {
                Some((_, points)) => points.push(point),
                None => drawn.lines.push((name, vec![point])),
            }
        }
        drawn
    }

    /// Whether a metric goes across, and not what was varied.
    fn is_scatter(&self, runs: &[Run]) -> bool {
        let varied = runs.first().is_some_and(|run| run.params.0.contains_key(&self.x));
        !varied && self.x != TIME
    }

    fn shows(&self, params: &Params) -> bool {
        let meets = |(name, choice): (&String, &Choice)| {
            params.0.get(name).is_some_and(|label| choice.allows(label))
        };
        self.at.iter().all(meets)
    }

    /// What a run has to show: one number, or one for each bin of its time series.
    fn values(&self, run: &Run) -> Vec<(String, f64)> {
        if self.x == TIME {
            let value = |bin: &Bin| {
                Some((format!("{:.3}", bin.begin_seconds), outcome::of_bin(bin, &self.y)?))
            };
            return run.series.iter().filter_map(value).collect();
        }
        let label = run.params.0.get(&self.x).cloned();
        label.zip(run.metric(&self.y)).into_iter().collect()
    }

    /// What tells the cases of one line from those of the others, as far as it varies at all.
    fn name(&self, params: &Params, varies: impl Fn(&str) -> bool) -> String {
        let fixed = |name: &String| *name == self.x || !varies(name);
        let variant = params.0.get("variant").filter(|_| self.x != "variant");
        let mut parts: Vec<&str> = variant.into_iter().map(String::as_str).collect();
        let others = params.0.iter().filter(|(name, _)| !fixed(name) && *name != "variant");
        parts.extend(others.map(|(_, label)| label.as_str()));
        parts.join(", ")
    }

    pub(super) fn check(&self, params: &[String], classes: &[String]) -> Result<(), PlanError> {
        if self.x == TIME {
            if outcome::BIN_METRICS.contains(&self.y.as_str()) {
                return Ok(());
            }
            let allowed = outcome::BIN_METRICS.join(", ");
            let problem = format!("{} is not known over time; allowed: {allowed}", self.y);
            return Err(PlanError::field("figure.y", problem));
        }
        if !params.contains(&self.x) && outcome::check_metric(&self.x, classes).is_err() {
            let allowed = params.join(", ");
            let problem = format!("{} is no sweep; allowed: time, {allowed}, or a metric", self.x);
            return Err(PlanError::field("figure.x", problem));
        }
        outcome::check_metric(&self.y, classes)
            .map_err(|problem| PlanError::field("figure.y", problem))?;
        match self.at.keys().find(|name| !params.contains(name)) {
            Some(name) => {
                let problem = format!("{name} is no sweep; allowed: {}", params.join(", "));
                Err(PlanError::field("figure.at", problem))
            }
            None => Ok(()),
        }
    }
}
