//! Parties as the SurgeGuard artifact has it.

use alloc::vec::Vec;

use super::Config;
use crate::random::Rng;
use crate::scaling::Reason;
use crate::scaling::intake::Measured;
use crate::scaling::ledger::Ledger;
use crate::scaling::scaler::Policy;
use crate::time::Instant;

/// Gives to all who are slow, and takes from all who are not.
#[derive(Debug)]
pub(super) struct Artifact {
    config: Config,
    /// Deviation: the artifact never seeds its coin, so that each of its runs throws the same.
    rng: Rng,
}

impl Artifact {
    pub(super) fn new(config: Config, seed: u64) -> Self {
        Self { config, rng: Rng::new(seed) }
    }

    /// One level or one unit less: the coin falls through to the unit where the level is at the
    /// base already.
    fn recover(&mut self, at: usize, container: &Measured, ratio: f64, ledger: &mut Ledger<'_>) {
        let reason = Reason::AtEase(ratio);
        let is_raised = container.level > ledger.level_base();
        let is_frequency = self.rng.chance(self.config.frequency_chance);
        if is_frequency && is_raised {
            ledger.set_level(at, container.level - 1, reason);
        } else {
            ledger.take(at, 1, reason);
        }
    }

    /// The highest level, or one unit; false if there is none.
    fn increase(
        &mut self,
        at: usize,
        container: &Measured,
        ratio: f64,
        ledger: &mut Ledger<'_>,
    ) -> bool {
        let reason = Reason::Slow(ratio);
        let is_frequency = self.rng.chance(self.config.frequency_chance);
        if is_frequency && container.level < ledger.level_max() {
            ledger.set_level(at, ledger.level_max(), reason)
        } else {
            ledger.give(at, 1, reason) > 0
        }
    }
}

impl Policy for Artifact {
    fn decide(&mut self, _now: Instant, containers: &[Measured], ledger: &mut Ledger<'_>) {
        // Without a new sample, nothing is decided.
        if containers.iter().all(|container| container.block.is_none()) {
            return;
        }
        let ratios: Vec<Option<f64>> = containers.iter().map(Measured::latency_ratio).collect();
        let mut slow = Vec::new();
        for (at, container) in containers.iter().enumerate() {
            match ratios[at] {
                Some(ratio) if ratio > self.config.threshold => slow.push((at, ratio)),
                Some(ratio) if ratio < self.config.ok && container.block.is_some() => {
                    self.recover(at, container, ratio, ledger);
                }
                _ => {}
            }
        }
        slow.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (at, ratio) in slow {
            let is_met = self.increase(at, &containers[at], ratio, ledger);
            ledger.nominate(at, 1, None, !is_met);
        }
    }
}
