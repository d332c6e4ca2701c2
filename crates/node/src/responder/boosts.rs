//! Until when each service is boosted, in memory that the program in the kernel writes.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use seawall_control::Instant;

use super::config::SERVICES_MAX;
use super::table::Slot;

const BYTES: NonZeroUsize = NonZeroUsize::new(SERVICES_MAX * size_of::<u64>()).unwrap();

/// A view of the boosts. Looking is one load: no thread is woken, and no call is made.
///
/// Another process has the same view if it is given the [descriptor](AsFd) through a Unix socket
/// and calls [`from_fd`](Self::from_fd). Who holds it can also write: give it only to whom may
/// boost itself.
pub struct Boosts {
    words: NonNull<AtomicU64>,
    map: OwnedFd,
}

// SAFETY: the memory is only read, atomically, and belongs to no thread.
unsafe impl Send for Boosts {}
// SAFETY: as above.
unsafe impl Sync for Boosts {}

impl Boosts {
    /// The view of a map, which another process may have sent.
    ///
    /// # Errors
    ///
    /// If it is none that can be mapped.
    pub fn from_fd(map: OwnedFd) -> io::Result<Self> {
        // SAFETY: the kernel chooses the place.
        let words = unsafe {
            mmap(None, BYTES, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, map.as_fd(), 0)?
        };
        Ok(Self { words: words.cast(), map })
    }

    /// Until when this service is boosted, on the system's monotonic clock: in the past if it is
    /// not any more, zero if it never was.
    pub fn until(&self, slot: Slot) -> Instant {
        let slot = usize::from(slot);
        assert!(slot < SERVICES_MAX, "there is no slot {slot}");
        // SAFETY: it is within the mapping, which lives as long as this, and aligned; the kernel
        // writes whole words.
        let word = unsafe { self.words.add(slot).as_ref() };
        Instant::from_nanos(word.load(Ordering::Acquire))
    }

    /// Whether this service is boosted.
    pub fn is_boosted(&self, slot: Slot, now: Instant) -> bool {
        now < self.until(slot)
    }
}

impl AsFd for Boosts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl Drop for Boosts {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        let unmapped = unsafe { munmap(self.words.cast(), BYTES.get()) };
        debug_assert!(unmapped.is_ok());
    }
}

impl fmt::Debug for Boosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boosts").finish_non_exhaustive()
    }
}
