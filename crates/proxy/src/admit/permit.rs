//! A request's place: taken once, given back when the request has ended, however that may be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use seawall_control::gate::End;
use seawall_control::request::{Class, Rejected};
use tokio::sync::oneshot;

use super::Admission;
use super::state::{Entered, Turn};
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

    /// The class under which the request is measured.
    pub(super) fn class(&self) -> Class {
        self.entered.as_ref().map_or(Class::default(), |entered| entered.context.class())
    }

    /// The upstream's response began after this time.
    pub(crate) fn answered(&mut self, latency: Duration) {
        self.latency = Some(latency);
    }

    /// The upstream refused it at a stage that it names.
    pub(crate) fn refused_behind(&self, stage: &str) {
        if let Some(entered) = &self.entered {
            let state = &mut *self.admission.state.lock();
            state.on_refused_behind(clock::now(), entered, stage);
            self.admission.after(state);
        }
    }

    /// The request has ended.
    pub(crate) fn end(&mut self, end: End) {
        let Some(entered) = self.entered.take() else { return };
        let now = clock::now();
        let state = &mut *self.admission.state.lock();
        state.on_end(now, &entered, end, self.latency);
        self.admission.books.ended(state, &entered.context, end);
        self.admission.after(state);
    }

    /// It waited in vain, and the gate has forgotten it.
    fn expire(&mut self) {
        let Some(entered) = self.entered.take() else { return };
        let state = &mut *self.admission.state.lock();
        state.on_expired(clock::now(), &entered);
        self.admission.after(state);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

/// A request that waits for its turn. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Waiting {
    permit: Option<Permit>,
    turn: oneshot::Receiver<Turn>,
}

impl Waiting {
    pub(super) fn new(permit: Permit, turn: oneshot::Receiver<Turn>) -> Self {
        Self { permit: Some(permit), turn }
    }
}

impl Future for Waiting {
    type Output = Result<Permit, Rejected>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = ready!(Pin::new(&mut self.turn).poll(cx));
        let mut permit = self.permit.take().expect("nobody asks again after the end");
        let turn = told.expect("the gate tells everybody who waits");
        Poll::Ready(match turn {
            Ok(waited) => {
                if let Some(entered) = &permit.entered {
                    entered.context.charge(waited);
                    permit.admission.books.waited(waited);
                }
                Ok(permit)
            }
            Err(rejected) => {
                permit.expire();
                Err(rejected)
            }
        })
    }
}
