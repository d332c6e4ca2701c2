//! The table of all points of a service.

use seawall_measure::ClassSummary;

use super::{AT_LEAST, cells, latency};
use crate::report::data::{Point, ServiceReport};
use crate::report::format;
use crate::report::html::escape;

/// The columns; what the fifth one is a share of depends on the service.
const COLUMNS: [&str; 15] = [
    "Control",
    "Load",
    "Offered|/s",
    "Goodput|/s",
    "of|",
    "Served|/s",
    "p50",
    "p99",
    "p99.9",
    "Dropped|at client",
    "Refused|by server",
    "p99 of|refusals",
    "No|answer",
    "Failed",
    "Generator|late (p99)",
];

/// The columns of the table by class.
const OF_CLASSES: [&str; 11] = [
    "Class",
    "Control",
    "Load",
    "Offered|/s",
    "Goodput|/s",
    "Served|/s",
    "p50",
    "p99",
    "p99.9",
    "Dropped|at client",
    "Refused|by server",
];

/// All points, lowest load first, each control on its own; then the reasons of those not valid.
pub(super) fn table(service: &ServiceReport) -> String {
    if service.points.is_empty() {
        return String::new();
    }
    let of_most = format!("of|{}", service.most().0);
    let columns = COLUMNS.map(|name| if name == "of|" { &of_most } else { name });
    let mut bodies = String::new();
    for control in service.controls() {
        let rows: String =
            service.points_of(control).into_iter().map(|point| row(service, point)).collect();
        bodies += &format!("<tbody>\n{rows}</tbody>\n");
    }
    format!(
        "<h3>All points</h3>\n{}<p class=\"fine\">Bold: above the SLO. {AT_LEAST} Dropped: share \
         of the offered requests. Refused: share of those sent. Grey with *: not valid.</p>\n{}{}",
        super::table("points", &columns, &bodies),
        reasons(service),
        by_class(service),
    )
}

/// The points of each class, where there are several.
fn by_class(service: &ServiceReport) -> String {
    let classes = service.classes();
    if classes.len() < 2 {
        return String::new();
    }
    let mut bodies = String::new();
    for class in classes {
        let controls = service.controls().into_iter();
        let points = controls.flat_map(|control| service.points_of(control));
        let rows: String = points.filter_map(|point| class_row(service, point, class)).collect();
        bodies += &format!("<tbody>\n{rows}</tbody>\n");
    }
    format!("<h3>By class</h3>\n{}", super::table("points", &OF_CLASSES, &bodies))
}

fn class_row(service: &ServiceReport, point: &Point, class: &str) -> Option<String> {
    let ClassSummary { figures, .. } = point.classes.iter().find(|one| one.name == class)?;
    let (kind, mark) = if point.valid { ("point", "") } else { ("point invalid", " *") };
    let latency = |us, q| latency((us, q), figures.latency_censored, service.slo_us);
    let cells = cells(&[
        escape(&point.control),
        format::load(point.load),
        format::rate(figures.offered),
        format::rate(figures.goodput),
        format::rate(figures.throughput),
        latency(figures.p50_us, 0.5),
        latency(figures.p99_us, 0.99),
        latency(figures.p999_us, 0.999),
        format::percent(figures.client_drop_rate),
        format::percent(figures.server_drop_rate),
    ]);
    let class = escape(class);
    Some(format!("<tr class=\"{kind}\"><th scope=\"row\">{class}{mark}</th>{cells}</tr>\n"))
}

fn row(service: &ServiceReport, point: &Point) -> String {
    let class = if point.valid { "point" } else { "point invalid" };
    let mark = if point.valid { "" } else { " *" };
    let latency = |us, q| latency((us, q), point.latency_censored, service.slo_us);
    let cells = cells(&[
        format::load(point.load),
        format::rate(point.offered),
        format::rate(point.goodput),
        format::percent_of(point.goodput, service.most().1),
        format::rate(point.throughput),
        latency(point.p50_us, 0.5),
        latency(point.p99_us, 0.99),
        latency(point.p999_us, 0.999),
        format::percent(point.client_drop_rate),
        format::percent(point.server_drop_rate),
        format::delay_or_nothing(point.reject_p99_us),
        format::rate(point.unanswered as f64),
        format::rate(point.failed as f64),
        format::delay_or_nothing(point.lateness_p99_us),
    ]);
    let control = escape(&point.control);
    format!("<tr class=\"{class}\"><th scope=\"row\">{control}{mark}</th>{cells}</tr>\n")
}

fn reasons(service: &ServiceReport) -> String {
    let reason = |point: &Point| {
        let reason = point.invalid_reason.as_deref().unwrap_or("no reason given");
        let (control, load) = (escape(&point.control), format::load(point.load));
        format!("<li>* {control} at {load}: {}</li>\n", escape(reason))
    };
    let reasons: String = service.invalid_points().into_iter().map(reason).collect();
    if reasons.is_empty() { reasons } else { format!("<ul class=\"fine\">\n{reasons}</ul>\n") }
}
