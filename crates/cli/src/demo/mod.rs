//! `seawall demo`: a real server under real overload, with control and without.

mod measure;
mod plan;
mod server;
mod spike;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use seawall_control::admission;

use crate::cores::Cores;
use crate::live::{About, Hosts, Live, Screen, Source, View};
use crate::output::print;
use crate::progress::Progress;
use crate::report::{data::NO_CONTROL, page, table};
use crate::{descriptors, host};
use plan::{Plan, Subject};

/// Multiples of the capacity that can be asked for: beyond, no generator keeps up.
const LOADS: RangeInclusive<f64> = 0.01..=20.0;

/// How long a point may be measured, in seconds: no longer than lets the spike, which takes three
/// times as long, be told in bins of 20 ms.
const SECONDS: RangeInclusive<f64> = 0.1..=10.0;

const EXAMPLES: &str = "\
Examples:
  seawall demo                                           everything: 90 seconds on two cores
  seawall demo --only kv --loads 1,2 --seconds 0.5       a quick look at one service
  seawall demo --sessions 1000 --json > demo.json        many clients; numbers for a program

For each service the demo measures the round trip and the capacity, then each load without \
control and with it, then a spike from half the capacity to twice the capacity. The SLO is ten \
times what a request takes unloaded. Server and load each keep to a core of their own.";

/// Options of `seawall demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Print the results as JSON: an array with one object for each service
    #[arg(long)]
    json: bool,

    /// Where to write the page with charts
    #[arg(long, value_name = "FILE", default_value = "seawall-demo.html")]
    html: PathBuf,

    /// The algorithm to show
    #[arg(long, value_name = "NAME", default_value = "breakwater",
        value_parser = PossibleValuesParser::new(algorithms()))]
    algorithm: String,

    /// Client sessions, each a connection of its own (1 to 10000)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sessions: u32,

    /// Loads of the sweep, as multiples of the measured capacity (0.01 to 20)
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.9,1,1.2,1.5,2,3",
        allow_negative_numbers = true, value_parser = |text: &str| within(text, LOADS))]
    loads: Vec<f64>,

    /// Only this service
    #[arg(long, value_enum)]
    only: Option<Subject>,

    /// Where to serve the live page while the demo runs; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    metrics: SocketAddr,

    /// Answer there also to this host name, or to all (*); may be given again [default: loopback
    /// names, and addresses in digits]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// How long each point is measured, in seconds (0.1 to 10); all other times follow from it
    #[arg(long, default_value = "1.4", allow_negative_numbers = true,
        value_parser = |text: &str| within(text, SECONDS))]
    seconds: f64,
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

/// Runs `seawall demo`.
pub(crate) fn run(options: &Options) -> Result<()> {
    page::file::check(&options.html)?;
    // Good for the servers as well: they are processes of their own with as many connections.
    descriptors::suffice(options.sessions, 1)?;
    let cores = Cores::keep()?;
    let subjects = match options.only {
        Some(subject) => vec![subject],
        None => vec![Subject::Synthetic, Subject::Kv],
    };
    let (screen, about) = (Screen::default(), About::new("demo"));
    let hosts = Hosts::new(&options.allow_host)?;
    let view = View { source: Source::Elsewhere(screen.clone()), about: about.clone(), hosts };
    eprintln!("live page, while this runs: {}", Live::start(options.metrics, view)?.url());
    let plan = Plan {
        cores,
        algorithm: options.algorithm.clone(),
        sessions: options.sessions,
        loads: options.loads.clone(),
        point: Duration::from_secs_f64(options.seconds),
        screen,
    };
    let progress = Progress::of_steps(plan.steps() * subjects.len() as u64).shown_by(about);
    let services: Result<Vec<_>> =
        subjects.into_iter().map(|subject| measure::service(subject, &plan, &progress)).collect();
    drop(progress);
    let services = services?;

    let page = page::services::render(&services, &host::describe());
    // That it cannot be written is told last, so that the numbers are not lost with it.
    let written = page::file::write(&options.html, &page);
    print(&if options.json {
        serde_json::to_string_pretty(&services)? + "\n"
    } else {
        table::render(&services)
    })?;
    written
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
