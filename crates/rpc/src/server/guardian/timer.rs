//! A timer of microseconds: tokio's are of milliseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer of the kernel, on the reactor of the task that made it.
#[derive(Debug)]
pub(super) struct Timer(AsyncFd<Descriptor>);

#[derive(Debug)]
struct Descriptor(TimerFd);

impl Timer {
    /// A timer that does not run.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that do not live as long: this does"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Lets it tick from now on.
    pub(super) fn every(&mut self, interval: Duration) -> io::Result<()> {
        let interval = Expiration::Interval(TimeSpec::from_duration(interval));
        Ok(self.0.get_ref().0.set(interval, TimerSetTimeFlags::empty())?)
    }

    /// Waits for the next tick. Those that were missed are one.
    pub(super) async fn tick(&mut self) -> io::Result<()> {
        self.0.async_io(Interest::READABLE, |timer| Ok(timer.0.wait()?)).await
    }

    /// Lets it tick no more.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        Ok(self.0.get_ref().0.unset()?)
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ticks_until_it_is_stopped_and_again_after() {
        let mut timer = Timer::new().unwrap();
        for _ in 0..2 {
            timer.every(Duration::from_micros(300)).unwrap();
            for _ in 0..3 {
                timer.tick().await.unwrap();
            }
            timer.stop().unwrap();
            let none = tokio::time::timeout(Duration::from_millis(20), timer.tick()).await;
            assert!(none.is_err());
        }
    }
}
