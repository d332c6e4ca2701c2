//! A mutex of the simulated application: first come, first served.

use std::collections::VecDeque;

use super::request::RequestId;

#[derive(Debug, Default)]
pub(super) struct Lock {
    held: bool,
    waiting: VecDeque<RequestId>,
}

impl Lock {
    /// True if it is the request's now; else the request waits.
    pub(super) fn acquire(&mut self, request: RequestId) -> bool {
        if self.held {
            self.waiting.push_back(request);
        }
        !std::mem::replace(&mut self.held, true)
    }

    /// Requests that wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Gives the lock up, and hands it to who waits longest.
    pub(super) fn release(&mut self) -> Option<RequestId> {
        let next = self.waiting.pop_front();
        self.held = next.is_some();
        next
    }
}
