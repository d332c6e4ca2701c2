//! How long a credit takes to bring an answer.

use core::time::Duration;

use crate::estimate::{Ewma, WindowedMin};
use crate::time::{Instant, nanos};

/// After this long a network that has become slower is believed.
const MEMORY: Duration = Duration::from_secs(10);

/// Weight of the newest time in the server, as that of a round trip in TCP (RFC 6298 §2).
const WEIGHT: f64 = 0.125;

/// The end-to-end round trip of a credit (Protego §3.1): from telling a client of it until the
/// answer to the request that used it is ready.
///
/// ```text
///   told ──► client ──► arrives ──► run queue, locks, service ──► answered
///     └─── turnaround ────┘ └─────────── in the server ─────────────┘
///        the least counts                   the average
/// ```
///
/// Both parts are measured. Of the turnaround the least of late counts: whatever lies above it, the
/// credit lay at a client that had nothing to send, which no controller can wait for.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    turnaround: WindowedMin,
    in_server: Ewma,
    /// The turnaround until one was measured.
    assumed: Duration,
}

impl RoundTrip {
    /// Nothing is measured yet; credits are assumed to come back after `rtt`.
    pub(super) fn new(rtt: Duration) -> Self {
        let turnaround = WindowedMin::new(MEMORY);
        Self { turnaround, in_server: Ewma::new(WEIGHT), assumed: rtt }
    }

    /// A request arrived that used a credit which its client was told of `turnaround` ago.
    pub(super) fn on_use(&mut self, now: Instant, turnaround: Duration) {
        self.turnaround.observe(now, nanos(turnaround));
    }

    /// A request was served in this time, arrival to answer.
    pub(super) fn on_served(&mut self, in_server: Duration) {
        self.in_server.observe(nanos(in_server) as f64);
    }

    /// The round trip as far as it is known.
    pub(super) fn value(&self) -> Duration {
        let turnaround = self.turnaround.value().map_or(self.assumed, Duration::from_nanos);
        turnaround + Duration::from_nanos(self.in_server.value().unwrap_or(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn adds_the_least_turnaround_to_the_average_time_in_the_server() {
        let mut round_trip = RoundTrip::new(us(100));
        assert_eq!(round_trip.value(), us(100));
        round_trip.on_served(us(80));
        assert_eq!(round_trip.value(), us(180));
        for (at, turnaround) in [(0, 700), (1, 12), (2, 400)] {
            round_trip.on_use(Instant::from_micros(at), us(turnaround));
        }
        assert_eq!(round_trip.value(), us(92));
        round_trip.on_served(us(160));
        assert_eq!(round_trip.value(), us(102)); // an eighth of the way from 80 to 160
    }

    #[test]
    fn a_slower_network_is_believed_in_time() {
        let mut round_trip = RoundTrip::new(us(100));
        round_trip.on_use(Instant::ORIGIN, us(10));
        round_trip.on_use(Instant::ORIGIN + us(1), us(50));
        assert_eq!(round_trip.value(), us(10));
        round_trip.on_use(Instant::ORIGIN + MEMORY + us(2), us(50));
        assert_eq!(round_trip.value(), us(50));
    }
}
