//! The demo's page: what was seen, its pictures, and all numbers.

use super::charts;
use super::measure::SLO_FACTOR;
use super::result::{Class, Demo, Measured, Numbers, Point};
use crate::report::format;
use crate::report::html::{escape, keep_units};
use crate::report::page::{self, Page, cells, figures, measured_on, method, table};

/// The columns; `|` is where a name may break.
const COLUMNS: [&str; 13] = [
    "Control",
    "Load",
    "Offered|/s",
    "Goodput|/s",
    "±|(95 %)",
    "Served|/s",
    "p50",
    "p99",
    "Rejected|by server",
    "Rejected|by client",
    "p99 of|rejections",
    "No|answer",
    "Generator|late (p99)",
];

/// The page.
pub(super) fn render(demo: &Demo) -> String {
    let items: String = demo
        .sentences
        .iter()
        .map(|sentence| format!("<li>{}</li>\n", escape(&keep_units(sentence))))
        .collect();
    let unmet: String = demo
        .unmet
        .iter()
        .map(|text| format!("<p class=\"warning\">Not as expected: {}.</p>\n", escape(text)))
        .collect();
    let services = demo.services.iter().enumerate();
    let sections: String = services.map(|(index, service)| section(service, index)).collect();
    let page = Page {
        title: "the demo".into(),
        heading: "Seawall under overload",
        lead: format!(
            "Real servers on this machine, offered more than they can do, without control and \
             with Seawall ({}). {}",
            escape(&demo.algorithm),
            measured_on(&demo.host),
        ),
        main: format!(
            "<section>\n<ol class=\"verdict\">\n{items}</ol>\n{unmet}</section>\n\
             {sections}{NEXT}{warnings}{method}",
            warnings = warnings(demo),
            method = method::of_demo(SLO_FACTOR),
        ),
    };
    page.render(&demo.host)
}

/// What to read next.
const NEXT: &str = "<section>\n<h2>What next</h2>\n<ul>\n\
    <li><strong>An HTTP or gRPC service of your own:</strong> <code>seawall proxy --help</code>, \
    which also only watches and says what it would do; docs/proxy.md.</li>\n\
    <li><strong>A service in Rust:</strong> a layer for axum, hyper and tonic; docs/http.md. Locks \
    that know how long a request can wait; crates/sync.</li>\n\
    <li><strong>More of this:</strong> <code>seawall demo --help</code>; other algorithms side by \
    side on live servers: docs/comparisons.md.</li>\n</ul>\n</section>\n";

fn section(service: &Measured, index: usize) -> String {
    let id = format!("service{index}");
    let spike = service.spike.as_ref();
    let mut pictures = charts::by_load(service, &id);
    pictures.extend(spike.map(|spike| charts::spike(service, spike, &id)).unwrap_or_default());
    format!(
        "<section id=\"{id}\">\n<h2>{name}</h2>\n<p class=\"facts\">{facts}</p>\n{charts}\
         <details>\n<summary>All points</summary>\n{points}</details>\n</section>\n",
        name = escape(&capitalised(&service.about)),
        facts = facts(service),
        charts = figures(pictures),
        points = points(service),
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What was known of the service before it was loaded.
fn facts(service: &Measured) -> String {
    escape(&keep_units(&format!(
        "Capacity {}/s, SLO {}, {} clients, round trip {}.",
        format::rate(service.capacity),
        format::delay(service.slo_us),
        service.sessions,
        format::delay(service.rtt_us),
    )))
}

fn points(service: &Measured) -> String {
    let body = |controlled| {
        let rows: String = service.points(controlled).map(|point| rows(service, point)).collect();
        format!("<tbody>\n{rows}</tbody>\n")
    };
    let bodies = body(false) + &body(true);
    format!(
        "{}<p class=\"fine\">Bold: above the SLO. {} Grey with *: not valid.</p>\n",
        table("points", &COLUMNS, &bodies),
        page::AT_LEAST,
    )
}

fn rows(service: &Measured, point: &Point) -> String {
    let mut all = row(service, point, &point.control, &point.all, Some(point.goodput_interval));
    for Class { class, numbers } in &point.classes {
        all += &row(service, point, class, numbers, None);
    }
    all
}

fn row(
    service: &Measured,
    point: &Point,
    name: &str,
    numbers: &Numbers,
    interval: Option<f64>,
) -> String {
    let (class, mark) = if point.valid { ("point", "") } else { ("point invalid", " *") };
    let latency = |us: Option<f64>, bound: bool| {
        let text = us.map_or_else(|| format::NOTHING.into(), format::delay);
        let text = if bound { format!("&gt;{}", escape(&text)) } else { escape(&text) };
        if us.is_some_and(|us| us > service.slo_us) { format!("<b>{text}</b>") } else { text }
    };
    let cells = cells(&[
        format::load(point.load),
        format::rate(numbers.offered),
        format::rate(numbers.goodput),
        interval.map_or_else(|| format::NOTHING.into(), format::rate),
        format::rate(numbers.throughput),
        latency(numbers.p50_us, false),
        latency(numbers.p99_us, numbers.p99_is_bound),
        format::percent(numbers.rejected_by_server),
        format::percent(numbers.rejected_by_client),
        format::delay_or_nothing(numbers.rejection_p99_us),
        format::percent(numbers.lost),
        format::delay_or_nothing(point.lateness_p99_us),
    ]);
    let name = escape(name);
    format!("<tr class=\"{class}\"><th scope=\"row\">{name}{mark}</th>{cells}</tr>\n")
}

fn warnings(demo: &Demo) -> String {
    if demo.warnings.is_empty() {
        return String::new();
    }
    let items: String =
        demo.warnings.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    format!("<section>\n<h2>Disturbances</h2>\n<ul>\n{items}</ul>\n</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::sample;
    use crate::demo::service::Service;

    #[test]
    fn it_begins_with_the_sentences_and_has_all_charts() {
        let demo = sample::demo();
        let page = render(&demo);
        page::tests::check(&page);
        let first = page.find("<svg").unwrap();
        for sentence in &demo.sentences {
            let at = page.find(&escape(&keep_units(sentence))).expect("each sentence is there");
            assert!(at < first, "{sentence}");
        }
        // Goodput, tail and two of the spike; two classes and tail.
        assert_eq!(page.matches("<svg ").count(), 4 + 3);
        assert!(!page.contains("Disturbances") && !page.contains("Not as expected"));
    }

    #[test]
    fn odd_results_do_no_harm() {
        let mut service = sample::service(Service::Worker);
        service.about = "<b>&".into();
        for point in &mut service.points {
            point.valid = false;
            (point.all.goodput, point.all.p99_us) = (0.0, None);
        }
        service.spike.as_mut().unwrap().runs[0].bins.clear();
        let mut empty = sample::service(Service::Lock);
        empty.points.clear();
        for services in [vec![service], vec![]] {
            page::tests::check(&render(&sample::of(services)));
        }
    }
}
