//! One self-contained HTML page: no script, no request to anywhere, readable in light, dark, print.
//!
//! What all pages share is here; what one load shows is in [`run`].

pub mod file;
pub mod run;

pub mod method;

use super::charts::{self, Chart};
use super::format;
use super::html::escape;
use crate::host::Host;

/// Layout and colours; the dark colours of the charts are added by [`style`].
const STYLE: &str = include_str!("page/style.css");

/// What `>` means before a latency, as HTML.
pub const AT_LEAST: &str =
    "&gt;: at least, since more requests than lie above it were never answered.";

/// What one page shows; the rest is the same for all. All but the title is HTML.
pub struct Page {
    /// The name of the window.
    pub title: String,
    /// The first line.
    pub heading: &'static str,
    /// What is below it.
    pub lead: String,
    /// The rest.
    pub main: String,
}

impl Page {
    /// The whole document, with the facts of the host at its end.
    pub fn render(&self, host: &Host) -> String {
        let Self { title, heading, lead, main } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Seawall: {title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
             <header>\n<h1>{heading}</h1>\n<p>{lead}</p>\n</header>\n<main>\n{main}</main>\n\
             <footer>\n{host}</footer>\n</body>\n</html>\n",
            title = escape(title),
            style = style(),
            host = facts_of(host),
        )
    }
}

fn style() -> String {
    // Paper is white: only a screen is dark.
    let dark = charts::dark_rules(".chart");
    format!("{STYLE}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

/// Where and when, for the lead.
pub fn measured_on(host: &Host) -> String {
    let Host { cpu_model, cores, date, .. } = host;
    let processors = if *cores == 1 { "processor" } else { "processors" };
    format!("Measured on {}, {cores} {processors}, {}.", escape(cpu_model), escape(date))
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
    format!("<h2>Host</h2>\n{}", definitions(&facts))
}

/// Names, and what is to be said about each, as HTML.
fn definitions<T: AsRef<str>>(definitions: &[(&str, T)]) -> String {
    let definitions: String = definitions
        .iter()
        .map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>\n", text.as_ref()))
        .collect();
    format!("<dl>\n{definitions}</dl>\n")
}

/// Text with an empty line between two paragraphs.
pub fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect()
}

/// Charts side by side, where there is room.
pub fn figures(charts: Vec<Chart>) -> String {
    let figure = |chart: Chart| {
        format!(
            "<figure>\n<figcaption><strong>{}</strong> {}</figcaption>\n\
             <div class=\"chart\">{}</div>\n</figure>\n",
            escape(&chart.title),
            escape(&chart.caption),
            chart.svg,
        )
    };
    let figures: String = charts.into_iter().map(figure).collect();
    format!("<div class=\"charts\">\n{figures}</div>\n")
}

/// One number that matters, with its name above it and a remark below it.
struct Tile {
    mood: Mood,
    name: String,
    value: String,
    beside: String,
}

/// What a number is to its reader.
enum Mood {
    Neutral,
    Good,
    Bad,
}

impl Tile {
    fn new(mood: Mood, name: impl Into<String>, value: String, beside: String) -> Self {
        Self { mood, name: name.into(), value, beside }
    }

    fn render(&self) -> String {
        let class = match self.mood {
            Mood::Neutral => "tile",
            Mood::Good => "tile good",
            Mood::Bad => "tile bad",
        };
        format!(
            "<div class=\"{class}\"><span class=\"name\">{}</span>\
             <span class=\"value\">{}</span><span class=\"beside\">{}</span></div>\n",
            escape(&self.name),
            escape(&self.value),
            escape(&self.beside),
        )
    }
}

/// Tiles in a row; nothing if there are none.
fn tiles(tiles: &[Tile]) -> String {
    if tiles.is_empty() {
        return String::new();
    }
    let tiles: String = tiles.iter().map(Tile::render).collect();
    format!("<div class=\"tiles\">\n{tiles}</div>\n")
}

/// The tile of a tail latency. `within` says whether it is within the SLO; `None` that nothing was
/// served.
fn tail_tile(name: String, p99: String, within: Option<bool>, slo_us: f64) -> Tile {
    let slo = format::delay(slo_us);
    let (mood, judgement) = match within {
        Some(true) => (Mood::Good, format!("✓ within the SLO of {slo}")),
        Some(false) => (Mood::Bad, format!("✗ above the SLO of {slo}")),
        None => (Mood::Bad, "✗ nothing was served".into()),
    };
    Tile::new(mood, name, p99, judgement)
}

/// A table with a head of these names, in which `|` is where a long name may break.
pub fn table(class: &str, names: &[&str], bodies: &str) -> String {
    let head: String = names
        .iter()
        .map(|name| format!("<th scope=\"col\">{}</th>", name.replace('|', "<br>")))
        .collect();
    format!(
        "<div class=\"scroll\">\n<table class=\"{class}\">\n<thead>\n<tr>{head}</tr>\n</thead>\n\
         {bodies}</table>\n</div>\n"
    )
}

/// The cells of a row behind its head.
pub fn cells(texts: &[String]) -> String {
    texts.iter().map(|text| format!("<td>{text}</td>")).collect()
}

/// A latency quantile for a table, bold above the SLO.
fn latency((us, q): (Option<f64>, f64), censored: f64, slo_us: f64) -> String {
    let text = escape(&format::quantile(us, q, censored));
    if us.is_some_and(|us| us > slo_us) { format!("<b>{text}</b>") } else { text }
}

/// What every page must be.
#[cfg(test)]
pub mod tests {
    /// What every page must be, whatever it shows.
    pub fn check(page: &str) {
        let plain = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for reference in ["http://", "https://", "//", "<script", "<link", "@import", "url("] {
            assert!(!plain.contains(reference), "{reference}");
        }
        let ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "ids are unique");
        for tag in ["section", "figure", "table", "tr", "td", "th", "svg", "div", "p", "ul", "li"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
