//! `seawall reproduce`: what the papers claim, simulated, and judged.

mod page;
mod retune;
mod systems;
mod table;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use seawall_sim::{Plan, Run};
use serde::Serialize;

use crate::plans::claims::{self, Finding};
use crate::plans::runs;
use crate::report::page::file;
use crate::{host, sim};
#[cfg(test)]
pub(crate) use systems::commands_elsewhere;
use systems::{NotSimulated, System};

const EXAMPLES: &str = "\
Examples:
  seawall reproduce breakwater                   every claim, in some minutes, and a page
  seawall reproduce breakwater --figure 4        one figure
  seawall reproduce breakwater --full            runs as long as the paper's
  seawall reproduce --json > claims.json         for a program
  seawall reproduce breakwater --save runs       keep all runs, as JSON ...
  seawall reproduce breakwater --from runs       ... and judge them again
  seawall reproduce breakwater --retune          look for the baselines' best parameters again

The plans are in the folder experiments, each with the reasons for its numbers; `seawall sim` runs
them one by one. A claim that is not reproduced stays in the table.";

/// Options of `seawall reproduce`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Whose evaluation [default: all]
    #[arg(value_parser = PossibleValuesParser::new(systems::names()))]
    system: Option<String>,

    /// Only the plan of this figure, such as 4 or 1a; may be repeated
    #[arg(long, value_name = "FIGURE")]
    figure: Vec<String>,

    /// Run as long as the papers do: an hour or so
    #[arg(long)]
    full: bool,

    /// Print the verdicts as JSON: an array with one object for each claim, those at the end that
    /// only a live system can judge (none with --figure)
    #[arg(long)]
    json: bool,

    /// Where to write the page with charts
    #[arg(long, value_name = "FILE", default_value = "seawall-reproduce.html")]
    html: PathBuf,

    /// Also write the runs of each plan into this folder, as JSON
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Judge the runs that were saved in this folder instead of running anything
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "full"])]
    from: Option<PathBuf>,

    /// Look for the best parameters of each baseline, some minutes, and print them as the file
    /// tuned.toml beside the plans: nothing is judged. With --figure only one plan, such as
    /// tune-dagor
    #[arg(long, conflicts_with_all = ["full", "save", "from"])]
    retune: bool,
}

impl Options {
    /// Whether this plan is to be run.
    fn wants(&self, plan: &str) -> bool {
        self.figure.is_empty() || self.figure.iter().any(|id| is_figure(plan, id))
    }
}

/// A plan of a system, and its runs.
#[derive(Debug)]
struct Experiment {
    system: &'static str,
    plan: Plan,
    runs: Vec<Run>,
}

/// Runs `seawall reproduce`.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.retune {
        return retune(options);
    }
    file::check(&options.html)?;
    let mut plans = Vec::new();
    for system in systems::chosen(options.system.as_deref()) {
        for &(name, text) in system.plans.iter().filter(|(name, _)| options.wants(name)) {
            plans.push((system, name, read(options, system, name, text)?));
        }
    }
    if plans.is_empty() {
        bail!("--figure: there is no plan of {}; `ls experiments`", options.figure.join(", "));
    }
    let experiments = plans.into_iter().map(|(system, name, plan)| {
        let runs = runs(options, &plan, system, name)?;
        Ok(Experiment { system: system.name, plan, runs })
    });
    let experiments = experiments.collect::<Result<Vec<_>>>()?;
    let findings: Vec<Finding> = experiments.iter().flat_map(findings).collect();
    file::write(&options.html, &page::render(&experiments, &findings, &host::describe()))?;
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&records(options, &findings))?)?;
    } else {
        write!(out, "{}", table::render(&findings, options.figure.is_empty()))?;
    }
    Ok(())
}

/// A claim as JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Record<'a> {
    Judged(&'a Finding),
    NotSimulated(NotSimulated),
}

/// All claims; with those that no simulator can judge, unless only some figures were asked for.
fn records<'a>(options: &Options, findings: &'a [Finding]) -> Vec<Record<'a>> {
    let all = options.figure.is_empty();
    let systems = systems::chosen(options.system.as_deref()).filter(|_| all);
    let elsewhere = systems.flat_map(System::not_simulated).map(Record::NotSimulated);
    findings.iter().map(Record::Judged).chain(elsewhere).collect()
}

fn retune(options: &Options) -> Result<()> {
    let mut settings = Vec::new();
    for system in systems::chosen(options.system.as_deref()) {
        settings.extend(retune::retune(system, |plan| options.wants(plan))?);
    }
    let text = if options.json {
        serde_json::to_string_pretty(&settings)? + "\n"
    } else {
        retune::render(&settings)?
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Whether a plan's name, such as `figure-01a`, is that of the figure `1a`.
fn is_figure(name: &str, id: &str) -> bool {
    let number = name.strip_prefix("figure-").unwrap_or(name).trim_start_matches('0');
    number == id.trim_start_matches('0')
}

fn read(options: &Options, system: &System, name: &str, text: &str) -> Result<Plan> {
    let plan = Plan::read(text, &[], |file| system.file(file))
        .with_context(|| format!("in experiments/{}/{name}.toml", system.name))?;
    Ok(if options.full { plan.full() } else { plan })
}

/// The runs of a plan: simulated now, or saved before.
fn runs(options: &Options, plan: &Plan, system: &System, name: &str) -> Result<Vec<Run>> {
    let file = format!("{}-{name}.json", system.name);
    let runs = match &options.from {
        Some(folder) => runs::load(&folder.join(&file))?,
        None => sim::simulate(plan, &format!("{} {name}", system.name))?,
    };
    if let Some(folder) = &options.save {
        runs::save(folder, &file, &runs)?;
    }
    Ok(runs)
}

fn findings(experiment: &Experiment) -> Vec<Finding> {
    claims::judge(experiment.system, &experiment.plan.claims, &experiment.runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_can_be_read() {
        for system in systems::chosen(None) {
            for (name, text) in system.plans {
                let plan = Plan::read(text, &[], |file| system.file(file));
                let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!plan.claims.is_empty() || !plan.figures().is_empty(), "{name}");
                plan.full().cases().unwrap_or_else(|error| panic!("{name}, full: {error}"));
            }
        }
    }

    #[test]
    fn figures_are_known_by_their_numbers() {
        assert!(is_figure("figure-04", "4") && is_figure("figure-01a", "1a"));
        assert!(is_figure("figure-10", "10") && !is_figure("figure-10", "1"));
    }
}
