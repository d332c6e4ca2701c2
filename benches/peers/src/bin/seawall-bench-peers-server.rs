//! One workload behind one limiter, in Rust.

use clap::Parser;
use seawall_bench_peers::serve;

/// Serves one workload behind one limiter, on one thread, until standard input ends.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: serve::Options,
}

fn main() -> anyhow::Result<()> {
    serve::run(&Arguments::parse().options)
}
