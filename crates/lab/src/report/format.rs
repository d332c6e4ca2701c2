//! How numbers are written for people: three digits and a unit, the same in table, page and charts.

use seawall_measure::latency::is_lower_bound;

/// What stands where nothing was measured.
pub const NOTHING: &str = "–";

/// Units of a rate, largest first.
const RATES: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// Units of a delay in microseconds, largest first.
const DELAYS: [(f64, &str); 4] = [(1e6, " s"), (1e3, " ms"), (1.0, " µs"), (1e-3, " ns")];

/// Requests per second without "/s", such as `12.3k`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".into(),
        part if part.abs() < 1.0 => trimmed(part, 3),
        few if few.abs() < 10.0 => trimmed(few, 1),
        some if some.abs() < 999.5 => format!("{some:.0}"),
        many => scaled(many, &RATES),
    }
}

/// Requests per second that may not have been measured, such as `12.3k/s`.
pub fn rate_or_nothing(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| NOTHING.into(), |per_second| format!("{}/s", rate(per_second)))
}

/// A delay given in microseconds, such as `1.41 ms`.
pub fn delay(us: f64) -> String {
    if us == 0.0 { "0 µs".into() } else { scaled(us, &DELAYS) }
}

/// A delay that may not have been measured.
pub fn delay_or_nothing(us: Option<f64>) -> String {
    us.map_or_else(|| NOTHING.into(), delay)
}

/// The latency that a share `q` does not exceed, such as `1.41 ms`; or `>1.41 ms` where it is
/// [only a lower bound](is_lower_bound).
pub fn quantile(us: Option<f64>, q: f64, censored: f64) -> String {
    let bound = if is_lower_bound(q, censored) { ">" } else { "" };
    us.map_or_else(|| NOTHING.into(), |us| format!("{bound}{}", delay(us)))
}

/// A delay given in milliseconds.
pub fn delay_ms(ms: f64) -> String {
    delay(ms * 1e3)
}

/// A share of one as a percentage, such as `96 %`; small ones and those near 100 keep a digit more.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if !percent.is_finite() => NOTHING.into(),
        0.0 => "0 %".into(),
        tiny if (0.0..0.1).contains(&tiny) => "<0.1 %".into(),
        fine if fine < 9.95 || (99.0..100.0).contains(&fine) => {
            // Rounding must not turn "almost all" into all.
            let fine = if fine > 99.9 && fine < 100.0 { 99.9 } else { fine };
            format!("{} %", trimmed(fine, 1))
        }
        coarse => format!("{coarse:.0} %"),
    }
}

/// `part` of `whole` as a percentage; nothing of nothing is not a number.
pub fn percent_of(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { NOTHING.into() }
}

/// A multiple of the capacity, such as `2.0×` or `1.25×`.
pub fn load(multiple: f64) -> String {
    if !multiple.is_finite() {
        return NOTHING.into();
    }
    let text = format!("{multiple:.2}");
    format!("{}×", text.strip_suffix('0').unwrap_or(&text))
}

/// A number without the zeros that end its fraction.
fn trimmed(value: f64, decimals: usize) -> String {
    round(&format!("{value:.decimals$}"))
}

/// A number on a linear axis, where ticks may lie a quarter of a power of ten apart.
pub fn tick(number: f64) -> String {
    if number.abs() < 1e3 { trimmed(number, 3) } else { round(&rate(number)) }
}

/// The same number without the zeros that end its fraction, for ticks: `25.0k` becomes `25k`.
pub fn round(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.contains('.') {
        true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text.to_owned(),
    }
}

/// Breaks a text into lines of at most `columns` characters; a longer word has its own line.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Three digits in the largest unit that leaves at least one before the point.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NOTHING.into();
    }
    let size = value.abs();
    // 999.6 would be written as 1000: it belongs to the next unit.
    let fits = units.iter().find(|(unit, _)| size >= unit * 0.9995);
    let &(unit, name) = fits.unwrap_or(&units[units.len() - 1]);
    let scaled = value / unit;
    match scaled.abs() {
        big if big >= 99.95 => format!("{scaled:.0}{name}"),
        middle if middle >= 9.995 => format!("{scaled:.1}{name}"),
        _ => format!("{scaled:.2}{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.0004, "0"),
            (0.04, "0.04"),
            (3.25, "3.2"),
            (9.0, "9"),
            (87.4, "87"),
            (999.4, "999"),
            (999.7, "1.00k"),
            (1_234.0, "1.23k"),
            (12_345.0, "12.3k"),
            (99_960.0, "100k"),
            (123_456.0, "123k"),
            (999_700.0, "1.00M"),
            (2_500_000.0, "2.50M"),
            (f64::NAN, NOTHING),
            (f64::INFINITY, NOTHING),
        ];
        for (value, text) in cases {
            assert_eq!(rate(value), text, "{value}");
        }
    }

    #[test]
    fn delays_take_the_unit_that_fits() {
        let cases = [
            (0.0, "0 µs"),
            (0.25, "250 ns"),
            (1.0, "1.00 µs"),
            (85.04, "85.0 µs"),
            (640.2, "640 µs"),
            (999.8, "1.00 ms"),
            (1_410.0, "1.41 ms"),
            (2_310_000.0, "2.31 s"),
            (120_000_000.0, "120 s"),
            (f64::NAN, NOTHING),
        ];
        for (us, text) in cases {
            assert_eq!(delay(us), text, "{us}");
        }
        assert_eq!(delay_or_nothing(None), NOTHING);
        assert_eq!(delay_ms(120.0), "120 ms");
    }

    #[test]
    fn quantiles_say_when_they_are_lower_bounds() {
        let shown = [0.5, 0.9, 0.99].map(|q| quantile(Some(1_410.0), q, 0.05));
        assert_eq!(shown, ["1.41 ms", "1.41 ms", ">1.41 ms"]);
        assert_eq!(quantile(None, 0.99, 1.0), NOTHING);
    }

    #[test]
    fn percentages_do_not_round_to_none_or_all() {
        let cases = [
            (0.0, "0 %"),
            (0.000_4, "<0.1 %"),
            (0.012, "1.2 %"),
            (0.05, "5 %"),
            (0.484, "48 %"),
            (0.996, "99.6 %"),
            (0.999_9, "99.9 %"),
            (1.0, "100 %"),
            (1.04, "104 %"),
        ];
        for (share, text) in cases {
            assert_eq!(percent(share), text, "{share}");
        }
        assert_eq!(percent_of(1.0, 4.0), "25 %");
        assert_eq!(percent_of(1.0, 0.0), NOTHING);
    }

    #[test]
    fn loads_are_multiples() {
        assert_eq!(load(2.0), "2.0×");
        assert_eq!(load(0.25), "0.25×");
        assert_eq!(load(f64::NAN), NOTHING);
    }

    #[test]
    fn ticks_have_no_zeros() {
        let cases = [("25.0k", "25k"), ("2.50 ms", "2.5 ms"), ("100 µs", "100 µs"), ("0", "0")];
        for (text, short) in cases {
            assert_eq!(round(text), short);
        }
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
        assert!(wrap("", 10).is_empty());
    }
}
