//! `seawall graph`: microservice graphs as real processes under load with surges, and policies that
//! move CPU between them side by side.
//!
//! ```text
//!   seawall graph run ── starts ──► seawall graph serve (one per service) ── pages ──┐
//!        │                                                                           │
//!        ├── load with surges ──► the first service                                  │
//!        ├── agent: reads pages, decides, orders ◄───────────────────────────────────┤
//!        └── timeline of what everybody has ◄────────────────────────────────────────┘
//! ```

mod agent;
mod calibration;
mod folder;
mod measure;
mod node;
mod page;
mod plan;
mod point;
mod serve;
mod services;
mod show;
mod table;
mod timeline;

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use toml::Value;

use crate::output::print;
use crate::report::page::file;
use crate::{descriptors, host, pin, plans};
use plan::Plan;
use point::Results;

const EXAMPLES: &str = "\
Examples:
  seawall graph show read-user-timeline             the table of a graph, and what it can do
  seawall graph run experiments/live/graph-chain.toml --html page.html
  seawall graph run plan.toml --only static --only escalator --set load.time=10s    a quick look
  seawall graph run plan.toml --rounds 5 --json > results.json                      for a program
  seawall graph serve chain ping-4                  one service, alone";

/// Options of `seawall graph`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the table of a graph: work, visits, units, capacity
    Show(show::Options),
    /// Run one service of a graph
    Serve(serve::Options),
    /// Run a whole graph under load with surges, once for each contender of a plan
    Run(Run),
}

const RUN_EXAMPLES: &str = "\
Examples:
  seawall graph run experiments/live/graph-chain.toml --html page.html --save results
  seawall graph run experiments/live/graph-chain.toml --only parties --rounds 1

A plan is a TOML file; docs/graphs.md describes it. Each contender has fresh services, and the \
same arrivals in the same round.";

/// Options of `seawall graph run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
struct Run {
    /// The plan (TOML)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Set one key, over what the plan says, such as load.time=10s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// How often each contender runs [default: what the plan says]
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,

    /// Only this contender; may be repeated
    #[arg(long, value_name = "CONTENDER")]
    only: Vec<String>,

    /// Print the results as JSON: an object with an array of points
    #[arg(long)]
    json: bool,

    /// Write a page with charts and all points here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write all points into this folder, as JSON, in a file named after the plan's
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Show the points that were saved in this folder instead of running anything
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "rounds"])]
    from: Option<PathBuf>,
}

/// Runs `seawall graph`.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.command {
        Command::Show(options) => show::run(options),
        Command::Serve(options) => serve::run(options),
        Command::Run(options) => compare(options),
    }
}

fn compare(options: &Run) -> Result<()> {
    let mut settings = plans::settings(&options.set)?;
    let rounds = options.rounds.map(|rounds| Value::Integer(rounds.into()));
    settings.extend(rounds.map(|rounds| ("rounds".to_owned(), rounds)));
    let plan = plans::read(&options.plan, |text, open| Plan::read(text, &settings, open))?;
    let shown = options.plan.display();
    let plan = plan.only(&options.only).map_err(|error| anyhow!("in {shown}: {error}"))?;
    options.html.as_deref().map_or(Ok(()), file::check)?;
    let name = options.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let saved = format!("{name}.json");
    let results: Results = match &options.from {
        Some(folder) => plans::runs::load(&folder.join(&saved))?,
        None => {
            descriptors::suffice(plan.load.sessions, 1)?;
            pin::available();
            let measured = measure::all(&plan)?;
            Results { title: plan.title.clone(), host: host::describe(), ..measured }
        }
    };
    // What cannot be written is told last, so that the numbers are not lost with it.
    let kept = options
        .save
        .as_deref()
        .map_or(Ok(()), |folder| plans::runs::save(folder, &saved, &results));
    let written = options
        .html
        .as_deref()
        .map_or(Ok(()), |path| file::write(path, &page::render(&plan, &name, &results)));
    print(&if options.json {
        serde_json::to_string_pretty(&results)? + "\n"
    } else {
        table::text(&plan, &results)
    })?;
    kept.and(written)
}
