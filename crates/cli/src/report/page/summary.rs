//! The numbers that matter, before all others: one row per service, and tiles for each.

use super::id;
use crate::report::data::{NO_CONTROL, Point, ServiceReport};
use crate::report::format;
use crate::report::html::escape;
use crate::report::verdict::Verdict;

/// All services at a glance, each with a link to its section; nothing for a single one.
pub(super) fn overview(services: &[ServiceReport]) -> String {
    if services.len() < 2 {
        return String::new();
    }
    let rows: String =
        services.iter().enumerate().map(|(index, service)| row(service, &id(index))).collect();
    format!(
        "<section>\n<h2>At a glance</h2>\n<div class=\"scroll\">\n<table>\n<thead>\n\
         <tr><th scope=\"col\">Service</th><th scope=\"col\">Control</th>\
         <th scope=\"col\">Load</th>\
         <th scope=\"col\">Goodput<br>of the peak</th><th scope=\"col\">without<br>control</th>\
         <th scope=\"col\">p99</th><th scope=\"col\">without<br>control</th>\
         <th scope=\"col\">SLO</th><th scope=\"col\">Stable<br>after a spike</th></tr>\n\
         </thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n</section>\n"
    )
}

fn row(service: &ServiceReport, id: &str) -> String {
    let verdict = Verdict::main(service);
    let verdict = verdict.as_ref();
    let with = verdict.and_then(|verdict| verdict.with);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| format::NOTHING.into());
    let p99 = |point: Option<&Point>| format::delay_or_nothing(point.and_then(|p| p.p99_us));
    let cells = [
        or_nothing(verdict.map(|verdict| escape(verdict.control))),
        or_nothing(with.map(|point| format::load(point.load))),
        or_nothing(verdict.map(Verdict::goodput_share)),
        or_nothing(verdict.map(Verdict::goodput_share_without)),
        p99(with),
        p99(verdict.and_then(|verdict| verdict.without)),
        format::delay(service.slo_us),
        or_nothing(service.spike.as_ref().map(|spike| settled(spike.stable_after_ms))),
    ];
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    let name = escape(&service.service);
    format!("<tr><th scope=\"row\"><a href=\"#{id}\">{name}</a></th>{cells}</tr>\n")
}

/// Tiles for the algorithm that stands for the service; nothing if there is none.
pub(super) fn tiles(service: &ServiceReport) -> String {
    let Some(verdict) = Verdict::main(service) else { return String::new() };
    let mut tiles = String::new();
    if let Some(point) = verdict.with {
        let at = format::load(point.load);
        let peak = format::rate(service.peak_uncontrolled);
        let goodput = format::rate(point.goodput);
        tiles += &tile(
            "",
            &format!("Goodput with {} at {at}", verdict.control),
            &verdict.goodput_share(),
            &format!("of the peak: {goodput} of {peak}/s"),
        );
        let slo = format::delay(service.slo_us);
        let (class, judgement) = match verdict.within_slo() {
            Some(true) => ("good", format!("✓ within the SLO of {slo}")),
            Some(false) => ("bad", format!("✗ above the SLO of {slo}")),
            None => ("bad", "✗ nothing was served".into()),
        };
        let p99 = format::delay_or_nothing(point.p99_us);
        tiles += &tile(class, &format!("p99 latency at {at}"), &p99, &judgement);
    }
    if let Some(point) = verdict.without {
        let p99 = match point.p99_us {
            Some(p99) => format!("of the peak, p99 {}", format::delay(p99)),
            None => "of the peak: nothing was served".into(),
        };
        let name = format!("Without control at {}", format::load(point.load));
        tiles += &tile("", &name, &verdict.goodput_share_without(), &p99);
    }
    if let Some(spike) = &service.spike {
        let without = spike.runs.iter().find(|run| run.control == NO_CONTROL);
        let beside = match without {
            Some(run) => format!("without control: {}", settled(run.stable_after_ms)),
            None => String::new(),
        };
        let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
        let name = format!("Stable after {from} → {to}");
        tiles += &tile("", &name, &settled(spike.stable_after_ms), &beside);
    }
    if tiles.is_empty() { tiles } else { format!("<div class=\"tiles\">\n{tiles}</div>\n") }
}

fn tile(class: &str, name: &str, value: &str, beside: &str) -> String {
    format!(
        "<div class=\"tile {class}\"><span class=\"name\">{}</span>\
         <span class=\"value\">{}</span><span class=\"beside\">{}</span></div>\n",
        escape(name),
        escape(value),
        escape(beside),
    )
}

fn settled(after_ms: Option<f64>) -> String {
    after_ms.map_or_else(|| "never".into(), format::delay_ms)
}
