//! A request's place: taken once, given back when the request has ended, however that may be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::HeaderMap;
use seawall_control::fields;
use seawall_control::gate::End;
use seawall_control::request::{Rejected, Stage};
use seawall_tower::clock;
use seawall_tower::headers::{lines, write_field};
use tokio::sync::oneshot;

use super::state::{Entered, Turn};
use super::{Admission, Refusal, RouteName};

/// A place at the upstream. Dropping it says that nobody wants the response any more.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    /// `None` once it has ended.
    entered: Option<Entered>,
    /// How long the upstream took until its response began.
    latency: Option<Duration>,
    /// The client wants to be told of its credits, and here is where they are given.
    tells: bool,
}

impl Permit {
    pub(super) fn new(admission: Arc<Admission>, entered: Entered, tells: bool) -> Self {
        Self { admission, entered: Some(entered), latency: None, tells }
    }

    /// Says in headers, or in trailers, what its client is to be told, beside what the upstream has
    /// said there.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let Some(entered) = self.entered.as_ref().filter(|_| self.tells) else { return };
        let Some(session) = entered.session else { return };
        let class = entered.context.class();
        let news = self.admission.owned.lock().state.news(clock::now(), session, class);
        let mut field = fields::Response::read(lines(headers)).fields;
        field.feedback = news.feedback;
        // It waits here, and then there.
        field.queue = Some(news.queue.unwrap_or_default() + field.queue.unwrap_or_default());
        write_field(headers, &field);
    }

    /// The upstream's response began after this time.
    pub(crate) fn answered(&mut self, latency: Duration) {
        self.latency = Some(latency);
    }

    /// The upstream refused it at a stage that it names.
    pub(crate) fn refused_behind(&self, stage: &str) {
        if let Some(entered) = &self.entered {
            let now = clock::now();
            let owned = &mut *self.admission.owned.lock();
            owned.state.on_refused_behind(now, entered, stage);
            self.admission.after(owned, now);
        }
    }

    /// The request has ended.
    pub(crate) fn end(&mut self, end: End) {
        let Some(entered) = self.entered.take() else { return };
        let now = clock::now();
        let owned = &mut *self.admission.owned.lock();
        owned.state.on_end(now, &entered, end, self.latency);
        let (class, took) = (entered.context.class(), now.since(entered.context.arrived()));
        owned.books.ended(class, |class| owned.state.name(class), end, took);
        self.admission.after(owned, now);
    }

    /// The request stands still with the upstream, and does not wait for that.
    pub(crate) fn refuse(&mut self, route: RouteName<'_>, rejected: Rejected) -> Box<Refusal> {
        let now = clock::now();
        let entered = self.entered.take().expect("who is refused has not ended");
        let owned = &mut *self.admission.owned.lock();
        owned.state.on_end(now, &entered, End::Refused, None);
        let refusal = owned.state.refusal(now, entered.session, &entered.context, rejected);
        let (class, took) = (entered.context.class(), now.since(entered.context.arrived()));
        let name = |class| owned.state.name(class);
        owned.books.refused(route, class, name, &rejected, took);
        self.admission.after(owned, now);
        refusal
    }

    /// The refusal of the request if it cannot wait for so long, and refusals count.
    pub(crate) fn admit(&self, rest: Duration) -> Result<(), Rejected> {
        match &self.entered {
            Some(entered) if self.admission.enforces => {
                entered.context.admit(Stage::PAUSE, clock::now(), rest)
            }
            _ => Ok(()),
        }
    }

    /// It waited in vain, and the gate has forgotten it.
    fn expire(&mut self, route: RouteName<'_>, rejected: Rejected) -> Box<Refusal> {
        let now = clock::now();
        let entered = self.entered.take().expect("who waits has not ended");
        let owned = &mut *self.admission.owned.lock();
        let refusal = owned.state.on_expired(now, &entered, rejected);
        let (class, took) = (entered.context.class(), now.since(entered.context.arrived()));
        let name = |class| owned.state.name(class);
        owned.books.refused(route, class, name, &rejected, took);
        self.admission.after(owned, now);
        refusal
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

/// A request that waits for its turn. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    permit: Option<Permit>,
    turn: oneshot::Receiver<Turn>,
    route: RouteName<'a>,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(permit: Permit, turn: oneshot::Receiver<Turn>, route: RouteName<'a>) -> Self {
        Self { permit: Some(permit), turn, route }
    }
}

impl Future for Waiting<'_> {
    type Output = Result<Permit, Box<Refusal>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = ready!(Pin::new(&mut self.turn).poll(cx));
        let mut permit = self.permit.take().expect("nobody asks again after the end");
        let turn = told.expect("the gate tells everybody who waits");
        Poll::Ready(match turn {
            Ok(waited) => {
                if let Some(entered) = &permit.entered {
                    entered.context.charge(waited);
                    permit.admission.owned.lock().books.waited(waited);
                }
                Ok(permit)
            }
            Err(rejected) => Err(permit.expire(self.route, rejected)),
        })
    }
}
