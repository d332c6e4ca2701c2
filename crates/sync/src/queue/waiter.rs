//! One who waits: a node that lives in a future, or on the stack of a thread that blocks.

use std::marker::PhantomPinned;
use std::ptr::NonNull;
use std::task::Waker;
use std::time::Duration;

use seawall_control::Instant;

use crate::primitive::{AtomicU8, Ordering, UnsafeCell};

/// How far a waiter has come. Written under the queue's lock, read by the waiter without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Progress {
    /// It has not asked yet.
    New,
    /// It is in the queue.
    Waiting,
    /// It was given what it asked for, and is in no queue any more.
    Granted,
    /// It has taken over what it was given, or gave up.
    Done,
}

/// How much of a lock's time one waiter's turn is, and with whom it shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// As large as the part of all permits that it needs.
    Weighted,
    /// All of it: a writer, and whoever locks a mutex.
    Exclusive,
    /// All of it, together with its neighbours in the queue that share, too: readers.
    Shared,
}

/// Whether a waiter was told to come and take what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Not yet.
    None,
    /// Yes, and it is on its way.
    Made,
    /// Somebody else was quicker: what is free next is kept for it.
    Missed,
}

/// What the queue knows of a waiter. Touched under the queue's lock, and by the waiter itself while
/// it is in no queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) previous: Option<NonNull<Waiter>>,
    pub(super) next: Option<NonNull<Waiter>>,
    pub(super) turn: Turn,
    /// Permits' worth of the lock's time that it adds to what is ahead of others.
    pub(super) work: u64,
    pub(super) predicted: Duration,
    pub(crate) privileged: bool,
    pub(crate) need: u32,
    pub(crate) waker: Option<Waker>,
    pub(crate) offer: Offer,
    /// When it came.
    pub(crate) since: Instant,
    /// From when on its wait is not accounted for in `waited` yet.
    pub(crate) waits_since: Instant,
    /// Time that it spent in the queue, without the time that a runtime took to run it.
    pub(crate) waited: Duration,
    /// When it was given what it asked for.
    pub(crate) granted_at: Instant,
}

impl Entry {
    /// One who waits from `now` on.
    pub(crate) fn new(now: Instant, need: u32, turn: Turn, predicted: Duration) -> Self {
        Self {
            previous: None,
            next: None,
            turn,
            work: 0,
            predicted,
            privileged: false,
            need,
            waker: None,
            offer: Offer::None,
            since: now,
            waits_since: now,
            waited: Duration::ZERO,
            granted_at: now,
        }
    }

    /// Tells the waiter to come and take what is free: returns whom to wake.
    pub(crate) fn make_offer(&mut self, now: Instant) -> Option<Waker> {
        self.settle(now);
        self.offer = Offer::Made;
        self.waker.take()
    }

    /// Will wake `waker` from now on. Returns what is not needed any more, to be dropped without
    /// the lock: dropping it runs code of others.
    #[must_use]
    pub(crate) fn replace_waker(&mut self, waker: &Waker) -> Option<Waker> {
        if self.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return None;
        }
        self.waker.replace(waker.clone())
    }

    /// Came because of an offer, and found nothing left.
    pub(crate) fn miss_offer(&mut self, now: Instant) {
        self.offer = Offer::Missed;
        self.waits_since = now;
    }

    /// Accounts for the wait until `now`. From an offer on the waiter no longer waits for the lock
    /// but for its runtime, whose run queue has its own account.
    pub(crate) fn settle(&mut self, now: Instant) {
        if self.offer != Offer::Made {
            self.waited += now.since(self.waits_since);
            self.waits_since = now;
        }
    }
}

/// A place for an [`Entry`] that stays where it is while it is linked.
#[derive(Debug)]
pub(crate) struct Waiter {
    progress: AtomicU8,
    entry: UnsafeCell<Option<Entry>>,
    _pinned: PhantomPinned,
}

// SAFETY: `entry` is touched only under the lock of the queue that links it, or by the waiter's
// owner while no queue links it; `progress` is atomic and orders the two. A `Waker` may be used
// from any thread.
unsafe impl Send for Waiter {}
// SAFETY: as above.
unsafe impl Sync for Waiter {}

impl Waiter {
    pub(crate) fn new() -> Self {
        Self {
            progress: AtomicU8::new(Progress::New as u8),
            entry: UnsafeCell::new(None),
            _pinned: PhantomPinned,
        }
    }

    /// How far it has come. What happened before a grant is visible to who sees the grant.
    pub(crate) fn progress(&self) -> Progress {
        match self.progress.load(Ordering::Acquire) {
            0 => Progress::New,
            1 => Progress::Waiting,
            2 => Progress::Granted,
            _ => Progress::Done,
        }
    }

    /// Says how far it has come.
    pub(crate) fn set_progress(&self, progress: Progress) {
        self.progress.store(progress as u8, Ordering::Release);
    }

    /// Tells it, from another thread, that it was granted what it asked for.
    ///
    /// # Safety
    ///
    /// The waiter is alive. It may be freed as soon as it knows, so that nobody but its owner may
    /// touch it any more.
    pub(super) unsafe fn tell_granted(waiter: NonNull<Self>) {
        // SAFETY: it is alive until the store. The reference covers nothing but the atomic, whose
        // memory may go while a reference to it exists.
        let progress = unsafe { &(*waiter.as_ptr()).progress };
        progress.store(Progress::Granted as u8, Ordering::Release);
    }

    /// Fills the place.
    ///
    /// # Safety
    ///
    /// No queue links the waiter, and only its owner calls this.
    pub(crate) unsafe fn fill(&self, entry: Entry) {
        self.entry.with_mut(|place| {
            // SAFETY: the caller is the only one who has access.
            unsafe { *place = Some(entry) };
        });
    }

    /// Gives access to the entry.
    ///
    /// # Safety
    ///
    /// The place was filled. The caller holds the lock of the queue that links the waiter; or no
    /// queue links it, and the caller is its owner. `access` does not reach the same entry again.
    pub(crate) unsafe fn with<R>(&self, access: impl FnOnce(&mut Entry) -> R) -> R {
        self.entry.with_mut(|place| {
            // SAFETY: the caller has exclusive access, and uses it once at a time.
            let entry = unsafe { (*place).as_mut() };
            access(entry.expect("a waiter is filled before it is linked"))
        })
    }
}
