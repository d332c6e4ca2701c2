//! The client half: what the server would refuse is dropped at once.

use core::time::Duration;

use super::{Config, LEVEL_MAX, LEVELS, Variant, level};
use crate::controller::{
    ClientController, Demand, Departure, DropReason, Feedback, Init, Response,
};
use crate::metrics::Metrics;
use crate::request::Priority;
use crate::time::Instant;

/// Knows the level of one server, as of its last reply.
#[derive(Clone, Debug)]
pub struct Client {
    level: u16,
    /// When the server last told its level, or a request last left to ask for it.
    asked_at: Instant,
    probe_interval: Duration,
}

impl Client {
    /// A client that has not heard of the server.
    pub fn new(config: &Config, init: Init) -> Self {
        let level = match config.variant {
            Variant::Paper => LEVEL_MAX,
            Variant::Released => level(Priority::default(), init.seed),
        };
        Self { level, asked_at: init.now, probe_interval: config.probe_interval }
    }

    fn apply(&mut self, now: Instant, feedback: Feedback) {
        if let Feedback::Level(level) = feedback {
            self.level = level;
            self.asked_at = now;
        }
    }
}

impl ClientController for Client {
    fn on_demand(&mut self, now: Instant, demand: &Demand) -> Departure {
        if !demand.droppable || level(demand.priority, demand.id) <= self.level {
            return Departure::Now;
        }
        if now.since(self.asked_at) < self.probe_interval {
            return Departure::Drop(DropReason::Throttled);
        }
        self.asked_at = now;
        Departure::Now
    }

    fn on_response(&mut self, now: Instant, response: &Response) {
        self.apply(now, response.feedback);
    }

    fn on_push(&mut self, now: Instant, feedback: Feedback) {
        self.apply(now, feedback);
    }

    fn metrics(&self) -> Metrics {
        Metrics::new().with("admission_level", (f64::from(self.level) + 1.0) / f64::from(LEVELS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THROTTLED: Departure = Departure::Drop(DropReason::Throttled);

    fn client(variant: Variant, seed: u64) -> Client {
        let config = Config { variant, ..Config::default() };
        Client::new(&config, Init::new(Instant::ORIGIN, seed))
    }

    fn demand(priority: u8) -> Demand {
        Demand { priority: Priority(priority), ..Demand::new(0) }
    }

    /// The end of a priority.
    fn all_of(priority: u16) -> Feedback {
        Feedback::Level((priority + 1) * LEVELS - 1)
    }

    #[test]
    fn drops_what_lies_beyond_the_level() {
        let client = &mut client(Variant::Paper, 0);
        let now = Instant::ORIGIN;
        assert_eq!(client.on_demand(now, &demand(255)), Departure::Now);
        client.on_response(now, &Response::new(Duration::ZERO, all_of(59)));
        assert_eq!(client.on_demand(now, &demand(59)), Departure::Now);
        assert_eq!(client.on_demand(now, &demand(60)), THROTTLED);
        let privileged = Demand { droppable: false, ..demand(255) };
        assert_eq!(client.on_demand(now, &privileged), Departure::Now);
    }

    #[test]
    fn of_equals_the_level_drops_its_part() {
        let client = &mut client(Variant::Paper, 0);
        client.on_push(Instant::ORIGIN, Feedback::Level(128 * LEVELS + 31)); // 32 of 128
        let leaves = |id: &u64| {
            client.on_demand(Instant::ORIGIN, &Demand { id: *id, ..demand(128) }) == Departure::Now
        };
        let left = (0..10_000).filter(leaves).count();
        assert!((2_400..2_600).contains(&left), "{left}");
    }

    #[test]
    fn who_heard_nothing_for_long_asks_once() {
        let client = &mut client(Variant::Paper, 0);
        client.on_push(Instant::ORIGIN, all_of(1));
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        assert_eq!(client.on_demand(at(99), &demand(2)), THROTTLED);
        assert_eq!(client.on_demand(at(100), &demand(2)), Departure::Now);
        assert_eq!(client.on_demand(at(199), &demand(2)), THROTTLED);
        assert_eq!(client.on_demand(at(200), &demand(2)), Departure::Now);
        client.on_response(at(210), &Response::new(Duration::ZERO, all_of(2)));
        assert_eq!(client.on_demand(at(211), &demand(2)), Departure::Now);
        assert_eq!(client.on_demand(at(309), &demand(3)), THROTTLED);
    }

    #[test]
    fn released_clients_start_anywhere() {
        let [one, other] = [1, 2].map(|seed| client(Variant::Released, seed).level);
        assert!(one != other && one / LEVELS == 128 && other / LEVELS == 128);
    }
}
