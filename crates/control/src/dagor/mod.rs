//! DAGOR: under overload the least important requests are refused first.
//!
//! ```text
//!   priority    …  127              128              129  …
//!   levels         0 … 127          0 … 127          0 … 127
//!             ◄──────── admitted ────────►│◄──── refused ────►
//!                                     threshold: 5 % less under overload, else 1 % more
//! ```
//!
//! The server learns from its queueing delay how much it can serve, and tells in every reply the
//! last level that it admits. Clients drop what lies beyond it before it costs anything.
//!
//! # Where priorities come from
//!
//! DAGOR (Zhou et al., SoCC '18, §4.2) compares two numbers, the second among equals in the first:
//! the importance of the business, and a random number, without which a threshold could only admit
//! all requests of one business or none. The first is the request's [`Priority`]; the second is
//! [drawn](level) from the number of the call, so that client and server know it without being
//! told. Where nobody sets priorities, this gives each request one of 128 levels at random: the
//! setting of Breakwater's evaluation (§5.1). Where somebody does, no luck ever puts a request
//! before one that is more important.
//!
//! Priorities are claims. A listener gives all senders that it does not know the same one.

mod client;
mod server;
mod threshold;

pub use client::Client;
pub use server::Server;
pub use threshold::Threshold;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController};
use crate::random;
use crate::request::Priority;

/// Levels of each priority.
pub const LEVELS: u16 = 128;

/// The last level of all.
pub const LEVEL_MAX: u16 = u8::MAX as u16 * LEVELS + LEVELS - 1;

/// The level of the call numbered `id`: its priority, then one of 128 at random. Lower is more
/// important.
pub const fn level(priority: Priority, id: u64) -> u16 {
    let drawn = random::mix(id) % LEVELS as u64; // "hash mod 128" in the released code
    priority.0 as u16 * LEVELS + drawn as u16
}

/// Parameters of DAGOR. The defaults are those of Breakwater's evaluation (§5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is built: the papers' algorithm, or the released code's.
    pub variant: Variant,
    /// Average queueing delay above which the server is overloaded. Default: 35 % of the SLO (70
    /// of 200 µs for exponential service times of 10 µs).
    #[serde(with = "duration::option")]
    pub overload_delay: Option<Duration>,
    /// Part of the admitted requests that overload costs at each update, α. Default 0.05.
    pub alpha: f64,
    /// Part of all requests that is admitted anew at each update without overload, β. Default
    /// 0.01.
    pub beta: f64,
    /// Time from one update to the next. Default 1ms; DAGOR's own is 1 s.
    #[serde(with = "duration")]
    pub window: Duration,
    /// An update comes after this many requests, too. Default 2000.
    pub window_requests: u32,
    /// Clients: one that has heard nothing for this long sends a request beyond the level, to
    /// learn how it stands. Default 100ms. Shorter, and many idle clients disturb an
    /// overloaded server; longer, and those with unimportant requests come back later after an
    /// overload.
    ///
    /// Deviation: without it, a client whose requests all lie beyond the level would never hear
    /// that the overload has ended.
    #[serde(with = "duration")]
    pub probe_interval: Duration,
}

/// Which DAGOR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The papers': overload is an average over the requests of a window that exceeds the limit; a
    /// window without requests is one without overload; at the start everything is admitted.
    #[default]
    Paper,
    /// The code released with Breakwater and Protego: overload is a running average, every 10 µs a
    /// fifth nearer to what is, that reaches the limit; a window lasts until there is a request; 33
    /// levels of default priority are admitted at the start, and two always; a client starts at a
    /// random level.
    Released,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            overload_delay: None,
            alpha: 0.05,
            beta: 0.01,
            window: Duration::from_millis(1),
            window_requests: 2_000,
            probe_interval: Duration::from_millis(100),
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
        ConfigError::check_range("dagor.alpha", self.alpha, 0.0001..=0.9999)?;
        ConfigError::check_range("dagor.beta", self.beta, 0.0001..=1.0)?;
        ConfigError::check_range("dagor.window_requests", self.window_requests, 1..=u32::MAX)?;
        let above_zero = [
            ("dagor.overload_delay", self.overload_delay),
            ("dagor.window", Some(self.window)),
            ("dagor.probe_interval", Some(self.probe_interval)),
        ];
        match above_zero.into_iter().find(|(_, value)| *value == Some(Duration::ZERO)) {
            Some((field, _)) => {
                Err(ConfigError::new(field, "0 is out of range; give more than 0ns"))
            }
            None => Ok(()),
        }
    }

    /// The average queueing delay that means overload, for this SLO.
    pub fn overload_delay(&self, slo: Duration) -> Duration {
        self.overload_delay.unwrap_or(slo * 7 / 20)
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "dagor"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        Box::new(Server::new(&self, init))
    }

    fn client(self: Arc<Self>, init: Init) -> Box<dyn ClientController> {
        Box::new(Client::new(&self, init))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_comes_before_luck() {
        for id in 0..1_000 {
            let level = |priority| level(Priority(priority), id);
            assert_eq!(level(0) / LEVELS, 0);
            assert_eq!(level(255) / LEVELS, 255);
            assert_eq!(level(255) % LEVELS, level(0) % LEVELS, "the same call, the same luck");
        }
    }

    #[test]
    fn successive_calls_are_spread_evenly() {
        let mut drawn = [0; LEVELS as usize];
        (0..128_000).for_each(|id| drawn[level(Priority(0), id) as usize] += 1);
        assert!(drawn.iter().all(|count| (850..1_150).contains(count)), "{drawn:?}");
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |config: Config| config.validate().unwrap_err().field;
        let default = Config::default();
        assert_eq!(field(Config { alpha: 1.0, ..default.clone() }), "dagor.alpha");
        assert_eq!(field(Config { beta: f64::NAN, ..default.clone() }), "dagor.beta");
        let none = Config { window_requests: 0, ..default.clone() };
        assert_eq!(field(none), "dagor.window_requests");
        assert_eq!(field(Config { window: Duration::ZERO, ..default }), "dagor.window");
    }
}
