//! What a caller says about one request, in its extensions.

use std::time::Duration;

use seawall_control::Instant;
use seawall_control::request::{Priority, Tenant};

use crate::clock;

/// When a response is worthless. Put it into a request's extensions:
///
/// ```
/// use std::time::Duration;
/// use seawall_tower::client::Deadline;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Deadline::after(Duration::from_millis(250)));
/// ```
///
/// Of several deadlines the earliest counts: this one, that of the request on whose behalf it is
/// made, and what its headers say already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// In this time from now.
    pub fn after(left: Duration) -> Self {
        Self(clock::now() + left)
    }

    /// At this time of the [clock](crate::clock).
    pub const fn at(at: Instant) -> Self {
        Self(at)
    }

    /// The point in time.
    pub const fn instant(self) -> Instant {
        self.0
    }

    /// What is left of it now.
    pub fn left(self) -> Duration {
        self.0.since(clock::now())
    }
}

/// What else can be said about one request; what is not said is as in the request on whose behalf
/// it is made, if it is made for one. Put it into the request's extensions.
///
/// A server believes some of it only from senders that it trusts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Business importance; lower is more important.
    pub priority: Option<Priority>,
    /// Whom the work is charged to.
    pub tenant: Option<Tenant>,
    /// False if no stage may refuse it.
    pub droppable: Option<bool>,
    /// Queueing delay that it may meet at the server.
    pub budget: Option<Duration>,
    /// Services downstream that should be given more CPU (SurgeGuard §3).
    pub upscale_hops: Option<u16>,
    /// The path through the service graph that the job takes.
    pub path: Option<u16>,
    /// It may run twice without harm: it goes to another replica even when nobody knows whether
    /// the first one has run it. Default: as its method has it (RFC 9110 §9.2.2), so false for
    /// POST, PATCH and all of gRPC. What was refused has not run, and needs no such leave.
    pub idempotent: Option<bool>,
}

impl CallOptions {
    /// The same with this importance.
    #[must_use]
    pub const fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The same, charged to this tenant.
    #[must_use]
    pub const fn with_tenant(mut self, tenant: Tenant) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// The same, which stages may refuse or not.
    #[must_use]
    pub const fn with_droppable(mut self, droppable: bool) -> Self {
        self.droppable = Some(droppable);
        self
    }

    /// The same with a queueing-delay budget.
    #[must_use]
    pub const fn with_budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The same with an upscale hint.
    #[must_use]
    pub const fn with_upscale_hops(mut self, hops: u16) -> Self {
        self.upscale_hops = Some(hops);
        self
    }

    /// The same on this path.
    #[must_use]
    pub const fn with_path(mut self, path: u16) -> Self {
        self.path = Some(path);
        self
    }

    /// The same, which may run twice or not.
    #[must_use]
    pub const fn with_idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = Some(idempotent);
        self
    }
}
