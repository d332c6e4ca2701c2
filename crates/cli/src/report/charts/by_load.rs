//! Goodput and tail latency over the offered load.

use super::axis::{self, Axis};
use super::legend::{Entry, Swatch};
use super::over_time::Slo;
use super::sheet::{Frame, Sheet};
use super::stroke::{Mark, Stroke};
use super::{Chart, Look, largest, name_of, palette};
use crate::report::data::{NO_CONTROL, Point, ServiceReport};
use crate::report::format;

/// Where a point stands, if it has a value there.
type Place = Option<(f64, f64)>;

/// Goodput with and without control over the load, and what the service can do at most.
pub(super) fn goodput(service: &ServiceReport, id: &str) -> Chart {
    let rates = service.points.iter().map(|point| point.goodput);
    let x = load_axis(service);
    let highest = largest(rates.chain([service.capacity]));
    let unit = "goodput (requests per second)";
    let y = Axis::linear(unit, highest, 1.1, |rate| format::round(&format::rate(rate)));
    let capacity = Some(service.capacity).filter(|rate| rate.is_finite() && *rate > 0.0);
    let bound = Stroke::dashed(palette::BOUND, 3);
    let offered = Stroke::solid(palette::OFFERED, 3);
    let mut legend = controls(service);
    if let Some(capacity) = capacity {
        let name = format!("capacity {}/s", format::rate(capacity));
        legend.push(Entry::new(Swatch::Line(bound, None), name));
        legend.push(Entry::new(Swatch::Line(offered, None), "all that was offered"));
    }
    legend.extend(odd_points(service, false));
    let place = |point: &Point| placed(point.load, Some(point.goodput));
    let title = "Goodput";
    let frame = Frame {
        id: format!("{id}-goodput"),
        title: format!("{title} of {} over the offered load", service.service),
        description: describe(service, "goodput", |p| format!("{}/s", format::rate(p.goodput))),
        x,
        y,
        legend,
        flags: 0,
    };
    let svg = frame.draw(|sheet| {
        if let Some(capacity) = capacity {
            let end = (frame.y.max / capacity).min(frame.x.max);
            sheet.line(&[(0.0, 0.0), (end, end * capacity)], offered);
            sheet.level(capacity, bound);
        }
        draw_controls(sheet, service, place);
    });
    let caption = "Requests per second served within the SLO. Ideally the line follows what is \
                   offered up to the capacity, then stays there.";
    Chart { title: title.into(), caption: caption.into(), svg }
}

/// The 99th percentile with and without control over the load, and the SLO.
pub(super) fn tail(service: &ServiceReport, id: &str) -> Chart {
    let delays = service.points.iter().filter_map(|point| point.p99_us);
    let y = Axis::delays("p99 latency (log scale)", delays.chain([service.slo_us]));
    let slo = Slo::new(service.slo_us);
    let mut legend = controls(service);
    legend.extend(slo.entry());
    legend.extend(odd_points(service, true));
    let bottom = y.min;
    let place = |point: &Point| {
        let us = point.p99_us.filter(|us| us.is_finite() && *us >= 0.0)?;
        placed(point.load, Some(axis::power(us).unwrap_or(bottom)))
    };
    let title = "Tail latency";
    let frame = Frame {
        id: format!("{id}-tail"),
        title: format!("99th percentile latency of {} over the offered load", service.service),
        description: describe(service, "p99", |p| format::delay_or_nothing(p.p99_us)),
        x: load_axis(service),
        y,
        legend,
        flags: 0,
    };
    let svg = frame.draw(|sheet| {
        slo.draw(sheet);
        draw_controls(sheet, service, place);
        let stalled = in_order(service).filter(|p| p.p99_us.is_none() && p.load.is_finite());
        for point in stalled {
            let ink = Look::of(service, &point.control).ink;
            sheet.mark(sheet.top(point.load), Mark::Triangle, ink, point.valid);
        }
    });
    let caption = "99th percentile of the latency of what was served, from the scheduled time.";
    Chart { title: title.into(), caption: caption.into(), svg }
}

fn load_axis(service: &ServiceReport) -> Axis {
    let highest = largest(service.points.iter().map(|point| point.load));
    let label = "offered load (multiple of the measured capacity)";
    Axis::linear(label, highest, 1.04, format::load)
}

/// One entry for each control that has points.
fn controls(service: &ServiceReport) -> Vec<Entry> {
    let controls = service.controls();
    let measured = controls.iter().filter(|control| !service.points_of(control).is_empty());
    let entry = |control: &&str| {
        let look = Look::of(service, control);
        Entry::new(Swatch::Line(look.stroke(), Some(look.mark)), name_of(control))
    };
    measured.map(entry).collect()
}

/// Entries for hollow points and for those at the upper edge, where there are such.
fn odd_points(service: &ServiceReport, delays: bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    if service.points.iter().any(|point| !point.valid) {
        entries.push(Entry::new(Swatch::Invalid, "not valid: load not offered"));
    }
    if delays && service.points.iter().any(|point| point.p99_us.is_none()) {
        entries.push(Entry::new(Swatch::Nothing, "nothing was served"));
    }
    entries
}

/// Every control's points and the lines between them, no control first so that it lies below.
fn draw_controls(sheet: &Sheet<'_, '_>, service: &ServiceReport, place: impl Fn(&Point) -> Place) {
    for control in service.controls().into_iter().rev() {
        let look = Look::of(service, control);
        let points = service.points_of(control);
        let places: Vec<(Place, bool)> =
            points.into_iter().map(|point| (place(point), point.valid)).collect();
        for pair in places.windows(2) {
            let [(Some(from), valid_from), (Some(to), valid_to)] = pair else { continue };
            let sure = *valid_from && *valid_to;
            let stroke = if sure { look.stroke() } else { look.stroke().faint() };
            sheet.line(&[*from, *to], stroke);
        }
        for (place, valid) in places {
            if let Some(place) = place {
                sheet.mark(place, look.mark, look.ink, valid);
            }
        }
    }
}

/// All points in the order of drawing: no control first, so that it lies below.
fn in_order(service: &ServiceReport) -> impl Iterator<Item = &Point> {
    service.controls().into_iter().rev().flat_map(|control| service.points_of(control))
}

/// Both coordinates if both are numbers.
fn placed(x: f64, y: Option<f64>) -> Place {
    y.filter(|y| y.is_finite() && x.is_finite()).map(|y| (x, y))
}

/// The ends of each line, for those who do not see them.
fn describe(service: &ServiceReport, what: &str, text: impl Fn(&Point) -> String) -> String {
    let mut description = String::new();
    for control in service.controls() {
        let points: Vec<&Point> =
            service.points_of(control).into_iter().filter(|point| point.valid).collect();
        if let [first, .., last] = points[..] {
            let with = if control == NO_CONTROL { String::new() } else { "With ".into() };
            description += &format!(
                "{with}{}, {what} is {} at {} and {} at {}. ",
                name_of(control),
                text(first),
                format::load(first.load),
                text(last),
                format::load(last.load)
            );
        }
    }
    description + "All numbers are in the table below."
}
