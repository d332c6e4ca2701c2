//! Escalator as its artifact has it (tag v1.0).

use alloc::vec::Vec;

use crate::scaling::intake::Measured;
use crate::scaling::ledger::Ledger;
use crate::scaling::roster::Roster;
use crate::scaling::scaler::Policy;
use crate::scaling::sensitivity::Curve;
use crate::scaling::{Causes, ContainerId, Reason};
use crate::time::Instant;

/// A container is slow, or in order, at these multiples of what is expected.
const EXEC: (f64, f64) = (1.05, 0.95);

/// Its requests are late, or in order, at these multiples of [`LATE_FACTOR`] times what they are at
/// low load.
const LATE: (f64, f64) = (1.03, 0.98);
const LATE_FACTOR: f64 = 1.2;

/// A container with this score gets more.
const SCORE_UP: u32 = 2;

/// Weight of the older average in the sensitivity matrix.
const ALPHA: f64 = 0.55;

/// Units are revoked at every third sample.
const REVOKE_EVERY: u64 = 3;

/// A unit that is worth less is revoked.
const REVOKE_BELOW: f64 = 0.02;

/// Levels by which the frequency falls.
const LEVELS_DOWN: u16 = 4;

/// Decides as the artifact does.
///
/// Deviation: its third column, the mean delay since the job's start per service that was passed,
/// is compared with its own mean at low load; of what the services before executed, as much is
/// subtracted as they say. The artifact has one definition for each of its applications.
#[derive(Debug)]
pub(super) struct Released {
    curves: Roster<Curve>,
    /// Decisions for which at least one container had something new.
    samples: u64,
}

/// The score of the artifact's table: it starts at 1, what is late or slow adds 1, and what is in
/// order sets it to 0, late first. `None` is neither.
pub(super) fn score(late: Option<f64>, exec: Option<f64>) -> u32 {
    let mut score = 1;
    for (ratio, (up, ok)) in [(late, LATE), (exec, EXEC)] {
        match ratio {
            Some(ratio) if ratio > up => score += 1,
            Some(ratio) if ratio < ok => score = 0,
            _ => {}
        }
    }
    score
}

impl Policy for Released {
    fn decide(&mut self, now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        self.curves.align(containers.iter().map(|container| container.id), |_| Curve::default());
        if containers.iter().all(|container| container.block.is_none()) {
            return;
        }
        self.samples += 1;
        for (at, container) in containers.iter().enumerate() {
            // Also those without a new sample, with their latest one.
            if let Some(recent) = container.recent {
                let block =
                    crate::scaling::intake::Block { began: now, requests: 1, means: recent };
                self.curves[at].observe(container.units, &block, Instant::ORIGIN, 1, ALPHA);
            }
        }
        // Before the scores, and whatever they are.
        if self.samples.is_multiple_of(REVOKE_EVERY) {
            self.revoke(containers, ledger);
        }
        let scores: Vec<u32> = containers.iter().map(fresh_score).collect();
        if scores.iter().all(|score| *score == 0) {
            self.downscale(containers, ledger);
        }
        self.upscale(containers, &scores, ledger);
    }

    fn curve(&self, container: ContainerId) -> Option<&Curve> {
        self.curves.find(container)
    }

    fn recall(&mut self, container: ContainerId, curve: Curve) {
        self.curves.insert(container, curve);
    }
}

/// A container without a new sample keeps the score at which it starts.
fn fresh_score(container: &Measured) -> u32 {
    if container.block.is_none() {
        return 1;
    }
    score(late(container), container.exec_ratio())
}

/// The third column as a multiple of its target.
fn late(container: &Measured) -> Option<f64> {
    let recent = container.recent?;
    let (now, low) = match recent.residual {
        Some(residual) => (residual, container.baseline.residual?),
        None => (recent.time_from_start?, container.baseline.time_from_start?),
    };
    (low > 0.0).then(|| now / (LATE_FACTOR * low))
}

impl Released {
    pub(super) fn new() -> Self {
        Self { curves: Roster::default(), samples: 0 }
    }

    /// One step for each container with a score of two or more, the highest first, the one with the
    /// longest execution first among equals. The sensitivity does not count.
    fn upscale(&self, containers: &[Measured], scores: &[u32], ledger: &mut Ledger<'_>) {
        let exec = |at: usize| containers[at].recent.map_or(0.0, |recent| recent.exec_metric);
        let mut order: Vec<usize> =
            (0..containers.len()).filter(|at| scores[*at] >= SCORE_UP).collect();
        order.sort_by(|a, b| {
            scores[*b].cmp(&scores[*a]).then(exec(*b).total_cmp(&exec(*a))).then(a.cmp(b))
        });
        for at in order {
            let container = &containers[at];
            let causes = Causes {
                slow: container.exec_ratio().is_some_and(|ratio| ratio > EXEC.0),
                late: late(container).is_some_and(|ratio| ratio > LATE.0),
                ..Causes::default()
            };
            let reason = Reason::Scored { score: scores[at], causes };
            // The frequency first, and then no unit in this round.
            let is_met =
                ledger.set_level(at, ledger.level_max(), reason) || ledger.give(at, 1, reason) > 0;
            let is_unmet = !is_met && !ledger.is_taken(at);
            let sensitivity = self.curves[at].sensitivity(container.units);
            ledger.nominate(at, scores[at], sensitivity, is_unmet);
        }
    }

    /// Frequencies first; only when all are low, one unit of the container that needs least of
    /// its time.
    fn downscale(&self, containers: &[Measured], ledger: &mut Ledger<'_>) {
        let mut is_lowered = false;
        for (at, container) in containers.iter().enumerate() {
            let level = container.level.saturating_sub(LEVELS_DOWN);
            let reason = Reason::AtEase(container.exec_ratio().unwrap_or(0.0));
            is_lowered |=
                container.level > ledger.level_base() && ledger.set_level(at, level, reason);
        }
        if is_lowered {
            return;
        }
        let ease = |at: usize| -> Option<f64> {
            let container = &containers[at];
            let expected = container.expected.exec?.as_nanos() as f64;
            let ratio = self.curves[at].average(container.units)? / expected;
            (ratio < 1.0 && container.units > container.floor).then_some(ratio)
        };
        let least = (0..containers.len())
            .filter_map(|at| Some((at, ease(at)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((at, ratio)) = least {
            ledger.take(at, 1, Reason::AtEase(ratio));
        }
    }

    /// The lowest allocation at which each unit less would cost less than two per cent; one step
    /// towards it, or two if it is far.
    fn revoke(&self, containers: &[Measured], ledger: &mut Ledger<'_>) {
        for (at, container) in containers.iter().enumerate() {
            let curve = &self.curves[at];
            let Some(now) = curve.average(container.units) else { continue };
            let qualifies = |(units, average): &(u32, f64)| {
                let fewer = f64::from(container.units - *units);
                // Beyond fifty units, the artifact's bound would turn negative.
                let share = 1.0 - REVOKE_BELOW * fewer;
                share > 0.0 && *average < now / share
            };
            let Some((lowest, _)) = curve.below(container.floor, container.units).find(qualifies)
            else {
                continue;
            };
            let worth = curve.sensitivity(container.units - 1).unwrap_or(0.0);
            let step = if container.units - lowest > 3 { 2 } else { 1 };
            ledger.take(at, step, Reason::Insensitive(worth));
        }
    }
}
