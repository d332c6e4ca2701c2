//! The legend: a strip above the plot, so that it never covers a line.

use super::canvas::{Anchor, Canvas, Mark, Stroke, text_width};
use super::palette::{self, Ink};

/// Height of one row, in pixels.
const ROW: f64 = 24.0;

/// Length of a line's swatch and of an area's, the space behind it, and that behind an entry.
const LINE: f64 = 26.0;
const AREA: f64 = 12.0;
const GAP: f64 = 7.0;
const SPACE: f64 = 20.0;

/// What stands for an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Swatch {
    /// A piece of line, perhaps with a mark on it.
    Line(Stroke, Option<Mark>),
    /// A filled area.
    Area(Ink),
    /// The hollow mark of a point that is not valid.
    Invalid,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Its colour and shape.
    pub(super) swatch: Swatch,
    /// Its text.
    pub(super) label: String,
}

impl Swatch {
    fn width(self) -> f64 {
        if matches!(self, Self::Area(_)) { AREA } else { LINE }
    }
}

impl Entry {
    /// An entry of this shape and text.
    pub(super) fn new(swatch: Swatch, label: impl Into<String>) -> Self {
        Self { swatch, label: label.into() }
    }

    fn width(&self) -> f64 {
        self.swatch.width() + GAP + text_width(&self.label)
    }
}

/// Draws the entries between two columns, in as many rows as they need, and answers with the height
/// of all rows.
pub(super) fn draw(canvas: &mut Canvas, entries: &[Entry], left: f64, right: f64) -> f64 {
    let mut at = left;
    let mut middle = ROW / 2.0;
    for entry in entries {
        if at > left && at + entry.width() > right {
            at = left;
            middle += ROW;
        }
        swatch(canvas, entry.swatch, at, middle);
        canvas.text((at + entry.swatch.width() + GAP, middle), &entry.label, Anchor::Start);
        at += entry.width() + SPACE;
    }
    middle + ROW / 2.0
}

fn swatch(canvas: &mut Canvas, swatch: Swatch, left: f64, middle: f64) {
    let center = (left + swatch.width() / 2.0, middle);
    match swatch {
        Swatch::Line(line, mark) => {
            canvas.path(&[(left, middle), (left + LINE, middle)], line);
            if let Some(mark) = mark {
                canvas.mark(center, mark, line.ink, true);
            }
        }
        Swatch::Area(ink) => {
            let half = AREA / 2.0;
            let corners = [(left, middle - half), (left + AREA, middle + half)];
            canvas.block(corners, ink, 1.0);
        }
        Swatch::Invalid => {
            canvas.mark(center, Mark::Circle, palette::INVALID, false);
        }
    }
}
