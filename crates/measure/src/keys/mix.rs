//! Reads and writes of a key-value store.

use std::fmt;
use std::str::FromStr;

use seawall_control::Rng;

use super::popularity::{Keys, Popularity};
use crate::spec::{Fields, SpecError, in_range, out_of_range, serde_as_text};

const SIZE_RANGE: &str = "0 to 1073741824 bytes";
/// Far above what a request should carry. It is no promise that a server takes as much: whoever
/// sends the values compares them with what that allows.
const MAX_SIZE: u32 = 1 << 30;
const SHARE_RANGE: &str = "0 to 1";
const MIX_FORMS: &str =
    "usr, usr-skewed, var, or GETS/KEYS/VALUES such as 0.998/uniform:100000/const:5";

/// How long values are, in bytes. Texts: `const:5`, `uniform:5:1000` (both ends included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSize {
    min: u32,
    max: u32,
}

impl ValueSize {
    /// Lengths from `min` to `max` bytes, both included and all alike.
    ///
    /// # Errors
    ///
    /// When `max` is above 2^30 or below `min`.
    pub fn uniform(min: u32, max: u32) -> Result<Self, SpecError> {
        if max > MAX_SIZE {
            return Err(out_of_range("max", max.to_string(), SIZE_RANGE));
        }
        if min > max {
            return Err(out_of_range("min", min.to_string(), "0 to the value of max"));
        }
        Ok(Self { min, max })
    }

    /// All values are `bytes` long.
    ///
    /// # Errors
    ///
    /// When `bytes` is above 2^30.
    pub fn constant(bytes: u32) -> Result<Self, SpecError> {
        Self::uniform(bytes, bytes)
    }

    /// The length of one value, in bytes.
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        if self.min == self.max {
            return self.min;
        }
        let span = u64::from(self.max - self.min) + 1;
        self.min + rng.below(span) as u32
    }

    /// The longest value, in bytes.
    pub const fn max(&self) -> u32 {
        self.max
    }
}

impl fmt::Display for ValueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "const:{}", self.min)
        } else {
            write!(f, "uniform:{}:{}", self.min, self.max)
        }
    }
}

impl FromStr for ValueSize {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (name, rest) = Fields::split(text);
        let allowed = "const:BYTES, uniform:MIN:MAX";
        let mut fields = Fields::new(rest, allowed);
        let mut size = |field| {
            let bytes = fields.integer(field, SIZE_RANGE)?;
            u32::try_from(bytes).map_err(|_| out_of_range(field, bytes.to_string(), SIZE_RANGE))
        };
        let value = match name {
            "const" | "constant" => Self::constant(size("bytes")?)?,
            "uniform" => Self::uniform(size("min")?, size("max")?)?,
            _ => {
                let (what, name) = ("value size", name.into());
                return Err(SpecError::UnknownName { what, name, allowed });
            }
        };
        fields.end()?;
        Ok(value)
    }
}

/// One request to a key-value store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read a key.
    Get {
        /// The key's number.
        key: u64,
    },
    /// Write a key.
    Set {
        /// The key's number.
        key: u64,
        /// Length of the new value, in bytes.
        value_len: u32,
    },
}

/// Which requests a key-value store receives.
///
/// Texts: `usr`, `usr-skewed`, `var`, or `GETS/KEYS/VALUES` such as
/// `0.18/uniform:100000/uniform:5:1000`, where GETS is the share of reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValueMix {
    gets: f64,
    keys: Keys,
    values: ValueSize,
}

/// A mix's name, and how it is made.
type Named = (&'static str, fn() -> KeyValueMix);

/// Mixes that have a name.
const NAMED: [Named; 3] =
    [("usr", KeyValueMix::usr), ("usr-skewed", KeyValueMix::usr_skewed), ("var", KeyValueMix::var)];

/// 100,000 keys, a part `keys` of which gets a part `requests` of the requests.
fn skewed(keys: f64, requests: f64) -> Keys {
    Keys::new(100_000, Popularity::HotSet { keys, requests }).expect("in range")
}

impl KeyValueMix {
    /// A share `gets` of reads (0 to 1) and the rest writes, over `keys`, of values of such sizes.
    ///
    /// # Errors
    ///
    /// When `gets` is not in 0 to 1.
    pub fn new(gets: f64, keys: Keys, values: ValueSize) -> Result<Self, SpecError> {
        in_range("gets", gets, 0.0..=1.0, SHARE_RANGE)?;
        Ok(Self { gets, keys, values })
    }

    /// USR, a pool of Facebook's memcached (Atikoglu et al., SIGMETRICS '12): 99.8 % GET
    /// and 0.2 % SET with small keys and values, as Breakwater's evaluation of memcached uses it
    /// (section 5.3; its released client draws uniformly from 100,000 keys and writes values of 5
    /// bytes).
    pub fn usr() -> Self {
        let keys = Keys::new(100_000, Popularity::Uniform).expect("in range");
        Self { gets: 0.998, keys, values: ValueSize { min: 5, max: 5 } }
    }

    /// The same pool as Protego's evaluation uses it (section 5.5): a fifth of the keys gets four
    /// fifths of the requests, which is what its item locks suffer from.
    pub fn usr_skewed() -> Self {
        Self { keys: skewed(0.2, 0.8), ..Self::usr() }
    }

    /// VAR, another pool of that memcached, of browser information: 82 % SET, and a tenth of the
    /// keys gets nine tenths of the requests (Protego's section 5.3). Each SET takes the slab lock.
    /// Values have 5 to 1,000 bytes, all lengths alike, as the client released by Protego's authors
    /// draws them; the paper only says that it follows the trace.
    pub fn var() -> Self {
        Self { gets: 0.18, keys: skewed(0.1, 0.9), values: ValueSize { min: 5, max: 1000 } }
    }

    /// One request.
    pub fn sample(&self, rng: &mut Rng) -> Operation {
        let read = rng.chance(self.gets);
        let key = self.keys.sample(rng);
        if read {
            Operation::Get { key }
        } else {
            Operation::Set { key, value_len: self.values.sample(rng) }
        }
    }

    /// Share of reads, 0 to 1.
    pub const fn gets(&self) -> f64 {
        self.gets
    }

    /// The keys: a store is filled with all of them before it is measured.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The sizes of values.
    pub const fn values(&self) -> &ValueSize {
        &self.values
    }
}

impl fmt::Display for KeyValueMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMED.iter().find(|(_, mix)| *self == mix()) {
            return f.write_str(name);
        }
        write!(f, "{}/{}/{}", self.gets, self.keys, self.values)
    }
}

