//! A pause: a collector stops the world, and nobody who runs in it answers (LIBROS §V).
//!
//! ```text
//!   start ─► T = live × copy / workers + overhead      finish ─► copy, overhead learn
//!            │ live: what is used × what survived of it before
//!            └─► rest = T − elapsed; past T: as long again as it has outlasted T
//! ```
//!
//! ```
//! use core::time::Duration;
//! use seawall_control::Instant;
//! use seawall_control::predict::pause::{Collection, Config, Kind, Pauses, Spaces};
//!
//! let mut pauses = Pauses::new(&Config::default(), 1)?;
//! let eden = |megabytes: u64| Spaces { eden: megabytes << 20, ..Spaces::default() };
//! let ms = |ms: u64| Instant::from_micros(ms * 1_000);
//! for (start, megabytes) in [(100, 100), (300, 200), (600, 300)] {
//!     let collection = Collection { kind: Kind::Young, before: eden(megabytes), workers: 2 };
//!     pauses.on_start(ms(start), &collection);
//!     let end = ms(start + 5 + megabytes / 10);
//!     pauses.on_finish(end, Kind::Young, &eden(megabytes / 10)); // a tenth survives
//!     pauses.learn();
//! }
//! let fourth = Collection { kind: Kind::Young, before: eden(400), workers: 2 };
//! let predicted = pauses.on_start(ms(900), &fourth).unwrap();
//! assert!(predicted.abs_diff(Duration::from_millis(45)) < Duration::from_millis(1));
//! assert!(pauses.rest(ms(930)).unwrap() < Duration::from_millis(16));
//! # Ok::<(), seawall_control::config::ConfigError>(())
//! ```

mod fit;
mod live;

pub use fit::Line;

use core::time::Duration;

use serde::{Deserialize, Serialize};

use fit::Points;
use live::LiveBytes;

use super::Precision;
use crate::config::ConfigError;
use crate::estimate::Ewma;
use crate::random::Rng;
use crate::time::Instant;

/// Weight of the newest pause in how far off predictions are.
const WEIGHT: f64 = 0.125;

/// What a collection examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The young generation.
    Young,
    /// All of the heap.
    Full,
    /// Nothing, but the world stands still for a step of marking that else goes on beside it.
    Mark,
}

/// Bytes used in the spaces of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spaces {
    /// Where objects are made.
    pub eden: u64,
    /// Where those are that have survived, and are not old.
    pub survivor: u64,
    /// Where the others are.
    pub old: u64,
}

/// A collection that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// What it examines.
    pub kind: Kind,
    /// How full the heap is.
    pub before: Spaces,
    /// Threads of the collector.
    pub workers: u16,
}

/// How a line is laid through earlier pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Random sample consensus, which the paper found the most precise.
    #[default]
    Ransac,
    /// Ordinary least squares.
    Ols,
}

/// Parameters of the prediction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How the line is laid. Default RANSAC.
    pub fit: Fit,
    /// So many of the newest pauses of a kind count, from 8 to 4096. Default 128.
    pub window: u32,
}

/// Predicts how long pauses are.
#[derive(Clone, Debug)]
pub struct Pauses {
    fit: Fit,
    kinds: [Model; Kind::COUNT],
    live: LiveBytes,
    rng: Rng,
    current: Option<Current>,
    /// Of each fit.
    precision: [Precision; Fit::ALL.len()],
    /// How far off the used fit is, in seconds.
    off: Ewma,
}

/// What is known of pauses of one kind.
#[derive(Clone, Debug)]
struct Model {
    points: Points,
    lines: [Option<Line>; Fit::ALL.len()],
    /// There are points that the lines do not know.
    is_stale: bool,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    since: Instant,
    collection: Collection,
    /// Live bytes per worker.
    load: f64,
    /// What each fit says; `None` before the first pause of its kind.
    predicted: [Option<Duration>; Fit::ALL.len()],
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 3;
}

impl Fit {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Ransac, Self::Ols];
}

impl Spaces {
    /// All bytes that are used.
    pub fn sum(&self) -> u64 {
        self.eden.saturating_add(self.survivor).saturating_add(self.old)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { fit: Fit::default(), window: 128 }
    }
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("pause.window", self.window, 8..=4096)
    }
}

