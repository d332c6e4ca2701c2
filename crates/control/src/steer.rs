//! From the readings of a meter to the number of holders: what surrounds the
//! [bandit](crate::bandit).
//!
//! ```text
//!   Meter ── total ──► rate over the interval ──► Bandit ──► capacity
//!                           │ none, or nothing flowed, for a while
//!                           └──────────────────────────────► all may enter
//! ```
//!
//! A bandit that cannot see would let in one holder for ever. Hence a meter that fails, or that
//! shows nothing although the resource is used, soon lets everybody in, until it shows something
//! again.

use core::time::Duration;

use alloc::boxed::Box;

use crate::bandit::{Bandit, Config};
use crate::config::ConfigError;
use crate::time::Instant;

/// Intervals in a row without a rate after which everybody may enter. At low load an interval in
/// which nothing was used is no surprise.
pub const BLIND_MAX: u32 = 8;

/// A counter of what is used of a resource: bytes from and to memory, energy, anything that only
/// grows.
pub trait Meter {
    /// What is read, for logs: `resctrl`, `uncore_imc`.
    fn name(&self) -> &str;

    /// How much was used since some moment, always the same; it may wrap around at 2^64. `None`
    /// when it cannot be read now.
    fn total(&mut self) -> Option<u64>;

    /// The shortest time over which the growth of the total means something. Default zero: as
    /// short as one likes.
    fn resolution(&self) -> Duration {
        Duration::ZERO
    }
}

impl<M: Meter + ?Sized> Meter for Box<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn total(&mut self) -> Option<u64> {
        (**self).total()
    }

    fn resolution(&self) -> Duration {
        (**self).resolution()
    }
}

/// How fast the total of a [`Meter`] grows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    last: Option<(Instant, u64)>,
}

impl Rate {
    /// A meter said `total` at `now`: how much was used per second since the reading before.
    ///
    /// `None` without two readings at two times. One that fell, as after a counter was reset, is
    /// only good to begin anew.
    pub fn on_reading(&mut self, now: Instant, total: Option<u64>) -> Option<f64> {
        let before = core::mem::replace(&mut self.last, total.map(|total| (now, total)));
        let ((since, from), to) = (before?, total?);
        let (used, time) = (to.wrapping_sub(from), now.since(since));
        let has_grown = used <= u64::MAX / 2;
        (has_grown && !time.is_zero()).then(|| used as f64 / time.as_secs_f64())
    }
}

/// Decides, reading by reading, how many may hold a resource at once.
///
/// The caller measures intervals of [`interval`](Self::interval) while the resource is used, each
/// from a reading to the next; [`on_use`](Self::on_use) begins the first after a pause.
///
/// ```
/// use seawall_control::bandit::Config;
/// use seawall_control::steer::Steer;
/// use seawall_control::Instant;
///
/// let mut steer = Steer::new(&Config::default(), 18, 1)?;
/// let mut now = Instant::ORIGIN;
/// let mut bytes = 0;
/// steer.on_use(now, Some(bytes));
/// for _ in 0..400 {
///     now = now + steer.interval();
///     bytes += 1_000 * u64::from(steer.capacity().min(6)); // six use all there is
///     steer.on_interval(now, Some(bytes));
/// }
/// assert!((5..=7).contains(&steer.capacity()));
/// # Ok::<(), seawall_control::config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Steer {
    bandit: Bandit,
    interval: Duration,
    all: u32,
    rate: Rate,
    last: Option<f64>,
    blind: u32,
    decisions: u64,
}

