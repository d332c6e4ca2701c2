//! Prometheus' text format, version 0.0.4: read back.

use std::collections::BTreeMap;

use thiserror::Error;

/// The labels of a series, in the order of their names.
pub(crate) type Labels = BTreeMap<String, String>;

/// Every series that was shown at one moment, by name and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics(BTreeMap<String, BTreeMap<Labels, f64>>);

/// A line that is not of this format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} is not of Prometheus' text format: {wrong}")]
pub(crate) struct TextError {
    line: usize,
    wrong: &'static str,
}

impl Metrics {
    /// Reads the text of `/metrics`. Comments and time stamps are left out.
    ///
    /// # Errors
    ///
    /// Names the first line that is wrong, and what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, TextError> {
        let mut metrics = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, labels, value) =
                series(line).map_err(|wrong| TextError { line: index + 1, wrong })?;
            metrics.0.entry(name.to_owned()).or_default().insert(labels, value);
        }
        Ok(metrics)
    }

    /// All series of this name.
    pub(crate) fn of(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.0.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// The value of one series.
    pub(crate) fn value(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.0.get(name)?.get(labels).copied()
    }

    /// The names of all series.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type Series<'a> = (&'a str, Labels, f64);

/// `name{label="value",...} value [time]`.
fn series(line: &str) -> Result<Series<'_>, &'static str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("it does not begin with a name");
    }
    let mut labels = Labels::new();
    let rest = match rest.trim_start().strip_prefix('{') {
        Some(inside) => read_labels(inside, &mut labels)?,
        None => rest,
    };
    let mut words = rest.split_ascii_whitespace();
    let value = words.next().ok_or("it has no value")?;
    let value = value.parse().map_err(|_| "its value is not a number")?;
    if words.next().is_some_and(|time| time.parse::<i64>().is_err()) || words.next().is_some() {
        return Err("there is more behind its value than a time");
    }
    Ok((name, labels, value))
}

/// Reads labels up to the closing brace; gives what is behind it.
fn read_labels<'a>(mut rest: &'a str, labels: &mut Labels) -> Result<&'a str, &'static str> {
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok(behind);
        }
        let (name, value) = rest.split_once('=').ok_or("a label has no value")?;
        let quoted = value.trim_start().strip_prefix('"').ok_or("a label's value has no quotes")?;
        let (value, behind) = unquoted(quoted).ok_or("a label's value does not end")?;
        labels.insert(name.trim().to_owned(), value);
        rest = behind.trim_start();
        rest = match rest.strip_prefix(',') {
            Some(next) => next,
            None if rest.starts_with('}') => rest,
            None => return Err("labels have no comma between them"),
        };
    }
}

/// A value up to its closing quotes, and what is behind them.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn names_labels_and_values_are_read() {
        let text = "# HELP a Some {help} 1\n# TYPE a counter\na 12\n\n\
                    a{class=\"get\",stage=\"lock:orders\"} 3.5e2 1700000000000\n\
                    b_bucket { le = \"+Inf\" , } +Inf\nb_nan NaN\n";
        let metrics = Metrics::parse(text).unwrap();
        assert_eq!(metrics.value("a", &Labels::new()), Some(12.0));
        let both = labels(&[("stage", "lock:orders"), ("class", "get")]);
        assert_eq!(metrics.value("a", &both), Some(350.0));
        assert_eq!(metrics.value("b_bucket", &labels(&[("le", "+Inf")])), Some(f64::INFINITY));
        assert!(metrics.value("b_nan", &Labels::new()).unwrap().is_nan());
        assert_eq!(metrics.of("a").count(), 2);
        assert!(metrics.names().eq(["a", "b_bucket", "b_nan"]) && !metrics.is_empty());
        assert!(Metrics::parse("").unwrap().is_empty());
    }

    #[test]
    fn values_of_labels_may_have_anything_in_them() {
        let text = r#"a{x="a \"b\" \\ c\nd, {e}=1}",y=""} 1"#;
        let metrics = Metrics::parse(text).unwrap();
        let expected = labels(&[("x", "a \"b\" \\ c\nd, {e}=1}"), ("y", "")]);
        assert_eq!(metrics.value("a", &expected), Some(1.0));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let cases = [
            ("<html>", "begin with a name"),
            ("1a 2", "begin with a name"),
            ("a", "no value"),
            ("a b", "not a number"),
            ("a 1 soon", "more behind"),
            ("a 1 2 3", "more behind"),
            ("a{b} 1", "no value"),
            ("a{b=c} 1", "no quotes"),
            ("a{b=\"c} 1", "does not end"),
            ("a{b=\"c\" d=\"e\"} 1", "no comma"),
            ("a{b=\"c\"", "no comma"),
        ];
        for (line, wrong) in cases {
            let error = Metrics::parse(&format!("ok 1\n{line}")).unwrap_err().to_string();
            assert!(error.starts_with("line 2 ") && error.contains(wrong), "{line}: {error}");
        }
    }
}
