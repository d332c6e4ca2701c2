//! Waits of two milliseconds that take two milliseconds: tokio's timers tick once in one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Waits off the CPU, by a timer of the kernel; by one of tokio if there is none left.
pub(super) async fn sleep(time: Duration) {
    if by_kernel(time).await.is_err() {
        tokio::time::sleep(time).await;
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for descriptors that do not live as long: this does"
)]
async fn by_kernel(time: Duration) -> io::Result<()> {
    // A time of zero would set no timer.
    let once = Expiration::OneShot(TimeSpec::from(time.max(Duration::from_nanos(1))));
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
    timer.set(once, TimerSetTimeFlags::empty())?;
    let timer = AsyncFd::with_interest(Timer(timer), Interest::READABLE)?;
    _ = timer.readable().await?;
    Ok(())
}
