//! Carries out boosts that a program in the kernel cannot: quotas and frequencies.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use seawall_control::Instant;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use super::clock::monotonic_now;
use super::table::Slot;
use crate::programs::first_responder::types::late;

/// It sleeps for no longer, to see that it shall end.
const SLEEP_MAX: Duration = Duration::from_millis(50);

const FIFO: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);

/// A request was late.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// When the packet came, on the system's monotonic clock.
    pub at: Instant,
    /// When the boost ends.
    pub until: Instant,
    /// By how much the request was late.
    pub late_by: Duration,
    /// Its path.
    pub path: u16,
    /// Whom to raise: the late service, then those downstream of it on this node.
    pub raised: Vec<Slot>,
}

/// What raises services: a node's actuators. It is called by one thread, the worker's, which has
/// real-time priority where it may: do little.
pub trait Boost: Send {
    /// Raises these services. It may be called again before they are lowered.
    ///
    /// # Errors
    ///
    /// What did not work; it is counted, and the boost ends as if it had.
    fn raise(&mut self, decision: &Decision) -> io::Result<()>;

    /// The boost of a service has come to its end, and nothing extended it: it gets what it had
    /// been given by the slower controller.
    ///
    /// # Errors
    ///
    /// What did not work; it is counted.
    fn lower(&mut self, slot: Slot) -> io::Result<()>;
}

/// How the worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Its real-time priority (`SCHED_FIFO`), 1 to 99; `None` to run like any other thread.
    /// Default 10: below what keeps the machine going.
    pub priority: Option<u8>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self { priority: Some(10) }
    }
}

/// What the worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Decisions that it was told of.
    pub decisions: u64,
    /// Services whose boost has ended.
    pub lowered: u64,
    /// Calls of [`Boost`] that failed.
    pub failed: u64,
    /// Whether it has real-time priority.
    pub is_realtime: bool,
}

/// What the thread that raises shares with who started it.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) is_realtime: AtomicBool,
    decisions: AtomicU64,
    lowered: AtomicU64,
    failed: AtomicU64,
}

impl Shared {
    pub(super) fn stats(&self) -> WorkerStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerStats {
            decisions: load(&self.decisions),
            lowered: load(&self.lowered),
            failed: load(&self.failed),
            is_realtime: self.is_realtime.load(Ordering::Relaxed),
        }
    }
}

/// The thread that reads decisions. It ends when this is dropped, and lowers what is still raised.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start(
        events: MapHandle,
        config: WorkerConfig,
        boost: Box<dyn Boost>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let hers = shared.clone();
        let thread = thread::Builder::new().name("first-responder".into()).spawn(move || {
            hers.is_realtime.store(enter(config), Ordering::Relaxed);
            if let Err(error) = run(&events, &hers, boost) {
                tracing::error!("boosts are not carried out any more: {error}");
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn stats(&self) -> WorkerStats {
        self.shared.stats()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that has been reported.
            let _ = thread.join();
        }
    }
}

/// Whether this thread has real-time priority now.
pub(super) fn enter(config: WorkerConfig) -> bool {
    let Some(priority) = config.priority else { return false };
    let set = ThreadPriority::try_from(priority).map_err(str::to_owned).and_then(|level| {
        set_thread_priority_and_policy(thread_native_id(), level, FIFO)
            .map_err(|error| format!("{error:?}"))
    });
    if let Err(problem) = &set {
        tracing::warn!("boosts are carried out without real-time priority {priority}: {problem}");
    }
    set.is_ok()
}

fn run(events: &MapHandle, shared: &Shared, boost: Box<dyn Boost>) -> libbpf_rs::Result<()> {
    let raised = RefCell::new(Raised::new(boost, shared));
    let mut builder = RingBufferBuilder::new();
    builder.add(events, |bytes| {
        if let Some(decision) = decision(bytes) {
            raised.borrow_mut().raise(&decision);
        }
        0
    })?;
    let ring: RingBuffer<'_> = builder.build()?;
    while !shared.stop.load(Ordering::Relaxed) {
        let sleep = raised.borrow_mut().lower_until(monotonic_now());
        match ring.poll(sleep) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    raised.borrow_mut().lower_until(Instant::from_nanos(u64::MAX));
    Ok(())
}

/// What is raised, and until when.
pub(super) struct Raised<'a> {
    boost: Box<dyn Boost>,
    until: BTreeMap<Slot, Instant>,
    shared: &'a Shared,
}

impl<'a> Raised<'a> {
    pub(super) fn new(boost: Box<dyn Boost>, shared: &'a Shared) -> Self {
        Self { boost, until: BTreeMap::new(), shared }
    }

    pub(super) fn raise(&mut self, decision: &Decision) {
        self.shared.decisions.fetch_add(1, Ordering::Relaxed);
        let result = self.boost.raise(decision);
        self.judge(result);
        for &slot in &decision.raised {
            let until = self.until.entry(slot).or_insert(decision.until);
            *until = decision.until.max(*until);
        }
    }

    /// Lowers what is due; for how long nothing else is.
    pub(super) fn lower_until(&mut self, now: Instant) -> Duration {
        let due: Vec<Slot> =
            self.until.iter().filter(|(_, until)| **until <= now).map(|(slot, _)| *slot).collect();
        for slot in due {
            self.until.remove(&slot);
            self.shared.lowered.fetch_add(1, Ordering::Relaxed);
            let lowered = self.boost.lower(slot);
            self.judge(lowered);
        }
        let next = self.until.values().min();
        // The kernel's timer counts whole milliseconds here.
        let next = next.map(|&until| until.since(now) + Duration::from_millis(1));
        next.map_or(SLEEP_MAX, |next| next.min(SLEEP_MAX))
    }

    fn judge(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("a boost was not carried out: {error}");
        }
    }
}

