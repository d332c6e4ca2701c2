//! Memory for large replies, used again and again.
//!
//! Freshly allocated megabytes are given back to the system and mapped anew each time: to clear
//! their pages would cost as much as the copy that they are for.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Most buffers that are kept while nobody uses them: more than replies that are being made or
/// written at the same time, and 160 MB of the largest values of the experiment.
const IDLE_MAX: usize = 128;

/// Buffers that nobody uses at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer that goes back when its last reader drops it.
struct Lent {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// What `write` makes of an empty buffer.
    pub(crate) fn make(&self, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        let idle = self.0.lock().pop(); // and unlocked before it is written
        let mut lent = Lent { bytes: idle.unwrap_or_default(), home: self.clone() };
        write(&mut lent.bytes);
        Bytes::from_owner(lent)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut idle = self.home.0.lock();
        if idle.len() < IDLE_MAX {
            idle.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_the_last_reader() {
        let buffers = Buffers::default();
        let first = buffers.make(|bytes| bytes.extend([1; 1000]));
        let (place, part) = (first.as_ptr(), first.slice(10..20));
        drop(first);
        let second = buffers.make(|bytes| bytes.extend([2; 1000]));
        assert_ne!(second.as_ptr(), place, "somebody still reads it");
        assert_eq!(&part[..], [1; 10]);
        drop(part);
        let third = buffers.make(|bytes| bytes.extend([3; 500]));
        assert_eq!((third.as_ptr(), &third[..]), (place, &[3; 500][..]));
    }

    #[test]
    fn idle_buffers_are_bounded() {
        let buffers = Buffers::default();
        let made: Vec<Bytes> =
            (0..2 * IDLE_MAX).map(|_| buffers.make(|bytes| bytes.push(0))).collect();
        drop(made);
        assert_eq!(buffers.0.lock().len(), IDLE_MAX);
    }
}
