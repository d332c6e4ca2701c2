//! `seawall demo`: real servers under real overload, without control and with it.
//!
//! ```text
//!  machine ─► too busy?         server (a process)          verdict ─► three sentences
//!  stalls ──► disturbed? ─┐        ▲      │                   ▲           │
//!                         └─► measure: capacity, loads ─► result ──► table, page, JSON
//!                                     spike
//! ```

mod charts;
mod interval;
mod machine;
mod measure;
mod page;
mod plan;
mod result;
#[cfg(test)]
mod sample;
mod server;
mod service;
mod spike;
mod stalls;
mod table;
mod verdict;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use seawall_control::admission;

use crate::cores::Cores;
use crate::output::print;
use crate::progress::Progress;
use crate::report::page::file;
use crate::{descriptors, host};
use plan::Plan;
use result::{Demo, NO_CONTROL};
use server::Spec;
pub use service::Service;
use stalls::Canaries;

/// Multiples of the capacity that can be asked for: beyond, no generator keeps up.
const LOADS: RangeInclusive<f64> = 0.01..=20.0;

/// How much longer or shorter everything may be measured.
const STRETCH: RangeInclusive<f64> = 0.1..=10.0;

const EXAMPLES: &str = "\
Examples:
  seawall demo                                     two services: 80 seconds
  seawall demo --service lock --loads 1,2          one of them, and only these loads
  seawall demo --service cpu --service kv          services that take a whole core each
  seawall demo --json > demo.json                  numbers for a program

`make demo ARGS='OPTIONS'` builds and runs the same. Each service is measured at each load first \
without control and then with it; the SLO is ten times what a request takes unloaded. A point that \
the machine disturbs is measured once more. The exit status is 0 only if all points are valid and \
show what they are to show: without control, goodput collapses beyond the capacity; with it, \
goodput at twice the capacity is at least 0.9 of the best without, and the p99 within the SLO.";

/// Options of `seawall demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,

    /// Where to write the page with charts
    #[arg(long, value_name = "FILE", default_value = "seawall-demo.html")]
    html: PathBuf,

    /// Also write the first service's goodput as a picture (SVG)
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,

    /// What to overload; may be given again [default: worker and lock]
    #[arg(long, value_enum)]
    service: Vec<Service>,

    /// The algorithm that controls
    #[arg(long, value_name = "NAME", default_value_t = admission::Config::default().algorithm,
        value_parser = PossibleValuesParser::new(algorithms()))]
    algorithm: String,

    /// Client sessions, each a connection of its own (1 to 10000)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,

    /// Loads as multiples of the measured capacity (0.01 to 20)
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.9,1.2,2,3",
        allow_negative_numbers = true, value_parser = |text: &str| within(text, LOADS))]
    loads: Vec<f64>,

    /// Measure everything this many times as long (0.1 to 10)
    #[arg(long, value_name = "TIMES", default_value = "1", allow_negative_numbers = true,
        value_parser = |text: &str| within(text, STRETCH))]
    stretch: f64,

    /// Be one of the demo's servers
    #[arg(long, hide = true, value_name = "JSON")]
    serve: Option<String>,
}

/// The algorithms that control something.
fn algorithms() -> Vec<&'static str> {
    admission::NAMES.into_iter().filter(|name| *name != NO_CONTROL).collect()
}

fn within(text: &str, allowed: RangeInclusive<f64>) -> Result<f64, String> {
    match text.trim().parse() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => Err(format!("allowed is a number from {} to {}", allowed.start(), allowed.end())),
    }
}

/// Runs `seawall demo`. `command` is what this program is called with before these options: it
/// starts itself as the demo's servers. Answers whether what the demo is to show was seen.
///
/// # Errors
///
/// If a server cannot be started or measured, or the page cannot be written.
pub fn run(options: &Options, command: &'static [&'static str]) -> Result<bool> {
    if let Some(spec) = &options.serve {
        let spec: Spec = serde_json::from_str(spec).context("--serve is for the demo alone")?;
        return spec.serve().map(|()| true);
    }
    file::check(&options.html)?;
    options.picture.as_deref().map_or(Ok(()), file::check)?;
    // Good for the servers as well: they are processes of their own with as many connections.
    descriptors::suffice(options.sessions, 1)?;
    let services = match &options.service[..] {
        [] => vec![Service::Worker, Service::Lock],
        some => some.to_vec(),
    };
    let computes = services.iter().any(|service| service.computes());
    let plan = Plan {
        cores: if computes { Cores::keep()? } else { Cores::look()? },
        services,
        algorithm: options.algorithm.clone(),
        sessions: options.sessions,
        loads: options.loads.clone(),
        second: Duration::from_secs_f64(options.stretch),
        command,
    };
    let own = [Some(plan.cores.server), Some(plan.cores.load)];
    let canaries = Canaries::start(if computes { &own } else { &[None, None] })?;
    let busy = machine::too_busy(&canaries);
    if let Some(busy) = &busy {
        eprintln!("{busy}");
    }
    let demo = measure(&plan, &canaries, busy)?;

    print(&if options.json {
        serde_json::to_string_pretty(&demo)? + "\n"
    } else {
        table::render(&demo)
    })?;
    // Last, so that the numbers are not lost if a file cannot be written.
    if let (Some(path), Some(first)) = (&options.picture, demo.services.first()) {
        std::fs::write(path, charts::goodput(first, "demo").standalone())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    file::write(&options.html, &page::render(&demo))?;
    Ok(demo.held)
}

fn measure(plan: &Plan, canaries: &Canaries, busy: Option<String>) -> Result<Demo> {
    let progress = Progress::of_steps(plan.steps());
    let services = plan.services.iter();
    let services = services
        .map(|&service| measure::service(service, plan, canaries, &progress))
        .collect::<Result<Vec<_>>>()?;
    drop(progress);
    let unmet = verdict::unmet(&services);
    Ok(Demo {
        held: unmet.is_empty(),
        unmet,
        sentences: verdict::sentences(&services),
        warnings: busy.into_iter().chain(verdict::warnings(&services)).collect(),
        algorithm: plan.algorithm.clone(),
        services,
        host: host::describe(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_numbers_are_taken() {
        assert_eq!(within(" 0.5", LOADS), Ok(0.5));
        for text in ["0", "-1", "nan", "inf", "21", "many", ""] {
            let error = within(text, LOADS).unwrap_err();
            assert_eq!(error, "allowed is a number from 0.01 to 20", "{text}");
        }
    }
}
