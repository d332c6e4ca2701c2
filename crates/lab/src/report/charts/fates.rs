//! What became of the offered requests: one bar for each load and one chart for each control, or
//! one bar for each class.

use seawall_measure::Figures;

use super::Chart;
use super::axis::Axis;
use super::legend::{Entry, Swatch};
use super::palette::{self, Ink};
use super::sheet::{BAR_PART, Frame, Sheet};
use crate::report::format;
use crate::report::run::Report;

/// The possible ends of a request, from the bottom of a bar to its top.
const FATES: [(Ink, &str); 5] = [
    (palette::GOOD, "within the SLO"),
    (palette::LATE, "served late"),
    (palette::REFUSED, "refused by server"),
    (palette::DROPPED, "dropped at client"),
    (palette::LOST, "no answer or error"),
];

/// One chart with a bar for each class of requests.
pub(super) fn of_classes(run: &Report) -> Chart {
    let classes = run.summary.classes.iter().map(|class| Bar {
        name: class.name.clone(),
        shares: shares(&Ends::from(&class.figures)),
        valid: run.summary.valid,
    });
    let bars: Vec<Bar> = classes.collect();
    let title = "What became of the requests";
    let frame = frame("run-fates".into(), title.into(), "class of requests", &bars);
    draw(&bars, &frame, title.into())
}

/// One column of a chart.
struct Bar {
    name: String,
    shares: [f64; 5],
    valid: bool,
}

fn frame(id: String, title: String, x: &str, bars: &[Bar]) -> Frame {
    let names: Vec<String> = bars.iter().map(|bar| bar.name.clone()).collect();
    Frame {
        id,
        title,
        description: bars.iter().map(describe).collect::<Vec<_>>().join(" "),
        x: Axis::places(x, &names, Sheet::most_places(&names)),
        y: Axis::linear("share of the offered requests", 1.0, 1.0, |share| {
            format!("{:.0} %", share * 100.0)
        }),
        legend: FATES.map(|(ink, name)| Entry::new(Swatch::Area(ink), name)).to_vec(),
        flags: 0,
    }
}

fn draw(bars: &[Bar], frame: &Frame, title: String) -> Chart {
    let svg = frame.draw(|sheet| {
        for (index, bar) in bars.iter().enumerate() {
            let alpha = if bar.valid { 1.0 } else { 0.4 };
            let mut from = 0.0;
            for ((ink, _), share) in FATES.iter().zip(bar.shares) {
                sheet.bar(index as f64, BAR_PART, (from, from + share), *ink, alpha);
                from += share;
            }
        }
    });
    let caption = "Drops are shares of all offered requests here. Refusals never count as goodput.";
    Chart { title, caption: caption.into(), svg }
}

/// What is known of how the offered requests ended: rates, and the shares that were not served.
struct Ends {
    offered: f64,
    goodput: f64,
    client_drop_rate: f64,
    server_drop_rate: f64,
    lost_rate: f64,
}

impl From<&Figures> for Ends {
    fn from(figures: &Figures) -> Self {
        let &Figures { offered, goodput, client_drop_rate, server_drop_rate, lost_rate, .. } =
            figures;
        Self { offered, goodput, client_drop_rate, server_drop_rate, lost_rate }
    }
}

/// How many of the offered requests ended in each way; together one.
fn shares(ends: &Ends) -> [f64; 5] {
    let part = |value: f64, most: f64| {
        if value.is_finite() { value.clamp(0.0, most.max(0.0)) } else { 0.0 }
    };
    if !(ends.offered.is_finite() && ends.offered > 0.0) {
        return [0.0; 5];
    }
    let good = part(ends.goodput / ends.offered, 1.0);
    let dropped = part(ends.client_drop_rate, 1.0 - good);
    let refused = part(ends.server_drop_rate * (1.0 - dropped), 1.0 - good - dropped);
    let lost = part(ends.lost_rate, 1.0 - good - dropped - refused);
    let late = (1.0 - good - dropped - refused - lost).max(0.0);
    // The rest of a rounding is nobody's fate.
    let late = if late < 1e-3 { 0.0 } else { late };
    [good, late, refused, dropped, lost]
}

fn describe(bar: &Bar) -> String {
    let parts = FATES.iter().zip(bar.shares).filter(|(_, share)| *share > 0.0);
    let parts: Vec<String> =
        parts.map(|((_, name), share)| format!("{} {name}", format::percent(share))).collect();
    format!("{}: {}.", bar.name, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_a_share_of_what_was_sent() {
        let ends = Ends {
            offered: 100.0,
            goodput: 40.0,
            client_drop_rate: 0.2,
            server_drop_rate: 0.25,
            lost_rate: 0.1,
        };
        let expected = [0.4, 0.1, 0.2, 0.2, 0.1];
        for (share, expected) in shares(&ends).into_iter().zip(expected) {
            assert!((share - expected).abs() < 1e-9, "{share} {expected}");
        }
        assert_eq!(shares(&Ends { offered: 0.0, ..ends }), [0.0; 5]);
    }
}
