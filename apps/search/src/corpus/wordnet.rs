//! WordNet's files: a line for each set of synonyms (wndb(5WN)).
//!
//! ```text
//! 00001740 03 n 02 wall 0 sea_wall 1 001 @ 00001930 n 0000 | a wall that keeps out the sea
//! ```
//!
//! Offset, file, type, number of words (hexadecimal), then each word with a digit; pointers follow,
//! and behind the bar the gloss.

use thiserror::Error;

/// The files.
pub const PARTS: [&str; 4] = ["data.noun", "data.verb", "data.adj", "data.adv"];

/// A line that is no set of synonyms.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {0} is no set of synonyms")]
pub struct WordNetError(usize);

/// A document for each set of synonyms: its words, and what they mean.
///
/// # Errors
///
/// Names the first line that is none.
pub fn documents(file: &str) -> Result<Vec<String>, WordNetError> {
    // The licence stands ahead, indented.
    let lines = (1..).zip(file.lines()).filter(|(_, line)| !line.starts_with("  "));
    lines.map(|(number, line)| document(line).ok_or(WordNetError(number))).collect()
}

fn document(line: &str) -> Option<String> {
    let (head, gloss) = line.split_once('|')?;
    let mut fields = head.split_whitespace().skip(3);
    let count = usize::from_str_radix(fields.next()?, 16).ok()?;
    let words: Vec<&str> = fields.step_by(2).take(count).collect();
    if words.len() < count || count == 0 {
        return None;
    }
    // An adjective may say where it stands: `asleep(p)`.
    let plain = |word: &&str| word.split('(').next().unwrap_or_default().replace('_', " ");
    let words: Vec<String> = words.iter().map(plain).collect();
    Some(format!("{}: {}", words.join(", "), gloss.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "  1 Here would be a licence.
00001740 03 n 02 wall 0 sea_wall 1 001 @ 00001930 n 0000 | that which keeps the sea out  \n\
00001930 00 a 01 awash(p) 0 000 | as if | there were no wall; \"the street is awash\"  \n";

    #[test]
    fn a_document_is_words_and_gloss() {
        assert_eq!(
            documents(FILE).unwrap(),
            [
                "wall, sea wall: that which keeps the sea out",
                "awash: as if | there were no wall; \"the street is awash\"",
            ]
        );
    }

    #[test]
    fn the_number_of_words_is_hexadecimal() {
        let words: String = (0..16).map(|n| format!("w{n} 0 ")).collect();
        let line = format!("1 03 n 10 {words}000 | sixteen");
        let documents = documents(&line).unwrap();
        assert!(documents[0].ends_with("w14, w15: sixteen"), "{documents:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for wrong in [
            "",
            "1 03 n 01 wall 0 000 no gloss",
            "1 03 n zz wall 0 | x",
            "1 03 n 03 a 0 | x",
            "1 03 n 00 | x",
        ] {
            let file = format!("{FILE}{wrong}\n");
            assert_eq!(documents(&file), Err(WordNetError(4)), "{wrong}");
        }
    }
}
