//! The demo by itself: a program that builds in a third of the time of `seawall`.

use std::process::ExitCode;

use clap::Parser;
use seawall_lab::demo;

/// Overload real servers on this machine, without control and with it
#[derive(Debug, Parser)]
#[command(name = "seawall-demo", version)]
struct Cli {
    #[command(flatten)]
    options: demo::Options,
}

fn main() -> ExitCode {
    match demo::run(&Cli::parse().options, &[]) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
