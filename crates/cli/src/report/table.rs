//! The points as plain text for the terminal, at most 100 columns wide.

use seawall_measure::ClassSummary;

use super::data::{Point, ServiceReport};
use super::{format, grid, verdict};

/// Columns of the output.
const WIDTH: u16 = 100;

/// Longest name of a control in the table, so that a row always fits; longer ones are cut.
const LONGEST_NAME: usize = 12;

/// The columns. The page has more, for which there is no room here.
const HEAD: [&str; 11] = [
    "control", "load", "offered", "goodput", "served", "p50", "p99", "dropped", "refused", "lost",
    "late",
];

/// The columns of the table by class.
const OF_CLASSES: [&str; 10] = [
    "class", "control", "load", "offered", "goodput", "served", "p50", "p99", "dropped", "refused",
];

/// What the columns mean, below the last table.
const LEGEND: &str = "Load: multiple of the capacity. Offered, goodput (within the SLO) and \
    served (completed meanwhile): requests per second. Latencies count from the scheduled time; >: \
    at least, since more requests than lie above it were never answered. Dropped: share of the \
    offered requests that the clients gave up unsent. Refused: share of the sent ones that the \
    server refused. Lost: share of the offered ones without answer, or failed. Late: p99 of the \
    generator's own delay. *: not valid, the generator could not offer the load.";

/// All services: facts, table and verdict of each, then the legend. Ends with a line break.
pub(crate) fn render(services: &[ServiceReport]) -> String {
    let mut text = String::new();
    for service in services {
        text += &paragraph("", &headline(service));
        if !service.points.is_empty() {
            text += &points(service);
            text.push('\n');
            text += &by_class(service);
        }
        for point in service.invalid_points() {
            text += &paragraph("  * ", &invalid(point));
        }
        for sentence in verdict::sentences(service) {
            text += &paragraph("  - ", &sentence);
        }
        for note in &service.notes {
            text += &paragraph("  Note: ", note);
        }
        text.push('\n');
    }
    text + &paragraph("", LEGEND)
}

/// What is known of a service before its points.
fn headline(service: &ServiceReport) -> String {
    format!(
        "{}: SLO {}, capacity {}/s, peak without control {}, {} sessions",
        service.service,
        format::delay(service.slo_us),
        format::rate(service.capacity),
        format::rate_or_nothing(service.peak_uncontrolled),
        service.sessions,
    )
}

fn points(service: &ServiceReport) -> String {
    let group = |control| service.points_of(control).into_iter().map(row).collect();
    let groups: Vec<_> = service.controls().into_iter().map(group).collect();
    grid::render(&HEAD, 1, &groups)
}

/// The numbers of each class at the highest load, where there are several classes; the page has
/// those of all loads. Ends with a line break.
fn by_class(service: &ServiceReport) -> String {
    let classes = service.classes();
    if classes.len() < 2 {
        return String::new();
    }
    let controls = service.controls().into_iter();
    let highest: Vec<&Point> =
        controls.filter_map(|control| service.points_of(control).pop()).collect();
    let group = |class: &&str| highest.iter().filter_map(|point| class_row(point, class)).collect();
    let groups: Vec<Vec<_>> = classes.iter().map(group).collect();
    format!("\n{}\n", grid::render(&OF_CLASSES, 2, &groups))
}

fn class_row(point: &Point, class: &str) -> Option<[String; OF_CLASSES.len()]> {
    let ClassSummary { figures, .. } = point.classes.iter().find(|one| one.name == class)?;
    let mark = if point.valid { "" } else { "*" };
    let quantile = |us, q| format::quantile(us, q, figures.latency_censored);
    Some([
        cut(class),
        cut(&point.control),
        format!("{mark}{}", format::load(point.load)),
        format::rate(figures.offered),
        format::rate(figures.goodput),
        format::rate(figures.throughput),
        quantile(figures.p50_us, 0.5),
        quantile(figures.p99_us, 0.99),
        format::percent(figures.client_drop_rate),
        format::percent(figures.server_drop_rate),
    ])
}

