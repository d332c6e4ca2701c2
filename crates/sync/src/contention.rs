//! Which stages of this process are contended: measured at each of them, and put in order.
//!
//! Whoever hunts for the lock to replace starts here (Protego §4, "identifying contended locks"):
//!
//! ```
//! println!("{}", seawall_sync::contention::report());
//! ```
//!
//! A stage is listed from the first time that somebody waits or is refused there until it is
//! dropped; a semaphore for memory also once its capacity was set.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use seawall_control::estimate::{Histogram, SharedHistogram};
use seawall_control::predict::hold::Forecast;
use seawall_control::request::Stage;

use crate::clock;
use crate::queue::Site;

/// Stages that are not alive any more are swept out when the list would exceed twice the number of
/// those that are, and this many.
const SWEEP_FROM: usize = 64;

static SITES: Mutex<Sites> = Mutex::new(Sites { known: Vec::new(), sweep_at: SWEEP_FROM });

/// By name, and not by stage: there may be very many locks of one name. Names are the program's own
/// words, or places in it, so that there are only so many.
static TIMES: Mutex<BTreeMap<Name, Arc<SharedHistogram>>> = Mutex::new(BTreeMap::new());

struct Sites {
    known: Vec<Weak<Site>>,
    sweep_at: usize,
}

/// What a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// A [`RwLock`](crate::RwLock).
    RwLock,
    /// A [`Condvar`](crate::Condvar).
    Condvar,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// A [`Pool`](crate::Pool).
    Pool,
    /// A [`Gate`](crate::Gate).
    Gate,
    /// A [`MemorySemaphore`](crate::MemorySemaphore).
    Memory,
}

/// What a stage is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// As its owner named it.
    Given(&'static str),
    /// Nobody named it: where it was made.
    Place(&'static Location<'static>),
}

/// What was measured at one stage.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// What it is.
    pub kind: Kind,
    /// Its number in refusals.
    pub stage: Stage,
    /// What it is called.
    pub name: Name,
    /// How many wait there now.
    pub waiters: u32,
    /// Queueing delay: age of the oldest waiter, zero when nobody waits.
    pub oldest: Duration,
    /// How long it is held, on average over recent holds; zero while unknown. Sampled from holds
    /// that somebody had to wait for, and from one of 64 others.
    pub hold: Duration,
    /// How often it was acquired. In a [`Report`] the newest 63 may be missing.
    pub acquisitions: u64,
    /// How often somebody waited and got what was waited for.
    pub waits: u64,
    /// How often somebody gave up waiting: the future was dropped.
    pub given_up: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// How long all waiters together have waited.
    pub waited: Duration,
    /// By how much a prediction missed the wait, relative to the wait, on average; `None` before
    /// anybody waited. Over those that were let in, because nobody knows how long the others would
    /// have waited, and without those that waited ahead of the others.
    pub prediction_error: Option<f64>,
    /// How well the holds are predicted whose holders said what they did.
    pub forecasts: Vec<Forecast>,
}

/// All stages at which somebody had to wait, those with the longest total wait first.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// One row for each stage.
    pub stages: Vec<Snapshot>,
}

impl Snapshot {
    /// Of a stage where nothing has happened.
    pub(crate) fn new(kind: Kind, stage: Stage, name: Name) -> Self {
        Self {
            kind,
            stage,
            name,
            waiters: 0,
            oldest: Duration::ZERO,
            hold: Duration::ZERO,
            acquisitions: 0,
            waits: 0,
            given_up: 0,
            refusals: 0,
            waited: Duration::ZERO,
            prediction_error: None,
            forecasts: Vec::new(),
        }
    }
}

/// Measures all stages of the process at which somebody had to wait.
pub fn report() -> Report {
    let sites: Vec<_> = lock().known.iter().filter_map(Weak::upgrade).collect();
    let now = clock::now();
    let mut stages: Vec<_> = sites.iter().map(|site| site.snapshot(now)).collect();
    stages.sort_by_key(|stage| Reverse((stage.waited, stage.refusals)));
    Report { stages }
}

/// How long those waited who got what they waited for, at all stages of each name so far, also at
/// stages that are not alive any more.
pub fn wait_times() -> Vec<(Name, Histogram)> {
    let all = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().map(|(name, times)| (*name, times.snapshot())).collect()
}

/// Where a stage of this name counts how long is waited there.
pub(crate) fn times(name: Name) -> Arc<SharedHistogram> {
    let mut all = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(name).or_default().clone()
}

/// Lists a stage for as long as it lives.
pub(crate) fn register(site: &Arc<Site>) {
    let mut sites = lock();
    if sites.known.len() >= sites.sweep_at {
        sites.known.retain(|site| site.strong_count() > 0);
        sites.sweep_at = (2 * sites.known.len()).max(SWEEP_FROM);
    }
    sites.known.push(Arc::downgrade(site));
}

fn lock() -> std::sync::MutexGuard<'static, Sites> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Condvar => "condvar",
            Self::Semaphore => "semaphore",
            Self::Pool => "pool",
            Self::Gate => "gate",
            Self::Memory => "memory",
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => f.write_str(name),
            Self::Place(place) => write!(f, "{}:{}", place.file(), place.line()),
        }
    }
}

/// A table with a row for each stage.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stages.is_empty() {
            return f.write_str("nobody had to wait");
        }
        write!(
            f,
            "{:>12} {:>10} {:>10} {:>12} {:>10} {:>8} {:>10}  {:<9} stage",
            "waited", "waits", "refusals", "acquisitions", "hold", "waiters", "oldest", "kind"
        )?;
        for stage in &self.stages {
            let [waited, hold, oldest] =
                [stage.waited, stage.hold, stage.oldest].map(|time| format!("{time:.1?}"));
            write!(
                f,
                "\n{waited:>12} {:>10} {:>10} {:>12} {hold:>10} {:>8} {oldest:>10}  {:<9} {}",
                stage.waits,
                stage.refusals,
                stage.acquisitions,
                stage.waiters,
                stage.kind,
                stage.name
            )?;
        }
        Ok(())
    }
}
