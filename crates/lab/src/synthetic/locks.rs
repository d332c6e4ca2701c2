//! The mutexes of the service's data paths, and what a request does that comes to one.

use seawall_control::request::{Rejected, Stage};
use seawall_measure::Paths;
use seawall_rpc::Context;
use seawall_sync::{LockKind, Mutex, MutexGuard};

/// Stages of the two mutexes, as their refusals name them.
pub(super) const STAGES: [(Stage, &str); 2] =
    [(Stage(Stage::FIRST_OWN), "first_lock"), (Stage(Stage::FIRST_OWN + 1), "second_lock")];

/// One of the mutexes.
#[derive(Debug)]
pub(super) struct Lock {
    kind: LockKind,
    mutex: Mutex<()>,
}

impl Lock {
    /// The mutexes of `paths`.
    pub(super) fn all(paths: Paths, kind: LockKind) -> Vec<Self> {
        let lock = |&(stage, name): &(Stage, &'static str)| {
            let mutex = Mutex::new(()).at(stage, name).predicted_by(kind.estimate());
            Self { kind, mutex }
        };
        STAGES[..paths.locks()].iter().map(lock).collect()
    }

    /// Locks it on behalf of a request.
    ///
    /// # Errors
    ///
    /// The request is refused.
    pub(super) async fn lock(&self, ctx: &Context) -> Result<MutexGuard<'_, ()>, Rejected> {
        self.mutex.lock_by(self.kind, ctx).await
    }

    /// The same on this thread, which waits.
    ///
    /// # Errors
    ///
    /// The request is refused.
    pub(super) fn blocking_lock(&self, ctx: &Context) -> Result<MutexGuard<'_, ()>, Rejected> {
        self.mutex.blocking_lock_by(self.kind, ctx)
    }
}
