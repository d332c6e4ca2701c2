//! The charts of the pages, each an SVG element.
//!
//! ```text
//!  service() ─► by_load   goodput and tail over the load
//!            ├► fates     what became of the offered requests, one chart for each control
//!            └► spike     goodput and tail over time
//!  run() ─────► run       rates, tail and drops over time
//!            └► fates     what became of the offered requests, one bar for each class
//!                  │
//!                  ▼
//!               sheet     one chart: frame, legend, axes; strokes in the units of its axes
//! ```
//!
//! Values that are not numbers are never drawn, and a chart of nothing is an empty frame.

mod axis;
mod canvas;
mod fates;
mod legend;
pub mod lines;
mod over_time;
mod palette;
mod run;
mod sheet;

use super::run::Report;

/// A chart and what is said above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The picture.
    pub svg: String,
}

impl Chart {
    /// The picture as a file of its own, on white.
    pub fn standalone(&self) -> String {
        let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n<title";
        self.svg.replacen("<title", ground, 1)
    }
}

/// All charts of one load.
pub(super) fn run(run: &Report) -> Vec<Chart> {
    run::all(run)
}

/// Style rules that turn the charts inside `selector` dark.
pub(super) fn dark_rules(selector: &str) -> String {
    palette::dark_rules(selector)
}

/// The largest of these that is a number; zero if there is none.
fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use seawall_measure::Settled;

    use super::*;
    use crate::report::sample;

    fn check_run(report: &Report) -> Vec<Chart> {
        check_all(run(report), "run")
    }

    /// What every chart must be, whatever it shows.
    fn check_all(charts: Vec<Chart>, id: &str) -> Vec<Chart> {
        let (title, description) = (format!("<title id=\"{id}-"), format!("<desc id=\"{id}-"));
        for chart in &charts {
            let svg = &chart.svg;
            assert!(svg.starts_with("<svg viewBox=") && svg.trim_end().ends_with("</svg>"));
            assert!(svg.contains(&title) && svg.contains(&description), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches("<svg").count(), 1);
        }
        charts
    }

    #[test]
    fn a_run_has_all_charts() {
        let charts = check_run(&sample::run());
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        let expected =
            ["Offered and served", "Tail latency", "Drops", "What became of the requests"];
        assert_eq!(titles, expected);
        assert!(charts[0].caption.contains("in bins of 20 ms"), "{}", charts[0].caption);
        assert!(charts[0].svg.contains("stable after 140 ms"), "{}", charts[0].svg);
    }

    #[test]
    fn odd_runs_do_no_harm() {
        let edit = |change: fn(&mut Report)| {
            let mut report = sample::run();
            change(&mut report);
            check_run(&report);
        };
        edit(|run| run.bins.clear());
        edit(|run| run.bins.truncate(1));
        edit(|run| run.shifts = vec![run.shifts[0]; 40]);
        edit(|run| run.shifts[0].settled = Settled::Never);
        edit(|run| (run.measured_from_s, run.summary.slo_us) = (0.0, 0.0));
        edit(|run| (run.bin_s, run.shifts[0].at_s) = (f64::NAN, f64::INFINITY));
        edit(|run| run.summary.classes.clear());
        edit(|run| {
            for bin in &mut run.bins {
                (bin.offered, bin.goodput, bin.throughput, bin.p99_us) = (0.0, 0.0, 0.0, None);
                (bin.client_drops, bin.server_drops) = (0.0, f64::NAN);
            }
        });
    }
}
