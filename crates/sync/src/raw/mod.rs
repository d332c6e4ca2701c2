//! The one mechanism under all primitives: a counting semaphore with a fair queue.
//!
//! A mutex is a semaphore of one permit. A reader takes one permit of very many and a writer all of
//! them. A condition variable has none, and each notification lets one waiter pass.
//!
//! ```text
//!   acquire: free and nobody waits ─► one compare-and-swap ─► held
//!            else: predict ─► refuse, or queue up ─► granted
//!   release: one addition; if somebody waits, the first of the queue gets its turn
//! ```

mod acquire;
mod used;
mod word;

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::predict::lock::Backlog;
use seawall_control::request::{Context, Rejected};

use crate::block_on::block_on;
use crate::clock;
use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::queue::{Offer, Queue, Settings, Site, Turn, Wakes};
use acquire::Acquire;
pub(crate) use used::Used;
pub(crate) use word::PERMITS_MAX;
use word::{State, Word};

/// One of this many acquisitions without contention is timed, so that the mean hold stays up to
/// date at the cost of a clock's two readings in 64. A power of two.
const SAMPLE_EVERY: u64 = 64;

/// A thread looks this many times for the lock to come free before it queues up. A hold that ends
/// within a microsecond or two costs less than to be put to sleep.
const SPINS: u32 = if cfg!(any(loom, miri)) { 0 } else { 40 };

/// For how long others may take what is free while the first of the queue is on its way, if that
/// needs all there is: about as long as it takes to wake a thread, or to get through a runtime's
/// queue.
///
/// Were it handed over directly, it would lie idle for that long at every turn, and a lock that is
/// held for a microsecond would serve a tenth or less of what it can. Who finds it taken gets it
/// next, directly: nobody who waits is passed over for longer than this and one hold, or as many
/// brief ones as take an eighth of it. Where others can be served meanwhile, turns are handed over
/// directly at once.
const WINDOW: Duration = Duration::from_micros(100);

/// Holds of this length and longer are handed over directly at once: what lies idle while the
/// first of the queue wakes is a tenth of a hold at most, and one that overtakes would cost all who
/// wait a whole hold that no prediction counts.
const LONG: Duration = Duration::from_nanos(10 * WINDOW.as_nanos() as u64);

/// Where holds are brief, one of this many releases looks at the clock to see whether the window is
/// over: a look takes as long as such a hold. A power of two.
const LOOK_EVERY: u64 = 16;

/// Holds are brief if [`LOOK_EVERY`] of them take an eighth of the window at most.
const BRIEF: Duration = Duration::from_nanos(WINDOW.as_nanos() as u64 / (8 * LOOK_EVERY));

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker<'a> {
    /// A request: refused if it cannot afford the wait, else charged for it.
    Request(&'a Context),
    /// A request that cannot turn back: only charged.
    Committed(&'a Context),
    /// No request.
    Nobody,
}

/// When a holder's turn began, if anybody measured; and whether it said what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp(u64);

/// The mark of a stamp whose holder said what it does: no clock runs for so long.
const SAID: u64 = 1 << 63;

/// What who asked has got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acquired {
    pub(crate) stamp: Stamp,
    /// When it queued up, and how long it waited there; `None` when it did not have to.
    pub(crate) wait: Option<(Instant, Duration)>,
}

/// A counting semaphore with a queue in which requests know how long they will wait.
#[derive(Debug)]
pub(crate) struct RawSemaphore {
    word: Word,
    /// Permits in all, free or held.
    capacity: AtomicU32,
    /// How often permits were acquired. Those who acquire count, one after the other where one
    /// excludes others; of several who share it and come in the same instant, one may be lost.
    acquisitions: AtomicU64,
    settings: Settings,
    site: OnceLock<Arc<Site>>,
}

impl RawSemaphore {
    const_fn! {
        #[track_caller]
        pub(crate) const fn new(kind: Kind, permits: u32) -> Self {
            assert!(permits <= PERMITS_MAX, "a semaphore has at most 2^27 - 1 permits");
            Self {
                word: Word::new(permits),
                capacity: AtomicU32::new(permits),
                acquisitions: AtomicU64::new(0),
                settings: Settings::new(kind),
                #[cfg(not(loom))]
                site: OnceLock::new(),
                // What the standard library does once is not the model checker's concern.
                #[cfg(loom)]
                site: OnceLock::from(Site::new(&Settings::new(kind))),
            }
        }
    }