impl FromStr for KeyValueMix {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        if let Some((_, mix)) = NAMED.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
            return Ok(mix());
        }
        let parts: Vec<&str> = text.split('/').collect();
        let [gets, keys, values] = parts[..] else {
            let (what, name) = ("key-value mix", text.into());
            return Err(SpecError::UnknownName { what, name, allowed: MIX_FORMS });
        };
        let gets = gets.parse().map_err(|_| SpecError::NotANumber {
            field: "gets",
            text: gets.into(),
            allowed: SHARE_RANGE,
        })?;
        Self::new(gets, keys.parse()?, values.parse()?)
    }
}

serde_as_text!(ValueSize, KeyValueMix);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seawall_control::Rng;

    use super::*;

    #[test]
    fn usr_is_that_of_the_paper() {
        let mix: KeyValueMix = "usr".parse().unwrap();
        let mut rng = Rng::new(4);
        let mut sets = 0;
        for _ in 0..100_000 {
            match mix.sample(&mut rng) {
                Operation::Get { key } => assert!(key < 100_000),
                Operation::Set { key, value_len } => {
                    assert!(key < 100_000);
                    assert_eq!(value_len, 5);
                    sets += 1;
                }
            }
        }
        assert!((140..=260).contains(&sets), "{sets}");
        assert_eq!(mix.to_string(), "usr");
    }

    #[test]
    fn protegos_mixes_are_skewed() {
        for (text, hot_keys, hot_share, set_share) in
            [("var", 10_000, 0.9, 0.82), ("usr-skewed", 20_000, 0.8, 0.002)]
        {
            let mix: KeyValueMix = text.parse().unwrap();
            assert_eq!(mix.to_string(), text);
            let mut rng = Rng::new(4);
            let (mut hot, mut sets) = (0, 0);
            for _ in 0..100_000 {
                let (key, len) = match mix.sample(&mut rng) {
                    Operation::Get { key } => (key, None),
                    Operation::Set { key, value_len } => (key, Some(value_len)),
                };
                hot += u32::from(key < hot_keys);
                sets += u32::from(len.is_some());
                assert!(len.is_none_or(|len| (5..=1000).contains(&len)));
            }
            let near = |count: u32, share: f64| (f64::from(count) / 1e5 - share).abs() < 0.005;
            assert!(near(hot, hot_share) && near(sets, set_share), "{text}: {hot} {sets}");
        }
    }

    #[test]
    fn sizes_cover_both_ends() {
        let size: ValueSize = "uniform:5:8".parse().unwrap();
        let mut rng = Rng::new(5);
        let mut counts = [0; 9];
        for _ in 0..10_000 {
            counts[size.sample(&mut rng) as usize] += 1;
        }
        assert_eq!(counts[..5], [0; 5]);
        assert!(counts[5..].iter().all(|n| (2_200..2_800).contains(n)), "{counts:?}");
    }

    #[test]
    fn errors_name_the_field() {
        let message = |text: &str| text.parse::<KeyValueMix>().unwrap_err().to_string();
        assert!(
            message("sys").contains("unknown key-value mix `sys`; allowed: usr, usr-skewed, var")
        );
        assert_eq!(message("2/uniform:5/const:5"), "gets is 2; allowed: 0 to 1");
        assert!(message("a/uniform:5/const:5").starts_with("gets `a` is not a number"));
        assert!(message("1/uniform:5/const:9999999999").starts_with("bytes is 9999999999"));
        assert!(message("1/uniform:5/uniform:9:5").contains("min is 9"));
        assert!(message("1/uniform:5/uniform:9").starts_with("max is missing"));
        assert!(message("1/uniform:5/pareto:9").contains("unknown value size"));
    }

    proptest! {
        #[test]
        fn text_reads_back(gets in 0.0..=1.0, min in 0_u32..1 << 29, span in 0_u32..1 << 29) {
            let values = ValueSize::uniform(min, min + span).unwrap();
            prop_assert_eq!(values.to_string().parse(), Ok(values));
            let mix = KeyValueMix::new(gets, "zipf:77:0.9".parse().unwrap(), values).unwrap();
            prop_assert_eq!(mix.to_string().parse(), Ok(mix));
        }
    }
}
