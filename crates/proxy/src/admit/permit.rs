//! A request's place: taken once, given back when the request has ended, however that may be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use seawall_control::gate::End;
use seawall_control::request::Rejected;
use tokio::sync::oneshot;

use super::state::{Entered, Turn};
use super::{Admission, Refusal, RouteName};
use crate::clock;

/// A place at the upstream. Dropping it says that nobody wants the response any more.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    /// `None` once it has ended.
    entered: Option<Entered>,
    /// How long the upstream took until its response began.
    latency: Option<Duration>,
}

impl Permit {
    pub(super) fn new(admission: Arc<Admission>, entered: Entered) -> Self {
        Self { admission, entered: Some(entered), latency: None }
    }

    /// The upstream's response began after this time.
    pub(crate) fn answered(&mut self, latency: Duration) {
        self.latency = Some(latency);
    }

    /// The upstream refused it at a stage that it names.
    pub(crate) fn refused_behind(&self, stage: &str) {
        if let Some(entered) = &self.entered {
            let owned = &mut *self.admission.owned.lock();
            owned.state.on_refused_behind(clock::now(), entered, stage);
            self.admission.after(owned);
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
        self.admission.after(owned);
    }

    /// It waited in vain, and the gate has forgotten it.
    fn expire(&mut self, route: RouteName<'_>, rejected: Rejected) -> Refusal {
        let now = clock::now();
        let Some(entered) = self.entered.take() else { return Refusal::new(rejected, None) };
        let owned = &mut *self.admission.owned.lock();
        owned.state.on_expired(now, &entered);
        let (class, took) = (entered.context.class(), now.since(entered.context.arrived()));
        let name = |class| owned.state.name(class);
        owned.books.refused(route, class, name, &rejected, took);
        self.admission.after(owned);
        Refusal::new(rejected, entered.context.time_left(now))
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
    type Output = Result<Permit, Refusal>;

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
