//! How many may use a resource at once: the fewest that use it up (Svalinn §3.2).
//!
//! ```text
//!   bandwidth │      ┌────────────  more holders only stall each other
//!             │    ╱ ·
//!             │  ╱   ·  reward = α · bandwidth / most − (1 − α) · holders / cores
//!             │╱     ·  is highest here
//!             └──────┴────────────  holders
//! ```
//!
//! Every number of holders is an arm of a bandit. Nine times in ten or so it plays the best one,
//! else one beside it: what requests need changes, and an arm that is never played again would keep
//! its old reward.

use core::time::Duration;

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::random::Rng;

/// Bandwidth from which the gated rewards take a resource for used up, as a part of the most.
const GATE: f64 = 0.98;

/// Steepness of the soft gate, as in the released study.
const GATE_STEEPNESS: f64 = 1e4;

/// Parameters of the controller. The defaults are the paper's (§5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Weight of bandwidth against cores in the reward, α, from 0 to 1. Default 0.7. With K of N
    /// cores enough to use the resource up, K is found if it is more than K / (K + N); the higher,
    /// the more holders noise lets in.
    pub alpha: f64,
    /// Weight of the newest reward of an arm, ω, above 0 to 1. Default 0.8.
    pub omega: f64,
    /// Probability to explore, ε, from 0 to 1. Default 0.3.
    pub epsilon: f64,
    /// Time from one decision to the next, Δt, from 50us to 10s. Default 500us.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// Where it explores. Default beside.
    pub exploration: Exploration,
    /// How bandwidth and cores make a reward. Default simple.
    pub reward: Reward,
    /// Decisions after which the largest bandwidth is forgotten: what requests need, and with it
    /// what they can draw, changes. 0, the default, remembers it for ever, as the paper; up to
    /// 10000.
    pub memory: u32,
}

/// Which capacities are explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exploration {
    /// One more or one less than the best (algorithm 1): so the load on the resource hardly
    /// changes.
    #[default]
    Beside,
    /// Any, as in the released study of rewards (the simulator of appendix B.3).
    Anywhere,
}

/// How bandwidth, as a part m of the most that was seen, and cores, as a part c of all, make a
/// reward (appendix B.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reward {
    /// α m − (1 − α) c.
    #[default]
    Simple,
    /// Cores cost something once m exceeds 0.98. Noise hides whether it does.
    HardGate,
    /// The same with a steep sigmoid in place of the step.
    SoftGate,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            alpha: 0.7,
            omega: 0.8,
            epsilon: 0.3,
            interval: Duration::from_micros(500),
            exploration: Exploration::default(),
            reward: Reward::default(),
            memory: 0,
        }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("bandit.alpha", self.alpha, 0.0..=1.0)?;
        ConfigError::check_range("bandit.omega", self.omega, f64::MIN_POSITIVE..=1.0)?;
        ConfigError::check_range("bandit.epsilon", self.epsilon, 0.0..=1.0)?;
        ConfigError::check_range("bandit.memory", self.memory, 0..=10_000)?;
        let (least, most) = (Duration::from_micros(50), Duration::from_secs(10));
        if !(least..=most).contains(&self.interval) {
            let problem = "it is out of range; allowed is 50us to 10s";
            return Err(ConfigError::new("bandit.interval", problem));
        }
        Ok(())
    }
}

impl Reward {
    fn of(self, alpha: f64, bandwidth: f64, cores: f64) -> f64 {
        let cost = match self {
            Self::Simple => 1.0,
            Self::HardGate if bandwidth > GATE => 1.0,
            Self::HardGate => 0.0,
            Self::SoftGate => 1.0 / (1.0 + libm::exp(GATE_STEEPNESS * (GATE - bandwidth))),
        };
        alpha * bandwidth - cost * (1.0 - alpha) * cores
    }
}

