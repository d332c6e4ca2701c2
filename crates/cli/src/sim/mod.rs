//! `seawall sim`: runs the plan in a file, and shows what came of it.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use seawall_sim::plan::Params;
use seawall_sim::{Plan, Run};

use crate::plans::table::Shown;
use crate::plans::{self, plot};
use crate::progress::Progress;

const EXAMPLES: &str = "\
Examples:
  seawall sim plans/example.toml                              run a plan, show a table
  seawall sim plan.toml --set workload.clients=10000          the same with another key
  seawall sim plan.toml --set plan.seeds=5 --json > runs.json numbers for a program
  seawall sim plan.toml --plot pictures                       and a chart of each figure

A plan is a TOML file; docs/plans.md describes it. Equal plans give equal results, on any machine.
Keys that --set names are those of the scenario, such as server.cores, or with `plan.` in front
those of the plan itself.";

/// Options of `seawall sim`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The plan (TOML)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Set one key, over what the plan says
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Run as long as the plan's `full` section says
    #[arg(long)]
    full: bool,

    /// Print the results as JSON: an array with one object for each run
    #[arg(long)]
    json: bool,

    /// Also write a chart of each figure into this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,

    /// Write a line for each event of the plan's first run to this file, and run nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "plot"])]
    trace: Option<PathBuf>,
}

/// Runs `seawall sim`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let settings = plans::settings(&options.set)?;
    let plan = plans::read(&options.plan, |text, open| Plan::read(text, &settings, open))?;
    let plan = if options.full { plan.full() } else { plan };
    if let Some(file) = &options.trace {
        return trace(&plan, file);
    }
    if let Some(folder) = &options.plot {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let runs = simulate(&plan, &options.plan.display().to_string())?;
    if let Some(folder) = &options.plot {
        plot::write(&plan.figures(), &runs, folder)?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&runs)?)?;
    } else {
        let cases: Vec<Params> = plan.cases()?.into_iter().map(|case| case.params).collect();
        let names = plan.params();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let shown = Shown {
            title: &plan.title,
            names: &names,
            columns: &plan.columns(),
            cases: &cases,
            claims: &plan.claims,
            runs: &runs,
            repeats: "seeds",
        };
        write!(out, "{}", shown.render())?;
    }
    Ok(())
}

/// Runs a plan, with progress.
pub(crate) fn simulate(plan: &Plan, name: &str) -> Result<Vec<Run>> {
    let progress = Progress::of_steps(plan.runs()? as u64);
    Ok(plan.run(|case, seed| progress.step(format!("{name}: {case}, seed {seed}")))?)
}

fn trace(plan: &Plan, file: &Path) -> Result<()> {
    let name = file.display();
    let out = std::fs::File::create(file).with_context(|| format!("cannot write {name}"))?;
    let mut out = std::io::BufWriter::new(out);
    let cases = plan.cases()?;
    let case = cases.first().context("the plan has no cases")?;
    if case.scenario.graph.is_some() {
        let world = seawall_sim::graph::World::new(&case.scenario, 1)?;
        world.traced(&mut out).run(case.params.clone(), 1)?;
    } else {
        seawall_sim::World::new(&case.scenario, 1)?.traced(&mut out).run()?;
    }
    out.flush().with_context(|| format!("cannot write {name}"))?;
    Ok(())
}
