//! Who waits for a connection of HTTP/1.1, and how many are opened for them.
//!
//! A request that finds no idle connection joins a line, and a new one is opened for it. Whichever
//! is there first, that one or one whose request has ended, goes to the first in the line. A
//! service takes new connections from an accept queue that may be short (Python's `http.server` has
//! 5 places), and the kernel drops what finds it full, to be tried again after a second: so only
//! some are opened at once, and the rest is served by those that exist.

use std::collections::VecDeque;

use hyper::client::conn::http1;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::connect::ConnectError;
use crate::forward::RequestBody;

/// Connections that one thread opens to one replica at once. Enough to open thousands in a second
/// on a network of a millisecond, and no burst for the shortest of accept queues.
const OPENING_MAX: usize = 8;

/// The line of one pool.
#[derive(Debug, Default)]
pub(super) struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<oneshot::Sender<Handed>>,
    /// Connections that are being opened.
    opening: usize,
}

/// A connection for the first in the line.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) sender: http1::SendRequest<RequestBody>,
    /// No request was on it yet.
    pub(super) is_new: bool,
}

/// What the first in the line is told: `None` to look again what there is.
pub(super) type Handed = Result<Option<Connected>, ConnectError>;

impl Line {
    /// Joins it. True if a connection should be opened, which [`goes_on`](Self::goes_on) ends.
    pub(super) fn join(&self) -> (oneshot::Receiver<Handed>, bool) {
        let (tell, told) = oneshot::channel();
        let state = &mut *self.0.lock();
        // Mostly who came first leaves first; looking at all of them is left to `goes_on`.
        while state.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            state.waiting.pop_front();
        }
        state.waiting.push_back(tell);
        let opens = state.opening < state.waiting.len().min(OPENING_MAX);
        state.opening += usize::from(opens);
        (told, opens)
    }

    /// An attempt to open a connection has ended: whether who made it is to make another one.
    pub(super) fn goes_on(&self) -> bool {
        let state = &mut *self.0.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        let goes_on = state.opening <= state.waiting.len();
        state.opening -= usize::from(!goes_on);
        goes_on
    }

    /// Tells the first who still waits, and gives back what nobody waits for.
    pub(super) fn hand(&self, mut handed: Handed) -> Option<Handed> {
        let mut state = self.0.lock();
        while let Some(first) = state.waiting.pop_front() {
            match first.send(handed) {
                Ok(()) => return None,
                Err(unwanted) => handed = unwanted,
            }
        }
        Some(handed)
    }

    /// Lets all look again what there is.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.0.lock().waiting);
        waiting.into_iter().for_each(|first| _ = first.send(Ok(None)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_opened_as_wait_but_only_some_at_once() {
        let line = Line::default();
        let joined: Vec<_> = (0..2 * OPENING_MAX).map(|_| line.join()).collect();
        assert_eq!(joined.iter().filter(|(_, opens)| *opens).count(), OPENING_MAX);
        assert!(line.goes_on(), "others wait");
        drop(joined);
        assert!((0..OPENING_MAX).all(|_| !line.goes_on()), "all have left");
        let (_told, opens) = line.join();
        assert!(opens);
    }

    #[test]
    fn the_first_who_still_waits_is_told() {
        let line = Line::default();
        let (gone, _) = line.join();
        let (mut first, _) = line.join();
        let (mut second, _) = line.join();
        drop(gone);
        assert!(line.hand(Err(ConnectError::Refused)).is_none());
        assert!(matches!(first.try_recv(), Ok(Err(ConnectError::Refused))));
        assert!(second.try_recv().is_err());
        line.wake_all();
        assert!(matches!(second.try_recv(), Ok(Ok(None))));
        assert!(line.hand(Ok(None)).is_some(), "nobody waits");
    }
}
