//! CPU time, on demand: a loop of known speed.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Iterations of one calibration round: some milliseconds.
const ROUND: u64 = 2_000_000;

/// Rounds; the fastest counts, because whatever disturbs a round makes it slower.
const ROUNDS: usize = 15;

static ITERATIONS_PER_NANO: LazyLock<f64> = LazyLock::new(|| {
    let fastest = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            spin(ROUND);
            start.elapsed()
        })
        .min()
        .unwrap_or(Duration::from_nanos(1));
    ROUND as f64 / fastest.as_nanos().max(1) as f64
});

/// Measures how fast the loop runs here, if that has not been done yet.
pub(super) fn calibrate() {
    LazyLock::force(&ITERATIONS_PER_NANO);
}

/// Does as much work as takes `time` on an undisturbed core.
///
/// Work, not time: a request that is interrupted takes longer, as a real one would.
pub(super) fn burn(time: Duration) {
    spin((time.as_nanos() as f64 * *ITERATIONS_PER_NANO) as u64);
}

/// A chain of dependent multiplications, which no compiler shortens and no core runs ahead of.
fn spin(iterations: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..iterations {
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 1;
    }
    black_box(x);
}
