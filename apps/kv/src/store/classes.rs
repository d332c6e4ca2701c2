//! Size classes: which chunk size serves an item of a given size.

use super::config::{CHUNK_ALIGN, Config};

/// The chunk sizes of all classes, ascending. Fixed for the life of a store, so that choosing a
/// class needs no lock.
#[derive(Debug)]
pub(super) struct SizeClasses {
    sizes: Box<[usize]>,
}

impl SizeClasses {
    /// `config` must be valid.
    pub(super) fn new(config: &Config) -> Self {
        let largest = config.item_bytes_max as usize;
        let mut sizes = Vec::new();
        let mut size = (config.chunk_bytes_min as usize).next_multiple_of(CHUNK_ALIGN);
        while size < largest {
            sizes.push(size);
            let grown = (size as f64 * config.growth_factor) as usize;
            // At 1.05 and 48 bytes the growth is below the alignment: always take one step.
            size = grown.next_multiple_of(CHUNK_ALIGN).max(size + CHUNK_ALIGN);
        }
        sizes.push(largest);
        // About 240 classes at the smallest factor allowed, and the largest item.
        assert!(sizes.len() <= usize::from(u8::MAX), "a class number fits in a byte");
        Self { sizes: sizes.into() }
    }

    /// The smallest class whose chunks hold `bytes`; `None` if even the largest does not.
    pub(super) fn fitting(&self, bytes: usize) -> Option<u8> {
        let class = self.sizes.partition_point(|&size| size < bytes);
        (class < self.sizes.len()).then_some(class as u8)
    }

    /// Chunk size per class, in bytes, ascending.
    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Size of the largest item, in bytes of key and value.
    pub(super) fn largest(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::PAGE_BYTES;
    use super::*;

    #[test]
    fn default_classes_follow_the_factor() {
        let classes = SizeClasses::new(&Config::default());
        assert_eq!(classes.sizes()[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!(classes.largest(), PAGE_BYTES);
        assert!(classes.sizes().is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_smallest_fitting_class_is_chosen() {
        let classes = SizeClasses::new(&Config::default());
        assert_eq!(classes.fitting(1), Some(0));
        assert_eq!(classes.fitting(96), Some(0));
        assert_eq!(classes.fitting(97), Some(1));
        assert_eq!(classes.fitting(PAGE_BYTES), Some((classes.sizes().len() - 1) as u8));
        assert_eq!(classes.fitting(PAGE_BYTES + 1), None);
    }

    #[test]
    fn every_valid_configuration_has_classes_that_fit_a_byte() {
        for growth_factor in [1.05, 1.08, 2.0, 4.0] {
            for (chunk_bytes_min, item_bytes_max) in
                [(48, 8 << 20), (48, 1 << 20), (48, 1024), (1024, 1024), (4096, 1 << 20)]
            {
                let config =
                    Config { chunk_bytes_min, growth_factor, item_bytes_max, ..Config::default() };
                assert_eq!(config.validate(), Ok(()));
                let classes = SizeClasses::new(&config);
                assert_eq!(classes.largest(), item_bytes_max as usize);
                assert!(classes.sizes().is_sorted_by(|a, b| a < b));
            }
        }
    }
}
