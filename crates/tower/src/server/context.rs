//! What a handler knows about the request it serves.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use seawall_control::Instant;
use seawall_control::fields::{self, timeout};
use seawall_control::request;
use seawall_control::scaling::hint;
use seawall_control::time::nanos;

use crate::clock;
use crate::headers::{ENVOY_TIMEOUT, GRPC_TIMEOUT, ascii};

/// The request context, as handlers see it: cheap to clone and to hand to stages.
///
/// It is an extension of the request. `seawall-sync` takes it wherever it asks for a context.
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    request: request::Context,
    came: Instant,
    given: Deadlines,
}

/// Which headers said how long the client will wait. Who passes the request on passes those on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// `seawall: deadline=`.
    pub field: bool,
    /// `grpc-timeout`.
    pub grpc: bool,
    /// `x-envoy-expected-rq-timeout-ms`.
    pub envoy: bool,
}

impl Deadlines {
    /// Writes what is `left` into those of the headers that told it, but for the field, which is
    /// written as a whole.
    pub fn write(self, left: Duration, headers: &mut HeaderMap) {
        if self.grpc {
            headers.insert(GRPC_TIMEOUT, ascii(&timeout::format(left)));
        }
        if self.envoy {
            // Deviation: what is less than a millisecond is stretched to one, since Envoy takes 0
            // for no limit at all.
            let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
            headers.insert(ENVOY_TIMEOUT, HeaderValue::from(millis));
        }
    }
}

thread_local! {
    /// Of the request whose handler runs on this thread now.
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// While this lives, the handler of a request runs on this thread.
#[derive(Debug)]
pub(super) struct Entered {
    before: Option<Context>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

impl Context {
    /// The context of the request whose handler this is called in; none elsewhere, such as in tasks
    /// that a handler has spawned. Requests that [clients](crate::client) send there are on behalf
    /// of it.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The handler of the request runs.
    pub(super) fn enter(&self) -> Entered {
        Entered { before: CURRENT.replace(Some(self.clone())) }
    }

    pub(super) fn new(request: request::Context, came: Instant, given: Deadlines) -> Self {
        Self(Arc::new(Inner { request, came, given }))
    }

    /// What the request has left, now: the smaller of its delay budget and its time to the
    /// deadline.
    pub fn remaining_now(&self) -> Duration {
        self.remaining(clock::now())
    }

    /// Waits in a queue of the service's own, such as a [`Queue`](super::Queue) that the layer
    /// knows, until `turn` comes, and charges the request for that, as for a wait at any stage:
    /// else it would be taken for service. Who gives up has waited, too. What `seawall-sync` makes
    /// wait is charged already.
    pub async fn wait<T: Future>(&self, turn: T) -> T::Output {
        let _charged = Charge { context: self, since: clock::now() };
        turn.await
    }

    /// When its bytes came, by the kernel's monotonic clock.
    pub fn came(&self) -> Instant {
        self.0.came
    }

    /// Which headers told its deadline.
    pub fn deadlines(&self) -> Deadlines {
        self.0.given
    }

    /// When the job began that it is a part of, nanoseconds of the realtime clock: when it came
    /// here, if nobody has said it before.
    pub fn start_time_ns(&self) -> u64 {
        match self.claims().start_time_ns {
            0 => clock::realtime_ns().saturating_sub(nanos(clock::now().since(self.0.came))),
            start => start,
        }
    }

    /// The field of a request that is sent to another service on behalf of this one: with what it
    /// has left, and with its claims.
    ///
    /// Session, demand and acknowledgement are those of who sends it, and so is the number of the
    /// attempt.
    pub fn onward(&self) -> fields::Request {
        let claims = self.claims();
        // The budget that this server gave it is of this server's waits; another gives its own.
        let budget = claims.budget.map(|budget| budget.saturating_sub(self.charged()));
        let onward = request::Claims {
            attempt: 0,
            deadline: self.time_left(clock::now()),
            budget,
            start_time_ns: self.start_time_ns(),
            upscale_hops: hint::forwarded(claims.upscale_hops, 0),
            ..*claims
        };
        fields::Request::of(&onward, clock::realtime_ns())
    }
}

/// A wait that lasts until this is dropped.
struct Charge<'a> {
    context: &'a Context,
    since: Instant,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.context.charge(clock::now().since(self.since));
    }
}

impl Deref for Context {
    type Target = request::Context;

    fn deref(&self) -> &request::Context {
        &self.0.request
    }
}

#[cfg(feature = "axum")]
impl<S: Sync> axum::extract::FromRequestParts<S> for Context {
    type Rejection = http::StatusCode;

    /// The context, which the layer has put there: without the layer it is the service's own error.
    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _state: &S,
    ) -> Result<Self, Self::Rejection> {
        let context = parts.extensions.get::<Self>();
        context.cloned().ok_or(http::StatusCode::INTERNAL_SERVER_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::request::{Claims, Priority};

    #[test]
    fn deadlines_are_written_where_they_were_told() {
        let write = |deadlines: Deadlines, micros| {
            let mut headers = HeaderMap::new();
            deadlines.write(Duration::from_micros(micros), &mut headers);
            let text = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (text(&GRPC_TIMEOUT), text(&ENVOY_TIMEOUT))
        };
        let both = Deadlines { grpc: true, envoy: true, field: true };
        assert_eq!(write(both, 50_900), (Some("50900000n".into()), Some("50".into())));
        assert_eq!(write(both, 900).1, Some("1".into()), "and not without limit");
        assert_eq!(write(Deadlines { field: true, ..Deadlines::default() }, 900), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_charged_also_of_who_gives_up() {
        let ms = Duration::from_millis;
        let claims = Claims { budget: Some(ms(100)), ..Claims::default() };
        let request = request::Context::new(claims, clock::now());
        let context = Context::new(request, clock::now(), Deadlines::default());
        assert_eq!(context.wait(tokio::time::sleep(ms(20))).await, ());
        assert_eq!(context.charged(), ms(20));
        let given_up = tokio::time::timeout(ms(30), context.wait(std::future::pending::<()>()));
        assert!(given_up.await.is_err());
        assert_eq!((context.charged(), context.remaining_now()), (ms(50), ms(50)));
    }

    #[test]
    fn what_is_passed_on_has_what_is_left() {
        let ms = Duration::from_millis;
        let claims = Claims {
            priority: Priority(2),
            attempt: 1,
            deadline: Some(ms(60_000)),
            budget: Some(ms(50)),
            upscale_hops: 3,
            ..Claims::default()
        };
        let request = request::Context::new(claims, clock::now());
        request.charge(ms(20));
        let context = Context::new(request, clock::now() - ms(5), Deadlines::default());
        let onward = context.onward();
        assert_eq!((onward.priority, onward.attempt, onward.budget), (Some(2), None, Some(ms(30))));
        assert_eq!(onward.hops, Some(2));
        assert!(onward.deadline.is_some_and(|left| left <= ms(60_000)));
        assert!(onward.age.is_some_and(|age| age >= ms(5)));
    }
}
