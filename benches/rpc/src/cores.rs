//! Where threads run, and what time they take.

use std::time::Duration;

use core_affinity::CoreId;
use nix::time::{ClockId, clock_gettime};

/// One core for the client, another for the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cores {
    /// Client and server; `None` where the process may not use two cores, or cannot tell.
    pair: Option<[CoreId; 2]>,
}

impl Cores {
    /// Moves this thread, the client's, to a core of its own, if there are two.
    ///
    /// Call it once, and first: a thread that is bound to one core sees no other.
    pub fn divide() -> Self {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let pair = match cores[..] {
            [client, server, ..] if core_affinity::set_for_current(client) => {
                Some([client, server])
            }
            _ => None,
        };
        Self { pair }
    }

    /// Runs `start` so that all threads it starts run on the server's core: they inherit the core
    /// of the thread that starts them.
    pub fn on_server<T>(&self, start: impl FnOnce() -> T) -> T {
        let Some([client, server]) = self.pair else { return start() };
        core_affinity::set_for_current(server);
        let started = start();
        core_affinity::set_for_current(client);
        started
    }

    /// Whether client and server have a core each.
    pub fn are_divided(&self) -> bool {
        self.pair.is_some()
    }
}

/// Processor time used so far.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    client: Duration,
    process: Duration,
}

impl CpuTime {
    /// Of this thread, which is all that the client has, and of the process.
    pub fn now() -> Self {
        let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
        Self {
            client: read(ClockId::CLOCK_THREAD_CPUTIME_ID),
            process: read(ClockId::CLOCK_PROCESS_CPUTIME_ID),
        }
    }

    /// What client and server, which is all the rest, used since `earlier`.
    pub fn since(self, earlier: Self) -> (Duration, Duration) {
        let client = self.client.saturating_sub(earlier.client);
        let process = self.process.saturating_sub(earlier.process);
        (client, process.saturating_sub(client))
    }
}
