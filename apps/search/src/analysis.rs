//! The words of a text: what is indexed, and what a query asks for.

/// Longest word that is indexed, in bytes of UTF-8; what is longer is no word of a language.
pub const WORD_BYTES_MAX: usize = 40;

/// Words that say little about a text because nearly every text has them, in order.
const STOP_WORDS: [&str; 92] = [
    "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "before",
    "being", "but", "by", "can", "could", "did", "do", "does", "etc", "for", "from", "had", "has",
    "have", "he", "her", "him", "his", "how", "if", "in", "into", "is", "it", "its", "may", "me",
    "might", "more", "most", "my", "no", "nor", "not", "of", "on", "only", "or", "other", "our",
    "out", "over", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "too", "under", "up", "upon", "us",
    "very", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "will", "with",
    "would", "you", "your",
];

/// Words of `text` in their order, in lower case, without stop words and single letters.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() <= WORD_BYTES_MAX && word.chars().nth(1).is_some())
        .map(str::to_lowercase)
        .filter(|word| STOP_WORDS.binary_search(&word.as_str()).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn words_are_what_is_between_other_characters() {
        assert_eq!(of("The Sea-wall, 1st of its kind (Öl)."), ["sea", "wall", "1st", "kind", "öl"]);
        assert_eq!(of("  "), [""; 0]);
    }

    #[test]
    fn stop_words_letters_and_monsters_are_none() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(of("the THE a x 7 and AND"), [""; 0]);
        assert_eq!(of(&"m".repeat(WORD_BYTES_MAX)).len(), 1);
        assert_eq!(of(&"m".repeat(WORD_BYTES_MAX + 1)), [""; 0]);
    }
}
