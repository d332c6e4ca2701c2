//! How long a task of the runtime waits until it is polled.
//!
//! Where the runtime's run queue is the bottleneck, nobody who runs on it can see it: a request
//! shows when its task is polled, and then it does not wait any more. So somebody who does not run
//! on it, a thread, sends a byte to a task of it every millisecond, through a socket like everybody
//! else's, and knows how long that task does not answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::time::nanos;
use tokio::runtime::Handle;

use crate::clock;

/// What thread, task and requests share.
#[derive(Debug, Default)]
pub(super) struct Canary {
    /// When the byte was sent that the task has not answered, nanoseconds; 0 if there is none.
    sent: AtomicU64,
    /// How long the last one was on its way, nanoseconds.
    last: AtomicU64,
    /// Requests have come lately of which only it knows how long they waited.
    stirred: AtomicBool,
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The thread's end of the socket.
#[derive(Debug)]
pub(super) struct Sender(UnixStream);

impl Canary {
    /// How long a task waits, as far as is known: what the last one did, or the one that waits now
    /// does already.
    pub(super) fn delay(&self, now: Instant) -> Duration {
        Duration::from_nanos(self.last.load(Relaxed)).max(self.waiting(now))
    }

    /// How long the one has waited that waits now.
    fn waiting(&self, now: Instant) -> Duration {
        match self.sent.load(Relaxed) {
            0 => Duration::ZERO,
            sent => now.since(Instant::from_nanos(sent)),
        }
    }

    /// A request has come that does not know itself how long it waited: wakes the thread if it
    /// sleeps.
    pub(super) fn stir(&self) {
        if !self.stirred.load(Relaxed) {
            self.stirred.store(true, SeqCst);
        }
        if self.asleep.load(SeqCst)
            && self.asleep.swap(false, SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// True if such a request has come since this was last asked.
    pub(super) fn was_stirred(&self) -> bool {
        self.stirred.swap(false, SeqCst)
    }

    /// Called by the thread, of which there is one: sleeps until such a request
    /// comes, or for `most`.
    pub(super) fn sleep(&self, most: Duration) {
        self.thread.get_or_init(std::thread::current);
        if self.sent.load(Relaxed) == 0 {
            self.last.store(0, Relaxed); // which is over
        }
        self.asleep.store(true, SeqCst);
        if !self.stirred.load(SeqCst) {
            std::thread::park_timeout(most);
        }
        self.asleep.store(false, SeqCst);
    }

    /// Puts a task on `runtime` that answers. It ends with the sender.
    ///
    /// # Errors
    ///
    /// The system's, when it gives no more sockets.
    pub(super) fn start(self: &Arc<Self>, runtime: &Handle) -> io::Result<Sender> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        let canary = self.clone();
        runtime.spawn(async move {
            let Ok(receiver) = tokio::net::UnixStream::from_std(receiver) else { return };
            let mut bytes = [0; 8];
            while receiver.readable().await.is_ok() {
                match receiver.try_read(&mut bytes) {
                    Ok(0) => return,
                    Ok(_) => canary.answer(clock::now()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        });
        Ok(Sender(sender))
    }

    /// Nobody will answer any more.
    fn forget(&self) {
        self.sent.store(0, Relaxed);
        self.last.store(0, Relaxed);
    }

    fn answer(&self, now: Instant) {
        let sent = self.sent.swap(0, Relaxed);
        self.last.store(nanos(now.since(Instant::from_nanos(sent))), Relaxed);
    }
}

impl Sender {
    /// Sends a byte, unless the last one was not answered.
    pub(super) fn send(&mut self, canary: &Canary, now: Instant) {
        if canary.sent.load(Relaxed) != 0 {
            if self.is_alone() {
                canary.forget();
            }
            return;
        }
        canary.sent.store(now.as_nanos().max(1), Relaxed);
        if self.0.write(&[1]).is_err() {
            canary.forget();
        }
    }

    /// True if the task is gone: a runtime that is shut down drops it, and its end of the socket.
    fn is_alone(&mut self) -> bool {
        !matches!(self.0.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_waits_counts_while_it_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let canary = Arc::new(Canary::default());
        let mut sender = canary.start(runtime.handle()).unwrap();
        let (sent, ms) = (clock::now(), Duration::from_millis(1));
        assert_eq!(canary.delay(sent), Duration::ZERO);
        sender.send(&canary, sent);
        sender.send(&canary, sent + 9 * ms); // waits behind the first: is not sent
        // Nothing of the runtime has run.
        assert_eq!(canary.delay(sent + 50 * ms), 50 * ms);
        runtime.block_on(async {
            while canary.sent.load(Relaxed) != 0 {
                tokio::task::yield_now().await;
            }
        });
        let last = canary.delay(sent);
        assert!(last > Duration::ZERO && last <= clock::now().since(sent), "{last:?}");
        assert!(!sender.is_alone());
        sender.send(&canary, clock::now());
        drop(runtime);
        assert!(sender.is_alone());
        sender.send(&canary, clock::now());
        assert_eq!(canary.delay(clock::now()), Duration::ZERO);
    }

    #[test]
    fn a_request_wakes_who_sleeps() {
        let canary = Arc::new(Canary::default());
        let sleeper = {
            let canary = canary.clone();
            std::thread::spawn(move || {
                while !canary.was_stirred() {
                    canary.sleep(Duration::from_secs(3600));
                }
            })
        };
        canary.stir();
        sleeper.join().unwrap(); // or this test never ends
    }
}
