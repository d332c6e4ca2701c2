//! The legend: a strip above the plot, so that it never covers a line.

use plotters::style::text_anchor::HPos;

use super::palette::{self, Ink};
use super::stroke::{self, Canvas, Mark, SCALE, Stroke};

/// Height of one row, in drawn pixels.
const ROW: i32 = 24 * SCALE;

/// Length of a line's swatch and of an area's, the space behind it, and that behind an entry.
const LINE: i32 = 26 * SCALE;
const AREA: i32 = 12 * SCALE;
const GAP: i32 = 7 * SCALE;
const SPACE: i32 = 20 * SCALE;

/// What stands for an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Swatch {
    /// A piece of line, perhaps with a mark on it.
    Line(Stroke, Option<Mark>),
    /// A filled area.
    Area(Ink),
    /// The hollow mark of a point that is not valid.
    Invalid,
    /// The mark of a point at which nothing was served.
    Nothing,
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
    fn width(self) -> i32 {
        if matches!(self, Self::Area(_)) { AREA } else { LINE }
    }
}

impl Entry {
    /// An entry of this shape and text.
    pub(super) fn new(swatch: Swatch, label: impl Into<String>) -> Self {
        Self { swatch, label: label.into() }
    }

    fn width(&self) -> i32 {
        self.swatch.width() + GAP + stroke::text_width(&self.label)
    }
}

/// Draws the entries between two columns, in as many rows as they need, and answers with the height
/// of all rows.
pub(super) fn draw(canvas: &Canvas<'_>, entries: &[Entry], left: i32, right: i32) -> i32 {
    let mut at = left;
    let mut middle = ROW / 2;
    for entry in entries {
        if at > left && at + entry.width() > right {
            at = left;
            middle += ROW;
        }
        swatch(canvas, entry.swatch, at, middle);
        stroke::text(canvas, (at + entry.swatch.width() + GAP, middle), &entry.label, HPos::Left);
        at += entry.width() + SPACE;
    }
    middle + ROW / 2
}

fn swatch(canvas: &Canvas<'_>, swatch: Swatch, left: i32, middle: i32) {
    let center = (left + swatch.width() / 2, middle);
    match swatch {
        Swatch::Line(line, mark) => {
            stroke::path(canvas, &[(left, middle), (left + LINE, middle)], line);
            if let Some(mark) = mark {
                stroke::mark(canvas, center, mark, line.ink, true);
            }
        }
        Swatch::Area(ink) => {
            let half = AREA / 2;
            let corners = [(left, middle - half), (left + AREA, middle + half)];
            stroke::block(canvas, corners, ink, 1.0);
        }
        Swatch::Invalid => {
            stroke::mark(canvas, center, Mark::Circle, palette::INVALID, false);
        }
        Swatch::Nothing => {
            stroke::mark(canvas, center, Mark::Triangle, palette::AXIS, true);
        }
    }
}
