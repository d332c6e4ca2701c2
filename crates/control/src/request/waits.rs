//! What of its time a request spends on the services behind this one.

use core::time::Duration;

use crate::time::Instant;

/// Waits for connections to other services, and for their replies, of one request: each as the
/// union of the times in which any of its calls waited so, however many went out at once.
///
/// While one call waits for a connection and another for its reply, the request waits for a
/// connection: that is what hides a dependency (SurgeGuard §III-A, `timeWaitingForFreeConn`). The
/// two never overlap, and together never exceed the request's own time. Neither contains what the
/// request [works](Self::on_work) itself meanwhile: that is its execution, whatever is out.
///
/// ```text
///   call 1   ├─ pool ─┤──── reply ────┤
///   call 2        ├───── pool ─────┤──── reply ────┤
///            ├──────── pool ───────┤──── reply ────┤
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    working: u32,
    for_connections: u32,
    for_replies: u32,
    /// When the first of those calls began that wait for connections now.
    for_connections_since: Instant,
    since: Instant,
    spent: Spent,
    /// What of the waits for connections was [taken](Self::take_connections) already.
    taken: Duration,
}

/// How long a request has waited for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// For connections that were free.
    pub connections: Duration,
    /// For replies, while no call waited for a connection.
    pub replies: Duration,
}

impl Waits {
    /// The request, or one of its branches, begins to work.
    pub fn on_work(&mut self, now: Instant) {
        self.advance(now);
        self.working += 1;
    }

    /// One that worked has paused, or is done.
    pub fn on_rest(&mut self, now: Instant) {
        self.advance(now);
        self.working = left(self.working);
    }

    /// A call begins to wait for a connection, or for leave to be sent on one. When the request's
    /// wait began, if it begins with it.
    pub fn on_call(&mut self, now: Instant) -> Option<Instant> {
        self.advance(now);
        self.for_connections += 1;
        let is_first = self.for_connections == 1;
        is_first.then(|| {
            self.for_connections_since = now;
            now
        })
    }

    /// A call that waited for that has left, and waits for its reply. When the request's wait
    /// began, if it ends with it.
    pub fn on_sent(&mut self, now: Instant) -> Option<Instant> {
        self.for_replies += 1;
        self.on_given_up(now)
    }

    /// A call has ended that had left.
    pub fn on_reply(&mut self, now: Instant) {
        self.advance(now);
        self.for_replies = left(self.for_replies);
    }

    /// A call has ended that had not left. When the request's wait began, if it ends with it.
    pub fn on_given_up(&mut self, now: Instant) -> Option<Instant> {
        self.advance(now);
        self.for_connections = left(self.for_connections);
        (self.for_connections == 0).then_some(self.for_connections_since)
    }

    /// What was spent until `now`, calls under way included.
    pub fn spent(&self, now: Instant) -> Spent {
        let mut until = *self;
        until.advance(now);
        until.spent
    }

    /// Waits for connections that were not taken before: each moment counts once, however many
    /// calls waited in it.
    pub fn take_connections(&mut self) -> Duration {
        let waited = self.spent.connections.saturating_sub(self.taken);
        self.taken = self.spent.connections;
        waited
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.since(self.since);
        if self.working > 0 {
            // Its own.
        } else if self.for_connections > 0 {
            self.spent.connections += passed;
        } else if self.for_replies > 0 {
            self.spent.replies += passed;
        }
        // Threads read their clocks before they come here, so that some come out of order.
        self.since = self.since.max(now);
    }
}

/// One less.
fn left(count: u32) -> u32 {
    count.checked_sub(1).expect("what ends has begun")
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn spent(connections: u64, replies: u64) -> Spent {
        let ms = Duration::from_millis;
        Spent { connections: ms(connections), replies: ms(replies) }
    }

    #[test]
    fn one_call_waits_for_its_connection_and_then_for_its_reply() {
        let mut waits = Waits::default();
        waits.on_call(at(100));
        assert_eq!(waits.spent(at(103)), spent(3, 0));
        waits.on_sent(at(110));
        waits.on_reply(at(150));
        assert_eq!(waits.spent(at(999)), spent(10, 40));
    }

    #[test]
    fn parallel_calls_count_once_and_connections_first() {
        let mut waits = Waits::default();
        waits.on_call(at(0));
        waits.on_call(at(5));
        waits.on_sent(at(10)); // the first, while the second still waits
        assert_eq!(waits.spent(at(20)), spent(20, 0));
        waits.on_sent(at(30));
        waits.on_reply(at(40));
        waits.on_reply(at(60));
        assert_eq!(waits.spent(at(60)), spent(30, 30));
    }

    #[test]
    fn work_beside_a_call_is_the_requests_own() {
        let mut waits = Waits::default();
        waits.on_work(at(0));
        waits.on_call(at(10));
        waits.on_sent(at(12));
        waits.on_rest(at(40)); // it computed for 28 while the call was out
        waits.on_work(at(50));
        waits.on_work(at(55)); // two branches
        waits.on_rest(at(60));
        waits.on_rest(at(70));
        waits.on_reply(at(100));
        assert_eq!(waits.spent(at(200)), spent(0, 10 + 30));
    }

    #[test]
    fn what_is_taken_of_the_waits_is_their_union() {
        let mut waits = Waits::default();
        waits.on_call(at(0));
        waits.on_call(at(5));
        waits.on_sent(at(10));
        assert_eq!(waits.take_connections(), Duration::from_millis(10));
        waits.on_given_up(at(30));
        assert_eq!(waits.take_connections(), Duration::from_millis(20));
        assert_eq!(waits.take_connections(), Duration::ZERO);
    }

    #[test]
    fn a_wait_of_several_calls_begins_with_the_first_and_ends_with_the_last() {
        let mut waits = Waits::default();
        assert_eq!(waits.on_call(at(1)), Some(at(1)));
        assert_eq!((waits.on_call(at(2)), waits.on_sent(at(3))), (None, None));
        assert_eq!(waits.on_given_up(at(4)), Some(at(1)));
        waits.on_reply(at(5));
        assert_eq!((waits.on_call(at(6)), waits.on_sent(at(7))), (Some(at(6)), Some(at(6))));
    }

    #[test]
    fn calls_one_after_the_other_leave_out_what_lies_between() {
        let mut waits = Waits::default();
        for start in [0, 100] {
            waits.on_call(at(start));
            waits.on_sent(at(start + 1));
            waits.on_reply(at(start + 11));
        }
        waits.on_call(at(200));
        waits.on_given_up(at(204));
        assert_eq!(waits.spent(at(300)), spent(6, 20));
    }

    #[test]
    fn a_clock_that_was_read_earlier_takes_nothing_back() {
        let mut waits = Waits::default();
        waits.on_call(at(10));
        waits.on_sent(at(20));
        waits.on_call(at(15));
        waits.on_given_up(at(18));
        waits.on_reply(at(30));
        assert_eq!(waits.spent(at(30)), spent(10, 10));
    }
}
