//! Records as a page: the distribution of the errors of each, as in the paper's figure 7.

use super::record::FITS;
use super::{HEAD, Record, Row, legend};
use crate::host;
use crate::report::charts::lines::{Across, Line, Lines, Spot, Unit};
use crate::report::format;
use crate::report::html::escape;
use crate::report::page::{Page, figures, measured_on, table};

/// Points that a line has at most.
const POINTS: usize = 400;

/// Errors are shown up to so many milliseconds, as in the paper; those beyond count.
const SHOWN_MS: f64 = 20.0;

/// The whole page.
pub(super) fn render(records: &[Record], rows: &[Row]) -> String {
    let host = host::describe();
    let charts = records.iter().enumerate().map(|(index, record)| chart(index, record).chart());
    let bodies: String = rows.chunk_by(|a, b| a.record == b.record).map(body).collect();
    let lead = format!("What the agent for Java has written down. {}", measured_on(&host));
    let main = format!(
        "<section>\n{}</section>\n<section>\n{}<p class=\"fine\">{}</p>\n</section>\n",
        figures(charts.collect()),
        table("points", &HEAD, &bodies),
        escape(&legend()),
    );
    Page { title: "pauses".into(), heading: "Predicted pauses beside real ones", lead, main }
        .render(&host)
}

fn body(rows: &[Row]) -> String {
    let row = |row: &Row| {
        let cells = row.cells().into_iter().enumerate().map(|(index, cell)| {
            let tag = if index == 0 { "th" } else { "td" };
            format!("<{tag}>{}</{tag}>", escape(&cell))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!("<tbody>\n{}</tbody>\n", rows.iter().map(row).collect::<String>())
}

/// The share of the predictions that were off by no more than so much, of each fit.
fn chart(index: usize, record: &Record) -> Lines {
    let line = |(fit, name): (usize, &&str)| {
        let errors = record.off_ms(fit);
        let step = errors.len().div_ceil(POINTS).max(1);
        let places = (0..errors.len()).step_by(step);
        let points = places.filter(|place| errors[*place] <= SHOWN_MS).map(|place| {
            let share = (place + 1) as f64 / errors.len() as f64;
            Spot { x: errors[place], y: share, valid: true }
        });
        Line::new(*name, points.collect())
    };
    Lines {
        id: format!("p{index}"),
        title: record.name.clone(),
        caption: "The share of the predictions that were off by no more than this.".into(),
        x: "off by, ms".into(),
        across: Across::Numbers(format::tick),
        y: "share of pauses".into(),
        unit: Unit::Share,
        bound: None,
        lines: FITS.iter().enumerate().map(line).collect(),
    }
}
