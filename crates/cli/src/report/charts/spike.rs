//! The spike over time: goodput against what was offered, and the tail against the SLO.

use super::axis::{self, Axis};
use super::legend::{Entry, Swatch};
use super::over_time::{self, Slo};
use super::sheet::{Frame, Sheet};
use super::stroke::Stroke;
use super::{Chart, Look, largest, name_of, palette};
use crate::report::data::{Bin, NO_CONTROL, SPIKE_BIN_S, ServiceReport, Spike, SpikeRun};
use crate::report::format;

/// The charts of the spike, if there was one.
pub(super) fn all(service: &ServiceReport, id: &str) -> Vec<Chart> {
    let Some(spike) = &service.spike else { return Vec::new() };
    if spike.runs.iter().all(|run| run.series.is_empty()) {
        return Vec::new();
    }
    vec![goodput(service, spike, id), tail(service, spike, id)]
}

fn goodput(service: &ServiceReport, spike: &Spike, id: &str) -> Chart {
    let rates = bins(spike).flat_map(|bin| [bin.offered, bin.goodput]);
    let y = over_time::rates(largest(rates));
    let offered = Stroke::solid(palette::OFFERED, 3);
    let mut legend = runs(service, spike, "goodput ");
    legend.push(Entry::new(Swatch::Line(offered, None), "offered"));
    let title = rise(spike, "goodput");
    let frame = frame(service, spike, (format!("{id}-spike-goodput"), &title), y, legend);
    let svg = frame.draw(|sheet| {
        // Both runs were offered the same, so that one line stands for both.
        if let Some(run) = spike.runs.iter().find(|run| !run.series.is_empty()) {
            draw(sheet, run, offered, |bin| Some(bin.offered));
        }
        for run in spike.runs.iter().rev() {
            let look = Look::of(service, &run.control);
            draw(sheet, run, Stroke::solid(look.ink, 4), |bin| Some(bin.goodput));
        }
        moments(sheet, service, spike);
    });
    let caption = "Goodput in bins of 20 ms, each request counted when it completes.";
    Chart { title, caption: caption.into(), svg }
}

fn tail(service: &ServiceReport, spike: &Spike, id: &str) -> Chart {
    let delays = bins(spike).filter_map(|bin| bin.p99_us);
    let y = Axis::delays("p99 latency (log scale)", delays.chain([service.slo_us]));
    let slo = Slo::new(service.slo_us);
    let mut legend = runs(service, spike, "");
    legend.extend(slo.entry());
    let title = rise(spike, "tail latency");
    let bottom = y.min;
    let frame = frame(service, spike, (format!("{id}-spike-tail"), &title), y, legend);
    let svg = frame.draw(|sheet| {
        slo.draw(sheet);
        for run in spike.runs.iter().rev() {
            let look = Look::of(service, &run.control);
            let power = |bin: &Bin| bin.p99_us.map(|us| axis::power(us).unwrap_or(bottom));
            draw(sheet, run, Stroke::solid(look.ink, 4), power);
        }
        moments(sheet, service, spike);
    });
    let caption = "99th percentile in the same bins; a gap is a bin in which nothing completed.";
    Chart { title, caption: caption.into(), svg }
}

fn frame(
    service: &ServiceReport,
    spike: &Spike,
    (id, title): (String, &str),
    y: Axis,
    legend: Vec<Entry>,
) -> Frame {
    let settled: Vec<String> = spike
        .runs
        .iter()
        .map(|run| {
            format!("{}, stable: {}.", name_of(&run.control), spike.stable(run.stable_after_ms))
        })
        .collect();
    let end = largest(bins(spike).map(|bin| bin.t_s + SPIKE_BIN_S));
    Frame {
        id,
        title: format!("{title}: {}", service.service),
        description: settled.join(" "),
        x: over_time::axis(end),
        y,
        legend,
        flags: 1 + spike.runs.iter().filter(|run| run.stable_after_ms.is_some()).count() as i32,
    }
}

fn rise(spike: &Spike, what: &str) -> String {
    let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
    format!("Load from {from} to {to} at once: {what}")
}

fn runs(service: &ServiceReport, spike: &Spike, what: &str) -> Vec<Entry> {
    let entry = |run: &SpikeRun| {
        let stroke = Stroke::solid(Look::of(service, &run.control).ink, 4);
        let with = if what.is_empty() || run.control == NO_CONTROL { "" } else { "with " };
        let name = format!("{what}{with}{}", name_of(&run.control));
        Entry::new(Swatch::Line(stroke, None), name)
    };
    spike.runs.iter().filter(|run| !run.series.is_empty()).map(entry).collect()
}

/// The line of one run.
fn draw(
    sheet: &Sheet<'_, '_>,
    run: &SpikeRun,
    stroke: Stroke,
    value: impl Fn(&Bin) -> Option<f64>,
) {
    over_time::line(sheet, run.series.iter().map(|bin| (bin.t_s, value(bin))), stroke);
}

/// When the load rises, and when each run that became stable did.
fn moments(sheet: &mut Sheet<'_, '_>, service: &ServiceReport, spike: &Spike) {
    if !spike.at_s.is_finite() {
        return;
    }
    let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
    let name = format!("load rises from {from} to {to}");
    sheet.moment(spike.at_s, &name, Stroke::dashed(palette::BOUND, 2));
    for run in &spike.runs {
        let Some(ms) = run.stable_after_ms.filter(|ms| ms.is_finite()) else { continue };
        let ink = Look::of(service, &run.control).ink;
        let name = format!("{}: stable after {}", name_of(&run.control), format::delay_ms(ms));
        sheet.moment(spike.at_s + ms / 1e3, &name, Stroke::dashed(ink, 3));
    }
}

fn bins(spike: &Spike) -> impl Iterator<Item = &Bin> {
    spike.runs.iter().flat_map(|run| &run.series)
}
