//! What servers did, counted.

use serde::{Deserialize, Serialize};

/// What a server did in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages received.
    pub received: u64,
    /// Messages sent, those with replies and those without.
    pub sent: u64,
    /// Messages among them that only tell a client its window.
    pub credits: u64,
    /// Credits taken back by them.
    pub revoked: u64,
    /// CPU time of all cores.
    pub busy_ns: u64,
    /// Requests refused at entry.
    pub refused_at_entry: u64,
    /// Requests refused at the run queue, when they came or when they were to run, or at a lock.
    pub refused_later: u64,
    /// Requests refused by the guardian while their server got no CPU.
    #[serde(default)]
    pub refused_at_cpu: u64,
    /// Requests refused at the memory semaphore.
    #[serde(default)]
    pub refused_at_memory: u64,
}

impl Counts {
    /// Adds those of another server.
    pub(super) fn add(&mut self, other: Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.credits += other.credits;
        self.revoked += other.revoked;
        self.busy_ns += other.busy_ns;
        self.refused_at_entry += other.refused_at_entry;
        self.refused_later += other.refused_later;
        self.refused_at_cpu += other.refused_at_cpu;
        self.refused_at_memory += other.refused_at_memory;
    }
}
