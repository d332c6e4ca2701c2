//! Whether a server serves all again once an overload is over.

use std::time::Duration;

use seawall_control::Instant;
use seawall_measure::{Outcome, Window};

use crate::scenario::Scenario;

/// A load that is low: what is left of the capacity drains what the overload has left behind.
const LOW: f64 = 0.8;

/// What any algorithm may take beyond that, to open up again.
const SLACK: Duration = Duration::from_millis(500);

/// Time in which recovery can be judged at least.
const JUDGED: Duration = Duration::from_millis(20);

/// Part of what is offered that must be served in time then.
const RECOVERED: f64 = 0.9;

/// Counts what is due after the last overload, and after the time that the queue of a server
/// without control takes to drain.
#[derive(Debug)]
pub(super) struct Recovery {
    window: Option<Window>,
    slo: Duration,
    offered: u64,
    good: u64,
}

impl Recovery {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { window: calm(scenario), slo: scenario.slo(), offered: 0, good: 0 }
    }

    pub(super) fn record(&mut self, scheduled: Instant, now: Instant, outcome: Outcome) {
        if self.window.is_some_and(|window| window.contains(scheduled)) {
            self.offered += 1;
            let in_time = now.since(scheduled) <= self.slo;
            self.good += u64::from(outcome == Outcome::Success && in_time);
        }
    }

    /// Whether goodput came back; `None` when there was no overload, or no time to tell.
    pub(super) fn verdict(&self) -> Option<bool> {
        self.window?;
        Some(self.good as f64 >= RECOVERED * self.offered as f64)
    }
}

/// The last part of a run, if it is calm after an overload.
fn calm(scenario: &Scenario) -> Option<Window> {
    let (rates, capacity) = (scenario.rates().ok()?, scenario.capacity());
    let length = scenario.run.length();
    let mut shifts: Vec<Duration> = rates.shifts().take_while(|&at| at < length).collect();
    let last = shifts.pop()?;
    let low = rates.at(last);
    if low > LOW * capacity {
        return None;
    }
    shifts.insert(0, Duration::ZERO);
    shifts.push(last);
    let excess = |step: &[Duration]| {
        (rates.at(step[0]) - capacity).max(0.0) * (step[1] - step[0]).as_secs_f64()
    };
    let backlog: f64 = shifts.windows(2).map(excess).sum();
    let drained = last + Duration::from_secs_f64(2.0 * backlog / (capacity - low)) + SLACK;
    let back = |crash: &crate::scenario::Crash| crash.at + crash.away < drained;
    let judged =
        backlog > 0.0 && drained + JUDGED <= length && scenario.workload.crashes.iter().all(back);
    judged.then(|| Window { start: Instant::ORIGIN + drained, end: Instant::ORIGIN + length })
}
