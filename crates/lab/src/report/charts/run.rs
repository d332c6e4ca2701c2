//! One load over time: rates, tail and drops.

use seawall_measure::Bin;

use super::axis::{self, Axis};
use super::canvas::Stroke;
use super::legend::{Entry, Swatch};
use super::over_time::{self, Slo};
use super::sheet::{Frame, Sheet};
use super::{Chart, fates, largest, palette};
use crate::report::format;
use crate::report::run::Report;

/// Shifts whose names fit above a plot; further ones are only lines.
const NAMED_SHIFTS: usize = 3;

/// All charts of a load.
pub(super) fn all(run: &Report) -> Vec<Chart> {
    vec![rates(run), tail(run), drops(run), fates::of_classes(run)]
}

/// What is drawn over time: its value in a bin, its line and its name.
struct Line {
    value: fn(&Bin) -> f64,
    stroke: Stroke,
    name: &'static str,
}

fn rates(run: &Report) -> Chart {
    // What was served is wide, so that goodput lies within it while all of it is in time.
    let lines = [
        Line {
            value: |bin| bin.offered,
            stroke: Stroke::solid(palette::OFFERED, 1.5),
            name: "offered",
        },
        Line {
            value: |bin| bin.throughput,
            stroke: Stroke::solid(palette::LATE, 4.5),
            name: "served",
        },
        Line {
            value: |bin| bin.goodput,
            stroke: Stroke::solid(palette::GOOD, 2.5),
            name: "goodput (served within the SLO)",
        },
    ];
    let caption = "Goodput lies on what was served while all of it is in time.";
    over_bins(run, "run-rates", "Offered and served", caption, &lines)
}

fn drops(run: &Report) -> Chart {
    let lines = [
        Line {
            value: |bin| bin.client_drops,
            stroke: Stroke::solid(palette::DROPPED, 2.0),
            name: "dropped at the clients, unsent",
        },
        Line {
            value: |bin| bin.server_drops,
            stroke: Stroke::solid(palette::REFUSED, 2.0),
            name: "refused by the servers",
        },
    ];
    let caption = "What clients give up costs the server nothing; a refusal costs it a little.";
    over_bins(run, "run-drops", "Drops", caption, &lines)
}

/// A chart of rates.
fn over_bins(run: &Report, id: &str, title: &str, caption: &str, lines: &[Line]) -> Chart {
    let rates = lines.iter().flat_map(|line| run.bins.iter().map(line.value));
    let highest = largest(rates);
    let entry = |line: &Line| Entry::new(Swatch::Line(line.stroke, None), line.name);
    let peaks: Vec<String> = lines
        .iter()
        .map(|line| {
            let peak = format::rate(largest(run.bins.iter().map(line.value)));
            format!("{}: up to {peak}/s.", line.name)
        })
        .collect();
    let frame = Frame {
        id: id.into(),
        title: format!("{title} over time"),
        description: peaks.join(" "),
        x: over_time::axis(end(run)),
        y: over_time::rates(highest),
        legend: lines.iter().map(entry).collect(),
        flags: flags(run),
    };
    let svg = frame.draw(|sheet| {
        for line in lines {
            let values = run.bins.iter().map(|bin| (bin.begin_seconds, Some((line.value)(bin))));
            over_time::line(sheet, values, line.stroke);
        }
        moments(sheet, run);
    });
    let caption = format!("Requests per second in bins of {}. {caption}", width(run));
    Chart { title: title.into(), caption, svg }
}

fn tail(run: &Report) -> Chart {
    let delays = run.bins.iter().filter_map(|bin| bin.p99_us);
    let highest = largest(delays.clone());
    let y = Axis::delays("p99 latency (log scale)", delays.chain([run.summary.slo_us]));
    let slo = Slo::new(run.summary.slo_us);
    let stroke = Stroke::solid(palette::WITH[0], 2.0);
    let mut legend = vec![Entry::new(Swatch::Line(stroke, None), "p99")];
    legend.extend(slo.entry());
    let bottom = y.min;
    let frame = Frame {
        id: "run-tail".into(),
        title: "99th percentile latency over time".into(),
        description: format!("Up to {}.", format::delay(highest)),
        x: over_time::axis(end(run)),
        y,
        legend,
        flags: flags(run),
    };
    let svg = frame.draw(|sheet| {
        slo.draw(sheet);
        let power = |us| axis::power(us).unwrap_or(bottom);
        let values = run.bins.iter().map(|bin| (bin.begin_seconds, bin.p99_us.map(power)));
        over_time::line(sheet, values, stroke);
        moments(sheet, run);
    });
    let caption = format!(
        "99th percentile of what was served in each bin of {}, from the scheduled time; a gap is a \
         bin in which nothing was.",
        width(run)
    );
    Chart { title: "Tail latency".into(), caption, svg }
}

/// The begin of the measurement and the shifts of the load.
fn moments(sheet: &mut Sheet<'_>, run: &Report) {
    let bound = Stroke::dashed(palette::BOUND, 1.0);
    if run.measured_from_s > 0.0 {
        sheet.moment(run.measured_from_s, "measured from here", bound);
    }
    for (index, shift) in run.shifts.iter().enumerate() {
        if index < NAMED_SHIFTS {
            let name = format!("{}: {}", shift.rates(), shift.settled());
            sheet.moment(shift.at_s, &name, bound);
        } else {
            sheet.upright(shift.at_s, bound);
        }
    }
}

fn flags(run: &Report) -> u32 {
    u32::from(run.measured_from_s > 0.0) + run.shifts.len().min(NAMED_SHIFTS) as u32
}

fn end(run: &Report) -> f64 {
    largest(run.bins.iter().map(|bin| bin.begin_seconds + run.bin_s))
}

fn width(run: &Report) -> String {
    format::round(&format::delay(run.bin_s * 1e6))
}
