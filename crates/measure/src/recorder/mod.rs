//! What one measured point amounts to: goodput, throughput, tail latency and drops.
//!
//! A [`Recorder`] is told the outcome of each offered request and keeps counts and histograms; its
//! [`Summary`] is what a report, a plot or a claim reads. What counts is decided here, once:
//!
//! * A request counts when its *scheduled* time lies in the [`Window`], whenever it ends. What was
//!   scheduled near the end is waited for.
//! * Throughput alone counts by the time of *completion*, as [`Series`](crate::Series) does,
//!   whenever the request was due: a backlog from the warm-up is served in the window and costs the
//!   server what any other request costs, and one that outlasts the window is not served in it.
//! * Latency is `finished - scheduled`, for successes. It contains the lateness of the generator,
//!   the wait for a credit, both ways through the network, and all queues of the server
//!   (Breakwater, OSDI '20, section 5.1: "all delays faced by a request from the moment it is
//!   issued till its response is received by the client").
//! * Goodput counts successes with a latency of at most the SLO (section 5.1; the paper's SLO is
//!   ten times the sum of mean service time and round trip). A refusal never counts, however quick.
//! * Drops at the client and at the server are apart: only the latter cost the server anything, and
//!   only they are the paper's "drop rate". One divides by what was offered, the other by what
//!   reached the server.
//! * A point is valid only when the generator could offer its load, see [`Summary::valid`].

mod config;
mod summary;
mod tally;

use seawall_control::Instant;

pub use config::{MAX_CLASSES, RecorderConfig, RecorderConfigError, Window};
pub use summary::{ClassSummary, Figures, MIN_OFFERED, Summary};

use crate::latency::Latencies;
use crate::outcome::Outcome;
use tally::Tally;

/// Counts outcomes of one run; see the [module](self) for what counts.
///
/// Threads that share a run keep a recorder each and [merge](Self::merge) them at the end.
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    /// One for each class, by its index.
    tallies: Vec<Tally>,
    lateness: Latencies,
    /// Arrivals that the schedule put into the window, if the generator reports them.
    scheduled: u64,
}

impl Recorder {
    /// A recorder that has seen nothing.
    ///
    /// # Errors
    ///
    /// When the configuration makes no sense; the error names the field.
    pub fn new(config: RecorderConfig) -> Result<Self, RecorderConfigError> {
        config.check()?;
        Ok(Self {
            tallies: vec![Tally::default(); config.classes.len()],
            config,
            lateness: Latencies::new(),
            scheduled: 0,
        })
    }

    /// Records how an offered request ended.
    ///
    /// `class` is the index of its class in [`RecorderConfig::classes`]; `scheduled` when it was
    /// due, `finished` when its reply or refusal arrived or it was given up (for
    /// [`Outcome::Unanswered`], the end of the run).
    ///
    /// # Panics
    ///
    /// If there is no such class.
    pub fn record(
        &mut self,
        class: usize,
        scheduled: Instant,
        finished: Instant,
        outcome: Outcome,
    ) {
        let classes = self.tallies.len();
        assert!(class < classes, "class {class} of {classes} (counted from 0)");
        let RecorderConfig { window, slo, .. } = self.config;
        let tally = &mut self.tallies[class];
        if window.contains(scheduled) {
            tally.record(finished.since(scheduled), outcome, slo);
        }
        if outcome == Outcome::Success && window.contains(finished) {
            tally.completed += 1;
        }
    }

    /// Records that the schedule holds an arrival, whether or not the generator gets to offer it.
    ///
    /// A generator that may fall behind reports each arrival of its schedule here (also those that
    /// it never came to), so that the summary can tell whether it offered the load. A simulator,
    /// which cannot fall behind, need not.
    pub fn record_scheduled(&mut self, scheduled: Instant) {
        if self.config.window.contains(scheduled) {
            self.scheduled += 1;
        }
    }

    /// Records how late the generator itself was: it handed the request to the client at `issued`.
    pub fn record_lateness(&mut self, scheduled: Instant, issued: Instant) {
        if self.config.window.contains(scheduled) {
            self.lateness.record(issued.since(scheduled));
        }
    }

    /// Adds what another recorder of the same run has seen.
    ///
    /// # Panics
    ///
    /// If the two have different configurations: their numbers mean different things.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.config, other.config, "recorders of one run have one configuration");
        for (tally, other) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.merge(other);
        }
        self.lateness.merge(&other.lateness);
        self.scheduled += other.scheduled;
    }

    /// What has been recorded so far.
    pub fn summary(&self) -> Summary {
        summary::summarize(&self.config, &self.tallies, &self.lateness, self.scheduled)
    }

    /// The latencies of all classes together, those that the summary's quantiles are of.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        self.tallies.iter().for_each(|tally| all.merge(&tally.latency));
        all
    }

    /// The configuration.
    pub fn config(&self) -> &RecorderConfig {
        &self.config
    }
}
