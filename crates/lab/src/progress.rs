//! What a long command is doing, on standard error.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a bar is drawn while nothing is reported, so that its clock moves.
const TICK: Duration = Duration::from_millis(200);

/// How far a command has come: a bar on a terminal, and a line for each step elsewhere. What it has
/// drawn disappears when it is dropped.
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
}

impl Progress {
    /// Of a command that takes `count` steps.
    pub fn of_steps(count: u64) -> Self {
        let progress = Self::new(count, "{elapsed:>4} [{bar:30}] {pos}/{len} {wide_msg}");
        if !progress.lines {
            progress.bar.enable_steady_tick(TICK);
        }
        progress
    }

    /// Of doing the same so many times.
    pub fn of_count(count: u64, message: String) -> Self {
        let progress = Self::new(count, "{elapsed:>4} [{bar:40}] {human_pos}/{human_len} {msg}");
        if progress.lines {
            eprintln!("{message}");
        }
        progress.bar.set_message(message);
        progress
    }

    /// Of a command that takes this long.
    pub fn of_time(length: Duration, message: &'static str) -> Self {
        let progress = Self::new(length.as_millis() as u64, "{elapsed:>4} [{bar:40}] {msg}");
        progress.bar.set_message(message);
        progress
    }

    fn new(length: u64, template: &str) -> Self {
        let lines = !std::io::stderr().is_terminal();
        let bar = if lines { ProgressBar::hidden() } else { ProgressBar::new(0) };
        bar.set_length(length);
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, lines }
    }

    /// The next step begins.
    pub fn step(&self, step: String) {
        self.bar.inc(1);
        if self.lines {
            let (at, count) = (self.bar.position(), self.bar.length().unwrap_or(0));
            eprintln!("[{at}/{count}] {step}");
        }
        self.bar.set_message(step);
    }

    /// It has been done so many times.
    pub fn reached(&self, count: u64) {
        self.bar.set_position(count);
    }

    /// So much of the time has passed.
    pub fn passed(&self, time: Duration) {
        self.reached(time.as_millis() as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
