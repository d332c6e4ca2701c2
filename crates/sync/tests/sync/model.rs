//! Random sequences of what may happen at a lock, beside the simplest lock that could be right.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use proptest::collection::vec;
use proptest::prelude::*;
use seawall_sync::memory::MemoryPermit;
use seawall_sync::{MemorySemaphore, Mutex, MutexGuard, Semaphore, SemaphorePermit};

/// One thing that somebody does. Numbers name one of those who are there, modulo how many there
/// are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(u32),
    Poll(usize),
    /// Gives up, or gives back.
    Leave(usize),
    Add(u32),
    Try,
}

/// Who needs all permits there are may find that somebody was quicker. Nobody does here.
const NEED_MAX: u32 = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..=NEED_MAX).prop_map(Step::Ask),
        3 => any::<usize>().prop_map(Step::Poll),
        4 => any::<usize>().prop_map(Step::Leave),
        1 => (0..3_u32).prop_map(Step::Add),
        2 => Just(Step::Try),
    ]
}

/// A future that is polled by hand, and what came of it.
struct Asker<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    wakes: Arc<Wakes>,
    got: Option<T>,
}

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl<'a, T> Asker<'a, T> {
    /// One who has asked for the first time.
    fn new(future: impl Future<Output = T> + 'a) -> Self {
        let mut asker = Self { future: Box::pin(future), wakes: Arc::default(), got: None };
        asker.poll();
        asker
    }

    fn poll(&mut self) {
        if self.got.is_some() {
            return;
        }
        self.wakes.0.store(0, Relaxed);
        let waker = Waker::from(self.wakes.clone());
        if let Poll::Ready(got) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.got = Some(got);
        }
    }

    fn is_woken(&self) -> bool {
        self.wakes.0.load(Relaxed) > 0
    }
}

/// A fair semaphore, with names for those who ask.
#[derive(Debug, Default)]
struct Model {
    /// Fewer than none, if more are held than there are to be.
    permits: i32,
    queue: VecDeque<(u32, u32)>,
    granted: Vec<(u32, u32)>,
}

impl Model {
    fn ask(&mut self, name: u32, need: u32) {
        self.queue.push_back((name, need));
        self.grant();
    }

    fn leave(&mut self, name: u32) {
        self.queue.retain(|(waiting, _)| *waiting != name);
        if let Some(at) = self.granted.iter().position(|(granted, _)| *granted == name) {
            self.permits += self.granted.swap_remove(at).1.cast_signed();
        }
        self.grant();
    }

    fn grant(&mut self) {
        while let Some((name, need)) = self.queue.front().copied()
            && need.cast_signed() <= self.permits
        {
            self.permits -= need.cast_signed();
            self.queue.pop_front();
            self.granted.push((name, need));
        }
    }

    fn is_granted(&self, name: u32) -> bool {
        self.granted.iter().any(|(granted, _)| *granted == name)
    }
}

