//! Waits for a future on the thread that asks: what makes each async operation a blocking one.

#[cfg(loom)]
pub(crate) use loom::future::block_on;

#[cfg(not(loom))]
pub(crate) use parked::block_on;

#[cfg(not(loom))]
mod parked {
    use std::cell::RefCell;
    use std::future::Future;
    use std::hint;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};

    /// Looks at the flag this many times before the thread sleeps: about what it takes to put it to
    /// sleep and to wake it. Short holds end within that time.
    const SPINS: u32 = if cfg!(miri) { 1 } else { 100 };

    /// Polls `future` until it is ready; the thread sleeps in between.
    pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
        thread_local! {
            // Made once for each thread that ever waits, so that waiting does not allocate.
            static PARKER: RefCell<(Arc<Parker>, Waker)> = RefCell::new(Parker::new());
        }
        let mut future = Some(future);
        let cached = PARKER.try_with(|cached| {
            // A future that itself blocks must not use up the wake-ups of the one around it.
            let parker = cached.try_borrow_mut().ok()?;
            let future = future.take().expect("it is taken once");
            Some(drive(future, &parker.0, &parker.1))
        });
        match (cached, future) {
            (Ok(Some(output)), _) => output,
            (_, Some(future)) => {
                let (parker, waker) = Parker::new();
                drive(future, &parker, &waker)
            }
            (_, None) => unreachable!("a future that was taken was driven to its end"),
        }
    }

    fn drive<F: Future>(future: F, parker: &Parker, waker: &Waker) -> F::Output {
        let mut future = pin!(future);
        let mut cx = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            parker.park();
        }
    }

    /// Puts its thread to sleep until somebody wakes it.
    struct Parker {
        notified: AtomicBool,
        thread: Thread,
    }

    impl Parker {
        fn new() -> (Arc<Self>, Waker) {
            let notified = AtomicBool::new(false);
            let parker = Arc::new(Self { notified, thread: thread::current() });
            (parker.clone(), parker.into())
        }

        fn park(&self) {
            for _ in 0..SPINS {
                if self.notified.load(Ordering::Relaxed) {
                    break;
                }
                hint::spin_loop();
            }
            while !self.notified.swap(false, Ordering::Acquire) {
                thread::park();
            }
        }
    }

    impl Wake for Parker {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            if !self.notified.swap(true, Ordering::Release) {
                self.thread.unpark();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::future::{pending, poll_fn, ready};

        use super::*;

        #[test]
        fn a_future_that_blocks_leaves_the_wakes_of_the_outer_one_alone() {
            let mut polls = 0;
            let outer = poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    cx.waker().wake_by_ref();
                    let mut inner_polls = 0;
                    block_on(poll_fn(|cx| {
                        inner_polls += 1;
                        cx.waker().wake_by_ref();
                        if inner_polls < 3 { Poll::Pending } else { Poll::Ready(()) }
                    }));
                    return Poll::Pending;
                }
                Poll::Ready(polls)
            });
            assert_eq!(block_on(outer), 2);
        }

        #[test]
        fn another_thread_wakes_it() {
            let (send, receive) = std::sync::mpsc::channel::<Waker>();
            let waking = thread::spawn(move || receive.recv().unwrap().wake());
            let mut asked = false;
            block_on(poll_fn(|cx| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(());
                }
                send.send(cx.waker().clone()).unwrap();
                Poll::Pending
            }));
            waking.join().unwrap();
        }

        #[test]
        fn what_is_ready_is_not_waited_for() {
            assert_eq!(block_on(ready(7)), 7);
            let never = pending::<()>();
            drop(never);
        }
    }
}
