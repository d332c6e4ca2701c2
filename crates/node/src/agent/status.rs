//! What the agent counts: one vocabulary for its metrics, its summary and its tests.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::responder::ResponderStatus;

/// Passes whose lateness is kept.
const LATENESS_KEPT: usize = 1_000;

/// Counts since the agent began, and how things stand.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// Looks at all containers.
    pub passes: u64,
    /// Passes that did not take place because the one before took too long.
    pub passes_missed: u64,
    /// How the newest passes kept time.
    pub lateness: Lateness,
    /// Decisions that were carried out, by what was changed and why.
    pub decisions: BTreeMap<String, u64>,
    /// Decisions that were cut because they lay outside of floor, limit, or what there is.
    pub overruled: u64,
    /// Changes of a container's CPU that somebody else made.
    pub foreign_changes: u64,
    /// Things that went wrong, by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Containers that have gone.
    pub gone: u64,
    /// Containers that had CPU left to others after too many contests.
    pub left_alone: u64,
    /// Reports that could not be believed, by kind.
    pub refusals: BTreeMap<&'static str, u64>,
    /// How often the watchdog was started.
    pub watchdog_starts: u64,
    /// Units that nobody has.
    pub units_free: u32,
    /// Pages that are read.
    pub pages: usize,
    /// Files called pages that are not read.
    pub pages_refused: usize,
    /// Pages that are not read because their process, container or owner has too many.
    pub pages_cut: usize,
    /// Pages of services that had died, which were removed.
    pub pages_removed: u64,
    /// Boosts of containers whose requests came late.
    pub responder: ResponderStatus,
    /// Each container that is managed, by name.
    pub containers: BTreeMap<String, ContainerStatus>,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ContainerStatus {
    /// Units that it has.
    pub units: u32,
    /// It never has fewer.
    pub floor: u32,
    /// It never has more.
    pub limit: u32,
    /// Its frequency level.
    pub level: u16,
    /// Whether its service says that it lives.
    pub is_heard: bool,
    /// Whether a group around it has less than its limit.
    pub is_bound: bool,
    /// How many conditions for more it fulfils; 0 if it needs nothing.
    pub score: u32,
    /// Whether it needs more and there is nothing left to give: a replica elsewhere would help.
    pub is_unmet: bool,
    /// Requests that it refused for want of CPU.
    pub shed: u64,
}

/// How late passes began, and how long they took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lateness {
    #[serde(skip)]
    newest: VecDeque<(Duration, Duration)>,
    /// The longest ever, in microseconds.
    pub late_max_us: u64,
    /// The longest pass ever, in microseconds.
    pub took_max_us: u64,
}

impl Lateness {
    /// A pass began so late, and took so long.
    pub fn record(&mut self, late: Duration, took: Duration) {
        if self.newest.len() == LATENESS_KEPT {
            self.newest.pop_front();
        }
        self.newest.push_back((late, took));
        self.late_max_us = self.late_max_us.max(late.as_micros() as u64);
        self.took_max_us = self.took_max_us.max(took.as_micros() as u64);
    }

    /// How late the newest pass was, and how long it took.
    pub fn last(&self) -> Option<(Duration, Duration)> {
        self.newest.back().copied()
    }

    /// What a share of the newest 1000 passes was at most late.
    pub fn late(&self, share: f64) -> Duration {
        quantile(self.newest.iter().map(|(late, _)| *late).collect(), share)
    }

    /// What a share of the newest 1000 passes took at most.
    pub fn took(&self, share: f64) -> Duration {
        quantile(self.newest.iter().map(|(_, took)| *took).collect(), share)
    }
}

/// What this share of them is at most; zero if there are none.
pub fn quantile(mut values: Vec<Duration>, share: f64) -> Duration {
    values.sort_unstable();
    let place = (share * values.len() as f64).ceil() as usize;
    values.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

impl Status {
    /// Counts an error.
    pub(super) fn error(&mut self, kind: &'static str) {
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Counts a decision.
    pub(super) fn decision(&mut self, what: &str, reason: &str) {
        let key = format!("{what}: {}", label(reason));
        *self.decisions.entry(key).or_default() += 1;
    }
}

/// A reason without its figures, of which there are too many for a label.
fn label(reason: &str) -> &str {
    let end = reason.find([':', '(']).unwrap_or(reason.len());
    reason[..end].trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_without_their_figures() {
        let mut status = Status::default();
        for reason in ["scored 2: slow, hinted", "scored 1: late", "idle"] {
            status.decision("units", reason);
        }
        let counts: Vec<_> = status.decisions.into_iter().collect();
        assert_eq!(counts, [("units: idle".to_owned(), 1), ("units: scored".to_owned(), 2)]);
    }

    #[test]
    fn quantiles_are_of_the_newest() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.late(0.99), Duration::ZERO);
        for number in 1..=2_000 {
            lateness.record(Duration::from_micros(number), Duration::from_micros(1));
        }
        assert_eq!(lateness.late(0.5), Duration::from_micros(1_500));
        assert_eq!(lateness.late(0.99), Duration::from_micros(1_990));
        assert_eq!((lateness.late_max_us, lateness.took_max_us), (2_000, 1));
        assert_eq!(lateness.last(), Some((Duration::from_millis(2), Duration::from_micros(1))));
    }
}
