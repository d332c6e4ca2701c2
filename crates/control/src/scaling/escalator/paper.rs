//! Escalator as the paper describes it.

use alloc::vec::Vec;
use core::time::Duration;

use super::Config;
use crate::config::duration::scaled;
use crate::random::Rng;
use crate::scaling::intake::Measured;
use crate::scaling::ledger::Ledger;
use crate::scaling::roster::Roster;
use crate::scaling::scaler::Policy;
use crate::scaling::sensitivity::Curve;
use crate::scaling::{Causes, ContainerId, Reason};
use crate::time::Instant;

/// Scores, and gives one unit at a time.
#[derive(Debug)]
pub(super) struct Paper {
    config: Config,
    /// Over which the intake averages.
    window: Duration,
    rng: Rng,
    states: Roster<State>,
}

/// What is remembered of one container.
#[derive(Clone, Debug, Default)]
struct State {
    curve: Curve,
    /// Units and level, as last seen.
    seen: Option<(u32, u16)>,
    /// Since when it has them; `None` if it has had no others.
    changed: Option<Instant>,
    /// When the latest block of its requests began.
    block_began: Option<Instant>,
}

/// A container that should have more.
#[derive(Clone, Copy, Debug)]
struct Wish {
    at: usize,
    score: u32,
    causes: Causes,
    /// Among equal scores, the highest is first.
    rank: f64,
    sensitivity: Option<f64>,
}

impl Policy for Paper {
    fn decide(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        let ids = containers.iter().map(|container| container.id);
        self.states.align(ids, |_| State::default());
        let mut wishes = Vec::new();
        let mut at_ease = Vec::new();
        for (at, container) in containers.iter().enumerate() {
            self.observe(now, at, container);
            self.hint(at, container, ledger);
            let causes = self.causes(container);
            // Each condition that holds adds one (SurgeGuard §IV-B).
            match (causes.count(), self.ease(container)) {
                (0, Some(reason)) if has_more(container, ledger) => at_ease.push((at, reason)),
                (0, _) => {}
                (score, _) => wishes.push(self.wish(at, container, score, causes)),
            }
        }
        // What is taken first can be given at once.
        if at_ease.is_empty() {
            self.revoke(now, containers, ledger);
        }
        for (at, reason) in at_ease {
            self.lower(now, at, &containers[at], reason, ledger);
        }
        wishes.sort_by(|a, b| {
            b.score.cmp(&a.score).then(b.rank.total_cmp(&a.rank)).then(a.at.cmp(&b.at))
        });
        for wish in wishes {
            // What it has just lost it does not get back at once: that is no want of CPU.
            let is_unmet = !ledger.is_taken(wish.at)
                && self.is_settled(now, wish.at, &containers[wish.at], wish.causes)
                && !self.raise(&containers[wish.at], &wish, ledger);
            ledger.nominate(wish.at, wish.score, wish.sensitivity, is_unmet);
        }
    }

    fn curve(&self, container: ContainerId) -> Option<&Curve> {
        self.states.find(container).map(|state| &state.curve)
    }

    fn recall(&mut self, container: ContainerId, curve: Curve) {
        self.states.insert(container, State { curve, ..State::default() });
    }
}

impl Paper {
    pub(super) fn new(config: Config, window: Duration, seed: u64) -> Self {
        Self { config, window, rng: Rng::new(seed), states: Roster::default() }
    }

    /// Notes changes, whoever made them, and learns what the allocation is worth.
    fn observe(&mut self, now: Instant, at: usize, container: &Measured) {
        let showing = self.showing(container);
        let state = &mut self.states[at];
        let has = (container.units, container.level);
        if state.seen.replace(has).is_some_and(|seen| seen != has) {
            state.changed = Some(now);
        }
        let Some(block) = &container.block else { return };
        state.block_began = Some(block.began);
        // Requests that began before the change tell of what was before it.
        let since = state.changed.map_or(Instant::ORIGIN, |at| at + showing);
        let (samples, alpha) = (self.config.matrix_samples, self.config.alpha);
        state.curve.observe(container.units, block, since, samples, alpha);
    }

    /// A container whose requests wait for connections puts a hint on those that it sends, so that
    /// the services behind it are scaled up (SurgeGuard §III-B, table II).
    ///
    /// Deviation: the paper compares the ratio itself with a threshold. It is compared with the
    /// ratio at low load here, because a small pool makes requests wait even then; and the hint
    /// stays until the ratio has fallen below a second threshold, because it would flicker.
    fn hint(&self, at: usize, container: &Measured, ledger: &mut Ledger<'_>) {
        let config = &self.config;
        let ratio = container.queue_ratio().filter(|_| config.metrics && config.hint.counts());
        match ratio {
            Some(ratio) if ratio > config.queue_threshold => {
                ledger.set_hint(at, config.hint_start, Reason::QueueBuildup(ratio));
            }
            Some(ratio) if ratio >= config.queue_ok && container.hint > 0 => {}
            ratio => {
                ledger.set_hint(at, 0, Reason::QueueGone(ratio.unwrap_or(1.0)));
            }
        }
    }

    /// The conditions that make the container itself a candidate (SurgeGuard table II).
    fn causes(&self, container: &Measured) -> Causes {
        let config = &self.config;
        let residual = container.recent.and_then(|recent| recent.residual);
        let residual = residual.zip(container.baseline.residual);
        Causes {
            slow: self.slowness(container).is_some_and(|ratio| ratio > config.exec_threshold),
            hinted: config.metrics && config.hint.counts() && container.is_hinted,
            late: config.metrics
                && config.hint.measures()
                && residual.is_some_and(|(now, low)| now > config.residual_threshold * low),
            // Deviation: a service that refuses what it cannot serve in time keeps its execution
            // time short, and so hides from all conditions of the paper. What it sheds is demand.
            sheds: config.shed && container.is_shedding,
        }
    }

