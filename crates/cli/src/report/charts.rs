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
mod by_load;
mod fates;
mod legend;
pub(crate) mod lines;
mod over_time;
mod palette;
mod run;
mod sheet;
mod spike;
mod stroke;

use self::palette::Ink;
use self::stroke::{Mark, Stroke};
use super::data::{NO_CONTROL, ServiceReport};
use super::run::Report;

/// A chart and what is said above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    /// What it shows.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) caption: String,
    /// The picture.
    pub(crate) svg: String,
}

/// All charts of a service. `id` begins the ids of its elements: unique within the page, letters
/// and digits only.
pub(super) fn service(service: &ServiceReport, id: &str) -> Vec<Chart> {
    let mut charts = vec![by_load::goodput(service, id), by_load::tail(service, id)];
    charts.extend(fates::all(service, id));
    charts.extend(spike::all(service, id));
    charts
}

/// All charts of one load.
pub(super) fn run(run: &Report) -> Vec<Chart> {
    run::all(run)
}

/// Style rules that turn the charts inside `selector` dark.
pub(super) fn dark_rules(selector: &str) -> String {
    palette::dark_rules(selector)
}

/// How the series of one control looks, the same in every chart of a service.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    ink: Ink,
    mark: Mark,
}

impl Look {
    fn of(service: &ServiceReport, control: &str) -> Self {
        if control == NO_CONTROL {
            return Self { ink: palette::WITHOUT, mark: Mark::Square };
        }
        let index = service.controls().iter().position(|&name| name == control).unwrap_or(0);
        let marks = [Mark::Circle, Mark::Diamond, Mark::Triangle];
        let ink = palette::WITH[index % palette::WITH.len()];
        Self { ink, mark: marks[index % marks.len()] }
    }

    fn stroke(self) -> Stroke {
        Stroke::solid(self.ink, 5)
    }
}

/// What a control is called in legends and titles.
fn name_of(control: &str) -> String {
    if control == NO_CONTROL { "without control".into() } else { control.into() }
}

/// The largest of these that is a number; zero if there is none.
fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use seawall_measure::Settled;

    use super::*;
    use crate::report::data::{Point, Spike};
    use crate::report::sample;

    fn check(report: &ServiceReport) -> Vec<Chart> {
        check_all(service(report, "s0"), "s0")
    }

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

    fn with_points(change: impl Fn(&mut Vec<Point>)) -> ServiceReport {
        let mut report = sample::service();
        change(&mut report.points);
        report
    }

    #[test]
    fn the_sample_has_all_charts() {
        let titles: Vec<String> =
            check(&sample::service()).into_iter().map(|chart| chart.title).collect();
        assert_eq!(titles.len(), 6, "{titles:?}");
    }

    #[test]
    fn odd_points_do_no_harm() {
        check(&sample::stalled());
        check(&with_points(Vec::clear));
        check(&with_points(|points| points.truncate(1)));
        check(&with_points(|points| points.iter_mut().for_each(|point| point.valid = false)));
        check(&with_points(|points| {
            for point in points {
                (point.load, point.offered, point.goodput, point.throughput) = (0.0, 0.0, 0.0, 0.0);
                (point.p50_us, point.p99_us) = (Some(0.0), Some(0.0));
            }
        }));
        check(&with_points(|points| {
            points[0].goodput = f64::NAN;
            points[1].p99_us = Some(f64::INFINITY);
            points[2].load = f64::NAN;
            points[3].client_drop_rate = f64::NAN;
            points[4].client_drop_rate = 7.0;
            points[5].offered = f64::NEG_INFINITY;
        }));
    }

    #[test]
    fn odd_services_do_no_harm() {
        let mut report = sample::service();
        (report.slo_us, report.capacity, report.peak_uncontrolled) = (0.0, 0.0, None);
        check(&report);
        (report.slo_us, report.capacity) = (f64::NAN, f64::INFINITY);
        check(&report);
        let points = |name: String| {
            sample::service().points.into_iter().map(move |p| Point { control: name.clone(), ..p })
        };
        report.points = (0..9).flat_map(|n| points(format!("algorithm & {n}"))).collect();
        check(&report);
    }

    #[test]
    fn odd_spikes_do_no_harm() {
        let edit = |change: fn(&mut Spike)| {
            let mut report = sample::service();
            change(report.spike.as_mut().unwrap());
            check(&report);
        };
        edit(|spike| spike.runs.clear());
        edit(|spike| spike.runs[0].series.clear());
        edit(|spike| spike.runs.iter_mut().for_each(|run| run.series.truncate(1)));
        edit(|spike| spike.at_s = f64::NAN);
        edit(|spike| {
            spike.stable_after_ms = Some(1e9);
            spike.runs[0].stable_after_ms = Some(1e9);
        });
        edit(|spike| {
            for bin in spike.runs.iter_mut().flat_map(|run| &mut run.series) {
                (bin.offered, bin.goodput, bin.p99_us) = (0.0, 0.0, None);
            }
        });
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

    #[test]
    fn names_are_escaped() {
        let report = with_points(|points| points[15].control = "<b>&".into());
        let text: String = check(&report).into_iter().map(|chart| chart.svg).collect();
        assert!(!text.contains("<b>") && text.contains("&lt;b&gt;&amp;"));
    }
}
