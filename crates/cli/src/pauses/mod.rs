//! `seawall pauses`: predicted pauses of Java's collectors beside real ones (LIBROS Fig. 7).

mod page;
mod record;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::output;
use crate::report::grid;
use record::{FITS, Pause};

const EXAMPLES: &str = "\
Examples:
  java -agentpath:libseawall_jvm.so=record=churn.csv ...   write a service's pauses down
  seawall pauses churn.csv                                 how well they were predicted
  seawall pauses parallel=a.csv g1=b.csv --html page.html  two records as a page with charts
  seawall pauses churn.csv --json                          numbers for a program";

/// What the paper says of RANSAC under a key-value churn: all but 8 % within 4 ms (§VIII-B2).
const PUBLISHED: f64 = 0.92;

/// Options of `seawall pauses`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Records of the agent, each with a name before it if it shall have one: NAME=FILE
    #[arg(required = true, value_name = "FILE")]
    records: Vec<String>,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,

    /// Also write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// One fit in one record.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    record: String,
    fit: &'static str,
    /// Pauses that were predicted; the first of each kind are not.
    predictions: usize,
    /// Shares with an error of at most so much.
    within_1ms: f64,
    within_4ms: f64,
    within_8ms: f64,
    /// Mean error, positive if predictions are too long.
    bias_ms: f64,
    error_p50_ms: f64,
    error_p95_ms: f64,
    error_p99_ms: f64,
    pause_mean_ms: f64,
    pause_p99_ms: f64,
}

/// A record, and what it is called.
#[derive(Debug)]
struct Record {
    name: String,
    pauses: Vec<Pause>,
}

/// Runs `seawall pauses`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(path) = &options.html {
        crate::report::page::file::check(path)?;
    }
    let records = options.records.iter().map(|text| {
        let (name, path) = text.split_once('=').unwrap_or((text, text));
        Ok(Record { name: name.to_owned(), pauses: record::read(path.as_ref())? })
    });
    let records: Vec<Record> = records.collect::<Result<_>>()?;
    let rows: Vec<Row> = records.iter().flat_map(rows).collect();
    ensure!(!rows.is_empty(), "no pause was predicted: the first of each kind never is");
    if let Some(path) = &options.html {
        crate::report::page::file::write(path, &page::render(&records, &rows))?;
    }
    if options.json {
        return output::print(&(serde_json::to_string_pretty(&rows)? + "\n"));
    }
    output::print(&table(&rows))
}

impl Record {
    /// How far off a fit was, each time in milliseconds and positive if it said too much.
    fn errors_ms(&self, fit: usize) -> Vec<f64> {
        let error = |pause: &Pause| {
            let predicted = pause.predicted[fit]?;
            Some((predicted.as_secs_f64() - pause.real.as_secs_f64()) * 1e3)
        };
        self.pauses.iter().filter_map(error).collect()
    }

    /// The same, whatever the sign, in order.
    fn off_ms(&self, fit: usize) -> Vec<f64> {
        let mut off: Vec<f64> = self.errors_ms(fit).into_iter().map(f64::abs).collect();
        off.sort_by(f64::total_cmp);
        off
    }
}

fn rows(record: &Record) -> Vec<Row> {
    let mut real: Vec<f64> =
        record.pauses.iter().map(|pause| pause.real.as_secs_f64() * 1e3).collect();
    real.sort_by(f64::total_cmp);
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let row = |(fit, name): (usize, &&'static str)| {
        let (errors, off) = (record.errors_ms(fit), record.off_ms(fit));
        let within = |ms: f64| off.partition_point(|off| *off <= ms) as f64 / off.len() as f64;
        (!off.is_empty()).then(|| Row {
            record: record.name.clone(),
            fit: name,
            predictions: off.len(),
            within_1ms: within(1.0),
            within_4ms: within(4.0),
            within_8ms: within(8.0),
            bias_ms: mean(&errors),
            error_p50_ms: at(&off, 0.5),
            error_p95_ms: at(&off, 0.95),
            error_p99_ms: at(&off, 0.99),
            pause_mean_ms: mean(&real),
            pause_p99_ms: at(&real, 0.99),
        })
    };
    FITS.iter().enumerate().filter_map(row).collect()
}

/// A quantile of sorted numbers.
fn at(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

const HEAD: [&str; 11] = [
    "record", "fit", "pauses", "±1 ms", "±4 ms", "±8 ms", "bias", "p50 off", "p95 off", "p99 off",
    "pause",
];

impl Row {
    fn cells(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", share * 1e2);
        let ms = |time: f64| format!("{time:.2} ms");
        vec![
            self.record.clone(),
            self.fit.to_owned(),
            self.predictions.to_string(),
            percent(self.within_1ms),
            percent(self.within_4ms),
            percent(self.within_8ms),
            ms(self.bias_ms),
            ms(self.error_p50_ms),
            ms(self.error_p95_ms),
            ms(self.error_p99_ms),
            ms(self.pause_mean_ms),
        ]
    }
}

fn legend() -> String {
    format!(
        "±4 ms: the share of predictions that were off by no more. The paper's RANSAC: {:.0} % \
         under a key-value churn, less in complex programs. pause: their mean.",
        PUBLISHED * 1e2
    )
}

fn table(rows: &[Row]) -> String {
    let groups: Vec<Vec<_>> = rows
        .chunk_by(|a, b| a.record == b.record)
        .map(|of| of.iter().map(Row::cells).collect())
        .collect();
    grid::render(&HEAD, 2, &groups) + "\n\n" + &legend() + "\n"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record() -> Record {
        let ms = Duration::from_millis;
        let pause = |predicted: u64, real: u64| Pause {
            kind: "young".into(),
            predicted: [Some(ms(predicted)), Some(ms(predicted + 6))],
            real: ms(real),
        };
        let first = Pause { kind: "young".into(), predicted: [None; 2], real: ms(7) };
        let pauses = vec![first, pause(10, 10), pause(12, 10), pause(10, 13), pause(30, 10)];
        Record { name: "churn".into(), pauses }
    }

    #[test]
    fn errors_are_counted_of_what_was_predicted() {
        let [ransac, ols] = &rows(&record())[..] else { panic!("two fits") };
        assert_eq!((ransac.predictions, ransac.within_1ms, ransac.within_4ms), (4, 0.25, 0.75));
        assert_eq!((ols.within_1ms, ols.within_4ms, ols.within_8ms), (0.0, 0.25, 0.75));
        assert_eq!((ransac.error_p50_ms.round(), ransac.error_p99_ms.round()), (2.0, 20.0));
        assert_eq!(ransac.bias_ms.round(), 5.0);
        let text = table(&rows(&record()));
        assert!(text.contains("RANSAC") && text.contains("75.0 %"), "{text}");
        assert!(page::render(&[record()], &rows(&record())).contains("<svg"));
    }
}
