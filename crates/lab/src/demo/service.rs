//! What the demo overloads.

use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use seawall_measure::{KeyValueMix, Paths, ServiceTime};
use seawall_rpc::{Request, Threads};
use serde::{Deserialize, Serialize};

use crate::load::workload::{self, NamedBy, Workload};
use crate::synthetic::{self, NULL};

/// How long a request blocks its worker, and how long it holds the lock if it needs that.
const BLOCKED: Duration = Duration::from_millis(2);

/// Workers of the service with a lock: enough that requests which wait for it within the SLO leave
/// some to the others, where a thread waits no longer than its request can.
const WORKERS: usize = 16;

/// The part of the requests that need the lock.
const NEED_LOCK: f64 = 0.5;

/// CPU time of a request, on average.
const COMPUTED: ServiceTime = ServiceTime::exponential(Duration::from_micros(100));

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// One worker, which each request blocks for 2 ms, as a query to a database does
    Worker,
    /// Sixteen such workers; half of the requests hold one lock all the while
    Lock,
    /// Requests that take 100 µs of CPU time each, on a core of their own
    Cpu,
    /// The key-value store, read and written as in Breakwater's evaluation, on a core of its own
    Kv,
}

impl Service {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Lock => "lock",
            Self::Cpu => "cpu",
            Self::Kv => "kv",
        }
    }

    /// What it is, as the end of a sentence.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Worker => "one worker, which each request blocks for 2 ms",
            Self::Lock => "16 workers and one lock, which half of the requests hold for 2 ms",
            Self::Cpu => "requests that take 100 µs of CPU time each, on average",
            Self::Kv => "a key-value store with 99.8 % reads",
        }
    }

    /// What its requests are called, one name for each class that is measured.
    pub(super) fn classes(self) -> &'static [&'static str] {
        match self {
            Self::Worker => &["one worker"],
            Self::Lock => &["lock: needs it", "lock: others"],
            Self::Cpu => &["cpu"],
            Self::Kv => &["kv"],
        }
    }

    /// Requests for it.
    pub(super) fn workload(self) -> Workload {
        match self {
            Self::Worker | Self::Cpu => Workload::Synthetic,
            // By its data, so that the server cannot know beforehand which requests need the lock.
            Self::Lock => {
                Workload::Paths { by: NamedBy::Data, paths: Paths::Hot { first: NEED_LOCK } }
            }
            Self::Kv => Workload::Kv(KeyValueMix::usr()),
        }
    }

    /// A call that does next to nothing, for the round trip.
    pub(super) fn ping(self) -> Request {
        match self {
            Self::Kv => workload::get(u64::MAX),
            _ => Request::new(NULL, Bytes::new()),
        }
    }

    /// Whether it computes: then it needs a core of its own, and its load another one, which looks
    /// at the clock all the time.
    pub(super) fn computes(self) -> bool {
        matches!(self, Self::Cpu | Self::Kv)
    }

    /// What a request takes when nothing else is served, if that is known beforehand.
    pub(super) fn service_time(self) -> Option<Duration> {
        match self {
            Self::Worker | Self::Lock => Some(BLOCKED),
            Self::Cpu => Some(COMPUTED.mean()),
            Self::Kv => None,
        }
    }

    /// The synthetic service that it is, if it is one.
    pub(super) fn synthetic(self) -> Option<synthetic::Config> {
        let none = ServiceTime::constant(Duration::ZERO);
        let block = Some(ServiceTime::constant(BLOCKED));
        let defaults = synthetic::Config::default();
        match self {
            Self::Worker => Some(synthetic::Config { service: none, block, ..defaults }),
            Self::Lock => {
                let paths = Paths::Hot { first: NEED_LOCK };
                Some(synthetic::Config { service: none, block, paths, ..defaults })
            }
            Self::Cpu => Some(synthetic::Config { service: COMPUTED, ..defaults }),
            Self::Kv => None,
        }
    }

    /// Its threads. A worker that blocks cannot read meanwhile.
    pub(super) fn threads(self) -> Threads {
        match self {
            Self::Worker => Threads { workers: 1, dispatchers: 1, ..Threads::default() },
            Self::Lock => Threads { workers: WORKERS, dispatchers: 1, ..Threads::default() },
            Self::Cpu | Self::Kv => Threads::default(),
        }
    }
}
