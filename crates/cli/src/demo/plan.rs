//! What the demo measures, and for how long.

use std::time::Duration;

use clap::ValueEnum;
use seawall_measure::{KeyValueMix, ServiceTime};
use seawall_rpc::Request;

use crate::cores::Cores;
use crate::live::Screen;
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

/// What to measure of each service.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cores: Cores,
    pub(super) algorithm: String,
    pub(super) sessions: u32,
    pub(super) loads: Vec<f64>,
    /// How long each point is measured.
    pub(super) point: Duration,
    /// Where it is told which server runs now.
    pub(super) screen: Screen,
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
