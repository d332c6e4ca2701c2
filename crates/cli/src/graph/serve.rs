//! `seawall graph serve`: one service of a graph.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use seawall_control::config::duration;
use seawall_graph::cpu::{CpuConfig, CpuKind};
use seawall_graph::{Service, ServiceConfig};

use crate::child::Ready;
use crate::output::print;
use crate::serve::Stop;

/// How often nothing is done while the service runs.
const TICK: Duration = Duration::from_secs(3_600);

const EXAMPLES: &str = "\
Examples:
  seawall graph serve chain ping-4
  seawall graph serve chain ping-3 --peer ping-4=127.0.0.1:7118 --pages /run/seawall/pages

It prints where it listens as one line of JSON. A node agent that reads the folder of pages gives \
it CPU.";

/// Options of `seawall graph serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// chain, read-user-timeline, compose-post, search-hotel, recommend-hotel, or a file (TOML)
    #[arg(value_name = "GRAPH")]
    graph: String,

    /// Which of its services
    #[arg(value_name = "SERVICE")]
    service: String,

    /// Where a service listens that this one calls; once for each
    #[arg(long, value_name = "SERVICE=HOST:PORT", value_parser = peer)]
    peer: Vec<(String, SocketAddr)>,

    /// What work is done with
    #[arg(long, value_enum, default_value = "virtual")]
    cpu: Cpu,

    /// After so much work, virtual cores look at what they are worth, and real work gives way
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::parse)]
    quantum: Duration,

    /// What a unit of CPU is, in thousandths of one, as the agent's orders count
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    unit_milli: u32,

    /// The folder of its page of metrics [default: it publishes none]
    #[arg(long, value_name = "DIR")]
    pages: Option<PathBuf>,

    /// Start the real store that the table names for this service, and ask it for each request
    #[arg(long)]
    real_store: bool,

    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Seed of times of work and of chances
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Stop when standard input ends
    #[arg(long)]
    until_stdin_ends: bool,
}

/// What work is done with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cpu {
    /// Slots in which jobs spend time, as many as the agent's orders say
    Virtual,
    /// CPU time of this process
    Quota,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let stop = Stop::listen(options.until_stdin_ends)?;
    let mut config = ServiceConfig::new(super::show::read(&options.graph)?, &options.service);
    config.peers = options.peer.iter().cloned().collect::<BTreeMap<_, _>>();
    let kind = match options.cpu {
        Cpu::Virtual => CpuKind::Virtual,
        Cpu::Quota => CpuKind::Quota,
    };
    config.cpu = CpuConfig { kind, quantum: options.quantum };
    config.unit_milli = options.unit_milli;
    config.pages.clone_from(&options.pages);
    config.real_store = options.real_store;
    config.server.listen = options.listen;
    config.seed = options.seed;
    let service = Service::start(&config)?;
    let ready = Ready { address: service.address(), memcached: None, metrics: None };
    print(&(serde_json::to_string(&ready)? + "\n"))?;
    stop.wait(TICK, || {});
    Ok(())
}

fn peer(text: &str) -> Result<(String, SocketAddr)> {
    let (name, address) = text.split_once('=').context("write SERVICE=HOST:PORT")?;
    let address = address.parse().with_context(|| format!("{address} is no HOST:PORT"))?;
    Ok((name.to_owned(), address))
}
