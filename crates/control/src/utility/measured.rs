//! What a utility may look at.

use core::time::Duration;

use crate::credit::{ClassCounts, Window};
use crate::request::Class;

/// One measuring window, as rates and shares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Requests that came, per second, refused ones included.
    pub arrivals: f64,
    /// Answers, per second.
    pub throughput: f64,
    /// Answers to requests that had stayed within their budget of queueing delay, per second.
    pub goodput: f64,
    /// Requests that were refused, at entry or later, per second.
    pub drops: f64,
    /// Refused requests as a part of those that came, 0 to 1.
    pub drop_rate: f64,
    /// The largest queueing delay that was reported.
    pub queue_delay: Duration,
    /// Electrical power on average, watts; 0 where nothing measures it.
    pub power: f64,
    /// Memory bandwidth in use, bytes per second; 0 where nothing measures it.
    pub bandwidth: f64,
    /// Credits in the pool.
    pub pool: f64,
    /// Answers of each class, per second.
    pub throughput_of: [f64; Class::COUNT],
    /// Answers of each class within the budget, per second.
    pub goodput_of: [f64; Class::COUNT],
}

/// A metric that an expression may name, what it means, and its value.
pub type Metric = (&'static str, &'static str, fn(&Measured) -> f64);

/// The metrics that an expression may name, and what they mean. Beside them there are
/// `throughput_0` to `throughput_7` and `goodput_0` to `goodput_7`, those of a class of requests.
pub const METRICS: &[Metric] = &[
    ("arrivals", "requests that came, per second", |measured| measured.arrivals),
    ("throughput", "answers per second", |measured| measured.throughput),
    ("goodput", "answers per second to requests within their budget", |measured| measured.goodput),
    ("drops", "refused requests per second", |measured| measured.drops),
    ("drop_rate", "refused requests as a part of those that came, 0 to 1", |measured| {
        measured.drop_rate
    }),
    ("queue_delay", "largest queueing delay, seconds", |measured| {
        measured.queue_delay.as_secs_f64()
    }),
    ("power", "watts, 0 where nothing measures them", |measured| measured.power),
    (
        "bandwidth",
        "bytes per second from and to memory, 0 where nothing measures them",
        |measured| measured.bandwidth,
    ),
    ("pool", "credits in the pool", |measured| measured.pool),
];

/// To which window an answer belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// To that in which it was given.
    WhenAnswered,
    /// To that in which its request arrived, or to none if it was given later.
    WhenArrived,
}

impl Counting {
    /// Answers, answers within the budget, and refusals.
    fn of(self, counts: &ClassCounts) -> [u32; 3] {
        match self {
            Self::WhenAnswered => {
                let refused = counts.refused_at_entry + counts.refused;
                [counts.served, counts.served_in_budget, refused]
            }
            Self::WhenArrived => {
                let refused = counts.refused_at_entry + counts.refused_later;
                [counts.completions, counts.in_budget, refused]
            }
        }
    }
}

impl Measured {
    /// What `window` counted, as rates.
    pub(crate) fn of(window: &Window, counting: Counting) -> Self {
        let seconds = window.duration.max(Duration::from_nanos(1)).as_secs_f64();
        let rate = |count: u32| f64::from(count) / seconds;
        let arrivals = window.total().arrivals;
        let [answers, good, refused] = counting.of(&window.total());
        Self {
            arrivals: rate(arrivals),
            throughput: rate(answers),
            goodput: rate(good),
            drops: rate(refused),
            drop_rate: (f64::from(refused) / f64::from(arrivals.max(1))).min(1.0),
            queue_delay: window.queue_delay_max,
            pool: f64::from(window.pool),
            throughput_of: window.classes.map(|class| rate(counting.of(&class)[0])),
            goodput_of: window.classes.map(|class| rate(counting.of(&class)[1])),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let mut window = Window { duration: Duration::from_millis(10), ..Window::default() };
        window.pool = 40;
        window.classes[0] = ClassCounts { arrivals: 10, served: 9, completions: 7, ..counts() };
        window.classes[2] = ClassCounts { arrivals: 5, refused: 2, refused_later: 1, ..counts() };
        window
    }

    fn counts() -> ClassCounts {
        ClassCounts { refused_at_entry: 1, ..ClassCounts::default() }
    }

    #[test]
    fn counts_an_answer_when_it_is_given_or_when_its_request_came() {
        let answered = Measured::of(&window(), Counting::WhenAnswered);
        assert_eq!((answered.arrivals, answered.throughput), (1_500.0, 900.0));
        assert_eq!((answered.drops, answered.drop_rate), (400.0, 4.0 / 15.0));
        assert_eq!(answered.throughput_of[0], 900.0);
        let arrived = Measured::of(&window(), Counting::WhenArrived);
        assert_eq!((arrived.throughput, arrived.drops), (700.0, 300.0));
    }

    #[test]
    fn a_window_without_anything_is_zero_and_not_nonsense() {
        let nothing = Measured::of(&Window::default(), Counting::WhenAnswered);
        assert_eq!(nothing, Measured::default());
    }
}
