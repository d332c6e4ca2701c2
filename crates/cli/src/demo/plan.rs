//! What the demo measures, and for how long.

use std::time::Duration;

use clap::ValueEnum;
use seawall_measure::{KeyValueMix, ServiceTime};
use seawall_rpc::Request;

use crate::load::workload::{self, Workload};
use crate::report::data::NO_CONTROL;
use crate::serve::NULL;

/// The service time of the synthetic service.
pub(super) const SYNTHETIC_SERVICE: ServiceTime =
    ServiceTime::exponential(Duration::from_micros(100));

/// Times as multiples of a point's, which is 1.4 s unless told otherwise. Before each point, for
/// the controller to settle: half a second.
const WARM_UP: f64 = 0.36;

/// For the capacity: a second and a half.
const CAPACITY: f64 = 1.07;

/// Before the load rises and after it: one second and three.
const BEFORE_SPIKE: f64 = 0.72;
const AFTER_SPIKE: f64 = 2.14;

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Subject {
    /// Requests that each take 100 µs of CPU time on average
    Synthetic,
    /// The key-value store, read and written as in Breakwater's evaluation
    Kv,
}

/// The processors of server and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    pub(super) server: usize,
    pub(super) load: usize,
    pub(super) apart: Apart,
}

/// How far apart server and load are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apart {
    /// Each has a core of its own.
    Cores,
    /// Each has a hardware thread of the same core.
    Threads,
    /// There is one processor for both.
    Not,
}

/// What to measure of each service.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cores: Cores,
    pub(super) algorithm: String,
    pub(super) sessions: u32,
    pub(super) loads: Vec<f64>,
    /// How long each point is measured.
    pub(super) point: Duration,
}

impl Cores {
    /// The first of the processors is the server's. The load's is one of another core than
    /// [`siblings`](crate::pin::siblings) of the server's, if there is one.
    pub(super) fn choose(available: &[usize], siblings: fn(usize) -> Vec<usize>) -> Option<Self> {
        let (&server, others) = available.split_first()?;
        let same_core = siblings(server);
        let other_core = others.iter().find(|processor| !same_core.contains(processor));
        let (load, apart) = match (other_core, others.first()) {
            (Some(&load), _) => (load, Apart::Cores),
            (None, Some(&load)) => (load, Apart::Threads),
            (None, None) => (server, Apart::Not),
        };
        Some(Self { server, load, apart })
    }

    /// What a reader of the numbers should know of it.
    pub(super) fn note(&self) -> Option<&'static str> {
        match self.apart {
            Apart::Cores => None,
            Apart::Threads => Some(
                "Server and load are two hardware threads of the only core, so each slows the \
                 other down.",
            ),
            Apart::Not => Some("Server and load share the only core, so each disturbs the other."),
        }
    }
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Kv => "kv",
        }
    }

    pub(super) fn workload(self) -> Workload {
        match self {
            Self::Synthetic => Workload::Synthetic,
            Self::Kv => Workload::Kv(KeyValueMix::usr()),
        }
    }

    /// A call that does next to nothing, for the round trip.
    pub(super) fn ping(self) -> Request {
        match self {
            Self::Synthetic => Request::new(NULL, ""),
            Self::Kv => workload::get(u64::MAX),
        }
    }
}

impl Plan {
    /// How many steps one service takes.
    pub(super) fn steps(&self) -> u64 {
        let controls = self.controls().len() as u64;
        1 + controls * (self.loads.len() as u64 + 1)
    }

    /// No control, then the algorithm.
    pub(super) fn controls(&self) -> [&str; 2] {
        [NO_CONTROL, &self.algorithm]
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.point.mul_f64(WARM_UP)
    }

    pub(super) fn capacity(&self) -> Duration {
        self.point.mul_f64(CAPACITY)
    }

    /// How long the load is low before it rises, and how long it is high.
    pub(super) fn spike(&self) -> (Duration, Duration) {
        (self.point.mul_f64(BEFORE_SPIKE), self.point.mul_f64(AFTER_SPIKE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_load_are_as_far_apart_as_can_be() {
        let pairs = |processor| vec![processor / 2 * 2, processor / 2 * 2 + 1];
        let choose = |available: &[usize]| {
            let cores = Cores::choose(available, pairs)?;
            Some((cores.server, cores.load, cores.apart))
        };
        assert_eq!(choose(&[0, 1, 2, 3]), Some((0, 2, Apart::Cores)));
        assert_eq!(choose(&[1, 2]), Some((1, 2, Apart::Cores)));
        assert_eq!(choose(&[2, 3]), Some((2, 3, Apart::Threads)));
        assert_eq!(choose(&[3]), Some((3, 3, Apart::Not)));
        assert_eq!(choose(&[]), None);
    }
}
