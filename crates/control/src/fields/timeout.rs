//! `grpc-timeout`: how long the client of a gRPC call will wait.
//!
//! At most eight digits and a unit: `H`, `M`, `S`, `m`, `u` or `n` (hours to nanoseconds), as
//! gRPC's protocol over HTTP/2 has it.

use core::fmt;
use core::time::Duration;

/// The name of the header.
pub const NAME: &str = "grpc-timeout";

/// Digits of the longest value.
const DIGITS: usize = 8;

/// Reads the value of the header; `None` if it is none.
///
/// ```
/// use core::time::Duration;
/// use seawall_control::fields::timeout;
///
/// assert_eq!(timeout::parse(b"250m"), Some(Duration::from_millis(250)));
/// assert_eq!(timeout::parse(b"250 ms"), None);
/// ```
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3_600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Writes `left` in the finest unit that holds it, rounded down: a deadline is never stretched.
///
/// ```
/// use core::time::Duration;
/// use seawall_control::fields::timeout;
///
/// assert_eq!(timeout::format(Duration::from_millis(250)).to_string(), "250000u");
/// ```
pub fn format(left: Duration) -> impl fmt::Display {
    let units = [
        ('n', left.as_nanos()),
        ('u', left.as_micros()),
        ('m', left.as_millis()),
        ('S', u128::from(left.as_secs())),
        ('M', u128::from(left.as_secs() / 60)),
        ('H', u128::from(left.as_secs() / 3_600)),
    ];
    let most = 10_u128.pow(DIGITS as u32) - 1;
    // What even hours cannot hold is more than eleven thousand years.
    let (unit, number) =
        units.into_iter().find(|(_, number)| *number <= most).unwrap_or(('H', most));
    fmt::from_fn(move |f| write!(f, "{number}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn all_units_are_read() {
        for (text, micros) in [
            ("1H", 3_600_000_000),
            ("2M", 120_000_000),
            ("3S", 3_000_000),
            ("4m", 4_000),
            ("00000005u", 5),
            ("6000n", 6),
            ("0S", 0),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(Duration::from_micros(micros)), "{text}");
        }
        let years = parse(b"99999999H").unwrap();
        assert_eq!(years.as_secs(), 99_999_999 * 3_600);
    }

    #[test]
    fn anything_else_is_none() {
        for bad in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", " 1S", "1S ", "123456789n", "1é"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn the_finest_unit_that_holds_it_is_written() {
        for (left, text) in [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_millis(100_000) - Duration::from_nanos(1), "99999999u"),
            (Duration::from_millis(99_999_999), "99999999m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_059), "1666667M"),
            (Duration::from_secs(99_999_999 * 3_600 + 3_599), "99999999H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(format(left).to_string(), text, "{left:?}");
        }
    }
}
