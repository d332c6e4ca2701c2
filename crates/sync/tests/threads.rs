//! Threads that use each primitive in all ways at once: async, blocking, trying, giving up, being
//! refused. What is counted must come out right, and nobody may wait for ever.

#![cfg(not(loom))]

mod support;

use std::convert::Infallible;
use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use seawall_sync::{Condvar, MemorySemaphore, Mutex, Pool, RwLock, Semaphore};
use support::{block_on, poll_and_give_up, request};

const THREADS: u32 = 4;
const ROUNDS: u32 = if cfg!(miri) { 15 } else { 4_000 };

/// Calls `work` with each round of each thread, and returns how often it said that it had done
/// something.
fn run(work: impl Fn(u32) -> bool + Sync) -> u32 {
    let done = AtomicU32::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (work, done) = (&work, &done);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if work(round.wrapping_mul(7).wrapping_add(thread)) {
                        done.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    done.into_inner()
}

#[test]
fn a_mutex_counts_right() {
    let mutex = Mutex::new(0_u32);
    let hurried = || request(Duration::from_nanos(100));
    let done = run(|round| {
        let guard = match round % 6 {
            0 => Some(block_on(mutex.lock_plain())),
            1 => Some(mutex.blocking_lock_plain()),
            2 => mutex.try_lock(),
            3 => poll_and_give_up(mutex.lock_plain(), round as usize % 3),
            4 => mutex.blocking_lock(&hurried()).ok(),
            _ => block_on(mutex.lock(&hurried())).ok(),
        };
        guard.map(|mut number| *number += 1).is_some()
    });
    let seen = mutex.snapshot();
    assert_eq!((seen.waiters, seen.acquisitions), (0, u64::from(done)));
    assert_eq!(mutex.into_inner(), done);
}

#[test]
fn writers_are_alone() {
    let lock = RwLock::new((0_u32, 0_u32));
    let read_right = |pair: &(u32, u32)| assert_eq!(pair.0, pair.1);
    let written = run(|round| {
        let writer = match round % 7 {
            0 => Some(block_on(lock.write_plain())),
            1 => poll_and_give_up(lock.write_plain(), 2),
            2 => lock.blocking_write(&request(Duration::from_nanos(100))).ok(),
            3 => {
                read_right(&block_on(lock.read_plain()));
                None
            }
            4 => {
                if let Some(pair) = poll_and_give_up(lock.read_plain(), 1) {
                    read_right(&pair);
                }
                None
            }
            _ => {
                read_right(&lock.blocking_read_plain());
                None
            }
        };
        writer
            .map(|mut pair| {
                pair.0 += 1;
                thread::yield_now();
                pair.1 += 1;
            })
            .is_some()
    });
    assert_eq!(lock.snapshot().waiters, 0);
    assert_eq!(lock.into_inner(), (written, written));
}

#[test]
fn no_more_are_let_in_than_there_are_permits() {
    const PERMITS: u32 = 3;
    let (semaphore, inside) = (Semaphore::new(PERMITS), AtomicU32::new(0));
    run(|round| {
        let need = 1 + round % PERMITS;
        let permit = match round % 4 {
            0 => Some(block_on(semaphore.acquire_many_plain(need))),
            1 => semaphore.try_acquire_many(need),
            2 => poll_and_give_up(semaphore.acquire_many_plain(need), 2),
            _ => semaphore.blocking_acquire_many(&request(Duration::from_nanos(100)), need).ok(),
        };
        permit
            .map(|permit| {
                assert!(inside.fetch_add(permit.permits(), Relaxed) + permit.permits() <= PERMITS);
                thread::yield_now();
                inside.fetch_sub(permit.permits(), Relaxed);
            })
            .is_some()
    });
    assert_eq!((semaphore.available_permits(), semaphore.snapshot().waiters), (PERMITS, 0));
}

#[test]
fn a_capacity_that_changes_is_kept_to() {
    const MOST: u32 = 3;
    let (memory, inside) = (MemorySemaphore::new(MOST), AtomicU32::new(0));
    run(|round| {
        if round.is_multiple_of(11) {
            memory.resize(1 + round % MOST);
        }
        let permit = match round % 5 {
            0 => Some(block_on(memory.wait_plain())),
            1 => memory.try_wait(),
            2 => poll_and_give_up(memory.wait_plain(), 2),
            3 => memory.blocking_wait_if_uncongested(&request(Duration::from_nanos(100))).ok(),
            _ => block_on(memory.wait_if_uncongested(&request(Duration::from_micros(50)))).ok(),
        };
        permit
            .map(|_permit| {
                assert!(inside.fetch_add(1, Relaxed) < MOST);
                thread::yield_now();
                inside.fetch_sub(1, Relaxed);
            })
            .is_some()
    });
    assert_eq!((memory.available(), memory.snapshot().waiters), (memory.capacity(), 0));
}

#[test]
fn what_producers_put_in_consumers_take_out() {
    const ROOM: usize = 2;
    let (queue, changed) = (Mutex::new(Vec::new()), Condvar::new());
    let wait = |guard, round: u32| {
        if round.is_multiple_of(2) {
            changed.blocking_wait_plain(guard)
        } else {
            block_on(changed.wait_plain(guard))
        }
    };
    let sums = [AtomicU32::new(0), AtomicU32::new(0)];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (queue, changed, wait, sums) = (&queue, &changed, &wait, &sums);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut items = queue.blocking_lock_plain();
                    if thread.is_multiple_of(2) {
                        while items.len() == ROOM {
                            items = wait(items, round);
                        }
                        items.push(round);
                        sums[0].fetch_add(round, Relaxed);
                    } else {
                        let taken = loop {
                            match items.pop() {
                                Some(item) => break item,
                                None => items = wait(items, round),
                            }
                        };
                        sums[1].fetch_add(taken, Relaxed);
                    }
                    drop(items);
                    changed.notify_all();
                }
            });
        }
    });
    assert!(queue.into_inner().is_empty());
    let [put, taken] = sums.map(AtomicU32::into_inner);
    assert_eq!(put, taken);
}

#[test]
fn a_pool_makes_no_more_than_its_size() {
    let made = std::sync::Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let pool = Pool::<u32, Infallible>::new(2, move || {
        count.fetch_add(1, Relaxed);
        ready(Ok(0))
    });
    let used = run(|round| {
        let value = match round % 3 {
            0 => block_on(pool.get_plain()).ok(),
            1 => poll_and_give_up(pool.get_plain(), 2).and_then(Result::ok),
            _ => pool.blocking_get(&request(Duration::from_nanos(100))).ok(),
        };
        value.map(|mut uses| *uses += 1).is_some()
    });
    let values: Vec<_> = (0..pool.idle()).map(|_| block_on(pool.get_plain()).unwrap()).collect();
    assert!(made.load(Relaxed) <= 2);
    assert_eq!(values.iter().map(|uses| **uses).sum::<u32>(), used);
}
