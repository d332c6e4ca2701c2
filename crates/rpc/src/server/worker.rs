//! Workers that are threads of the application.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::Shared;
use super::threads::run_worker;

/// What makes a thread of the application a worker of a server with `threads.outside`: where
/// handlers need threads of a kind of their own, such as a virtual machine's.
#[derive(Clone, Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    reactor: Handle,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, reactor: Handle) -> Self {
        Self { shared, reactor }
    }

    /// Runs handlers on the thread that calls, until the server stops.
    ///
    /// # Panics
    ///
    /// If the thread belongs to an async runtime, which it would block.
    pub fn run(&self) {
        let guardian = self.shared.guardian.get();
        run_worker(&self.shared, guardian.map(|guardian| &**guardian), &self.reactor);
    }
}