    fn slowness(&self, container: &Measured) -> Option<f64> {
        if self.config.metrics { container.exec_ratio() } else { container.latency_ratio() }
    }

    /// Why the container can do with less, if it can.
    ///
    /// Deviation: one that has no requests gives back what it has. In the artifact nothing is
    /// decided without new samples, so that it keeps its units for ever.
    fn ease(&self, container: &Measured) -> Option<Reason> {
        if container.is_idle {
            return Some(Reason::Idle);
        }
        let ratio = self.slowness(container).filter(|ratio| *ratio < self.config.exec_ok)?;
        Some(Reason::AtEase(ratio))
    }

    fn wish(&self, at: usize, container: &Measured, score: u32, causes: Causes) -> Wish {
        let sensitivity = self.states[at].curve.sensitivity(container.units);
        let rank = if self.config.sensitivity {
            // What nobody has tried is tried first.
            sensitivity.unwrap_or(f64::INFINITY)
        } else {
            self.slowness(container).unwrap_or(0.0)
        };
        Wish { at, score, causes, rank, sensitivity }
    }

    /// How long a change takes to show: requests that began after it must have ended.
    fn showing(&self, container: &Measured) -> Duration {
        scaled(container.expected.exec.unwrap_or(Duration::ZERO), self.config.settle)
    }

    /// From one raise to the next: until the change shows, and averages have forgotten what was
    /// before it.
    ///
    /// Deviation: the paper gives one core in each cycle of 0.2 ms. Where requests take longer than
    /// that, a container would get all that is free before its first request has ended with the
    /// first of these cores.
    fn settling(&self, container: &Measured) -> Duration {
        if self.config.settle == 0.0 {
            return Duration::ZERO;
        }
        self.showing(container).saturating_add(self.window)
    }

    /// Whether what is known of the container is newer than its last change.
    fn is_settled(&self, now: Instant, at: usize, container: &Measured, causes: Causes) -> bool {
        let state = &self.states[at];
        let Some(changed) = state.changed else { return true };
        let settling = self.settling(container);
        // Averages may be older than hints and what is shed, which are of the latest requests.
        let is_new = causes.hinted
            || causes.sheds
            || state.block_began.is_some_and(|began| began >= changed);
        settling.is_zero() || (now.since(changed) >= settling && is_new)
    }

    /// One unit, or the highest frequency: Parties as the artifact has it throws a coin. False if
    /// there is nothing left.
    fn raise(&mut self, container: &Measured, wish: &Wish, ledger: &mut Ledger<'_>) -> bool {
        let Wish { at, score, causes, .. } = *wish;
        let reason = Reason::Scored { score, causes };
        let top = ledger.level_max();
        let is_frequency = container.level < top && self.rng.chance(self.config.frequency_chance);
        (is_frequency && ledger.set_level(at, top, reason))
            || ledger.give(at, 1, reason) > 0
            || (container.level < top && ledger.set_level(at, top, reason))
    }

    /// One level, or one unit, from a container with a score of zero: again by a coin.
    fn lower(
        &mut self,
        now: Instant,
        at: usize,
        container: &Measured,
        reason: Reason,
        ledger: &mut Ledger<'_>,
    ) {
        let state = &self.states[at];
        let is_new = container.is_idle
            || state.changed.is_none_or(|changed| {
                now.since(changed) >= self.config.lower_every
                    && state.block_began.is_some_and(|began| began >= changed)
            });
        if !is_new {
            return;
        }
        let is_raised = container.level > ledger.level_base();
        let is_frequency = is_raised && self.rng.chance(self.config.frequency_chance);
        let mut slow_down = || ledger.set_level(at, container.level - 1, reason);
        if (is_frequency && slow_down()) || ledger.take(at, 1, reason) > 0 {
            return;
        }
        if is_raised {
            ledger.set_level(at, container.level - 1, reason);
        }
    }

    /// Takes the last unit of each container to which it is worth nothing (SurgeGuard §III-C).
    ///
    /// Deviation: §IV-B does this when no container has a score of zero. On a node with more than a
    /// few containers there always is one; so those that can give nothing do not count. A worth far
    /// below zero is noise, which the paper's artifact had a bound for in an earlier version. And
    /// the execution time of a container behind a pool does not say what a unit is worth to those
    /// that wait before it, nor does that of one that sheds say it of those whom it refuses.
    fn revoke(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        if !self.config.sensitivity {
            return;
        }
        let worthless = self.config.revoke_above..self.config.revoke_below;
        for (at, container) in containers.iter().enumerate() {
            let causes = self.causes(container);
            let is_hinted = container.is_hinted || causes.late;
            let is_awaited = causes.sheds || (is_hinted && !self.config.revoke_hinted);
            if container.units <= container.floor || is_awaited {
                continue;
            }
            let state = &self.states[at];
            let is_due =
                state.changed.is_none_or(|changed| now.since(changed) >= self.config.revoke_every);
            let worth = state.curve.sensitivity(container.units - 1);
            if let Some(worth) = worth.filter(|worth| is_due && worthless.contains(worth)) {
                ledger.take(at, 1, Reason::Insensitive(worth));
            }
        }
    }
}

/// Whether the container has more than it must.
fn has_more(container: &Measured, ledger: &Ledger<'_>) -> bool {
    container.units > container.floor || container.level > ledger.level_base()
}
