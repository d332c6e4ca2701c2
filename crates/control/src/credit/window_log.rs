//! The windows that a client may still believe in.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::time::Instant;

/// Windows told to one client and not yet known to be superseded.
///
/// The client acknowledges in each request the newest window it had applied. Until a smaller window
/// is acknowledged, requests sent under an older, larger one may still be on their way, and the
/// client is honest: what it may have outstanding is the largest window not yet superseded.
#[derive(Debug)]
pub(super) struct WindowLog {
    newest: u32,
    /// (sequence, size): sequences rise and sizes fall from front to back, because an older window
    /// that is no larger than a newer one can never be the largest. So there are at most as many
    /// entries as different sizes.
    windows: VecDeque<(u32, u32)>,
    /// The window whose first use is timed, and when the client was told.
    timed: Option<(u32, Instant)>,
}

impl Default for WindowLog {
    fn default() -> Self {
        Self { newest: 0, windows: VecDeque::from([(0, 0)]), timed: None }
    }
}

impl WindowLog {
    /// The session begins, and its client acknowledges window `seq`. If nobody has told it of that
    /// window here, it comes from an earlier session, of this server or of one before it, whose
    /// name outlives connections (HTTP). The numbers go on from there, or the client would take
    /// all new windows for old ones.
    pub(super) fn begin(&mut self, seq: u32) {
        if is_before(self.newest, seq) {
            let told = self.told();
            *self = Self { newest: seq, windows: VecDeque::from([(seq, told)]), timed: None };
        }
    }

    /// Notes that the client is told `size`, and gives the sequence number that goes with it.
    pub(super) fn tell(&mut self, size: u32) -> u32 {
        if size == self.told() { self.newest } else { self.number(size) }
    }

    fn number(&mut self, size: u32) -> u32 {
        self.newest = self.newest.wrapping_add(1);
        while self.windows.back().is_some_and(|(_, older)| *older <= size) {
            self.windows.pop_back();
        }
        self.windows.push_back((self.newest, size));
        self.newest
    }

    /// The same for a window whose client waits for it. If it is a new one, its first use is timed,
    /// one at a time: requests sent before the client knew it acknowledge an older one.
    pub(super) fn tell_and_time(&mut self, now: Instant, size: u32) -> u32 {
        if self.timed.is_some() {
            return self.tell(size);
        }
        let seq = self.number(size);
        self.timed = Some((seq, now));
        seq
    }

    /// A request arrived that acknowledges window `seq`: how long ago its client was told, if it is
    /// the first use of the window that is timed.
    pub(super) fn on_use(&mut self, now: Instant, seq: u32) -> Option<Duration> {
        if is_before(self.newest, seq) {
            return None;
        }
        let (_, told) = self.timed.take_if(|(timed, _)| !is_before(seq, *timed))?;
        Some(now.since(told))
    }

    /// The client had applied window `seq` when it sent: all older ones are superseded. A number
    /// from the future is nonsense and acknowledges nothing.
    pub(super) fn acknowledge(&mut self, seq: u32) {
        if is_before(self.newest, seq) {
            return;
        }
        while self.windows.front().is_some_and(|(told, _)| is_before(*told, seq)) {
            self.windows.pop_front();
        }
    }

    /// The newest window told.
    pub(super) fn told(&self) -> u32 {
        self.windows.back().expect("the newest window is never superseded").1
    }

    /// What an honest client may have outstanding.
    pub(super) fn allowed(&self) -> u32 {
        self.windows.front().expect("the newest window is never superseded").1
    }
}

/// Serial number arithmetic (RFC 1982): true when `a` was given out before `b`.
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shrunk_window_binds_once_it_is_acknowledged() {
        let mut log = WindowLog::default();
        let ten = log.tell(10);
        let four = log.tell(4);
        assert_eq!((log.allowed(), log.told()), (10, 4));
        log.acknowledge(ten);
        assert_eq!(log.allowed(), 10);
        log.acknowledge(four);
        assert_eq!(log.allowed(), 4);
    }

    #[test]
    fn a_lost_window_does_not_hold_back_later_ones() {
        let mut log = WindowLog::default();
        log.tell(10);
        log.tell(2);
        let six = log.tell(6); // the client never saw 2
        assert_eq!(log.allowed(), 10);
        log.acknowledge(six);
        assert_eq!(log.allowed(), 6);
    }

    #[test]
    fn the_same_size_is_the_same_window() {
        let mut log = WindowLog::default();
        assert_eq!((log.tell(3), log.tell(3), log.tell(4)), (1, 1, 2));
    }

    #[test]
    fn an_acknowledgement_from_the_future_is_ignored() {
        let mut log = WindowLog::default();
        log.tell(10);
        log.tell(1);
        log.acknowledge(77);
        assert_eq!(log.allowed(), 10);
    }

    #[test]
    fn a_session_that_was_lost_goes_on_with_its_numbers() {
        let mut log = WindowLog::default();
        log.begin(5_000);
        assert_eq!((log.allowed(), log.told()), (0, 0), "what was told then counts no more");
        assert_eq!((log.tell(3), log.allowed()), (5_001, 3));
        log.begin(4_999); // late
        assert_eq!(log.tell(4), 5_002);
    }

    #[test]
    fn the_first_use_of_a_new_window_is_timed() {
        let mut log = WindowLog::default();
        let at = Instant::from_micros;
        let us = Duration::from_micros;
        let one = log.tell_and_time(at(5), 1);
        assert_eq!(log.tell_and_time(at(6), 1), one); // as old as it is
        let two = log.tell_and_time(at(7), 2); // one at a time
        assert_eq!((log.on_use(at(20), 0), log.on_use(at(20), 77)), (None, None));
        assert_eq!((log.on_use(at(25), two), log.on_use(at(26), two)), (Some(us(20)), None));
        log.tell_and_time(at(30), 2); // it may have been used before
        assert_eq!(log.on_use(at(40), two), None);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let windows = VecDeque::from([(u32::MAX - 1, 9)]);
        let mut log = WindowLog { newest: u32::MAX - 1, windows, timed: None };
        log.tell(8);
        let last = log.tell(7);
        assert_eq!((last, log.allowed()), (0, 9));
        log.acknowledge(0);
        assert_eq!(log.allowed(), 7);
    }

    #[test]
    fn stays_small_when_a_client_never_acknowledges() {
        let mut log = WindowLog::default();
        for size in (0..100_000u32).map(|i| i * 7919 % 64) {
            log.tell(size);
        }
        assert!(log.windows.len() <= 64);
    }
}
