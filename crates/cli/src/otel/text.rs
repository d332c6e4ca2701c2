//! Reads the text of `/metrics` (Prometheus' exposition format): the lines that our own recorder
//! writes.

use std::collections::BTreeMap;

/// One line: a value and what it is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) labels: BTreeMap<&'a str, String>,
    pub(super) value: f64,
}

/// All values of a text. Comments, and what is no value, are left out.
pub(super) fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?; // "+Inf" and "NaN" parse, too
    Some(Sample { name, labels, value })
}

/// What is between the braces, the first of which is read already, and what follows them.
fn labels(mut rest: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(key, value);
        rest = after;
    }
}

/// A quoted value, whose first quote is read already, and what follows its last.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_values() {
        let text = "# HELP a what\n# TYPE a counter\n\
                    a{x=\"1\",y=\"a \\\"b\\\"\\n\\\\}\"} 3\nb 0.5\n\
                    c_bucket{le=\"+Inf\"} 7\n\nbroken{x=\n";
        let all: Vec<_> = samples(text).collect();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].name, all[0].value), ("a", 3.0));
        assert_eq!(all[0].labels["y"], "a \"b\"\n\\}");
        assert_eq!((all[1].name, all[1].value, all[1].labels.len()), ("b", 0.5, 0));
        assert_eq!((all[2].name, &*all[2].labels["le"]), ("c_bucket", "+Inf"));
    }
}
