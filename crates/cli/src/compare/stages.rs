//! The stages at which requests had to wait, of each variant.

use seawall_sim::plan::Measured;

use super::point::{Contended, Point};
use crate::report::{format, grid};

/// Stages shown of one variant.
const MOST: usize = 8;

/// The columns; the first two are names.
pub(super) const HEAD: [&str; 9] =
    ["variant", "stage", "kind", "of", "waited", "waits", "refused", "taken", "held"];

pub(super) const LEGEND: &str = "Stages at which requests had to wait, from the start of the \
    server of a variant's last point to its end. Of: how many have this name. Waited: all \
    together. Held: on average.";

/// The points that say something of stages.
fn told(points: &[Point]) -> impl Iterator<Item = &Point> {
    points.iter().filter(|point| !point.stages.is_empty())
}

/// The rows of each point that has any.
pub(super) fn rows(points: &[Point]) -> Vec<Vec<[String; HEAD.len()]>> {
    let of_point = |point: &Point| {
        let variant = point.params().0.get("variant").cloned().unwrap_or_default();
        let stages = point.stages.iter().take(MOST);
        stages.map(|stage| row(&variant, stage)).collect()
    };
    told(points).map(of_point).collect()
}

/// A table of all of them, or nothing where nobody had to wait.
pub(super) fn text(points: &[Point]) -> String {
    grid::explained(&HEAD, 3, &rows(points), LEGEND)
}

fn row(variant: &str, stage: &Contended) -> [String; HEAD.len()] {
    [
        variant.to_owned(),
        stage.name.clone(),
        stage.kind.clone(),
        stage.stages.to_string(),
        format::delay(stage.waited_s * 1e6),
        format::rate(stage.waits as f64),
        format::rate(stage.refusals as f64),
        format::rate(stage.acquisitions as f64),
        format::delay(stage.hold_us),
    ]
}
