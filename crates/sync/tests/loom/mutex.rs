use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_sync::Mutex;

use crate::{Watched, ask_and_give_up, model};

#[test]
fn async_and_blocking_exclude_each_other() {
    model(|| {
        let mutex = Arc::new(Mutex::new(Watched::default()));
        let other = mutex.clone();
        let asking = thread::spawn(move || block_on(other.lock_plain()).increment());
        mutex.blocking_lock_plain().increment();
        asking.join().unwrap();
        assert_eq!(mutex.try_lock().expect("nobody holds it").get(), 2);
    });
}

#[test]
fn of_three_each_gets_its_turn() {
    model(|| {
        let mutex = Arc::new(Mutex::new(Watched::default()));
        let others = [(); 2].map(|()| {
            let mutex = mutex.clone();
            thread::spawn(move || block_on(mutex.lock_plain()).increment())
        });
        block_on(mutex.lock_plain()).increment();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(mutex.try_lock().expect("nobody holds it").get(), 3);
    });
}

#[test]
fn one_who_gives_up_meets_one_who_releases() {
    model(|| {
        let mutex = Arc::new(Mutex::new(Watched::default()));
        let holder = mutex.try_lock().expect("it is new");
        let [fickle, steady] = [mutex.clone(), mutex.clone()];
        let giving_up = thread::spawn(move || {
            if let Some(guard) = ask_and_give_up(fickle.lock_plain()) {
                guard.increment();
            }
        });
        let waiting = thread::spawn(move || block_on(steady.lock_plain()).increment());
        drop(holder);
        giving_up.join().unwrap();
        waiting.join().unwrap();
        assert!(mutex.try_lock().expect("nobody holds it").get() >= 1);
    });
}

#[test]
fn one_who_is_quicker_leaves_it_to_one_who_was_woken() {
    model(|| {
        let mutex = Arc::new(Mutex::new(Watched::default()));
        let holder = mutex.try_lock().expect("it is new");
        let steady = mutex.clone();
        let waiting = thread::spawn(move || block_on(steady.lock_plain()).increment());
        drop(holder);
        for _ in 0..2 {
            if let Some(guard) = mutex.try_lock() {
                guard.increment();
            }
        }
        waiting.join().unwrap();
        assert!(mutex.try_lock().expect("nobody holds it").get() >= 1);
    });
}

#[test]
fn one_who_comes_to_stand_ahead_of_one_who_gives_up() {
    model(|| {
        let mutex = Arc::new(Mutex::new(Watched::default()));
        let holder = mutex.try_lock().expect("it is new");
        let [fickle, privileged] = [mutex.clone(), mutex.clone()];
        let giving_up = thread::spawn(move || {
            if let Some(guard) = ask_and_give_up(fickle.lock_plain()) {
                guard.increment();
            }
        });
        let waiting = thread::spawn(move || {
            let claims = Claims { droppable: false, ..Claims::default() };
            let ctx = Context::new(claims, Instant::ORIGIN);
            block_on(privileged.lock(&ctx)).expect("it is never refused").increment();
        });
        drop(holder);
        if let Some(guard) = mutex.try_lock() {
            guard.increment();
        }
        giving_up.join().unwrap();
        waiting.join().unwrap();
        assert!(mutex.try_lock().expect("nobody holds it").get() >= 1);
    });
}
