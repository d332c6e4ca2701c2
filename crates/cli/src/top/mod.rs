//! `seawall top`: what a process does, live, in a terminal.

mod report;
mod screen;
mod watch;

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use seawall_control::config::duration;

use crate::live::Target;
use crate::output;
use report::Report;
use watch::Watch;

/// How often it may be looked.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  seawall top                                the server with --metrics 127.0.0.1:9117
  seawall top http://127.0.0.1:9118/         another one, such as a node agent
  seawall top --once                         one table, of what happens within a second
  seawall top --once --json                  the same for a program
  seawall top --json --interval 5s           a line of JSON every five seconds

It reads the same metrics as the page at that address, and shows the same. Key q ends it.";

/// Options of `seawall top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Where a server, proxy, node agent or demo shows its metrics
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:9117/",
        value_parser = |text: &str| Target::parse(text).map_err(|error| error.to_string()))]
    url: Target,

    /// How far apart readings are, over which rates are taken (100ms to 1m)
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,

    /// Print one table, of two readings, and end
    #[arg(long)]
    once: bool,

    /// Print JSON instead: a line for each interval, or one with --once
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(interval) if INTERVALS.contains(&interval) => Ok(interval),
        Ok(_) => Err("allowed is a duration from 100ms to 1m".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs `seawall top`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut watch = Watch::new(options.url.clone(), options.interval)?;
    if options.once {
        watch.next()?; // rates need two
        let Some(report) = watch.next()? else {
            bail!("no server runs there now, or it has begun anew between the two readings");
        };
        return output::print(&if options.json { line(&report)? } else { report.table() });
    }
    if options.json {
        loop {
            if let Some(report) = watch.next()? {
                output::print(&line(&report)?)?;
            }
        }
    }
    if !stdout().is_terminal() {
        bail!("standard output is no terminal; use --once or --json");
    }
    screen::run(watch)
}

fn line(report: &Report) -> Result<String> {
    Ok(serde_json::to_string(report).context("a report in JSON")? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_intervals_are_taken() {
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["10ms", "2m"] {
            assert_eq!(interval(wrong).unwrap_err(), "allowed is a duration from 100ms to 1m");
        }
        assert!(interval("soon").unwrap_err().contains("soon"));
    }
}
