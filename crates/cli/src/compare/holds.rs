//! Holds of locks whose holders said what they did, beside what was predicted (LIBROS, figure 8).

use seawall_sim::plan::Measured;

use super::point::Point;
use crate::report::{format, grid};
use crate::serve::Forecast;

/// The columns; the first three are names.
pub(super) const HEAD: [&str; 10] = [
    "variant",
    "stage",
    "work",
    "predicted",
    "held",
    "±4 ms",
    "±8 ms",
    "bias",
    "p50 off",
    "p95 off",
];

pub(super) const LEGEND: &str = "Holds of a stage that were predicted from what their holders said \
    that they did, from the start of the server of a variant's last point to its end. Held: on \
    average. The rest is of the newest 1000. ±: the share with an error of at most so much. Bias: \
    the mean error, above 0 where predictions are too long.";

/// The rows of each point that has any.
pub(super) fn rows(points: &[Point]) -> Vec<Vec<[String; HEAD.len()]>> {
    let of_point = |point: &Point| -> Vec<_> {
        let variant = point.params().0.get("variant").cloned().unwrap_or_default();
        let of_stages = point.stages.iter().flat_map(|stage| {
            stage.forecasts.iter().map(|forecast| (stage.name.clone(), forecast))
        });
        of_stages.map(|(stage, forecast)| row(variant.clone(), stage, forecast)).collect()
    };
    points.iter().map(of_point).filter(|rows| !rows.is_empty()).collect()
}

/// A table of all of them, or nothing where no holder said what it did.
pub(super) fn text(points: &[Point]) -> String {
    grid::explained(&HEAD, 3, &rows(points), LEGEND)
}

fn row(variant: String, stage: String, forecast: &Forecast) -> [String; HEAD.len()] {
    let bias = format::delay(forecast.bias_us.abs());
    [
        variant,
        stage,
        forecast.work.clone(),
        format::rate(forecast.predictions as f64),
        format::delay(forecast.hold_us),
        format::percent(forecast.within_4ms),
        format::percent(forecast.within_8ms),
        if forecast.bias_us < 0.0 { format!("−{bias}") } else { bias },
        format::delay(forecast.error_p50_us),
        format::delay(forecast.error_p95_us),
    ]
}
