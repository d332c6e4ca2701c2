//! What the machine does to threads: stalls, seen by threads that do nothing but sleep.
//!
//! A canary sleeps for a millisecond at a time. When it is woken later than that, every other
//! thread could have been, too: a neighbour or the hypervisor had the processor. What was stalled
//! is never subtracted from a measurement. It says which measurement to repeat.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use seawall_control::Instant;
use seawall_rpc::clock;

use crate::pin;

/// How long a canary sleeps.
const SLEEP: Duration = Duration::from_millis(1);

/// A stall of less than this is the ordinary time that a wake-up takes.
const LEAST: Duration = Duration::from_micros(250);

/// Stalls that are kept of each canary: many more than a demo lasts at the worst.
const MOST: usize = 1 << 20;

/// Canaries that run until this is dropped.
#[derive(Debug)]
pub(super) struct Canaries {
    stop: Arc<AtomicBool>,
    canaries: Vec<Canary>,
}

#[derive(Debug)]
struct Canary {
    stalls: Arc<Mutex<Vec<Stall>>>,
    thread: Option<JoinHandle<()>>,
}

/// One late wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall {
    /// When it was over.
    end: Instant,
    lasted: Duration,
}

/// What was stalled of some time: of the canary that was stalled most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stalled {
    /// The longest stall.
    pub(super) longest: Duration,
    /// All stalls that count together.
    pub(super) total: Duration,
}

impl Canaries {
    /// Starts one canary for each of `cores`, which keeps to it; or as many as there are, which
    /// keep to none.
    ///
    /// # Errors
    ///
    /// If the system has no thread for them.
    pub(super) fn start(cores: &[Option<usize>]) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let canary = |core: &Option<usize>| {
            let stalls = Arc::new(Mutex::new(Vec::new()));
            let (told, stop, core) = (stalls.clone(), stop.clone(), *core);
            let thread = thread::Builder::new()
                .name("canary".into())
                .spawn(move || watch(core, &told, &stop))
                .context("there is no thread to watch the machine's stalls")?;
            Ok(Canary { stalls, thread: Some(thread) })
        };
        let canaries = cores.iter().map(canary).collect::<Result<_>>()?;
        Ok(Self { stop, canaries })
    }

    /// What was stalled between two times, of stalls that are longer than `least`.
    pub(super) fn between(&self, from: Instant, to: Instant, least: Duration) -> Stalled {
        let of = |canary: &Canary| {
            let stalls = canary.stalls.lock().unwrap_or_else(PoisonError::into_inner);
            sum(&stalls, from, to, least)
        };
        self.canaries.iter().map(of).max_by_key(|stalled| stalled.total).unwrap_or_default()
    }
}

impl Drop for Canaries {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.canaries.iter_mut().filter_map(|canary| canary.thread.take()) {
            _ = thread.join();
        }
    }
}

fn watch(core: Option<usize>, stalls: &Mutex<Vec<Stall>>, stop: &AtomicBool) {
    if let Some(core) = core {
        _ = pin::to_core(core); // elsewhere it sees less, and nothing wrong
    }
    _ = nix::sys::prctl::set_timerslack(1);
    while !stop.load(Relaxed) {
        let due = clock::now() + SLEEP;
        thread::sleep(SLEEP);
        let end = clock::now();
        let lasted = end.since(due);
        if lasted >= LEAST {
            let mut stalls = stalls.lock().unwrap_or_else(PoisonError::into_inner);
            if stalls.len() < MOST {
                stalls.push(Stall { end, lasted });
            }
        }
    }
}

/// Adds up the parts of stalls that lie between two times.
fn sum(stalls: &[Stall], from: Instant, to: Instant, least: Duration) -> Stalled {
    let mut stalled = Stalled::default();
    for stall in stalls.iter().filter(|stall| stall.lasted >= least) {
        let begin = Instant::from_nanos(
            stall.end.as_nanos().saturating_sub(stall.lasted.as_nanos() as u64),
        );
        let within = stall.end.min(to).since(begin.max(from));
        stalled.total += within;
        stalled.longest = stalled.longest.max(within);
    }
    stalled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_what_lies_between_counts() {
        let stalls = [(15, 10), (40, 2), (60, 20), (99, 9)];
        let stalls = stalls.map(|(end, lasted)| Stall { end: at(end), lasted: ms(lasted) });
        let stalled = sum(&stalls, at(10), at(50), ms(5));
        assert_eq!(stalled, Stalled { longest: ms(10), total: ms(15) });
        let all = sum(&stalls, at(0), at(100), ms(0));
        assert_eq!(all, Stalled { longest: ms(20), total: ms(41) });
        assert_eq!(sum(&stalls, at(20), at(38), ms(0)), Stalled::default());
    }
}
