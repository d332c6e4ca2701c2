//! The wait for somebody to wait for: a semaphore that nobody uses needs no attention.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::RawSemaphore;

/// Resolves once somebody takes a permit.
///
/// The first permit is never taken in a turn of the queue: the word is watched only while nobody
/// holds one and nobody waits, and who comes tries to take before it queues up. So it is enough
/// that those tell who take without having waited.
#[derive(Debug)]
pub(crate) struct Used<'a> {
    raw: &'a RawSemaphore,
    /// The number of its watch, once it has one.
    watch: Option<u64>,
}

impl<'a> Used<'a> {
    pub(super) fn new(raw: &'a RawSemaphore) -> Self {
        Self { raw, watch: None }
    }
}

impl Future for Used<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.raw.site().lock();
        if let Some(watch) = self.watch {
            let replaced = queue.watcher.go_on(watch, cx.waker());
            drop(queue);
            return if replaced.is_some() { Poll::Pending } else { Poll::Ready(()) };
        }
        if !self.raw.word.watch(self.raw.capacity()) {
            return Poll::Ready(());
        }
        let (watch, former) = queue.watcher.begin(cx.waker().clone());
        drop(queue);
        self.watch = Some(watch);
        if let Some(former) = former {
            former.wake();
        }
        Poll::Pending
    }
}
