//! Threads and tasks that do the same thing again and again.

use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier, LazyLock};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How many operations are done between two looks at the clock, or at whether to stop.
const BATCH: u64 = 16;

/// How long a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// For one addition.
    Addition,
    /// For about that many nanoseconds of work.
    Nanos(u32),
}

/// What one turn measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time for each operation, all threads or tasks together.
    pub nanos: f64,
    /// Operations of who did least, relative to the mean: 1 is fair.
    pub least_share: f64,
}

/// A lock of some kind, for threads.
pub trait Blocking: Default + Send + Sync + 'static {
    /// Locks it, holds it, unlocks it.
    fn operate(&self, hold: Hold);
}

/// A lock of some kind, for tasks.
pub trait Async: Default + Send + Sync + 'static {
    /// Locks it, holds it, unlocks it.
    fn operate(&self, hold: Hold) -> impl Future<Output = ()> + Send;
}

/// One turn of a contestant, for at least that long.
pub type Turn = Box<dyn Fn(Duration) -> Sample>;

impl Hold {
    /// Does the work for which the lock is held.
    pub fn work(self, number: &mut u64) {
        *number = number.wrapping_add(1);
        if let Self::Nanos(nanos) = self {
            for _ in 0..(f64::from(nanos) * *STEPS_PER_NANO) as u64 {
                black_box(&mut *number);
            }
        }
    }
}

/// How many steps of [`Hold::work`] take a nanosecond, the best of some attempts.
static STEPS_PER_NANO: LazyLock<f64> = LazyLock::new(|| {
    const STEPS: u64 = 200_000;
    let attempt = |_| {
        let (start, mut number) = (Instant::now(), 0_u64);
        for _ in 0..STEPS {
            black_box(&mut number);
        }
        STEPS as f64 / start.elapsed().as_nanos() as f64
    };
    (0..20).map(attempt).fold(0.0, f64::max)
});

/// Lets `threads` threads use one lock.
pub fn threads<L: Blocking>(threads: usize, hold: Hold) -> Turn {
    Box::new(move |time| {
        let (lock, stop) = (Arc::new(L::default()), Arc::new(AtomicBool::new(false)));
        hold.work(&mut 0); // calibrated before anything counts
        let start = Arc::new(Barrier::new(threads + 1));
        let running: Vec<_> = (0..threads)
            .map(|_| {
                let (lock, stop, start) = (lock.clone(), stop.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    let mut operations = 0;
                    while !stop.load(Relaxed) {
                        (0..BATCH).for_each(|_| lock.operate(hold));
                        operations += BATCH;
                    }
                    operations
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        thread::sleep(time);
        stop.store(true, Relaxed);
        let elapsed = began.elapsed();
        Sample::new(elapsed, running.into_iter().map(|thread| thread.join().expect("no panic")))
    })
}

/// Lets tasks on two worker threads of tokio's runtime use one lock; one task alone is polled by
/// this thread, without a runtime.
pub fn tasks<L: Async>(tasks: usize, hold: Hold) -> Turn {
    if tasks == 1 {
        return alone::<L>(hold);
    }
    Box::new(move |time| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("a runtime can be started");
        let (lock, stop) = (Arc::new(L::default()), Arc::new(AtomicBool::new(false)));
        hold.work(&mut 0); // calibrated before anything counts
        let began = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|_| {
                let (lock, stop) = (lock.clone(), stop.clone());
                runtime.spawn(async move {
                    let mut operations = 0;
                    while !stop.load(Relaxed) {
                        for _ in 0..BATCH {
                            lock.operate(hold).await;
                        }
                        operations += BATCH;
                    }
                    operations
                })
            })
            .collect();
        thread::sleep(time);
        stop.store(true, Relaxed);
        let elapsed = began.elapsed();
        Sample::new(
            elapsed,
            running.into_iter().map(|task| runtime.block_on(task).expect("no panic")),
        )
    })
}

fn alone<L: Async>(hold: Hold) -> Turn {
    Box::new(move |time| {
        let lock = L::default();
        let began = Instant::now();
        let mut operations = 0;
        while began.elapsed() < time {
            let batch = pin!(async {
                for _ in 0..64 * BATCH {
                    lock.operate(hold).await;
                }
            });
            let polled = batch.poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready(), "nobody else has the lock");
            operations += 64 * BATCH;
        }
        Sample::new(began.elapsed(), [operations].into_iter())
    })
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addition => f.write_str("short holds"),
            Self::Nanos(nanos) => write!(f, "{nanos} ns holds"),
        }
    }
}

impl Sample {
    fn new(elapsed: Duration, operations: impl Iterator<Item = u64>) -> Self {
        let operations: Vec<_> = operations.collect();
        let sum = operations.iter().sum::<u64>() as f64;
        let least = operations.iter().min().map_or(0, |least| *least) as f64;
        Self {
            nanos: elapsed.as_nanos() as f64 / sum,
            least_share: least * operations.len() as f64 / sum,
        }
    }
}
