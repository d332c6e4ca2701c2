//! Both over loopback, with hyper below.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use seawall_control::replica::Selection;
use seawall_control::request::{Priority, Rejected, Stage};
use seawall_tower::Context;
use seawall_tower::client::{
    self, Attempts, CallOptions, Deadline, Refusal, Replay, Replicas, ResponseFuture, Toward,
};
use seawall_tower::server::{self, Config, Listener, Monitor, Refused};
use tokio::sync::Notify;
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer as _;

type Body = Full<Bytes>;
type Answer = Result<Response<Body>, Infallible>;

/// An SLO that nothing here misses, so that only what a test does is refused.
const SLO: Duration = Duration::from_secs(60);

/// A server whose requests `handle` answers; `stage` is what its one lock is called.
async fn serve<H, F>(config: Config, stage: Option<(Stage, &str)>, handle: H) -> (String, Monitor)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut builder = server::Layer::builder(Config { slo: SLO, ..config });
    if let Some((stage, name)) = stage {
        builder = builder.stage(stage, name);
    }
    let layer = builder.build().unwrap();
    let monitor = layer.monitor();
    tokio::spawn(async move {
        loop {
            let (io, _) = listener.accept().await;
            let service = io.connection().wrap(layer.layer(service_fn(handle.clone())));
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                let service = TowerToHyperService::new(service);
                _ = builder.serve_connection(TokioIo::new(io), service).await;
            });
        }
    });
    (origin, monitor)
}

fn settings() -> client::Config {
    client::Config { slo: SLO, ..client::Config::named("orders") }
}

fn hyper_client<B>() -> Client<HttpConnector, B>
where
    B: http_body::Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).build_http()
}

fn one(origin: &str) -> client::Service<Toward<Client<HttpConnector, Body>>> {
    let client = Toward::new(hyper_client(), origin).unwrap();
    client::Layer::new(settings()).unwrap().layer(client)
}

fn get(deadline: Option<Duration>) -> Request<Body> {
    let mut request = Request::new(Body::default());
    if let Some(left) = deadline {
        request.extensions_mut().insert(Deadline::after(left));
    }
    request
}

async fn text<S, R>(client: &S, request: Request<Body>) -> String
where
    S: Service<Request<Body>, Response = Response<R>, Error = client::Error> + Clone,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    let response = client.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.into()).unwrap()
}

fn context(request: &Request<Incoming>) -> Context {
    request.extensions().get::<Context>().expect("the layer has put it there").clone()
}

#[tokio::test]
async fn windows_come_back_and_a_session_lives_over_all_connections() {
    let hello = |_| async { Ok(Response::new(Full::from("hello"))) };
    let (origin, monitor) = serve(Config::default(), None, hello).await;
    let client = one(&origin);
    for _ in 0..3 {
        let many = (0..8).map(|_| text(&client, get(None)));
        assert_eq!(futures_util::future::join_all(many).await, ["hello"; 8]);
    }
    assert_eq!((client.outstanding(), client.pending()), (0, 0));
    let metrics = client.metrics();
    let window = metrics.iter().find(|(name, _)| *name == "credit_window").unwrap().1;
    assert!(window >= 1.0, "{metrics:?}");
    monitor.drain();
    monitor.drained().await;
    let stats = monitor.stats();
    let completions: u64 = stats.classes.iter().map(|class| class.completions).sum();
    assert_eq!((stats.sessions, completions, stats.window_violations), (1, 24, 0));
    assert_eq!((stats.fields_malformed, stats.fields_ignored), (0, 0));
}

