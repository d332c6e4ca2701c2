//! What the turns amount to: medians over rounds, and ratios within each round.

use std::fmt;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use seawall_bench_turns::Spread;
use serde::Serialize;

use crate::closed_loop::Sample;
use crate::contestants::Contestant;

/// Others are compared with these.
const REFERENCES: [Contestant; 2] = [Contestant::Echo, Contestant::Tonic];

/// All that one run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether client and server had a core each.
    pub cores_divided: bool,
    /// Seconds that each turn counts.
    pub seconds: f64,
    /// One for each load and contestant.
    pub rows: Vec<Row>,
}

/// One contestant under one load.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Bytes of each payload.
    pub payload: usize,
    /// Requests outstanding.
    pub depth: usize,
    /// Whose turns these were.
    pub contestant: Contestant,
    /// What each round measured.
    pub rounds: Vec<Sample>,
    /// Calls per second, in thousands.
    pub kilo_calls_per_second: Spread,
    /// Median latency.
    pub p50_us: Spread,
    /// 99th percentile of latency.
    pub p99_us: Spread,
    /// Processor time of the server for each call.
    pub server_cpu_us: Spread,
    /// Processor time of the client for each call.
    pub client_cpu_us: Spread,
    /// Calls per second relative to the bare echo's of the same round.
    pub relative_to_echo: Option<Spread>,
    /// Calls per second relative to tonic's of the same round.
    pub relative_to_tonic: Option<Spread>,
}

impl Report {
    /// A report without rows.
    pub fn new(cores_divided: bool, seconds: f64) -> Self {
        Self { cores_divided, seconds, rows: Vec::new() }
    }

    /// Adds what each contestant measured under one load, round by round.
    pub fn add(&mut self, payload: usize, depth: usize, turns: &[(Contestant, Vec<Sample>)]) {
        let speeds = |rounds: &[Sample]| -> Vec<f64> {
            rounds.iter().map(|sample| sample.calls_per_second / 1e3).collect()
        };
        let references = REFERENCES.map(|reference| {
            let found = turns.iter().find(|(contestant, _)| *contestant == reference);
            found.map(|(_, rounds)| speeds(rounds))
        });
        for (contestant, rounds) in turns {
            let of = |value: fn(&Sample) -> f64| Spread::of(rounds.iter().map(value));
            let own = speeds(rounds);
            let [relative_to_echo, relative_to_tonic] = references
                .each_ref()
                .map(|reference| Some(Spread::of_ratios(&own, reference.as_ref()?)));
            self.rows.push(Row {
                payload,
                depth,
                contestant: *contestant,
                kilo_calls_per_second: Spread::of(own),
                p50_us: of(|sample| sample.p50_us),
                p99_us: of(|sample| sample.p99_us),
                server_cpu_us: of(|sample| sample.server_cpu_us),
                client_cpu_us: of(|sample| sample.client_cpu_us),
                relative_to_echo,
                relative_to_tonic,
                rounds: rounds.clone(),
            });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "bytes",
            "depth",
            "contestant",
            "k calls/s",
            "p50 µs",
            "p99 µs",
            "server CPU µs",
            "client CPU µs",
            "÷ echo",
            "÷ tonic",
            "failed",
        ]);
        for row in &self.rows {
            let ratio = |ratio: &Option<Spread>| ratio.map_or("-".into(), |to| to.to_string());
            let failures: u64 = row.rounds.iter().map(|sample| sample.failures).sum();
            table.add_row([
                row.payload.to_string(),
                row.depth.to_string(),
                row.contestant.to_string(),
                format!("{:.1}", row.kilo_calls_per_second),
                format!("{:.1}", row.p50_us.median),
                format!("{:.1}", row.p99_us.median),
                format!("{:.2}", row.server_cpu_us.median),
                format!("{:.2}", row.client_cpu_us.median),
                ratio(&row.relative_to_echo),
                ratio(&row.relative_to_tonic),
                failures.to_string(),
            ]);
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            if index != 2 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(f, "{table}")?;
        let rounds = self.rows.first().map_or(0, |row| row.rounds.len());
        write!(f, "Medians of {rounds} rounds of {} s", self.seconds)?;
        write!(f, " (least–most); ratios are of calls per second, within each round.")?;
        if !self.cores_divided {
            write!(f, "\nClient and server shared their cores: trust the ratios less.")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(speeds: &[f64]) -> Vec<Sample> {
        let sample = |speed: &f64| Sample { calls_per_second: *speed, ..Sample::default() };
        speeds.iter().map(sample).collect()
    }

    #[test]
    fn ratios_are_taken_within_each_round() {
        let mut report = Report::new(true, 1.0);
        let slowing_down = [
            (Contestant::Echo, rounds(&[400e3, 200e3, 100e3])),
            (Contestant::SeawallNone, rounds(&[200e3, 100e3, 60e3])),
        ];
        report.add(64, 1, &slowing_down);
        let row = &report.rows[1];
        let half = Spread { median: 0.5, min: 0.5, max: 0.6 };
        assert_eq!((row.relative_to_echo, row.relative_to_tonic), (Some(half), None));
        assert_eq!(row.kilo_calls_per_second.median, 100.0);
    }
}
