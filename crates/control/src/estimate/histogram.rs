//! How often something took how long, in few buckets.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::time::nanos;

/// The longest time of each bucket but the last, which has no end. Three for each factor of ten, so
/// that targets as people set them lie on a bound, and what kept one is counted without error.
pub const BOUNDS: [Duration; 21] = [
    Duration::from_micros(10),
    Duration::from_micros(20),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(200),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Buckets in all.
const BUCKETS: usize = BOUNDS.len() + 1;

/// Times by bucket: for each how many there were, and their sum.
///
/// With a sum of its own for each bucket, a bucket's mean lies in the bucket. So whoever takes
/// single values and has the same bounds can be told the mean so many times, and loses nothing:
/// neither the counts nor the sum.
///
/// ```
/// use core::time::Duration;
/// use seawall_control::estimate::Histogram;
///
/// let mut times = Histogram::default();
/// times.observe(Duration::from_micros(60));
/// times.observe(Duration::from_micros(80));
/// let means: Vec<_> = times.means().collect();
/// assert_eq!(means, [(Duration::from_micros(70), 2)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    count: u64,
    /// Nanoseconds.
    sum: u64,
}

/// A [`Histogram`] that many threads count in at once, without a lock.
#[derive(Debug, Default)]
pub struct SharedHistogram {
    buckets: [SharedBucket; BUCKETS],
}

/// Both in one cache line: it is one that moves between cores, not two.
#[derive(Debug, Default)]
#[repr(align(16))]
struct SharedBucket {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Histogram {
    /// Counts one time.
    pub fn observe(&mut self, time: Duration) {
        let time = nanos(time);
        let bucket = &mut self.buckets[index(time)];
        bucket.count += 1;
        bucket.sum = bucket.sum.saturating_add(time);
    }

    /// Counts all that `other` has.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            own.count += other.count;
            own.sum = own.sum.saturating_add(other.sum);
        }
    }

    /// What was counted since this was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut new = self.clone();
        for (own, before) in new.buckets.iter_mut().zip(&before.buckets) {
            own.count = own.count.saturating_sub(before.count);
            own.sum = own.sum.saturating_sub(before.sum);
        }
        new
    }

    /// The mean of each bucket in which something is, and how much that is. Each lies in its
    /// bucket.
    pub fn means(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let used = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0);
        used.map(|(index, bucket)| {
            // Another thread may have been between the two numbers of a shared one.
            let above = index.checked_sub(1).map_or(0, |below| nanos(BOUNDS[below]) + 1);
            let most = BOUNDS.get(index).map_or(u64::MAX, |bound| nanos(*bound));
            let mean = (bucket.sum / bucket.count).clamp(above, most);
            (Duration::from_nanos(mean), bucket.count)
        })
    }

    /// How many there are of each bucket, the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.buckets.iter().map(|bucket| bucket.count)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts().sum()
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        let sums = self.buckets.iter().map(|bucket| bucket.sum);
        Duration::from_nanos(sums.fold(0, u64::saturating_add))
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl SharedHistogram {
    /// Counts one time.
    pub fn observe(&self, time: Duration) {
        self.observe_many(time, 1);
    }

    /// Counts one time so often.
    pub fn observe_many(&self, time: Duration, count: u64) {
        let time = nanos(time);
        let bucket = &self.buckets[index(time)];
        bucket.count.fetch_add(count, Relaxed);
        bucket.sum.fetch_add(time.saturating_mul(count), Relaxed);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Histogram {
        let read = |bucket: &SharedBucket| Bucket {
            count: bucket.count.load(Relaxed),
            sum: bucket.sum.load(Relaxed),
        };
        Histogram { buckets: core::array::from_fn(|index| read(&self.buckets[index])) }
    }
}

/// The bucket of a time in nanoseconds.
fn index(time: u64) -> usize {
    BOUNDS.partition_point(|bound| nanos(*bound) < time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn a_bound_belongs_to_the_bucket_that_it_ends() {
        assert!(BOUNDS.is_sorted());
        for (number, bound) in BOUNDS.iter().enumerate() {
            assert_eq!(index(nanos(*bound)), number);
            assert_eq!(index(nanos(*bound) + 1), number + 1);
        }
        assert_eq!((index(0), index(u64::MAX)), (0, BOUNDS.len()));
    }

    #[test]
    fn means_keep_counts_and_sum() {
        let shared = SharedHistogram::default();
        let times = [us(3), us(10), us(11), us(19), us(400), Duration::from_secs(100)];
        times.iter().for_each(|time| shared.observe(*time));
        let counted = shared.snapshot();
        assert_eq!((counted.count(), counted.sum()), (6, times.iter().sum()));
        let mut told = Histogram::default();
        for (mean, count) in counted.means() {
            (0..count).for_each(|_| told.observe(mean));
        }
        assert_eq!(told.counts().collect::<Vec<_>>(), counted.counts().collect::<Vec<_>>());
        let lost = counted.sum().abs_diff(told.sum());
        assert!(lost < Duration::from_nanos(6), "{lost:?}"); // means are whole nanoseconds
    }

    #[test]
    fn what_is_new_and_what_was_there_make_all() {
        let (shared, mut twice) =
            (SharedHistogram::default(), SharedHistogram::default().snapshot());
        shared.observe(us(30));
        let before = shared.snapshot();
        shared.observe_many(us(700), 3);
        let all = shared.snapshot();
        let new = all.since(&before);
        assert_eq!((new.count(), new.sum()), (3, us(2100)));
        twice.merge(&before);
        twice.merge(&new);
        assert_eq!(twice, all);
        assert!(all.since(&all).is_empty());
    }

    #[test]
    fn the_mean_of_two_numbers_that_do_not_fit_lies_in_its_bucket() {
        let mut torn = Histogram::default();
        torn.buckets[1] = Bucket { count: 2, sum: 5 };
        torn.buckets[2] = Bucket { count: 1, sum: u64::MAX };
        let means: Vec<_> = torn.means().collect();
        assert_eq!(means, [(Duration::from_nanos(10_001), 2), (us(50), 1)]);
    }
}
