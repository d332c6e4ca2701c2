//! What the client costs a request: the same calls of a service that answers at once, without the
//! client, with a layer of it, and through one of two replicas.

use std::convert::Infallible;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use seawall_tower::client::{Config, Deadline, Layer, Replay, Replicas};
use tokio::runtime::{Builder, Runtime};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer as _;

type Body = Full<Bytes>;

/// Answers at once, and gives credits.
async fn answer<B>(request: Request<B>) -> Result<Response<Body>, Infallible> {
    black_box(&request);
    let response = Response::builder().header("seawall", "window=64, seq=1, queue=5, service=40");
    Ok(response.body(Full::new(Bytes::from_static(b"hello"))).expect("a response"))
}

fn request() -> Request<Body> {
    let mut request = Request::new(Full::new(Bytes::from_static(b"hello")));
    request.headers_mut().insert("content-type", "text/plain".parse().expect("a header"));
    request
}

fn call<S, R>(runtime: &Runtime, client: &S, request: Request<Body>)
where
    S: Service<Request<Body>, Response = Response<R>> + Clone,
    S::Error: std::fmt::Debug,
    R: http_body::Body,
    R::Error: std::fmt::Debug,
{
    runtime.block_on(async {
        let response = client.clone().oneshot(request).await.expect("a response");
        black_box(response.into_body().collect().await.expect("a body"));
    });
}

fn clients(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _inside = runtime.enter();
    let mut group = criterion.benchmark_group("client");
    group.throughput(Throughput::Elements(1));

    let none = service_fn(answer::<Body>);
    group.bench_function("none", |bencher| {
        bencher.iter(|| call(&runtime, &none, request()));
    });

    let layer = Layer::new(Config::default()).expect("the defaults are in range");
    let credits = layer.layer(service_fn(answer::<Body>));
    group.bench_function("layer", |bencher| {
        bencher.iter(|| call(&runtime, &credits, request()));
    });
    group.bench_function("layer, with a deadline", |bencher| {
        bencher.iter(|| {
            let mut request = request();
            request.extensions_mut().insert(Deadline::after(std::time::Duration::from_secs(1)));
            call(&runtime, &credits, request);
        });
    });

    let replicas = Replicas::new(Config::default()).expect("the defaults are in range");
    for name in ["one", "two"] {
        replicas.insert(name, service_fn(answer::<Replay<Body>>));
    }
    group.bench_function("two replicas", |bencher| {
        bencher.iter(|| call(&runtime, &replicas, request()));
    });
    group.finish();
}

criterion_group!(benches, clients);
criterion_main!(benches);