#[tokio::test]
async fn what_is_left_shrinks_from_service_to_service() {
    let seconds = Duration::from_secs;
    let told = |request: &Request<Incoming>| {
        let context = context(request);
        (context.remaining_now(), context.claims().priority, context.start_time_ns())
    };
    let (seen, mut all) = tokio::sync::mpsc::unbounded_channel();
    let mut trusting = Config::default();
    trusting.trust.everybody = true;
    let back = {
        let seen = seen.clone();
        move |request| {
            seen.send(told(&request)).unwrap();
            async { Ok(Response::new(Full::from("done"))) }
        }
    };
    let (back, _) = serve(trusting.clone(), None, back).await;
    let onward = one(&back);
    let front = move |request| {
        seen.send(told(&request)).unwrap();
        let onward = onward.clone();
        // Nothing is said of the request on whose behalf it is: it is known.
        async move { Ok(Response::new(Full::from(text(&onward, get(None)).await))) }
    };
    let (front, _) = serve(trusting, None, front).await;
    let mut request = get(Some(seconds(20)));
    let options = CallOptions::default().with_priority(Priority(3)).with_budget(seconds(30));
    request.extensions_mut().insert(options);
    assert_eq!(text(&one(&front), request).await, "done");
    let (first, second) = (all.recv().await.unwrap(), all.recv().await.unwrap());
    assert!(first.0 < seconds(20) && second.0 < first.0, "{first:?} {second:?}");
    assert!(second.0 > Duration::ZERO);
    assert_eq!((first.1, second.1), (Priority(3), Priority(3)));
    assert!(first.2.abs_diff(second.2) < 1_000_000_000, "the same job: {first:?} {second:?}");
}

#[tokio::test]
async fn giving_up_ends_the_request_at_the_server() {
    let begun = Arc::new(Notify::new());
    let handle = {
        let begun = begun.clone();
        move |_| {
            begun.notify_one();
            pending::<Answer>()
        }
    };
    let (origin, monitor) = serve(Config::default(), None, handle).await;
    let client = one(&origin);
    let call: ResponseFuture<_, _> = client.clone().call(get(None));
    let call = tokio::spawn(call);
    begun.notified().await;
    assert_eq!(monitor.stats().outstanding, 1);
    call.abort();
    monitor.drain();
    monitor.drained().await;
    let cancelled: u64 = monitor.stats().classes.iter().map(|class| class.cancellations).sum();
    assert_eq!(cancelled, 1);
}

#[tokio::test]
async fn who_cannot_wait_for_a_lock_is_served_by_another_replica() {
    let stage = Stage(Stage::FIRST_OWN);
    let mut config = settings();
    config.admission.client.replicas.choose = Selection::First;
    let client = Replicas::new(config).unwrap();
    let connections = hyper_client::<Replay<Body>>();
    let mut monitors = Vec::new();
    for is_busy in [true, false] {
        // What a lock of seawall-sync says to a request that cannot wait for it.
        let lock = move |context: &Context| {
            let (long, left) = (Duration::from_millis(9), context.remaining_now());
            if is_busy { Err(Rejected::new(stage, long, left)) } else { Ok(()) }
        };
        let handle = move |request: Request<Incoming>| async move {
            if let Err(rejected) = lock(&context(&request)) {
                return Ok(Refused(rejected).response());
            }
            let body = request.into_body().collect().await.unwrap().to_bytes();
            Ok(Response::new(Full::new(body)))
        };
        let (origin, monitor) =
            serve(Config::default(), Some((stage, "lock:orders")), handle).await;
        client.insert(&*origin, Toward::new(connections.clone(), &origin).unwrap());
        monitors.push(monitor);
    }
    let request = || Request::post("/orders").body(Full::from("one")).unwrap();
    for _ in 0..3 {
        let response = client.clone().oneshot(request()).await.unwrap();
        let attempts = *response.extensions().get::<Attempts>().unwrap();
        assert_eq!((response.status().as_u16(), attempts.sent), (200, 2));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "one");
    }
    let refusals = &monitors[0].stats().classes[0].refusals;
    assert_eq!(refusals.keys().map(|(stage, _)| &**stage).collect::<Vec<_>>(), ["lock:orders"]);
    assert_eq!(refusals.values().sum::<u64>(), 3);
    // Where nobody else is, the caller is told, by name.
    let names = client.names();
    client.remove(&names[1]);
    let response = client.clone().oneshot(request()).await.unwrap();
    let refusal = response.extensions().get::<Refusal>().unwrap();
    assert_eq!(refusal.stage.unwrap().as_str(), "lock:orders");
    assert_eq!(refusal.rejected.predicted_delay, Duration::from_millis(9));
}
