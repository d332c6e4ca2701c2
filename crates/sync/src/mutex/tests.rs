use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use seawall_control::request::RefusalReason;

use super::*;
use crate::clock::manual::advance;
use crate::contention::{self, Name};
use crate::testing::{Polled, now, request, undroppable, us};

const STAGE: Stage = Stage(16);

fn mutex(estimate: Estimate) -> Mutex<u32> {
    Mutex::new(0).at(STAGE, "test").predicted_by(estimate)
}

#[test]
fn what_is_free_is_given_to_anybody_and_measured_by_nobody() {
    let mutex = mutex(Estimate::Larger);
    *now(mutex.lock(&request(0))).unwrap() += 1;
    *mutex.blocking_lock(&request(0)).unwrap() += 1;
    *now(mutex.lock_plain()) += 1;
    let guard = mutex.try_lock().unwrap();
    assert!(mutex.try_lock().is_none());
    assert_eq!(format!("{guard} {guard:?} {mutex:?}"), "3 3 Mutex { value: <locked> }");
    drop(guard);
    let seen = mutex.snapshot();
    assert_eq!((seen.acquisitions, seen.waits, seen.hold), (4, 0, us(0)));
    assert_eq!(mutex.into_inner(), 3);
}

#[test]
fn the_oldest_waiter_tells_how_long_the_wait_is() {
    let mutex = mutex(Estimate::OldestWaiter);
    let _holder = mutex.try_lock().unwrap();
    let _first = Polled::waiting(mutex.lock_plain());
    advance(us(150));
    let refused = now(mutex.lock(&request(100))).unwrap_err();
    let expected = Rejected::new(STAGE, us(150), us(100)).with_reason(RefusalReason::Budget);
    assert_eq!(refused, expected);
    let ctx = request(200);
    let _second = Polled::waiting(mutex.lock(&ctx));
    let seen = mutex.snapshot();
    assert_eq!((seen.waiters, seen.oldest, seen.refusals), (2, us(150), 1));
}

#[test]
fn who_only_tries_is_counted_where_it_is_refused() {
    let mutex = mutex(Estimate::Larger);
    teach(&mutex, us(10));
    let holder = mutex.try_lock().unwrap();
    let refused = mutex.blocking_lock_by(LockKind::Try, &request(100)).unwrap_err();
    assert_eq!(refused, Rejected::new(STAGE, us(10), us(100)));
    assert_eq!(mutex.snapshot().refusals, 1);
    drop(holder);
    assert!(mutex.blocking_lock_by(LockKind::Try, &request(0)).is_ok());
}

#[test]
fn who_cannot_turn_back_is_charged_and_not_refused() {
    let (mutex, ctx) = (mutex(Estimate::Larger), request(10));
    let holder = mutex.try_lock().unwrap();
    let mut waiting = Polled::waiting(mutex.lock_committed(&ctx));
    advance(us(300));
    drop(holder);
    assert!(waiting.poll().is_some());
    assert_eq!(ctx.charged(), us(300));
}

#[test]
fn waits_at_all_locks_of_one_name_are_counted_together_and_outlive_them() {
    for hold in [us(30), us(700)] {
        let mutex = Mutex::new(0).at(STAGE, "accounts");
        let holder = mutex.try_lock().unwrap();
        let mut waiter = Polled::waiting(mutex.lock_plain());
        advance(hold);
        drop(holder);
        assert!(waiter.poll().is_some());
    }
    let times = contention::wait_times();
    let (_, times) = times.iter().find(|(name, _)| *name == Name::Given("accounts")).unwrap();
    assert_eq!((times.count(), times.sum()), (2, us(730)));
    assert_eq!(times.means().map(|(mean, _)| mean).collect::<Vec<_>>(), [us(30), us(700)]);
}

#[test]
fn a_burst_is_refused_by_the_work_ahead() {
    let mutex = mutex(Estimate::QueuedWork);
    teach(&mutex, us(10));
    let _holder = mutex.try_lock().unwrap();
    let contexts: Vec<_> = (0..9).map(|_| request(45)).collect();
    let mut burst: Vec<_> = contexts.iter().map(|ctx| Polled::new(mutex.lock(ctx))).collect();
    let refused = burst.iter_mut().filter_map(Polled::poll).map(Result::unwrap_err);
    // The turns of the holder and of three waiters take 40 µs; one more is too much.
    assert_eq!(refused.map(|it| it.predicted_delay).collect::<Vec<_>>(), [us(50); 5]);
    assert_eq!(mutex.snapshot().waiters, 4);
}

