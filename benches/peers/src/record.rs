//! What was measured: one file, written after each point, from which an interrupted run goes on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use seawall_measure::{Bin, Summary};
use serde::{Deserialize, Serialize};

/// A run, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What the servers can do without limiters over HTTP/1.1, by stack and work, such as
    /// `go/cpu`; in requests per second.
    pub capacities: BTreeMap<String, f64>,
    /// For how long the lock is held in Rust, so that both stacks have one capacity; in
    /// microseconds.
    pub hold_us: Option<u64>,
    /// All points, in the order in which they were measured.
    pub points: Vec<Point>,
}

/// One row under one load, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Which one.
    #[serde(flatten)]
    pub key: Key,
    /// Processor time of the server, for each request that was offered, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// The same of the proxy.
    pub front_cpu_us: Option<f64>,
    /// Part of its core that the server used, 0 to 1.
    pub busy: Option<f64>,
    /// What `seawall load` said.
    pub load: Measured,
}

/// What tells a point from the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The experiment.
    pub experiment: String,
    /// The row.
    pub row: String,
    /// The load.
    pub rate: String,
    /// The round, from 1.
    pub round: u32,
    /// Seconds before the measured ones.
    pub warm_up_s: u32,
    /// Seconds that are measured.
    pub time_s: u32,
}

/// What `seawall load --json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The numbers.
    #[serde(flatten)]
    pub summary: Summary,
    /// What the first request that failed was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The run over time, if it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Bin>,
}

impl Run {
    /// Reads what [`save`](Self::save) wrote; an empty run if there is no such file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds something else.
    pub fn load(file: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(error).context(format!("cannot read {}", file.display())),
        };
        serde_json::from_str(&text)
            .with_context(|| format!("{} does not hold a run; remove it", file.display()))
    }

    /// Writes it, in one step: whoever is interrupted leaves the file as it was.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, file: &Path) -> Result<()> {
        let shown = file.display();
        let next = file.with_extension("json.tmp");
        std::fs::write(&next, serde_json::to_string_pretty(self)? + "\n")
            .and_then(|()| std::fs::rename(&next, file))
            .with_context(|| format!("cannot write {shown}"))
    }

    /// Whether this point was measured.
    pub fn has(&self, key: &Key) -> bool {
        self.points.iter().any(|point| point.key == *key)
    }

    /// The points of one row under one load.
    pub fn of(&self, experiment: &str, row: &str, rate: &str) -> Vec<&Point> {
        let is_it = |point: &&Point| {
            let Key { experiment: e, row: r, rate: l, .. } = &point.key;
            e == experiment && r == row && l == rate
        };
        self.points.iter().filter(is_it).collect()
    }

    /// The mean of a figure over the rounds of one row under one load.
    pub fn mean(
        &self,
        experiment: &str,
        row: &str,
        rate: &str,
        figure: impl Fn(&Point) -> Option<f64>,
    ) -> Option<f64> {
        let points = self.of(experiment, row, rate);
        let values: Vec<f64> = points.iter().filter_map(|point| figure(point)).collect();
        // A row that answered nothing in one round has no such mean.
        (!values.is_empty() && values.len() == points.len())
            .then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl Point {
    /// A figure of all requests, by its name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.load.summary.total.metric(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        assert_eq!(Run::load(&file).unwrap(), Run::default());
        let run = sample::run(&[("cpu", "Envoy", "2x", 480.0, Some(20_000.0))]);
        run.save(&file).unwrap();
        assert_eq!(Run::load(&file).unwrap(), run);
        assert!(run.has(&run.points[0].key));
        std::fs::write(&file, "[]").unwrap();
        assert!(Run::load(&file).unwrap_err().to_string().contains("does not hold a run"));
    }

    #[test]
    fn a_mean_needs_all_rounds() {
        let run = sample::run(&[
            ("cpu", "Envoy", "2x", 480.0, Some(20_000.0)),
            ("cpu", "Envoy", "2x", 500.0, None),
        ]);
        let mean = |name: &str| run.mean("cpu", "Envoy", "2x", |point| point.figure(name));
        assert_eq!(mean("goodput"), Some(490.0));
        assert_eq!(mean("p99_us"), None);
        assert_eq!(run.mean("cpu", "aegis", "2x", |_| Some(1.0)), None);
    }
}
