//! Text in HTML and SVG.

/// The text with every character that has a meaning in markup replaced, for content and quoted
/// attributes alike.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The text with numbers and their units kept on one line.
pub fn keep_units(text: &str) -> String {
    const UNITS: [&str; 5] = ["ns", "µs", "ms", "s", "%"];
    let mut kept = String::with_capacity(text.len());
    for word in text.split(' ') {
        let unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
        if unit && kept.ends_with(|last: char| last.is_ascii_digit()) {
            kept.push('\u{a0}');
        } else if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(word);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("<a href=\"x\">'R&D'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;R&amp;D&#39;&lt;/a&gt;"
        );
        assert_eq!(escape("plain µs ×"), "plain µs ×");
    }

    #[test]
    fn units_stay_with_their_numbers() {
        assert_eq!(
            keep_units("after 120 ms; it's 5 % of 2 s."),
            "after 120\u{a0}ms; it's 5\u{a0}% of 2\u{a0}s."
        );
        assert_eq!(keep_units("1 service, s"), "1 service, s");
    }
}