    pub(crate) const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Takes `need` permits, if that needs no wait.
    #[inline]
    pub(crate) fn try_acquire(&self, need: u32, turn: Turn) -> Option<Stamp> {
        // Who needs all there is can only get it if all is free: to look first is a waste.
        let guess = if turn == Turn::Exclusive { State::free(need) } else { self.word.load() };
        self.take(need, guess)
    }

    /// The same for one who has tried already.
    #[inline]
    fn try_again(&self, need: u32) -> Option<Stamp> {
        self.take(need, self.word.load())
    }

    #[inline]
    fn take(&self, need: u32, guess: State) -> Option<Stamp> {
        let before = self.word.try_take(need, guess)?;
        Some(self.taken(before))
    }

    /// What follows when permits were taken from `before` that nobody waited for. Not under the
    /// queue's lock.
    #[inline]
    fn taken(&self, before: State) -> Stamp {
        if before.is_watched() {
            self.tell_used();
        }
        if self.count().is_multiple_of(SAMPLE_EVERY) {
            return self.sample();
        }
        Stamp::NONE
    }

    /// Takes `need` permits; whoever asks waits in a queue, and is charged for that.
    #[inline]
    pub(crate) async fn acquire(
        &self,
        need: u32,
        turn: Turn,
        asker: Asker<'_>,
    ) -> Result<Stamp, Rejected> {
        if let Some(stamp) = self.try_acquire(need, turn) {
            return Ok(stamp);
        }
        let acquired = self.ask(need, turn, asker).await?;
        asker.charge(&acquired);
        Ok(acquired.stamp)
    }

    /// The same, on a thread that may sleep.
    #[inline]
    pub(crate) fn blocking_acquire(
        &self,
        need: u32,
        turn: Turn,
        asker: Asker<'_>,
    ) -> Result<Stamp, Rejected> {
        match self.try_acquire(need, turn) {
            Some(stamp) => Ok(stamp),
            None => self.spin_then_sleep(need, turn, asker),
        }
    }

    #[cold]
    fn spin_then_sleep(&self, need: u32, turn: Turn, asker: Asker<'_>) -> Result<Stamp, Rejected> {
        for _ in 0..SPINS {
            if self.word.load().is_queued() {
                break;
            }
            hint::spin_loop();
            if let Some(stamp) = self.try_again(need) {
                return Ok(stamp);
            }
        }
        let acquired = block_on(self.ask(need, turn, asker))?;
        asker.charge_thread(&acquired);
        Ok(acquired.stamp)
    }

    /// Waits for `need` permits, and charges nobody.
    pub(crate) fn ask<'a>(&'a self, need: u32, turn: Turn, asker: Asker<'a>) -> Acquire<'a> {
        Acquire::new(self, need, turn, asker)
    }

    /// Gives back what was taken at `stamp`.
    #[inline]
    pub(crate) fn release(&self, permits: u32, stamp: Stamp) {
        let now = stamp.get().map(|stamp| self.measure(stamp));
        let before = self.word.give(permits);
        if before.is_queued() {
            self.attend(before, now);
        }
    }

    /// Lets at most `count` of those pass who wait already. For one who has no permits to give.
    pub(crate) fn let_pass(&self, count: u32) {
        if !self.word.load().is_queued() {
            return;
        }
        let (site, now) = (self.site(), clock::now());
        let mut left = count;
        while left > 0 {
            let (mut queue, mut wakes) = (site.lock(), Wakes::default());
            while left > 0 && !wakes.is_full() {
                let Some(first) = queue.first_of(now) else {
                    left = 0;
                    break;
                };
                // SAFETY: it is linked in this queue, whose lock is held.
                wakes.push(unsafe { queue.grant(first, now, self.capacity()) });
                left -= 1;
            }
            if queue.is_empty() {
                self.word.clear_queued();
            }
            drop(queue);
            wakes.wake();
        }
    }

    /// Adds permits that nobody held before.
    ///
    /// # Panics
    ///
    /// If there would be more than [`PERMITS_MAX`].
    pub(crate) fn add(&self, permits: u32) {
        let grown = self.capacity.fetch_update(Relaxed, Relaxed, |capacity| {
            capacity.checked_add(permits).filter(|sum| *sum <= PERMITS_MAX)
        });
        assert!(grown.is_ok(), "a semaphore has at most 2^27 - 1 permits");
        self.release(permits, Stamp::NONE);
    }

