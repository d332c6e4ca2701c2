//! What a chart is drawn on: an SVG element, in pixels as shown at full width.

use std::fmt::Write;

use super::palette::{self, Ink};
use crate::report::html::escape;

/// Height of letters.
pub(super) const LETTERS: f64 = 16.0;

/// Width of an average letter as a part of its height: the text is set by the reader's browser in
/// its own font, so that its width can only be estimated.
const LETTER_WIDTH: f64 = 0.54;

/// Half the size of a mark, and the width of its outline.
const MARK: f64 = 4.5;
const OUTLINE: f64 = 2.0;

/// A position: to the right, and down.
pub(super) type Pixel = (f64, f64);

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stroke {
    /// Its colour.
    pub(super) ink: Ink,
    /// Its width.
    pub(super) width: f64,
    /// Its opacity, 0 to 1.
    pub(super) alpha: f64,
    /// Whether it is broken into dashes.
    pub(super) dashed: bool,
}

impl Stroke {
    /// A full line of this width.
    pub(super) const fn solid(ink: Ink, width: f64) -> Self {
        Self { ink, width, alpha: 1.0, dashed: false }
    }

    /// A dashed line of this width.
    pub(super) const fn dashed(ink: Ink, width: f64) -> Self {
        Self { ink, width, alpha: 1.0, dashed: true }
    }
}

/// The shape of a mark, which distinguishes series without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Circle,
    Square,
    Diamond,
    Triangle,
}

/// Which part of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// The elements drawn so far, as SVG. Later ones lie above earlier ones.
#[derive(Debug, Default)]
pub(super) struct Canvas(String);

impl Canvas {
    /// All elements.
    pub(super) fn into_svg(self) -> String {
        self.0
    }

    /// A line through all points; fewer than two make none.
    pub(super) fn path(&mut self, points: &[Pixel], stroke: Stroke) {
        if points.len() < 2 {
            return;
        }
        let dashes = if stroke.dashed { " stroke-dasharray=\"7 5\"" } else { "" };
        let (opacity, corners) = (opacity(stroke.alpha), corners(points));
        let (colour, width) = (stroke.ink.light, stroke.width);
        self.element(format_args!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{opacity}\
             {dashes} points=\"{corners}\"/>"
        ));
    }

    /// A mark around a point: full, or hollow in the colour of points that are not valid.
    pub(super) fn mark(&mut self, at: Pixel, mark: Mark, ink: Ink, valid: bool) {
        let (fill, line) = if valid { (ink, ink) } else { (palette::PAPER, palette::INVALID) };
        let (fill, line) = (fill.light, line.light);
        let style = format!("fill=\"{fill}\" stroke=\"{line}\" stroke-width=\"{OUTLINE}\"");
        match outline(at, mark) {
            None => self.element(format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{MARK}\" {style}/>",
                at.0, at.1
            )),
            Some(points) => {
                self.element(format_args!("<polygon points=\"{}\" {style}/>", corners(&points)));
            }
        }
    }

    /// A filled rectangle between two opposite corners.
    pub(super) fn block(&mut self, [from, to]: [Pixel; 2], ink: Ink, alpha: f64) {
        let (left, top) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = ((from.0 - to.0).abs(), (from.1 - to.1).abs());
        let (colour, opacity) = (ink.light, opacity(alpha));
        self.element(format_args!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"{opacity}/>"
        ));
    }

    /// A text whose vertical middle is at a point.
    pub(super) fn text(&mut self, at: Pixel, text: &str, anchor: Anchor) {
        self.words(at, text, anchor, "");
    }

    /// A text that runs upwards, with its middle at a point.
    pub(super) fn upright_text(&mut self, at: Pixel, text: &str) {
        let turned = format!(" transform=\"rotate(-90 {:.1} {:.1})\"", at.0, at.1);
        self.words(at, text, Anchor::Middle, &turned);
    }

    fn words(&mut self, (x, y): Pixel, text: &str, anchor: Anchor, turned: &str) {
        let (colour, anchor, text) = (palette::TEXT.light, anchor.name(), escape(text));
        self.element(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.35em\" text-anchor=\"{anchor}\" \
             font-family=\"sans-serif\" font-size=\"{LETTERS}\" fill=\"{colour}\"{turned}>\
             {text}</text>"
        ));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("writing to a string cannot fail");
    }
}

/// About how wide a text is.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER_WIDTH * LETTERS
}

fn opacity(alpha: f64) -> String {
    if alpha < 1.0 { format!(" opacity=\"{alpha}\"") } else { String::new() }
}

fn corners(points: &[Pixel]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

/// The corners of a mark; a circle has none.
fn outline((x, y): Pixel, mark: Mark) -> Option<Vec<Pixel>> {
    let (small, large) = (MARK - 0.5, MARK + 1.0);
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
