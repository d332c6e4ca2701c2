//! A semaphore whose capacity a thread steers: when that decides, sleeps, sees nothing, and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use seawall_control::bandit::Config;
use seawall_control::steer::Meter;
use seawall_sync::MemorySemaphore;
use seawall_sync::memory::{SteerError, Steering};

const CORES: u32 = 8;

/// A gigabyte per second and holder that may be in, up to three, or nothing.
#[derive(Clone)]
struct Machine {
    memory: Arc<MemorySemaphore>,
    start: Instant,
    readings: Arc<AtomicU64>,
    is_broken: Arc<AtomicBool>,
}

impl Machine {
    fn new() -> Self {
        Self {
            memory: Arc::new(MemorySemaphore::new(CORES)),
            start: Instant::now(),
            readings: Arc::default(),
            is_broken: Arc::default(),
        }
    }

    fn steered(&self) -> Steering {
        let config = Config { interval: Duration::from_micros(200), ..Config::default() };
        Steering::start(self.memory.clone(), &config, self.clone()).unwrap()
    }
}

impl Meter for Machine {
    fn name(&self) -> &str {
        "a machine"
    }

    fn total(&mut self) -> Option<u64> {
        self.readings.fetch_add(1, Relaxed);
        let holders = u64::from(self.memory.capacity().min(3));
        let nanos = self.start.elapsed().as_nanos() as u64;
        (!self.is_broken.load(Relaxed)).then_some(nanos * holders)
    }
}

/// Waits for what another thread will bring about.
fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_micros(50));
    }
}

#[test]
fn decides_while_it_is_used_and_gives_the_capacity_back() {
    let machine = Machine::new();
    let steering = machine.steered();
    until(|| steering.is_asleep());
    assert_eq!((machine.memory.capacity(), steering.decisions()), (1, 0));
    until(|| {
        drop(machine.memory.try_wait());
        steering.decisions() > 20 && machine.memory.capacity() > 1
    });
    assert!(steering.rate().is_some_and(|rate| rate > 0.0));
    drop(steering);
    assert_eq!(machine.memory.capacity(), CORES);
}

#[test]
fn sleeps_while_nobody_uses_it_and_not_during_one_long_use() {
    let machine = Machine::new();
    let steering = machine.steered();
    until(|| steering.is_asleep());
    assert_eq!(machine.readings.load(Relaxed), 0);
    for _ in 0..5 {
        let decided = steering.decisions();
        let held = machine.memory.try_wait();
        until(|| steering.decisions() > decided + 5);
        drop(held);
        until(|| steering.is_asleep());
    }
}

#[test]
fn lets_everybody_in_while_it_sees_nothing() {
    let machine = Machine::new();
    let steering = machine.steered();
    machine.is_broken.store(true, Relaxed);
    let held = machine.memory.blocking_wait_plain();
    until(|| machine.memory.capacity() == CORES);
    machine.is_broken.store(false, Relaxed);
    until(|| steering.decisions() > 0 && machine.memory.capacity() < CORES);
    drop((held, steering));
}

#[test]
fn is_steered_by_one_at_a_time() {
    let machine = Machine::new();
    let again = || Steering::start(machine.memory.clone(), &Config::default(), machine.clone());
    let steering = again().unwrap();
    assert!(matches!(again(), Err(SteerError::Steered)));
    drop(steering);
    let nonsense = Config { epsilon: 2.0, ..Config::default() };
    let refused = Steering::start(machine.memory.clone(), &nonsense, machine.clone());
    assert!(refused.unwrap_err().to_string().contains("bandit.epsilon"));
    drop(again().unwrap());
    assert_eq!(machine.memory.capacity(), CORES);
}

#[test]
fn a_meter_that_is_coarser_than_the_interval_makes_it_longer() {
    struct Coarse;
    impl Meter for Coarse {
        fn name(&self) -> &str {
            "coarse"
        }

        fn total(&mut self) -> Option<u64> {
            Some(0)
        }

        fn resolution(&self) -> Duration {
            Duration::from_secs(11)
        }
    }
    let memory = Arc::new(MemorySemaphore::new(CORES));
    let refused = Steering::start(memory.clone(), &Config::default(), Coarse).unwrap_err();
    assert!(refused.to_string().contains("bandit.interval"), "{refused}");
    drop(Steering::start(memory, &Config::default(), Machine::new()).unwrap());
}

#[test]
fn a_meter_that_panics_leaves_the_capacity_as_it_was() {
    struct Panics;
    impl Meter for Panics {
        fn name(&self) -> &str {
            "panics"
        }

        fn total(&mut self) -> Option<u64> {
            panic!("on purpose");
        }
    }
    let memory = Arc::new(MemorySemaphore::new(CORES));
    let steering = Steering::start(memory.clone(), &Config::default(), Panics).unwrap();
    until(|| memory.capacity() == 1);
    let _held = memory.try_wait();
    until(|| memory.capacity() == CORES);
    drop(steering);
}
