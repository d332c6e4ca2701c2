//! The `seawall` command.

mod demo;
mod load;
mod options;
mod pin;
mod report;
mod serve;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Keeps services fast when more work arrives than they can do.
///
/// Start with `seawall demo`: it overloads a real server on this machine, with control and without.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    /// What to log on standard error, such as `info` or `seawall_rpc=debug`.
    #[arg(long, global = true, env = "SEAWALL_LOG", default_value = "warn")]
    log: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what overload does to a server, and what control does about it (90 seconds)
    Demo(demo::Options),
    /// Run a server: a synthetic one that spends CPU time, or a key-value store
    Serve(serve::Options),
    /// Offer a load to a server, whatever it answers, and measure
    Load(Box<load::Options>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = match tracing_subscriber::EnvFilter::try_new(&cli.log) {
        Ok(filter) => filter,
        Err(error) => {
            eprintln!("error: --log {}: {error}; write a level such as info", cli.log);
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let done = match cli.command {
        Command::Demo(options) => demo::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Load(options) => load::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has had enough: not an error worth a message.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
