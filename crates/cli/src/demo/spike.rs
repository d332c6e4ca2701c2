//! A load that rises at once, and how a service takes it.

use std::time::Duration;

use anyhow::Result;
use seawall_measure::{Load, Schedule, Settled, Stability};

use super::measure::Bench;
use crate::load::engine::Run;
use crate::progress::Progress;
use crate::report::data::{Bin, Spike, SpikeRun};

/// The load before the rise and after it, as multiples of the capacity.
const FROM: f64 = 0.5;
const TO: f64 = 2.0;

/// Measures the rise without control and with it.
pub(super) fn measure(bench: &Bench<'_>, progress: &Progress) -> Result<Spike> {
    let (before, after) = bench.plan.spike();
    // The generator warms up first, so that what lies before the rise is settled, too.
    let shift = bench.plan.warm_up() + before;
    let steps = vec![(Duration::ZERO, Load::OfCapacity(FROM)), (shift, Load::OfCapacity(TO))];
    let rates = Schedule::new(steps)?.rates(Some(bench.capacity()))?;
    let mut runs = Vec::new();
    for control in bench.plan.controls() {
        let name = bench.subject.name();
        progress.step(format!("{name}: spike to {TO}× capacity, control: {control}"));
        let server = bench.setup(control).start()?;
        // What is measured begins at the shift; what was before it is in the series.
        runs.push((control, bench.offer(server.address, control, rates.clone(), shift, after)?));
    }
    let at_s = shift.as_secs_f64();
    let (_, controlled) = &runs[1];
    let warm = bench.plan.warm_up().as_secs_f64()..at_s;
    let calm: Vec<f64> = controlled
        .series
        .bins()
        .filter(|bin| warm.contains(&bin.begin_seconds))
        .map(|bin| bin.goodput)
        .collect();
    let stable = settled_after(controlled, shift, Stability::default());
    Ok(Spike {
        stable_after_ms: millis(stable),
        too_short: stable == Settled::TooShort,
        from_load: FROM,
        to_load: TO,
        at_s,
        goodput_before: calm.iter().sum::<f64>() / calm.len().max(1) as f64,
        goodput_after: controlled.summary.total.goodput,
        p99_us_after: controlled.summary.total.p99_us,
        runs: runs.iter().map(|(control, run)| over_time(control, run, shift)).collect(),
    })
}

fn over_time(control: &str, run: &Run, shift: Duration) -> SpikeRun {
    let bins = run.series.bins().map(|bin| Bin {
        t_s: bin.begin_seconds,
        offered: bin.offered,
        goodput: bin.goodput,
        throughput: bin.throughput,
        drops: bin.client_drops + bin.server_drops,
        p99_us: bin.p99_us,
    });
    SpikeRun {
        control: control.to_owned(),
        stable_after_ms: millis(settled_after(run, shift, Stability::default())),
        stable_bin_by_bin_ms: millis(settled_after(run, shift, Stability::default().bin_by_bin())),
        series: bins.collect(),
    }
}

fn settled_after(run: &Run, shift: Duration, rule: Stability) -> Settled {
    let config = run.series.config();
    run.series.stable_between(config.start + shift, config.end, &rule)
}

fn millis(settled: Settled) -> Option<f64> {
    match settled {
        Settled::After(after) => Some(after.as_secs_f64() * 1e3),
        Settled::Never | Settled::TooShort => None,
    }
}
