//! `seawall node`: what can be seen of this machine's CPUs.

mod precision;

use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  seawall node precision                     predict waits for a CPU, and see what they really are";

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
}

/// Runs `seawall node`.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.command {
        Command::Precision(options) => precision::run(options),
    }
}