    /// Sets how many permits there are. New ones go to those who wait; of those that are too many
    /// the ones that are held are forgotten as they come back.
    pub(crate) fn resize(&self, permits: u32) {
        assert!(permits <= PERMITS_MAX, "a semaphore has at most 2^27 - 1 permits");
        let queue = self.site().lock(); // so that one follows the other
        let before = self.capacity.swap(permits, Relaxed);
        if permits < before {
            return self.word.withdraw(before - permits);
        }
        drop(queue);
        if permits > before {
            self.release(permits - before, Stamp::NONE);
        }
    }

    /// Resolves once somebody takes a permit; at once if one is held or waited for.
    pub(crate) fn used(&self) -> Used<'_> {
        Used::new(self)
    }

    /// Tells who wants to know that somebody took the first permit.
    #[cold]
    fn tell_used(&self) {
        let mut queue = self.site().lock();
        self.word.clear_watched();
        let waker = queue.watcher.end();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Refuses a request that does not wait for what is taken: counts it, and tells it how long it
    /// would have had to wait.
    #[cold]
    pub(crate) fn refuse(&self, need: u32, turn: Turn, ctx: &Context) -> Rejected {
        let (site, now) = (self.site(), clock::now());
        let mut queue = site.lock();
        queue.counts.refusals += 1;
        let predicted = self.predict(&self.backlog(site, &queue, now, need, turn));
        Rejected::new(site.stage(), predicted, ctx.remaining(now))
    }

    /// Whether somebody holds a permit, or waits.
    #[cfg(not(loom))]
    pub(crate) fn is_used(&self) -> bool {
        let state = self.word.load();
        state.is_queued() || state.available() < self.capacity()
    }

    /// How often permits were acquired, roughly.
    pub(crate) fn acquisitions(&self) -> u64 {
        self.acquisitions.load(Relaxed)
    }

    /// Permits that somebody holds and will not give back.
    pub(crate) fn forget(&self, permits: u32) {
        self.capacity.fetch_sub(permits, Relaxed);
    }

    /// Permits that are free.
    pub(crate) fn available(&self) -> u32 {
        self.word.load().available()
    }

    /// Permits that are held, which may be more than there are.
    pub(crate) fn held(&self) -> u32 {
        let free = self.word.load().balance();
        self.capacity().saturating_add_signed(-free)
    }

    /// Permits in all, free or held.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.load(Relaxed)
    }

    /// What was measured until now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let acquisitions = self.acquisitions.load(Relaxed);
        let Some(site) = self.site.get() else {
            let Settings { kind, stage, name, .. } = self.settings;
            return Snapshot { acquisitions, ..Snapshot::new(kind, stage, name) };
        };
        site.publish(acquisitions);
        site.snapshot(clock::now())
    }

    fn site(&self) -> &Arc<Site> {
        self.site.get_or_init(|| Site::new(&self.settings))
    }

    /// Counts an acquisition that has just happened, and returns the number of all.
    #[inline]
    fn count(&self) -> u64 {
        // Not one step, which would cost as much as to acquire.
        let count = self.acquisitions.load(Relaxed) + 1;
        self.acquisitions.store(count, Relaxed);
        count
    }

    /// Times one of many acquisitions, once the lock is known to be contended at times.
    #[cold]
    fn sample(&self) -> Stamp {
        let Some(site) = self.site.get() else { return Stamp::NONE };
        site.publish(self.acquisitions.load(Relaxed));
        Stamp::at(clock::now())
    }

    /// The only holder says that it does so many units of `label` until it releases. Gives its new
    /// stamp.
    #[cold]
    pub(crate) fn hold(&self, label: &'static str, amount: u64) -> Stamp {
        let now = clock::now();
        self.site().lock().holds.begin(now, label, amount);
        Stamp(now.as_nanos() | SAID)
    }

    /// Learns how long a holder held it, and returns the time.
    #[cold]
    fn measure(&self, stamp: Stamp) -> Instant {
        let (site, now) = (self.site(), clock::now());
        if stamp.0 & SAID == 0 {
            site.on_held(now.since(Instant::from_nanos(stamp.0)));
        } else {
            site.lock().holds.end(now); // and says nothing about other holds
        }
        now
    }

    /// Looks after the queue, once something was released into `before`.
    #[cold]
    fn attend(&self, before: State, now: Option<Instant>) {
        let site = self.site();
        if before.is_window_open() && now.is_none() && !self.is_time_to_look(site) {
            return;
        }
        let now = now.unwrap_or_else(clock::now);
        if !before.is_window_open() || now.since(site.window_opened()) >= WINDOW {
            self.hand_on(site, now);
        }
    }

    /// Whether a release into an open window asks if that is over.
    fn is_time_to_look(&self, site: &Site) -> bool {
        let hold = site.hold();
        let is_brief = !hold.is_zero() && hold <= BRIEF;
        !is_brief || self.acquisitions.load(Relaxed).is_multiple_of(LOOK_EVERY)
    }

    /// Gives the first of the queue its turn, and as many others as there is room for.
    fn hand_on(&self, site: &Site, now: Instant) {
        let mut is_done = false;
        while !is_done {
            let mut wakes = Wakes::default();
            self.grant(site, &mut site.lock(), now, &mut wakes);
            is_done = !wakes.is_full();
            wakes.wake();
        }
    }

    /// Grants as much as is free, in the queue's order.
    fn grant(&self, site: &Site, queue: &mut Queue, now: Instant, wakes: &mut Wakes) {
        while let Some(first) = queue.first().filter(|_| !wakes.is_full()) {
            // SAFETY: it is linked in this queue, whose lock is held.
            let (need, offer) = unsafe { first.as_ref().with(|entry| (entry.need, entry.offer)) };
            match offer {
                Offer::Made if now.since(site.window_opened()) < WINDOW => break,
                Offer::None if need >= self.capacity() && site.hold() < LONG => {
                    if self.available() >= need {
                        // SAFETY: as above.
                        wakes.push(unsafe { first.as_ref().with(|entry| entry.make_offer(now)) });
                        site.on_window(now);
                        self.word.open_window();
                    }
                    break;
                }
                Offer::None | Offer::Made | Offer::Missed => {
                    if !self.take_in_turn(site, need) {
                        break;
                    }
                    // SAFETY: as above.
                    wakes.push(unsafe { queue.grant(first, now, self.capacity()) });
                }
            }
        }
        if queue.is_empty() {
            self.word.clear_queued();
        }
    }

    /// Takes `need` permits for somebody whose turn it is, if they are free.
    fn take_in_turn(&self, site: &Site, need: u32) -> bool {
        let is_taken = self.word.take_in_turn(need);
        if is_taken {
            site.publish(self.count());
        }
        is_taken
    }

    /// What is ahead of a request that comes now.
    fn backlog(&self, site: &Site, queue: &Queue, now: Instant, need: u32, turn: Turn) -> Backlog {
        let (available, capacity) = (self.available(), self.capacity());
        let ahead = queue.work_ahead(need, turn, available, capacity);
        site.backlog(queue, now, ahead, capacity)
    }

    /// How long it will wait.
    fn predict(&self, backlog: &Backlog) -> Duration {
        self.settings.estimate.wait(backlog)
    }
}

