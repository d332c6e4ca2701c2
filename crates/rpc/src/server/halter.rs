//! Workers that stand still, and who says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request::Stage;

use super::Shared;
use super::admission::Admission;
use super::run_queue::RunQueue;
use crate::clock;

/// Jobs that one look examines, the oldest. Those behind them were judged when they came.
const EXAMINED: usize = 1024;

/// Calls whose handlers have begun are looked at when the workers halt, and so often while that
/// takes longer than was predicted: each look visits all sessions.
const LOOK: Duration = Duration::from_millis(10);

/// Tells a server that its workers stand still, and how long: where a collector stops the world
/// (LIBROS §V), and the threads that read and write go on.
///
/// While they do, no worker takes a job. A request that has less left than the rest of it is
/// refused at [`Stage::PAUSE`]: when it comes, on the run queue, and if its method is
/// [repeatable](super::Router::repeatable) in its handler, too.
#[derive(Debug)]
pub struct Halter {
    queue: Arc<RunQueue>,
    admission: Arc<Admission>,
    /// Calls whose handlers have begun may be refused, too.
    has_repeatable: bool,
    /// When calls with handlers are looked at again, in nanoseconds; at once when the next pause
    /// begins.
    look: AtomicU64,
}

impl Halter {
    /// Of a server, which it does not keep alive.
    pub(super) fn new(server: &Shared) -> Self {
        Self {
            queue: server.queue.clone(),
            admission: server.admission.clone(),
            has_repeatable: server.router.has_repeatable(),
            look: AtomicU64::new(0),
        }
    }

    /// The workers stand still until about then. Said again when that is not true any more.
    ///
    /// Takes no lock, and frees nothing: it may be called where nothing may be waited for.
    pub fn halt(&self, until: Instant) {
        self.queue.halt(until);
    }

    /// Refuses those that cannot wait for so long, of all who are in the server. To be called soon
    /// after each [`halt`](Self::halt), from a thread that goes on.
    pub fn refuse(&self) {
        let now = clock::now();
        let Some(rest) = self.queue.halted_for(now) else { return };
        self.queue.refuse(Stage::PAUSE, now, rest, EXAMINED);
        if self.has_repeatable && now.as_nanos() >= self.look.load(Relaxed) {
            // All that cannot wait so long is found now; more will be if it takes longer.
            self.look.store((now + rest.max(LOOK)).as_nanos(), Relaxed);
            if self.queue.halted_for(now).is_none() {
                self.look.store(0, Relaxed); // the workers go on meanwhile
            }
            self.admission.halt();
        }
    }

    /// The workers go on.
    ///
    /// Waits for nothing, either.
    pub fn resume(&self) {
        self.look.store(0, Relaxed);
        self.queue.resume();
    }

    /// True once the server has ended.
    pub fn is_over(&self) -> bool {
        self.queue.is_closed()
    }
}
