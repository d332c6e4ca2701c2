//! One request, from its arrival to its one completion.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use seawall_control::Instant;
use seawall_control::controller::SessionId;
use seawall_control::fields;
use seawall_control::request::{Rejected, Stage};
use seawall_control::time::nanos;

use super::admission::{Leaving, Shared};
use super::answer::{Refusal, Said, Theirs};
use super::config::Mode;
use super::context::Context;
use super::orca::REPORT;
use super::stats::End;
use crate::clock;
use crate::headers::write_field;

/// What a request wants to be told with its response.
#[derive(Clone, Debug)]
pub(super) struct Wants {
    /// The field.
    pub(super) field: bool,
    /// A report of load.
    pub(super) orca: bool,
    /// It is one of gRPC; the type of its content.
    pub(super) grpc: Option<HeaderValue>,
    /// It gets no body, whatever its response says.
    pub(super) no_body: bool,
}

/// A place in the server. However the request ends, it is given back exactly once: dropping it says
/// that the client went away.
#[derive(Debug)]
pub(super) struct Ticket {
    shared: Arc<Shared>,
    session: SessionId,
    context: Context,
    arrived: Instant,
    begun: Option<Begun>,
    worked: Duration,
    pub(super) wants: Wants,
    ended: bool,
}

/// The begin of a handler.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Instant,
    /// What the request had waited until then.
    charged: Duration,
}

impl Ticket {
    pub(super) fn new(
        shared: Arc<Shared>,
        session: SessionId,
        context: Context,
        arrived: Instant,
        wants: Wants,
    ) -> Self {
        shared.waits();
        let (begun, worked) = (None, Duration::ZERO);
        Self { shared, session, context, arrived, begun, worked, wants, ended: false }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// The handler is about to be polled, unless that is not worth it any more.
    pub(super) fn begin_poll(&mut self, now: Instant) -> Result<(), Rejected> {
        if self.begun.is_some() {
            return Ok(());
        }
        let waited = now.since(self.arrived);
        self.context.charge(waited);
        self.shared.counters.waited(Stage::RUN_QUEUE, waited);
        self.begun = Some(Begun { at: now, charged: self.context.charged() });
        self.shared.waits_no_more();
        let decision = self.shared.dequeue(now, self.session, &self.context);
        match decision {
            Err(rejected) if self.shared.config.mode == Mode::Observe => {
                self.shared.counters.observed(self.context.class(), &rejected);
                Ok(())
            }
            decision => decision,
        }
    }

    /// A poll of the handler has ended that began at `begun`.
    pub(super) fn end_poll(&mut self, begun: Instant, now: Instant) {
        let worked = now.since(begun);
        self.worked += worked;
        self.shared.load.busy.fetch_add(nanos(worked), std::sync::atomic::Ordering::Relaxed);
    }

    /// Ends with a refusal, of which a service behind this one may have said more.
    pub(super) fn refuse(
        mut self,
        now: Instant,
        rejected: &Rejected,
        theirs: Theirs,
    ) -> (Refusal, Option<HeaderValue>) {
        let (waited, end) = (self.waited(), End::Refused(rejected.stage, rejected.reason));
        let news = self.leave(now, waited, None, Some(end), true);
        let is_late = theirs.is_late || self.is_late(now);
        let refusal = self.shared.refusal(rejected, is_late, theirs.name, &news);
        (refusal, self.wants.grpc.take())
    }

    /// The handler has a response, the head of which is about to leave. Gives what to tell.
    pub(super) fn head(&mut self, now: Instant, end: Option<End>, tells: bool) -> fields::Response {
        let begun = self.begun.unwrap_or(Begun { at: now, charged: Duration::ZERO });
        // Budgets are for waits, which must not be taken for service (Protego §3.3). Waits of
        // branches that run at once may be longer than the handler.
        let waited = self.context.charged().saturating_sub(begun.charged);
        let service = now.since(begun.at).saturating_sub(waited);
        self.leave(now, self.waited(), Some((self.worked, service)), end, tells)
    }

    /// All of the response has been handed over, or it failed.
    pub(super) fn end(&mut self, end: End) {
        if !self.ended {
            self.leave(clock::now(), Duration::ZERO, None, Some(end), false);
        }
    }

    /// Trailers are about to leave, and with them all of the response. The service may say in them
    /// that a stage has refused the request.
    pub(super) fn trailers(&mut self, trailers: &mut HeaderMap) {
        if self.ended {
            return;
        }
        let now = clock::now();
        match Said::by_trailers(trailers) {
            Said::RefusedBehind(rejected, theirs) => {
                let end = End::Refused(rejected.stage, rejected.reason);
                let news = self.leave(now, Duration::ZERO, None, Some(end), true);
                let is_late = theirs.is_late || self.is_late(now);
                let refusal = self.shared.refusal(&rejected, is_late, theirs.name, &news);
                refusal.amend(trailers, true);
            }
            said => {
                let end = if said == Said::Failed { End::Failed } else { End::Done };
                let news = self.leave(now, Duration::ZERO, None, Some(end), true);
                self.tell(trailers, &news);
            }
        }
    }

    /// Puts into headers or trailers what the client wants to be told.
    pub(super) fn tell(&self, headers: &mut HeaderMap, news: &fields::Response) {
        if self.wants.field {
            write_field(headers, news);
        }
        if self.wants.orca {
            headers.insert(REPORT, self.shared.report().encode_header());
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The client does not wait any more.
    fn is_late(&self, now: Instant) -> bool {
        self.context.time_left(now) == Some(Duration::ZERO)
    }

    /// From its bytes to the begin of its handler, or its refusal.
    fn waited(&self) -> Duration {
        let begun = self.begun.map_or(self.arrived, |begun| begun.at);
        begun.since(self.context.came())
    }

    fn leave(
        &mut self,
        now: Instant,
        waited: Duration,
        served: Option<(Duration, Duration)>,
        ended: Option<End>,
        tells: bool,
    ) -> fields::Response {
        assert!(!self.ended, "a request has one completion");
        self.ended = ended.is_some();
        if self.ended && self.begun.is_none() {
            self.shared.waits_no_more();
        }
        let (session, context) = (self.session, &self.context);
        self.shared.leave(&Leaving { now, session, context, waited, served, ended, tells })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() { End::Failed } else { End::Cancelled });
    }
}
