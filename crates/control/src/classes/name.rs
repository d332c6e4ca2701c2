//! What a person calls a class.

use alloc::format;
use alloc::string::{String, ToString};

use super::leaf::Split;
use super::value::{Feature, size_below};

/// The name of a class from the divisions that lead to it, outermost first.
pub(super) fn of(splits: &[&Split], headers: &[String]) -> String {
    // Of two tests of one feature the inner one counts: it is the narrower one.
    let find = |wanted| {
        let tests = splits.iter().rev().map(|split| &split.test);
        tests.into_iter().find(|test| Feature::at(test.feature) == wanted)
    };
    let mut name = String::new();
    let mut add = |separator: &str, part: String| {
        if !name.is_empty() {
            name.push_str(separator);
        }
        name.push_str(&part);
    };
    if let Some(method) = find(Feature::Method) {
        add("", method.text.to_string());
    }
    if let Some(route) = find(Feature::Route) {
        add(" ", route.text.to_string());
    }
    for (index, header) in headers.iter().enumerate() {
        if let Some(test) = find(Feature::Header(index)) {
            add(", ", format!("{header}={}", test.text));
        }
    }
    if let Some(size) = find(Feature::Size) {
        add(", ", more_than(size.value));
    }
    if name.is_empty() { "all else".into() } else { name }
}

/// Why a class was made.
pub(super) fn why(split: &Split) -> String {
    let times = libm::exp(split.votes.effect.abs());
    let refused = split.votes.refused;
    if refused.abs() * 2.0 > split.votes.effect.abs() {
        let more = if refused > 0.0 { "more" } else { "less" };
        let percent = libm::round(refused.abs() * 100.0);
        return format!("{percent} % {more} of them are refused at {}", split.stage);
    }
    let how = if split.votes.effect > 0.0 { "as long as the rest" } else { "faster than the rest" };
    format!("{times:.1} times {how}")
}

/// The sizes from a value of [`Feature::Size`] on.
fn more_than(value: u64) -> String {
    match value {
        0 => "any body".into(),
        1 => "body of known size".into(),
        value => format!("body > {}", bytes(size_below(value))),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        mib if mib >= 1 << 20 => format!("{} MiB", mib >> 20),
        kib if kib >= 1 << 10 => format!("{} KiB", kib >> 10),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_by_what_they_exceed() {
        let names = [1, 2, 3, 4, 7, 13].map(more_than);
        let expected =
            ["body of known size", "body > 0 B", "body > 256 B", "body > 1 KiB", "body > 64 KiB"];
        assert_eq!(names[..5], expected);
        assert_eq!(names[5], "body > 256 MiB");
    }
}
