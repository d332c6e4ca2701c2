//! The books of a run: what was issued, and how it ended.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller;
use seawall_measure::{DropReason, Outcome, Recorder, Series, Violation};
use seawall_rpc::{CallError, CallResult, Unsent, clock};
use slab::Slab;

use super::web;
use super::workload::{Lookups, Workload};

/// Shared between the generator and the replies; both are on one thread, so the lock is never
/// waited for.
#[derive(Clone)]
pub(super) struct Books(Arc<Mutex<Inner>>);

struct Inner {
    workload: Workload,
    recorder: Recorder,
    series: Series,
    violation: Option<Violation>,
    lookups: Lookups,
    /// Class and scheduled time of what was issued and has not ended.
    open: Slab<(usize, Instant)>,
    first_failure: Option<String>,
}

/// What is in the books once they are closed.
pub(super) struct Closed {
    pub(super) recorder: Recorder,
    pub(super) series: Series,
    pub(super) violation: Option<Violation>,
    /// When they were closed.
    pub(super) at: Instant,
    pub(super) lookups: Lookups,
    /// What the first request that failed after the warm-up was told.
    pub(super) first_failure: Option<String>,
}

impl Books {
    pub(super) fn new(
        workload: Workload,
        recorder: Recorder,
        series: Series,
        violation: Option<Violation>,
    ) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            workload,
            recorder,
            series,
            violation,
            lookups: Lookups::default(),
            open: Slab::new(),
            first_failure: None,
        })))
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
    ) -> impl FnOnce(CallResult) + Send + 'static {
        let key = self.enter(class, scheduled, now);
        let books = self.clone();
        move |result| {
            let failure = result.as_ref().err().filter(|error| is_failure(error));
            let failure = failure.map(ToString::to_string);
            books.end(key, outcome(&result), failure, result.ok().as_ref().map(|it| &it.payload));
        }
    }

    /// The same of a request that HTTP carries.
    pub(super) fn issue_web(
        &self,
        class: usize,
        scheduled: Instant,
        now: Instant,
    ) -> impl FnOnce(web::Answer) + Send + 'static {
        let key = self.enter(class, scheduled, now);
        let books = self.clone();
        move |answer| books.end(key, answer.outcome(), answer.failure(), None)
    }

    /// Requests that were issued and have not ended.
    pub(super) fn open(&self) -> usize {
        self.0.lock().open.len()
    }

    /// Closes the books: what has not ended was not answered.
    pub(super) fn close(self) -> Closed {
        let mut books = self.0.lock();
        let now = clock::now();
        let Inner { recorder, series, violation, lookups, open, first_failure, .. } = &mut *books;
        for (class, scheduled) in open.drain() {
            recorder.record(class, scheduled, now, Outcome::Unanswered);
            series.record(scheduled, now, Outcome::Unanswered);
            violation.iter_mut().for_each(|violation| violation.record_unanswered(scheduled));
        }
        Closed {
            recorder: recorder.clone(),
            series: series.clone(),
            violation: violation.clone(),
            at: now,
            lookups: *lookups,
            first_failure: first_failure.take(),
        }
    }

    fn enter(&self, class: usize, scheduled: Instant, now: Instant) -> usize {
        let mut books = self.0.lock();
        books.recorder.record_lateness(scheduled, now);
        books.open.insert((class, scheduled))
    }

    fn end(&self, key: usize, outcome: Outcome, failure: Option<String>, payload: Option<&Bytes>) {
        let books = &mut *self.0.lock();
        let now = clock::now();
        // After the books were closed nothing is open, and late replies are of no interest.
        let Some((class, scheduled)) = books.open.try_remove(key) else { return };
        books.recorder.record(class, scheduled, now, outcome);
        books.series.record(scheduled, now, outcome);
        match (&mut books.violation, outcome) {
            (None, _) => {}
            (Some(violation), Outcome::Success) => violation.record(scheduled, now),
            (Some(violation), _) => violation.record_refused(scheduled),
        }
        if !books.recorder.config().window.contains(scheduled) {
            return;
        }
        if let Some(payload) = payload {
            books.lookups.answered(&books.workload, class, payload);
        }
        if let Some(failure) = failure {
            books.first_failure.get_or_insert(failure);
        }
    }
}

/// True for an end that no overload brings about.
fn is_failure(error: &CallError) -> bool {
    use CallError::{Cancelled, DeadlineExceeded, NotSent, Rejected};
    !matches!(error, Rejected(_) | NotSent(Unsent::Dropped(_)) | Cancelled | DeadlineExceeded)
}

