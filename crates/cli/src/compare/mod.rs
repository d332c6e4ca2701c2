//! `seawall compare`: algorithms side by side on live servers, as `seawall sim` has them in
//! simulated time.

mod arguments;
mod holds;
mod measure;
mod noise;
mod page;
mod plan;
mod point;
mod stages;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use toml::Value;

use crate::cores::Cores;
use crate::output::print;
use crate::plans::table::{Shown, lines};
use crate::plans::{self, plot, runs};
use crate::report::page::file;
use crate::{descriptors, host, pin};
use measure::Place;
use plan::Plan;
use point::{Point, Results};

const EXAMPLES: &str = "\
Examples:
  seawall compare experiments/live/two-mutexes-20.toml --html page.html
  seawall compare plan.toml --rates 1000,2000 --only seda --only protego    a quick look
  seawall compare plan.toml --rounds 5 --json > results.json                numbers for a program
  seawall compare plan.toml --set load.time=2s --set serve.server.slo=5ms   the same with other keys
  seawall compare plan.toml --save results                                  keep all points ...
  seawall compare plan.toml --from results --plot pictures                  ... and draw them again

A plan is a TOML file; docs/comparisons.md describes it. Each point has a fresh server on a core \
of its own, and the load another one. Points that the load could not be offered for are marked.";

/// What a reader should know of settings that saved points did not have, or may not have had.
const SET_LATER: &str = "The points were saved before: what --set says now had no part in them.";

/// Options of `seawall compare`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The plan (TOML)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Set one key, over what the plan says, such as load.time=2s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// How often each point runs [default: what the plan says]
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,

    /// Only this variant; may be repeated
    #[arg(long, value_name = "VARIANT")]
    only: Vec<String>,

    /// Only these rates, per second or as multiples of the plan's capacity, such as 400,1.6k
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    rates: Vec<String>,

    /// Print the results as JSON: an object with an array of points
    #[arg(long)]
    json: bool,

    /// Write a page with figures, claims and all points here
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write a chart of each figure into this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,

    /// Also write all points into this folder, as JSON, in a file named after the plan's
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Show the points that were saved in this folder instead of running anything
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "rounds"])]
    from: Option<PathBuf>,
}

/// Runs `seawall compare`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let plan = read(options)?;
    options.html.as_deref().map_or(Ok(()), file::check)?;
    let name = options.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let saved = format!("{name}.json");
    let results = match &options.from {
        Some(folder) => {
            let mut results = of_plan(&plan, runs::load(&folder.join(&saved))?)?;
            results.notes.extend((!options.set.is_empty()).then(|| SET_LATER.to_owned()));
            results
        }
        None => compare(&plan)?,
    };
    // What cannot be written is told last, so that the numbers are not lost with it.
    let written = write(options, &plan, &name, &results);
    print(&if options.json {
        serde_json::to_string_pretty(&results)? + "\n"
    } else {
        text(&plan, &results)
    })?;
    written
}

fn read(options: &Options) -> Result<Plan> {
    let mut settings = plans::settings(&options.set)?;
    let rounds = options.rounds.map(|rounds| Value::Integer(rounds.into()));
    settings.extend(rounds.map(|rounds| ("rounds".to_owned(), rounds)));
    let plan = plans::read(&options.plan, |text, open| Plan::read(text, &settings, open))?;
    let name = options.plan.display();
    plan.only(&options.only, &options.rates).map_err(|error| anyhow!("in {name}: {error}"))
}

fn compare(plan: &Plan) -> Result<Results> {
    if plan.app == plan::App::Http {
        bail!("`seawall compare` starts no HTTP servers; show saved points of them with --from");
    }
    for subject in plan.subjects()? {
        let each = if subject.offer.retries { plan.replicas as u32 } else { 1 };
        let sessions = subject.offer.sessions.saturating_mul(each);
        descriptors::suffice(sessions, subject.offer.threads)?;
    }
    let available = pin::available();
    let cores = Cores::keep()?;
    let (place, note) = Place::new(cores, plan.cores, &available, pin::siblings)?;
    let points = measure::all(plan, &place)?;
    let notes = note.map(str::to_owned).into_iter().collect();
    Ok(Results { title: plan.title.clone(), host: host::describe(), notes, points })
}

/// The points of a file that are of the plan as it is.
fn of_plan(plan: &Plan, mut results: Results) -> Result<Results> {
    let cases = plan.cases();
    results.points.retain(|point| cases.contains(&point.params));
    let missing = cases.iter().find(|case| !results.points.iter().any(|p| p.params == **case));
    match missing {
        Some(case) => Err(anyhow!("--from: there is no point with {case}")),
        None => Ok(results),
    }
}

fn write(options: &Options, plan: &Plan, name: &str, results: &Results) -> Result<()> {
    if let Some(folder) = &options.save {
        runs::save(folder, &format!("{name}.json"), results)?;
    }
    if let Some(folder) = &options.plot {
        make(folder)?;
        plot::write(&plan.figures(), &results.points, folder)?;
    }
    match &options.html {
        Some(path) => file::write(path, &page::render(plan, name, results)),
        None => Ok(()),
    }
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Table, claims, stages, predicted holds, and what must be known of the points.
fn text(plan: &Plan, results: &Results) -> String {
    let warnings = results.points.iter().flat_map(Point::warnings);
    let remarks: String =
        warnings.chain(results.notes.iter().cloned()).map(|remark| lines(&remark)).collect();
    let cases = plan.cases();
    let shown = shown(plan, &cases, results);
    shown.render() + &remarks + &stages::text(&results.points) + &holds::text(&results.points)
}

fn shown<'a>(
    plan: &'a Plan,
    cases: &'a [seawall_sim::plan::Params],
    results: &'a Results,
) -> Shown<'a, Point> {
    Shown {
        title: &plan.title,
        names: &plan::NAMES,
        columns: &plan.columns,
        cases,
        claims: &plan.claims,
        runs: &results.points,
        repeats: "rounds",
    }
}
