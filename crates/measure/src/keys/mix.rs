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
const MIX_FORMS: &str = "usr, usr-skewed, var, svalinn, or GETS/KEYS/VALUES such as \
    0.998/uniform:100000/const:5, with large values /SHARE/KEYS/VALUES more";

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
/// Texts: `usr`, `usr-skewed`, `var`, `svalinn`, or `GETS/KEYS/VALUES` such as
/// `0.18/uniform:100000/uniform:5:1000`, where GETS is the share of reads. Three more parts tell of
/// large values that are only read: which share of the reads asks for them, their keys and their
/// sizes, such as `0.18/uniform:100000/uniform:5:1000/0.5/uniform:1000/uniform:800000:1200000`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValueMix {
    gets: f64,
    keys: Keys,
    values: ValueSize,
    large: Option<Large>,
}

/// Large values, which are only read. Their keys are numbered behind the others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Large {
    /// Part of the reads that asks for them, 0 to 1.
    share: f64,
    keys: Keys,
    values: ValueSize,
}

/// A mix's name, and how it is made.
type Named = (&'static str, fn() -> KeyValueMix);

/// Mixes that have a name.
const NAMED: [Named; 4] = [
    ("usr", KeyValueMix::usr),
    ("usr-skewed", KeyValueMix::usr_skewed),
    ("var", KeyValueMix::var),
    ("svalinn", KeyValueMix::svalinn),
];

/// So many keys, all alike.
fn uniform(count: u64) -> Keys {
    Keys::new(count, Popularity::Uniform).expect("in range")
}

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
        Ok(Self { gets, keys, values, large: None })
    }

    /// The same mix in which a part `share` (0 to 1) of the reads asks for other keys, whose values
    /// of such sizes are never written.
    ///
    /// # Errors
    ///
    /// When `share` is not in 0 to 1.
    pub fn with_large(
        mut self,
        share: f64,
        keys: Keys,
        values: ValueSize,
    ) -> Result<Self, SpecError> {
        in_range("share", share, 0.0..=1.0, SHARE_RANGE)?;
        self.large = Some(Large { share, keys, values });
        Ok(self)
    }

    /// USR, a pool of Facebook's memcached (Atikoglu et al., SIGMETRICS '12): 99.8 % GET
    /// and 0.2 % SET with small keys and values, as Breakwater's evaluation of memcached uses it
    /// (section 5.3; its released client draws uniformly from 100,000 keys and writes values of 5
    /// bytes).
    pub fn usr() -> Self {
        let values = ValueSize { min: 5, max: 5 };
        Self { gets: 0.998, keys: uniform(100_000), values, large: None }
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
        let values = ValueSize { min: 5, max: 1000 };
        Self { gets: 0.18, keys: skewed(0.1, 0.9), values, large: None }
    }

    /// VAR as Svalinn's evaluation changes it (appendix B.2): 82 % SET of small values, 9 % GET of
    /// such, and 9 % GET of values of 800,000 to 1,200,000 bytes, which take memory bandwidth. All
    /// keys of a kind are alike, as its authors' client has them. It has 5,000 with large values,
    /// here they are 1,000, which a processor's caches do not hold either.
    pub fn svalinn() -> Self {
        let large = Large {
            share: 0.5,
            keys: uniform(1_000),
            values: ValueSize { min: 800_000, max: 1_200_000 },
        };
        Self { keys: uniform(100_000), large: Some(large), ..Self::var() }
    }

    /// One request.
    pub fn sample(&self, rng: &mut Rng) -> Operation {
        let read = rng.chance(self.gets);
        if let Some(large) = self.large.filter(|large| read && rng.chance(large.share)) {
            return Operation::Get { key: self.keys.count() + large.keys.sample(rng) };
        }
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

    /// How many keys there are: a store is filled with all of them before it is measured.
    pub const fn key_count(&self) -> u64 {
        match &self.large {
            Some(large) => self.keys.count() + large.keys.count(),
            None => self.keys.count(),
        }
    }

    /// Whether the mix has large values.
    pub const fn has_large(&self) -> bool {
        self.large.is_some()
    }

    /// Whether this key has a large value.
    pub const fn is_large(&self, key: u64) -> bool {
        key >= self.keys.count()
    }

    /// The length of a value of this key, in bytes.
    pub fn value_len(&self, key: u64, rng: &mut Rng) -> u32 {
        match &self.large {
            Some(large) if self.is_large(key) => large.values.sample(rng),
            _ => self.values.sample(rng),
        }
    }

    /// The longest value of all, in bytes.
    pub fn value_max(&self) -> u32 {
        self.large.map_or(0, |large| large.values.max()).max(self.values.max())
    }
}

impl fmt::Display for KeyValueMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMED.iter().find(|(_, mix)| *self == mix()) {
            return f.write_str(name);
        }
        write!(f, "{}/{}/{}", self.gets, self.keys, self.values)?;
        match &self.large {
            Some(large) => write!(f, "/{}/{}/{}", large.share, large.keys, large.values),
            None => Ok(()),
        }
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
        let (small, large) = parts.split_at(parts.len().min(3));
        let (&[gets, keys, values], [] | [_, _, _]) = (small, large) else {
            let (what, name) = ("key-value mix", text.into());
            return Err(SpecError::UnknownName { what, name, allowed: MIX_FORMS });
        };
        let mix = Self::new(share_of("gets", gets)?, keys.parse()?, values.parse()?)?;
        match large {
            [share, keys, values] => {
                mix.with_large(share_of("share", share)?, keys.parse()?, values.parse()?)
            }
            _ => Ok(mix),
        }
    }
}

fn share_of(field: &'static str, text: &str) -> Result<f64, SpecError> {
    text.parse().map_err(|_| SpecError::NotANumber {
        field,
        text: text.into(),
        allowed: SHARE_RANGE,
    })
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
    fn svalinns_mix_reads_large_values_as_often_as_small_ones() {
        let mix: KeyValueMix = "svalinn".parse().unwrap();
        assert_eq!(mix.to_string(), "svalinn");
        assert_eq!((mix.key_count(), mix.value_max()), (101_000, 1_200_000));
        let mut rng = Rng::new(4);
        let mut counts = [0_u32; 3];
        for _ in 0..100_000 {
            match mix.sample(&mut rng) {
                Operation::Set { key, value_len } => {
                    assert!(!mix.is_large(key) && (5..=1_000).contains(&value_len));
                    counts[0] += 1;
                }
                Operation::Get { key } if mix.is_large(key) => {
                    assert!((100_000..101_000).contains(&key));
                    counts[2] += 1;
                }
                Operation::Get { .. } => counts[1] += 1,
            }
        }
        for (count, expected) in counts.into_iter().zip([82_000_u32, 9_000, 9_000]) {
            assert!(count.abs_diff(expected) < 400, "{counts:?}");
        }
        assert!((5..=1_000).contains(&mix.value_len(99_999, &mut rng)));
        assert!((800_000..=1_200_000).contains(&mix.value_len(100_000, &mut rng)));
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
        assert!(message("1/uniform:5/const:5/0.5").contains("unknown key-value mix"));
        let large = |share| format!("1/uniform:5/const:5/{share}/uniform:3/const:9");
        assert_eq!(message(&large("7")), "share is 7; allowed: 0 to 1");
        assert!(message(&large("x")).starts_with("share `x` is not a number"));
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
            let large = mix.with_large(gets, "uniform:5".parse().unwrap(), values).unwrap();
            prop_assert_eq!(large.to_string().parse(), Ok(large));
        }
    }
}
