//! Measures Seawall's locks beside those of others, in turns, and prints how they compare.

use std::time::Duration;

use clap::Parser;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use seawall_bench_sync::cases::{self, Case, OURS};
use seawall_bench_sync::run::Sample;
use seawall_bench_turns::{Spread, order};

/// Measures Seawall's locks beside those of others, in turns, and prints how they compare.
#[derive(Debug, Parser)]
struct Arguments {
    /// Turns of each contestant in each case.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Milliseconds of each turn.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    millis: u64,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    case: String,
}

fn main() {
    let arguments = Arguments::parse();
    let time = Duration::from_millis(arguments.millis);
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["case", "contestant", "ns/operation", "seawall ÷ this", "least share"]);
    for column in 2..5 {
        table.column_mut(column).expect("it has a header").set_cell_alignment(CellAlignment::Right);
    }
    for case in cases::all().iter().filter(|case| case.name.contains(&arguments.case)) {
        let samples = compete(case, arguments.rounds as usize, time);
        eprintln!("{} is over", case.name);
        for row in rows(case, &samples) {
            table.add_row(row);
        }
    }
    println!("{table}");
    println!(
        "Medians of {} rounds of {} ms (least–most). Times are of all threads or tasks together; \
         ratios are taken within each round, and below 1 Seawall is faster. Least share: \
         operations of who did least, relative to the mean.",
        arguments.rounds, arguments.millis
    );
}

/// What each contestant measured, round by round.
fn compete(case: &Case, rounds: usize, time: Duration) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); case.contestants.len()];
    for (_, turn) in &case.contestants {
        turn(time / 10); // warms up
    }
    for round in 0..rounds {
        for index in order(round, case.contestants.len()) {
            samples[index].push(case.contestants[index].1(time));
        }
    }
    samples
}

fn rows(case: &Case, samples: &[Vec<Sample>]) -> Vec<[String; 5]> {
    let nanos: Vec<Vec<f64>> =
        samples.iter().map(|rounds| rounds.iter().map(|sample| sample.nanos).collect()).collect();
    let ours = case.contestants.iter().position(|(name, _)| *name == OURS);
    let ours = ours.map(|index| nanos[index].as_slice()).unwrap_or_default();
    let row = |index: usize| {
        let shares = Spread::of(samples[index].iter().map(|sample| sample.least_share));
        [
            case.name.clone(),
            case.contestants[index].0.to_owned(),
            format!("{:.1}", Spread::of(nanos[index].iter().copied())),
            Spread::of_ratios(ours, &nanos[index]).to_string(),
            format!("{:.2}", shares.median),
        ]
    };
    (0..case.contestants.len()).map(row).collect()
}
