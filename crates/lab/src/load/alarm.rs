//! Sleep that ends on time: the kernel's timers, which tick finer than tokio's.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use seawall_control::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes one task of a runtime at given times, some tens of microseconds late.
#[derive(Debug)]
pub(super) struct Alarm(AsyncFd<Timer>);

/// The kernel's timer as tokio takes it.
#[derive(Debug)]
struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// An alarm of the runtime that this is called in.
    ///
    /// # Errors
    ///
    /// If the system has no timer left.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that do not live as long: this does"
    )]
    pub(super) fn new() -> Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).context("there is no timer")?;
        Ok(Self(AsyncFd::with_interest(Timer(timer), Interest::READABLE)?))
    }

    /// Sleeps until `at`.
    ///
    /// # Errors
    ///
    /// If the system does not set the timer.
    pub(super) async fn until(&self, at: Instant) -> Result<()> {
        // A time of zero would take the alarm off.
        let at = Duration::from_nanos(at.as_nanos().max(1));
        let once = Expiration::OneShot(TimeSpec::from(at));
        self.0.get_ref().0.set(once, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        loop {
            let mut ready = self.0.readable().await?;
            let rang = ready.try_io(|timer| match timer.get_ref().0.wait() {
                Ok(()) => Ok(()),
                Err(errno) => Err(errno.into()),
            });
            match rang {
                Ok(rang) => return Ok(rang?),
                // Readiness that is left from an alarm before.
                Err(_would_block) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_rpc::clock;

    #[test]
    fn it_rings_again_and_again_and_never_early() {
        let runtime = crate::load::engine::runtime().unwrap();
        runtime.block_on(async {
            let alarm = Alarm::new().unwrap();
            for us in [300, 0, 100] {
                let at = clock::now() + Duration::from_micros(us);
                alarm.until(at).await.unwrap();
                assert!(clock::now() >= at);
            }
        });
    }
}
