//! What charts over time share: their axis, and lines with gaps.

use super::axis::{self, Axis};
use super::canvas::Stroke;
use super::legend::{Entry, Swatch};
use super::palette;
use super::sheet::Sheet;
use crate::report::format;

/// Seconds since the start of the run.
pub(super) fn axis(end_s: f64) -> Axis {
    Axis::linear("time (s)", end_s, 1.0, |at| format::round(&format!("{at:.2}")))
}

/// Rates up to the highest.
pub(super) fn rates(highest: f64) -> Axis {
    let text = |at| format::round(&format::rate(at));
    Axis::linear("requests per second", highest, 1.05, text)
}

/// A line through the values, with gaps where there is none.
pub(super) fn line(
    sheet: &mut Sheet<'_>,
    values: impl IntoIterator<Item = (f64, Option<f64>)>,
    stroke: Stroke,
) {
    let mut piece = Vec::new();
    for (at_s, value) in values {
        match value.filter(|value| value.is_finite() && at_s.is_finite()) {
            Some(value) => piece.push((at_s, value)),
            None => sheet.line(&std::mem::take(&mut piece), stroke),
        }
    }
    sheet.line(&piece, stroke);
}

/// The SLO on an axis of delays: its line and its entry in the legend.
pub(super) struct Slo {
    power: Option<f64>,
    us: f64,
}

impl Slo {
    const STROKE: Stroke = Stroke::dashed(palette::BOUND, 1.5);

    pub(super) fn new(us: f64) -> Self {
        Self { power: axis::power(us), us }
    }

    pub(super) fn entry(&self) -> Option<Entry> {
        let name = format!("SLO {}", format::delay(self.us));
        self.power.map(|_| Entry::new(Swatch::Line(Self::STROKE, None), name))
    }

    pub(super) fn draw(&self, sheet: &mut Sheet<'_>) {
        if let Some(power) = self.power {
            sheet.level(power, Self::STROKE);
        }
    }
}
