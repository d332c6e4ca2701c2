//! Measures how soon a client learns that its call was refused while a collector has stopped the
//! server's world.
//!
//! ```text
//!   one core                                     the other core
//!   ┌─────────────────────────────┐              ┌──────────────────────────────────────┐
//!   │ client: sends by the clock, │ ◄──────────► │ server, in Java: native threads read │
//!   │ and notes when answers come │              │ and refuse, the collector collects   │
//!   └─────────────────────────────┘              └──────────────────────────────────────┘
//! ```

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Parser;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use seawall_bench_rpc::paced::{Paced, Tally};
use seawall_control::request::Stage;
use serde::Deserialize;

/// What `get` is in the store.
const GET: u16 = 1;

/// How long the server may be busy with getting warm.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measures how soon a client learns of a refusal while a collector has stopped the server's world.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seconds that are measured.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Calls in a second.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// What each call has left when it is sent, in microseconds.
    #[arg(long, default_value_t = 2_000)]
    deadline_us: u64,
    /// The server and its arguments: it prints `{"address":"127.0.0.1:PORT"}` once it listens, and
    /// ends with its standard input.
    #[arg(required = true, last = true)]
    program: Vec<String>,
}

#[derive(Deserialize)]
struct Ready {
    address: SocketAddr,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [server, client, ..] = cores[..] else { return Err(anyhow!("two cores are needed")) };
    ensure!(core_affinity::set_for_current(server), "cannot choose the server's core");
    let (mut child, address) = start(&arguments.program)?;
    ensure!(core_affinity::set_for_current(client), "cannot choose the client's core");
    let paced = |time| Paced {
        method: GET,
        payload: b"a key".to_vec(),
        rate: arguments.rate,
        time,
        deadline: Duration::from_micros(arguments.deadline_us),
    };
    paced(WARM_UP).run(address, &mut Tally::default())?;
    let mut tally = Tally::default();
    paced(Duration::from_secs(arguments.seconds)).run(address, &mut tally)?;
    drop(child.stdin.take()); // which ends it
    child.wait()?;
    print(&tally);
    Ok(())
}

fn start(program: &[String]) -> Result<(Child, SocketAddr)> {
    let (name, rest) = program.split_first().context("there is no program")?;
    let mut child =
        Command::new(name).args(rest).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("its output is a pipe")?).read_line(&mut line)?;
    let ready: Ready = serde_json::from_str(&line).context("the server did not start")?;
    Ok((child, ready.address))
}

fn print(tally: &Tally) {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["what", "calls", "ms p50", "p90", "p99", "max"]);
    let mut row = |what: String, count: u64, latencies: &seawall_measure::Latencies| {
        let quantiles = [0.5, 0.9, 0.99, 1.0].map(|quantile| {
            let us = latencies.quantile_us(quantile);
            us.map_or("-".into(), |us| format!("{:.2}", us / 1e3))
        });
        table.add_row([what, count.to_string()].into_iter().chain(quantiles));
    };
    row("served".into(), tally.in_time + tally.late, &tally.served);
    for (stage, (count, latencies)) in &tally.refused_at {
        row(format!("refused at {stage}"), *count, latencies);
    }
    println!("{table}");
    let [late, unanswered] = [tally.late, tally.unanswered()];
    println!("\n{late} results came late, and {unanswered} calls had no answer.");
    if tally.count_at(Stage::PAUSE) == 0 {
        println!("No call met a pause that was longer than it could wait.");
    }
}
