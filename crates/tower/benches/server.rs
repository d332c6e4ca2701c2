//! What the layer adds to a service that is ready at once: beside the service alone.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::task::noop_waker;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use seawall_control::admission;
use seawall_tower::server::{Config, Layer};
use tower::util::BoxCloneSyncService;
use tower::{Service, service_fn};
use tower_layer::Layer as _;

type Sent = Result<Response<Full<Bytes>>, Infallible>;

fn hello(_: Request<()>) -> Ready<Sent> {
    ready(Ok(Response::new(Full::from("hello"))))
}

fn request(field: Option<&'static str>) -> Request<()> {
    let request = Request::builder().uri("/orders/42").header("host", "shop");
    let request =
        field.into_iter().fold(request, |request, value| request.header("seawall", value));
    request.body(()).expect("a request")
}

/// One request, from its call to the end of its body.
fn serve<S, B>(service: &mut S, request: Request<()>)
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Data = Bytes>,
{
    let waker = noop_waker();
    let cx = &mut Context::from_waker(&waker);
    let future = pin!(service.call(request));
    let Poll::Ready(Ok(response)) = future.poll(cx) else { panic!("it is ready") };
    let mut body = pin!(response.into_body());
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(cx) {
        black_box(frame.is_ok());
        if body.is_end_stream() {
            break;
        }
    }
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("server");
    group.bench_function("request", |bench| bench.iter(|| black_box(request(None))));
    group.bench_function("bare", |bench| {
        let mut service = service_fn(hello);
        bench.iter(|| serve(&mut service, request(None)));
    });
    // What axum puts around every service of its own.
    group.bench_function("boxed", |bench| {
        let mut service = BoxCloneSyncService::new(service_fn(hello));
        bench.iter(|| serve(&mut service.clone(), request(None)));
        black_box(&mut service);
    });
    for (name, algorithm, field) in [
        ("none", "none", None),
        ("aimd", "aimd", None),
        ("breakwater", "breakwater", None),
        ("breakwater, credits", "breakwater", Some("client=\"web-7\", demand=0, ack=1")),
    ] {
        group.bench_function(name, |bench| {
            let admission = admission::Config::named(algorithm);
            let layer = Layer::new(Config { admission, ..Config::default() });
            let mut service = layer.expect("it can be used").layer(service_fn(hello));
            bench.iter(|| serve(&mut service, request(field)));
        });
    }
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
