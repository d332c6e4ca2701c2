//! One load over time: what `seawall load` measured, and what is said about it.

use seawall_measure::latency::is_lower_bound;
use seawall_measure::{Bin, Settled, Summary};

use super::format;

/// A load, what it was offered to, and what came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the servers run.
    pub algorithm: String,
    /// Sessions (connections) that the generator spread the load over.
    pub sessions: u32,
    /// Share of the answered lookups of a key-value store that found something, 0 to 1.
    pub hit_share: Option<f64>,
    /// Whether the SLO was chosen rather than that of the servers.
    pub slo_chosen: bool,
    /// What else was asked for: names and values, in the order in which they are shown.
    pub facts: Vec<(&'static str, String)>,
    /// What a reader must know before believing the numbers, as sentences.
    pub warnings: Vec<String>,
    /// The measured part of the run.
    pub summary: Summary,
    /// The whole run, in order of time.
    pub bins: Vec<Bin>,
    /// Width of a bin, in seconds.
    pub bin_s: f64,
    /// When the warm-up is over, in seconds since the start of the run.
    pub measured_from_s: f64,
    /// When the scheduled rate changed.
    pub shifts: Vec<Shift>,
}

/// A change of the scheduled rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// When, in seconds since the start of the run.
    pub at_s: f64,
    /// Requests per second before.
    pub from: f64,
    /// Requests per second after.
    pub to: f64,
    /// How the service took it.
    pub settled: Settled,
}

impl Report {
    /// Whether the tail is known to be within the SLO; `None` if nothing was served.
    pub(super) fn within_slo(&self) -> Option<bool> {
        let total = &self.summary.total;
        Some(total.p99_us? <= self.summary.slo_us && !is_lower_bound(0.99, total.latency_censored))
    }

    /// The tail as it is shown.
    pub(super) fn p99(&self) -> String {
        let total = &self.summary.total;
        format::quantile(total.p99_us, 0.99, total.latency_censored)
    }

    /// What came of it, in sentences with numbers.
    pub(super) fn sentences(&self) -> Vec<String> {
        let total = &self.summary.total;
        let slo = format::delay(self.summary.slo_us);
        let mut sentences = vec![format!(
            "Of {} requests/s, {}/s were served within the SLO of {slo}: {}.",
            format::rate(total.offered),
            format::rate(total.goodput),
            format::percent_of(total.goodput, total.offered),
        )];
        sentences.push(match self.within_slo() {
            Some(true) => format!("p99 latency was {}, within it.", self.p99()),
            Some(false) => format!("p99 latency was {}, above it.", self.p99()),
            None => "Nothing was served.".into(),
        });
        sentences.extend(self.shifts.iter().map(|shift| {
            let at = format::delay(shift.at_s * 1e6);
            format!("Load {} at {at}: {}.", shift.rates(), shift.settled())
        }));
        sentences
    }
}

impl Shift {
    /// Before and after.
    pub(super) fn rates(&self) -> String {
        format!("{} → {}/s", format::rate(self.from), format::rate(self.to))
    }

    /// How long the service took.
    pub(super) fn settled(&self) -> String {
        match self.settled {
            Settled::After(after) => {
                format!("stable after {}", format::delay(after.as_secs_f64() * 1e6))
            }
            Settled::Never => "not stable".into(),
            Settled::TooShort => "too short to judge".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use seawall_measure::Settled;

    use crate::report::sample;

    #[test]
    fn sentences_state_the_numbers() {
        let text = sample::run().sentences().join(" ");
        assert!(text.contains("within the SLO of 2.00 ms: 5"), "{text}");
        assert!(text.contains("p99 latency was 1.41 ms, within it."), "{text}");
        assert!(text.contains("Load 5.00k → 20.0k/s at 2.00 s: stable after 140 ms."), "{text}");
    }

    #[test]
    fn nothing_served_is_said() {
        let mut run = sample::run();
        run.summary.total.p99_us = None;
        run.summary.total.goodput = 0.0;
        run.shifts[0].settled = Settled::Never;
        let text = run.sentences().join(" ");
        assert!(text.contains("0/s were served within"), "{text}");
        assert!(text.contains("Nothing was served.") && text.contains("not stable."), "{text}");
        run.shifts[0].settled = Settled::TooShort;
        assert!(run.sentences().concat().contains("too short to judge."));
    }
}
