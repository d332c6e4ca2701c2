//! How long a credit takes to bring an answer.

use core::time::Duration;

use crate::controller::Init;
use crate::time::nanos;

/// A credit that lies at its client for longer counts as this long, so that idle clients do not
/// slow those down who wait for a few round trips.
const TURNAROUND_MAX: Duration = Duration::from_millis(25);

/// The end-to-end round trip of credits (Protego §3.1): from telling a client of one until the
/// answer to the request that used it is ready.
///
/// ```text
///   told ──► client, until it has a request ──► arrives ──► waits, is served ──► answered
///     └──────────── turnaround ────────────────┘ └──────── in the server ────────┘
/// ```
///
/// It is the time after which a pool that was changed has changed the load. Both parts are means
/// over the same time, each over all credits for which it was measured.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    turnaround: Mean,
    in_server: Mean,
    /// A request that takes longer is of no use, and counts as this long.
    in_server_max: Duration,
}

impl RoundTrip {
    /// Nothing is measured yet; credits are assumed to come back after the network's round trip.
    pub(super) fn new(init: Init) -> Self {
        Self {
            turnaround: Mean::new(init.rtt.min(TURNAROUND_MAX)),
            in_server: Mean::new(Duration::ZERO),
            in_server_max: init.slo,
        }
    }

    /// A request arrived that used a credit which its client was told of `turnaround` ago.
    pub(super) fn on_use(&mut self, turnaround: Duration) {
        self.turnaround.observe(turnaround.min(TURNAROUND_MAX));
    }

    /// A request was served in this time, arrival to answer.
    pub(super) fn on_served(&mut self, in_server: Duration) {
        self.in_server.observe(in_server.min(self.in_server_max));
    }

    /// Makes what was measured since the last call the value.
    pub(super) fn update(&mut self) {
        self.turnaround.update();
        self.in_server.update();
    }

    /// The round trip as of the last update.
    pub(super) fn value(&self) -> Duration {
        self.turnaround.value + self.in_server.value
    }
}

/// The mean of what was observed between two updates; without that, it stays.
#[derive(Clone, Debug)]
struct Mean {
    value: Duration,
    sum_ns: u64,
    count: u32,
}

impl Mean {
    const fn new(value: Duration) -> Self {
        Self { value, sum_ns: 0, count: 0 }
    }

    fn observe(&mut self, sample: Duration) {
        self.sum_ns = self.sum_ns.saturating_add(nanos(sample));
        self.count = self.count.saturating_add(1);
    }

    fn update(&mut self) {
        if let Some(mean) = self.sum_ns.checked_div(u64::from(self.count)) {
            *self = Self::new(Duration::from_nanos(mean));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn adds_the_mean_turnaround_to_the_mean_time_in_the_server() {
        let mut round_trip = RoundTrip::new(Init::new(Instant::ORIGIN, 0));
        assert_eq!(round_trip.value(), us(100)); // the network's
        [30, 10].into_iter().for_each(|micros| round_trip.on_use(us(micros)));
        [100, 150, 110].into_iter().for_each(|micros| round_trip.on_served(us(micros)));
        assert_eq!(round_trip.value(), us(100));
        round_trip.update();
        assert_eq!(round_trip.value(), us(20 + 120));
        round_trip.on_served(us(80));
        round_trip.update();
        assert_eq!(round_trip.value(), us(20 + 80), "what was not measured anew stays");
    }

    #[test]
    fn neither_idle_clients_nor_stuck_requests_make_it_endless() {
        let mut round_trip = RoundTrip::new(Init::new(Instant::ORIGIN, 0));
        round_trip.on_use(Duration::from_secs(3_600));
        round_trip.on_served(Duration::MAX);
        round_trip.update();
        assert_eq!(round_trip.value(), TURNAROUND_MAX + us(2_000)); // an SLO
    }
}
