//! The server half: when it is overloaded, and what it does about it.

use core::time::Duration;

use super::{Config, Threshold, Variant, level};
use crate::controller::{Arrival, Feedback, Init, ServerController, SessionId, Signal, Verdict};
use crate::metrics::Metrics;
use crate::request::{Priority, Rejected, Stage};
use crate::time::{Instant, nanos};

/// How often the released code's running average takes a sample.
const SAMPLE_PERIOD: Duration = Duration::from_micros(10);

/// What the released code's running average keeps of itself at each sample.
const SAMPLE_MEMORY: f64 = 0.8;

/// Moves a threshold by the average queueing delay.
#[derive(Debug)]
pub struct Server {
    alpha: f64,
    beta: f64,
    overload_delay: Duration,
    window: Duration,
    window_requests: u32,
    /// Whether a window without requests is one without overload, or none at all.
    idle_windows: bool,
    average: Average,
    threshold: Threshold,
    /// Requests received in this window.
    requests: u32,
    /// When it began.
    began_at: Instant,
    queue_delay: Duration,
}

impl Server {
    /// A server without load, for the SLO of `init`.
    pub fn new(config: &Config, init: Init) -> Self {
        let (average, threshold) = match config.variant {
            Variant::Paper => (Average::of_requests(), Threshold::open()),
            // Its levels count from 0, its threshold starts at 32 and is at least 1.
            Variant::Released => {
                (Average::running(init.now), Threshold::new(Priority::default(), 33.0, 2.0))
            }
        };
        Self {
            alpha: config.alpha,
            beta: config.beta,
            overload_delay: config.overload_delay(init.slo),
            window: config.window,
            window_requests: config.window_requests,
            idle_windows: config.variant == Variant::Paper,
            average,
            threshold,
            requests: 0,
            began_at: init.now,
            queue_delay: Duration::ZERO,
        }
    }

    fn update_if_due(&mut self, now: Instant) {
        let windows = now.since(self.began_at).as_nanos() / self.window.as_nanos();
        if self.requests >= self.window_requests || (self.requests > 0 && windows > 0) {
            self.update(now);
        } else if self.idle_windows && windows > 0 {
            self.threshold.grow((self.beta * windows as f64).min(1.0));
            self.began_at = now;
        }
    }

    fn update(&mut self, now: Instant) {
        (self.requests, self.began_at) = (0, now);
        self.threshold.learn();
        if self.average.take_exceeds(now, self.overload_delay) {
            self.threshold.shrink(self.alpha);
        } else {
            self.threshold.grow(self.beta);
        }
    }
}

impl ServerController for Server {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival) -> Verdict {
        self.update_if_due(now);
        self.requests += 1;
        self.queue_delay = arrival.queue_delay;
        self.average.observe_request(now, arrival.queue_delay);
        if self.threshold.admits(level(arrival.priority, arrival.id)) || !arrival.droppable {
            return Verdict::Admit;
        }
        Verdict::Refuse(Rejected::overload(Stage::ADMISSION, arrival.queue_delay))
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        let Signal::QueueDelay(delay) = signal else { return };
        self.queue_delay = delay;
        self.average.observe_queue(now, delay);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.update_if_due(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.requests > 0).then(|| self.began_at + self.window)
    }

    fn feedback(&mut self, _now: Instant, _session: SessionId) -> Feedback {
        Feedback::Level(self.threshold.level())
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
            .with("admission_level", self.threshold.position())
            .with("queueing_delay_seconds", self.queue_delay.as_secs_f64())
            .with("target_delay_seconds", self.overload_delay.as_secs_f64())
    }
}

/// The average queueing delay, in nanoseconds.
#[derive(Debug)]
enum Average {
    /// Of the requests of a window, each by the delay that it met when it arrived, refused ones
    /// included: so it grows while nothing leaves the queue, too.
    OfRequests { sum: f64, count: f64 },
    /// Running, of the queue: moves towards `held`, the delay when it was last looked at.
    Running { value: f64, held: f64, since: Instant },
}

impl Average {
    const fn of_requests() -> Self {
        Self::OfRequests { sum: 0.0, count: 0.0 }
    }

    const fn running(now: Instant) -> Self {
        Self::Running { value: 0.0, held: 0.0, since: now }
    }

    /// A request arrives at a queue with this delay.
    fn observe_request(&mut self, now: Instant, delay: Duration) {
        match self {
            Self::OfRequests { sum, count } => {
                *sum += nanos(delay) as f64;
                *count += 1.0;
            }
            Self::Running { .. } => self.observe_queue(now, delay),
        }
    }

    /// The queue has this delay.
    fn observe_queue(&mut self, now: Instant, delay: Duration) {
        if let Self::Running { value, held, since } = self {
            // As many samples as fit into the time, all of what was last seen.
            let samples = now.since(*since).as_secs_f64() / SAMPLE_PERIOD.as_secs_f64();
            *value = *held + (*value - *held) * libm::pow(SAMPLE_MEMORY, samples);
            (*held, *since) = (nanos(delay) as f64, now);
        }
    }

