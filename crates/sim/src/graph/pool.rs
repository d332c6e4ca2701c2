//! A bounded pool of connections from one service to another.

use std::collections::VecDeque;

use super::request::ThreadId;

/// Connections, and the threads that wait for one, first come, first served.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) size: u32,
    pub(super) used: u32,
    waiting: VecDeque<ThreadId>,
}

impl Pool {
    pub(super) fn new(size: u32) -> Self {
        Self { size, used: 0, waiting: VecDeque::new() }
    }

    /// Takes a connection for this thread, or lets it wait for one.
    pub(super) fn take(&mut self, thread: ThreadId) -> bool {
        let is_free = self.used < self.size;
        if is_free {
            self.used += 1;
        } else {
            self.waiting.push_back(thread);
        }
        is_free
    }

    /// A connection is given back; the first who waits has it at once.
    pub(super) fn give_back(&mut self) -> Option<ThreadId> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.used -= 1;
        }
        next
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
