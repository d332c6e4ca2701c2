//! Results in the form of `seawall compare`, which draws them: for each experiment a plan, and a
//! file of points beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cases::Experiment;
use crate::record::{Point, Run};
use crate::rows::{ROWS, Row, Stack};

/// Writes plan, points, page and charts of each experiment into `folder`; gives the pages.
///
/// # Errors
///
/// If a file cannot be written, or `seawall compare` finds fault with one.
pub fn draw(
    run: &Run,
    experiments: &[&Experiment],
    seawall: &Path,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for experiment in experiments {
        let (rows, rates) = complete(run, experiment);
        if rates.is_empty() {
            continue;
        }
        let file = |ending: &str| folder.join(format!("{}.{ending}", experiment.name));
        write(&file("toml"), &toml::to_string_pretty(&plan(run, experiment, &rows, &rates))?)?;
        let points = points(run, experiment, &rows, &rates);
        write(&file("json"), &(serde_json::to_string_pretty(&points)? + "\n"))?;
        let output = Command::new(seawall)
            .arg("compare")
            .arg(file("toml"))
            .args([Path::new("--from"), folder, Path::new("--html"), &file("html")])
            .args([Path::new("--plot"), &folder.join(experiment.name)])
            .output()
            .with_context(|| format!("cannot start {}", seawall.display()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            anyhow::bail!("`seawall compare` of {}: {}", experiment.name, words.trim());
        }
        pages.push(file("html"));
    }
    Ok(pages)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// The rows that were measured, and the loads at which all of them were.
fn complete(run: &Run, experiment: &Experiment) -> (Vec<&'static Row>, Vec<&'static str>) {
    let has = |row: &Row, rate: &str| !run.of(experiment.name, row.name, rate).is_empty();
    let measured = |row: &&Row| experiment.loads.iter().any(|rate| has(row, rate));
    let rows: Vec<&Row> = ROWS.iter().filter(measured).collect();
    let all = |rate: &&&str| !rows.is_empty() && rows.iter().all(|row| has(row, rate));
    let rates = experiment.loads.iter().filter(all).copied().collect();
    (rows, rates)
}

fn plan(run: &Run, experiment: &Experiment, rows: &[&Row], rates: &[&str]) -> Value {
    let settings: String =
        rows.iter().map(|row| format!("{}: {}. ", row.name, row.setting)).collect();
    let capacities: String =
        run.capacities.iter().map(|(name, rate)| format!("{name}: {rate:.0}/s. ")).collect();
    let figures: Vec<Value> = figures(experiment)
        .iter()
        .flat_map(|(title, x, y)| {
            let apart = move |stack: Stack| {
                let names = rows.iter().filter(|row| row.stack == stack).map(|row| row.name);
                let names: Vec<&str> = names.collect();
                let title = format!("{title}, servers in {}", stack.language());
                let at = json!({ "variant": names });
                (!names.is_empty()).then(|| json!({ "title": title, "x": x, "y": y, "at": at }))
            };
            [Stack::Go, Stack::Rust].into_iter().filter_map(apart)
        })
        .collect();
    let rounds = run.points.iter().map(|point| point.key.round).max().unwrap_or(1);
    json!({
        "title": format!("{} ({})", experiment.title, experiment.proto()),
        "about": format!("{settings}\n\nWithout limiters: {capacities}"),
        "app": "http",
        "rounds": rounds,
        "capacity": experiment.capacity,
        "rates": rates,
        "load": { "slo": "100ms", "requests": experiment.requests },
        "variant": rows.iter().map(|row| json!({ "name": row.name })).collect::<Vec<_>>(),
        "figure": figures,
    })
}

/// Title and axes of each figure. Of all rows together nobody could tell the lines apart.
fn figures(experiment: &Experiment) -> Vec<(String, &'static str, String)> {
    let figure = |title: &str, x, y: &str| (title.to_owned(), x, y.to_owned());
    let mut figures = match experiment.over_time {
        true => vec![
            figure("Goodput over time", "time", "goodput"),
            figure("Tail latency over time", "time", "p99_us"),
        ],
        false => vec![
            figure("Goodput", "rate", "goodput"),
            figure("Tail latency", "rate", "p99_us"),
            figure("Refused", "rate", "server_drop_rate"),
        ],
    };
    let classes = experiment.requests.split(',').filter_map(|class| class.split(':').next());
    let classes: Vec<&str> = classes.collect();
    if classes.len() > 1 {
        figures.extend(classes.iter().map(|class| {
            figure(&format!("Goodput of {class}"), "rate", &format!("class.{class}.goodput"))
        }));
    }
    figures
}

fn points(run: &Run, experiment: &Experiment, rows: &[&Row], rates: &[&str]) -> Value {
    let mut points = Vec::new();
    for rate in rates {
        for row in rows {
            points.extend(run.of(experiment.name, row.name, rate).into_iter().map(point));
        }
    }
    json!({ "title": experiment.title, "host": host(), "notes": [], "points": points })
}

/// A point as `seawall compare` saves it.
fn point(point: &Point) -> Value {
    let summary = &point.load.summary;
    let mut value = json!({
        "params": { "variant": point.key.row, "rate": point.key.rate },
        "round": point.key.round,
        "valid": summary.valid,
        "lateness_p99_us": summary.lateness_p99_us,
        "algorithm": point.key.row,
        "sessions": 0,
        "slo_us": summary.slo_us,
        "figures": summary.total,
        "classes": summary.classes,
        "busy": point.busy,
        "series": point.load.bins,
    });
    if let Some(reason) = &summary.invalid_reason {
        value["invalid_reason"] = reason.as_str().into();
    }
    if let Some(failure) = &point.load.failure {
        value["failure"] = failure.as_str().into();
    }
    value
}

fn host() -> Value {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let line = |command: &str, arguments: &[&str]| {
        let output = Command::new(command).args(arguments).output();
        output.map_or_else(
            |_| String::new(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    json!({
        "cpu_model": model.map_or("an unknown processor", |(_, name)| name.trim()),
        "cores": info.lines().filter(|line| line.starts_with("processor")).count().max(1),
        "kernel": line("uname", &["-sr"]),
        "date": line("date", &["+%Y-%m-%d %H:%M %Z"]),
        "version": env!("CARGO_PKG_VERSION"),
        "command_line": "make peers",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::experiment;
    use crate::sample;

    #[test]
    fn only_loads_that_all_rows_had_are_drawn() {
        let run = sample::run(&[
            ("cpu", "Envoy", "2x", 480.0, Some(20_000.0)),
            ("cpu", "tower", "2x", 10.0, None),
            ("cpu", "Envoy", "3x", 480.0, Some(20_000.0)),
        ]);
        let cpu = experiment("cpu").unwrap();
        let (rows, rates) = complete(&run, cpu);
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["Envoy", "tower"]);
        assert_eq!(rates, ["2x"]);
        let points = points(&run, cpu, &rows, &rates);
        assert_eq!(points["points"].as_array().unwrap().len(), 2);
        let plan = plan(&run, cpu, &rows, &rates);
        assert_eq!(plan["variant"][1]["name"], "tower");
        assert!(toml::to_string_pretty(&plan).unwrap().contains("rates = [\"2x\"]"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let (rows, rates) = complete(&Run::default(), experiment("cpu").unwrap());
        assert!(rows.is_empty() && rates.is_empty());
    }
}
