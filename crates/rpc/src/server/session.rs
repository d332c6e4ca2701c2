//! What other threads may do to a session: hand it replies, credits and orders.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use seawall_control::Instant;
use seawall_control::controller::{Feedback, SessionId};

use super::job::Reply;

/// The mailbox of one connection. Its connection's driver empties it; everybody else fills it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    mail: Mutex<Mail>,
    driver: AtomicWaker,
    leaving: AtomicBool,
    /// The workers stand still, and the driver has not looked yet what that holds up.
    halted: AtomicBool,
    /// When the sweeper has to look after the connection, nanoseconds; `u64::MAX` for never.
    deadline: AtomicU64,
}

/// What waits for the driver.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) replies: Vec<Reply>,
    pub(super) push: Option<Feedback>,
}

impl Session {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            mail: Mutex::default(),
            driver: AtomicWaker::new(),
            leaving: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            deadline: AtomicU64::new(u64::MAX),
        }
    }

    /// Hands over a terminal reply.
    pub(super) fn reply(&self, reply: Reply) {
        self.mail.lock().replies.push(reply);
        self.driver.wake();
    }

    /// Hands over what the client is to be told although no reply is due. Newer news replace older.
    pub(super) fn push(&self, feedback: Feedback) {
        self.mail.lock().push = Some(feedback);
        self.driver.wake();
    }

    /// Asks the driver to say goodbye to the client.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Relaxed);
        self.driver.wake();
    }

    /// True once [`leave`](Self::leave) was called.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Asks the driver to see what is held up by workers that stand still.
    pub(super) fn halt(&self) {
        self.halted.store(true, Relaxed);
        self.driver.wake();
    }

    /// True once after each [`halt`](Self::halt).
    pub(super) fn take_halt(&self) -> bool {
        self.halted.load(Relaxed) && self.halted.swap(false, Relaxed)
    }

    /// Wakes the driver if its deadline has passed.
    pub(super) fn sweep(&self, now: Instant) {
        if self.deadline.load(Relaxed) <= now.as_nanos() {
            self.driver.wake();
        }
    }

    /// Sets when the sweeper wakes the driver.
    pub(super) fn set_deadline(&self, deadline: Instant) {
        self.deadline.store(deadline.as_nanos(), Relaxed);
    }

    /// The driver's waker: called first in each of its polls, so that no mail is missed.
    pub(super) fn register(&self, waker: &Waker) {
        self.driver.register(waker);
    }

    /// Takes everything that waits; replies join those that are there.
    pub(super) fn collect(&self, replies: &mut Vec<Reply>) -> Option<Feedback> {
        let mut mail = self.mail.lock();
        replies.append(&mut mail.replies);
        mail.push.take()
    }
}