/// What the program wrote; `None` if it is something else.
fn decision(bytes: &[u8]) -> Option<Decision> {
    if bytes.len() < size_of::<late>() {
        return None;
    }
    let number = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let raised = usize::from(short(offset_of!(late, raised))?).min(super::RAISED_MAX);
    let slots = (0..raised).map(|index| short(offset_of!(late, slots) + 2 * index));
    Some(Decision {
        at: Instant::from_nanos(number(offset_of!(late, at_ns))?),
        until: Instant::from_nanos(number(offset_of!(late, until_ns))?),
        late_by: Duration::from_nanos(number(offset_of!(late, late_by_ns))?),
        path: short(offset_of!(late, path))?,
        raised: slots.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Keeps what it was told.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<(Slot, bool)>>>);

    impl Boost for Told {
        fn raise(&mut self, decision: &Decision) -> io::Result<()> {
            self.0.lock().unwrap().extend(decision.raised.iter().map(|&slot| (slot, true)));
            Ok(())
        }

        fn lower(&mut self, slot: Slot) -> io::Result<()> {
            self.0.lock().unwrap().push((slot, false));
            Err(io::Error::other("it is gone"))
        }
    }

    fn of(raised: &[Slot], until: u64) -> Decision {
        let zero = Instant::from_nanos(0);
        let until = Instant::from_micros(until * 1_000);
        Decision { at: zero, until, late_by: Duration::ZERO, path: 0, raised: raised.to_vec() }
    }

    #[test]
    fn what_is_raised_is_lowered_at_its_end_and_once() {
        let (told, shared) = (Told::default(), Shared::default());
        let boost = Box::new(told.clone());
        let mut raised = Raised::new(boost, &shared);
        raised.raise(&of(&[1, 2], 10));
        raised.raise(&of(&[2], 20));
        let ms = Duration::from_millis;
        assert_eq!(raised.lower_until(Instant::from_micros(9 * 1_000)), ms(2));
        assert_eq!(raised.lower_until(Instant::from_micros(10 * 1_000)), ms(11));
        assert_eq!(raised.lower_until(Instant::from_micros(30 * 1_000)), SLEEP_MAX);
        let expected = [(1, true), (2, true), (2, true), (1, false), (2, false)];
        assert_eq!(*told.0.lock().unwrap(), expected);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!([&shared.decisions, &shared.lowered, &shared.failed].map(load), [2, 2, 2]);
    }

    #[test]
    fn records_are_read_and_scraps_are_not() {
        let mut bytes = vec![0; size_of::<late>()];
        bytes[0] = 7;
        bytes[offset_of!(late, late_by_ns)] = 9;
        bytes[offset_of!(late, path)] = 3;
        bytes[offset_of!(late, raised)] = 2;
        bytes[offset_of!(late, slots) + 2] = 5;
        let read = decision(&bytes).unwrap();
        let nanos = Duration::from_nanos;
        assert_eq!((read.at, read.late_by), (Instant::from_nanos(7), nanos(9)));
        assert_eq!((read.path, read.raised), (3, vec![0, 5]));
        assert_eq!(decision(&bytes[1..]), None);
        bytes[offset_of!(late, raised)] = 255;
        assert_eq!(decision(&bytes).unwrap().raised.len(), super::super::RAISED_MAX);
    }
}
