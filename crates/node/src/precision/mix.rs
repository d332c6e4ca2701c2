//! Which threads compete for the CPU.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{env, io, process};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::groups::Groups;
use super::work::Work;
use super::{MeasureError, Plan};

/// Kinds of threads, after the paper's table III.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Five threads for each CPU that never sleep.
    Independent,
    /// Two groups with equal shares, of three and of two such threads for each CPU (mix A: two
    /// users).
    Groups,
    /// Beside three such threads, one that now and then wakes another for a short piece of work,
    /// and two that work in turns (mixes B and C: `vips`, `dedup`).
    Dependent,
    /// Beside three such threads, one that writes to a disk, and two that wait for timers, as for a
    /// network.
    Io,
}

impl Mix {
    /// All by name.
    pub const NAMED: [(&str, Self); 4] = [
        ("independent", Self::Independent),
        ("groups", Self::Groups),
        ("dependent", Self::Dependent),
        ("io", Self::Io),
    ];
}

/// Threads that run until they are stopped.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    groups: Option<Groups>,
}

impl Running {
    pub(super) fn stop(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        self.groups.take();
    }
}

type Body = Box<dyn FnOnce(&AtomicBool, Work) + Send>;

/// Starts the plan's threads, kept on its CPUs.
pub(super) fn start(plan: &Plan) -> Result<Running, MeasureError> {
    let work = Work::calibrate();
    let mut running = Running { stop: Arc::default(), threads: Vec::new(), groups: None };
    if plan.mix == Mix::Groups {
        running.groups = Some(Groups::create(2)?);
    }
    for (group, body) in plan.cpus.iter().flat_map(|_| bodies(plan.mix)) {
        let cpus = plan.cpus.clone();
        let stop = running.stop.clone();
        let join = running.groups.as_ref().map(|groups| groups.entrance(group));
        let (started, hear) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name(format!("mix {group}"));
        let thread = thread.spawn(move || {
            let ready = keep_to(&cpus).and_then(|()| join.map_or(Ok(()), |join| join.enter()));
            let is_ready = ready.is_ok();
            // The starter waits for it.
            let _ = started.send(ready);
            if is_ready {
                body(&stop, work);
            }
        });
        let failed = |source| MeasureError::Threads { cpus: plan.cpus.clone(), source };
        running.threads.push(thread.map_err(failed)?);
        hear.recv().unwrap_or_else(|_| Err(io::Error::other("it ended"))).map_err(failed)?;
    }
    Ok(running)
}

fn keep_to(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu as usize))?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// What runs for each CPU, and in which group.
fn bodies(mix: Mix) -> Vec<(usize, Body)> {
    let spinners = |group, n: usize| (0..n).map(move |_| (group, spinner()));
    match mix {
        Mix::Independent => spinners(0, 5).collect(),
        Mix::Groups => spinners(0, 3).chain(spinners(1, 2)).collect(),
        Mix::Dependent => {
            let helped = pair(Duration::from_millis(4), Duration::from_micros(300), false);
            let in_turns = pair(Duration::from_millis(1), Duration::from_millis(1), true);
            spinners(0, 3).chain(helped).chain(in_turns).collect()
        }
        Mix::Io => {
            let timers = [(5, 500), (9, 300)]
                .map(|(ms, us)| (0, sleeper(Duration::from_millis(ms), Duration::from_micros(us))));
            spinners(0, 3).chain([(0, writer())]).chain(timers).collect()
        }
    }
}

fn spinner() -> Body {
    Box::new(|stop, work| {
        while !stop.load(Ordering::Relaxed) {
            work.run(Duration::from_micros(100));
        }
    })
}

/// One that waits for a timer.
fn sleeper(idle: Duration, burst: Duration) -> Body {
    Box::new(move |stop, work| {
        while !stop.load(Ordering::Relaxed) {
            work.run(burst);
            std::thread::sleep(idle);
        }
    })
}

/// One that waits for the device below the folder of temporary files.
fn writer() -> Body {
    Box::new(|stop, work| {
        let path = env::temp_dir().join(format!("seawall-precision-{}", process::id()));
        let Ok(mut file) = File::create(&path) else { return };
        while !stop.load(Ordering::Relaxed) {
            work.run(Duration::from_micros(300));
            // Without a device it is one more thread that sleeps.
            if file.write_all(&[0; 4096]).and_then(|()| file.sync_data()).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let _ = std::fs::remove_file(path);
    })
}

/// Two threads that wake each other: one works for `first`, then wakes the other, which works for
/// `second`. `in_turns`, the first waits for that.
fn pair(first: Duration, second: Duration, in_turns: bool) -> [(usize, Body); 2] {
    let turns = Arc::new((Mutex::new(0_u64), Condvar::new()));
    let others = turns.clone();
    let waker: Body = Box::new(move |stop, work| {
        while !stop.load(Ordering::Relaxed) {
            work.run(first);
            let turn = pass(&turns);
            if in_turns {
                wait(&turns, stop, |now| now > turn);
            }
        }
    });
    let woken: Body = Box::new(move |stop, work| {
        let mut seen = 0;
        while !stop.load(Ordering::Relaxed) {
            seen = wait(&others, stop, |now| now > seen);
            work.run(second);
            if in_turns {
                seen = pass(&others);
            }
        }
    });
    [(0, waker), (0, woken)]
}

type Turns = (Mutex<u64>, Condvar);

fn pass((turns, changed): &Turns) -> u64 {
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    *turns += 1;
    changed.notify_all();
    *turns
}

fn wait((turns, changed): &Turns, stop: &AtomicBool, until: impl Fn(u64) -> bool) -> u64 {
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    while !until(*turns) && !stop.load(Ordering::Relaxed) {
        // Looks now and then whether it is over.
        let look = Duration::from_millis(200);
        turns = changed.wait_timeout(turns, look).unwrap_or_else(PoisonError::into_inner).0;
    }
    *turns
}
