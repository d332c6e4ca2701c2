//! Results as a page: violation volumes, latency over time, and who had what when.

use super::plan::Plan;
use super::point::{Point, Results};
use super::table;
use crate::report::charts::Chart;
use crate::report::charts::lines::{Across, Line, Lines, Spot, Unit};
use crate::report::format;
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on, paragraphs, table as html_table};

/// The whole page; `name` is that of the plan.
pub(super) fn render(plan: &Plan, name: &str, results: &Results) -> String {
    let lead = format!(
        "Real processes and connections under an open loop with surges, one contender after the \
         other. {}",
        measured_on(&results.host)
    );
    let main = format!(
        "<section>\n<h2>{}</h2>\n{}<p>{}</p>\n{}{}</section>\n\
         <section>\n<h2>Who had what when</h2>\n{}</section>\n\
         <section>\n<h2>All numbers</h2>\n{}{}{}</section>\n",
        escape(&plan.title),
        paragraphs(plan.about.trim()),
        escape(&table::setting(results)),
        figures(vec![volumes(plan, results), used(plan, results), latency(plan, results)]),
        rows(&table::HEAD, &[table::rows(plan, results)], table::LEGEND),
        figures(allocations(plan, results)),
        rows(&table::SERVICE_HEAD, &table::service_rows(plan, results), table::SERVICE_LEGEND),
        expected(results),
        remarks(results),
    );
    Page { title: name.into(), heading: "Who moves CPU to the cause", lead, main }
        .render(&results.host)
}

/// The first round of each contender that was measured.
fn firsts<'a>(plan: &'a Plan, results: &'a Results) -> Vec<&'a Point> {
    let names = plan.contenders.iter().map(|contender| &*contender.name);
    names.filter_map(|name| results.of(name).next()).collect()
}

/// One bar for each contender: a mean over its rounds.
fn bars(
    (plan, results): (&Plan, &Results),
    (id, title, caption, y): (&str, &str, &str, &str),
    of: impl Fn(&Point) -> f64,
) -> Chart {
    let bar = |first: &&Point| {
        let all: Vec<f64> = results.of(&first.contender).map(&of).collect();
        let valid = results.of(&first.contender).all(|point| point.valid);
        let y = all.iter().sum::<f64>() / all.len() as f64;
        Line::new(&first.contender, vec![Spot { x: 0.0, y, valid }])
    };
    Lines {
        id: id.into(),
        title: title.into(),
        caption: caption.into(),
        x: "contender".into(),
        // Side by side at one place, in the colours of the other charts' lines.
        across: Across::Names(vec![String::new()]),
        y: y.into(),
        unit: Unit::Number,
        bound: None,
        lines: firsts(plan, results).iter().map(bar).collect(),
    }
    .chart()
}

fn volumes(plan: &Plan, results: &Results) -> Chart {
    let caption = "The area of the latency over time above the target (SurgeGuard, figure 3), in \
                   the order of the legend.";
    let words = ("volume", "Violation volume", caption, "ms × s");
    bars((plan, results), words, |point| point.volume.area_ms_s)
}

fn used(plan: &Plan, results: &Results) -> Chart {
    let caption = "Units that all services together had, on average, in the order of the legend.";
    bars((plan, results), ("used", "Units used", caption, "units"), |point| point.units_used)
}

fn latency(plan: &Plan, results: &Results) -> Chart {
    let line = |point: &&Point| {
        let spots = point.curve.iter().filter_map(|bin| {
            let x = bin.begin_seconds + point.measured_from_s;
            Some(Spot { x, y: bin.latency_ms? * 1e3, valid: true })
        });
        Line::new(&point.contender, spots.collect())
    };
    Lines {
        id: "latency".into(),
        title: "Latency over time".into(),
        caption: "Of jobs by their scheduled time, in tenths of a second, in the first round."
            .into(),
        x: "time (s)".into(),
        across: Across::Numbers(format::rate),
        y: "latency".into(),
        unit: Unit::Delay,
        bound: Some((results.qos_ms * 1e3, format!("target {}", format::delay_ms(results.qos_ms)))),
        lines: firsts(plan, results).iter().map(line).collect(),
    }
    .chart()
}

/// For each contender, units of the services that had more than at first, and all together.
fn allocations(plan: &Plan, results: &Results) -> Vec<Chart> {
    let of = |(index, point): (usize, &&Point)| {
        let changed = |service: &usize| {
            let units = |service: usize| point.allocations.iter().map(move |at| at.units[service]);
            units(*service).max() != units(*service).min()
        };
        let mut lines: Vec<Line> = (0..results.services.len())
            .filter(changed)
            .map(|service| {
                Line::new(&results.services[service], steps(point, |units| units[service]))
            })
            .collect();
        lines.push(Line::new("all", steps(point, |units| units.iter().sum())));
        Lines {
            id: format!("units{index}"),
            title: point.contender.clone(),
            caption: "Units of the services that had more than at first, and of all.".into(),
            x: "time (s)".into(),
            across: Across::Numbers(format::rate),
            y: "units".into(),
            unit: Unit::Number,
            bound: None,
            lines,
        }
        .chart()
    };
    firsts(plan, results).iter().enumerate().map(of).collect()
}

/// A staircase: what it had up to each change, and after it.
fn steps(point: &Point, of: impl Fn(&[u32]) -> u32) -> Vec<Spot> {
    let end = point.curve.last().map_or(0.0, |bin| bin.begin_seconds) + point.measured_from_s;
    let mut spots: Vec<Spot> = Vec::new();
    for at in point.allocations.iter().filter(|at| at.at_s <= end) {
        let y = f64::from(of(&at.units));
        if let Some(last) = spots.last().copied() {
            if last.y == y {
                continue;
            }
            spots.push(Spot { x: at.at_s, ..last });
        }
        spots.push(Spot { x: at.at_s, y, valid: true });
    }
    if let Some(last) = spots.last().copied() {
        spots.push(Spot { x: end, ..last });
    }
    spots
}

/// A table with its legend.
fn rows<const N: usize>(head: &[&str; N], groups: &[Vec<[String; N]>], legend: &str) -> String {
    let row = |row: &[String; N]| {
        let cells: String =
            row[1..].iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
        format!("<tr class=\"point\"><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&row[0]))
    };
    let group = |rows: &Vec<[String; N]>| {
        format!("<tbody>\n{}</tbody>\n", rows.iter().map(row).collect::<String>())
    };
    let bodies: String = groups.iter().map(group).collect();
    let table = html_table("points", head, &bodies);
    format!("{table}<p class=\"fine\">{}</p>\n", escape(legend))
}

fn expected(results: &Results) -> String {
    let row = |one: &super::point::Expectation| {
        [
            one.service.clone(),
            format::delay_ms(one.exec_ms),
            format::delay_ms(one.time_from_start_ms),
        ]
    };
    let all: Vec<[String; 3]> = results.usual.iter().map(row).collect();
    let legend = "A multiple of what was measured at low load (SurgeGuard §IV).";
    format!(
        "<h3>What is expected</h3>\n{}",
        rows(&["service", "execution", "from the job's start"], &[all], legend)
    )
}

fn remarks(results: &Results) -> String {
    let remarks = results.points.iter().flat_map(Point::warnings);
    let remarks = remarks.chain(results.notes.iter().cloned());
    let remarks: String = remarks.map(|text| format!("<li>{}</li>\n", escape(&text))).collect();
    if remarks.is_empty() { remarks } else { format!("<ul class=\"fine\">\n{remarks}</ul>\n") }
}
