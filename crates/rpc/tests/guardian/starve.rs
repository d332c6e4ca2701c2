//! Keeps the workers of the servers of this process from the CPU.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// The kernel lets real-time threads have a CPU for 950 ms of each second. No test needs so much.
const LONGEST: Duration = Duration::from_millis(700);

/// A thread that has the CPU on which the workers have to run, at a priority above theirs and below
/// the guardian's, until it is dropped.
pub(crate) struct Starvation {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Starvation {
    /// Binds the threads of all servers to one CPU and all others to the rest, for good. `None`
    /// where that cannot be tested: with one CPU, or without the right to real-time priority.
    pub(crate) fn prepare() -> Option<CpuSet> {
        static CPUS: LazyLock<Option<(CpuSet, CpuSet)>> = LazyLock::new(divide);
        let (cpu, rest) = (*CPUS)?;
        thread::spawn(|| enter_realtime().ok()).join().unwrap()?;
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap();
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let id = task.file_name().to_str().unwrap().parse().unwrap();
            let place = if name.starts_with("seawall") { &cpu } else { &rest };
            _ = sched_setaffinity(Pid::from_raw(id), place); // it may have ended
        }
        Some(cpu)
    }

    /// Takes `cpu`; when it returns, no worker runs.
    pub(crate) fn begin(cpu: CpuSet) -> Self {
        let (stop, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (told, tell) = (stop.clone(), runs.clone());
        let thread = thread::spawn(move || {
            sched_setaffinity(Pid::from_raw(0), &cpu).unwrap();
            enter_realtime().expect("it was permitted before");
            tell.store(true, SeqCst);
            let began = Instant::now();
            while !told.load(SeqCst) && began.elapsed() < LONGEST {
                std::hint::spin_loop();
            }
        });
        while !runs.load(SeqCst) {
            thread::yield_now();
        }
        Self { stop, thread: Some(thread) }
    }

    /// Lets the workers run. Fails if they could before.
    pub(crate) fn end(self) {
        assert!(!self.thread.as_ref().unwrap().is_finished(), "the starvation ended too early");
    }

    /// Lets the workers run soon.
    pub(crate) fn release(&self) {
        self.stop.store(true, SeqCst);
    }
}

impl Drop for Starvation {
    fn drop(&mut self) {
        self.release();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Threads of servers of this process that have begun, but for those that only watch.
pub(crate) fn named() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")));
    let counts = |name: &String| name.starts_with("seawall") && !name.contains("patrol");
    names.filter(|name| name.as_ref().is_ok_and(counts)).count()
}

fn enter_realtime() -> Result<(), thread_priority::Error> {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo)
}

/// The first CPU that the process may use, and the others.
fn divide() -> Option<(CpuSet, CpuSet)> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let (mut first, mut rest) = (CpuSet::new(), CpuSet::new());
    first.set(cpus.next()?).unwrap();
    rest.set(cpus.next()?).unwrap();
    cpus.for_each(|cpu| rest.set(cpu).unwrap());
    Some((first, rest))
}
