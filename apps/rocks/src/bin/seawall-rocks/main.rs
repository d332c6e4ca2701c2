//! `seawall-rocks`: builds a store, and looks into it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_rocks::data::{self, Counts};
use seawall_rocks::native;
use seawall_rocks::store::{Store, StoreConfig};

const EXAMPLES: &str = "\
Examples:
  seawall-rocks build store                         100,000 small values and 500 large ones
  seawall-rocks build store --keys 100000:5000      as many as in the paper, 5 GB
  seawall-rocks get store lkey-0000000000000007     prints how long a value is
  seawall serve rocks store --semaphore try         serves it (build with --features rocks)
  seawall load 127.0.0.1:7117 --workload rocks --rate 2k";

/// RocksDB with small and large values: builds what `seawall serve rocks` serves.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write values of 5 to 1,000 bytes and of 800,000 to 1,200,000 bytes, and compact them
    Build {
        /// Where to build; there must be no store yet
        folder: PathBuf,
        /// How many values of each kind, SMALL:LARGE
        #[arg(long, default_value_t = Counts::default())]
        keys: Counts,
    },
    /// Look up a key, and print how long its value is
    Get {
        /// The folder with the store
        folder: PathBuf,
        /// The key
        key: String,
    },
}

fn main() -> ExitCode {
    let done = match Options::parse().command {
        Command::Build { folder, keys } => build(&folder, keys),
        Command::Get { folder, key } => get(&folder, &key),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build(folder: &Path, keys: Counts) -> Result<()> {
    data::build(folder, keys, |_| {})?;
    let Counts { small, large } = keys;
    println!("{small} small and {large} large values in {}", folder.display());
    Ok(())
}

fn get(folder: &Path, key: &str) -> Result<()> {
    let store = Store::open(folder, &StoreConfig::default())?;
    let nobody_waits = Context::new(Claims::default(), Instant::ORIGIN);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let reply = runtime.block_on(store.get(&nobody_waits, key.as_bytes()))?;
    let found = native::decode_reply(reply)?.with_context(|| format!("there is no {key}"))?;
    println!("{} bytes", found.length);
    Ok(())
}
