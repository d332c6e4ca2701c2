//! `seawall node responder`: what watching packets costs, and how soon a late one is answered.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use seawall_node::responder::measure::{PacketCosts, Reactions, TRIALS_MAX, costs, reactions};
use serde::Serialize;

use crate::host;
use crate::output;
use crate::report::grid;

const EXAMPLES: &str = "\
Examples:
  seawall node responder                                 half a minute
  seawall node responder --trials 1000                   more trials, for the tail
  seawall node responder --json                          numbers for a program

Packets go over the loopback device, through the program that the node agent loads. The kernel
counts what the program costs. It needs root, or CAP_BPF and CAP_PERFMON, and control groups for CPU
time that may be written. What else runs disturbs it.";

/// What the paper says of its kernel module (SurgeGuard §VI-D), nanoseconds.
const PUBLISHED_PACKET_NS: f64 = 260.0;
const PUBLISHED_ENQUEUE_NS: f64 = 440.0;
const PUBLISHED_WORKER_US: f64 = 2.1;

/// Options of `seawall node responder`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Rounds in which packets of one kind are sent
    #[arg(long, value_name = "N", default_value_t = 50)]
    rounds: usize,

    /// Packets in each round
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    packets: usize,

    /// Late packets whose effect is timed
    #[arg(long, value_name = "N", default_value_t = 200)]
    trials: u16,

    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// What a packet of one kind costs; of rounds' means.
#[derive(Debug, Serialize)]
struct Cost {
    packet: &'static str,
    ns_median: f64,
    ns_p99: f64,
}

/// From the moment before a late packet was sent.
#[derive(Debug, Serialize)]
struct Reaction {
    until: &'static str,
    trials: usize,
    us_median: f64,
    us_p99: f64,
    us_max: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    host: String,
    rounds: usize,
    packets: usize,
    costs: Vec<Cost>,
    reactions: Vec<Reaction>,
    /// Trials in which the quota's period ended at that very moment.
    spoilt: usize,
    is_worker_realtime: bool,
}

/// Runs `seawall node responder`.
pub(crate) fn run(options: &Options) -> Result<()> {
    for (option, value) in [
        ("--rounds", options.rounds),
        ("--packets", options.packets),
        ("--trials", options.trials.into()),
    ] {
        ensure!(value > 0, "{option} 0 would measure nothing; 1 or more is allowed");
    }
    ensure!(options.trials <= TRIALS_MAX, "--trials: at most {TRIALS_MAX} are allowed");
    let costs = costs(options.rounds, options.packets).context("cannot measure the cost")?;
    let reactions = reactions(options.trials).context("cannot measure the reaction")?;
    let report = Report {
        host: host::describe().kernel,
        rounds: options.rounds,
        packets: options.packets,
        costs: costs.iter().map(cost).collect(),
        reactions: rows(&reactions),
        spoilt: reactions.spoilt,
        is_worker_realtime: reactions.is_realtime,
    };
    if options.json {
        return output::print(&(serde_json::to_string_pretty(&report)? + "\n"));
    }
    output::print(&table(&report))
}

fn cost(of: &PacketCosts) -> Cost {
    let mut rounds = of.rounds.clone();
    rounds.sort_by(f64::total_cmp);
    Cost {
        packet: of.case.describe(),
        ns_median: quantile(&rounds, 0.5).unwrap_or(0.0),
        ns_p99: quantile(&rounds, 0.99).unwrap_or(0.0),
    }
}

fn rows(of: &Reactions) -> Vec<Reaction> {
    let row = |(until, times): (&'static str, &Vec<Duration>)| {
        let mut us: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        us.sort_by(f64::total_cmp);
        Reaction {
            until,
            trials: us.len(),
            us_median: quantile(&us, 0.5).unwrap_or(0.0),
            us_p99: quantile(&us, 0.99).unwrap_or(0.0),
            us_max: us.last().copied().unwrap_or(0.0),
        }
    };
    let phases = [
        ("the program has seen it", &of.seen),
        ("the raised word is read on another CPU", &of.word),
        ("the worker runs", &of.told),
        ("the quota is written", &of.written),
        ("the throttled container runs", &of.running),
    ];
    phases.into_iter().map(row).collect()
}

/// The smallest that is not below this share of them.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn table(report: &Report) -> String {
    let packets: Vec<_> = report
        .costs
        .iter()
        .map(|it| [it.packet.into(), format!("{:.0}", it.ns_median), format!("{:.0}", it.ns_p99)])
        .collect();
    let mut text = grid::render(&["packet", "ns", "p99"], 1, &[packets]);
    let _ = writeln!(
        text,
        "\n\nNanoseconds per packet, two readings of a clock included: {} rounds of {} packets; \
         p99 is of rounds.\nPaper (kernel module): {PUBLISHED_PACKET_NS:.0} per packet, and \
         {PUBLISHED_ENQUEUE_NS:.0} more to tell the worker.\n",
        report.rounds, report.packets,
    );
    let reaction = |it: &Reaction| {
        let us = |value: f64| format!("{value:.1}");
        [it.until.into(), it.trials.to_string(), us(it.us_median), us(it.us_p99), us(it.us_max)]
    };
    let rows: Vec<_> = report.reactions.iter().map(reaction).collect();
    text += &grid::render(&["until", "trials", "us", "p99", "max"], 1, &[rows]);
    let priority = if report.is_worker_realtime { "has" } else { "does not have" };
    let _ = writeln!(
        text,
        "\n\nMicroseconds since the late packet was about to be sent; sending is a part of each. \
         The worker {priority}\nreal-time priority; {} trials were spoilt by the end of a period. \
         Paper: {PUBLISHED_WORKER_US} for its worker to write a\nfrequency, with a CPU of its own.",
        report.spoilt,
    );
    text
}

#[cfg(test)]
mod tests {
    use seawall_node::responder::measure::Case;

    use super::*;

    #[test]
    fn quantiles_are_of_what_was_measured() {
        let of = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(quantile(&of(200), 0.99), Some(198.0));
        assert_eq!(quantile(&of(3), 0.5), Some(2.0));
        assert_eq!(quantile(&of(1), 0.99), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_table_shows_what_was_measured() {
        let costs = [PacketCosts { case: Case::InTime, rounds: vec![3.0, 1.0, 2.0] }];
        let mut measured = Reactions::default();
        measured.word = vec![Duration::from_micros(7); 4];
        let report = Report {
            host: String::new(),
            rounds: 3,
            packets: 10,
            costs: costs.iter().map(cost).collect(),
            reactions: rows(&measured),
            spoilt: 5,
            is_worker_realtime: false,
        };
        let text = table(&report);
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        let numbers = |line: String| -> Vec<f64> {
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        assert_eq!(numbers(line("ours, in time")), [2.0, 3.0]);
        assert_eq!(numbers(line("read on another CPU")), [4.0, 7.0, 7.0, 7.0]);
        assert!(text.contains("does not have") && text.contains("5 trials were spoilt"), "{text}");
    }
}
