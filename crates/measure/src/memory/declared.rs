//! What the application says that it moves.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use seawall_control::steer::Meter;

/// Bytes that the application adds up itself, where no hardware counts them, or where it counts
/// too much: what other processes move.
///
/// ```
/// use seawall_control::steer::Meter;
/// use seawall_measure::memory::Declared;
///
/// static MOVED: Declared = Declared::new();
///
/// let column = vec![0_u64; 1_000];
/// MOVED.add(size_of_val(column.as_slice()) as u64); // about to be read
/// let mut meter = &MOVED;
/// assert_eq!(meter.total(), Some(8_000));
/// ```
#[derive(Debug, Default)]
pub struct Declared(AtomicU64);

impl Declared {
    /// No bytes yet. A meter is a reference to it: make it a `static`.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The one of this process, for all of its services that say what they move.
    pub fn shared() -> &'static Self {
        static SHARED: Declared = Declared::new();
        &SHARED
    }

    /// That many bytes more go from or to memory. Say so where they do, rather than all at the end:
    /// an interval is 500 µs.
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    /// All bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Meter for &Declared {
    fn name(&self) -> &str {
        "declared bytes"
    }

    fn total(&mut self) -> Option<u64> {
        Some(self.bytes())
    }
}
