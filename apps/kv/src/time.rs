//! Wall-clock seconds and expiration times, as memcached's protocol means them.

use core::fmt;

/// Longest relative expiration time, in seconds: 30 days. Larger numbers are absolute (memcached
/// `doc/protocol.txt`, "Expiration times").
const RELATIVE_SECS_MAX: i64 = 60 * 60 * 24 * 30;

/// Whole seconds since 1 January 1970 UTC.
///
/// The store never reads a clock: every operation is told the time. It need not be exact, but it
/// should not run backwards by more than the second or two that expiry can be off anyhow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The time `secs` seconds after the epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs)
    }

    /// Seconds since the epoch.
    pub const fn as_secs(self) -> u64 {
        self.0
    }
}

/// An expiration time as clients write it: 0 never, negative already over, up to 30 days relative
/// to now, beyond that absolute Unix time. Unit: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exptime(i64);

impl Exptime {
    /// The item lives until it is deleted, flushed or evicted.
    pub const NEVER: Self = Self(0);

    /// The number as it stands in a request.
    pub const fn from_wire(number: i64) -> Self {
        Self(number)
    }

    /// The number as it goes into a request.
    pub const fn to_wire(self) -> i64 {
        self.0
    }

    /// When an item written at `now` with this expiration time stops being visible; `None` if
    /// never.
    pub const fn deadline(self, now: UnixTime) -> Option<UnixTime> {
        match self.0 {
            0 => None,
            ..0 => Some(UnixTime(0)),
            1..=RELATIVE_SECS_MAX => Some(UnixTime(now.0.saturating_add(self.0.unsigned_abs()))),
            _ => Some(UnixTime(self.0.unsigned_abs())),
        }
    }
}

/// A deadline in the eight bytes that an item can spare for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expiry(u64);

impl Expiry {
    const NEVER: Self = Self(u64::MAX);

    pub(crate) fn new(exptime: Exptime, now: UnixTime) -> Self {
        exptime.deadline(now).map_or(Self::NEVER, |at| Self(at.0))
    }

    /// An item is gone from the second of its deadline on, as in memcached
    /// (`it->exptime <= current_time`).
    pub(crate) fn has_passed(self, now: UnixTime) -> bool {
        self != Self::NEVER && self.0 <= now.0
    }
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_700_000_000);

    fn deadline(number: i64) -> Option<u64> {
        Exptime::from_wire(number).deadline(NOW).map(UnixTime::as_secs)
    }

    #[test]
    fn the_four_meanings_of_an_expiration_time() {
        assert_eq!(deadline(0), None);
        assert_eq!(deadline(-1), Some(0));
        assert_eq!(deadline(i64::MIN), Some(0));
        assert_eq!(deadline(1), Some(1_700_000_001));
        assert_eq!(deadline(2_592_000), Some(1_702_592_000));
        assert_eq!(deadline(2_592_001), Some(2_592_001), "absolute, and long past");
        assert_eq!(deadline(1_700_000_060), Some(1_700_000_060));
    }

    #[test]
    fn an_item_is_gone_from_its_deadline_on() {
        let expiry = Expiry::new(Exptime::from_wire(10), NOW);
        assert!(!expiry.has_passed(UnixTime::from_secs(1_700_000_009)));
        assert!(expiry.has_passed(UnixTime::from_secs(1_700_000_010)));
        assert!(Expiry::new(Exptime::from_wire(-1), NOW).has_passed(NOW));
        assert!(!Expiry::new(Exptime::NEVER, NOW).has_passed(UnixTime::from_secs(u64::MAX)));
    }
}
