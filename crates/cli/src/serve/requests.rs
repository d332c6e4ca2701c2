//! What became of a server's requests, by class: for whoever stops it.

use std::collections::BTreeMap;

use seawall_rpc::{ClassStats, Stats};
use serde::Serialize;

use crate::report::{format, grid};

/// The columns of the table.
const HEAD: [&str; 6] = ["class", "received", "served", "refused", "cancelled", "failed"];

/// Those that it has, too, where refused requests were handed on.
const SPILL_HEAD: [&str; 3] = ["handed on", "served there", "refused there"];

/// Requests of one class as a machine reads them.
#[derive(Debug, Serialize)]
pub(super) struct Class {
    class: String,
    received: u64,
    served: u64,
    failed: u64,
    cancelled: u64,
    /// By the name of the stage.
    refused: BTreeMap<String, u64>,
    handed_on: u64,
    served_there: u64,
    refused_there: u64,
}

/// Each class as a machine reads it.
pub(super) fn classes(stats: &Stats) -> Vec<Class> {
    stats.classes.iter().map(class).collect()
}

fn class(stats: &ClassStats) -> Class {
    let refused = stats.refusals.iter().map(|(stage, count)| (stage.to_string(), *count));
    Class {
        class: stats.class.clone(),
        received: stats.requests,
        served: stats.completions,
        failed: stats.failures,
        cancelled: stats.cancellations,
        refused: refused.collect(),
        handed_on: stats.spilled,
        served_there: stats.spilled_served,
        refused_there: stats.spilled_refused,
    }
}

/// A table of the classes of which there were requests; nothing without any. Ends with a line
/// break.
pub(super) fn table(stats: &Stats) -> String {
    let used = || stats.classes.iter().filter(|class| class.requests > 0);
    if used().next().is_none() {
        return String::new();
    }
    let spills = stats.spilled > 0;
    let head: Vec<&str> =
        HEAD.into_iter().chain(SPILL_HEAD.into_iter().filter(|_| spills)).collect();
    let rows: Vec<Vec<String>> = used().map(|class| row(class, spills)).collect();
    grid::render(&head, 1, &[rows]) + "\n"
}

fn row(stats: &ClassStats, spills: bool) -> Vec<String> {
    let ended =
        [stats.requests, stats.completions, stats.refused(), stats.cancellations, stats.failures];
    let handed_on = [stats.spilled, stats.spilled_served, stats.spilled_refused];
    let counts = ended.into_iter().chain(handed_on.into_iter().filter(|_| spills));
    let counts = counts.map(|count| format::rate(count as f64));
    std::iter::once(stats.class.clone()).chain(counts).collect()
}
