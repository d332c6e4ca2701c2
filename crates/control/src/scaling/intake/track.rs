//! What is kept of one container between snapshots.

use core::time::Duration;

use super::super::refusals::{Absurd, Refusals};
use super::super::{Averages, Container, Counters, Report};
use super::check::{self, Allowance};
use super::{Block, Config, Means, Measured, Used};
use crate::time::{Instant, nanos};

/// Samples that averages stand for when a container makes them itself: those of the artifact
/// remember 50 to 200 requests.
const AVERAGED_REQUESTS: u64 = 100;

/// The latest reading of sums.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    counters: Counters,
    allowance: Allowance,
}

/// Requests that are not enough for a block yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    began: Instant,
    sum: Counters,
}

/// Requests that wait for connections now.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    requests: u64,
    nanos: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    reading: Option<Reading>,
    pending: Option<Pending>,
    averages: Option<(Instant, Averages)>,
    cpu: Option<(Instant, Duration)>,
    recent: Option<Means>,
    /// The same, until the container begins anew.
    known: Option<Means>,
    /// Requests that ended within the window; what is older has lost as much weight as in averages.
    served: f64,
    waiting: Waiting,
    /// When the latest block ended, and how long it was.
    latest: Option<(Instant, Duration)>,
    hinted: Option<Instant>,
    shed: Option<Instant>,
    /// When there was last a request. The first snapshot counts as one.
    active: Option<Instant>,
}

impl Track {
    /// Reads the container's report into `row`.
    pub(super) fn read(
        &mut self,
        now: Instant,
        config: &Config,
        unit_milli: u32,
        container: &Container,
        row: &mut Measured,
        refusals: &mut Refusals,
    ) {
        self.active.get_or_insert(now);
        self.waiting = Waiting::default();
        match &container.report {
            Report::None => {}
            Report::Counters(counters) => {
                let result = self.on_counters(now, config, counters, row);
                result.unwrap_or_else(|absurd| refusals.count(absurd));
            }
            Report::Averages(averages) => {
                let result = self.on_averages(now, config, averages, row);
                result.unwrap_or_else(|absurd| refusals.count(absurd));
            }
        }
        row.used = self.used(now, unit_milli, container.cpu_time);
        let lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) <= config.window);
        // Averages that nobody renews may still say that there are hints.
        row.is_hinted = lately(self.hinted) && !row.is_idle;
        row.is_shedding = lately(self.shed);
        if let Some((ended, span)) = self.latest
            && now.since(ended) > config.idle_after.max(span.saturating_mul(2))
        {
            self.recent = None;
        }
        row.recent = self.recent.filter(|_| !row.is_idle);
        row.queue_buildup = self.queue_buildup(config).filter(|_| !row.is_idle);
    }

    fn on_counters(
        &mut self,
        now: Instant,
        config: &Config,
        counters: &Counters,
        row: &mut Measured,
    ) -> Result<(), Absurd> {
        let before = self.reading.as_ref();
        let waiting_ns = before.map_or(0, |before| {
            check::waited(before.counters.waiting_ns, counters, now.since(before.at))
        });
        let counters = &Counters { waiting_ns, ..*counters };
        let first = Reading {
            at: now,
            counters: *counters,
            allowance: Allowance::new(counters.in_flight, config.longest),
        };
        let Some(before) = self.reading.replace(first) else { return Ok(()) };
        let Some(growth) = check::growth(&before.counters, counters) else {
            // It began anew: what was averaged was another's.
            *self = Self { reading: self.reading, cpu: self.cpu, ..Self::default() };
            self.active = Some(now);
            row.is_restarted = true;
            return Ok(());
        };
        let span = now.since(before.at);
        let mut allowance = before.allowance;
        let is_possible = allowance.spend(before.counters.in_flight, &growth, span, config.longest);
        self.reading = Some(Reading { allowance, ..first });
        let absurd = check::absurd_growth(&growth, span);
        let absurd = absurd.or((!is_possible).then_some(Absurd::ExecTooLong));
        if let Some(absurd) = absurd {
            self.pending = None;
            return Err(absurd);
        }
        self.waiting = Waiting { requests: growth.waiting, nanos: growth.waiting_ns };
        let kept = libm::exp(-(nanos(span) as f64) / nanos(config.window) as f64);
        self.served = self.served * kept + growth.requests as f64;
        if growth.requests > 0 || growth.shed > 0 || growth.in_flight > 0 {
            self.active = Some(now);
        }
        row.is_idle = self.is_idle(now, config);
        if growth.hinted > 0 {
            self.hinted = Some(now);
        }
        if growth.shed > 0 {
            self.shed = Some(now);
        }
        let empty = Pending { began: before.at, sum: Counters::default() };
        let mut pending = self.pending.take().unwrap_or(empty);
        if pending.sum.requests == 0 {
            // What comes after a rest did not begin with it.
            pending.began = before.at;
        }
        add(&mut pending.sum, &growth);
        if pending.sum.requests < config.samples_min {
            self.pending = Some(pending);
            return Ok(());
        }
        if let Some(absurd) = check::absurd_block(&pending.sum, config.longest) {
            return Err(absurd);
        }
        let means = means(&pending.sum, row.depth)?;
        let requests = pending.sum.requests;
        row.block = Some(self.close(now, config, pending.began, requests, means));
        Ok(())
    }

    fn on_averages(
        &mut self,
        now: Instant,
        config: &Config,
        averages: &Averages,
        row: &mut Measured,
    ) -> Result<(), Absurd> {
        let before = self.averages.replace((now, *averages));
        if averages.is_hinted {
            self.hinted = Some(now);
        }
        // An average that did not change at all is an old one.
        let Some((at, _)) = before.filter(|(_, before)| before != averages) else {
            row.is_idle = self.is_idle(now, config);
            return Ok(());
        };
        self.active = Some(now);
        if let Some(absurd) = check::absurd_averages(averages, config.longest) {
            return Err(absurd);
        }
        let time_from_start =
            (averages.time_from_start_ns > 0.0).then_some(averages.time_from_start_ns);
        let means = Means {
            exec_metric: averages.exec_metric_ns,
            exec_time: averages.exec_time_ns.max(averages.exec_metric_ns),
            time_from_start,
            residual: time_from_start
                .filter(|_| row.depth > 0)
                .map(|time| time / f64::from(row.depth)),
        };
        let began = at;
        self.latest = Some((now, now.since(began)));
        // They are averages already.
        self.recent = Some(means);
        self.known = self.recent;
        row.block = Some(Block { began, requests: AVERAGED_REQUESTS, means });
        Ok(())
    }

    /// `queueBuildup` over the window, with those that wait now as if their waits ended now.
    ///
    /// Deviation: the paper's services report a request when it has ended. If all of a sudden none
    /// gets a connection, that says nothing for as long as the wait takes.
    fn queue_buildup(&self, config: &Config) -> Option<f64> {
        let ended = self.recent.map(|recent| recent.queue_buildup());
        let Some(known) = self.known else { return ended };
        let waiting = self.waiting.requests as f64;
        let requests = self.served + waiting;
        if self.waiting.requests == 0 || requests < config.samples_min as f64 {
            return ended;
        }
        let waits = self.served * (known.exec_time - known.exec_metric) + self.waiting.nanos as f64;
        let exec_time = known.exec_metric + waits / requests;
        let buildup = Means { exec_time, ..known }.queue_buildup();
        // What waits has not ended: this is the least that it will be.
        Some(ended.map_or(buildup, |ended| ended.max(buildup)))
    }

    fn is_idle(&self, now: Instant, config: &Config) -> bool {
        self.active.is_some_and(|at| now.since(at) >= config.idle_after)
    }

    /// Takes a block into the averages.
    fn close(
        &mut self,
        now: Instant,
        config: &Config,
        began: Instant,
        requests: u64,
        means: Means,
    ) -> Block {
        let span = now.since(began);
        self.latest = Some((now, span));
        // A block as long as the window weighs 63 %, whatever the interval between snapshots.
        let weight = -libm::expm1(-(nanos(span) as f64) / nanos(config.window) as f64);
        let mix = |old: f64, new: f64| old + weight * (new - old);
        let mix_option = |old: Option<f64>, new: Option<f64>| match (old, new) {
            (Some(old), Some(new)) => Some(mix(old, new)),
            (old, new) => new.or(old),
        };
        self.recent = Some(match self.recent {
            None => means,
            Some(old) => Means {
                exec_metric: mix(old.exec_metric, means.exec_metric),
                exec_time: mix(old.exec_time, means.exec_time),
                time_from_start: mix_option(old.time_from_start, means.time_from_start),
                residual: mix_option(old.residual, means.residual),
            },
        });
        self.known = self.recent;
        Block { began, requests, means }
    }

    fn used(&mut self, now: Instant, unit_milli: u32, cpu_time: Option<Duration>) -> Option<Used> {
        let cpu_time = cpu_time?;
        let (at, before) = self.cpu.replace((now, cpu_time))?;
        let span = now.since(at);
        let used = cpu_time.checked_sub(before)?;
        if span.is_zero() || unit_milli == 0 {
            return None;
        }
        let cpus = nanos(used) as f64 / nanos(span) as f64;
        Some(Used { units: cpus * 1_000.0 / f64::from(unit_milli), span })
    }
}

