//! What a recorder must know before it counts.

use std::time::Duration;

use seawall_control::Instant;

use crate::duration::Text;

/// Classes that a recorder may have: each takes about half a megabyte of histograms.
pub const MAX_CLASSES: usize = 256;

/// The share of the SLO that the generator may be late (99th percentile) before a point is invalid:
/// above a tenth, the latency measured is no longer that of the server.
const LATENESS_SHARE: u32 = 10;

/// The measured part of a run: scheduled times from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First instant that counts.
    pub start: Instant,
    /// First instant that no longer counts.
    pub end: Instant,
}

impl Window {
    /// The `length` that follows the warm-up of a run which begins at `start`.
    ///
    /// Breakwater runs four seconds and measures the last two (section 5.1).
    pub fn after_warm_up(start: Instant, warm_up: Duration, length: Duration) -> Self {
        let start = start + warm_up;
        Self { start, end: start + length }
    }

    /// Whether a request scheduled at `at` counts.
    pub fn contains(&self, at: Instant) -> bool {
        self.start <= at && at < self.end
    }

    /// How long it is.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// Configuration of a [`Recorder`](super::Recorder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderConfig {
    /// The latency, counted from the scheduled time, up to which a success is goodput; one for all
    /// classes, as in all of the papers. Above zero.
    pub slo: Duration,
    /// The measured part of the run; what lies before it is warm-up. Not empty.
    pub window: Window,
    /// Names of the request classes; a class is known by its index. 1 to 256 different names; by
    /// default one class `all`.
    pub classes: Vec<String>,
    /// The 99th percentile of the generator's lateness above which the point is invalid. By
    /// default a tenth of the SLO; raise it only for SLOs that the machine's timers cannot
    /// serve, and say so.
    pub lateness_bound: Duration,
}

impl RecorderConfig {
    /// One class, and a tenth of the SLO as the bound of lateness.
    pub fn new(slo: Duration, window: Window) -> Self {
        Self { slo, window, classes: vec!["all".into()], lateness_bound: slo / LATENESS_SHARE }
    }

    /// The same with these classes.
    #[must_use]
    pub fn with_classes<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.classes = names.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn check(&self) -> Result<(), RecorderConfigError> {
        if self.slo.is_zero() {
            return Err(RecorderConfigError::Slo);
        }
        if self.window.length().is_zero() {
            return Err(RecorderConfigError::Window(Text(self.window.length())));
        }
        let classes = &self.classes;
        if classes.is_empty() || classes.len() > MAX_CLASSES {
            return Err(RecorderConfigError::Classes(classes.len()));
        }
        let repeated = |(index, name): (usize, &String)| classes[..index].contains(name);
        match classes.iter().enumerate().find(|&class| repeated(class)) {
            Some((_, name)) => Err(RecorderConfigError::RepeatedClass(name.clone())),
            None => Ok(()),
        }
    }
}

/// Why a [`RecorderConfig`] was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderConfigError {
    /// The SLO is zero.
    #[error("slo is 0s; allowed: above 0s")]
    Slo,
    /// The window is empty or ends before it starts.
    #[error("window is {0} long; allowed: above 0s (end after start)")]
    Window(Text),
    /// There are no classes, or too many.
    #[error("classes has {0} names; allowed: 1 to {MAX_CLASSES}")]
    Classes(usize),
    /// Two classes have one name.
    #[error("classes names `{0}` twice; allowed: different names")]
    RepeatedClass(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_follows_the_warm_up() {
        let window = Window::after_warm_up(
            Instant::from_micros(5),
            Duration::from_micros(10),
            Duration::from_micros(20),
        );
        assert_eq!(window.start, Instant::from_micros(15));
        assert!(!window.contains(Instant::from_nanos(14_999)));
        assert!(window.contains(Instant::from_micros(15)));
        assert!(window.contains(Instant::from_nanos(34_999)));
        assert!(!window.contains(Instant::from_micros(35)));
        assert_eq!(window.length(), Duration::from_micros(20));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let second = Duration::from_secs(1);
        let window = Window::after_warm_up(Instant::ORIGIN, second, second);
        let good = RecorderConfig::new(second, window);
        assert_eq!(good.check(), Ok(()));
        let message = |config: RecorderConfig| config.check().unwrap_err().to_string();
        let slo = RecorderConfig { slo: Duration::ZERO, ..good.clone() };
        assert!(message(slo).starts_with("slo is 0s"));
        let window = Window { start: window.end, end: window.start };
        let backwards = RecorderConfig { window, ..good.clone() };
        assert!(message(backwards).starts_with("window is 0s long"));
        let none: [&str; 0] = [];
        assert!(message(good.clone().with_classes(none)).contains("allowed: 1 to 256"));
        assert!(message(good.with_classes(["a", "b", "a"])).contains("`a` twice"));
    }
}
