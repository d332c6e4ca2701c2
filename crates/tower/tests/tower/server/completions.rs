//! However requests go and end, each arrival has one completion.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::noop_waker;
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use proptest::prelude::*;
use seawall_tower::server::{Body, Config, Layer, Mode, ResponseFuture};
use tower::Service;
use tower_layer::Layer as _;

use super::mock::Mock;
use super::support::patient;

/// One step of a body.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait,
    Data(u8),
    Trailers(&'static str),
    Error,
}

/// How a handler ends, once it does.
#[derive(Clone, Debug)]
enum Answer {
    Error,
    Response { status: u16, header: Option<&'static str>, body: Vec<Step>, sized: bool },
}

type Place = Arc<Mutex<Option<Answer>>>;

/// A handler whose answer is put in its place by the test.
#[derive(Clone)]
struct Handler;

struct Handling(Place);

struct Steps {
    steps: VecDeque<Step>,
    sized: bool,
}

impl Service<Request<Place>> for Handler {
    type Response = Response<Steps>;
    type Error = &'static str;
    type Future = Handling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Place>) -> Handling {
        Handling(request.into_body())
    }
}

impl Future for Handling {
    type Output = Result<Response<Steps>, &'static str>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.lock().unwrap().take() {
            None => Poll::Pending,
            Some(Answer::Error) => Poll::Ready(Err("no")),
            Some(Answer::Response { status, header, body, sized }) => {
                let mut response = Response::builder().status(status);
                if let Some(value) = header {
                    response = response.header("seawall", value);
                }
                let body = Steps { steps: body.into(), sized };
                Poll::Ready(Ok(response.body(body).unwrap()))
            }
        }
    }
}

impl http_body::Body for Steps {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(match self.steps.pop_front() {
            None => None,
            Some(Step::Wait) => return Poll::Pending,
            Some(Step::Data(len)) => Some(Ok(Frame::data(vec![0; len.into()].into()))),
            Some(Step::Trailers(status)) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.parse().unwrap());
                Some(Ok(Frame::trailers(trailers)))
            }
            Some(Step::Error) => Some(Err("broken")),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.sized && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let len = |step: &Step| if let Step::Data(len) = step { u64::from(*len) } else { 0 };
        let all = self.steps.iter().map(len).sum();
        if self.sized { SizeHint::with_exact(all) } else { SizeHint::default() }
    }
}

/// What happens next.
#[derive(Clone, Debug)]
enum Op {
    Arrive { client: u8, grpc: bool, head: bool, expired: bool },
    Refuse { entry: bool, dequeue: bool },
    Answer(usize, Answer),
    Poll(usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Wait),
        any::<u8>().prop_map(Step::Data),
        prop::sample::select(vec!["0", "13", "14"]).prop_map(Step::Trailers),
        Just(Step::Error),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let header = prop_oneof![
        3 => Just(None),
        1 => Just(Some("stage=\"stage 20\", predicted=5")),
        1 => Just(Some("queue=5")),
    ];
    let status = prop::sample::select(vec![200, 204, 304, 404, 500, 503]);
    let response = (status, header, prop::collection::vec(step(), 0..4), any::<bool>())
        .prop_map(|(status, header, body, sized)| Answer::Response { status, header, body, sized });
    prop_oneof![1 => Just(Answer::Error), 5 => response]
}

fn op() -> impl Strategy<Value = Op> {
    let index = || 0..8_usize;
    let arrive = (0..4_u8, any::<bool>(), any::<bool>(), prop::bool::weighted(0.1))
        .prop_map(|(client, grpc, head, expired)| Op::Arrive { client, grpc, head, expired });
    let refuse = (prop::bool::weighted(0.3), prop::bool::weighted(0.2))
        .prop_map(|(entry, dequeue)| Op::Refuse { entry, dequeue });
    prop_oneof![
        4 => arrive,
        1 => refuse,
        4 => (index(), answer()).prop_map(|(index, answer)| Op::Answer(index, answer)),
        8 => index().prop_map(Op::Poll),
        2 => index().prop_map(Op::Drop),
    ]
}

