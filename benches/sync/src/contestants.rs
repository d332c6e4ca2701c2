//! The locks and semaphores that are compared, all with the same two interfaces.

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use seawall_control::Instant;
use seawall_control::bandit::Config;
use seawall_control::request::{Claims, Context};
use seawall_control::steer::Meter;
use seawall_sync::MemorySemaphore;
use seawall_sync::memory::Steering;

use crate::run::{Async, Blocking, Hold};

/// A request that has all the time in the world.
static REQUEST: LazyLock<Context> =
    LazyLock::new(|| Context::new(Claims::default(), Instant::ORIGIN));

/// How many permits a semaphore has.
const PERMITS: u32 = 1;

/// How many permits those have of which nobody shall wait.
const ROOM: u32 = 16;

/// A lock of Seawall's that is asked for on behalf of a request.
#[derive(Debug, Default)]
pub struct ForRequest<L>(L);

/// A lock that is locked to read.
#[derive(Debug, Default)]
pub struct Reading<L>(L);

/// A semaphore of one permit, without anything to protect.
#[derive(Debug)]
pub struct Permits<S>(S);

/// A semaphore with room for all, which is only tried.
#[derive(Debug)]
pub struct Trying<S>(S);

/// The same, while a thread watches over its capacity.
#[derive(Debug)]
pub struct Steered {
    memory: Arc<MemorySemaphore>,
    _steering: Steering,
}

/// A meter that shows nothing, so that all are let in.
struct Nothing;

impl Meter for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn total(&mut self) -> Option<u64> {
        Some(0)
    }
}

impl Default for Trying<tokio::sync::Semaphore> {
    fn default() -> Self {
        Self(tokio::sync::Semaphore::new(ROOM as usize))
    }
}

impl Default for Trying<seawall_sync::Semaphore> {
    fn default() -> Self {
        Self(seawall_sync::Semaphore::new(ROOM))
    }
}

impl Default for Trying<MemorySemaphore> {
    fn default() -> Self {
        Self(MemorySemaphore::new(ROOM))
    }
}

impl Default for Steered {
    fn default() -> Self {
        let memory = Arc::new(MemorySemaphore::new(ROOM));
        let steering = Steering::start(memory.clone(), &Config::default(), Nothing);
        Self { memory, _steering: steering.expect("a thread can be started") }
    }
}

impl Blocking for Trying<tokio::sync::Semaphore> {
    fn operate(&self, hold: Hold) {
        if let Ok(_permit) = self.0.try_acquire() {
            hold.work(&mut 0);
        }
    }
}

impl Blocking for Trying<seawall_sync::Semaphore> {
    fn operate(&self, hold: Hold) {
        if let Some(_permit) = self.0.try_acquire() {
            hold.work(&mut 0);
        }
    }
}

impl Blocking for Trying<MemorySemaphore> {
    fn operate(&self, hold: Hold) {
        if let Some(_permit) = self.0.try_wait() {
            hold.work(&mut 0);
        }
    }
}

impl Blocking for Steered {
    fn operate(&self, hold: Hold) {
        if let Some(_permit) = self.memory.try_wait() {
            hold.work(&mut 0);
        }
    }
}

impl Default for Permits<seawall_sync::Semaphore> {
    fn default() -> Self {
        Self(seawall_sync::Semaphore::new(PERMITS))
    }
}

impl Default for Permits<tokio::sync::Semaphore> {
    fn default() -> Self {
        Self(tokio::sync::Semaphore::new(PERMITS as usize))
    }
}

impl Blocking for std::sync::Mutex<u64> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut self.lock().expect("nobody panics"));
    }
}

impl Blocking for parking_lot::Mutex<u64> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut self.lock());
    }
}

impl Blocking for seawall_sync::Mutex<u64> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut self.blocking_lock_plain());
    }
}

impl Blocking for ForRequest<seawall_sync::Mutex<u64>> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut self.0.blocking_lock(&REQUEST).expect("it has the time"));
    }
}

impl Async for tokio::sync::Mutex<u64> {
    async fn operate(&self, hold: Hold) {
        hold.work(&mut *self.lock().await);
    }
}

impl Async for seawall_sync::Mutex<u64> {
    async fn operate(&self, hold: Hold) {
        hold.work(&mut *self.lock_plain().await);
    }
}

impl Async for ForRequest<seawall_sync::Mutex<u64>> {
    async fn operate(&self, hold: Hold) {
        hold.work(&mut self.0.lock(&REQUEST).await.expect("it has the time"));
    }
}

impl Blocking for Reading<std::sync::RwLock<u64>> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut black_box(*self.0.read().expect("nobody panics")));
    }
}

impl Blocking for Reading<parking_lot::RwLock<u64>> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut black_box(*self.0.read()));
    }
}

impl Blocking for Reading<seawall_sync::RwLock<u64>> {
    fn operate(&self, hold: Hold) {
        hold.work(&mut black_box(*self.0.blocking_read_plain()));
    }
}

impl Async for Reading<tokio::sync::RwLock<u64>> {
    async fn operate(&self, hold: Hold) {
        hold.work(&mut black_box(*self.0.read().await));
    }
}

impl Async for Reading<seawall_sync::RwLock<u64>> {
    async fn operate(&self, hold: Hold) {
        hold.work(&mut black_box(*self.0.read(&REQUEST).await.expect("it has the time")));
    }
}

impl Async for Permits<tokio::sync::Semaphore> {
    async fn operate(&self, hold: Hold) {
        let _permit = self.0.acquire().await.expect("nobody closes it");
        hold.work(&mut 0);
    }
}

impl Async for Permits<seawall_sync::Semaphore> {
    async fn operate(&self, hold: Hold) {
        let _permit = self.0.acquire(&REQUEST).await.expect("it has the time");
        hold.work(&mut 0);
    }
}
