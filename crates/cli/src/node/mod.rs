//! `seawall node`: what can be seen of this machine's CPUs.

mod precision;
mod responder;

use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  seawall node precision                     predict waits for a CPU, and see what they really are
  seawall node responder                     what watching packets costs, and how soon it acts";

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
}

/// Runs `seawall node`.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.command {
        Command::Precision(options) => precision::run(options),
        Command::Responder(options) => responder::run(options),
    }
}
