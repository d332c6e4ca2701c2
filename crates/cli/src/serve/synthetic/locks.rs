//! The mutexes of the service's data paths, and what a request does that comes to one.

use seawall_control::request::{Rejected, Stage};
use seawall_measure::Paths;
use seawall_rpc::Context;
use seawall_sync::{Estimate, Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// Stages of the two mutexes, as their refusals name them.
pub(super) const STAGES: [(Stage, &str); 2] =
    [(Stage(Stage::FIRST_OWN), "first_lock"), (Stage(Stage::FIRST_OWN + 1), "second_lock")];

/// What a request does that comes to a mutex which somebody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// It waits, however long, and its budget knows nothing of it: an ordinary mutex
    Plain,
    /// It is refused
    Try,
    /// It is refused if the oldest waiter has waited longer than it may
    OldestWaiter,
    /// It is refused if turns ahead × mean time of a turn are longer than it may wait
    QueuedWork,
    /// It is refused if the longer of these two is longer than it may wait
    #[default]
    Larger,
}

/// One of the mutexes.
#[derive(Debug)]
pub(super) struct Lock {
    kind: Kind,
    stage: Stage,
    mutex: Mutex<()>,
}

impl Lock {
    /// The mutexes of `paths`.
    pub(super) fn all(paths: Paths, kind: Kind) -> Vec<Self> {
        let lock = |&(stage, name): &(Stage, &'static str)| {
            let estimate = match kind {
                Kind::OldestWaiter => Estimate::OldestWaiter,
                Kind::QueuedWork => Estimate::QueuedWork,
                Kind::Plain | Kind::Try | Kind::Larger => Estimate::Larger,
            };
            Self { kind, stage, mutex: Mutex::new(()).at(stage, name).predicted_by(estimate) }
        };
        STAGES[..paths.locks()].iter().map(lock).collect()
    }

    /// Locks it on behalf of a request.
    ///
    /// # Errors
    ///
    /// The request is refused.
    pub(super) async fn lock(&self, ctx: &Context) -> Result<MutexGuard<'_, ()>, Rejected> {
        match self.kind {
            Kind::Plain => Ok(self.mutex.lock_plain().await),
            Kind::Try => self.mutex.try_lock().ok_or_else(|| {
                // Nobody waits for it, so that who comes would wait for one turn.
                Rejected::new(self.stage, self.mutex.snapshot().hold, ctx.remaining_now())
            }),
            _ => self.mutex.lock(ctx).await,
        }
    }
}
