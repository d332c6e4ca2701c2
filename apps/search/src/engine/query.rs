//! What is searched for.

use thiserror::Error;

use crate::analysis;

/// Most hits that a query may ask for.
pub(super) const LIMIT_MAX: u16 = 100;

/// Most different words of a query.
pub(super) const WORDS_MAX: usize = 32;

/// Documents with any of some words, the best of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    words: Vec<String>,
    limit: usize,
}

/// Why a query makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// It has no words.
    #[error("there is no word to search for; stop words and single letters are none")]
    NoWords,
    /// It has more words than it may.
    #[error("{0} words are too many; allowed: 1 to {WORDS_MAX}")]
    ManyWords(usize),
    /// It asks for more hits than it may, or for none.
    #[error("{0} hits cannot be asked for; allowed: 1 to {LIMIT_MAX}")]
    Limit(u16),
}

impl Query {
    /// Asks for the best `limit` documents that have any of the [`words`](analysis::words) of
    /// `text`.
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    pub fn new(text: &str, limit: u16) -> Result<Self, QueryError> {
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(QueryError::Limit(limit));
        }
        let mut words = Vec::new();
        for word in analysis::words(text) {
            if !words.contains(&word) {
                words.push(word);
            }
            if words.len() > WORDS_MAX {
                return Err(QueryError::ManyWords(analysis::words(text).count()));
            }
        }
        if words.is_empty() {
            Err(QueryError::NoWords)
        } else {
            Ok(Self { words, limit: limit.into() })
        }
    }

    /// The words, each once.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// How many hits are wanted.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_sought_once() {
        let query = Query::new("The wall, the WALL and the sea", 3).unwrap();
        assert_eq!((query.words(), query.limit()), (&["wall".into(), "sea".into()][..], 3));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Query::new("of the", 1), Err(QueryError::NoWords));
        assert_eq!(Query::new("sea", 0), Err(QueryError::Limit(0)));
        assert_eq!(Query::new("sea", 101), Err(QueryError::Limit(101)));
        let many: String = (10..10 + WORDS_MAX).map(|word| format!("{word} ")).collect();
        assert_eq!(Query::new(&many, 1).unwrap().words().len(), WORDS_MAX);
        assert_eq!(Query::new(&format!("{many} sea"), 1), Err(QueryError::ManyWords(33)));
    }
}