impl Pauses {
    /// A predictor that has seen no pause. All that it draws follows from `seed`.
    ///
    /// # Errors
    ///
    /// Names the first field of `config` that is out of range.
    pub fn new(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let model = Model {
            points: Points::new(config.window as usize),
            lines: [None; Fit::ALL.len()],
            is_stale: false,
        };
        Ok(Self {
            fit: config.fit,
            kinds: core::array::from_fn(|_| model.clone()),
            live: LiveBytes::default(),
            rng: Rng::new(seed),
            current: None,
            precision: Default::default(),
            off: Ewma::new(WEIGHT),
        })
    }

    /// The world stands still from `now` on. How long, if there was a pause of its kind before.
    pub fn on_start(&mut self, now: Instant, collection: &Collection) -> Option<Duration> {
        let load = self.load_of(collection).unwrap_or_default();
        let lines = self.kinds[collection.kind as usize].lines;
        let seconds = |line: Line| Duration::try_from_secs_f64(line.at(load)).ok();
        let predicted = lines.map(|line| line.and_then(seconds));
        self.current = Some(Current { since: now, collection: *collection, load, predicted });
        predicted[self.fit as usize]
    }

    /// The collection turns out to be of another kind, or to have become one.
    pub fn on_kind(&mut self, kind: Kind) {
        if let Some(Current { since, collection, .. }) = self.current
            && collection.kind != kind
        {
            self.on_start(since, &Collection { kind, ..collection });
        }
    }

    /// It goes on from `now` on, with so much left in the heap; what is known of the collection's
    /// kind now is learnt from. How long it stood, if it did.
    pub fn on_finish(&mut self, now: Instant, kind: Kind, after: &Spaces) -> Option<Duration> {
        let Current { since, collection, predicted, .. } = self.current.take()?;
        let real = now.since(since);
        for (precision, predicted) in self.precision.iter_mut().zip(predicted) {
            if let Some(predicted) = predicted {
                precision.observe(predicted, real);
            }
        }
        if let Some(predicted) = predicted[self.fit as usize] {
            self.off.observe(predicted.abs_diff(real).as_secs_f64());
        }
        let collection = Collection { kind, ..collection };
        // What was estimated, as it will be for the next; of the first, what it was.
        let estimated = self.load_of(&collection);
        self.live.observe(kind, &collection.before, after);
        let load = estimated.or_else(|| self.load_of(&collection)).unwrap_or_default();
        let model = &mut self.kinds[kind as usize];
        model.points.add(load, real.as_secs_f64());
        model.is_stale = true;
        Some(real)
    }

    /// Lays the lines anew through what has been seen: some 10 µs, for which the world need not
    /// stand still.
    pub fn learn(&mut self) {
        for model in self.kinds.iter_mut().filter(|model| model.is_stale) {
            model.lines = [model.points.ransac(&mut self.rng), model.points.ols()];
            model.is_stale = false;
        }
    }

    /// What each fit says of the pause that is; `None` before the first of its kind.
    pub fn predicted(&self, fit: Fit) -> Option<Duration> {
        self.current.and_then(|current| current.predicted[fit as usize])
    }

    /// Live bytes for each worker, as estimated, of the pause that is.
    pub fn load(&self) -> Option<f64> {
        self.current.map(|current| current.load)
    }

    /// How much longer the world stands still; `None` while it does not.
    ///
    /// A pause that has outlasted its prediction is predicted to do so as long again, as is one
    /// that nothing was predicted for. Nothing shorter is said than predictions are off on average.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let current = self.current?;
        let predicted = current.predicted[self.fit as usize].unwrap_or_default();
        let off = Duration::try_from_secs_f64(self.off.value().unwrap_or(0.0));
        Some(now.since(current.since).abs_diff(predicted).max(off.unwrap_or_default()))
    }

    fn load_of(&self, collection: &Collection) -> Option<f64> {
        let live = self.live.estimate(collection.kind, &collection.before)?;
        Some(live / f64::from(collection.workers.max(1)))
    }

    /// How precise predictions by `fit` were, whether it is the one that is used or not.
    pub fn precision(&self, fit: Fit) -> &Precision {
        &self.precision[fit as usize]
    }

    /// Seconds for each live byte of a worker, and those beside that, of pauses of `kind`. `None`
    /// before the first.
    pub fn line(&self, kind: Kind, fit: Fit) -> Option<Line> {
        self.kinds[kind as usize].lines[fit as usize]
    }
}

#[cfg(test)]
mod tests;
