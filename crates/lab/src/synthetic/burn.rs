//! CPU time, on demand: a loop of known speed.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Iterations of one calibration round: some tenths of a millisecond, so that most rounds are not
/// interrupted.
const ROUND: u64 = 100_000;

/// How long the calibration takes: enough for a core that was idle to reach its clock rate.
const CALIBRATION: Duration = Duration::from_millis(50);

/// Speed of the loop on this machine. The fastest round counts, because whatever disturbs a round
/// makes it slower.
static ITERATIONS_PER_NANO: LazyLock<f64> = LazyLock::new(|| {
    let begin = Instant::now();
    let mut fastest = Duration::MAX;
    while begin.elapsed() < CALIBRATION || fastest == Duration::MAX {
        let start = Instant::now();
        spin(ROUND);
        fastest = fastest.min(start.elapsed());
    }
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
    spin(iterations(time, *ITERATIONS_PER_NANO));
}

/// How often the loop runs in `time`.
fn iterations(time: Duration, per_nano: f64) -> u64 {
    (time.as_nanos() as f64 * per_nano) as u64
}

/// A chain of dependent multiplications, which no compiler shortens and no core runs ahead of.
fn spin(iterations: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..iterations {
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 1;
    }
    black_box(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_is_more_work() {
        let per_nano = *ITERATIONS_PER_NANO;
        // A core does between one iteration in a microsecond and a thousand in a nanosecond.
        assert!((1e-3..1e3).contains(&per_nano), "{per_nano}");
        let work: Vec<u64> = [0, 1, 10, 100, 10_000]
            .map(|us| iterations(Duration::from_micros(us), per_nano))
            .to_vec();
        assert_eq!(work[0], 0);
        assert!(work.is_sorted_by(|less, more| less < more), "{work:?}");
        assert_eq!(iterations(Duration::from_micros(10), 2.5), 25_000);
    }

    #[test]
    fn any_time_can_be_asked_for() {
        assert_eq!(iterations(Duration::MAX, f64::MAX), u64::MAX);
        burn(Duration::ZERO);
    }
}
