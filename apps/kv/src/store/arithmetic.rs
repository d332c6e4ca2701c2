//! Increment and decrement.

use seawall_control::request::Context;

use super::bucket::Edit;
use super::counters::Counter;
use super::{Store, StoreError, UnixTime};

/// Why an item was not incremented or decremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// The value is not a decimal number below 2^64.
    #[error("cannot increment or decrement non-numeric value")]
    NotNumeric,
    /// The new number has more digits than there is room for, or the request cannot wait for a
    /// lock.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// Adds `delta` to the decimal number under `key`, modulo 2^64, and returns the result; `None`
    /// if there is no such item. Flags and expiration time stay.
    ///
    /// # Errors
    ///
    /// If the value is not a number, no memory is left for a longer one, or the request cannot wait
    /// for a lock. It is unchanged then.
    pub fn incr(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        delta: u64,
    ) -> Result<Option<u64>, ArithmeticError> {
        let result = self.compute(ctx, now, key, |number| number.wrapping_add(delta))?;
        self.count_result(key, result, Counter::IncrHits, Counter::IncrMisses);
        Ok(result)
    }

    /// Subtracts `delta` from the decimal number under `key`, stopping at 0, and returns the
    /// result; `None` if there is no such item. Flags and expiration time stay.
    ///
    /// # Errors
    ///
    /// As for [`incr`](Self::incr).
    pub fn decr(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        delta: u64,
    ) -> Result<Option<u64>, ArithmeticError> {
        let result = self.compute(ctx, now, key, |number| number.saturating_sub(delta))?;
        self.count_result(key, result, Counter::DecrHits, Counter::DecrMisses);
        Ok(result)
    }

    fn compute(
        &self,
        ctx: &Context,
        now: UnixTime,
        key: &[u8],
        function: impl Fn(u64) -> u64,
    ) -> Result<Option<u64>, ArithmeticError> {
        let spot = self.spot(key);
        let result = self.with_room(ctx, now, spot.bucket, |spare| {
            let result = self.with_live(ctx, now, spot, key, |item| {
                let Some(number) = parse(item.value()) else {
                    return Ok(Err(ArithmeticError::NotNumeric));
                };
                let result = function(number);
                let mut digits = itoa::Buffer::new();
                let edit = Edit::Replace(digits.format(result).as_bytes());
                self.edit(spot.bucket, item, edit, spare)?;
                Ok(Ok(result))
            })?;
            Ok(result.transpose())
        })?;
        result.transpose()
    }

    fn count_result(&self, key: &[u8], result: Option<u64>, hit: Counter, miss: Counter) {
        self.counters.either(self.spot(key).bucket, result.is_some(), hit, miss);
    }
}

/// A decimal number below 2^64. memcached pads numbers that have become shorter with spaces, so
/// values copied from one may end in some.
fn parse(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii_end();
    // The standard library also takes a sign.
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_decimals() {
        assert_eq!(parse(b"0"), Some(0));
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"9  "), Some(9));
        for not_a_number in [&b""[..], b" 9", b"+9", b"-9", b"9a", b"18446744073709551616", b"\xff"]
        {
            assert_eq!(parse(not_a_number), None);
        }
    }
}
