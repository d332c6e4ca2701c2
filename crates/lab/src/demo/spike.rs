//! A load that rises at once, and how a service takes it.

use std::time::Duration;

use anyhow::Result;
use seawall_measure::{Load, Schedule, Settled, Stability};

use super::measure::{Bench, Watched};
use super::result::{Bin, NO_CONTROL, Spike, SpikeRun};
use crate::progress::Progress;

/// The load before the rise and after it.
const FROM: f64 = 0.5;
const TO: f64 = 2.0;

/// Measures the rise without control and with it.
pub(super) fn measure(bench: &Bench<'_>, progress: &Progress) -> Result<Spike> {
    let (before, after) = bench.plan.spike();
    // The generator warms up first, so that what lies before the rise is settled, too.
    let shift = bench.plan.warm_up() + before;
    let mut runs = Vec::new();
    for control in bench.plan.controls() {
        let name = if control == NO_CONTROL { "without control" } else { control };
        progress.step(format!("{}: from {FROM}× to {TO}× at once, {name}", bench.service.name()));
        let mut watched = rise(bench, control, shift, after)?;
        if watched.disturbed {
            watched = rise(bench, control, shift, after)?;
        }
        runs.push(over_time(control, &watched, shift));
    }
    Ok(Spike { from_load: FROM, to_load: TO, at_s: shift.as_secs_f64(), runs })
}

fn rise(bench: &Bench<'_>, control: &str, shift: Duration, after: Duration) -> Result<Watched> {
    let steps = vec![(Duration::ZERO, Load::OfCapacity(FROM)), (shift, Load::OfCapacity(TO))];
    let rates = Schedule::new(steps)?.rates(Some(bench.capacity()))?;
    let server = bench.spec(control).start(bench.plan.command)?;
    // What is measured begins at the rise; what was before it is in the series.
    bench.offer(server.address, control, rates, shift, after)
}

fn over_time(control: &str, watched: &Watched, shift: Duration) -> SpikeRun {
    let series = &watched.run.series;
    let config = series.config();
    let settled = series.stable_between(config.start + shift, config.end, &Stability::default());
    let bins = series.bins().map(|bin| Bin {
        t_s: bin.begin_seconds,
        offered: bin.offered,
        goodput: bin.goodput,
        p99_us: bin.p99_us,
    });
    SpikeRun {
        control: control.to_owned(),
        stable_after_ms: match settled {
            Settled::After(after) => Some(after.as_secs_f64() * 1e3),
            Settled::Never | Settled::TooShort => None,
        },
        too_short: settled == Settled::TooShort,
        disturbed: watched.disturbed,
        goodput_after: watched.run.summary.total.goodput,
        bin_s: config.bin.as_secs_f64(),
        bins: bins.collect(),
    }
}
