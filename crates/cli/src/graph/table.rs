//! Results as plain text.

use super::plan::Plan;
use super::point::{Point, Results};
use crate::plans::table::lines;
use crate::report::{format, grid};

/// What is told of each contender.
pub(super) const HEAD: [&str; 10] = [
    "contender",
    "area",
    "excess",
    "p50",
    "p98",
    "p99",
    "units",
    "unanswered",
    "changes",
    "rounds",
];

/// What that means.
pub(super) const LEGEND: &str = "Means over the rounds. area: latency above the target over time, \
in milliseconds times seconds, of the mean of each tenth of a second. excess: mean time above the \
target over all jobs, milliseconds. units: mean units of all services. changes: decisions that the \
agent carried out. * rounds in which the load could not be offered in time.";

/// Table, services, and what must be known.
pub(super) fn text(plan: &Plan, results: &Results) -> String {
    let remarks = results.points.iter().flat_map(Point::warnings);
    let remarks: String =
        remarks.chain(results.notes.iter().cloned()).map(|remark| lines(&remark)).collect();
    let services = grid::explained(&SERVICE_HEAD, 2, &service_rows(plan, results), SERVICE_LEGEND);
    format!(
        "{}\n{}\n{}\n\n{}{remarks}{services}",
        plan.title,
        lines(&setting(results)),
        grid::render(&HEAD, 1, &[rows(plan, results)]),
        lines(LEGEND),
    )
}

/// What all runs have in common.
pub(super) fn setting(results: &Results) -> String {
    let (initial, total) = results.units;
    format!(
        "A job takes {} on average at low load, and should not take more than {}. \
         {initial} units at first, {total} in all.",
        format::delay_ms(results.calm_ms),
        format::delay_ms(results.qos_ms),
    )
}

/// A row for each contender.
pub(super) fn rows(plan: &Plan, results: &Results) -> Vec<[String; 10]> {
    let contenders = plan.contenders.iter().map(|contender| &contender.name);
    contenders.filter_map(|name| row(name, &results.of(name).collect::<Vec<_>>())).collect()
}

fn row(name: &str, points: &[&Point]) -> Option<[String; 10]> {
    if points.is_empty() {
        return None;
    }
    let mean = |of: &dyn Fn(&Point) -> Option<f64>| {
        let values: Option<Vec<f64>> = points.iter().map(|point| of(point)).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    let delay =
        |of: &dyn Fn(&Point) -> Option<f64>| mean(of).map_or_else(|| "-".into(), format::delay_ms);
    let number = |of: &dyn Fn(&Point) -> f64| mean(&|point| Some(of(point))).unwrap_or(0.0);
    let invalid = points.iter().filter(|point| !point.valid).count();
    Some([
        name.to_owned(),
        format!("{:.1}", number(&|point| point.volume.area_ms_s)),
        format!("{:.2}", number(&|point| point.volume.excess_ms)),
        delay(&|point| point.figures.p50_us.map(|us| us / 1e3)),
        delay(&|point| point.p98_ms),
        delay(&|point| point.figures.p99_us.map(|us| us / 1e3)),
        format!("{:.2}", number(&|point| point.units_used)),
        format!("{:.0}", number(&|point| point.volume.unanswered as f64)),
        format!("{:.0}", number(&|point| point.agent.decisions as f64)),
        match invalid {
            0 => points.len().to_string(),
            invalid => format!("{} *{invalid}", points.len()),
        },
    ])
}

/// What is told of each service under each contender.
pub(super) const SERVICE_HEAD: [&str; 6] =
    ["contender", "service", "requests", "exec", "buildup", "most units"];

/// What that means.
pub(super) const SERVICE_LEGEND: &str = "Of the first round. exec: mean execution without waits \
for connections. buildup: execution with them over that. most units: the most that it had.";

/// A row for each service, in groups by contender.
pub(super) fn service_rows(plan: &Plan, results: &Results) -> Vec<Vec<[String; 6]>> {
    let of_contender = |name: &str| {
        let point = results.of(name).next()?;
        let services = results.services.iter().zip(&point.services).enumerate();
        let rows = services.map(|(index, (service, seen))| {
            [
                if index == 0 { name.to_owned() } else { String::new() },
                service.clone(),
                seen.requests.to_string(),
                format::delay_ms(seen.exec_metric_ms),
                format!("{:.2}", seen.queue_buildup),
                seen.units_max.to_string(),
            ]
        });
        Some(rows.collect())
    };
    plan.contenders.iter().filter_map(|contender| of_contender(&contender.name)).collect()
}
