//! How long threads wait, for who asks again and again.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seawall_control::predict::cpu::Features;

use crate::{RunQueues, Unavailable};

/// Predicts how long threads wait for a CPU, with all that is known of the others.
///
/// ```no_run
/// use seawall_node::Probe;
///
/// let probe = Probe::open()?;
/// let workers = [4711, 4712];
/// match probe.predicted_wait(&workers) {
///     Some(wait) => println!("one of them runs in {wait:?}"),
///     None => println!("nobody waits"),
/// }
/// # Ok::<(), seawall_node::Unavailable>(())
/// ```
#[derive(Debug)]
pub struct Probe {
    queues: Mutex<RunQueues>,
}

impl Probe {
    /// Loads the programs. Habits of threads are learnt from now on, until this is dropped: the
    /// first predictions are made without.
    ///
    /// # Errors
    ///
    /// What is missing, if the kernel does not show its run queues.
    pub fn open() -> Result<Self, Unavailable> {
        Ok(Self { queues: Mutex::new(RunQueues::open()?) })
    }

    /// How long it will be until one of these threads has a CPU,
    /// [`WAIT_MAX`](seawall_control::predict::cpu::WAIT_MAX) at most; zero if one has. `None` if
    /// none of them waits for one: they sleep, have ended, or were moved to another CPU meanwhile.
    ///
    /// `threads` are the kernel's numbers, as `gettid` tells them. For each, a file in `/proc` is
    /// read. Each CPU on which some of them wait is interrupted once.
    pub fn predicted_wait(&self, threads: &[i32]) -> Option<Duration> {
        let mut ready: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for &thread in threads {
            if let (Some(cpu), Ok(id)) = (ready_on(thread), u64::try_from(thread)) {
                ready.entry(cpu).or_default().push(id);
            }
        }
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let first = |(cpu, ids): (u32, Vec<u64>)| {
            // A CPU that has gone offline has no threads any more.
            let sample = queues.copy(cpu).ok()?;
            sample.shadow.wait_any(&ids, Features::Dependent)
        };
        ready.into_iter().filter_map(first).min()
    }
}

/// The CPU of a thread that runs or could.
fn ready_on(thread: i32) -> Option<u32> {
    cpu_of(&fs::read_to_string(format!("/proc/{thread}/stat")).ok()?)
}

/// See proc(5): the state is the 3rd field, the CPU the 39th. The 2nd, a name, may hold anything.
fn cpu_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let is_ready = fields.next()? == "R";
    is_ready.then(|| fields.nth(35)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_on_its_cpu_unless_it_sleeps() {
        let after = " 1 2".to_owned() + &" 0".repeat(33) + " 7 0 0\n";
        assert_eq!(cpu_of(&format!("12 (a) S) R{after}")), Some(7));
        assert_eq!(cpu_of(&format!("12 (a) R) S{after}")), None);
        assert_eq!(cpu_of("12 (a) R 1 2"), None);
        assert_eq!(cpu_of(""), None);
    }

    #[test]
    fn this_thread_runs() {
        assert!(ready_on(nix::unistd::gettid().as_raw()).is_some());
        assert_eq!(ready_on(-1), None);
    }
}