impl<'a> Asker<'a> {
    /// The request that asks, if it is one.
    pub(crate) fn context(self) -> Option<&'a Context> {
        match self {
            Self::Request(ctx) | Self::Committed(ctx) => Some(ctx),
            Self::Nobody => None,
        }
    }

    /// Charges the time in the queue. A task waits for its runtime after that, whose run queue has
    /// its own account.
    pub(crate) fn charge(self, acquired: &Acquired) {
        if let (Some((_, waited)), Some(ctx)) = (acquired.wait, self.context()) {
            ctx.charge(waited);
        }
    }

    /// Charges a thread's wait until now: what it took to wake is on nobody else's account.
    pub(crate) fn charge_thread(self, acquired: &Acquired) {
        if let (Some((since, _)), Some(ctx)) = (acquired.wait, self.context()) {
            ctx.charge(clock::now().since(since));
        }
    }
}

impl Stamp {
    /// Nobody measured.
    pub(crate) const NONE: Self = Self(0);

    fn at(now: Instant) -> Self {
        Self(now.as_nanos())
    }

    #[inline]
    fn get(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }
}

/// What one got who could not be refused.
#[inline]
pub(crate) fn unrefused<T>(result: Result<T, Rejected>) -> T {
    result.unwrap_or_else(|_| unreachable!("only a request that may turn back is refused"))
}
