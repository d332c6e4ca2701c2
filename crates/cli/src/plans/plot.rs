//! A plan's figures as SVG files.

use std::path::Path;

use anyhow::{Context, Result};
use seawall_sim::plan::{self, Figure, Measured};

use crate::report::charts::lines::{Across, Line, Lines, Spot, Unit};
use crate::report::format;

/// Writes each figure into `folder`.
///
/// # Errors
///
/// Names the folder or the file that cannot be written.
pub(crate) fn write(figures: &[Figure], runs: &[impl Measured], folder: &Path) -> Result<()> {
    for (index, figure) in figures.iter().enumerate() {
        let file = folder.join(format!("{:02}-{}.svg", index + 1, name(&figure.y)));
        let svg = lines(figure, runs, &format!("f{index}")).chart().svg;
        std::fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("chart: {}", file.display());
    }
    Ok(())
}

/// A figure with its numbers.
pub(crate) fn lines(figure: &Figure, runs: &[impl Measured], id: &str) -> Lines {
    let drawn = figure.draw(runs);
    let numbers: Option<Vec<f64>> = drawn.labels.iter().map(|label| number(label)).collect();
    let text = |number: f64| format::round(&format::rate(number));
    let across = match &numbers {
        _ if figure.shows_latencies() => Across::Powers(format::delay),
        Some(numbers) if numbers.is_empty() => Across::Measured(format::rate),
        Some(numbers) if !figure.shows_time() && span_decades(numbers) => Across::Powers(text),
        Some(_) => Across::Numbers(format::tick),
        None => Across::Names(drawn.labels.clone()),
    };
    let place = |x: f64| match &numbers {
        Some(numbers) if !numbers.is_empty() => numbers[x as usize],
        _ => x,
    };
    let line = |(name, points): &(String, Vec<plan::Spot>)| {
        let spot = |&plan::Spot { x, y, valid }| Spot { x: place(x), y, valid };
        Line::new(name, points.iter().map(spot).collect())
    };
    let slo = figure.slo_us(runs);
    let unit = unit(&figure.y);
    let tail = unit == Unit::Delay
        && figure.y.rsplit('.').next().is_some_and(|name| name.starts_with('p'));
    Lines {
        id: id.into(),
        title: figure.title(),
        caption: figure.about.clone(),
        x: if figure.shows_time() { "time (s)".into() } else { axis_name(&figure.x) },
        across,
        y: axis_name(&figure.y),
        unit,
        bound: slo.filter(|_| tail).map(|slo| (slo, format!("SLO {}", format::delay(slo)))),
        lines: drawn.lines.iter().map(line).collect(),
    }
}

/// Whether numbers differ so much that only a logarithmic axis shows them all.
fn span_decades(numbers: &[f64]) -> bool {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(0.0, f64::max);
    least > 0.0 && most >= least * 100.0
}

/// A label that is a number: `0.9x`, `850k`, `2M`, `1000`.
fn number(label: &str) -> Option<f64> {
    let (digits, times) = match label.strip_suffix(['x', 'k', 'M']) {
        Some(digits) if label.ends_with('k') => (digits, 1e3),
        Some(digits) if label.ends_with('M') => (digits, 1e6),
        Some(digits) => (digits, 1.0),
        None => (label, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * times)
}

/// What a metric counts.
pub(crate) fn unit(metric: &str) -> Unit {
    // Of a service, or of a class, it counts what it counts of all.
    let metric = match metric.split_once('.') {
        Some((field @ ("units" | "level" | "busy" | "surge_share"), _)) => field,
        _ => metric.rsplit('.').next().unwrap_or(metric),
    };
    match metric {
        "offered" | "goodput" | "throughput" | "received" | "sent" | "credits"
        | "memory_refusals" => Unit::Rate,
        "client_drop_rate" | "server_drop_rate" | "busy" | "goodput_share" => Unit::Share,
        _ if metric.ends_with("_share") && metric != "semaphore_mode_share" => Unit::Share,
        "slower" => Unit::Tail,
        _ if metric.ends_with("_us") => Unit::Delay,
        _ => Unit::Number,
    }
}

fn axis_name(metric: &str) -> String {
    let words = metric.trim_end_matches("_us").replace('_', " ");
    let words = match words.split_once('.') {
        Some((field @ ("units" | "level" | "busy" | "surge share"), name)) => {
            format!("{field} of {name}")
        }
        _ => words,
    };
    let words = match words.strip_prefix("class.").and_then(|rest| rest.rsplit_once('.')) {
        Some((class, metric)) => format!("{metric} of {class}"),
        None => words,
    };
    match unit(metric) {
        Unit::Rate => format!("{words} (per second)"),
        Unit::Share => format!("{words} (%)"),
        Unit::Tail => format!("requests that are {words}"),
        Unit::Number if metric == "memory_bandwidth" => format!("{words} (GB/s)"),
        Unit::Number if metric == "power" => format!("{words} (W)"),
        Unit::Number if metric == "violation_volume" => format!("{words} (ms × s)"),
        Unit::Number if metric == "excess_ms" => "mean excess (ms)".into(),
        Unit::Number if metric == "energy" => format!("{words} (s of a unit at work)"),
        Unit::Delay | Unit::Number => words,
    }
}

/// Letters and digits only.
fn name(metric: &str) -> String {
    metric.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
