//! The field of HTTP: the document's examples, and what must hold for any text.

mod document;
mod oracle;

use std::time::Duration;

use proptest::prelude::*;
use seawall_control::controller::Feedback;
use seawall_control::fields::{Name, Reading, Request, Response, timeout};

fn name() -> impl Strategy<Value = Name> {
    "[ -~]{1,64}".prop_map(|text| Name::new(&text).expect("short and printable"))
}

fn micros() -> impl Strategy<Value = Duration> {
    prop_oneof![0..5_000_000_u64, 0..1_000_000_000_000_000_u64].prop_map(Duration::from_micros)
}

fn some<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(value)
}

fn request() -> impl Strategy<Value = Request> {
    let credits = (some(name()), some(any::<u32>()), some(any::<u32>()));
    let claims = (some(any::<u8>()), some(any::<u32>()), some(any::<u8>()), some(any::<bool>()));
    let times = (some(micros()), some(micros()), some(micros()));
    let graph = (some(any::<u16>()), some(any::<u16>()));
    (credits, claims, times, graph).prop_map(|(credits, claims, times, graph)| {
        let mut request = Request::default();
        (request.client, request.demand, request.ack) = credits;
        (request.priority, request.tenant, request.attempt, request.droppable) = claims;
        (request.deadline, request.budget, request.age) = times;
        (request.hops, request.path) = graph;
        request
    })
}

fn response() -> impl Strategy<Value = Response> {
    let feedback = prop_oneof![
        Just(Feedback::None),
        any::<(u32, u32)>().prop_map(|(size, seq)| Feedback::Window { size, seq }),
        any::<u16>().prop_map(Feedback::Level),
    ];
    let times = (some(micros()), some(micros()), some(micros()), some(micros()));
    (feedback, some(name()), times).prop_map(|(feedback, stage, times)| {
        let mut response = Response::default();
        (response.feedback, response.stage) = (feedback, stage);
        (response.predicted, response.queue, response.retry_after, response.service) = times;
        response
    })
}

fn understood<T>(fields: T) -> Reading<T> {
    Reading { fields, ignored: 0, malformed: false }
}

proptest! {
    #[test]
    fn requests_come_back(request in request()) {
        let text = request.to_string();
        prop_assert_eq!(Request::read([text.as_bytes()]), understood(request));
    }

    #[test]
    fn responses_come_back(response in response()) {
        let text = response.to_string();
        prop_assert_eq!(Response::read([text.as_bytes()]), understood(response));
    }

    /// A name that is cut out of any text can be sent.
    #[test]
    fn any_text_has_a_name_next_to_it(text in any::<String>()) {
        let name = Name::lossy(&text);
        prop_assert_eq!(Name::new(name.as_str()), Some(name));
    }

    /// It loses less than a unit, and gains nothing.
    #[test]
    fn timeouts_come_back_and_never_grow(nanos in any::<u64>()) {
        let left = Duration::from_nanos(nanos);
        let read = timeout::parse(timeout::format(left).to_string().as_bytes()).unwrap();
        prop_assert!(read <= left);
        prop_assert!(left - read <= left / 1_000_000, "{read:?} of {left:?}");
    }
}
