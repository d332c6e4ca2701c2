//! What the agent knows, and says.

use std::time::Duration;

use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::Publisher;
use seawall_control::Instant;
use seawall_control::predict::pause::{Collection, Fit, Kind, Pauses, Spaces};

use super::halters;
use super::heap::Heap;
use super::perf::Perf;
use super::record::Row;

/// Everything that changes, behind one lock.
#[derive(Debug)]
pub(super) struct State {
    pauses: Pauses,
    heap: Option<Heap>,
    perf: Option<Perf>,
    workers: u16,
    page: Option<Publisher>,
    /// The pause that is.
    current: Option<Pause>,
    /// Pauses that are over, and were not told yet, if somebody wants to be told.
    over: Vec<Row>,
    is_recorded: bool,
    count: u64,
    paused: Duration,
    longest: Duration,
}

/// What is known of pauses, all in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Account {
    pauses: u64,
    paused: Duration,
    longest: Duration,
    /// Of RANSAC and of OLS: how many were predicted, and which part within 4 ms, as the paper has
    /// it (LIBROS §VIII-B2).
    precision: [(u64, f64); Fit::ALL.len()],
}

/// What counts as precise.
const PRECISE: Duration = Duration::from_millis(4);

#[derive(Clone, Copy, Debug)]
struct Pause {
    since_ns: u64,
    before: Spaces,
}

/// So many pauses are kept until they are told.
const OVER_MAX: usize = 64;

/// What a state is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) pauses: Pauses,
    pub(super) heap: Option<Heap>,
    pub(super) perf: Option<Perf>,
    pub(super) workers: u16,
    pub(super) page: Option<Publisher>,
    /// Whether pauses that are over shall be told.
    pub(super) is_recorded: bool,
}

/// What the agent's thread has to do now.
#[derive(Debug)]
pub(super) enum Task {
    /// The world stands still: those who cannot wait are to be told.
    Refuse,
    /// It goes on: pauses that are over, if they are to be written down.
    Record(Vec<Row>),
}

impl State {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { pauses, heap, perf, workers, page, is_recorded } = parts;
        Self {
            pauses,
            heap,
            perf,
            workers,
            page,
            current: None,
            over: Vec::with_capacity(OVER_MAX), // nothing is allocated in a pause
            is_recorded,
            count: 0,
            paused: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    /// The world stands still. Called by the virtual machine's own thread.
    ///
    /// # Safety
    ///
    /// As of [`Heap::spaces`].
    pub(super) unsafe fn on_start(&mut self) {
        let since_ns = monotonic_ns();
        // SAFETY: the caller's promise.
        let before = unsafe { self.spaces() };
        let now = Instant::from_nanos(since_ns);
        // Nearly all are of this kind; most others show once the collector has begun.
        let kind = self.perf.as_ref().and_then(Perf::kind).unwrap_or(Kind::Young);
        let collection = Collection { kind, before, workers: self.workers };
        self.pauses.on_start(now, &collection);
        self.current = Some(Pause { since_ns, before });
        self.say();
    }

    /// It goes on. Called by the virtual machine's own thread.
    ///
    /// # Safety
    ///
    /// As of [`Heap::spaces`].
    pub(super) unsafe fn on_finish(&mut self) {
        halters::resume();
        let Some(Pause { since_ns, before }) = self.current.take() else { return };
        let now_ns = monotonic_ns();
        // SAFETY: the caller's promise.
        let after = unsafe { self.spaces() };
        let kind = self.perf.as_ref().and_then(Perf::kind).unwrap_or(Kind::Young);
        if let Some(perf) = &mut self.perf {
            perf.on_finish();
        }
        let predicted = Fit::ALL.map(|fit| self.pauses.predicted(fit));
        let load = self.pauses.load().unwrap_or_default();
        let now = Instant::from_nanos(now_ns);
        let real = self.pauses.on_finish(now, kind, &after).unwrap_or_default();
        self.count += 1;
        self.paused += real;
        self.longest = self.longest.max(real);
        if let Some(page) = &self.page {
            page.resume(now_ns - since_ns);
        }
        let row =
            Row { since_ns, kind, before, after, workers: self.workers, load, predicted, real };
        if self.is_recorded && self.over.len() < OVER_MAX {
            self.over.push(row);
        }
    }

    /// What the thread does that no pause stops: says how long it still lasts, or learns from those
    /// that are over. What may take long is left to the thread, without this lock, for which the
    /// virtual machine's own waits.
    pub(super) fn look(&mut self) -> Task {
        if self.current.is_some() {
            if let Some(kind) = self.perf.as_ref().and_then(Perf::kind) {
                self.pauses.on_kind(kind);
            }
            self.say();
            return Task::Refuse;
        }
        self.pauses.learn();
        if let Some(page) = &self.page {
            page.beat(monotonic_ns());
        }
        if self.over.is_empty() {
            return Task::Record(Vec::new());
        }
        Task::Record(std::mem::replace(&mut self.over, Vec::with_capacity(OVER_MAX)))
    }

    /// Takes the page away.
    pub(super) fn end(&mut self) {
        self.page = None;
    }

    /// How many pauses there were, how long, and how well they were predicted.
    pub(super) fn account(&self) -> Account {
        let precision = Fit::ALL.map(|fit| {
            let precision = self.pauses.precision(fit);
            (precision.count(), precision.within(PRECISE).unwrap_or_default())
        });
        let Self { count: pauses, paused, longest, .. } = *self;
        Account { pauses, paused, longest, precision }
    }

    fn say(&self) {
        let Some(pause) = &self.current else { return };
        let now = Instant::from_nanos(monotonic_ns());
        let until = now + self.pauses.rest(now).unwrap_or_default();
        halters::halt(until);
        if let Some(page) = &self.page {
            page.beat(now.as_nanos());
            page.pause(pause.since_ns, until.as_nanos());
        }
    }

    /// # Safety
    ///
    /// As of [`Heap::spaces`].
    unsafe fn spaces(&self) -> Spaces {
        // SAFETY: the caller's promise.
        self.heap.as_ref().map(|heap| unsafe { heap.spaces() }).unwrap_or_default()
    }
}

impl Account {
    /// As Java has it: pauses, nanoseconds of all and of the longest; then of each fit how many
    /// were predicted, and millionths of them within 4 ms.
    pub(crate) fn to_longs(self) -> [i64; 7] {
        let long = |value: u128| i64::try_from(value).unwrap_or(i64::MAX);
        let millionths = |share: f64| (share * 1e6).round() as i64;
        let [(ransac, ransac_within), (ols, ols_within)] = self.precision;
        [
            long(self.pauses.into()),
            long(self.paused.as_nanos()),
            long(self.longest.as_nanos()),
            long(ransac.into()),
            millionths(ransac_within),
            long(ols.into()),
            millionths(ols_within),
        ]
    }
}
