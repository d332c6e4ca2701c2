//! Refusals: they come where the wait is, and leave nothing behind.

use std::pin::{Pin, pin};
use std::task::{self, Poll, Waker};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request::Claims;
use tempfile::TempDir;

use super::*;
use crate::index::Layout;

const LINES: &str = include_str!("../../tests/data/lines.txt");

/// More than any test takes, so that only what tests charge counts.
const BUDGET: Duration = Duration::from_secs(3600);

fn engine(locks: LockKind) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<&str> = LINES.lines().collect();
    index::build(folder.path(), &lines, &Layout::new(2, 2).unwrap(), |_| {}).unwrap();
    let config = EngineConfig { locks, ..EngineConfig::default() };
    (Engine::open(folder.path(), &config).unwrap(), folder)
}

fn request() -> Context {
    Context::new(Claims { budget: Some(BUDGET), ..Claims::default() }, Instant::ORIGIN)
}

/// A request that can wait for nothing any more.
fn spent() -> Context {
    let ctx = request();
    ctx.charge(BUDGET);
    ctx
}

fn query(words: &str) -> Query {
    Query::new(words, 10).unwrap()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut task::Context::from_waker(Waker::noop()))
}

fn found(engine: &Engine, words: &str) -> Found {
    let (ctx, query) = (request(), query(words));
    match poll(pin!(engine.search(&ctx, &query))) {
        Poll::Ready(found) => found.unwrap(),
        Poll::Pending => panic!("all locks are free"),
    }
}

/// Holds a lock and has somebody wait for it, so that it has a queueing delay, while `test` runs.
fn while_contended<T>(mutex: &Mutex<T>, test: impl FnOnce()) {
    let holder = mutex.try_lock().unwrap();
    let mut waiter = pin!(mutex.lock_plain());
    assert!(poll(waiter.as_mut()).is_pending());
    while mutex.snapshot().oldest.is_zero() {
        std::thread::yield_now();
    }
    test();
    drop(holder);
}

#[track_caller]
fn expect_refused(engine: &Engine, words: &str, stage: Stage) {
    match poll(pin!(engine.search(&spent(), &query(words)))) {
        Poll::Ready(Err(SearchError::Rejected(rejected))) => assert_eq!(rejected.stage, stage),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_at_a_term_leaves_its_statistics_to_the_next() {
    let (engine, _folder) = engine(LockKind::Larger);
    let term = engine.terms.entry("boats");
    while_contended(&term.statistics, || expect_refused(&engine, "boats", TERM));
    assert!(term.statistics.try_lock().unwrap().is_none());
    assert_eq!(engine.caches(), [Caches::default(); 2]);
    assert_eq!(found(&engine, "boats").total, 8);
    assert!(term.statistics.try_lock().unwrap().is_some());
}

#[test]
fn a_refusal_at_a_segment_leaves_what_is_true() {
    for refused_at in [0, 1] {
        for words in ["boats", "boats wall keeper"] {
            let (engine, _folder) = engine(LockKind::Larger);
            let (fresh, _other) = self::engine(LockKind::Larger);
            let segment = engine.segments[refused_at].reader();
            while_contended(segment, || expect_refused(&engine, words, SEGMENT));
            assert_eq!(segment.snapshot().refusals, 1);
            assert_eq!(engine.caches()[refused_at], Caches::default());
            for words in [words, "wall keeper", "boats", "lock tea"] {
                assert_eq!(found(&engine, words), found(&fresh, words), "{words}");
            }
        }
    }
}

#[test]
fn a_refusal_before_the_texts_gives_no_partial_result() {
    let (engine, _folder) = engine(LockKind::Larger);
    let (ctx, query) = (request(), query("boats wall"));
    let mut search = pin!(engine.search(&ctx, &query));
    let second = engine.segments[1].reader().try_lock().unwrap();
    assert!(poll(search.as_mut()).is_pending());
    while_contended(engine.segments[0].reader(), || {
        drop(second);
        ctx.charge(BUDGET);
        let refused = poll(search.as_mut());
        assert!(matches!(refused, Poll::Ready(Err(SearchError::Rejected(_)))), "{refused:?}");
    });
    assert!(engine.caches().iter().all(|caches| caches.texts_misses == 0));
    assert!(!found(&engine, "boats wall").hits.is_empty());
}

#[test]
fn plain_locks_let_everybody_wait() {
    let (engine, _folder) = engine(LockKind::Plain);
    let (ctx, query) = (spent(), query("boats"));
    let mut search = pin!(engine.search(&ctx, &query));
    while_contended(engine.segments[0].reader(), || assert!(poll(search.as_mut()).is_pending()));
    let Poll::Ready(Ok(late)) = poll(search.as_mut()) else { panic!("the lock is free") };
    assert_eq!(late, found(&engine, "boats"));
}

#[test]
fn who_gives_up_waiting_leaves_nothing() {
    let (engine, _folder) = engine(LockKind::Larger);
    let (ctx, query) = (request(), query("boats"));
    let holder = engine.segments[0].reader().try_lock().unwrap();
    {
        let mut search = pin!(engine.search(&ctx, &query));
        assert!(poll(search.as_mut()).is_pending());
    }
    drop(holder);
    assert_eq!(engine.segments[0].reader().snapshot().waiters, 0);
    assert_eq!(found(&engine, "boats").total, 8);
}

#[test]
fn segments_without_the_words_are_not_visited() {
    let (engine, _folder) = engine(LockKind::Larger);
    let elsewhere = engine.segments[0].reader().try_lock().unwrap();
    // Only the last lines say this, and they are in the second segment.
    assert_eq!(found(&engine, "second").total, 1);
    drop(elsewhere);
    assert_eq!(engine.caches()[0], Caches::default());
}
