//! `seawall-columns`: makes a series, and looks into it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use seawall_columns::file;
use seawall_columns::native::Request;
use seawall_columns::series::{ROWS, SEED, Series};
use seawall_columns::store::{Store, StoreConfig};
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};

const EXAMPLES: &str = "\
Examples:
  seawall-columns build series.arrow                a year of minutes, 372,960 rows
  seawall-columns build series.arrow --rows 5000000 --seed 7
  seawall-columns show series.arrow                 its rows, its maximum, its end when smoothed
  seawall serve columns series.arrow --semaphore try    serves it (build with --features columns)
  seawall load 127.0.0.1:7117 --workload columns --rate 1k";

/// A column store of price series: makes what `seawall serve columns` serves.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a series of prices as EUR/USD might have had, one row for each minute
    Build {
        /// The file; what it had before is replaced
        file: PathBuf,
        /// How many minutes (1 to 1000000000)
        #[arg(long, default_value_t = ROWS as u32,
            value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
        rows: u32,
        /// Which series: the same seed gives the same one
        #[arg(long, default_value_t = SEED)]
        seed: u64,
    },
    /// Print what a file has
    Show {
        /// The file
        file: PathBuf,
        /// How many rows smoothing takes about to forget
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        span: u32,
    },
}

fn main() -> ExitCode {
    let done = match Options::parse().command {
        Command::Build { file, rows, seed } => build(&file, rows, seed),
        Command::Show { file, span } => show(&file, span),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build(file: &Path, rows: u32, seed: u64) -> Result<()> {
    file::write(file, &Series::generate(rows as usize, seed))?;
    println!("{rows} rows in {}", file.display());
    Ok(())
}

fn show(file: &Path, span: u32) -> Result<()> {
    let store = Store::new(file::read_close(file)?, &StoreConfig::default());
    let nobody_waits = Context::new(Claims::default(), Instant::ORIGIN);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let compute = |request| runtime.block_on(store.compute(&nobody_waits, request));
    let (most, smoothed) = (compute(Request::max())?, compute(Request::Smooth { span })?);
    println!(
        "{} rows, at most {:.5}, smoothed over {span} rows to {:.5} at the end",
        most.rows, most.value, smoothed.value
    );
    Ok(())
}
