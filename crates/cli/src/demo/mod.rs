//! `seawall demo`: a real server under real overload, with control and without.

mod host;
mod measure;
mod server;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::pin;
use crate::report::{data::ServiceReport, page, table};
use measure::{Cores, Subject};

/// Options of `seawall demo`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print the results as JSON: an array with one object for each service
    #[arg(long)]
    json: bool,

    /// Where to write the page with charts
    #[arg(long, value_name = "FILE", default_value = "seawall-demo.html")]
    html: PathBuf,

    /// The algorithm to show
    #[arg(long, value_name = "NAME", default_value = "breakwater")]
    algorithm: String,

    /// Client sessions, each a connection of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,

    /// Loads of the sweep, as multiples of the measured capacity
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.9,1,1.2,1.5,2,3")]
    loads: Vec<f64>,

    /// Only this service
    #[arg(long, value_enum)]
    only: Option<Subject>,

    /// How long each point is measured, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.4)]
    seconds: f64,
}

/// Runs `seawall demo`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cores = cores()?;
    let subjects: Vec<Subject> = match options.only {
        Some(subject) => vec![subject],
        None => vec![Subject::Synthetic, Subject::Kv],
    };
    let plan = measure::Plan {
        cores,
        algorithm: options.algorithm.clone(),
        sessions: options.sessions,
        loads: options.loads.clone(),
        point: Duration::try_from_secs_f64(options.seconds).context("--seconds is out of range")?,
    };
    let bar = progress(plan.steps() * subjects.len() as u64);
    let services: Result<Vec<ServiceReport>> = subjects
        .into_iter()
        .map(|subject| {
            measure::service(subject, &plan, &mut |step| {
                bar.set_message(step);
                bar.inc(1);
            })
        })
        .collect();
    bar.finish_and_clear();
    let services = services?;

    let page = page::render(&services, &host::describe());
    std::fs::write(&options.html, page)
        .with_context(|| format!("cannot write {}", options.html.display()))?;
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&services)?)?;
    } else {
        write!(out, "{}", table::render(&services))?;
    }
    eprintln!("page with charts: {}", options.html.display());
    Ok(())
}

/// The server's core and the load's.
fn cores() -> Result<Cores> {
    let available = pin::available();
    let server = *available.first().context("the system does not say which cores there are")?;
    let load = *available.get(1).unwrap_or(&server);
    pin::to_core(load)?;
    Ok(Cores { server, load })
}

fn progress(steps: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {pos}/{len} {msg}");
    let bar = ProgressBar::new(steps);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
