//! What was measured, as tables of Markdown.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

use crate::bars::{Bar, Verdict};
use crate::cases::{EXPERIMENTS, Experiment};
use crate::record::{Point, Run};
use crate::rows::ROWS;

/// What stands where nothing was measured.
const NOTHING: &str = "-";

/// All experiments and loads of a run, and the bars.
pub fn render(run: &Run, bars: &[Bar]) -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        for rate in experiment.loads {
            if run.points.iter().any(|p| p.key.experiment == experiment.name && p.key.rate == *rate)
            {
                text += &of_load(run, experiment, rate);
            }
        }
    }
    text += &capacities(run);
    text += &of_bars(bars);
    text
}

fn of_load(run: &Run, experiment: &Experiment, rate: &str) -> String {
    let classes = classes(run, experiment, rate);
    let mut head: Vec<String> =
        ["row", "offered/s", "goodput/s", "p50 ms", "p99 ms", "refused %", "gave up %", "busy %"]
            .map(str::to_owned)
            .into();
    head.extend(classes.iter().map(|class| format!("{class}: good/s")));
    head.extend(["server µs", "proxy µs", "rounds", "set"].map(str::to_owned));
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(&head);
    for row in ROWS {
        let points = run.of(experiment.name, row.name, rate);
        if points.is_empty() {
            continue;
        }
        let mean = |figure: &dyn Fn(&Point) -> Option<f64>| {
            run.mean(experiment.name, row.name, rate, figure)
        };
        let number = |figure: &dyn Fn(&Point) -> Option<f64>, scale: f64, digits: usize| {
            mean(figure)
                .map_or_else(|| NOTHING.to_owned(), |value| format!("{:.digits$}", value * scale))
        };
        let figure = |name: &'static str| move |point: &Point| point.figure(name);
        let mut cells = vec![
            row.name.to_owned(),
            number(&figure("offered"), 1.0, 0),
            number(&figure("goodput"), 1.0, 0),
            number(&figure("p50_us"), 1e-3, 2),
            number(&figure("p99_us"), 1e-3, 2),
            number(&figure("server_drop_rate"), 100.0, 1),
            number(&|point| Some(gave_up(point)), 100.0, 1),
            number(&|point| point.busy, 100.0, 0),
        ];
        for class in &classes {
            cells.push(number(&|point| of_class(point, class), 1.0, 0));
        }
        cells.push(number(&|point| point.server_cpu_us, 1.0, 0));
        cells.push(number(&|point| point.front_cpu_us, 1.0, 0));
        let invalid = points.iter().filter(|point| !point.load.summary.valid).count();
        let mark = if invalid > 0 { format!(" ({invalid} not valid)") } else { String::new() };
        cells.push(format!("{}{mark}", points.len()));
        cells.push(row.setting.to_owned());
        table.add_row(cells);
    }
    let last = head.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        if index != 0 && index != last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let Experiment { name, title, .. } = experiment;
    format!("### {name}, {rate}\n\n{title}; {}\n\n{table}\n\n", experiment.proto())
}

/// The part of the requests that the client gave up, unsent or sent.
fn gave_up(point: &Point) -> f64 {
    let total = &point.load.summary.total;
    let cancelled = total.cancelled + total.unanswered;
    total.client_drop_rate + cancelled as f64 / total.offered_count.max(1) as f64
}

/// Names of the classes that were measured apart.
fn classes(run: &Run, experiment: &Experiment, rate: &str) -> Vec<String> {
    let of_load =
        |point: &&Point| point.key.experiment == experiment.name && point.key.rate == rate;
    let point = run.points.iter().find(of_load);
    let classes = point.map(|point| &point.load.summary.classes[..]).unwrap_or_default();
    match classes {
        [_] => Vec::new(),
        several => several.iter().map(|class| class.name.clone()).collect(),
    }
}

fn of_class(point: &Point, name: &str) -> Option<f64> {
    let mut classes = point.load.summary.classes.iter();
    Some(classes.find(|class| class.name == name)?.figures.goodput)
}

fn capacities(run: &Run) -> String {
    if run.capacities.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["stack/work", "capacity/s"]);
    for (name, capacity) in &run.capacities {
        table.add_row([name.clone(), format!("{capacity:.0}")]);
    }
    format!("### What the servers can do without limiters\n\n{table}\n\n")
}

fn of_bars(bars: &[Bar]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["bar", "row", "found", "verdict"]);
    let (missing, judged): (Vec<&Bar>, Vec<&Bar>) =
        bars.iter().partition(|bar| bar.verdict == Verdict::NotMeasured);
    for Bar { what, row, found, verdict } in judged {
        table.add_row([what.clone(), (*row).to_owned(), found.clone(), verdict.to_string()]);
    }
    let met = bars.iter().filter(|bar| bar.verdict == Verdict::Met).count();
    let rest = match missing.len() {
        0 => String::new(),
        count => format!("\n{count} more were not measured; `bars.json` names them.\n"),
    };
    format!("### Acceptance bars: {met} of {} met\n\n{table}\n{rest}", bars.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::judge_rows;
    use crate::rows::row;
    use crate::sample;

    #[test]
    fn all_rows_that_were_measured_are_shown() {
        let mut run = sample::run(&[
            ("cpu", "Envoy", "2x", 480.0, Some(20_000.0)),
            ("cpu", "Envoy", "2x", 500.0, Some(22_000.0)),
            ("cpu", "none (Go)", "2x", 0.0, None),
        ]);
        run.points[1].load.summary.valid = false;
        run.capacities.insert("go/cpu".into(), 476.4);
        let bars = judge_rows(&run, row("none (Go)").into_iter());
        let text = render(&run, &bars);
        let line = |name: &str| {
            let line = text.lines().find(|line| line.contains(name));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).to_owned()
        };
        let envoy = line("| Envoy ");
        for cell in [" 490 ", " 21.00 ", " 25.0 ", " 2000 ", "2 (1 not valid)"] {
            assert!(envoy.contains(cell), "{cell} in {envoy}");
        }
        let none = line("| none (Go) ");
        assert!(none.contains(" 0 ") && none.contains(" - "), "{none}");
        assert!(line("go/cpu").contains(" 476 "));
        assert!(line("cpu 2x: goodput at least that of Envoy ").contains("not valid"));
        let missing = bars.iter().filter(|bar| bar.verdict == Verdict::NotMeasured).count();
        assert!(line("not measured").starts_with(&missing.to_string()));
    }
}
