//! Dictionaries of dictd: a text with all entries, and an index that says where each begins.
//!
//! A line of the index is a headword, an offset and a length, separated by tabs. Offset and length
//! are written in base 64, the most significant digit first (dictfmt(1)).

use std::collections::BTreeMap;

use thiserror::Error;

/// The digits, in order.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Headwords that begin so are about the dictionary.
const ABOUT_ITSELF: &str = "00-";

/// Marks in GCIDE of where a paragraph comes from, such as `[1913 Webster +PJC]`. They would be its
/// most frequent words.
const ORIGINS: [&str; 4] = ["Webster", "WordNet", "PJC", "Century Dict"];

/// What is wrong with a dictionary.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DictdError {
    /// A line of the index is none.
    #[error("line {0} is not a headword, an offset and a length")]
    Line(usize),
    /// An entry is not in the text.
    #[error("the entry of line {0} is beyond the end of the text")]
    Beyond(usize),
}

/// The entries of a dictionary, each once, in the order of the text.
///
/// # Errors
///
/// Names the first line of the index that is wrong.
pub fn documents(index: &str, entries: &[u8]) -> Result<Vec<String>, DictdError> {
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(index.lines()) {
        let mut fields = line.split('\t');
        let headword = fields.next().unwrap_or_default();
        let mut field = || fields.next().and_then(decode).ok_or(DictdError::Line(number));
        let (offset, length) = (field()?, field()?);
        if headword.starts_with(ABOUT_ITSELF) {
            continue;
        }
        let end = offset.checked_add(length).filter(|end| *end <= entries.len());
        // Several headwords may share an entry.
        found.insert(offset, end.ok_or(DictdError::Beyond(number))?);
    }
    Ok(found.into_iter().map(|(begin, end)| clean(&entries[begin..end])).collect())
}

fn decode(number: &str) -> Option<usize> {
    if number.is_empty() || number.len() > 8 {
        return None;
    }
    number
        .bytes()
        .try_fold(0, |value, digit| Some(value * 64 + DIGITS.iter().position(|it| *it == digit)?))
}

/// An entry on one line, without pronunciation, links and origins.
fn clean(entry: &[u8]) -> String {
    let entry = String::from_utf8_lossy(entry);
    let mut text = String::new();
    for (number, line) in entry.lines().enumerate() {
        // `Wall \Wall\, n.`: the headword again, as it is pronounced.
        let mut parts = line.split('\\');
        match (number, parts.next(), parts.next(), parts.next()) {
            (0, Some(headword), Some(_), Some(rest)) => text.extend([headword, rest]),
            _ => text += line,
        }
        text.push(' ');
    }
    let mut cleaned = String::new();
    let mut rest = &*text;
    while let Some((before, after)) = rest.split_once('[') {
        cleaned += before;
        rest = after;
        match after.split_once(']') {
            Some((mark, after)) if is_origin(mark) => rest = after,
            _ => cleaned.push('['),
        }
    }
    cleaned += rest;
    cleaned.retain(|c| !matches!(c, '{' | '}'));
    cleaned.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether this, between brackets, says where a paragraph comes from. What has a bracket in it is a
/// longer remark.
fn is_origin(mark: &str) -> bool {
    !mark.contains('[') && ORIGINS.iter().any(|origin| mark.contains(origin))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = "\
About this dictionary
Seawall \\Sea\"wall`\\, n.
   A wall that keeps out the {sea},
   or tries to. [Obs.] [1913 Webster +PJC]

Wall \\Wall\\, n. [See {Wale}.]
   1. It stands.
   [WordNet 1.5]
";

    #[test]
    fn entries_are_found_and_cleaned() {
        let [seawall, wall] = ["Seawall", "Wall \\"].map(|word| ENTRIES.find(word).unwrap());
        let line = |word: &str, begin: usize, end: usize| {
            let digits = [begin / 64, begin % 64, (end - begin) / 64, (end - begin) % 64];
            let [a, b, c, d] = digits.map(|digit| char::from(DIGITS[digit]));
            format!("{word}\t{a}{b}\t{c}{d}\n")
        };
        let index = [
            line("00-database-info", 0, seawall),
            line("wall", wall, ENTRIES.len()),
            line("sea wall", seawall, wall),
            line("seawall", seawall, wall),
        ]
        .concat();
        assert_eq!(
            documents(&index, ENTRIES.as_bytes()).unwrap(),
            [
                "Seawall , n. A wall that keeps out the sea, or tries to. [Obs.]",
                "Wall , n. [See Wale.] 1. It stands.",
            ]
        );
    }

    #[test]
    fn numbers_have_the_most_significant_digit_first() {
        assert_eq!(decode("A"), Some(0));
        assert_eq!(decode("/"), Some(63));
        assert_eq!(decode("Dy9/"), Some(((3 * 64 + 50) * 64 + 61) * 64 + 63));
        for wrong in ["", "-", "é", "AAAAAAAAA"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(documents("a\tA\tB\nb\tA", b"xy"), Err(DictdError::Line(2)));
        assert_eq!(documents("a\tA\t?", b"xy"), Err(DictdError::Line(1)));
        assert_eq!(documents("a\tB\tC", b"xy"), Err(DictdError::Beyond(1)));
        assert_eq!(documents("", b""), Ok(vec![]));
    }

    #[test]
    fn brackets_without_an_end_stay() {
        assert_eq!(clean(b"a [b {c} \xff [PJC] d ["), "a [b c \u{fffd} d [");
        assert_eq!(clean(b"[AS. s[ae]weall, PJC] [PJC]"), "[AS. s[ae]weall, PJC]");
    }
}
