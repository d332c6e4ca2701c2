//! What the demo found: every service with its verdict, its charts and all its points.

use super::{Page, figures, measured_on, method, points, summary};
use crate::report::data::{Host, ServiceReport};
use crate::report::html::{escape, keep_units};
use crate::report::{charts, format, verdict};

/// The page for these services, measured on this host.
pub(crate) fn render(services: &[ServiceReport], host: &Host) -> String {
    let sections: String =
        services.iter().enumerate().map(|(index, service)| section(service, index)).collect();
    let page = Page {
        title: names(services),
        heading: "Seawall under overload",
        lead: format!(
            "What services do when more work arrives than they can do, with and without control. \
             {}",
            measured_on(host),
        ),
        main: format!("{}{sections}{}", summary::overview(services), method::of_services()),
    };
    page.render(host)
}

/// The id of a service's section; ids of its charts begin with it.
pub(super) fn id(index: usize) -> String {
    format!("service{index}")
}

fn names(services: &[ServiceReport]) -> String {
    let names: Vec<&str> = services.iter().map(|service| service.service.as_str()).collect();
    if names.is_empty() { "no services".into() } else { names.join(", ") }
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
         <p class=\"verdict\">{verdict}</p>\n{notes}{charts}{points}</section>\n",
        facts = facts(service),
        tiles = summary::tiles(service),
        verdict = escape(&keep_units(&sentences)),
        charts = figures(charts::service(service, &id)),
        points = points::table(service),
    )
}

/// What was known of the service before it was loaded.
fn facts(service: &ServiceReport) -> String {
    let facts = [
        format!("capacity {} requests/s", format::rate(service.capacity)),
        format!("peak without control {}", format::rate_or_nothing(service.peak_uncontrolled)),
        method::slo(service),
        format!("{} sessions", service.sessions),
    ];
    escape(&keep_units(&facts.join(" · ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::tests::check;
    use crate::report::sample;

    fn page() -> String {
        render(&[sample::service(), sample::stalled()], &sample::host())
    }

    #[test]
    fn every_point_has_a_row() {
        let page = page();
        let services = [sample::service(), sample::stalled()];
        let points = || services.iter().flat_map(|service| &service.points);
        // And one for each of its classes.
        let count: usize = points().map(|point| 1 + point.classes.len()).sum();
        assert_eq!(page.matches("<tr class=\"point").count(), count);
        for point in points() {
            let load = format!("<td>{}</td>", format::load(point.load));
            assert!(page.contains(&load), "{load}");
            assert!(page.contains(&format!("<td>{}</td>", format::rate(point.goodput))));
        }
    }

    #[test]
    fn it_is_a_page() {
        check(&page());
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
    fn nothing_makes_a_page_too() {
        let mut empty = sample::service();
        empty.points.clear();
        empty.notes.clear();
        empty.spike = None;
        assert!(render(&[], &sample::host()).contains("no services"));
        assert!(render(&[empty], &sample::host()).contains("Nothing was measured of kv"));
    }
}
