//! How popular keys are.

use std::fmt;
use std::str::FromStr;

use seawall_control::Rng;

use super::zipf::Zipf;
use crate::spec::{Fields, SpecError, in_range, out_of_range, serde_as_text};

const FORMS: &str = "uniform:COUNT, zipf:COUNT:THETA, hot:COUNT:KEYS:REQUESTS";
/// Up to here, every count is exact as a floating-point number.
const MAX_COUNT: u64 = 1 << 50;
const COUNT_RANGE: &str = "1 to 2^50";
const THETA_RANGE: &str = "0 to 10";
const SHARE_RANGE: &str = "0 to 1";

/// How requests spread over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Popularity {
    /// Every key alike.
    Uniform,
    /// Key k (from 0) with a probability proportional to `1 / (k + 1)^theta`.
    Zipf {
        /// Skew, 0 (uniform) to 10; YCSB uses 0.99.
        theta: f64,
    },
    /// A few hot keys get most requests; among the hot ones and among the others all are alike.
    HotSet {
        /// Share of keys that are hot, 0 to 1; at least one key is.
        keys: f64,
        /// Share of requests that go to a hot key, 0 to 1.
        requests: f64,
    },
}

/// A number of keys and their popularity.
///
/// Texts: `uniform:100000`, `zipf:100000:0.99`, and `hot:100000:0.01:0.9`, where 1 % of the keys
/// get 90 % of the requests.
///
/// ```
/// use seawall_control::Rng;
/// use seawall_measure::Keys;
///
/// let keys: Keys = "zipf:100000:0.99".parse().unwrap();
/// assert!(keys.sample(&mut Rng::new(1)) < 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys {
    count: u64,
    popularity: Popularity,
    sampler: Sampler,
}

/// What sampling needs, computed once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sampler {
    Uniform,
    Zipf(Zipf),
    HotSet { hot: u64, requests: f64 },
}

impl Keys {
    /// `count` keys with the given popularity.
    ///
    /// # Errors
    ///
    /// When `count` is not in 1 to 2^50, or a parameter outside the range given at its field.
    pub fn new(count: u64, popularity: Popularity) -> Result<Self, SpecError> {
        if count == 0 || count > MAX_COUNT {
            return Err(out_of_range("count", count.to_string(), COUNT_RANGE));
        }
        let sampler = match popularity {
            Popularity::Uniform => Sampler::Uniform,
            Popularity::Zipf { theta } => {
                in_range("theta", theta, 0.0..=10.0, THETA_RANGE)?;
                Sampler::Zipf(Zipf::new(count, theta))
            }
            Popularity::HotSet { keys, requests } => {
                in_range("keys", keys, 0.0..=1.0, SHARE_RANGE)?;
                in_range("requests", requests, 0.0..=1.0, SHARE_RANGE)?;
                let hot = libm::round(count as f64 * keys) as u64;
                Sampler::HotSet { hot: hot.clamp(1, count), requests }
            }
        };
        Ok(Self { count, popularity, sampler })
    }

    /// The key of one request, below the count.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        match self.sampler {
            Sampler::Uniform => rng.below(self.count),
            Sampler::Zipf(zipf) => zipf.sample(rng) - 1,
            Sampler::HotSet { hot, requests } => {
                if hot == self.count || rng.chance(requests) {
                    rng.below(hot)
                } else {
                    hot + rng.below(self.count - hot)
                }
            }
        }
    }

    /// How many keys there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// How requests spread over them.
    pub const fn popularity(&self) -> Popularity {
        self.popularity
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        match self.popularity {
            Popularity::Uniform => write!(f, "uniform:{count}"),
            Popularity::Zipf { theta } => write!(f, "zipf:{count}:{theta}"),
            Popularity::HotSet { keys, requests } => write!(f, "hot:{count}:{keys}:{requests}"),
        }
    }
}

