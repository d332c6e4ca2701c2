//! One chart: its frame with axes and legend, and what is drawn into it in the units of its axes.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::IntoDrawingArea;
use plotters::prelude::SVGBackend;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{self, Ink};
use super::stroke::{self, Canvas, Mark, Pixel, SCALE, Stroke, drawn};
use crate::report::html::escape;

/// Width and height of a chart as shown at full width, in pixels.
const SIZE: (u32, u32) = (720, 400);

/// Room for the labels of each axis and at the right edge, in drawn pixels.
const LEFT: i32 = 96 * SCALE;
const BELOW: i32 = 56 * SCALE;
const RIGHT: i32 = 26 * SCALE;

/// How far below the axis the middle of the second row of its labels is, and how much room it
/// takes.
const LOWER: i32 = 38 * SCALE;
const LOWER_ROW: i32 = 20 * SCALE;

/// Height of a row for the name of a moment, and of the air above a plot.
const FLAG: i32 = 22 * SCALE;
const AIR: i32 = 12 * SCALE;

/// Widest bar and the part of its place that a bar takes.
const BAR_WIDEST: i32 = 44 * SCALE;
pub(super) const BAR_PART: f64 = 0.72;

/// The inside of a frame: knows where a point of both axes is.
type Plot<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

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
    pub(super) flags: i32,
}

impl Frame {
    /// The chart as an SVG element, with what `paint` draws into it.
    pub(super) fn draw(&self, paint: impl FnOnce(&mut Sheet<'_, '_>)) -> String {
        let scale = SCALE as u32;
        let size = (SIZE.0 * scale, SIZE.1 * scale);
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let right = size.0 as i32 - RIGHT;
            let top = legend::draw(&canvas, &self.legend, LEFT, right);
            let plot_top = top + self.flags * FLAG + AIR;
            let plot = self.plot(&canvas, plot_top);
            let mut sheet =
                Sheet { canvas: &canvas, plot: &plot, frame: self, flag_top: top, flags: 0 };
            paint(&mut sheet);
            drawn(canvas.present());
        }
        self.named(&svg, size)
    }

    /// Axes, ticks and mesh.
    fn plot<'a>(&self, canvas: &Canvas<'a>, top: i32) -> Plot<'a> {
        let below = if self.x.lower.is_empty() { BELOW } else { BELOW + LOWER_ROW };
        let mut plot = drawn(
            ChartBuilder::on(canvas)
                .margin_top(top)
                .margin_right(RIGHT)
                .x_label_area_size(below)
                .y_label_area_size(LEFT)
                .build_cartesian_2d(self.x.clone(), self.y.clone()),
        );
        drawn(
            plot.configure_mesh()
                .disable_x_mesh()
                .bold_line_style(palette::MESH.light.stroke_width(2))
                .light_line_style(palette::MESH.light.mix(0.6).stroke_width(1))
                .axis_style(palette::AXIS.light.stroke_width(2))
                .set_all_tick_mark_size(5 * SCALE)
                .label_style(stroke::letters())
                .axis_desc_style(stroke::letters())
                .x_desc(self.x.label.as_str())
                .y_desc(self.y.label.as_str())
                .draw(),
        );
        for (at, name) in &self.x.lower {
            let (x, y) = plot.backend_coord(&(*at, self.y.min));
            stroke::text(canvas, (x, y + LOWER), name, HPos::Center);
        }
        plot
    }

    /// Puts our own root element around what the backend drew: it scales and has a name.
    fn named(&self, svg: &str, (width, height): (u32, u32)) -> String {
        let inner = svg.split_once('\n').map_or("", |(_, inner)| inner);
        let (id, title) = (&self.id, escape(&self.title));
        let description = escape(&self.description);
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\" xmlns=\"http://www.w3.org/2000/svg\">\n\
             <title id=\"{id}-title\">{title}</title>\n\
             <desc id=\"{id}-desc\">{description}</desc>\n{inner}"
        )
    }
}

