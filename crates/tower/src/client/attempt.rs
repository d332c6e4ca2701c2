//! One request on its way through one service, from the queue to the head of its response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as HttpBody;
use pin_project_lite::pin_project;
use seawall_control::Instant;
use seawall_control::controller::DropReason;
use seawall_control::replica::Answered;
use tokio::time::{Sleep, sleep_until};
use tower_service::Service;

use super::answer::{Fate, News};
use super::error::{BoxError, Refused};
use super::meters::Outcome;
use super::outgoing::Outgoing;
use super::session::{Flight, Ticket};
use crate::clock;

pin_project! {
    /// An attempt to have a request served.
    pub(super) struct Attempt<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B>,
        outgoing: Outgoing,
        // How often the request was sent before.
        before: u8,
        #[pin]
        deadline: Option<Sleep>,
        // For how long it may wait for leave to be sent.
        #[pin]
        patience: Option<Sleep>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, F, B> {
        Waiting { ticket: Option<Ticket>, service: Option<S>, request: Option<Request<B>> },
        // It may leave, and the service behind is not ready.
        Readying { flight: Option<Flight>, service: S, request: Option<Request<B>> },
        Sent { flight: Option<Flight>, #[pin] response: F },
    }
}

/// How an attempt has ended.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub(super) enum Attempted<B> {
    /// A response has come. Its credit is free when its body has ended.
    Answered { response: Response<B>, flight: Flight, news: News, answered: Answered },
    /// It was not sent.
    Refused(Refused),
    /// It was not sent, because the service behind is of no use.
    Unready(BoxError),
    /// It was sent, and no response has come in time.
    DeadlineExceeded,
    /// It was sent, and has failed.
    Failed(BoxError),
}

impl<S, B> Attempt<S, B>
where
    S: Service<Request<B>>,
{
    /// An attempt of a request that has a place in the queue. It gives the place up after
    /// `patience`, if it then has no leave to be sent.
    pub(super) fn new(
        ticket: Ticket,
        service: S,
        request: Request<B>,
        outgoing: Outgoing,
        (before, patience): (u8, Duration),
    ) -> Self {
        let timer = |at| (at != Instant::NEVER).then(|| sleep_until(clock::to_tokio(at)));
        let give_up_at = match patience {
            Duration::MAX => Instant::NEVER,
            patience => clock::now() + patience,
        };
        Self {
            deadline: timer(outgoing.deadline),
            patience: timer(give_up_at),
            state: State::Waiting {
                ticket: Some(ticket),
                service: Some(service),
                request: Some(request),
            },
            outgoing,
            before,
        }
    }
}

impl<S, B> Attempt<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn is_grpc(&self) -> bool {
        self.outgoing.is_grpc
    }
}

impl<S, B, R> Future for Attempt<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: HttpBody,
{
    type Output = Attempted<R>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Attempted<R>> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Waiting { ticket, service, request } => {
                    let waiting = ticket.as_mut().expect("it is polled while it waits");
                    let refused = match waiting.poll(cx) {
                        Poll::Ready(Ok(flight)) => {
                            *ticket = None;
                            let flight = Some(flight);
                            let service = service.take().expect("it is called once");
                            let request = request.take();
                            this.patience.set(None);
                            this.state.set(State::Readying { flight, service, request });
                            continue;
                        }
                        Poll::Ready(Err(reason)) => reason,
                        Poll::Pending => {
                            ready!(either(&mut this.deadline, &mut this.patience, cx));
                            DropReason::Expired
                        }
                    };
                    let (waited, left) = waiting.waited();
                    return Poll::Ready(Attempted::Refused(Refused::new(refused, waited, left)));
                }
                StateProj::Readying { flight, service, request } => {
                    match service.poll_ready(cx) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => {
                            return Poll::Ready(Attempted::Unready(error.into()));
                        }
                        Poll::Pending => {
                            ready!(elapsed(&mut this.deadline, cx));
                            // Nothing has left, and its credit goes back.
                            let refused =
                                Refused::new(DropReason::Expired, Duration::ZERO, Duration::ZERO);
                            return Poll::Ready(Attempted::Refused(refused));
                        }
                    }
                    let mut flight = flight.take().expect("it leaves once");
                    let mut request = request.take().expect("it leaves once");
                    let now = clock::now();
                    flight.on_sent(now);
                    let told = (flight.client(), flight.report);
                    let headers = request.headers_mut();
                    this.outgoing.write(now, clock::realtime_ns(), told, *this.before, headers);
                    let response = service.call(request);
                    this.state.set(State::Sent { flight: Some(flight), response });
                }
                StateProj::Sent { flight, response } => {
                    let result = match response.poll(cx) {
                        Poll::Ready(result) => result,
                        Poll::Pending => {
                            ready!(elapsed(&mut this.deadline, cx));
                            end(flight, Outcome::Expired);
                            return Poll::Ready(Attempted::DeadlineExceeded);
                        }
                    };
                    return Poll::Ready(match result {
                        Ok(response) => {
                            answered(response, flight.take().expect("it is answered once"))
                        }
                        Err(error) => {
                            end(flight, Outcome::Failed);
                            Attempted::Failed(error.into())
                        }
                    });
                }
            }
        }
    }
}

fn end(flight: &mut Option<Flight>, outcome: Outcome) {
    if let Some(mut flight) = flight.take() {
        flight.end(Some(outcome));
    }
}

fn answered<R: HttpBody>(mut response: Response<R>, mut flight: Flight) -> Attempted<R> {
    let news = News::of_head(response.status(), response.headers());
    let outcome = match &news.fate {
        Fate::Served => Outcome::Served,
        Fate::Unsure => Outcome::Failed,
        Fate::Refused(refusal) => {
            flight.meters().on_refusal(refusal);
            response.extensions_mut().insert(**refusal);
            Outcome::Refused
        }
    };
    let is_all = response.body().is_end_stream();
    let latency = flight.on_head(clock::now(), news.feedback, outcome, is_all);
    let (service, queue_delay) = (news.service, news.queue_delay);
    let answered = Answered { latency, service, queue_delay };
    Attempted::Answered { response, flight, news, answered }
}

/// Ready once a timer has expired; never without one.
fn elapsed(timer: &mut Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx))
}

fn either(
    one: &mut Pin<&mut Option<Sleep>>,
    other: &mut Pin<&mut Option<Sleep>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if elapsed(one, cx).is_ready() { Poll::Ready(()) } else { elapsed(other, cx) }
}
