//! What the program has seen.

use crate::programs::first_responder::types::counters;

/// Counts since the program was loaded, all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets with data to a port of a service.
    pub packets: u64,
    /// Calls whose header was read. Each is counted once more below.
    pub requests: u64,
    /// Requests with slack left.
    pub in_time: u64,
    /// Late requests that led to a boost.
    pub boosts: u64,
    /// Late requests on a path for which a decision was made a moment ago.
    pub frozen: u64,
    /// Late requests of a service whose requests have all been late for too long.
    pub disbelieved: u64,
    /// Late requests when all whom they would have boosted had had their share of time.
    pub spent: u64,
    /// Requests that do not say when their job began.
    pub no_start: u64,
    /// Requests whose job begins in the future.
    pub future: u64,
    /// Requests whose job began too long ago.
    pub stale: u64,
    /// Packets in which no call begins: the rest of a large one, another operation, or nonsense.
    pub other: u64,
    /// Packets with less than a whole header.
    pub cut: u64,
    /// Packets whose data are out of a program's reach: before Linux 6.12, what is not in their
    /// first buffer.
    pub unreachable: u64,
    /// Boosts of which the worker was not told, because its queue was full.
    pub dropped: u64,
}

impl Stats {
    /// Late requests, whatever came of them.
    pub fn late(&self) -> u64 {
        self.boosts + self.frozen + self.disbelieved + self.spent
    }

    /// What led to no boost although it was late or could not be judged, by why.
    pub fn ignored(&self) -> [(&'static str, u64); 10] {
        [
            ("frozen", self.frozen),
            ("disbelieved", self.disbelieved),
            ("share", self.spent),
            ("no_start", self.no_start),
            ("future", self.future),
            ("stale", self.stale),
            ("other", self.other),
            ("cut", self.cut),
            ("unreachable", self.unreachable),
            ("dropped", self.dropped),
        ]
    }

    /// Adds the counters of one CPU.
    pub(super) fn add(&mut self, of: &counters) {
        self.packets += of.packets;
        self.requests += of.requests;
        self.in_time += of.in_time;
        self.boosts += of.boosts;
        self.frozen += of.frozen;
        self.disbelieved += of.disbelieved;
        self.spent += of.spent;
        self.no_start += of.no_start;
        self.future += of.future;
        self.stale += of.stale;
        self.other += of.other;
        self.cut += of.cut;
        self.unreachable += of.unreachable;
        self.dropped += of.dropped;
    }
}