/// The means over a block. A container behind others whose jobs all began this very moment, or
/// later, has a clock that lags.
fn means(sum: &Counters, depth: u16) -> Result<Means, Absurd> {
    if sum.started > 0 && sum.time_from_start_ns == 0 && depth > 0 {
        return Err(Absurd::Clock);
    }
    let requests = sum.requests as f64;
    // Over those alone that say when their jobs began: others would pull the means to zero.
    let of_started = |nanos: u64| (sum.started > 0).then(|| nanos as f64 / sum.started as f64);
    let unexplained = of_started(sum.time_from_start_ns.saturating_sub(sum.upstream_exec_ns));
    Ok(Means {
        exec_metric: sum.exec_ns.saturating_sub(sum.pool_wait_ns) as f64 / requests,
        exec_time: sum.exec_ns as f64 / requests,
        time_from_start: of_started(sum.time_from_start_ns),
        residual: unexplained.filter(|_| depth > 0).map(|nanos| nanos / f64::from(depth)),
    })
}

fn add(sum: &mut Counters, growth: &Counters) {
    let add = |sum: &mut u64, growth: u64| *sum = sum.saturating_add(growth);
    add(&mut sum.requests, growth.requests);
    add(&mut sum.exec_ns, growth.exec_ns);
    add(&mut sum.pool_wait_ns, growth.pool_wait_ns);
    add(&mut sum.started, growth.started);
    add(&mut sum.time_from_start_ns, growth.time_from_start_ns);
    add(&mut sum.upstream_exec_ns, growth.upstream_exec_ns);
    add(&mut sum.hinted, growth.hinted);
    add(&mut sum.shed, growth.shed);
}
