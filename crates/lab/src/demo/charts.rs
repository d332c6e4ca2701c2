//! The demo's pictures.

use super::result::{Measured, NO_CONTROL, Numbers, Point, Spike, SpikeRun};
use crate::report::charts::Chart;
use crate::report::charts::lines::{Across, Line, Lines, Role, Spot, Unit};
use crate::report::format;

/// Bins of a spike that make one point of a line: 100 ms.
const TOGETHER: usize = 5;

/// Goodput and p99 over the load. `id` begins the ids of their elements.
pub(super) fn by_load(service: &Measured, id: &str) -> Vec<Chart> {
    if service.points.is_empty() {
        return Vec::new();
    }
    if service.points.iter().all(|point| point.classes.is_empty()) {
        return vec![goodput(service, id), tail(service, id)];
    }
    let classes = service.service.classes().iter().enumerate();
    let charts = classes.map(|(index, name)| of_class(service, name, index, id));
    charts.chain([tail(service, id)]).collect()
}

/// Goodput over the load: the demo in one picture.
pub(super) fn goodput(service: &Measured, id: &str) -> Chart {
    let all = |point: &Point| point.all.clone();
    over_load(service, &format!("{id}-goodput"), "Goodput", Unit::Rate, all)
}

fn tail(service: &Measured, id: &str) -> Chart {
    let all = |point: &Point| point.all.clone();
    over_load(service, &format!("{id}-tail"), "Tail latency", Unit::Delay, all)
}

fn of_class(service: &Measured, name: &str, index: usize, id: &str) -> Chart {
    let title =
        if index == 0 { "Goodput of requests that need the lock" } else { "Goodput of the others" };
    let class = |point: &Point| point.class(name).clone();
    over_load(service, &format!("{id}-class{index}"), title, Unit::Rate, class)
}

fn over_load(
    service: &Measured,
    id: &str,
    title: &str,
    unit: Unit,
    numbers: impl Fn(&Point) -> Numbers,
) -> Chart {
    let is_whole = title == "Goodput";
    let (y, caption, bound) = match unit {
        Unit::Delay => (
            "p99 latency",
            "99th percentile from when a request was due, of those served. Points at the top are \
             lower bounds: more than 1 % were never answered.",
            Some((service.slo_us, format!("SLO {}", format::delay(service.slo_us)))),
        ),
        _ => (
            "goodput (per second)",
            "Requests served within the SLO. A perfect service follows the load up to its \
             capacity, then stays there.",
            is_whole.then(|| {
                (service.capacity, format!("capacity {}/s", format::rate(service.capacity)))
            }),
        ),
    };
    let line = |controlled: bool| Line {
        name: if controlled { "with Seawall".into() } else { "without control".into() },
        points: service
            .points(controlled)
            .filter_map(|point| {
                let numbers = numbers(point);
                let y = if unit == Unit::Delay { numbers.p99_us? } else { numbers.goodput };
                Some(Spot { x: point.load, y, valid: point.valid })
            })
            .collect(),
        role: if controlled { Role::With } else { Role::Without },
    };
    let lines = Lines {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        x: "offered load (multiple of the capacity)".into(),
        across: Across::Numbers(format::load),
        y: y.into(),
        unit,
        bound,
        lines: vec![line(true), line(false)],
    };
    lines.chart()
}

/// Goodput and p99 over time, while the load rises.
pub(super) fn spike(service: &Measured, spike: &Spike, id: &str) -> Vec<Chart> {
    let rate = |bins: &[super::result::Bin]| {
        Some(bins.iter().map(|bin| bin.goodput).sum::<f64>() / bins.len() as f64)
    };
    let delay =
        |bins: &[super::result::Bin]| bins.iter().filter_map(|bin| bin.p99_us).reduce(f64::max);
    let chart = |id: String,
                 title: &str,
                 y: &str,
                 unit,
                 bound,
                 caption: &str,
                 value: &dyn Fn(&[_]) -> _| {
        let line = |run: &SpikeRun| {
            let controlled = run.control != NO_CONTROL;
            let spot = |bins: &[super::result::Bin]| {
                Some(Spot { x: bins[0].t_s, y: value(bins)?, valid: true })
            };
            Line {
                name: if controlled { "with Seawall".into() } else { "without control".into() },
                points: run.bins.chunks(TOGETHER).filter_map(spot).collect(),
                role: if controlled { Role::With } else { Role::Without },
            }
        };
        let lines = Lines {
            id,
            title: title.into(),
            caption: caption.into(),
            x: format!("time (s); the load rises at {:.1} s", spike.at_s),
            across: Across::Numbers(format::tick),
            y: y.into(),
            unit,
            bound,
            lines: spike.runs.iter().rev().map(line).collect(),
        };
        lines.chart()
    };
    let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
    let slo = Some((service.slo_us, format!("SLO {}", format::delay(service.slo_us))));
    let most = Some((service.capacity, format!("capacity {}/s", format::rate(service.capacity))));
    vec![
        chart(
            format!("{id}-spike-goodput"),
            &format!("From {from} to {to} at once: goodput"),
            "goodput (per second)",
            Unit::Rate,
            most,
            "In steps of 100 ms; each request counts when it completes.",
            &rate,
        ),
        chart(
            format!("{id}-spike-tail"),
            &format!("From {from} to {to} at once: tail latency"),
            "p99 latency",
            Unit::Delay,
            slo,
            "The highest p99 of bins of 20 ms, in steps of 100 ms.",
            &delay,
        ),
    ]
}
