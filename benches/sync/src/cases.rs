//! What is measured, and who takes part.

use std::fmt;

use crate::contestants::{ForRequest, Permits, Reading, Steered, Trying};
use crate::run::{Hold, Turn, tasks, threads};

/// One situation in which contestants are compared.
pub struct Case {
    /// What is done, by how many, and how long it is held.
    pub name: String,
    /// Those who do it.
    pub contestants: Vec<(&'static str, Turn)>,
}

/// The contestant that is compared with the others.
pub const OURS: &str = "seawall";

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = alone();
    for hold in [Hold::Addition, Hold::Nanos(1_000)] {
        cases.extend([2, 8].map(|count| mutex_of_threads(count, hold)));
        cases.extend([2, 8].map(|count| mutex_of_tasks(count, hold)));
        cases.push(readers_of_threads(2, hold));
        cases.push(readers_of_tasks(2, hold));
        cases.push(permits_of_tasks(2, hold));
    }
    cases.push(tries_of_threads(2, Hold::Addition));
    cases
}

/// Those in which nobody waits.
pub fn alone() -> Vec<Case> {
    let hold = Hold::Addition;
    vec![
        mutex_of_threads(1, hold),
        mutex_of_tasks(1, hold),
        readers_of_threads(1, hold),
        readers_of_tasks(1, hold),
        permits_of_tasks(1, hold),
        tries_of_threads(1, hold),
    ]
}

fn mutex_of_threads(count: usize, hold: Hold) -> Case {
    Case::new(format!("mutex, {count} threads, {hold}"))
        .with("std", threads::<std::sync::Mutex<u64>>(count, hold))
        .with("parking_lot", threads::<parking_lot::Mutex<u64>>(count, hold))
        .with("seawall plain", threads::<seawall_sync::Mutex<u64>>(count, hold))
        .with(OURS, threads::<ForRequest<seawall_sync::Mutex<u64>>>(count, hold))
}

fn mutex_of_tasks(count: usize, hold: Hold) -> Case {
    Case::new(format!("mutex, {count} tasks, {hold}"))
        .with("tokio", tasks::<tokio::sync::Mutex<u64>>(count, hold))
        .with("seawall plain", tasks::<seawall_sync::Mutex<u64>>(count, hold))
        .with(OURS, tasks::<ForRequest<seawall_sync::Mutex<u64>>>(count, hold))
}

fn readers_of_threads(count: usize, hold: Hold) -> Case {
    Case::new(format!("rwlock read, {count} threads, {hold}"))
        .with("std", threads::<Reading<std::sync::RwLock<u64>>>(count, hold))
        .with("parking_lot", threads::<Reading<parking_lot::RwLock<u64>>>(count, hold))
        .with(OURS, threads::<Reading<seawall_sync::RwLock<u64>>>(count, hold))
}

fn readers_of_tasks(count: usize, hold: Hold) -> Case {
    Case::new(format!("rwlock read, {count} tasks, {hold}"))
        .with("tokio", tasks::<Reading<tokio::sync::RwLock<u64>>>(count, hold))
        .with(OURS, tasks::<Reading<seawall_sync::RwLock<u64>>>(count, hold))
}

fn permits_of_tasks(count: usize, hold: Hold) -> Case {
    Case::new(format!("semaphore, {count} tasks, {hold}"))
        .with("tokio", tasks::<Permits<tokio::sync::Semaphore>>(count, hold))
        .with(OURS, tasks::<Permits<seawall_sync::Semaphore>>(count, hold))
}

/// With room for all.
fn tries_of_threads(count: usize, hold: Hold) -> Case {
    Case::new(format!("semaphore try, {count} threads, {hold}"))
        .with("tokio", threads::<Trying<tokio::sync::Semaphore>>(count, hold))
        .with("seawall permits", threads::<Trying<seawall_sync::Semaphore>>(count, hold))
        .with("seawall steered", threads::<Steered>(count, hold))
        .with(OURS, threads::<Trying<seawall_sync::MemorySemaphore>>(count, hold))
}

impl Case {
    fn new(name: String) -> Self {
        Self { name, contestants: Vec::new() }
    }

    fn with(mut self, contestant: &'static str, turn: Turn) -> Self {
        self.contestants.push((contestant, turn));
        self
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}
