//! How many connections a pool needs.

use core::time::Duration;

use crate::time::nanos;

/// Connections that `rate` requests per second keep busy while the services behind take `latency`:
/// Little's law (SurgeGuard equation 1), rounded up, and at least 1.
///
/// A rate that is negative or no number counts as zero.
pub fn size(rate: f64, latency: Duration) -> u32 {
    let busy = rate * (nanos(latency) as f64 / 1e9);
    // A cast saturates, and takes a NaN to zero.
    (libm::ceil(busy) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_rate_times_latency() {
        // 400 requests per second, four hops of 5 ms each.
        assert_eq!(size(400.0, Duration::from_millis(20)), 8);
        assert_eq!(size(401.0, Duration::from_millis(20)), 9);
        assert_eq!(size(0.0, Duration::from_secs(1)), 1);
        assert_eq!(size(-1.0, Duration::from_secs(1)), 1);
        assert_eq!(size(f64::NAN, Duration::from_secs(1)), 1);
        assert_eq!(size(f64::INFINITY, Duration::from_secs(1)), u32::MAX);
    }
}
