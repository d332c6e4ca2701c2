//! One chart: its frame with axes and legend, and what is drawn into it in the units of its axes.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Mark, Pixel, Stroke, text_width};
use super::legend::{self, Entry};
use super::palette::{self, Ink};
use crate::report::html::escape;

/// Width and height of a chart as shown at full width, in pixels.
const SIZE: (f64, f64) = (720.0, 400.0);

/// Room for the labels of each axis and at the right edge.
const LEFT: f64 = 96.0;
const BELOW: f64 = 56.0;
const RIGHT: f64 = 26.0;

/// Length of a tick, and the distance of its label from the axis.
const TICK: f64 = 5.0;
const LABEL: f64 = 9.0;

/// How far below the axis the middles of both rows of its labels are, and how much room the second
/// one takes.
const UPPER: f64 = 18.0;
const LOWER: f64 = 38.0;
const LOWER_ROW: f64 = 20.0;

/// How far the names of the axes are from the edges.
const EDGE: f64 = 12.0;

/// Height of a row for the name of a moment, and of the air above a plot.
const FLAG: f64 = 22.0;
const AIR: f64 = 12.0;

/// Widest bar and the part of its place that a bar takes.
const BAR_WIDEST: f64 = 44.0;
pub(super) const BAR_PART: f64 = 0.72;

/// What is written around a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    /// Unique within the page.
    pub(super) id: String,
    /// Read aloud instead of the picture: its name and what it shows.
    pub(super) title: String,
    /// What can be seen in it.
    pub(super) description: String,
    /// The horizontal axis.
    pub(super) x: Axis,
    /// The vertical axis.
    pub(super) y: Axis,
    /// The entries of the legend.
    pub(super) legend: Vec<Entry>,
    /// How many moments in time will be named above the plot.
    pub(super) flags: u32,
}

impl Frame {
    /// The chart as an SVG element, with what `paint` draws into it.
    pub(super) fn draw(&self, paint: impl FnOnce(&mut Sheet<'_>)) -> String {
        let mut canvas = Canvas::default();
        let (width, height) = SIZE;
        let flag_top = legend::draw(&mut canvas, &self.legend, LEFT, width - RIGHT);
        let top = flag_top + f64::from(self.flags) * FLAG + AIR;
        let below = if self.x.lower.is_empty() { BELOW } else { BELOW + LOWER_ROW };
        let plot = Plot { left: LEFT, right: width - RIGHT, top, bottom: height - below };
        self.axes(&mut canvas, &plot);
        let mut sheet = Sheet { canvas, plot, frame: self, flag_top, flags: 0 };
        paint(&mut sheet);
        self.named(&sheet.canvas.into_svg())
    }

    /// Axes, ticks, labels and mesh.
    fn axes(&self, canvas: &mut Canvas, plot: &Plot) {
        let &Plot { left, right, top, bottom } = plot;
        let (mesh, axis) = (Stroke::solid(palette::MESH, 1.0), Stroke::solid(palette::AXIS, 1.0));
        let minor = Stroke { width: 0.5, ..mesh };
        let ticks = self.y.ticks.iter().map(|(at, _)| (*at, mesh));
        for (at, stroke) in self.y.minor.iter().map(|at| (*at, minor)).chain(ticks) {
            let y = plot.y(&self.y, at);
            canvas.path(&[(left, y), (right, y)], stroke);
        }
        canvas.path(&[(left, top), (left, bottom), (right, bottom)], axis);
        for (at, label) in &self.y.ticks {
            let y = plot.y(&self.y, *at);
            canvas.path(&[(left - TICK, y), (left, y)], axis);
            canvas.text((left - LABEL, y), label, Anchor::End);
        }
        let lower = self.x.lower.iter().map(|tick| (tick, LOWER));
        for ((at, label), row) in self.x.ticks.iter().map(|tick| (tick, UPPER)).chain(lower) {
            let x = plot.x(&self.x, *at);
            canvas.path(&[(x, bottom), (x, bottom + TICK)], axis);
            canvas.text((x, bottom + row), label, Anchor::Middle);
        }
        let middle = f64::midpoint(left, right);
        canvas.text((middle, SIZE.1 - EDGE), &self.x.label, Anchor::Middle);
        canvas.upright_text((EDGE, f64::midpoint(top, bottom)), &self.y.label);
    }

    /// Puts the root element around what was drawn: it scales and has a name.
    fn named(&self, elements: &str) -> String {
        let (id, title) = (&self.id, escape(&self.title));
        let (description, (width, height)) = (escape(&self.description), SIZE);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\" xmlns=\"http://www.w3.org/2000/svg\">\n\
             <title id=\"{id}-title\">{title}</title>\n\
             <desc id=\"{id}-desc\">{description}</desc>\n{elements}</svg>\n"
        )
    }
}

