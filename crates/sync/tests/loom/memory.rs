use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::mpsc::channel;
use loom::thread;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_sync::{MemoryPolicy, MemorySemaphore};

use crate::{Watched, ask_and_give_up, model};

#[test]
fn no_more_are_in_than_the_largest_capacity_lets_in() {
    model(|| {
        let memory = Arc::new((MemorySemaphore::new(2), AtomicU32::new(0)));
        let try_to_enter = |memory: &(MemorySemaphore, AtomicU32)| {
            if let Some(permit) = memory.0.try_wait() {
                assert!(memory.1.fetch_add(1, Relaxed) < 2);
                thread::yield_now();
                memory.1.fetch_sub(1, Relaxed);
                drop(permit);
            }
        };
        let others = [(); 2].map(|()| {
            let memory = memory.clone();
            thread::spawn(move || try_to_enter(&memory))
        });
        memory.0.resize(1);
        memory.0.resize(2);
        try_to_enter(&memory);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!((memory.0.capacity(), memory.0.available()), (2, 2));
    });
}

#[test]
fn who_enters_after_it_shrank_to_one_is_alone() {
    model(|| {
        let memory = Arc::new((MemorySemaphore::new(2), Watched::default()));
        let earlier = memory.0.try_wait().expect("it is new");
        let other = memory.clone();
        let trying = thread::spawn(move || {
            if let Some(_permit) = other.0.try_wait() {
                other.1.increment();
            }
        });
        memory.0.resize(1);
        drop(earlier);
        if let Some(_permit) = memory.0.try_wait() {
            memory.1.increment();
        }
        trying.join().unwrap();
        assert_eq!(memory.0.available(), 1);
    });
}

#[test]
fn one_who_waits_enters_when_there_is_room() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(1));
        let held = memory.try_wait().expect("it is new");
        let other = memory.clone();
        let waiting = thread::spawn(move || drop(block_on(other.wait_plain())));
        memory.resize(2);
        waiting.join().unwrap();
        drop(held);
        assert_eq!(memory.available(), 2);
    });
}

#[test]
fn one_who_waits_enters_after_it_shrank_and_all_have_left() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(2));
        let held = [(); 2].map(|()| memory.try_wait().expect("it is new"));
        let other = memory.clone();
        let waiting = thread::spawn(move || drop(block_on(other.wait_plain())));
        memory.resize(1);
        drop(held);
        waiting.join().unwrap();
        assert_eq!(memory.available(), 1);
    });
}

#[test]
fn one_who_gives_up_meets_room_that_is_made() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(1));
        let _held = memory.try_wait().expect("it is new");
        let [fickle, steady] = [memory.clone(), memory.clone()];
        let giving_up = thread::spawn(move || drop(ask_and_give_up(fickle.wait_plain())));
        let waiting = thread::spawn(move || drop(block_on(steady.wait_plain())));
        memory.resize(2);
        giving_up.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(memory.available(), 1);
    });
}

#[test]
fn two_who_resize_leave_one_of_their_capacities() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(3));
        let _held = memory.try_wait().expect("it is new");
        let other = memory.clone();
        let resizing = thread::spawn(move || other.resize(1));
        memory.resize(4);
        resizing.join().unwrap();
        assert!(matches!((memory.capacity(), memory.available()), (1, 0) | (4, 3)));
    });
}

#[test]
fn two_who_resize_do_not_let_in_what_both_allow_together() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(2));
        let other = memory.clone();
        let resizing = thread::spawn(move || other.resize(1));
        thread::yield_now();
        memory.resize(2);
        let permits = [(); 3].map(|()| memory.try_wait());
        assert!(permits.iter().flatten().count() <= 2);
        resizing.join().unwrap();
    });
}

#[test]
fn no_use_is_missed_by_who_watches() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(1));
        let other = memory.clone();
        let watching = thread::spawn(move || block_on(other.used()));
        let held = memory.try_wait().expect("nobody else asks");
        watching.join().unwrap();
        drop(held);
    });
}

#[test]
fn the_use_of_one_who_queued_up_is_not_missed_either() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(1));
        let held = memory.try_wait().expect("it is new");
        let (seen, leave) = channel();
        let other = memory.clone();
        let using = thread::spawn(move || {
            let _permit = block_on(other.wait_plain());
            leave.recv().unwrap();
        });
        drop(held);
        block_on(memory.used());
        seen.send(()).unwrap();
        using.join().unwrap();
    });
}

#[test]
fn who_must_not_be_dropped_gets_a_place_that_others_only_try_for() {
    model(|| {
        let memory = Arc::new(MemorySemaphore::new(1));
        let held = memory.try_wait().expect("it is new");
        let other = memory.clone();
        let privileged = thread::spawn(move || {
            let claims = Claims { droppable: false, ..Claims::default() };
            let ctx = Context::new(claims, Instant::ORIGIN);
            let permit = block_on(other.enter(MemoryPolicy::Try, &ctx));
            drop(permit.expect("it is not refused").expect("there is a bound"));
        });
        drop(held);
        drop(memory.try_wait()); // whoever passes by takes it for a moment at most
        privileged.join().unwrap();
        assert_eq!(memory.available(), 1);
    });
}