/// A request that somebody holds in his hands.
enum Held {
    Future(Pin<Box<ResponseFuture<Handling>>>, Place),
    Body(Pin<Box<Body<Steps>>>),
}

impl Held {
    /// Polls once; `None` when it has ended.
    fn poll(self) -> Option<Self> {
        let waker = noop_waker();
        let cx = &mut Context::from_waker(&waker);
        match self {
            Self::Future(mut future, place) => match future.as_mut().poll(cx) {
                Poll::Pending => Some(Self::Future(future, place)),
                Poll::Ready(Ok(response)) => Some(Self::Body(Box::pin(response.into_body()))),
                Poll::Ready(Err(_)) => None,
            },
            Self::Body(mut body) => match body.as_mut().poll_frame(cx) {
                Poll::Ready(None | Some(Err(_))) => None,
                _ => Some(Self::Body(body)),
            },
        }
    }
}

fn request(place: &Place, client: u8, grpc: bool, head: bool, expired: bool) -> Request<Place> {
    let mut request = Request::builder().method(if head { "HEAD" } else { "GET" }).uri("/");
    if client > 0 {
        request = request.header("seawall", format!("client=\"{client}\""));
    }
    if grpc {
        request = request.header("content-type", "application/grpc");
    }
    if expired {
        request = request.header("grpc-timeout", "0n");
    }
    request.body(place.clone()).unwrap()
}

fn run(mode: Mode, ops: Vec<Op>) {
    let mock = Mock::default();
    let layer = Layer::builder(Config { mode, ..patient() }).algorithm(Arc::new(mock.clone()));
    let layer = layer.build().unwrap();
    let mut service = layer.layer(Handler);
    let mut held: Vec<Option<Held>> = (0..8).map(|_| None).collect();
    let mut arrivals = 0;
    for op in ops {
        match op {
            Op::Arrive { client, grpc, head, expired } => {
                if let Some(free) = held.iter_mut().find(|held| held.is_none()) {
                    let place = Place::default();
                    let request = request(&place, client, grpc, head, expired);
                    let future = Box::pin(service.call(request));
                    *free = Some(Held::Future(future, place));
                    arrivals += 1;
                }
            }
            Op::Refuse { entry, dequeue } => {
                mock.books(|books| (books.refuses, books.refuses_dequeues) = (entry, dequeue));
            }
            Op::Answer(index, answer) => {
                if let Some(Held::Future(_, place)) = &held[index] {
                    *place.lock().unwrap() = Some(answer);
                }
            }
            Op::Poll(index) => held[index] = held[index].take().and_then(Held::poll),
            Op::Drop(index) => held[index] = None,
        }
        let open = held.iter().flatten().count() as i64;
        assert!(mock.in_flight() <= open, "more in the server than anybody holds");
    }
    drop(held);
    assert_eq!(mock.in_flight(), 0);
    mock.books(|books| {
        assert_eq!((books.arrivals.len(), books.completions.len()), (arrivals, arrivals));
        if mode == Mode::Observe {
            // Only services behind refuse anything.
            let own = |outcome: &&seawall_control::controller::Completion| {
                matches!(outcome.outcome, seawall_control::controller::Outcome::Refused(stage)
                    if stage.0 != 20)
            };
            assert_eq!(books.completions.iter().find(own).map(|it| it.outcome), None);
        }
    });
    let stats = layer.monitor().stats();
    let total = stats.total();
    let ended = total.completions + total.failures + total.cancellations + total.refused();
    assert_eq!((stats.outstanding, ended, total.requests), (0, arrivals as u64, arrivals as u64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn one_for_each_arrival(
        observes in any::<bool>(),
        ops in prop::collection::vec(op(), 0..80),
    ) {
        run(if observes { Mode::Observe } else { Mode::Enforce }, ops);
    }
}
