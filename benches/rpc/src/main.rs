//! Measures Seawall's RPC beside a bare echo and tonic, in turns.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use seawall_bench_rpc::closed_loop::{Load, Sample};
use seawall_bench_rpc::contestants::Contestant;
use seawall_bench_rpc::cores::Cores;
use seawall_bench_rpc::report::Report;
use seawall_bench_turns::order;

/// Measures Seawall's RPC beside a bare echo and tonic, in turns, and prints how they compare.
#[derive(Debug, Parser)]
struct Arguments {
    /// Turns of each contestant under each load.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds that each turn counts.
    #[arg(long, default_value = "1", value_parser = seconds)]
    seconds: Duration,
    /// Seconds before each turn that do not count.
    #[arg(long, default_value = "0.2", value_parser = seconds)]
    warm_up: Duration,
    /// Requests outstanding on the connection.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    depths: Vec<usize>,
    /// Bytes of each payload.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1024])]
    payloads: Vec<usize>,
    /// Who takes part.
    #[arg(long, value_delimiter = ',', default_values_t = Contestant::ALL)]
    contestants: Vec<Contestant>,
    /// Print JSON with all rounds.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if !(0.001..=3600.0).contains(&seconds) {
        return Err("allowed is 0.001 to 3600".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cores = Cores::divide();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(compete(&arguments, &cores))?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(())
}

async fn compete(arguments: &Arguments, cores: &Cores) -> Result<Report> {
    let mut loads = Vec::new();
    for &payload in &arguments.payloads {
        let (warm_up, time) = (arguments.warm_up, arguments.seconds);
        loads.extend(arguments.depths.iter().map(|&depth| Load { payload, depth, warm_up, time }));
    }
    let nobody = || arguments.contestants.iter().map(|one| (*one, Vec::new())).collect::<Vec<_>>();
    let mut turns: Vec<Vec<(Contestant, Vec<Sample>)>> = loads.iter().map(|_| nobody()).collect();
    for round in 0..arguments.rounds as usize {
        for (load, turns) in loads.iter().zip(&mut turns) {
            for index in order(round, turns.len()) {
                let (contestant, samples) = &mut turns[index];
                let turn = contestant.turn(load, cores, || {}).await;
                samples.push(turn.with_context(|| format!("{contestant} failed"))?);
            }
        }
        eprintln!("round {} of {} is over", round + 1, arguments.rounds);
    }
    let mut report = Report::new(cores.are_divided(), arguments.seconds.as_secs_f64());
    for (load, turns) in loads.iter().zip(&turns) {
        report.add(load.payload, load.depth, turns);
    }
    Ok(report)
}
