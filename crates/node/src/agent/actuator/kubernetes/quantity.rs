//! Amounts of CPU as Kubernetes writes them: `250m`, `1`, `0.5`, `1e3`.

/// Decimal digits of a quantity: Kubernetes takes no number above 2^63 either.
const DIGITS_MAX: usize = 18;

/// Thousandths of a CPU, rounded up as Kubernetes does. None if it is not a quantity, or not an
/// amount of CPU that a machine could have.
pub(super) fn milli(text: &str) -> Option<u32> {
    let text = text.trim().strip_prefix('+').unwrap_or(text.trim());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    let mantissa: u128 = digits.parse().ok()?;
    let (binary, exponent) = factor(suffix)?;
    let exponent = exponent.checked_add(3 - fraction.len() as i32)?;
    let value = mantissa.checked_mul(1 << (10 * binary))?;
    let value = match u32::try_from(exponent) {
        Ok(up) => value.checked_mul(10_u128.checked_pow(up)?)?,
        // A divisor that is too large to be a number leaves a trace of CPU, which counts as one.
        Err(_) => value.div_ceil(10_u128.checked_pow(exponent.unsigned_abs()).unwrap_or(u128::MAX)),
    };
    u32::try_from(value).ok().filter(|milli| *milli < u32::MAX)
}

/// The powers of 1024 and of 10 that a suffix stands for.
fn factor(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "" => (0, 0),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        exponent => (0, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// The way in which the agent writes an amount.
pub(super) fn text(milli: u32) -> String {
    format!("{milli}m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_writes() {
        for (text, expected) in [
            ("250m", 250),
            ("1", 1_000),
            ("1500m", 1_500),
            ("0.5", 500),
            (".5", 500),
            ("2.", 2_000),
            ("+2", 2_000),
            ("0", 0),
            ("0.0001", 1),
            ("100u", 1),
            ("1n", 1),
            ("1500000u", 1_500),
            ("1e3", 1_000_000),
            ("1E-3", 1),
            ("15e-1", 1_500),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1e-99", 1),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_of_cpu() {
        for text in [
            "",
            "m",
            ".",
            "-1",
            "1.2.3",
            "1 m",
            "1mm",
            "1e",
            "1ex",
            "1e99",
            "1e2147483647",
            "0.12345e-2147483648",
            "9E",
            "5000000",
            "0x1",
            "1234567890123456789",
            "1Ei",
            "NaN",
            "\u{661}",
        ] {
            assert_eq!(milli(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for amount in [1, 10, 250, 1_000, 64_000] {
            assert_eq!(milli(&text(amount)), Some(amount));
        }
    }
}
