//! A call to another service, as the request sees it for which it is made.

use std::any::Any;
use std::fmt;

use seawall_control::Instant;
use seawall_control::request::Waits;

use crate::clock;
use crate::server::Context;

/// One call on behalf of a request. It tells the request how long it waits, for a connection and
/// for the reply, however it ends.
pub(crate) struct Errand {
    context: Context,
    state: State,
    /// Kept until the server has answered, if the call was sent.
    connection: Option<Box<dyn Any + Send>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for a connection, or for leave to be sent on one.
    Waiting,
    Sent,
    /// Nobody waits for it any more.
    Over,
}

impl Errand {
    pub(super) fn begin(context: Context, now: Instant) -> Self {
        let began = context.waits().lock().on_call(now);
        if let (Some(page), Some(began)) = (context.page(), began) {
            page.on_wait(began);
        }
        Self { context, state: State::Waiting, connection: None }
    }

    /// It leaves on this connection.
    pub(super) fn on(mut self, connection: Option<Box<dyn Any + Send>>) -> Self {
        self.connection = connection;
        self
    }

    /// It has left.
    pub(crate) fn sent(&mut self, now: Instant) {
        if self.state == State::Waiting {
            self.state = State::Sent;
            self.charge(|waits| waits.on_sent(now));
        }
    }

    /// Nobody waits for it any more: it is answered, or was given up.
    pub(crate) fn give_up(&mut self) {
        let (state, now) = (self.state, clock::now());
        self.state = State::Over;
        match state {
            State::Waiting => self.charge(|waits| waits.on_given_up(now)),
            State::Sent => self.context.waits().lock().on_reply(now),
            State::Over => {}
        }
    }

    /// It waits no longer. The budget pays what the request has waited, and not what each of its
    /// calls has.
    fn charge(&self, end: impl FnOnce(&mut Waits) -> Option<Instant>) {
        let (began, waited) = {
            let mut waits = self.context.waits().lock();
            (end(&mut waits), waits.take_connections())
        };
        if let (Some(page), Some(began)) = (self.context.page(), began) {
            page.on_waited(began);
        }
        self.context.charge(waited);
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errand").field("state", &self.state).finish_non_exhaustive()
    }
}
