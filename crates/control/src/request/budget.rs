//! How long a request may wait at all stages together.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::duration;
use crate::controller::Algorithm;

/// Never less budget than this part of what is left. Deviation: a server of whose requests a few
/// take longer than that would otherwise refuse them all, and never learn that most do not.
const FLOOR: u32 = 10;

/// How long an admitted request may wait, in the run queue, for locks and at all other stages
/// together, before it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// What the target delay leaves after the 99th percentiles of service time and network round
    /// trip (Protego §3.2); no budget under algorithms that do not
    /// [bound waits](crate::controller::Algorithm::bounds_waits). The default.
    #[default]
    Auto,
    /// As long as it takes.
    Off,
    /// This long.
    Fixed(#[serde(with = "duration")] Duration),
}

impl Budget {
    /// The same under `algorithm`.
    #[must_use]
    pub fn under(self, algorithm: &dyn Algorithm) -> Self {
        if self == Self::Auto && !algorithm.bounds_waits() { Self::Off } else { self }
    }

    /// The budget of a request that has to be answered within `left`, the target delay or the
    /// shorter time to its deadline, and which takes `after` for all but its waits; `None` when
    /// there is no limit.
    pub fn of(self, left: Duration, after: Duration) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Fixed(budget) => Some(budget),
            Self::Auto => Some(left.saturating_sub(after).max(left / FLOOR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Config;

    #[test]
    fn what_is_left_after_the_service_and_never_nothing() {
        let us = Duration::from_micros;
        assert_eq!(Budget::Auto.of(us(200), us(56)), Some(us(144)));
        assert_eq!(Budget::Auto.of(us(200), us(500)), Some(us(20)));
        assert_eq!(Budget::Fixed(us(7)).of(us(200), us(56)), Some(us(7)));
        let under = |name: &str| Budget::Auto.under(&*Config::named(name).build().unwrap());
        assert_eq!(under("none").of(us(200), us(56)), None);
        assert_eq!((under("codel"), under("aimd")), (Budget::Off, Budget::Auto));
    }
}
