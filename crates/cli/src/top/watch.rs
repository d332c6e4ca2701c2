//! One reading after another.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Runtime};

use super::report::Report;
use crate::live::{Picture, Sample, Target, Verdict};

/// A listener that is read at intervals.
pub(super) struct Watch {
    runtime: Runtime,
    target: Target,
    interval: Duration,
    start: Instant,
    due: Instant,
    last: Option<Sample>,
}

impl Watch {
    pub(super) fn new(target: Target, interval: Duration) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let now = Instant::now();
        Ok(Self { runtime, target, interval, start: now, due: now, last: None })
    }

    /// Waits until the next reading is due, and says what has happened since the last one; nothing
    /// for the first reading of a process.
    ///
    /// # Errors
    ///
    /// If the listener does not answer. The next reading may again.
    pub(super) fn next(&mut self) -> Result<Option<Report>> {
        thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.due = Instant::now() + self.interval;
        let told = match self.runtime.block_on(self.target.read(self.start)) {
            Ok(told) => told,
            Err(error) => {
                self.last = None;
                return Err(error);
            }
        };
        if told.sample.metrics.is_empty() {
            self.last = None;
            return Ok(None);
        }
        let picture = self.last.as_ref().and_then(|last| Picture::between(last, &told.sample));
        self.last = Some(told.sample);
        Ok(picture.map(|picture| Report {
            about: told.about,
            verdict: Verdict::of(&picture),
            picture,
        }))
    }
}
