//! Models of each primitive, in which all orders are tried in which threads may meet: `make loom`.
//!
//! What is protected is a cell that the checker watches: two who use it at once, or one who does
//! not see what the last one wrote, end the model. So does a thread that nobody wakes.

#![cfg(loom)]
#![allow(unsafe_code, reason = "the checker watches over what the primitives protect")]

mod condvar;
mod memory;
mod mutex;
mod pool;
mod rwlock;
mod semaphore;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::thread;

/// A number that only one at a time may write, and nobody read meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Watched(UnsafeCell<u32>);

// SAFETY: that those who share it do not race is what the models are there to find out.
unsafe impl Sync for Watched {}

impl Watched {
    pub(crate) fn increment(&self) {
        self.0.with_mut(|number| {
            // SAFETY: the checker ends the model if anybody else has access.
            unsafe { *number += 1 };
        });
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.with(|number| {
            // SAFETY: the checker ends the model if anybody writes.
            unsafe { *number }
        })
    }
}

/// Tries all orders with up to two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(body);
}

/// Polls a future once and then drops it: somebody asks, and gives up at any point.
pub(crate) fn ask_and_give_up<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => {
            thread::yield_now();
            None
        }
    }
}
