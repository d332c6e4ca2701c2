//! Whether workers get the CPU, as the kernel counts it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use parking_lot::Mutex;

/// What is read of a thread's `stat`: number, name of at most 64 bytes, state.
const STAT_BYTES: usize = 96;

/// The threads that run handlers.
#[derive(Debug, Default)]
pub(super) struct Workers(Mutex<Threads>);

#[derive(Debug, Default)]
struct Threads {
    ids: Vec<i32>,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    /// Counts the time that the kernel let the thread run.
    clock: ClockId,
    /// What it said at the last look.
    ran: Duration,
    /// Tells whether the thread wants to run; `None` where there is no `/proc`.
    stat: Option<File>,
}

impl Workers {
    /// The thread that calls is a worker.
    pub(super) fn enlist(&self) {
        let id = gettid().as_raw();
        // As the kernel numbers them: the thread's number, inverted, with "of a thread" and
        // "scheduler's time" in the lowest bits (include/linux/posix-timers.h).
        let clock = ClockId::from_raw((!id << 3) | 4 | 2);
        let stat = File::open(format!("/proc/self/task/{id}/stat")).ok();
        let mut threads = self.0.lock();
        threads.ids.push(id);
        threads.threads.push(Thread { clock, ran: Duration::ZERO, stat });
    }

    /// True if any has run since this was last asked.
    pub(super) fn have_run(&self) -> bool {
        let mut threads = self.0.lock();
        // All of them are looked at, so that all are known at the next look.
        threads.threads.iter_mut().map(|thread| u32::from(thread.has_run())).sum::<u32>() > 0
    }

    /// True if any wants to run. If none does they are blocked elsewhere, or have nothing to do.
    pub(super) fn can_run(&self) -> bool {
        self.0.lock().threads.iter().any(Thread::can_run)
    }

    /// Their numbers.
    pub(super) fn with_threads<T>(&self, f: impl FnOnce(&[i32]) -> T) -> T {
        f(&self.0.lock().ids)
    }
}

impl Thread {
    fn has_run(&mut self) -> bool {
        // A thread that has ended has no clock, and does not run.
        let ran = clock_gettime(self.clock).map_or(self.ran, Duration::from);
        std::mem::replace(&mut self.ran, ran) < ran
    }

    fn can_run(&self) -> bool {
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

    #[test]
    fn states_stand_behind_names() {
        assert_eq!(state(b"7 (a) S b) R 1 2"), Some(b'R'));
        assert_eq!(state(b"7 (seawall) "), None);
        assert_eq!(state(b""), None);
    }

    #[test]
    fn a_thread_runs_sleeps_and_ends() {
        let workers = Workers::default();
        assert!(!workers.have_run() && !workers.can_run());
        let (go, wait) = channel::<bool>();
        thread::scope(|scope| {
            let enlisted = &workers;
            let thread = scope.spawn(move || {
                enlisted.enlist();
                while wait.recv().unwrap() {}
            });
            while workers.with_threads(<[i32]>::is_empty) || workers.can_run() {
                thread::yield_now();
            }
            workers.have_run();
            assert!(!workers.have_run(), "it sleeps");
            go.send(true).unwrap();
            while !workers.have_run() {
                thread::yield_now();
            }
            go.send(false).unwrap();
            thread.join().unwrap();
        });
        workers.have_run();
        assert!(!workers.have_run() && !workers.can_run(), "it has ended");
    }

    #[test]
    fn a_thread_that_spins_can_run() {
        let workers = Workers::default();
        workers.enlist();
        assert!(workers.have_run() && workers.can_run());
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(1) {}
        assert!(workers.have_run());
    }
}
