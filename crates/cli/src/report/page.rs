//! One self-contained HTML page: no script, no request to anywhere, readable in light, dark, print.

mod method;
mod points;
mod summary;

use super::data::{Host, ServiceReport};
use super::html::{escape, keep_units};
use super::{charts, format, verdict};

/// Layout and colours; the dark colours of the charts are added by [`style`].
const STYLE: &str = include_str!("page/style.css");

/// The page for these services, measured on this host.
pub(crate) fn render(services: &[ServiceReport], host: &Host) -> String {
    let sections: String =
        services.iter().enumerate().map(|(index, service)| section(service, index)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Seawall: {names}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <header>\n<h1>Seawall under overload</h1>\n{lead}</header>\n<main>\n{overview}{sections}\
         {method}</main>\n<footer>\n{host}</footer>\n</body>\n</html>\n",
        names = escape(&names(services)),
        style = style(),
        lead = lead(host),
        overview = summary::overview(services),
        method = method::section(),
        host = facts_of(host),
    )
}

/// The id of a service's section; ids of its charts begin with it.
fn id(index: usize) -> String {
    format!("service{index}")
}

fn names(services: &[ServiceReport]) -> String {
    let names: Vec<&str> = services.iter().map(|service| service.service.as_str()).collect();
    if names.is_empty() { "no services".into() } else { names.join(", ") }
}

fn style() -> String {
    // Paper is white: only a screen is dark.
    let dark = charts::dark_rules(".chart");
    format!("{STYLE}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

fn lead(host: &Host) -> String {
    format!(
        "<p>What services do when more work arrives than they can do, with and without control. \
         Measured on {}, {} processors, {}.</p>\n",
        escape(&host.cpu_model),
        host.cores,
        escape(&host.date),
    )
}

fn section(service: &ServiceReport, index: usize) -> String {
    let id = id(index);
    let name = escape(&service.service);
    let sentences = verdict::sentences(service).join(" ");
    let notes: String =
        service.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul>\n{notes}</ul>\n") };
    format!(
        "<section id=\"{id}\">\n<h2>{name}</h2>\n<p class=\"facts\">{facts}</p>\n{tiles}\
         <p class=\"verdict\">{verdict}</p>\n{notes}<div class=\"charts\">\n{charts}</div>\n\
         {points}</section>\n",
        facts = facts(service),
        tiles = summary::tiles(service),
        verdict = escape(&keep_units(&sentences)),
        charts = figures(service, &id),
        points = points::table(service),
    )
}

/// What was known of the service before it was loaded.
fn facts(service: &ServiceReport) -> String {
    let facts = [
        format!("capacity {} requests/s", format::rate(service.capacity)),
        format!("peak without control {}/s", format::rate(service.peak_uncontrolled)),
        method::slo(service),
        format!("{} sessions", service.sessions),
    ];
    escape(&keep_units(&facts.join(" · ")))
}

fn figures(service: &ServiceReport, id: &str) -> String {
    let figure = |chart: charts::Chart| {
        format!(
            "<figure>\n<figcaption><strong>{}</strong> {}</figcaption>\n\
             <div class=\"chart\">{}</div>\n</figure>\n",
            escape(&chart.title),
            escape(&chart.caption),
            chart.svg,
        )
    };
    charts::service(service, id).into_iter().map(figure).collect()
}

fn facts_of(host: &Host) -> String {
    let facts = [
        ("Processor", escape(&host.cpu_model)),
        ("Processors", host.cores.to_string()),
        ("Kernel", escape(&host.kernel)),
        ("Date", escape(&host.date)),
        ("Seawall", escape(&host.version)),
        ("Command", format!("<code>{}</code>", escape(&host.command_line))),
    ];
    let facts: String =
        facts.iter().map(|(name, fact)| format!("<dt>{name}</dt><dd>{fact}</dd>\n")).collect();
    format!("<h2>Host</h2>\n<dl>\n{facts}</dl>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn page() -> String {
        render(&[sample::service(), sample::stalled()], &sample::host())
    }

    #[test]
    fn every_point_has_a_row() {
        let page = page();
        let services = [sample::service(), sample::stalled()];
        let count: usize = services.iter().map(|service| service.points.len()).sum();
        assert_eq!(page.matches("<tr class=\"point").count(), count);
        for point in services.iter().flat_map(|service| &service.points) {
            let load = format!("<td>{}</td>", format::load(point.load));
            assert!(page.contains(&load), "{load}");
            assert!(page.contains(&format!("<td>{}</td>", format::rate(point.goodput))));
        }
    }

    #[test]
    fn it_asks_nothing_of_the_network() {
        let page = page().replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for reference in ["http://", "https://", "//", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn text_is_escaped() {
        let page = page();
        assert!(page.contains("search &lt;&quot;R&amp;D&quot;&gt;"));
        assert!(page.contains("Index &amp; queries are &lt;synthetic&gt;."));
        assert!(page.contains("EPYC 7B13 &lt;64-Core&gt;"));
        assert!(page.contains("--out &#39;a &amp; b&#39;"));
        for raw in ["<\"R&D\">", "<synthetic>", "<64-Core>"] {
            assert!(!page.contains(raw), "{raw}");
        }
    }

    #[test]
    fn ids_are_unique_and_tags_close() {
        let page = page();
        let ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len());
        for tag in ["section", "figure", "table", "tr", "td", "th", "svg", "div", "p", "ul", "li"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn nothing_makes_a_page_too() {
        let mut empty = sample::service();
        empty.points.clear();
        empty.notes.clear();
        empty.spike = None;
        assert!(render(&[], &sample::host()).contains("no services"));
        assert!(render(&[empty], &sample::host()).contains("Nothing was measured of kv"));
    }
}