#[test]
fn a_holder_that_does_not_leave_is_noticed() {
    let mutex = mutex(Estimate::QueuedWork);
    teach(&mutex, us(10));
    let _holder = mutex.try_lock().unwrap();
    let _first = Polled::waiting(mutex.lock_plain());
    advance(us(500));
    let refused = now(mutex.lock(&request(100))).unwrap_err();
    assert_eq!(refused.predicted_delay, us(510)); // two turns, one of which took 500 already
}

/// Lets the mutex see that it is held for that long.
fn teach(mutex: &Mutex<u32>, hold: Duration) {
    let holder = mutex.try_lock().unwrap();
    let mut waiter = Polled::waiting(mutex.lock_plain());
    drop(holder);
    let holder = waiter.poll().unwrap();
    advance(hold);
    drop(holder);
    assert_eq!(mutex.snapshot().hold, hold.max(Duration::from_nanos(1)));
}

#[test]
fn long_holds_are_not_overtaken_and_short_ones_are() {
    for (hold, is_overtaken) in [(us(999), true), (us(1_000), false)] {
        let mutex = mutex(Estimate::Larger);
        teach(&mutex, hold);
        let holder = mutex.try_lock().unwrap();
        let mut waiter = Polled::waiting(mutex.lock_plain());
        drop(holder); // the waiter is told, and has not woken yet
        assert_eq!(mutex.try_lock().is_some(), is_overtaken, "{hold:?}");
        assert!(waiter.poll().is_some());
    }
}

#[test]
fn a_wait_is_charged_until_the_lock_is_free_and_no_longer() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let ctx = request(1_000);
    let mut waiter = Polled::waiting(mutex.lock(&ctx));
    advance(us(30));
    drop(holder);
    advance(us(20)); // in a run queue, which has its own account
    let guard = waiter.poll().unwrap().unwrap();
    assert_eq!((ctx.charged(), waiter.wakes()), (us(30), 1));
    let seen = mutex.snapshot();
    assert_eq!((seen.waits, seen.waited), (1, us(50)));
    drop(guard);
}

#[test]
fn first_come_first_served_but_requests_that_may_not_be_dropped_first() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let privileged = undroppable();
    let mut a = Polled::waiting(mutex.lock_plain());
    let mut b = Polled::waiting(mutex.lock_plain());
    let mut c = Polled::waiting(mutex.lock(&privileged));
    drop(holder);
    assert_eq!([a.wakes(), b.wakes(), c.wakes()], [0, 0, 1]);
    drop(c.poll().unwrap().unwrap());
    assert_eq!([a.wakes(), b.wakes()], [1, 0]);
    assert!(b.poll().is_none());
    drop(a.poll().unwrap());
    assert_eq!(b.wakes(), 1);
    drop(b.poll().unwrap());
}

#[test]
fn requests_that_may_not_be_dropped_do_not_starve_others() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let (privileged, ctx) = (undroppable(), request(1_000));
    let mut ordinary = Polled::waiting(mutex.lock(&ctx));
    let mut stream: Vec<_> = (0..40).map(|_| Polled::waiting(mutex.lock(&privileged))).collect();
    advance(us(10));
    drop(holder);
    let mut ahead = 0;
    while ordinary.wakes() == 0 {
        let next = stream.remove(0);
        assert_eq!(next.wakes(), 1);
        drop(next.ready().unwrap());
        ahead += 1;
    }
    drop(ordinary.poll().unwrap().unwrap());
    assert_eq!((ahead, stream[0].wakes()), (16, 1)); // and then it is theirs again
    stream.into_iter().for_each(|next| drop(next.ready().unwrap()));

    // A prediction is told from the wait of those that are told it.
    let seen = mutex.snapshot();
    assert_eq!((seen.waits, seen.waited), (41, us(410)));
    assert_eq!(seen.prediction_error, Some(1.0)); // nothing was known when the first came
}