fn outcome(result: &CallResult) -> Outcome {
    match result {
        Ok(_) => Outcome::Success,
        Err(CallError::Rejected(_)) => Outcome::Rejected,
        Err(CallError::NotSent(unsent)) => Outcome::DroppedAtClient(reason(unsent)),
        Err(CallError::Cancelled | CallError::DeadlineExceeded) => Outcome::Cancelled,
        Err(_) => Outcome::Failed,
    }
}

fn reason(unsent: &Unsent) -> DropReason {
    match unsent {
        Unsent::Dropped(controller::DropReason::Expired) => DropReason::Expired,
        Unsent::Dropped(controller::DropReason::QueueFull) => DropReason::QueueFull,
        Unsent::Disconnected(_) => DropReason::Disconnected,
        _ => DropReason::Policy,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seawall_control::request::{Rejected, Stage};
    use seawall_measure::{KeyValueMix, RecorderConfig, SeriesConfig, ViolationConfig, Window};

    use super::*;

    /// Books of a run whose warm-up ends now and which lasts half an hour.
    fn books() -> (Books, Instant) {
        let (start, slo) = (clock::now(), Duration::from_secs(1));
        let window = Window::after_warm_up(start, Duration::ZERO, Duration::from_secs(1_800));
        let config = RecorderConfig::new(slo, window).with_classes(["get", "set"]);
        let mut series = SeriesConfig::new(start, window.end, slo);
        series.bin = Duration::from_secs(1_800);
        let workload = Workload::Kv(KeyValueMix::usr());
        let (recorder, series) = (Recorder::new(config).unwrap(), Series::new(series).unwrap());
        let violation = Violation::new(ViolationConfig::new(slo, window)).unwrap();
        (Books::new(workload, recorder, series, Some(violation)), start)
    }

    fn refused() -> CallResult {
        Err(Rejected::new(Stage::RUN_QUEUE, Duration::ZERO, Duration::ZERO).into())
    }

    fn failed(code: u16) -> CallResult {
        Err(CallError::Failed { code, message: "no such method".into() })
    }

    #[test]
    fn every_request_ends_exactly_once() {
        let results: [fn() -> CallResult; 5] = [
            refused,
            || failed(2),
            || Err(CallError::Cancelled),
            || Err(Unsent::Disconnected("the server died".into()).into()),
            || Err(Unsent::Dropped(controller::DropReason::QueueFull).into()),
        ];
        let (books, start) = books();
        let mut open = Vec::new();
        for n in 0..60 {
            books.scheduled(start);
            let done = books.issue(n % 2, start, start);
            match results.get(n % 6) {
                // Places in the books are used again and again.
                Some(result) => done(result()),
                None => open.push(done),
            }
        }
        assert_eq!(books.open(), 10);
        let closed = books.clone().close();
        assert_eq!(books.open(), 0);
        let total = closed.recorder.summary().total;
        assert_eq!(total.offered_count, 60);
        assert_eq!((total.failed, total.cancelled, total.unanswered), (10, 10, 10));
        let dropped: u64 = total.client_drops.values().sum();
        assert_eq!(dropped, 20);
        assert!((total.server_drop_rate - 10.0 / 40.0).abs() < 1e-9);
        let offered: f64 = closed.series.bins().map(|bin| bin.offered * 1_800.0).sum();
        assert!((offered - 60.0).abs() < 1e-6, "the series counts each one, too: {offered}");
        let volume = closed.violation.unwrap().volume(closed.at);
        assert_eq!((volume.requests, volume.unanswered, volume.refused), (10, 10, 50));

        // What comes late changes nothing.
        open.into_iter().for_each(|done| done(refused()));
        let total = books.close().recorder.summary().total;
        assert_eq!((total.offered_count, total.unanswered), (60, 10));
    }

    #[test]
    fn the_first_failure_is_kept_in_words() {
        let (books, start) = books();
        books.issue(0, start, start)(refused());
        let during_the_warm_up = start - Duration::from_millis(1);
        books.issue(0, during_the_warm_up, start)(failed(9));
        books.issue(0, start, start)(Err(Unsent::Dropped(controller::DropReason::Expired).into()));
        books.issue(0, start, start)(failed(2));
        books.issue(0, start, start)(failed(7));
        assert_eq!(books.close().first_failure.as_deref(), Some("error 2: no such method"));
    }
}
