//! A client of a service with several replicas.

mod call;
mod members;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as HttpBody;
use parking_lot::Mutex;
use seawall_control::config::ConfigError;
use seawall_control::retry::{Counts, Policy};
use tower::discover::{Change, Discover};
use tower_service::Service;

use super::body::Body;
use super::config::Config;
use super::error::{BoxError, Error};
use super::meters::Meters;
use super::replay::Replay;
use super::retry::{Hook, NoHook};
use super::session::Session;
use members::Members;
pub(super) use members::Picked;

/// A service that sends each request to one of several replicas, and to another one at once when
/// that one refuses it. Clones share the replicas, their credits and the retry budget.
///
/// Each call goes to the replica that [its configuration](seawall_control::replica::Config) says;
/// by default to the less loaded of two picked at random, of those that have not told that they
/// have no time. What a replica refuses, or gives no credit for in time, goes to another at once,
/// as far as the [retry configuration](seawall_control::retry::Config) allows. What may have had an
/// effect is sent again only if it may run twice.
///
/// Requests are sent with a [`Replay`] of their bodies.
pub struct Replicas<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    members: Members<S>,
    policy: Mutex<Policy>,
    config: Config,
    meters: Arc<Meters>,
    hook: Box<dyn Hook>,
    /// A request that would wait longer for credits goes to another replica, if there is one.
    patience: Duration,
}

impl<S: Clone> Replicas<S> {
    /// A service without replicas.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::with_hook(config, NoHook)
    }

    /// A service without replicas, whose retries `hook` may forbid.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_hook(config: Config, hook: impl Hook + 'static) -> Result<Self, ConfigError> {
        config.validate()?;
        let retry = &config.retry;
        let patience = if retry.is_on() { retry.patience(config.rtt) } else { Duration::MAX };
        let shared = Shared {
            members: Members::new(&config.admission.client.replicas),
            policy: Mutex::new(Policy::new(retry)),
            meters: Arc::new(Meters::new(&config.name)),
            hook: Box::new(hook),
            patience,
            config,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Adds a replica; one that is there under this name already is replaced.
    pub fn insert(&self, name: impl Into<String>, service: S) {
        let Shared { config, meters, members, .. } = &*self.shared;
        let session = Session::new(config, meters.clone());
        let session = session.expect("the configuration was checked when the first was made");
        members.insert(name.into().into(), session, service);
    }

    /// Removes a replica; false if there is none of that name. Requests that are there go on.
    pub fn remove(&self, name: &str) -> bool {
        self.shared.members.remove(name)
    }

    /// Names of the replicas, in no order.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.shared.members.keys()
    }

    /// Adds and removes replicas as `discover` says, until it ends.
    ///
    /// # Errors
    ///
    /// The first error of `discover`; the replicas stay as they are then.
    pub async fn follow<D>(&self, discover: D) -> Result<(), D::Error>
    where
        D: Discover<Service = S>,
        D::Key: fmt::Display,
    {
        let mut discover = pin!(discover);
        while let Some(change) = poll_fn(|cx| discover.as_mut().poll_discover(cx)).await {
            match change? {
                Change::Insert(key, service) => self.insert(key.to_string(), service),
                Change::Remove(key) => _ = self.remove(&key.to_string()),
            }
        }
        Ok(())
    }

    /// Calls, retries, and what of them the budget forbade, so far.
    pub fn retries(&self) -> Counts {
        self.shared.policy.lock().counts()
    }
}

impl<S> Clone for Replicas<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> fmt::Debug for Replicas<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("name", &self.shared.config.name).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Replicas<S>
where
    S: Service<Request<Replay<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: HttpBody + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody + Send + 'static,
    R::Data: Send,
{
    type Response = Response<Body<R>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(call::call(self.shared.clone(), request))
    }
}
