//! When a second copy is sent although the first has not failed.

use core::time::Duration;

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, duration};
use crate::estimate::WindowedQuantile;

/// After how long without a reply another replica gets a copy of a request that may run twice
/// (Dean and Barroso, "The tail at scale"; speculative retry in LIBROS §VIII-A2).
///
/// For delays that no stage predicts. The first reply counts, and the other copy is cancelled. Of
/// the retry budget a copy takes as much as a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hedge {
    /// Never; the default.
    #[default]
    Never,
    /// After this time; zero for two copies at once.
    After(#[serde(with = "duration")] Duration),
    /// After the time within which this part of the requests is answered, between 0 and 1.
    Percentile(f64),
}

impl Hedge {
    pub(super) fn validate(self) -> Result<(), ConfigError> {
        match self {
            Self::Never | Self::After(_) => Ok(()),
            Self::Percentile(part) => {
                ConfigError::check_range("client.retry.hedge.percentile", part, 0.01..=0.999)
            }
        }
    }
}

/// Latencies that the percentile is taken of.
const WINDOW: usize = 1000;

/// With fewer, none is known.
const ENOUGH: usize = 100;

/// The percentile is computed anew after so many latencies.
const RENEWED: u32 = 50;

/// Knows when it is time for a second copy.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    hedge: Hedge,
    /// Latencies in nanoseconds.
    latencies: Option<Box<WindowedQuantile<WINDOW>>>,
    percentile: Option<Duration>,
    new: u32,
}

impl Timing {
    pub(super) fn new(hedge: Hedge) -> Self {
        let latencies = matches!(hedge, Hedge::Percentile(_)).then(Box::default);
        Self { hedge, latencies, percentile: None, new: 0 }
    }

    /// A request was answered after this time, or it was given up then because a copy of it was.
    pub(super) fn observe(&mut self, latency: Duration) {
        let (Some(latencies), Hedge::Percentile(part)) = (&mut self.latencies, self.hedge) else {
            return;
        };
        latencies.observe(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        self.new += 1;
        if self.new >= RENEWED && latencies.len() >= ENOUGH {
            self.new = 0;
            self.percentile = latencies.value(part).map(Duration::from_nanos);
        }
    }

    /// After how long; `None` if never, or if nothing is known yet.
    pub(super) fn after(&self) -> Option<Duration> {
        match self.hedge {
            Hedge::Never => None,
            Hedge::After(time) => Some(time),
            Hedge::Percentile(_) => self.percentile,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_that_of_recent_latencies() {
        let mut timing = Timing::new(Hedge::Percentile(0.9));
        for latency in 0..99 {
            timing.observe(Duration::from_millis(latency));
        }
        assert_eq!(timing.after(), None);
        timing.observe(Duration::from_millis(99));
        assert_eq!(timing.after(), Some(Duration::from_millis(89)));
        (0..2_000).for_each(|_| timing.observe(Duration::from_millis(3)));
        assert_eq!(timing.after(), Some(Duration::from_millis(3)));
    }

    #[test]
    fn a_fixed_time_needs_no_latencies() {
        let mut timing = Timing::new(Hedge::After(Duration::from_millis(8)));
        timing.observe(Duration::from_secs(1));
        assert_eq!(timing.after(), Some(Duration::from_millis(8)));
        assert_eq!(Timing::new(Hedge::Never).after(), None);
    }

    #[test]
    fn is_written_as_documented() {
        #[derive(Deserialize)]
        struct Holder {
            hedge: Hedge,
        }
        let read = |text: &str| toml::from_str::<Holder>(text).unwrap().hedge;
        assert_eq!(read("hedge = 'never'"), Hedge::Never);
        assert_eq!(read("hedge = { after = '1500us' }"), Hedge::After(Duration::from_micros(1500)));
        assert_eq!(read("hedge = { percentile = 0.98 }"), Hedge::Percentile(0.98));
        assert!(Hedge::Percentile(98.0).validate().is_err());
        assert!(Hedge::Percentile(f64::NAN).validate().is_err());
    }
}
