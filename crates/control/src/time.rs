//! Time as a value: nanoseconds on the caller's monotonic clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin that the caller chooses.
///
/// It is a plain number, so that a test, a simulator, a trace or another language can make one. All
/// arithmetic saturates: no clock jump and no idle century can make it panic or wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ORIGIN: Self = Self(0);
    /// Later than every other instant: a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero when `earlier` lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// `duration` in nanoseconds, saturating at `u64::MAX` (584 years).
pub const fn nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

/// `duration` in whole microseconds, saturating at `u32::MAX` (71 minutes): the unit of the wire.
pub const fn micros_u32(duration: Duration) -> u32 {
    let micros = duration.as_micros();
    if micros > u32::MAX as u128 { u32::MAX } else { micros as u32 }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        assert_eq!(Instant::NEVER + century, Instant::NEVER);
        assert_eq!(Instant::ORIGIN - century, Instant::ORIGIN);
        assert_eq!(Instant::from_nanos(3) + Duration::MAX, Instant::NEVER);
        assert_eq!(Instant::from_nanos(3).since(Instant::from_nanos(7)), Duration::ZERO);
    }

    #[test]
    fn wire_units_saturate() {
        assert_eq!(micros_u32(Duration::from_micros(7)), 7);
        assert_eq!(micros_u32(Duration::from_secs(1 << 40)), u32::MAX);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
