//! `seawall node`: what can be seen of this machine's CPUs, and who gets them.

mod log;
mod overhead;
mod precision;
mod publish;
mod responder;
mod run;

use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  seawall node precision                     predict waits for a CPU, and see what they really are
  seawall node responder                     what watching packets costs, and how soon it acts
  seawall node overhead                      what looking at 10, 100 and 1000 containers costs
  seawall node run --systemd 'web-*.service' --dry-run    what would be given to whom, and why
  seawall node run --config node.toml        give CPU to the container that is the cause of a surge
  seawall node log /var/lib/seawall/audit.jsonl           what was decided, for people";

/// Options of `seawall node`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure how well waits for a CPU are predicted (LIBROS, figure 6)
    Precision(precision::Options),
    /// Measure what watching packets costs, and how soon a late one is answered (SurgeGuard §IV-A)
    Responder(responder::Options),
    /// Measure what the agent costs, by the number of containers and the interval
    Overhead(overhead::Options),
    /// Services of that measurement
    #[command(hide = true)]
    OverheadServices(overhead::HelperOptions),
    /// Give CPU to the containers that are the cause of a surge, and take it from those at ease
    Run(Box<run::Options>),
    /// Show the log of decisions of `seawall node run`
    Log(log::Options),
    /// Put containers back when the agent that started this ends
    #[command(hide = true)]
    Watchdog(run::WatchdogOptions),
}

/// Runs `seawall node`.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.command {
        Command::Precision(options) => precision::run(options),
        Command::Responder(options) => responder::run(options),
        Command::Overhead(options) => overhead::run(options),
        Command::OverheadServices(options) => overhead::services(options),
        Command::Run(options) => run::run(options),
        Command::Log(options) => log::run(options),
        Command::Watchdog(options) => run::watchdog(options),
    }
}
