//! The wait itself: a future that is a node of the queue while it waits, and leaves no trace when
//! it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{self, Poll};

use seawall_control::Instant;
use seawall_control::request::Rejected;

use super::{Acquired, Asker, RawSemaphore, Stamp};
use crate::clock;
use crate::contention::Kind;
use crate::primitive::MutexGuard;
use crate::queue::{Entry, Offer, Progress, Queue, Site, Turn, Waiter, Wakes};

/// Asks for permits, and waits for them if it is let in.
#[derive(Debug)]
pub(crate) struct Acquire<'a> {
    raw: &'a RawSemaphore,
    need: u32,
    turn: Turn,
    asker: Asker<'a>,
    waiter: Waiter,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(raw: &'a RawSemaphore, need: u32, turn: Turn, asker: Asker<'a>) -> Self {
        Self { raw, need, turn, asker, waiter: Waiter::new() }
    }

    /// Asks, after it has tried in vain: is refused, or queues up.
    fn begin(self: Pin<&Self>, cx: &task::Context<'_>) -> Poll<Result<Acquired, Rejected>> {
        let (site, now) = (self.raw.site(), clock::now());
        let mut queue = site.lock();
        // It may have become free meanwhile.
        if let Some(before) = self.raw.word.try_take(self.need, self.raw.word.load()) {
            drop(queue);
            return Poll::Ready(Ok(Acquired { stamp: self.raw.taken(before), wait: None }));
        }
        let backlog = self.raw.backlog(site, &queue, now, self.need, self.turn);
        let predicted = self.raw.predict(&backlog);
        queue.standing.on_arrival(now);
        if let Asker::Request(ctx) = self.asker
            && let Err(rejected) = ctx.admit(site.stage(), now, predicted).and_then(|()| {
                let most = queue.standing.most(ctx.queues());
                ctx.admit_to_queue(site.stage(), backlog.queued(), most)
            })
        {
            queue.counts.refusals += 1;
            return Poll::Ready(Err(rejected));
        }

        // From here on whoever releases looks after the queue; what was released before is there.
        self.raw.word.set_queued();
        if queue.is_empty() && self.raw.take_in_turn(site, self.need) {
            self.raw.word.clear_queued();
            return Poll::Ready(Ok(Acquired { stamp: Stamp::at(now), wait: None }));
        }
        let mut entry = Entry::new(now, self.need, self.turn, predicted);
        entry.privileged = self.asker.context().is_some_and(|ctx| !ctx.claims().droppable);
        entry.waker = Some(cx.waker().clone());
        // SAFETY: it is linked nowhere. It stays where it is, because the future is pinned, and its
        // destructor takes it out of this queue.
        unsafe {
            self.waiter.fill(entry);
            self.waiter.set_progress(Progress::Waiting);
            queue.push(NonNull::from(&self.waiter), self.raw.capacity());
        }
        Poll::Pending
    }

    /// Was woken, or polled for some other reason.
    fn look(self: Pin<&Self>, cx: &task::Context<'_>) -> Poll<Result<Acquired, Rejected>> {
        let site = self.raw.site();
        let queue = site.lock();
        if self.waiter.progress() == Progress::Granted {
            drop(queue);
            return Poll::Ready(Ok(self.take_over()));
        }
        // SAFETY: it is not granted, hence linked in this queue, whose lock is held.
        let offer = unsafe { self.waiter.with(|entry| entry.offer) };
        if offer == Offer::Made {
            let now = clock::now();
            if self.raw.take_in_turn(site, self.need) {
                return Poll::Ready(Ok(self.accept(site, queue, now)));
            }
            // SAFETY: as above.
            unsafe { self.waiter.with(|entry| entry.miss_offer(now)) };
        }
        // SAFETY: as above.
        let replaced = unsafe { self.waiter.with(|entry| entry.replace_waker(cx.waker())) };
        drop(queue);
        drop(replaced); // which may be the end of a task that stands in this very queue
        Poll::Pending
    }

    /// Begins the turn for which it has just taken the permits itself.
    fn accept(&self, site: &Site, mut queue: MutexGuard<'_, Queue>, now: Instant) -> Acquired {
        // SAFETY: it is linked in this queue, whose lock is held.
        unsafe { queue.begin_turn(NonNull::from(&self.waiter), now, self.raw.capacity()) };
        if queue.is_empty() {
            self.raw.word.clear_queued();
        }
        drop(queue);
        let left = self.raw.word.load();
        if left.is_queued() && left.available() > 0 {
            self.raw.hand_on(site, now); // permits were added meanwhile
        }
        self.take_over()
    }

    /// Takes over what it was given.
    fn take_over(&self) -> Acquired {
        self.waiter.set_progress(Progress::Done);
        // SAFETY: who was granted its turn is linked nowhere, and this is its owner.
        unsafe {
            self.waiter.with(|entry| Acquired {
                stamp: Stamp::at(entry.granted_at),
                wait: Some((entry.since, entry.waited)),
            })
        }
    }

    /// Leaves the queue without having had a turn.
    #[cold]
    fn leave(&self) {
        let (site, now) = (self.raw.site(), clock::now());
        let mut queue = site.lock();
        if self.waiter.progress() == Progress::Granted {
            drop(queue);
            return self.pass_on();
        }
        let waiter = NonNull::from(&self.waiter);
        // SAFETY: it is not granted, hence linked in this queue, whose lock is held. Once it is
        // taken out it belongs to its owner alone.
        let (offer, since, waited) = unsafe {
            queue.remove(waiter, self.raw.capacity());
            self.waiter.with(|entry| {
                entry.settle(now);
                (entry.offer, entry.since, entry.waited)
            })
        };
        queue.counts.gave_up(now.since(since));
        if offer == Offer::Made {
            self.raw.word.close_window();
        }
        // It may have been in the way of those behind it.
        let mut wakes = Wakes::default();
        self.raw.grant(site, &mut queue, now, &mut wakes);
        drop(queue);
        let has_more = wakes.is_full();
        wakes.wake();
        if has_more {
            self.raw.hand_on(site, now);
        }
        if let Some(ctx) = self.asker.context() {
            ctx.charge(waited);
        }
    }

    /// Passes on what it was given and will not use.
    #[cold]
    fn pass_on(&self) {
        self.asker.charge(&self.take_over());
        if self.raw.settings.kind == Kind::Condvar {
            self.raw.let_pass(self.need); // a notification is not stored
        } else {
            self.raw.release(self.need, Stamp::NONE);
        }
    }
}

impl Future for Acquire<'_> {
    type Output = Result<Acquired, Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let this = self.as_ref();
        let polled = match this.waiter.progress() {
            Progress::New => this.begin(cx),
            Progress::Waiting => this.look(cx),
            Progress::Granted => Poll::Ready(Ok(this.take_over())),
            Progress::Done => panic!("a future was polled after it was ready"),
        };
        if polled.is_ready() {
            this.waiter.set_progress(Progress::Done);
        }
        polled
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        match self.waiter.progress() {
            Progress::New | Progress::Done => {}
            Progress::Waiting => self.leave(),
            Progress::Granted => self.pass_on(),
        }
    }
}
