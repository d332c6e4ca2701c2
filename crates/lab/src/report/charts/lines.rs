//! Any number over what was varied: a line, bars or points for each thing that is compared.

use super::axis::{self, Axis};
use super::canvas::{Mark, Stroke};
use super::legend::{Entry, Swatch};
use super::palette::Ink;
use super::sheet::{BAR_PART, Frame, Sheet};
use super::{Chart, largest, palette};
use crate::report::format;

/// Points of a line that are marked, each by itself; of more only the line is drawn.
const MARKED: usize = 40;

/// How opaque the bar of a point is that is not valid.
const DOUBTFUL: f64 = 0.35;

/// What the numbers of an axis count, and so how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Per second.
    Rate,
    /// Microseconds, on a logarithmic axis.
    Delay,
    /// Parts of one.
    Share,
    /// Parts of one that are told apart by their logarithm: what is left of a distribution.
    Tail,
    /// Anything else.
    Number,
}

/// What goes across, and with it the shape of the chart.
#[derive(Clone, Debug)]
pub enum Across {
    /// Numbers, written like this: lines over them.
    Numbers(fn(f64) -> String),
    /// The same on a logarithmic axis.
    Powers(fn(f64) -> String),
    /// Names, side by side: bars. The number of a point is its place among them.
    Names(Vec<String>),
    /// Another number that was measured: points, one for each case.
    Measured(fn(f64) -> String),
}

/// One measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spot {
    /// What was varied.
    pub x: f64,
    /// What was measured.
    pub y: f64,
    /// Whether it may be judged.
    pub valid: bool,
}

/// What a line is to the chart's reader, who knows it by its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// One of several that are compared: by its place among them.
    #[default]
    Compared,
    /// What happens with control.
    With,
    /// What happens without.
    Without,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in order of the horizontal axis.
    pub points: Vec<Spot>,
    /// What it is to the reader.
    pub role: Role,
}

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Begins the ids of its elements: unique within a page, letters and digits only.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// What was varied.
    pub x: String,
    /// How its values are written.
    pub across: Across,
    /// What was measured.
    pub y: String,
    /// What its numbers count.
    pub unit: Unit,
    /// A number to compare with, and its name.
    pub bound: Option<(f64, String)>,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Line {
    /// One of several lines that are compared.
    pub fn new(name: impl Into<String>, points: Vec<Spot>) -> Self {
        Self { name: name.into(), points, role: Role::Compared }
    }
}