proptest! {
    #[test]
    fn a_semaphore_is_fair(permits in NEED_MAX + 1..NEED_MAX + 4, steps in vec(step(), 0..80)) {
        let semaphore = Semaphore::new(permits);
        let mut model = Model { permits: permits.cast_signed(), ..Model::default() };
        let mut askers: Vec<(u32, Asker<'_, SemaphorePermit<'_>>)> = Vec::new();
        for (name, step) in (0..).zip(steps) {
            match step {
                Step::Ask(need) => {
                    model.ask(name, need);
                    let asker = Asker::new(semaphore.acquire_many_plain(need));
                    prop_assert_eq!(asker.got.is_some(), model.is_granted(name));
                    askers.push((name, asker));
                }
                Step::Poll(which) if !askers.is_empty() => {
                    let which = which % askers.len();
                    let (name, asker) = &mut askers[which];
                    asker.poll();
                    prop_assert_eq!(asker.got.is_some(), model.is_granted(*name));
                }
                Step::Leave(which) if !askers.is_empty() => {
                    let (name, asker) = askers.swap_remove(which % askers.len());
                    model.leave(name);
                    drop(asker);
                }
                Step::Add(more) => {
                    semaphore.add_permits(more);
                    model.permits += more.cast_signed();
                    model.grant();
                }
                Step::Try => {
                    let is_free = model.queue.is_empty() && model.permits > 0;
                    prop_assert_eq!(semaphore.try_acquire().is_some(), is_free);
                }
                Step::Poll(_) | Step::Leave(_) => {}
            }
            prop_assert_eq!(semaphore.available_permits().cast_signed(), model.permits);
            prop_assert_eq!(semaphore.snapshot().waiters as usize, model.queue.len());
            for (name, asker) in &askers {
                let told = asker.got.is_some() || asker.is_woken();
                prop_assert_eq!(told, model.is_granted(*name), "{} was not told right", name);
            }
        }
    }

    #[test]
    fn a_capacity_that_changes_is_kept_to(steps in vec(step(), 0..80)) {
        // Where one is all there are, somebody may be quicker than who was woken.
        const LEAST: u32 = 2;
        let memory = MemorySemaphore::new(LEAST);
        let mut model = Model { permits: LEAST.cast_signed(), ..Model::default() };
        let mut askers: Vec<(u32, Asker<'_, MemoryPermit<'_>>)> = Vec::new();
        for (name, step) in (0..).zip(steps) {
            match step {
                Step::Ask(_) => {
                    model.ask(name, 1);
                    askers.push((name, Asker::new(memory.wait_plain())));
                }
                Step::Poll(which) if !askers.is_empty() => {
                    let which = which % askers.len();
                    askers[which].1.poll();
                }
                Step::Leave(which) if !askers.is_empty() => {
                    let (name, asker) = askers.swap_remove(which % askers.len());
                    model.leave(name);
                    drop(asker);
                }
                Step::Add(more) => {
                    model.permits += (LEAST + more).cast_signed() - memory.capacity().cast_signed();
                    memory.resize(LEAST + more);
                    model.grant();
                }
                Step::Try => prop_assert_eq!(memory.try_wait().is_some(), model.permits > 0),
                Step::Poll(_) | Step::Leave(_) => {}
            }
            prop_assert_eq!(memory.available().cast_signed(), model.permits.max(0));
            prop_assert_eq!(memory.snapshot().waiters as usize, model.queue.len());
            for (name, asker) in &askers {
                let told = asker.got.is_some() || asker.is_woken();
                prop_assert_eq!(told, model.is_granted(*name), "{} was not told right", name);
            }
        }
    }

    #[test]
    fn a_mutex_serves_all_in_order(steps in vec(step(), 0..80)) {
        let mutex = Mutex::new(());
        let mut askers: Vec<(u32, Asker<'_, MutexGuard<'_, ()>>)> = Vec::new();
        let mut tried = None;
        for (name, step) in (0..).zip(steps) {
            match step {
                Step::Ask(_) => askers.push((name, Asker::new(mutex.lock_plain()))),
                Step::Poll(which) if !askers.is_empty() => {
                    let which = which % askers.len();
                    askers[which].1.poll();
                }
                Step::Leave(which) if !askers.is_empty() => {
                    drop(askers.swap_remove(which % askers.len()));
                }
                Step::Add(_) => tried = None,
                Step::Try => tried = mutex.try_lock().or(tried),
                Step::Poll(_) | Step::Leave(_) => {}
            }
            let holders = askers.iter().filter(|(_, asker)| asker.got.is_some()).count();
            prop_assert!(holders + usize::from(tried.is_some()) <= 1);
        }

        // Whoever is left gets it in the order of asking, if each is polled only once it was woken.
        drop(tried);
        askers.retain(|(_, asker)| asker.got.is_none());
        askers.sort_by_key(|(name, _)| *name);
        let mut served = Vec::new();
        while let Some(at) =
            askers.iter().position(|(_, asker)| asker.got.is_some() || asker.is_woken())
        {
            askers[at].1.poll();
            if askers[at].1.got.is_some() {
                served.push(askers.remove(at).0);
            }
        }
        prop_assert!(askers.is_empty(), "{} wait for ever", askers.len());
        prop_assert!(served.is_sorted(), "{:?} is not the order of asking", served);
        prop_assert!(mutex.try_lock().is_some());
    }
}