/// The inside of a chart, in the units of its axes.
pub(super) struct Sheet<'s, 'a> {
    canvas: &'s Canvas<'a>,
    plot: &'s Plot<'a>,
    frame: &'s Frame,
    flag_top: i32,
    flags: i32,
}

impl Sheet<'_, '_> {
    /// A line through all points.
    pub(super) fn line(&self, points: &[(f64, f64)], stroke: Stroke) {
        let pixels: Vec<Pixel> = points.iter().map(|&point| self.pixel(point)).collect();
        stroke::path(self.canvas, &pixels, stroke);
    }

    /// A line across the whole plot.
    pub(super) fn level(&self, y: f64, stroke: Stroke) {
        let Frame { x, .. } = self.frame;
        self.line(&[(x.min, y), (x.max, y)], stroke);
    }

    /// A line across the whole plot, from bottom to top.
    pub(super) fn upright(&self, x: f64, stroke: Stroke) {
        let Frame { y, .. } = self.frame;
        self.line(&[(x, y.min), (x, y.max)], stroke);
    }

    /// The mark of one point.
    pub(super) fn mark(&self, point: (f64, f64), mark: Mark, ink: Ink, valid: bool) {
        stroke::mark(self.canvas, self.pixel(point), mark, ink, valid);
    }

    /// The part of a bar around `x` that reaches from one height to another; it takes at most
    /// `width` of the axis.
    pub(super) fn bar(&self, x: f64, width: f64, (from, to): (f64, f64), ink: Ink, alpha: f64) {
        let (left, low) = self.pixel((x - width / 2.0, from));
        let (right, high) = self.pixel((x + width / 2.0, to));
        let half = ((right - left) / 2).min(BAR_WIDEST / 2);
        let middle = (left + right) / 2;
        if high < low {
            // The lowest row of pixels stays free, which sets the parts apart.
            let low = if low - high > 4 { low - 2 } else { low };
            stroke::block(self.canvas, [(middle - half, high), (middle + half, low)], ink, alpha);
        }
    }

    /// A moment: a line across the plot at `x`, with its name above, one row for each.
    pub(super) fn moment(&mut self, x: f64, name: &str, stroke: Stroke) {
        let Frame { y, .. } = self.frame;
        let (x, bottom) = self.pixel((x, y.min));
        let middle = self.flag_top + self.flags * FLAG + FLAG / 2;
        stroke::path(self.canvas, &[(x, middle - FLAG / 3), (x, bottom)], stroke);
        let (right, _) = self.pixel((self.frame.x.max, y.min));
        let space = 5 * SCALE;
        if x + space + stroke::text_width(name) <= right {
            stroke::text(self.canvas, (x + space, middle), name, HPos::Left);
        } else {
            // Earlier moments may lie where the name is now.
            let left = x - space - stroke::text_width(name);
            let ground = [(left, middle - FLAG / 2), (x - space, middle + FLAG / 2)];
            stroke::block(self.canvas, ground, palette::PAPER, 1.0);
            stroke::text(self.canvas, (x - space, middle), name, HPos::Right);
        }
        self.flags += 1;
    }

    /// How many of these names fit below the places of an axis without touching.
    pub(super) fn most_places(names: &[String]) -> usize {
        let widest = names.iter().map(|name| stroke::text_width(name)).max().unwrap_or(0);
        let width = SIZE.0 as i32 * SCALE - LEFT - RIGHT;
        (width / (widest + 4 * SCALE)).max(1) as usize
    }

    /// The highest point above `x`.
    pub(super) fn top(&self, x: f64) -> (f64, f64) {
        (x, self.frame.y.max)
    }

    /// A point in drawn pixels.
    fn pixel(&self, point: (f64, f64)) -> Pixel {
        self.plot.backend_coord(&point)
    }
}
