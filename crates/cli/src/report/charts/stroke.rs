//! How lines, marks and swatches look, and their drawing in whole pixels.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBAColor, ShapeStyle, TextStyle};

use super::palette::{self, Ink};

/// Everything is drawn at this multiple of the size at which it is shown, since the backend knows
/// whole pixels only.
pub(super) const SCALE: i32 = 2;

/// Height of letters, in pixels as shown at full width.
pub(super) const LETTERS: f64 = 16.0;

/// Width of an average letter as a part of its height: the text is set by the reader's browser in
/// its own font, so that its width can only be estimated.
const LETTER_WIDTH: f64 = 0.54;

/// What the backend divides the size of a font by.
const BACKEND_FONT: f64 = 1.24;

/// Half the size of a mark, in drawn pixels.
const MARK: i32 = 9;

/// Lengths of a dash and of the gap after it, in drawn pixels.
const DASH: (u32, u32) = (14, 10);

/// Where a line or shape is drawn to: the whole chart, in drawn pixels.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A position in drawn pixels.
pub(super) type Pixel = (i32, i32);

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    /// Its colour.
    pub(super) ink: Ink,
    /// Its width in drawn pixels.
    pub(super) width: u32,
    /// Its opacity, 0 to 1.
    pub(super) alpha: f64,
    /// Whether it is broken into dashes.
    pub(super) dashed: bool,
}

impl Stroke {
    /// A full line of this width.
    pub(super) const fn solid(ink: Ink, width: u32) -> Self {
        Self { ink, width, alpha: 1.0, dashed: false }
    }

    /// A dashed line of this width.
    pub(super) const fn dashed(ink: Ink, width: u32) -> Self {
        Self { ink, width, alpha: 1.0, dashed: true }
    }

    /// The same, fainter.
    pub(super) const fn faint(self) -> Self {
        Self { alpha: 0.4, ..self }
    }

    fn style(self) -> ShapeStyle {
        RGBAColor::from(self.ink.light).mix(self.alpha).stroke_width(self.width)
    }
}

/// The shape of a mark, which tells series apart without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Circle,
    Square,
    Diamond,
    Triangle,
}

/// A drawing into a string cannot fail; only a bug could make it.
pub(super) fn drawn<T>(result: Result<T, DrawingAreaErrorKind<io::Error>>) -> T {
    result.expect("drawing into a string cannot fail")
}

/// A line through all points; fewer than two make none.
pub(super) fn path(canvas: &Canvas<'_>, points: &[Pixel], stroke: Stroke) {
    if points.len() < 2 {
        return;
    }
    if stroke.dashed {
        let points = points.to_vec();
        let dashes = DashedPathElement::new(points, DASH.0, DASH.1, stroke.style());
        drawn(canvas.draw(&dashes));
    } else {
        drawn(canvas.draw(&PathElement::new(points, stroke.style())));
    }
}

/// A mark around a point: full, or hollow in the colour of points that are not valid.
pub(super) fn mark(canvas: &Canvas<'_>, at: Pixel, mark: Mark, ink: Ink, valid: bool) {
    let (fill, line) = if valid { (ink, ink) } else { (palette::PAPER, palette::INVALID) };
    let (fill, line) = (fill.light.filled(), line.light.stroke_width(4));
    let Some(corners) = corners(at, mark) else {
        drawn(canvas.draw(&Circle::new(at, MARK, fill)));
        return drawn(canvas.draw(&Circle::new(at, MARK, line)));
    };
    drawn(canvas.draw(&Polygon::new(corners.clone(), fill)));
    let outline: Vec<Pixel> = corners.iter().chain(&corners[..2]).copied().collect();
    drawn(canvas.draw(&PathElement::new(outline, line)));
}

/// A filled rectangle between two opposite corners.
pub(super) fn block(canvas: &Canvas<'_>, corners: [Pixel; 2], ink: Ink, alpha: f64) {
    let style = RGBAColor::from(ink.light).mix(alpha).filled();
    drawn(canvas.draw(&Rectangle::new(corners, style)));
}

/// A text whose vertical middle is at a point, and which starts, ends or has its middle there.
pub(super) fn text(canvas: &Canvas<'_>, at: Pixel, text: &str, side: HPos) {
    let style = letters().pos(Pos::new(side, VPos::Center));
    drawn(canvas.draw(&Text::new(text.to_owned(), at, style)));
}

/// The style of all texts.
pub(super) fn letters() -> TextStyle<'static> {
    let size = LETTERS * f64::from(SCALE) * BACKEND_FONT;
    ("sans-serif", size).into_font().color(&palette::TEXT.light)
}

/// About how wide a text is, in drawn pixels.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER_WIDTH * LETTERS).ceil() as i32 * SCALE
}

/// The corners of a mark; a circle has none.
fn corners((x, y): Pixel, mark: Mark) -> Option<Vec<Pixel>> {
    let (small, large) = (MARK - 1, MARK + 2);
    match mark {
        Mark::Circle => None,
        Mark::Square => Some(vec![
            (x - small, y - small),
            (x + small, y - small),
            (x + small, y + small),
            (x - small, y + small),
        ]),
        Mark::Diamond => Some(vec![(x, y - large), (x + large, y), (x, y + large), (x - large, y)]),
        Mark::Triangle => {
            Some(vec![(x, y - large), (x + large, y + small), (x - large, y + small)])
        }
    }
}
