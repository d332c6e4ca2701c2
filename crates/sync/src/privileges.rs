//! Requests that must not be dropped: at every primitive they are let in whatever the wait, and
//! pass those who came before them.

use std::convert::Infallible;
use std::future::Future;

use seawall_control::lanes::PRIVILEGED_RUN;
use seawall_control::request::Context;

use crate::clock::manual::advance;
use crate::testing::{Polled, now, request, undroppable, us};
use crate::{Condvar, Gate, MemoryPolicy, MemorySemaphore, Mutex, Pool, RwLock, Semaphore};

/// The order in which those get their turns who ask while somebody holds what they ask for: two
/// who can wait, then one who must not be dropped. Each gives it back at once.
fn order<'a, H, G: 'a, F>(
    held: H,
    asking: &'a [Context; 3],
    ask: impl Fn(&'a Context) -> F,
) -> [usize; 3]
where
    F: Future<Output = G> + 'a,
{
    let mut waiting = asking.each_ref().map(|ctx| Some(Polled::waiting(ask(ctx))));
    drop(held);
    [(); 3].map(|()| {
        let turn = waiting.iter_mut().position(|one| {
            let granted = one.as_mut().is_some_and(|one| one.poll().is_some());
            if granted {
                *one = None;
            }
            granted
        });
        turn.expect("somebody is next")
    })
}

fn asking() -> [Context; 3] {
    [request(1_000), request(1_000), undroppable()]
}

/// Who must not be dropped, and then the others in their order.
const FIRST: [usize; 3] = [2, 0, 1];

#[test]
fn a_mutex() {
    let (mutex, asking) = (Mutex::new(0), asking());
    let held = mutex.try_lock().unwrap();
    assert_eq!(
        order(held, &asking, async |ctx: &Context| drop(mutex.lock(ctx).await.unwrap())),
        FIRST
    );
}

#[test]
fn a_lock_for_readers_and_writers() {
    let (lock, asking) = (RwLock::new(0), asking());
    let held = lock.try_read().unwrap();
    let write = async |ctx: &Context| drop(lock.write(ctx).await.unwrap());
    assert_eq!(order(held, &asking, write), FIRST, "writers");
    let held = lock.try_write().unwrap();
    let mixed = async |ctx: &Context| {
        if ctx.claims().droppable {
            drop(lock.write(ctx).await.unwrap());
        } else {
            drop(lock.read(ctx).await.unwrap());
        }
    };
    assert_eq!(order(held, &asking, mixed), FIRST, "a reader and writers");
}

#[test]
fn a_semaphore_and_a_gate() {
    let (semaphore, ours) = (Semaphore::new(1), asking());
    let held = semaphore.try_acquire().unwrap();
    let acquire = async |ctx: &Context| drop(semaphore.acquire(ctx).await.unwrap());
    assert_eq!(order(held, &ours, acquire), FIRST);

    let (gate, ours) = (Gate::new(1), asking());
    let first = request(1_000);
    let held = Polled::waiting(gate.run(&first, std::future::pending::<()>()));
    assert_eq!(
        order(held, &ours, async |ctx: &Context| gate.run(ctx, async {}).await.unwrap()),
        FIRST
    );
}

#[test]
fn a_pool() {
    let pool = Pool::new(1, || async { Ok::<_, Infallible>(()) });
    let asking = asking();
    let held = now(pool.get(&request(1_000))).unwrap();
    assert_eq!(
        order(held, &asking, async |ctx: &Context| drop(pool.get(ctx).await.unwrap())),
        FIRST
    );
}

#[test]
fn a_memory_semaphore_whatever_its_policy() {
    let (memory, ours) = (MemorySemaphore::new(1), asking());
    let held = memory.try_wait().unwrap();
    let enter = async |ctx: &Context| drop(memory.enter(MemoryPolicy::Wait, ctx).await.unwrap());
    assert_eq!(order(held, &ours, enter), FIRST);

    // Where others are turned away, it waits, and nobody takes its place meanwhile.
    memory.resize(2);
    let _other = memory.try_wait().unwrap();
    let held = memory.try_wait().unwrap();
    let ctx = undroppable();
    let waiting = Polled::waiting(memory.enter(MemoryPolicy::Try, &ctx));
    drop(held);
    assert!(now(memory.enter(MemoryPolicy::Try, &request(1_000))).is_err());
    assert!(waiting.ready().unwrap().is_some());
}

#[test]
fn a_condition() {
    let (mutex, condvar, asking) = (Mutex::new(()), Condvar::new(), asking());
    let wait = |ctx| condvar.wait(ctx, mutex.try_lock().unwrap());
    let mut waiting = asking.each_ref().map(|ctx| Polled::waiting(wait(ctx)));
    condvar.notify_one();
    assert_eq!(waiting.each_ref().map(Polled::wakes), [0, 0, 1]);
    drop(waiting[2].poll().expect("it was notified").unwrap());
    condvar.notify_one();
    assert_eq!(waiting.each_ref().map(Polled::wakes), [1, 0, 1]);
    // Notified together, they meet again at the mutex, and so does who must not be dropped.
    drop(waiting[0].poll().unwrap().unwrap());
    let privileged = undroppable();
    let mut privileged = Polled::waiting(condvar.wait(&privileged, mutex.try_lock().unwrap()));
    let holder = mutex.try_lock().unwrap();
    condvar.notify_all();
    assert!(waiting[1].poll().is_none() && privileged.poll().is_none());
    drop(holder);
    assert!(waiting[1].poll().is_none());
    drop(privileged.poll().expect("it is first").unwrap());
    assert!(waiting[1].poll().is_some());
}

#[test]
fn a_stream_of_them_passes_over_nobody_for_ever() {
    let semaphore = Semaphore::new(1);
    let (ordinary, stream) = (request(1_000_000), [(); 40].map(|()| undroppable()));
    let mut held = semaphore.try_acquire();
    let mut waiting = Polled::waiting(semaphore.acquire(&ordinary));
    let mut passed = 0;
    for pair in stream.windows(2) {
        let mut next = Polled::waiting(semaphore.acquire(&pair[0]));
        advance(us(1));
        drop(held.take());
        if waiting.poll().is_some() {
            break;
        }
        held = Some(next.poll().expect("it is first").unwrap());
        passed += 1;
    }
    assert_eq!(passed, PRIVILEGED_RUN);
}