#[test]
fn one_who_was_woken_is_passed_over_once() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let ctx = request(1_000);
    let mut waiter = Polled::waiting(mutex.lock(&ctx));
    advance(us(10));
    drop(holder);
    let quicker = mutex.try_lock().expect("the waiter is not here yet");
    advance(us(5));
    assert!(waiter.poll().is_none());
    advance(us(7));
    drop(quicker);
    assert!(mutex.try_lock().is_none(), "now it is the waiter's");
    assert_eq!(waiter.wakes(), 2);
    drop(waiter.poll().unwrap().unwrap());
    assert_eq!(ctx.charged(), us(17)); // without the five that its runtime took
    assert!(mutex.try_lock().is_some());
}

#[test]
fn one_who_was_woken_and_does_not_come_is_passed_over_for_a_while() {
    for (hold, passed_over) in [(us(10), 1..=1), (us(0), 1..=16)] {
        let mutex = mutex(Estimate::Larger);
        teach(&mutex, hold);
        let holder = mutex.try_lock().unwrap();
        let waiter = Polled::waiting(mutex.lock_plain());
        drop(holder);
        advance(us(99));
        drop(mutex.try_lock().unwrap());
        advance(us(1));
        let quicker = std::iter::from_fn(|| mutex.try_lock().map(drop)).count();
        assert!(passed_over.contains(&quicker), "{quicker} were quicker");
        assert_eq!(waiter.wakes(), 1);
        drop(waiter.ready());
    }
}

#[test]
fn one_who_gives_up_leaves_nothing_behind() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let ctx = request(1_000);
    let waiting = Polled::waiting(mutex.lock(&ctx));
    let never_polled = Polled::new(mutex.lock(&ctx));
    let offered = Polled::waiting(mutex.lock_plain());
    let mut last = Polled::waiting(mutex.lock_plain());
    advance(us(9));
    drop((never_polled, waiting));
    assert_eq!((ctx.charged(), mutex.snapshot().waiters), (us(9), 2));
    drop(holder);
    assert_eq!((offered.wakes(), last.wakes()), (1, 0));
    drop(offered);
    assert_eq!(last.wakes(), 1);
    drop(last.poll().unwrap());
    let seen = mutex.snapshot();
    assert_eq!((seen.waiters, seen.given_up, seen.waits), (0, 2, 1));
    assert!(mutex.try_lock().is_some());
}

#[test]
fn one_who_gives_up_what_was_kept_for_it_passes_it_on() {
    let mutex = mutex(Estimate::Larger);
    let holder = mutex.try_lock().unwrap();
    let mut passed_over = Polled::waiting(mutex.lock_plain());
    let mut next = Polled::waiting(mutex.lock_plain());
    drop(holder);
    let quicker = mutex.try_lock().unwrap();
    assert!(passed_over.poll().is_none());
    drop(quicker);
    drop(passed_over);
    assert_eq!(next.wakes(), 1);
    drop(next.poll().unwrap());
}

#[test]
fn a_panic_releases_it() {
    let mutex = mutex(Estimate::Larger);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = mutex.try_lock();
        panic!("on purpose");
    }));
    assert!(panicked.is_err() && mutex.try_lock().is_some());
}

#[test]
fn owned_guards_and_unsized_values() {
    let mutex: Arc<Mutex<[u32]>> = Arc::new(Mutex::new([1, 2, 3]));
    let guard = now(mutex.clone().lock_owned(&request(1))).unwrap();
    assert!(mutex.clone().try_lock_owned().is_none());
    assert_eq!((guard.len(), Arc::strong_count(OwnedMutexGuard::mutex(&guard))), (3, 2));
    drop(guard);
    now(mutex.clone().lock_owned_plain())[0] = 7;
    assert_eq!(mutex.try_lock().unwrap()[0], 7);
}

#[test]
fn guards_are_as_free_as_what_they_protect() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Mutex<std::cell::Cell<u32>>>();
    is_send_and_sync::<MutexGuard<'_, u32>>();
    is_send_and_sync::<OwnedMutexGuard<u32>>();
    fn is_send<T: Send>(_: &T) {}
    let (mutex, ctx) = (mutex(Estimate::Larger), request(1));
    is_send(&mutex.lock(&ctx));
}