/// The ε-greedy controller of algorithm 1.
#[derive(Clone, Debug)]
pub struct Bandit {
    config: Config,
    rng: Rng,
    capacity: u32,
    /// The reward of each capacity, from 1 on.
    rewards: Vec<f64>,
    most: Most,
}

/// The largest of all samples, or of the newest.
#[derive(Clone, Debug)]
enum Most {
    Ever(f64),
    Of { samples: Vec<f64>, next: usize },
}

impl Most {
    fn new(memory: u32) -> Self {
        match memory {
            0 => Self::Ever(0.0),
            memory => Self::Of { samples: vec![0.0; memory as usize], next: 0 },
        }
    }

    fn observe(&mut self, sample: f64) -> f64 {
        match self {
            Self::Ever(most) => {
                *most = most.max(sample);
                *most
            }
            Self::Of { samples, next } => {
                samples[*next] = sample;
                *next = (*next + 1) % samples.len();
                samples.iter().copied().fold(0.0, f64::max)
            }
        }
    }
}

impl Bandit {
    /// A controller that lets one in, and up to `cores` later.
    pub fn new(config: &Config, cores: u32, seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            capacity: 1,
            rewards: vec![0.0; cores.max(1) as usize],
            most: Most::new(config.memory),
            config: config.clone(),
        }
    }

    /// How many may hold the resource at once.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The mean reward of each capacity, from 1 on.
    pub fn rewards(&self) -> &[f64] {
        &self.rewards
    }

    /// An interval has passed in which `bandwidth` was used, in whatever unit: how many may hold
    /// the resource from now on.
    ///
    /// An interval that was not measured, or before which nobody has ever used the resource, says
    /// nothing. (In the released code it makes the first arm the best for ever.)
    pub fn on_interval(&mut self, bandwidth: f64) -> u32 {
        if !bandwidth.is_finite() || bandwidth < 0.0 {
            return self.capacity;
        }
        let most = self.most.observe(bandwidth);
        if most <= 0.0 {
            return self.capacity;
        }
        let Config { alpha, omega, epsilon, exploration, reward, .. } = self.config;
        let cores = f64::from(self.capacity) / self.rewards.len() as f64;
        let sample = reward.of(alpha, bandwidth / most, cores);
        let mean = &mut self.rewards[self.capacity as usize - 1];
        *mean += omega * (sample - *mean);

        let best = self.best();
        self.capacity = match exploration {
            _ if !self.rng.chance(epsilon) => best,
            Exploration::Beside => self.beside(best),
            Exploration::Anywhere => self.rng.below(self.rewards.len() as u64) as u32 + 1,
        };
        self.capacity
    }

    /// The capacity with the highest reward, and the smallest of those.
    fn best(&self) -> u32 {
        let first = (0, f64::NEG_INFINITY);
        let arms = self.rewards.iter().copied().enumerate();
        let (arm, _) = arms.fold(first, |best, arm| if arm.1 > best.1 { arm } else { best });
        arm as u32 + 1
    }

    fn beside(&mut self, best: u32) -> u32 {
        let other = if self.rng.chance(0.5) { best + 1 } else { best - 1 };
        other.clamp(1, self.rewards.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the controller is over the last half of `intervals`, on average, if each holder draws
    /// `each` up to 45.0, of 18 cores.
    fn settles(bandit: &mut Bandit, each: f64, intervals: u32) -> f64 {
        let mut sum = 0.0;
        for interval in 0..intervals {
            let bandwidth = (f64::from(bandit.capacity()) * each).min(45.0);
            bandit.on_interval(bandwidth);
            if interval >= intervals / 2 {
                sum += f64::from(bandit.capacity());
            }
        }
        sum / f64::from(intervals - intervals / 2)
    }

    fn best_after(bandit: &mut Bandit, each: f64, intervals: u32) -> u32 {
        settles(bandit, each, intervals);
        bandit.best()
    }

    #[test]
    fn computes_the_mean_reward_as_the_released_code() {
        let mut bandit = Bandit::new(&Config::default(), 18, 1);
        (bandit.capacity, bandit.rewards[5]) = (6, 0.5);
        bandit.on_interval(45.0);
        assert!((bandit.rewards[5] - 0.58).abs() < 1e-12); // 0.2 · 0.5 + 0.8 · (0.7 − 0.3 · 6/18)
    }

    #[test]
    fn finds_the_fewest_that_use_it_up_and_follows_a_shift() {
        for seed in 0..100 {
            let bandit = &mut Bandit::new(&Config::default(), 18, seed);
            assert_eq!(best_after(bandit, 45.0 / 6.0, 400), 6, "seed {seed}");
            assert_eq!(best_after(bandit, 45.0 / 13.0, 600), 13, "seed {seed}, less each");
            assert_eq!(best_after(bandit, 45.0 / 6.0, 600), 6, "seed {seed}, more each");
        }
    }

    #[test]
    fn with_a_memory_it_forgets_a_bandwidth_that_is_not_to_be_had_any_more() {
        let config = Config { memory: 50, ..Config::default() };
        let bandit = &mut Bandit::new(&config, 18, 3);
        settles(bandit, 45.0 / 6.0, 400);
        // Others use the memory as well now: a third is left, which two can draw.
        for _ in 0..600 {
            let bandwidth = (f64::from(bandit.capacity()) * 7.5).min(15.0);
            bandit.on_interval(bandwidth);
        }
        assert_eq!(bandit.best(), 2);
    }

    #[test]
    fn gated_rewards_need_exploration_from_afar() {
        let config =
            |exploration| Config { reward: Reward::HardGate, exploration, ..Config::default() };
        for seed in 0..20 {
            let afar = &mut Bandit::new(&config(Exploration::Anywhere), 45, seed);
            assert_eq!(best_after(afar, 45.0 / 16.0, 2_000), 15, "seed {seed}");
            // From 10 on, one more is no gain over the most that was seen with one less.
            let beside = &mut Bandit::new(&config(Exploration::Beside), 45, seed);
            assert_eq!(best_after(beside, 45.0 / 16.0, 2_000), 10, "seed {seed}");
        }
    }

    #[test]
    fn intervals_that_say_nothing_change_nothing() {
        let bandit = &mut Bandit::new(&Config::default(), 18, 3);
        for nothing in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(bandit.on_interval(nothing), 1);
        }
        assert_eq!(best_after(bandit, 7.5, 400), 6, "and can be recovered from");
    }

    #[test]
    fn gates_cost_only_beyond_saturation() {
        let near = |reward: Reward, bandwidth, expected: f64| {
            (reward.of(0.7, bandwidth, 0.5) - expected).abs() < 1e-9
        };
        assert!(near(Reward::Simple, 0.5, 0.7 * 0.5 - 0.15));
        assert!(near(Reward::HardGate, 0.98, 0.7 * 0.98));
        assert!(near(Reward::HardGate, 0.99, 0.7 * 0.99 - 0.15));
        assert!(near(Reward::SoftGate, 0.97, 0.7 * 0.97));
        assert!(near(Reward::SoftGate, 0.99, 0.7 * 0.99 - 0.15));
    }

    #[test]
    fn a_single_core_is_no_choice() {
        let bandit = &mut Bandit::new(&Config::default(), 0, 1);
        assert_eq!(settles(bandit, 45.0, 100), 1.0);
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        assert_eq!(field(Config { alpha: f64::NAN, ..Config::default() }), "bandit.alpha");
        assert_eq!(field(Config { omega: 0.0, ..Config::default() }), "bandit.omega");
        assert_eq!(field(Config { epsilon: 1.1, ..Config::default() }), "bandit.epsilon");
        let interval = Duration::from_nanos(1);
        assert_eq!(field(Config { interval, ..Config::default() }), "bandit.interval");
        assert_eq!(field(Config { memory: 10_001, ..Config::default() }), "bandit.memory");
        Config::default().validate().unwrap();
    }
}
