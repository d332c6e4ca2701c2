//! A series of prices, one row for each minute, as the EUR/USD data of Svalinn's experiment has
//! them (§5.1), and made here: prices of exchanges are not free to pass on.
//!
//! **The process.** The price is a geometric Brownian motion without drift, in four steps a minute:
//!
//! ```text
//!   price ← price · exp(σ·u(t)·√(dt)·N − (σ·u(t))²·dt/2)       N standard normal
//! ```
//!
//! with a volatility σ of 8 % a year, as EUR/USD has had. Over the day (UTC) it is scaled by
//! `u(t)`, which is 0.6 at night and has a bump of 0.7 at the opening of London (7:30) and one of
//! 1.1 while New York is open as well (14:00), two hours wide each. Of a minute's four prices and
//! the one before them, the first is `open`, the last is `close`, and the extremes are `high` and
//! `low`, all rounded to a tenth of a pip (0.00001). `volume` counts ticks: exponential with a mean
//! of `60·u(t)²`. There are rows from Monday 0:00 to Friday 24:00, from 2 January 2023 on. The
//! normal numbers come from Seawall's own generator, so that a seed gives the same series
//! everywhere.

use seawall_control::Rng;

/// Rows that a series has if nothing else is said: about those of Svalinn's experiment.
pub const ROWS: usize = 372_960;

/// The seed if nothing else is said.
pub const SEED: u64 = 1;

/// Monday, 2 January 2023, 0:00 UTC, in seconds since 1970.
const START: i64 = 1_672_617_600;
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;

const PRICE: f64 = 1.07;
/// Volatility of a year, and the years of one step of a quarter of a minute, weekends left out.
const VOLATILITY: f64 = 0.08;
const STEPS: usize = 4;
const STEP_YEARS: f64 = 1.0 / (260.0 * 1_440.0 * STEPS as f64);
const TICKS: f64 = 60.0;

/// Columns of equal length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Begin of the minute, seconds since 1970.
    pub timestamp: Vec<i64>,
    /// First price.
    pub open: Vec<f64>,
    /// Highest price.
    pub high: Vec<f64>,
    /// Lowest price.
    pub low: Vec<f64>,
    /// Last price.
    pub close: Vec<f64>,
    /// Number of ticks.
    pub volume: Vec<u32>,
}

impl Series {
    /// The series of `rows` minutes that `seed` gives.
    pub fn generate(rows: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut series = Self::default();
        let mut price = PRICE;
        for row in 0..rows {
            let timestamp = timestamp(row);
            let activity = activity(timestamp);
            let deviation = VOLATILITY * activity * STEP_YEARS.sqrt();
            let mut path = [price; STEPS + 1];
            for step in 1..=STEPS {
                let exponent = deviation * rng.normal() - deviation * deviation / 2.0;
                path[step] = path[step - 1] * libm::exp(exponent);
            }
            price = path[STEPS];
            series.timestamp.push(timestamp);
            series.open.push(rounded(path[0]));
            series.high.push(rounded(path.iter().copied().fold(f64::MIN, f64::max)));
            series.low.push(rounded(path.iter().copied().fold(f64::MAX, f64::min)));
            series.close.push(rounded(price));
            series.volume.push((TICKS * activity * activity * rng.exponential()) as u32);
        }
        series
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.close.len()
    }
}

/// The minute of a row: weekends have none.
fn timestamp(row: usize) -> i64 {
    let minutes = row as i64;
    let (days, minute) = (minutes / (DAY / MINUTE), minutes % (DAY / MINUTE));
    START + (days / 5 * 7 + days % 5) * DAY + minute * MINUTE
}

/// `u(t)`: by how much prices move more than on average, and how much is traded.
fn activity(timestamp: i64) -> f64 {
    let hour = (timestamp % DAY) as f64 / 3_600.0;
    let bump = |center: f64| {
        let distance = (hour - center) / 2.0;
        libm::exp(-distance * distance / 2.0)
    };
    0.6 + 0.7 * bump(7.5) + 1.1 * bump(14.0)
}

fn rounded(price: f64) -> f64 {
    (price * 1e5).round() / 1e5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_series() {
        assert_eq!(Series::generate(500, 3), Series::generate(500, 3));
        assert_ne!(Series::generate(500, 3).close, Series::generate(500, 4).close);
        let (short, long) = (Series::generate(100, 3), Series::generate(500, 3));
        assert_eq!(short.close, long.close[..100]);
    }

    #[test]
    fn rows_are_minutes_of_working_days() {
        let series = Series::generate(15_000, 1);
        assert_eq!(series.rows(), 15_000);
        for pair in series.timestamp.windows(2) {
            assert!([MINUTE, MINUTE + 2 * DAY].contains(&(pair[1] - pair[0])), "{pair:?}");
        }
        // 1 January 1970 was a Thursday.
        let weekday = |timestamp: i64| (timestamp / DAY + 3) % 7;
        assert!(series.timestamp.iter().all(|&timestamp| weekday(timestamp) < 5));
        assert_eq!(weekday(START), 0);
    }

    #[test]
    fn prices_are_consistent() {
        let series = Series::generate(20_000, 2);
        for row in 0..series.rows() {
            let (low, high) = (series.low[row], series.high[row]);
            for price in [series.open[row], series.close[row]] {
                assert!(low <= price && price <= high && low > 0.0, "row {row}");
            }
            assert!(row == 0 || series.open[row] == series.close[row - 1], "row {row}");
        }
    }

    #[test]
    fn volatility_and_volume_are_as_documented() {
        let series = Series::generate(ROWS, SEED);
        let returns: Vec<f64> = series.close.windows(2).map(|p| libm::log(p[1] / p[0])).collect();
        let mean_square = |returns: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = returns.fold((0.0, 0.0), |(sum, n), r| (sum + r * r, n + 1.0));
            sum / count
        };
        let activities: Vec<f64> = series.timestamp.iter().copied().map(activity).collect();
        let mean_activity = activities.iter().map(|a| a * a).sum::<f64>() / ROWS as f64;
        let yearly = (mean_square(&mut returns.iter().copied()) * 260.0 * 1_440.0).sqrt();
        let expected = VOLATILITY * mean_activity.sqrt();
        assert!((yearly / expected - 1.0).abs() < 0.02, "{yearly} and not {expected}");

        let of_hour = |hour: i64| {
            let at = |row: &usize| series.timestamp[row + 1] % DAY / 3_600 == hour;
            mean_square(&mut (0..returns.len()).filter(at).map(|row| returns[row])).sqrt()
        };
        assert!(of_hour(14) > 2.0 * of_hour(21), "{} {}", of_hour(14), of_hour(21));
        let volume = series.volume.iter().map(|&ticks| f64::from(ticks)).sum::<f64>();
        let ticks = volume / ROWS as f64 / mean_activity;
        assert!((ticks - TICKS).abs() < 2.0, "{ticks}");
    }
}
