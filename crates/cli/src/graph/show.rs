//! `seawall graph show`: the table of a graph, and what it can do.

use anyhow::{Context, Result};
use clap::Args;
use seawall_control::scaling::pool;
use seawall_measure::Graph;
use seawall_measure::graph::NAMES;

use crate::output::print;
use crate::report::{format, grid};

const EXAMPLES: &str = "\
Examples:
  seawall graph show chain
  seawall graph show my-graph.toml --units 52      with as many units, shared out anew";

/// Options of `seawall graph show`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// chain, read-user-timeline, compose-post, search-hotel, recommend-hotel, or a file (TOML)
    #[arg(value_name = "GRAPH")]
    graph: String,

    /// Share out so many units for the highest throughput [default: those of the table]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    units: Option<u32>,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let graph = read(&options.graph)?;
    let units = match options.units {
        None => graph.services.iter().map(|service| service.units).collect(),
        Some(total) => graph.best_units(total),
    };
    let capacity = graph.capacity_with(&units);
    let rows: Vec<[String; 7]> = (graph.services.iter().zip(graph.visits()).zip(&units))
        .map(|((service, visits), units)| {
            let work = graph.mean_work(&service.name);
            let pools = service.pools.iter().map(|(callee, size)| {
                let busy = pool::size(capacity.jobs_per_second, graph.mean_latency(callee));
                format!("{callee} {size} (busy {busy})")
            });
            [
                service.name.clone(),
                graph.depth(&service.name).to_string(),
                format!("{visits:.2}"),
                format::delay(work.as_nanos() as f64 / 1e3),
                units.to_string(),
                format::rate(f64::from(*units) / work.as_secs_f64()),
                pools.collect::<Vec<_>>().join(", "),
            ]
        })
        .collect();
    let head = ["service", "depth", "visits", "work", "units", "jobs/s", "pools"];
    let hint = match graph.hops_behind_pools() {
        0 => String::new(),
        hops => format!(
            "Of each pool so many connections are busy then while nobody waits (Little's law).\n\
             The end of what is behind the pools is {hops} hops away: escalator.hint_start.\n"
        ),
    };
    print(&format!(
        "{}\n\n{} units do {} jobs/s, which {} bounds.\n{hint}",
        grid::render(&head, 1, &[rows]),
        units.iter().sum::<u32>(),
        format::rate(capacity.jobs_per_second),
        capacity.bottleneck,
    ))
}

/// The graph of a name, or the one in a file.
///
/// # Errors
///
/// Names what is wrong with it.
pub(super) fn read(graph: &str) -> Result<Graph> {
    if NAMES.contains(&graph) || !graph.contains(['.', '/']) {
        return Ok(Graph::named(graph)?);
    }
    let text = std::fs::read_to_string(graph).with_context(|| format!("cannot read {graph}"))?;
    Graph::read(&text).with_context(|| format!("in {graph}"))
}
