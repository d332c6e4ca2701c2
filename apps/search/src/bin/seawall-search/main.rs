//! `seawall-search`: builds an index, and asks it.

mod build;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_search::engine::{Engine, EngineConfig, Query};

const EXAMPLES: &str = "\
Examples:
  seawall-search build corpus                       a quarter of a million documents
  seawall-search query corpus sea wall
  seawall-search build mine --from lines.txt        own documents, one on each line
  seawall serve search corpus                       serves it (build with --features search)
  seawall load 127.0.0.1:7117 --workload search --words corpus/words.tsv --rate 2k";

/// Full-text search: builds the index that `seawall serve search` serves.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch packages of the distribution, and build an index of the texts in them
    Build(build::Options),
    /// Print the best documents that have any of some words
    Query {
        /// The folder with the index
        folder: PathBuf,
        /// What to look for
        #[arg(required = true)]
        words: Vec<String>,
        /// How many documents to print (1 to 100)
        #[arg(long, default_value_t = 10)]
        limit: u16,
    },
}

fn main() -> ExitCode {
    let done = match Options::parse().command {
        Command::Build(options) => build::run(&options),
        Command::Query { folder, words, limit } => query(&folder, &words, limit),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Some errors repeat their cause in their own text.
            let mut message = String::new();
            for cause in error.chain().map(ToString::to_string) {
                if !message.contains(&cause) {
                    message += if message.is_empty() { "error: " } else { ": " };
                    message += &cause;
                }
            }
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn query(folder: &Path, words: &[String], limit: u16) -> Result<()> {
    let engine = Engine::open(folder, &EngineConfig::default())?;
    let query = Query::new(&words.join(" "), limit)?;
    let nobody_waits = Context::new(Claims::default(), Instant::ORIGIN);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let found = runtime.block_on(engine.search(&nobody_waits, &query))?;
    println!("{} of {} documents", found.total, engine.documents());
    for hit in found.hits {
        println!("{:8.3}  {}", hit.score, hit.text);
    }
    Ok(())
}