    /// Whether the average of the window that ends now means overload.
    fn take_exceeds(&mut self, now: Instant, limit: Duration) -> bool {
        let limit = nanos(limit) as f64;
        match self {
            Self::OfRequests { sum, count } => {
                let exceeds = *sum > limit * *count;
                *self = Self::of_requests();
                exceeds
            }
            Self::Running { held, .. } => {
                let held = Duration::from_nanos(*held as u64);
                self.observe_queue(now, held);
                matches!(self, Self::Running { value, .. } if *value >= limit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dagor::LEVELS;
    use alloc::vec::Vec;

    const SESSION: SessionId = SessionId { slot: 0, generation: 0 };
    const LATE: Duration = Duration::from_micros(71);
    const IN_TIME: Duration = Duration::from_micros(70);

    fn server(config: &Config) -> Server {
        let slo = Duration::from_micros(200);
        Server::new(config, Init { slo, ..Init::new(Instant::ORIGIN, 0) })
    }

    fn released() -> Server {
        server(&Config { variant: Variant::Released, ..Config::default() })
    }

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    /// Requests of default priority, all at the same time; gives how many were admitted.
    fn arrive(server: &mut Server, now: Instant, count: u64, queue_delay: Duration) -> usize {
        let arrivals = (0..count).map(|id| Arrival { id, queue_delay, ..Arrival::new(SESSION) });
        arrivals.filter(|arrival| server.on_arrival(now, arrival) == Verdict::Admit).count()
    }

    /// Levels of the default priority that clients are told.
    fn told(server: &mut Server) -> u16 {
        let Feedback::Level(level) = server.feedback(Instant::ORIGIN, SESSION) else {
            panic!("no level")
        };
        (level + 1).saturating_sub(128 * LEVELS).min(LEVELS)
    }

    /// What is told once a window has ended in which requests met this delay.
    fn told_after(server: &mut Server, delay: Duration) -> u16 {
        let due = server.began_at + Duration::from_millis(1);
        arrive(server, due - Duration::from_micros(1), 100, delay);
        assert_eq!(server.poll_timeout(), Some(due));
        server.handle_timeout(due);
        assert_eq!(server.poll_timeout(), None, "without requests, there is no hurry");
        told(server)
    }

    #[test]
    fn more_than_the_limit_is_overload() {
        let server = &mut server(&Config::default());
        assert_eq!([LATE, LATE, IN_TIME].map(|delay| told_after(server, delay)), [121, 115, 116]);
        let (now, before) = (server.began_at, told(server));
        assert!(arrive(server, now, 1_000, IN_TIME) < 1_000);
        let mut privileged = Arrival::new(SESSION);
        privileged.droppable = false;
        (0..1_000).for_each(|id| {
            let arrival = Arrival { id, ..privileged };
            assert_eq!(server.on_arrival(now, &arrival), Verdict::Admit);
        });
        assert_eq!(told(server), before);
    }

    #[test]
    fn the_most_important_level_stays() {
        let server = &mut server(&Config::default());
        let told: Vec<_> = (0..300).map(|_| told_after(server, LATE)).collect();
        assert_eq!(told.last(), Some(&1));
        let served = arrive(server, server.began_at, 12_800, LATE);
        assert!((50..150).contains(&served), "{served}");
    }

    #[test]
    fn a_window_ends_after_its_time_or_its_requests() {
        let server = &mut server(&Config { window_requests: 10, ..Config::default() });
        arrive(server, at(500), 10, LATE);
        assert_eq!(told(server), 128);
        arrive(server, at(500), 1, IN_TIME); // the first of the next window
        assert_eq!(told(server), 121);
        arrive(server, at(1_499), 1, LATE);
        assert_eq!(told(server), 121);
        arrive(server, at(1_500), 1, IN_TIME); // after 70.5 µs on average
        assert_eq!(told(server), 115);
    }

    #[test]
    fn silence_is_no_overload_except_to_the_released_code() {
        for (mut server, level) in [(server(&Config::default()), 128), (released(), 1)] {
            while told(&mut server) > 2 {
                told_after(&mut server, LATE);
            }
            let before = told(&mut server);
            arrive(&mut server, at(10_000_000), 1, IN_TIME);
            assert_eq!(told(&mut server), level.max(before));
        }
    }

    #[test]
    fn the_released_average_follows_the_queue() {
        let server = &mut released();
        server.on_signal(at(0), Signal::QueueDelay(Duration::from_micros(100)));
        // 100 × (1 - 0.8⁵) = 67.2 µs after five samples, 73.8 µs after six.
        let overload =
            |server: &mut Server, now| server.average.take_exceeds(now, Duration::from_micros(70));
        assert!(!overload(server, at(50)));
        assert!(overload(server, at(60)));
        server.on_signal(at(60), Signal::QueueDelay(Duration::ZERO));
        assert!(!overload(server, at(70)));
    }

    #[test]
    fn the_released_thresholds() {
        let server = &mut released();
        assert_eq!(told(server), 33);
        arrive(server, at(0), 100, Duration::from_micros(100));
        server.handle_timeout(at(1_000));
        assert_eq!(told(server), 31); // 31.35
        (0..200).for_each(|_| server.threshold.shrink(0.05));
        assert_eq!(told(server), 2);
    }
}
