//! The best of many documents.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A document and its score. The better one is greater: by score, then by the lower number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) score: f32,
    pub(super) document: u32,
}

/// Keeps the best `limit` of all that it is offered.
#[derive(Debug)]
pub(super) struct Top {
    best: BinaryHeap<Reverse<Ranked>>,
    limit: usize,
}

impl Top {
    pub(super) fn new(limit: usize) -> Self {
        Self { best: BinaryHeap::with_capacity(limit), limit }
    }

    pub(super) fn offer(&mut self, score: f32, document: u32) {
        let offered = Ranked { score, document };
        if self.best.len() < self.limit {
            self.best.push(Reverse(offered));
        } else if let Some(mut worst) = self.best.peek_mut()
            && worst.0 < offered
        {
            worst.0 = offered;
        }
    }

    /// The best first.
    pub(super) fn into_sorted(self) -> Vec<Ranked> {
        self.best.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked).collect()
    }
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then(other.document.cmp(&self.document))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_sorting_all_would_give(
            scores in vec(0..20_u32, 0..100),
            limit in 1..30_usize,
        ) {
            let mut top = Top::new(limit);
            let mut all = Vec::new();
            for (document, score) in scores.into_iter().enumerate() {
                let (score, document) = (score as f32, document as u32);
                top.offer(score, document);
                all.push(Ranked { score, document });
            }
            all.sort_by_key(|ranked| Reverse(*ranked));
            all.truncate(limit);
            prop_assert_eq!(top.into_sorted(), all);
        }
    }
}
