//! What became of the offered requests: one bar for each load, one chart for each control.

use super::axis::Axis;
use super::legend::{Entry, Swatch};
use super::palette::{self, Ink};
use super::sheet::{Frame, Sheet};
use super::{Chart, name_of};
use crate::report::data::{NO_CONTROL, Point, ServiceReport};
use crate::report::format;

/// The possible ends of a request, from the bottom of a bar to its top.
const FATES: [(Ink, &str); 5] = [
    (palette::GOOD, "within the SLO"),
    (palette::LATE, "served late"),
    (palette::REFUSED, "refused by server"),
    (palette::DROPPED, "dropped at client"),
    (palette::LOST, "no answer or error"),
];

/// A chart for each control that was measured.
pub(super) fn all(service: &ServiceReport, id: &str) -> Vec<Chart> {
    let controls = service.controls().into_iter().enumerate();
    let measured = controls.map(|(index, control)| (index, control, service.points_of(control)));
    measured
        .filter(|(_, _, points)| !points.is_empty())
        .map(|(index, control, points)| {
            chart(service, control, &points, &format!("{id}-fate{index}"))
        })
        .collect()
}

fn chart(service: &ServiceReport, control: &str, points: &[&Point], id: &str) -> Chart {
    let named = |point: &&Point| {
        let mark = if point.valid { "" } else { "*" };
        format!("{}{mark}", format::load(point.load))
    };
    let names: Vec<String> = points.iter().map(named).collect();
    let all_valid = points.iter().all(|point| point.valid);
    let note = if all_valid { "" } else { "; *: not valid" };
    let x = format!("offered load (multiple of the measured capacity{note})");
    let legend = FATES.map(|(ink, name)| Entry::new(Swatch::Area(ink), name)).to_vec();
    let with = if control == NO_CONTROL { "" } else { "with " };
    let title = format!("What became of the requests, {with}{}", name_of(control));
    let frame = Frame {
        id: id.into(),
        title: format!("{title}: {}", service.service),
        description: describe(points),
        x: Axis::places(x, &names, Sheet::most_places(&names)),
        y: Axis::linear("share of the offered requests", 1.0, 1.0, |share| {
            format!("{:.0} %", share * 100.0)
        }),
        legend,
        flags: 0,
    };
    let svg = frame.draw(|sheet| {
        for (index, point) in points.iter().enumerate() {
            let alpha = if point.valid { 1.0 } else { 0.4 };
            let mut from = 0.0;
            for ((ink, _), share) in FATES.iter().zip(shares(point)) {
                sheet.bar(index as f64, (from, from + share), *ink, alpha);
                from += share;
            }
        }
    });
    let caption = "Drops are shares of all offered requests here. Refusals never count as goodput.";
    Chart { title, caption: caption.into(), svg }
}

/// How many of the offered requests ended in each way; together one.
fn shares(point: &Point) -> [f64; 5] {
    let part = |value: f64, most: f64| {
        if value.is_finite() { value.clamp(0.0, most.max(0.0)) } else { 0.0 }
    };
    if !(point.offered.is_finite() && point.offered > 0.0) {
        return [0.0; 5];
    }
    let good = part(point.goodput / point.offered, 1.0);
    let late = part((point.throughput - point.goodput) / point.offered, 1.0 - good);
    let dropped = part(point.client_drop_rate, 1.0 - good - late);
    let sent = 1.0 - dropped;
    let refused = part(point.server_drop_rate * sent, 1.0 - good - late - dropped);
    let lost = (1.0 - good - late - dropped - refused).max(0.0);
    // The rest of a rounding is nobody's fate.
    let lost = if lost < 1e-3 { 0.0 } else { lost };
    [good, late, refused, dropped, lost]
}

fn describe(points: &[&Point]) -> String {
    let one = |point: &&Point| {
        let parts = FATES.iter().zip(shares(point)).filter(|(_, share)| *share > 0.0);
        let parts: Vec<String> =
            parts.map(|((_, name), share)| format!("{} {name}", format::percent(share))).collect();
        format!("At {}: {}.", format::load(point.load), parts.join(", "))
    };
    points.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn shares_add_up() {
        for point in sample::service().points.iter().chain(&sample::stalled().points) {
            let sum: f64 = shares(point).iter().sum();
            assert!((sum - 1.0).abs() < 2e-3, "{sum} {point:?}");
            assert!(shares(point).iter().all(|share| *share >= 0.0));
        }
    }

    #[test]
    fn refusals_are_a_share_of_what_was_sent() {
        let point = Point {
            offered: 100.0,
            goodput: 40.0,
            throughput: 50.0,
            client_drop_rate: 0.2,
            server_drop_rate: 0.25,
            ..sample::service().points[0].clone()
        };
        let expected = [0.4, 0.1, 0.2, 0.2, 0.1];
        for (share, expected) in shares(&point).into_iter().zip(expected) {
            assert!((share - expected).abs() < 1e-9, "{share} {expected}");
        }
        assert_eq!(shares(&Point { offered: 0.0, ..point }), [0.0; 5]);
    }
}