/// Where the inside of a frame is, in pixels.
#[derive(Clone, Copy, Debug)]
struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plot {
    fn x(&self, axis: &Axis, at: f64) -> f64 {
        axis.place(at, (self.left, self.right))
    }

    fn y(&self, axis: &Axis, at: f64) -> f64 {
        axis.place(at, (self.bottom, self.top))
    }
}

/// The inside of a chart, in the units of its axes.
pub(super) struct Sheet<'s> {
    canvas: Canvas,
    plot: Plot,
    frame: &'s Frame,
    flag_top: f64,
    flags: u32,
}

impl Sheet<'_> {
    /// A line through all points.
    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let pixels: Vec<Pixel> = points.iter().map(|&point| self.pixel(point)).collect();
        self.canvas.path(&pixels, stroke);
    }

    /// A line across the whole plot.
    pub(super) fn level(&mut self, y: f64, stroke: Stroke) {
        let Frame { x, .. } = self.frame;
        self.line(&[(x.min, y), (x.max, y)], stroke);
    }

    /// A line across the whole plot, from bottom to top.
    pub(super) fn upright(&mut self, x: f64, stroke: Stroke) {
        let Frame { y, .. } = self.frame;
        self.line(&[(x, y.min), (x, y.max)], stroke);
    }

    /// The mark of one point.
    pub(super) fn mark(&mut self, point: (f64, f64), mark: Mark, ink: Ink, valid: bool) {
        self.canvas.mark(self.pixel(point), mark, ink, valid);
    }

    /// The part of a bar around `x` that reaches from one height to another; it takes at most
    /// `width` of the axis.
    pub(super) fn bar(&mut self, x: f64, width: f64, (from, to): (f64, f64), ink: Ink, alpha: f64) {
        let (left, low) = self.pixel((x - width / 2.0, from));
        let (right, high) = self.pixel((x + width / 2.0, to));
        let half = ((right - left) / 2.0).min(BAR_WIDEST / 2.0);
        let middle = f64::midpoint(left, right);
        if high < low {
            // The lowest row of pixels stays free, which sets the parts apart.
            let low = if low - high > 2.0 { low - 1.0 } else { low };
            self.canvas.block([(middle - half, high), (middle + half, low)], ink, alpha);
        }
    }

    /// A moment: a line across the plot at `x`, with its name above, one row for each.
    pub(super) fn moment(&mut self, x: f64, name: &str, stroke: Stroke) {
        let Frame { x: axis, y, .. } = self.frame;
        let (x, bottom) = self.pixel((x, y.min));
        let middle = self.flag_top + f64::from(self.flags) * FLAG + FLAG / 2.0;
        self.canvas.path(&[(x, middle - FLAG / 3.0), (x, bottom)], stroke);
        let (right, _) = self.pixel((axis.max, y.min));
        let space = 5.0;
        if x + space + text_width(name) <= right {
            self.canvas.text((x + space, middle), name, Anchor::Start);
        } else {
            // Earlier moments may lie where the name is now.
            let left = x - space - text_width(name);
            let ground = [(left, middle - FLAG / 2.0), (x - space, middle + FLAG / 2.0)];
            self.canvas.block(ground, palette::PAPER, 1.0);
            self.canvas.text((x - space, middle), name, Anchor::End);
        }
        self.flags += 1;
    }

    /// How many of these names fit below the places of an axis without touching.
    pub(super) fn most_places(names: &[String]) -> usize {
        let widest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        ((SIZE.0 - LEFT - RIGHT) / (widest + 4.0)).max(1.0) as usize
    }

    /// A point in pixels.
    fn pixel(&self, (x, y): (f64, f64)) -> Pixel {
        (self.plot.x(&self.frame.x, x), self.plot.y(&self.frame.y, y))
    }
}
