//! The books of a run: what was issued, and how it ended.

use std::sync::Arc;

use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller;
use seawall_measure::{DropReason, Outcome, Recorder, Series};
use seawall_rpc::{CallError, CallResult, clock};
use slab::Slab;

/// Shared between the generator and the replies; both are on one thread, so the lock is never
/// waited for.
#[derive(Clone)]
pub(super) struct Books(Arc<Mutex<Inner>>);

struct Inner {
    recorder: Recorder,
    series: Series,
    /// Class and scheduled time of what was issued and has not ended.
    open: Slab<(usize, Instant)>,
}

impl Books {
    pub(super) fn new(recorder: Recorder, series: Series) -> Self {
        Self(Arc::new(Mutex::new(Inner { recorder, series, open: Slab::new() })))
    }

    /// The schedule asked for a request at `scheduled`.
    pub(super) fn scheduled(&self, scheduled: Instant) {
        self.0.lock().recorder.record_scheduled(scheduled);
    }

    /// A request is handed to its session at `now`; gives what its session is to call when it ends.
    pub(super) fn issue(
        &self,
        class: usize,
        scheduled: Instant,
        now: Instant,
    ) -> Box<dyn FnOnce(CallResult) + Send> {
        let mut books = self.0.lock();
        books.recorder.record_lateness(scheduled, now);
        let key = books.open.insert((class, scheduled));
        drop(books);
        let books = self.clone();
        Box::new(move |result| books.end(key, outcome(&result)))
    }

    /// Requests that were issued and have not ended.
    pub(super) fn open(&self) -> usize {
        self.0.lock().open.len()
    }

    /// Closes the books: what has not ended was not answered.
    pub(super) fn close(self) -> (Recorder, Series) {
        let mut books = self.0.lock();
        let now = clock::now();
        let books = &mut *books;
        for (class, scheduled) in books.open.drain() {
            books.recorder.record(class, scheduled, now, Outcome::Unanswered);
        }
        (books.recorder.clone(), books.series.clone())
    }

    fn end(&self, key: usize, outcome: Outcome) {
        let mut books = self.0.lock();
        let now = clock::now();
        // After the books were closed nothing is open, and late replies are of no interest.
        if let Some((class, scheduled)) = books.open.try_remove(key) {
            books.recorder.record(class, scheduled, now, outcome);
            books.series.record(scheduled, now, outcome);
        }
    }
}

fn outcome(result: &CallResult) -> Outcome {
    let dropped = |reason| match reason {
        controller::DropReason::Expired => DropReason::Expired,
        controller::DropReason::QueueFull => DropReason::QueueFull,
        _ => DropReason::Policy,
    };
    match result {
        Ok(_) => Outcome::Success,
        Err(CallError::Rejected(_)) => Outcome::Rejected,
        Err(CallError::NotSent(reason)) => Outcome::DroppedAtClient(dropped(*reason)),
        Err(CallError::DeadlineExceeded) => Outcome::DroppedAtClient(DropReason::Expired),
        Err(CallError::Cancelled) => Outcome::Cancelled,
        Err(_) => Outcome::Failed,
    }
}
