//! `make peers`: all rows under all loads, a table, pages, and which bars are met.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use seawall_bench_peers::cases::{self, EXPERIMENTS, Experiment};
use seawall_bench_peers::children::{Cores, Programs};
use seawall_bench_peers::measure::{Bench, Length, Plan};
use seawall_bench_peers::record::{Key, Run};
use seawall_bench_peers::rows::{self, ROWS, Row};
use seawall_bench_peers::{bars, plans, table};

/// Seawall side by side with the limiters that others use, under the same loads. An interrupted run
/// goes on where it was.
#[derive(Debug, Parser)]
struct Arguments {
    /// Few loads and rows, five seconds each, once: half an hour
    #[arg(long)]
    quick: bool,
    /// How often each point is measured [default: 1 if quick, else 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Seconds before the measured ones, the same for all [default: 6 if quick, else 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=600))]
    warm_up: Option<u32>,
    /// Seconds that are measured [default: 5 if quick, else 8]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=600))]
    time: Option<u32>,
    /// Only this experiment; may be repeated
    #[arg(long, value_name = "NAME")]
    experiment: Vec<String>,
    /// Only this row; may be repeated
    #[arg(long, value_name = "NAME")]
    row: Vec<String>,
    /// Forget what was measured before
    #[arg(long)]
    fresh: bool,
    /// Measure nothing: show what was measured before
    #[arg(long, conflicts_with = "fresh")]
    show: bool,
    /// Print names of experiments and rows, and what they are
    #[arg(long)]
    list: bool,
    /// Where results are written [default: target/peers/quick or target/peers/full]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The server in Go, as scripts/peers builds it
    #[arg(long, value_name = "FILE", default_value = "target/peers/peers-go")]
    go: PathBuf,
    /// Envoy, as scripts/peers installs it
    #[arg(long, value_name = "FILE", default_value = "target/peers/envoy")]
    envoy: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if arguments.list {
        list();
        return Ok(());
    }
    let plan = arguments.plan()?;
    let usual = if arguments.quick { "target/peers/quick" } else { "target/peers/full" };
    let folder = arguments.folder.clone().unwrap_or_else(|| usual.into());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let programs = arguments.programs()?;
    let bench = Bench { programs, cores: Cores::choose()?, folder: folder.clone() };
    let mut run = if arguments.fresh { Run::default() } else { Run::load(&bench.file())? };
    let mut missing = 0;
    if !arguments.show {
        bench.programs.check()?;
        missing = measure(&bench, &plan, &mut run)?;
    }
    let bars = bars::judge(&run);
    let text = table::render(&run, &bars);
    std::fs::write(folder.join("table.md"), &text)?;
    std::fs::write(folder.join("bars.json"), serde_json::to_string_pretty(&bars)? + "\n")?;
    print!("{text}");
    let all: Vec<&Experiment> = EXPERIMENTS.iter().collect();
    for page in plans::draw(&run, &all, &bench.programs.seawall, &folder)? {
        eprintln!("page: {}", page.display());
    }
    if missing > 0 {
        bail!(
            "{missing} points could not be measured, as told above; the same command tries again"
        );
    }
    Ok(())
}

fn measure(bench: &Bench, plan: &Plan, run: &mut Run) -> Result<usize> {
    let missing: Vec<_> = plan.points().into_iter().filter(|(_, _, key)| !run.has(key)).collect();
    let each = |(_, _, key): &(_, _, Key)| u64::from(key.warm_up_s + key.time_s) + 1;
    let minutes = missing.iter().map(each).sum::<u64>().div_ceil(60);
    eprintln!("{} points to measure, about {minutes} minutes", missing.len());
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    let done = bench.all(plan, run, |index, count, key| {
        let step = format!("round {}: {} {}, {}", key.round, key.experiment, key.rate, key.row);
        bar.set_length(count as u64);
        bar.set_position(index as u64);
        if bar.is_hidden() {
            eprintln!("[{}/{count}] {step}", index + 1);
        }
        bar.set_message(step);
    });
    bar.finish_and_clear();
    done
}

fn list() {
    println!("experiments:");
    for Experiment { name, title, loads, .. } in EXPERIMENTS {
        println!("  {name:<14} {title}; {}", loads.join(" "));
    }
    println!("rows:");
    for Row { name, setting, .. } in ROWS {
        println!("  {name:<26} {setting}");
    }
}

impl Arguments {
    fn plan(&self) -> Result<Plan> {
        let (warm_up, time) = if self.quick { (6, 5) } else { (8, 8) };
        let mut experiments: Vec<&Experiment> = EXPERIMENTS.iter().collect();
        if !self.experiment.is_empty() {
            let known = |name: &String| {
                cases::experiment(name)
                    .with_context(|| format!("no experiment is called {name}; see --list"))
            };
            experiments = self.experiment.iter().map(known).collect::<Result<_>>()?;
        }
        let mut chosen: Vec<&Row> = ROWS.iter().filter(|row| row.is_quick || !self.quick).collect();
        if !self.row.is_empty() {
            let known = |name: &String| {
                rows::row(name).with_context(|| format!("no row is called {name}; see --list"))
            };
            chosen = self.row.iter().map(known).collect::<Result<_>>()?;
        }
        Ok(Plan {
            experiments,
            rows: chosen,
            quick: self.quick,
            rounds: self.rounds.unwrap_or(if self.quick { 1 } else { 3 }),
            length: Length {
                warm_up_s: self.warm_up.unwrap_or(warm_up),
                time_s: self.time.unwrap_or(time),
            },
        })
    }

    /// What is built together lies together.
    fn programs(&self) -> Result<Programs> {
        let own = std::env::current_exe().context("cannot find this program's file")?;
        let Some(folder) = own.parent() else { bail!("{} is in no folder", own.display()) };
        Ok(Programs {
            seawall: folder.join("seawall"),
            rust: folder.join("seawall-bench-peers-server"),
            go: self.go.clone(),
            envoy: self.envoy.clone(),
        })
    }
}
