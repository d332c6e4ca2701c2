//! Whether threads get the CPU, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;

/// What is read of a thread's `stat`: number, name of at most 64 bytes, state.
const STAT_BYTES: usize = 96;

/// Who has run for less than this between two looks has not run: a thread whose priority was taken
/// back on another CPU goes on until that CPU hears of it.
const A_BIT: Duration = Duration::from_micros(30);

/// A thread that is looked at now and then. A look takes 1 to 3 µs.
#[derive(Debug)]
pub(super) struct Watched {
    /// The kernel's number.
    pub(super) id: i32,
    /// Counts the time that the kernel let the thread run.
    clock: ClockId,
    /// What it said at the last look.
    ran: Duration,
    /// Tells whether the thread wants to run; `None` where there is no `/proc`.
    stat: Option<File>,
}

impl Watched {
    /// The thread that calls.
    pub(super) fn this_thread() -> Self {
        let id = gettid().as_raw();
        // As the kernel numbers them: the thread's number, inverted, with "of a thread" and
        // "scheduler's time" in the lowest bits (include/linux/posix-timers.h).
        let clock = ClockId::from_raw((!id << 3) | 4 | 2);
        let stat = File::open(format!("/proc/self/task/{id}/stat")).ok();
        Self { id, clock, ran: Duration::ZERO, stat }
    }

    /// For how long it has run in all.
    pub(super) fn ran(&self) -> Duration {
        // A thread that has ended has no clock, and does not run.
        clock_gettime(self.clock).map_or(self.ran, Duration::from)
    }

    /// What it has run until now does not count at the next look.
    pub(super) fn mark(&mut self) {
        self.ran = self.ran();
    }

    /// True if it has run since the last look.
    pub(super) fn has_run(&mut self) -> bool {
        let ran = self.ran();
        ran.saturating_sub(std::mem::replace(&mut self.ran, ran)) >= A_BIT
    }

    /// True if it runs or wants to; else it waits for something else.
    pub(super) fn can_run(&self) -> bool {
        let Some(stat) = &self.stat else { return true };
        let mut text = [0; STAT_BYTES];
        let Ok(len) = stat.read_at(&mut text, 0) else { return false };
        state(&text[..len]) == Some(b'R')
    }
}

/// The state in a line of `stat`, which stands behind a name that may be anything.
fn state(stat: &[u8]) -> Option<u8> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Instant;

    fn spin() {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {}
    }

    #[test]
    fn states_stand_behind_names() {
        assert_eq!(state(b"7 (a) S b) R 1 2"), Some(b'R'));
        assert_eq!(state(b"7 (seawall) "), None);
        assert_eq!(state(b""), None);
    }

    #[test]
    fn a_thread_runs_sleeps_and_ends() {
        let (go, wait) = channel::<bool>();
        let (tell, told) = channel();
        let thread = thread::spawn(move || {
            tell.send(Watched::this_thread()).unwrap();
            while wait.recv().unwrap() {
                spin();
            }
        });
        let mut watched = told.recv().unwrap();
        while watched.can_run() {
            thread::yield_now();
        }
        watched.mark();
        assert!(!watched.has_run(), "it sleeps");
        go.send(true).unwrap();
        while !watched.has_run() {
            thread::sleep(Duration::from_millis(2));
        }
        go.send(false).unwrap();
        thread.join().unwrap();
        watched.mark();
        assert!(!watched.has_run() && !watched.can_run(), "it has ended");
    }

    #[test]
    fn a_thread_that_spins_can_run() {
        let mut watched = Watched::this_thread();
        watched.mark();
        assert!(watched.can_run());
        spin();
        assert!(watched.has_run());
    }
}
