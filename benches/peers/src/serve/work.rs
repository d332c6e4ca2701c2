//! What a request does once it is admitted: the same as in the server in Go.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use seawall_control::Rng;
use seawall_control::request::{Context, Rejected, Stage};
use tokio::sync::Mutex;

use super::timer;

/// Shape of the calibration: the fastest of so many runs of so many steps, which noise cannot make
/// faster.
const CALIBRATIONS: u32 = 40;
const CHUNK: u64 = 200_000;

/// The lock as a stage.
pub(super) const STAGE: Stage = Stage(16);
pub(super) const STAGE_NAME: &str = "hot";

/// What requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Nothing.
    Idle,
    /// Spend CPU time.
    Cpu,
    /// Hold the one lock, off the CPU.
    Lock,
    /// The hot ones hold the lock, the others wait as long without it.
    Mix,
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A failure that has nothing to do with load.
    Injected,
    /// The lock has refused it.
    Refused(Rejected),
}

/// The workload of a server.
#[derive(Debug)]
pub(super) struct Work {
    kind: Kind,
    hold: Duration,
    /// Steps of the loop that take the CPU time of a request.
    steps: u64,
    errors: f64,
    /// The lock that hot requests need.
    hot: Mutex<()>,
    /// The same, for requests with a context.
    stage: seawall_sync::Mutex<()>,
    /// Requests so far, of which the draws of errors are made.
    count: AtomicU64,
}

impl Work {
    pub(super) fn new(kind: Kind, hold: Duration, burn: Duration, errors: f64) -> Self {
        let steps = if kind == Kind::Cpu { steps(burn) } else { 0 };
        let stage = seawall_sync::Mutex::new(()).at(STAGE, STAGE_NAME);
        let (hot, count) = (Mutex::default(), AtomicU64::new(0));
        Self { kind, hold, steps, errors, hot, stage, count }
    }

    /// Serves one request. What is hot cannot be told from a path alone: a body that begins with h
    /// is hot, too. With a context, the lock may refuse it.
    ///
    /// # Errors
    ///
    /// As often as it is to fail, and where it is refused.
    pub(super) async fn run(
        &self,
        path: &str,
        body: &[u8],
        context: Option<&Context>,
    ) -> Result<(), End> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        if self.errors > 0.0 && Rng::new(number).chance(self.errors) {
            return Err(End::Injected);
        }
        match self.kind {
            Kind::Idle => {}
            Kind::Cpu => spin(self.steps),
            Kind::Mix if !is_hot(path, body) => timer::sleep(self.hold).await,
            Kind::Lock | Kind::Mix => match context {
                None => {
                    let _held = self.hot.lock().await;
                    timer::sleep(self.hold).await;
                }
                Some(context) => {
                    let _held = self.stage.lock(context).await.map_err(End::Refused)?;
                    timer::sleep(self.hold).await;
                }
            },
        }
        Ok(())
    }
}

fn is_hot(path: &str, body: &[u8]) -> bool {
    path.eq_ignore_ascii_case("hot") || body.first() == Some(&b'h')
}

/// Spends CPU time: a loop that needs no memory.
fn spin(steps: u64) {
    let mut x = steps | 1;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// The steps of [`spin`] that take this long on an idle core.
fn steps(burn: Duration) -> u64 {
    let timed = |_| {
        let begin = Instant::now();
        spin(black_box(CHUNK));
        begin.elapsed()
    };
    let fastest = (0..CALIBRATIONS).map(timed).min().unwrap_or(Duration::MAX);
    (CHUNK as f64 * burn.div_duration_f64(fastest.max(Duration::from_nanos(1)))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_is_a_path_or_a_body() {
        assert!(is_hot("hot", b"") && is_hot("Hot", b"c") && is_hot("work", b"h1"));
        assert!(!is_hot("cold", b"") && !is_hot("work", b"c1") && !is_hot("work", b""));
    }

    #[test]
    fn errors_come_as_often_as_they_are_to() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let work = Work::new(Kind::Idle, Duration::ZERO, Duration::ZERO, 0.01);
        let failed = runtime.block_on(async {
            let mut failed = 0;
            for _ in 0..10_000 {
                failed += usize::from(work.run("work", b"", None).await.is_err());
            }
            failed
        });
        assert!((60..140).contains(&failed), "{failed}");
    }

    #[test]
    fn twice_the_time_takes_twice_the_steps() {
        let ratio = steps(Duration::from_millis(4)) as f64 / steps(Duration::from_millis(2)) as f64;
        // Both are made of a fastest run of its own.
        assert!((1.0..4.0).contains(&ratio), "{ratio}");
    }
}
