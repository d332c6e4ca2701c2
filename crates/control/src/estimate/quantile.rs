//! A quantile over the newest samples.

/// The `q`-quantile of the newest `N` samples, exact within the window.
///
/// Keeps the samples unsorted in arrival order; a read copies and selects, O(N), so that reads are
/// pure. Meant for decisions taken once per tens or hundreds of samples.
#[derive(Clone, Debug)]
pub struct WindowedQuantile<const N: usize> {
    samples: [u64; N],
    next: usize,
    len: usize,
}

impl<const N: usize> Default for WindowedQuantile<N> {
    fn default() -> Self {
        const { assert!(N > 0, "a window holds at least one sample") };
        Self { samples: [0; N], next: 0, len: 0 }
    }
}

impl<const N: usize> WindowedQuantile<N> {
    /// Adds a sample, which replaces the oldest once the window is full.
    pub fn observe(&mut self, sample: u64) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % N;
        self.len = (self.len + 1).min(N);
    }

    /// The smallest sample that at least `q` of the window does not exceed (nearest rank);
    /// `None` without samples. `q` is clamped to [0, 1].
    pub fn value(&self, q: f64) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let mut samples = self.samples;
        let samples = &mut samples[..self.len];
        let rank = libm::ceil(q.clamp(0.0, 1.0) * self.len as f64) as usize;
        let index = rank.saturating_sub(1).min(self.len - 1);
        Some(*samples.select_nth_unstable(index).1)
    }

    /// How many samples the window holds, at most `N`.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True before the first sample and after [`clear`](Self::clear).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.len = 0;
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank_over_a_sliding_window() {
        let mut window = WindowedQuantile::<4>::default();
        assert_eq!(window.value(0.5), None);
        for sample in [40, 10, 30, 20] {
            window.observe(sample);
        }
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| window.value(q).unwrap()),
            [10, 10, 20, 30, 40]
        );
        window.observe(5); // replaces 40
        assert_eq!(window.value(1.0), Some(30));
    }
}