fn row(point: &Point) -> [String; HEAD.len()] {
    let mark = if point.valid { "" } else { "*" };
    let quantile = |us, q| format::quantile(us, q, point.latency_censored);
    [
        cut(&point.control),
        format!("{mark}{}", format::load(point.load)),
        format::rate(point.offered),
        format::rate(point.goodput),
        format::rate(point.throughput),
        quantile(point.p50_us, 0.5),
        quantile(point.p99_us, 0.99),
        format::percent(point.client_drop_rate),
        format::percent(point.server_drop_rate),
        format::percent(point.lost_rate),
        format::delay_or_nothing(point.lateness_p99_us),
    ]
}

/// A name of at most [`LONGEST_NAME`] characters.
fn cut(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.into();
    }
    let start: String = name.chars().take(LONGEST_NAME - 1).collect();
    format!("{start}…")
}

fn invalid(point: &Point) -> String {
    let reason = point.invalid_reason.as_deref().unwrap_or("no reason given");
    format!("{} with control {}: {reason}", format::load(point.load), point.control)
}

/// A text behind a lead, its further lines indented by as much.
fn paragraph(lead: &str, text: &str) -> String {
    let indent = lead.chars().count();
    let mut paragraph = String::new();
    for (index, line) in format::wrap(text, usize::from(WIDTH) - indent).iter().enumerate() {
        let lead = if index == 0 { lead.to_owned() } else { " ".repeat(indent) };
        paragraph += &format!("{lead}{line}\n");
    }
    paragraph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn it_fits_the_terminal() {
        let text = render(&[sample::service(), sample::stalled()]);
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(WIDTH), "{line}");
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn every_point_has_one_line() {
        let service = sample::service();
        let text = render(std::slice::from_ref(&service));
        for control in service.controls() {
            let rows = text.lines().filter(|line| line.trim_start().starts_with(control));
            assert_eq!(rows.count(), service.points_of(control).len(), "{text}");
        }
        // Once for each control, and for each class.
        assert_eq!(text.matches("*3.0×").count(), 2 + 2 * 2, "{text}");
        assert!(text.contains("87.8 %, below 99 %"), "{text}");
    }

    #[test]
    fn classes_are_told_where_there_are_several() {
        let mut service = sample::service();
        let text = by_class(&service);
        for class in ["get", "set"] {
            let rows = text.lines().filter(|line| line.starts_with(class));
            assert_eq!(rows.count(), service.controls().len(), "{text}");
        }
        service.points.iter_mut().for_each(|point| point.classes.truncate(1));
        assert_eq!(by_class(&service), "");
    }

    #[test]
    fn long_names_and_large_numbers_fit() {
        let mut service = sample::service();
        for point in &mut service.points {
            point.control = "breakwater-with-everything".into();
            (point.offered, point.goodput, point.throughput) = (9.99e9, 9.99e9, 9.99e9);
            (point.client_drop_rate, point.server_drop_rate) = (0.999, 0.999);
            (point.lost_rate, point.latency_censored) = (0.999, 0.999);
            (point.p50_us, point.p99_us) = (Some(99.9e6), Some(99.9e6));
        }
        let text = points(&service);
        assert!(text.contains("breakwater-…"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let text = render(&[sample::stalled()]);
        let row = text.lines().find(|line| line.contains("svalinn")).unwrap();
        assert_eq!(row.matches(format::NOTHING).count(), 3, "{row}");
    }

    #[test]
    fn what_was_lost_is_told() {
        let text = render(&[sample::service()]);
        let without = |line: &&str| line.starts_with("none") && line.contains(" 2.0×");
        let row = text.lines().find(without).unwrap();
        assert!(row.contains(" >2.00 s ") && row.contains(" 53 % "), "{row}");
    }

    #[test]
    fn nothing_makes_only_a_legend() {
        assert_eq!(render(&[]).lines().count(), format::wrap(LEGEND, usize::from(WIDTH)).len());
        let mut empty = sample::service();
        empty.points.clear();
        empty.spike = None;
        assert!(render(&[empty]).contains("Nothing was measured of kv"));
    }
}
