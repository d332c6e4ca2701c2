//! How much of the CPU this process uses: of the cores that it may have.
//!
//! Shedders ask for it (`bbr`). It is the process's own time, as the kernel counts it, over that of
//! its cores or of its quota, so that neighbours on the machine have no part in it. What the
//! process waits for the CPU is no use of it.
//!
//! ```
//! use seawall_control::steer::Meter;
//! use seawall_measure::cpu::Usage;
//!
//! let mut cpu = Usage::new(2);
//! let before = cpu.total();
//! // … a second later, if it has grown by 1.5e9, three quarters of two cores were in use
//! assert!(cpu.total() >= before);
//! ```

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use seawall_control::steer::Meter;

/// The kernel counts by the tick where it does no better.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of this process, over its cores: a nanosecond for each that all of them work.
#[derive(Debug)]
pub struct Usage {
    cores: u64,
}

impl Usage {
    /// That of a process with so many cores to use, at least one, and no more than the kernel lets
    /// it have: by the cores that it may run on, and by its quota.
    pub fn new(cores: usize) -> Self {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cores: cores.clamp(1, most) as u64 }
    }
}

impl Meter for Usage {
    fn name(&self) -> &str {
        "CPU of the process"
    }

    fn total(&mut self) -> Option<u64> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Some(u64::try_from(micros).ok()? * 1_000 / self.cores)
    }

    fn resolution(&self) -> Duration {
        TICK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_makes_it_grow() {
        let mut cpu = Usage::new(1);
        let before = cpu.total().unwrap();
        let mut sum = 0_u64;
        let grown = (0..u64::MAX).any(|number| {
            sum = sum.wrapping_mul(31).wrapping_add(number);
            number % 1_000_000 == 0 && cpu.total().unwrap() > before + 1_000_000
        });
        assert!(grown, "{sum}");
    }
}
