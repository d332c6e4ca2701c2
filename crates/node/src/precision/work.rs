//! CPU time, spent.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How fast this CPU does nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    rounds_per_us: f64,
}

impl Work {
    /// The fastest of some tries: the others were interrupted.
    pub(super) fn calibrate() -> Self {
        const ROUNDS: u64 = 2_000_000;
        let rate = |_| {
            let start = Instant::now();
            spin(ROUNDS);
            ROUNDS as f64 / (start.elapsed().as_secs_f64() * 1e6).max(1.0)
        };
        Self { rounds_per_us: (0..10).map(rate).fold(1.0, f64::max) }
    }

    /// Takes about so much CPU time, however long it takes.
    pub(super) fn run(self, time: Duration) {
        spin((self.rounds_per_us * time.as_secs_f64() * 1e6) as u64);
    }
}

fn spin(rounds: u64) {
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
    }
    black_box(number);
}