impl Steer {
    /// Lets one in at first, and up to `all` later.
    ///
    /// # Errors
    ///
    /// Names the first field of `config` that is out of range, and the range.
    pub fn new(config: &Config, all: u32, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            bandit: Bandit::new(config, all, seed),
            interval: config.interval,
            all: all.max(1),
            rate: Rate::default(),
            last: None,
            blind: 0,
            decisions: 0,
        })
    }

    /// Somebody uses the resource again, after nobody did: an interval begins.
    pub fn on_use(&mut self, now: Instant, total: Option<u64>) {
        self.rate = Rate::default();
        self.rate.on_reading(now, total);
    }

    /// An interval ends in which the resource was used, and the next one begins: how many may hold
    /// it from now on.
    pub fn on_interval(&mut self, now: Instant, total: Option<u64>) -> u32 {
        self.last = self.rate.on_reading(now, total);
        match self.last.filter(|rate| *rate > 0.0) {
            // Whatever flowed while all were let in was not the doing of the capacity that the
            // bandit would account it to.
            Some(_) if self.is_blind() => self.blind = 0,
            Some(rate) => {
                self.blind = 0;
                self.decisions += 1;
                self.bandit.on_interval(rate);
            }
            None => self.blind = self.blind.saturating_add(1),
        }
        self.capacity()
    }

    /// How many may hold the resource at once.
    pub fn capacity(&self) -> u32 {
        if self.is_blind() { self.all } else { self.bandit.capacity() }
    }

    /// Whether everybody may enter because the meter shows nothing.
    pub fn is_blind(&self) -> bool {
        self.blind >= BLIND_MAX
    }

    /// Time from one decision to the next.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// What was used per second in the last interval; `None` when it could not be measured.
    pub fn rate(&self) -> Option<f64> {
        self.last
    }

    /// How often the bandit has decided.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// What decides.
    pub fn bandit(&self) -> &Bandit {
        &self.bandit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn a_rate_is_what_was_added_over_the_time_it_took() {
        let mut rate = Rate::default();
        assert_eq!(rate.on_reading(at(0), Some(7)), None);
        assert_eq!(rate.on_reading(at(500), Some(1_007)), Some(2e6));
        assert_eq!(rate.on_reading(at(500), Some(1_008)), None, "no time has passed");
        assert_eq!(rate.on_reading(at(1_500), Some(3_008)), Some(2e6));
    }

    #[test]
    fn a_counter_may_wrap_fail_and_fall() {
        let mut rate = Rate::default();
        rate.on_reading(at(0), Some(u64::MAX - 99));
        assert_eq!(rate.on_reading(at(US), Some(900)), Some(1e6));
        assert_eq!(rate.on_reading(at(2 * US), Some(100)), None, "it was reset");
        assert_eq!(rate.on_reading(at(3 * US), Some(1_100)), Some(1e6));
        assert_eq!(rate.on_reading(at(4 * US), None), None);
        assert_eq!(rate.on_reading(at(5 * US), Some(3_100)), None, "since when is not known");
        assert_eq!(rate.on_reading(at(6 * US), Some(4_100)), Some(1e6));
    }

    /// A resource of which `enough` of 18 cores use all there is.
    struct Machine {
        now: Instant,
        total: u64,
        enough: u32,
    }

    impl Machine {
        /// Lets as many hold the resource as are let in, for some intervals, and returns the mean.
        fn run(&mut self, steer: &mut Steer, intervals: u32) -> f64 {
            let mut sum = 0;
            steer.on_use(self.now, Some(self.total));
            for _ in 0..intervals {
                self.now = self.now + steer.interval();
                self.total =
                    self.total.wrapping_add(US * u64::from(steer.capacity().min(self.enough)));
                sum += steer.on_interval(self.now, Some(self.total));
            }
            f64::from(sum) / f64::from(intervals)
        }
    }

    #[test]
    fn settles_where_the_resource_is_used_up_whatever_the_counter_started_at() {
        for start in [0, u64::MAX - 100 * US] {
            let machine = &mut Machine { now: at(0), total: start, enough: 6 };
            let steer = &mut Steer::new(&Config::default(), 18, 1).unwrap();
            machine.run(steer, 300);
            assert!((5.5..=6.5).contains(&machine.run(steer, 300)));
            assert_eq!((steer.decisions(), steer.is_blind()), (600, false));
        }
    }

    #[test]
    fn who_sees_nothing_lets_everybody_in_until_it_sees_again() {
        let config = Config { epsilon: 0.0, ..Config::default() };
        for unseen in [None, Some(77)] {
            let steer = &mut Steer::new(&config, 18, 1).unwrap();
            steer.on_use(at(0), unseen);
            let capacities: alloc::vec::Vec<u32> =
                (1..=10).map(|ms| steer.on_interval(at(ms * US), unseen)).collect();
            assert_eq!(capacities, [1, 1, 1, 1, 1, 1, 1, 18, 18, 18], "{unseen:?}");
            steer.on_interval(at(11 * US), Some(1_000));
            assert_eq!(steer.on_interval(at(12 * US), Some(2_000)), 1);
            assert!(!steer.is_blind());
        }
    }

    #[test]
    fn what_flowed_while_all_were_in_is_accounted_to_nobody() {
        let steer = &mut Steer::new(&Config::default(), 18, 1).unwrap();
        steer.on_use(at(0), Some(0));
        for ms in 1..=8 {
            steer.on_interval(at(ms * US), Some(0));
        }
        steer.on_interval(at(9 * US), Some(1_000_000));
        assert_eq!((steer.decisions(), steer.rate()), (0, Some(1e9)));
        assert!(steer.bandit().rewards().iter().all(|reward| *reward == 0.0));
    }

    #[test]
    fn a_pause_is_no_interval() {
        let steer = &mut Steer::new(&Config::default(), 18, 1).unwrap();
        steer.on_use(at(0), Some(0));
        steer.on_interval(at(500), Some(500));
        steer.on_use(at(1_000_000), Some(2_000_000)); // by others, meanwhile
        steer.on_interval(at(1_000_500), Some(2_000_500));
        assert_eq!(steer.rate(), Some(1e6));
    }

    #[test]
    fn refuses_nonsense() {
        let config = Config { alpha: 2.0, ..Config::default() };
        assert_eq!(Steer::new(&config, 18, 1).unwrap_err().field, "bandit.alpha");
    }
}
