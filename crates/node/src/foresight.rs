//! How long a server's threads wait for a CPU, by the kernel's run queues.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::bounce::Problem;
use seawall_control::predict::cpu::WAIT_MAX;
use seawall_control::predict::starvation::{CpuDelay, Episodes, Starved};

use crate::{Probe, Unavailable};

/// Predicts for a server's guardian by a [`Probe`], and by what earlier waits were where that does
/// not tell: a control group is out of its quota, or a thread of real-time priority has the CPU.
#[derive(Debug)]
pub struct Foresight {
    probe: Probe,
    earlier: Episodes,
    foreseen: Foreseen,
}

/// When the newest wait began, and when the first prediction said that it would end.
#[derive(Clone, Copy, Debug, Default)]
struct Foreseen {
    since: Instant,
    end: Instant,
}

impl Foresight {
    /// Loads the programs.
    ///
    /// # Errors
    ///
    /// What is missing, if the kernel does not show its run queues.
    pub fn open() -> Result<Self, Unavailable> {
        let (earlier, foreseen) = Default::default();
        Ok(Self { probe: Probe::open()?, earlier, foreseen })
    }

    /// The same, as what a server asks for.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn for_server() -> Result<Box<dyn CpuDelay>, Problem> {
        Ok(Box::new(Self::open()?))
    }
}

impl CpuDelay for Foresight {
    fn predict(&mut self, now: Instant, starved: &Starved<'_>) -> Duration {
        match self.probe.predicted_wait(starved.threads) {
            Some(wait) if wait < WAIT_MAX => self.foreseen.judge(now, starved.since, wait),
            _ => self.earlier.predict(now, starved),
        }
    }

    fn on_episode(&mut self, now: Instant, waited: Duration) {
        self.earlier.on_episode(now, waited);
    }
}

impl Foreseen {
    /// What is predicted of a wait that began at `since`: `wait` from now, but at least for as long
    /// as it has outlasted what was predicted of it first.
    fn judge(&mut self, now: Instant, since: Instant, wait: Duration) -> Duration {
        if self.since != since {
            *self = Self { since, end: now + wait };
        }
        wait.max(now.since(self.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_outlasts_what_was_foreseen_is_half_over() {
        let (at, ms) = (|ms: u64| Instant::from_micros(ms * 1_000), Duration::from_millis);
        let mut foreseen = Foreseen::default();
        assert_eq!(foreseen.judge(at(10), at(9), ms(4)), ms(4));
        assert_eq!(foreseen.judge(at(12), at(9), ms(3)), ms(3));
        assert_eq!(foreseen.judge(at(16), at(9), ms(1)), ms(2), "it should have ended at 14");
        assert_eq!(foreseen.judge(at(30), at(9), ms(1)), ms(16));
        assert_eq!(foreseen.judge(at(40), at(39), ms(1)), ms(1), "another");
    }
}
