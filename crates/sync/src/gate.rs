//! Anything that takes long, as a stage: blocking I/O, calls to other services.

use std::future::Future;

use seawall_control::predict::lock::Estimate;
use seawall_control::request::{Context, Rejected, Stage};

use crate::contention::{Kind, Snapshot};
use crate::primitive::const_fn;
use crate::semaphore::Semaphore;

/// Lets a fixed number of requests do something at once, and refuses one that cannot afford to wait
/// for its turn.
///
/// ```
/// use seawall_control::request::{Context, Rejected, Stage};
/// use seawall_sync::Gate;
///
/// static DISK: Gate = Gate::new(4).at(Stage(19), "disk");
///
/// async fn load(ctx: &Context) -> Result<Vec<u8>, Rejected> {
///     DISK.run(ctx, async { vec![0; 4096] }).await
/// }
/// ```
#[derive(Debug)]
pub struct Gate {
    permits: Semaphore,
}

impl Gate {
    const_fn! {
        /// A gate that lets `width` requests in at once. In reports it is called by the place of
        /// this call, and its refusals name [`Stage::HANDLER`], until [`at`](Self::at) says
        /// otherwise.
        ///
        /// # Panics
        ///
        /// If `width` is 0 or more than [`Semaphore::MAX_PERMITS`].
        #[track_caller]
        pub const fn new(width: u32) -> Self {
            assert!(width > 0, "a gate of width 0 lets nobody in");
            Self { permits: Semaphore::of_kind(Kind::Gate, width) }
        }
    }

    /// The same gate as a stage with a number and a name of its own.
    #[must_use]
    pub const fn at(mut self, stage: Stage, name: &'static str) -> Self {
        self.permits.settings_mut().set_stage(stage, name);
        self
    }

    /// The same gate with waits predicted in another way than by [`Estimate::Larger`].
    #[must_use]
    pub const fn predicted_by(mut self, estimate: Estimate) -> Self {
        self.permits.settings_mut().estimate = estimate;
        self
    }

    /// Runs `work` on behalf of a request when its turn has come, and charges the wait for that.
    /// The work itself is service, and not charged.
    ///
    /// # Errors
    ///
    /// [`Rejected`], at once and without a poll of `work`, when the predicted wait exceeds what the
    /// request has left.
    pub async fn run<F: Future>(&self, ctx: &Context, work: F) -> Result<F::Output, Rejected> {
        let _permit = self.permits.acquire(ctx).await?;
        Ok(work.await)
    }

    /// [`run`](Self::run) for a thread that may sleep, and work that blocks it.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); `work` is not called then.
    pub fn blocking_run<R>(&self, ctx: &Context, work: impl FnOnce() -> R) -> Result<R, Rejected> {
        let _permit = self.permits.blocking_acquire(ctx)?;
        Ok(work())
    }

    /// What was measured here until now.
    pub fn snapshot(&self) -> Snapshot {
        self.permits.snapshot()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::clock::manual::advance;
    use crate::testing::{Polled, now, request, us};

    #[test]
    fn lets_as_many_in_as_it_is_wide_and_refuses_before_it_begins() {
        let gate = Gate::new(1).at(Stage(22), "disk");
        let ctx = request(1_000);
        let mut inside = Polled::waiting(gate.run(&ctx, std::future::pending::<()>()));
        assert!(inside.poll().is_none());
        let _waiting = Polled::waiting(gate.run(&ctx, async {}));
        advance(us(70));
        let began = Cell::new(false);
        let refused = now(gate.run(&request(50), async { began.set(true) })).unwrap_err();
        assert_eq!((refused.stage, began.get()), (Stage(22), false));
        drop(inside); // cancelled: the place is free again
        drop(_waiting);
        assert_eq!(gate.blocking_run(&request(1), || 7), Ok(7));
        assert_eq!(gate.snapshot().refusals, 1);
    }
}
