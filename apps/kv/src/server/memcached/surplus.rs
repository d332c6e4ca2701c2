//! How long a client may leave more unread than the limit allows.
//!
//! The replies to commands that are already in the server may be more than the limit, and a client
//! that reads takes them soon. One that reads a little now and then would keep them in memory for
//! ever, so that mere progress is not enough.

use std::time::Duration;

use seawall_control::Instant;

/// What every client has, however little is above the limit: as long as a native one.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes per second that a client must take of what is above the limit. Slow for a link, and a
/// minute for the longest reply.
const DRAIN_RATE_MIN: f64 = (1 << 20) as f64;

/// The time that is left, while more is unread than the limit.
#[derive(Debug, Default)]
pub(super) struct Surplus {
    until: Option<Instant>,
}

impl Surplus {
    /// At `now`, so many bytes above the limit have come to what is unread.
    pub(super) fn on_more(&mut self, bytes: usize, now: Instant) {
        let time = Duration::from_secs_f64(bytes as f64 / DRAIN_RATE_MIN);
        self.until = Some(self.until.unwrap_or(now + GRACE) + time);
    }

    /// No more than the limit is unread.
    pub(super) fn on_drained(&mut self) {
        self.until = None;
    }

    /// When no more than the limit must be unread, if more is now.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_follows_from_what_came_and_not_from_what_went() {
        let mut surplus = Surplus::default();
        assert_eq!(surplus.deadline(), None);
        surplus.on_more(60 * MIB, at(100));
        assert_eq!(surplus.deadline(), Some(at(161)));
        // Later replies have their time, too, however much has been read meanwhile.
        surplus.on_more(4 * MIB, at(130));
        assert_eq!(surplus.deadline(), Some(at(165)));
        surplus.on_drained();
        assert_eq!(surplus.deadline(), None);
        surplus.on_more(MIB, at(200));
        assert_eq!(surplus.deadline(), Some(at(202)));
    }
}