impl FromStr for Keys {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = Fields::split(text);
        let form = match name {
            "uniform" => "uniform:COUNT",
            "zipf" => "zipf:COUNT:THETA",
            "hot" => "hot:COUNT:KEYS:REQUESTS",
            _ => {
                let (what, name) = ("key popularity", name.into());
                return Err(SpecError::UnknownName { what, name, allowed: FORMS });
            }
        };
        let mut fields = Fields::new(rest, form);
        let count = fields.integer("count", COUNT_RANGE)?;
        let popularity = match name {
            "uniform" => Popularity::Uniform,
            "zipf" => Popularity::Zipf { theta: fields.number("theta", THETA_RANGE)? },
            _ => Popularity::HotSet {
                keys: fields.number("keys", SHARE_RANGE)?,
                requests: fields.number("requests", SHARE_RANGE)?,
            },
        };
        fields.end()?;
        Self::new(count, popularity)
    }
}

serde_as_text!(Keys);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seawall_control::Rng;

    use super::*;

    fn counts(text: &str) -> Vec<f64> {
        let keys: Keys = text.parse().unwrap();
        let mut rng = Rng::new(9);
        let mut counts = vec![0.0; keys.count() as usize];
        for _ in 0..100_000 {
            counts[keys.sample(&mut rng) as usize] += 1.0;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_alike() {
        assert!(counts("uniform:10").iter().all(|n| (n - 10_000.0).abs() < 500.0));
    }

    #[test]
    fn hot_keys_get_their_share() {
        let counts = counts("hot:100:0.05:0.9");
        let hot: f64 = counts[..5].iter().sum();
        assert!((hot - 90_000.0).abs() < 500.0, "{hot}");
        assert!(counts[..5].iter().all(|n| (n - 18_000.0).abs() < 700.0));
        assert!(counts[5..].iter().all(|n| (n - 105.0).abs() < 60.0));
    }

    #[test]
    fn hot_set_is_never_empty_and_may_be_all() {
        assert_eq!(counts("hot:10:0:1")[0], 100_000.0);
        assert!(counts("hot:10:1:0").iter().all(|&n| n > 9_000.0));
    }

    #[test]
    fn zipf_begins_with_the_most_popular_key() {
        let counts = counts("zipf:1000:0.99");
        let harmonic: f64 = (1..=1000).map(|k| f64::from(k).powf(-0.99)).sum();
        assert!((counts[0] - 100_000.0 / harmonic).abs() < 600.0);
        assert!(counts[0] > counts[1] && counts[1] > counts[10]);
    }

    #[test]
    fn same_seed_same_sequence() {
        for text in ["uniform:99", "zipf:99:1", "hot:99:0.1:0.9"] {
            assert_eq!(counts(text), counts(text));
        }
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<Keys>().unwrap_err().to_string();
        assert!(message("latest:5").contains("allowed: uniform:COUNT, zipf:COUNT:THETA"));
        assert_eq!(message("uniform"), "count is missing; write uniform:COUNT");
        assert_eq!(message("uniform:0"), "count is 0; allowed: 1 to 2^50");
        assert_eq!(message("uniform:-1"), "count `-1` is not a number; allowed: 1 to 2^50");
        assert_eq!(message("zipf:10:11"), "theta is 11; allowed: 0 to 10");
        assert_eq!(message("hot:10:0.1:2"), "requests is 2; allowed: 0 to 1");
    }

    proptest! {
        #[test]
        fn text_reads_back_and_keys_stay_in_range(
            count in 1..=MAX_COUNT,
            kind in 0..3,
            theta in 0.0..=10.0,
            keys in 0.0..=1.0,
            requests in 0.0..=1.0,
            seed: u64,
        ) {
            let popularity = match kind {
                0 => Popularity::Uniform,
                1 => Popularity::Zipf { theta },
                _ => Popularity::HotSet { keys, requests },
            };
            let keys = Keys::new(count, popularity).unwrap();
            prop_assert_eq!(keys.to_string().parse(), Ok(keys));
            prop_assert!(keys.sample(&mut Rng::new(seed)) < count);
        }
    }
}
