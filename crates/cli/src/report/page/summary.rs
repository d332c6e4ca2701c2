//! The numbers that matter, before all others: one row per service, and tiles for each.

use super::services::id;
use super::{Mood, Tile, cells, tail_tile};
use crate::report::data::{NO_CONTROL, Point, ServiceReport};
use crate::report::format;
use crate::report::html::escape;
use crate::report::verdict::Verdict;

/// The columns of the overview.
const COLUMNS: [&str; 9] = [
    "Service",
    "Control",
    "Load",
    "Goodput|of the peak",
    "without|control",
    "p99",
    "without|control",
    "SLO",
    "Stable|after a spike",
];

/// All services at a glance, each with a link to its section; nothing for a single one.
pub(super) fn overview(services: &[ServiceReport]) -> String {
    if services.len() < 2 {
        return String::new();
    }
    let rows: String =
        services.iter().enumerate().map(|(index, service)| row(service, &id(index))).collect();
    let table = super::table("", &COLUMNS, &format!("<tbody>\n{rows}</tbody>\n"));
    format!("<section>\n<h2>At a glance</h2>\n{table}</section>\n")
}

fn row(service: &ServiceReport, id: &str) -> String {
    let verdict = Verdict::main(service);
    let verdict = verdict.as_ref();
    let with = verdict.and_then(|verdict| verdict.with);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| format::NOTHING.into());
    let p99 = |point: Option<&Point>| or_nothing(point.map(|point| escape(&point.p99())));
    // The head speaks of the peak; where that is not known, the cell says of what it is a share.
    let of_most = |share: String| match service.peak_uncontrolled {
        Some(_) => share,
        None => format!("{share} of {}", service.most().0),
    };
    let cells = cells(&[
        or_nothing(verdict.map(|verdict| escape(verdict.control))),
        or_nothing(with.map(|point| format::load(point.load))),
        or_nothing(verdict.map(Verdict::goodput_share).map(of_most)),
        or_nothing(verdict.map(Verdict::goodput_share_without).map(of_most)),
        p99(with),
        p99(verdict.and_then(|verdict| verdict.without)),
        format::delay(service.slo_us),
        or_nothing(service.spike.as_ref().map(|spike| spike.stable(spike.stable_after_ms))),
    ]);
    let name = escape(&service.service);
    format!("<tr><th scope=\"row\"><a href=\"#{id}\">{name}</a></th>{cells}</tr>\n")
}

/// Tiles for the algorithm that stands for the service; nothing if there is none.
pub(super) fn tiles(service: &ServiceReport) -> String {
    let Some(verdict) = Verdict::main(service) else { return String::new() };
    let (name_of_most, most) = service.most();
    let most = format::rate(most);
    let mut tiles = Vec::new();
    if let Some(point) = verdict.with {
        let at = format::load(point.load);
        let goodput = format::rate(point.goodput);
        tiles.push(Tile::new(
            Mood::Neutral,
            format!("Goodput with {} at {at}", verdict.control),
            verdict.goodput_share(),
            format!("of the {name_of_most}: {goodput} of {most}/s"),
        ));
        let name = format!("p99 latency at {at}");
        tiles.push(tail_tile(name, point.p99(), verdict.within_slo(), service.slo_us));
    }
    if let Some(point) = verdict.without {
        let p99 = match point.p99_us {
            Some(_) => format!("of the {name_of_most}, p99 {}", point.p99()),
            None => format!("of the {name_of_most}: nothing was served"),
        };
        let name = format!("Without control at {}", format::load(point.load));
        tiles.push(Tile::new(Mood::Neutral, name, verdict.goodput_share_without(), p99));
    }
    if let Some(spike) = &service.spike {
        let without = spike.runs.iter().find(|run| run.control == NO_CONTROL);
        let beside = match without {
            Some(run) => format!("without control: {}", spike.stable(run.stable_after_ms)),
            None => String::new(),
        };
        let (from, to) = (format::load(spike.from_load), format::load(spike.to_load));
        let name = format!("Stable after {from} → {to}");
        tiles.push(Tile::new(Mood::Neutral, name, spike.stable(spike.stable_after_ms), beside));
    }
    super::tiles(&tiles)
}
