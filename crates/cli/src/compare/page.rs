//! A comparison as a page: what it is about, its claims and figures, and all points.

use super::plan::Plan;
use super::point::{Point, Results};
use super::{holds, shown, stages};
use crate::plans::{claims, plot};
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on, paragraphs, table};

/// The whole page; `name` is that of the plan.
pub(super) fn render(plan: &Plan, name: &str, results: &Results) -> String {
    let points = &results.points;
    let charts = plan.figures().into_iter().enumerate();
    let charts =
        charts.map(|(index, figure)| plot::lines(&figure, points, &format!("f{index}")).chart());
    let invalid = match points.iter().filter(|point| !point.valid).count() {
        0 => String::new(),
        invalid => format!(
            " {invalid} of {} points are not valid, because the load could not be offered: hollow \
             in the figures, * in the table.",
            points.len()
        ),
    };
    let lead = format!(
        "Live servers under an open loop, one after the other on the same core. {}{invalid}",
        measured_on(&results.host)
    );
    let main = format!(
        "<section>\n<h2>{}</h2>\n{}{}{}</section>\n<section>\n{}{}{}</section>\n",
        escape(&plan.title),
        paragraphs(plan.about.trim()),
        claims::html(&claims::judge(name, &plan.claims, points)),
        figures(charts.collect()),
        all(plan, results),
        remarks(results),
        contended(points),
    );
    Page { title: name.into(), heading: "Algorithms side by side", lead, main }
        .render(&results.host)
}

/// The table of all cases.
fn all(plan: &Plan, results: &Results) -> String {
    let cases = plan.cases();
    let shown = shown(plan, &cases, results);
    let head: Vec<String> = shown.head().into_iter().map(escape).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let groups = shown.rows().chunks(plan.variants.len().max(1)).map(body).collect::<String>();
    let by_class = match &shown.classes()[..] {
        [] | [_] => String::new(),
        several => {
            let bodies: String = shown.class_rows(several).iter().map(|rows| body(rows)).collect();
            format!("<h3>By class</h3>\n{}", table("points", &shown.class_head(), &bodies))
        }
    };
    format!(
        "<h3>All points</h3>\n{}<p class=\"fine\">{}</p>\n{by_class}",
        table("points", &head, &groups),
        escape(&shown.legend()),
    )
}

/// Rows that belong together; the first cell is their head.
fn body<R: AsRef<[String]>>(rows: &[R]) -> String {
    let row = |row: &R| {
        let row = row.as_ref();
        // It stands behind the number of runs, which is the last one, or the name of a class.
        let marked = |cell: Option<&String>| cell.is_some_and(|text| text.contains('*'));
        let invalid = marked(row.first()) || marked(row.last());
        let class = if invalid { "point invalid" } else { "point" };
        let cells: String =
            row.iter().skip(1).map(|text| format!("<td>{}</td>", escape(text))).collect();
        let head = row.first().map_or_else(String::new, |text| escape(text));
        format!("<tr class=\"{class}\"><th scope=\"row\">{head}</th>{cells}</tr>\n")
    };
    format!("<tbody>\n{}</tbody>\n", rows.iter().map(row).collect::<String>())
}

/// What must be known of the points.
fn remarks(results: &Results) -> String {
    let warnings = results.points.iter().flat_map(Point::warnings);
    let remarks = warnings.chain(results.notes.iter().cloned());
    let remarks: String = remarks.map(|text| format!("<li>{}</li>\n", escape(&text))).collect();
    if remarks.is_empty() { remarks } else { format!("<ul class=\"fine\">\n{remarks}</ul>\n") }
}

/// Where requests had to wait, and what was predicted there.
fn contended(points: &[Point]) -> String {
    below("Contended stages", &stages::HEAD, &stages::rows(points), stages::LEGEND)
        + &below("Predicted holds", &holds::HEAD, &holds::rows(points), holds::LEGEND)
}

/// A further table with a legend, if it has rows.
fn below<const N: usize>(
    title: &str,
    head: &[&str],
    rows: &[Vec<[String; N]>],
    legend: &str,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let bodies: String = rows.iter().map(|rows| body(rows)).collect();
    let table = table("points", head, &bodies);
    format!("<h3>{title}</h3>\n{table}<p class=\"fine\">{}</p>\n", escape(legend))
}