impl Lines {
    /// The chart.
    pub fn chart(&self) -> Chart {
        let bound = Stroke::dashed(palette::BOUND, 1.5);
        // A single line needs no name.
        let named = self.lines.iter().enumerate().filter(|(_, line)| !line.name.is_empty());
        let mut legend: Vec<Entry> = named.map(|(index, line)| self.entry(index, line)).collect();
        if let Some((_, name)) = &self.bound {
            legend.push(Entry::new(Swatch::Line(bound, None), name.clone()));
        }
        if self.spots().any(|spot| !spot.valid) {
            legend.push(Entry::new(Swatch::Invalid, "not valid: load not offered"));
        }
        let y = self.vertical();
        let bottom = y.min;
        let frame = Frame {
            id: self.id.clone(),
            title: format!("{}: {} over {}", self.title, self.y, self.x),
            description: self.describe(),
            x: self.horizontal(),
            y,
            legend,
            flags: 0,
        };
        let height = |value: f64| match self.unit {
            Unit::Delay | Unit::Tail => axis::power(value).unwrap_or(bottom),
            _ => value,
        };
        let svg = frame.draw(|sheet: &mut Sheet<'_>| {
            for (index, line) in self.lines.iter().enumerate().rev() {
                let finite = |spot: &&Spot| spot.x.is_finite() && spot.y.is_finite();
                let place =
                    |&spot: &Spot| Spot { x: self.place(spot.x), y: height(spot.y), ..spot };
                let spots: Vec<Spot> = line.points.iter().filter(finite).map(place).collect();
                self.paint(sheet, (index, line.role), &spots, bottom);
            }
            if let Some((value, _)) = self.bound {
                sheet.level(height(value), bound);
            }
        });
        Chart { title: self.title.clone(), caption: self.caption.clone(), svg }
    }

    /// Draws what was measured of one thing.
    fn paint(&self, sheet: &mut Sheet<'_>, line: (usize, Role), spots: &[Spot], bottom: f64) {
        let (stroke, mark) = look(line);
        let (index, _) = line;
        let done = match self.across {
            Across::Names(_) => {
                let width = BAR_PART / self.lines.len() as f64;
                let left = (index as f64 + 0.5) * width - BAR_PART / 2.0;
                for &Spot { x, y, valid } in spots {
                    let opacity = if valid { 1.0 } else { DOUBTFUL };
                    sheet.bar(x + left, width, (bottom, y), stroke.ink, opacity);
                }
                true
            }
            Across::Measured(_) => false,
            Across::Numbers(_) | Across::Powers(_) => {
                let points: Vec<(f64, f64)> = spots.iter().map(|spot| (spot.x, spot.y)).collect();
                sheet.line(&points, stroke);
                spots.len() > MARKED
            }
        };
        if !done {
            for &Spot { x, y, valid } in spots {
                sheet.mark((x, y), mark, stroke.ink, valid);
            }
        }
    }

    fn entry(&self, index: usize, line: &Line) -> Entry {
        let (stroke, mark) = look((index, line.role));
        let swatch = match self.across {
            Across::Names(_) => Swatch::Area(stroke.ink),
            _ => Swatch::Line(stroke, Some(mark)),
        };
        Entry::new(swatch, line.name.clone())
    }

    fn spots(&self) -> impl Iterator<Item = &Spot> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    /// Where a number stands on the horizontal axis.
    fn place(&self, x: f64) -> f64 {
        match self.across {
            Across::Powers(_) => axis::power(x).unwrap_or_default(),
            _ => x,
        }
    }

    fn horizontal(&self) -> Axis {
        let xs = self.spots().map(|spot| spot.x);
        let label = self.x.clone();
        match &self.across {
            Across::Numbers(text) => Axis::linear(label, largest(xs), 1.04, text),
            Across::Powers(text) => Axis::logarithmic(format!("{label} (log scale)"), xs, text),
            Across::Measured(text) => Axis::around(label, xs, text),
            Across::Names(names) => Axis::places(label, names, Sheet::most_places(names)),
        }
    }

    fn vertical(&self) -> Axis {
        let bound = self.bound.iter().map(|(value, _)| *value);
        let values = self.spots().map(|spot| spot.y).chain(bound);
        let label = self.y.clone();
        match self.unit {
            Unit::Delay => Axis::delays(format!("{label} (log scale)"), values),
            Unit::Rate => {
                let text = |rate: f64| format::round(&format::rate(rate));
                Axis::linear(label, largest(values), 1.1, text)
            }
            Unit::Share => Axis::linear(label, largest(values), 1.1, |share| {
                format::round(&format!("{:.3} %", share * 100.0))
            }),
            Unit::Tail => Axis::logarithmic(format!("{label} (log scale)"), values, |share| {
                // No more digits than are needed: a tick is 10⁻⁴ at the least.
                format!("{} %", format::round(&format!("{:.4}", share * 100.0)))
            }),
            Unit::Number => Axis::linear(label, largest(values), 1.1, format::tick),
        }
    }

    /// The ends of each line, for those who do not see them.
    fn describe(&self) -> String {
        let ends = |line: &Line| match line.points[..] {
            [first, .., last] => {
                format!("{} goes from {:.4} to {:.4}. ", line.name, first.y, last.y)
            }
            _ => String::new(),
        };
        self.lines.iter().map(ends).collect()
    }
}

/// Colour and mark of each line; those that share a colour differ in mark or dashes.
fn look((index, role): (usize, Role)) -> (Stroke, Mark) {
    match role {
        Role::Compared => {}
        Role::With => return (Stroke::solid(palette::WITH[0], 2.5), Mark::Circle),
        Role::Without => return (Stroke::solid(palette::WITHOUT, 2.5), Mark::Square),
    }
    let inks: Vec<Ink> = palette::WITH.into_iter().chain([palette::WITHOUT]).collect();
    let marks = [Mark::Circle, Mark::Diamond, Mark::Triangle, Mark::Square];
    let (ink, round) = (inks[index % inks.len()], index / inks.len());
    let stroke = if round % 2 == 0 { Stroke::solid(ink, 2.5) } else { Stroke::dashed(ink, 2.0) };
    // No ink has the same mark twice before it has had all of them.
    (stroke, marks[(index % inks.len() + round) % marks.len()])
}
