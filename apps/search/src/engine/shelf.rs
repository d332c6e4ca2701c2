//! A bounded place for what is costly to make.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// Keeps what was used last, up to a number of bytes.
pub(super) struct Shelf<K, V> {
    items: LruCache<K, V>,
    size: fn(&V) -> usize,
    bytes: usize,
    bytes_max: usize,
    hits: u64,
    misses: u64,
}

impl<K: Hash + Eq, V> Shelf<K, V> {
    /// An empty shelf for up to `bytes_max` bytes, as `size` counts them.
    pub(super) fn new(bytes_max: usize, size: fn(&V) -> usize) -> Self {
        Self { items: LruCache::unbounded(), size, bytes: 0, bytes_max, hits: 0, misses: 0 }
    }

    /// What is kept under `key`, made by `make` if nothing is.
    ///
    /// It makes room by giving up what was used least recently. The newest stays in any case, so
    /// that one item may exceed the bound.
    ///
    /// # Errors
    ///
    /// What `make` says; then everything is as it was.
    pub(super) fn get_or_make<Q, E>(
        &mut self,
        key: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<&V, E>
    where
        K: Borrow<Q> + for<'a> From<&'a Q>,
        Q: Hash + Eq + ?Sized,
    {
        if self.items.promote(key) {
            self.hits += 1;
        } else {
            let made = make()?;
            self.misses += 1;
            self.bytes += (self.size)(&made);
            self.items.put(key.into(), made);
            while self.bytes > self.bytes_max && self.items.len() > 1 {
                if let Some((_, old)) = self.items.pop_lru() {
                    self.bytes -= (self.size)(&old);
                }
            }
        }
        Ok(self.items.peek(key).expect("it was found or made"))
    }

    /// How often something was kept, and how often not; and how many bytes are.
    pub(super) fn counts(&self) -> (u64, u64, usize) {
        (self.hits, self.misses, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn shelf() -> Shelf<String, usize> {
        Shelf::new(10, |size| *size)
    }

    fn get(shelf: &mut Shelf<String, usize>, key: &str, size: usize) -> usize {
        *shelf.get_or_make(key, || Ok::<_, Infallible>(size)).unwrap()
    }

    #[test]
    fn what_was_used_least_recently_goes_first() {
        let mut shelf = shelf();
        for (key, made, expected) in [
            ("a", 4, (0, 1, 4)),
            ("b", 4, (0, 2, 8)),
            ("a", 0, (1, 2, 8)),
            ("c", 3, (1, 3, 7)), // b goes
            ("a", 0, (2, 3, 7)),
            ("b", 2, (2, 4, 9)),
        ] {
            get(&mut shelf, key, made);
            assert_eq!(shelf.counts(), expected, "{key}");
        }
    }

    #[test]
    fn what_is_too_large_stays_until_the_next() {
        let mut shelf = shelf();
        get(&mut shelf, "a", 4);
        assert_eq!((get(&mut shelf, "huge", 100), shelf.counts()), (100, (0, 2, 100)));
        assert_eq!((get(&mut shelf, "huge", 0), shelf.counts()), (100, (1, 2, 100)));
        assert_eq!((get(&mut shelf, "a", 5), shelf.counts()), (5, (1, 3, 5)));
    }

    #[test]
    fn what_cannot_be_made_leaves_no_trace() {
        let mut shelf = shelf();
        get(&mut shelf, "a", 9);
        assert_eq!(shelf.get_or_make("b", || Err("no")), Err("no"));
        assert_eq!((get(&mut shelf, "a", 0), shelf.counts()), (9, (1, 1, 9)));
    }
}
