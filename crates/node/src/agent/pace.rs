//! One pass in each interval, until a signal says to stop.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use seawall_abi::clock::monotonic_ns;

use super::Agent;
use super::status::Status;
use super::watchdog::Watchdog;

/// How often the watchdog is looked after.
const WATCHDOG_EVERY: Duration = Duration::from_millis(100);

/// Signals that end the agent.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// From now on SIGINT, SIGTERM and SIGHUP are noticed rather than deadly: call it before other
    /// threads are started, and before anything has to be put back.
    ///
    /// # Errors
    ///
    /// If the system does not let this process handle signals.
    pub fn listen() -> io::Result<Self> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&signals, flags)?))
    }

    /// Waits until a signal comes or the time is over; whether one came.
    fn wait(&self, time: Duration) -> io::Result<bool> {
        let mut files = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut files, Some(TimeSpec::from_duration(time)), None) {
            Ok(0) | Err(Errno::EINTR) => Ok(false),
            Ok(_) => Ok(self.0.read_signal()?.is_some()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Passes in each `interval`, at fixed times: one that comes late does not delay the next, and
/// those whose time has gone are left out and counted. `after` is called after each pass, and ends
/// the agent if it says so.
///
/// # Errors
///
/// If signals or the watchdog cannot be waited for.
pub fn drive(
    agent: &mut Agent,
    interval: Duration,
    signals: &Signals,
    mut watchdog: Option<&mut Watchdog>,
    mut after: impl FnMut(&Status) -> bool,
) -> io::Result<()> {
    // Sleeps end as late as 50 us by default; where that cannot be set it shows as lateness.
    let _ = prctl::set_timerslack(1);
    let interval_ns = interval.as_nanos() as u64;
    let mut due_ns = monotonic_ns();
    let mut looked_ns = due_ns;
    loop {
        let begun_ns = monotonic_ns();
        agent.pass(begun_ns, time());
        let ended_ns = monotonic_ns();
        let late = Duration::from_nanos(begun_ns.saturating_sub(due_ns));
        let took = Duration::from_nanos(ended_ns - begun_ns);
        agent.status_mut().lateness.record(late, took);
        if let Some(watchdog) = &mut watchdog
            && ended_ns.saturating_sub(looked_ns) >= WATCHDOG_EVERY.as_nanos() as u64
        {
            looked_ns = ended_ns;
            look_after(watchdog, agent.status_mut());
        }
        if after(agent.status()) {
            return Ok(());
        }
        due_ns += interval_ns;
        let now_ns = monotonic_ns();
        if now_ns > due_ns + interval_ns {
            let missed = (now_ns - due_ns) / interval_ns;
            agent.status_mut().passes_missed += missed;
            due_ns += missed * interval_ns;
        }
        if wait(agent, signals, due_ns)? {
            return Ok(());
        }
    }
}

/// Waits until the next pass is due, and tells services meanwhile that the agent lives; whether a
/// signal came.
fn wait(agent: &mut Agent, signals: &Signals, due_ns: u64) -> io::Result<bool> {
    loop {
        let left = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
        let every = agent.beat_every();
        if signals.wait(left.min(every))? {
            return Ok(true);
        }
        if left <= every {
            return Ok(false);
        }
        agent.beat(monotonic_ns());
    }
}

fn look_after(watchdog: &mut Watchdog, status: &mut Status) {
    match watchdog.keep() {
        Ok(false) => {}
        Ok(true) => tracing::warn!(pid = watchdog.id(), "the watchdog had ended; here is another"),
        Err(error) => {
            status.error("watchdog");
            tracing::warn!(%error, "there is no watchdog");
        }
    }
    status.watchdog_starts = watchdog.starts();
}

/// The clock of passes and pages.
pub fn now_ns() -> u64 {
    monotonic_ns()
}

/// Seconds since 1970.
fn time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
