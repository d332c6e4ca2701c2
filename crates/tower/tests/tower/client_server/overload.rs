//! Twice the load that a server can do, on a clock that stands still unless all wait: where is what
//! cannot be served refused?

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use seawall_control::Instant;
use seawall_control::request::{Class, Stage};
use seawall_tower::server::Queue;
use seawall_tower::{Context, client, clock, server};
use tokio::sync::Semaphore;
use tokio::time::{self, sleep_until};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer as _;

type Body = Empty<bytes::Bytes>;

const SLO: Duration = Duration::from_millis(100);

/// Each request takes a worker for so long.
const SERVICE: Duration = Duration::from_millis(10);
const WORKERS: usize = 10;

/// Each client sends this often: together 2000 requests in a second, which takes twenty workers.
const CLIENTS: u32 = 20;
const GAP: Duration = Duration::from_millis(10);

/// What is counted begins then, and lasts for so long.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);

/// The workers, and since when requests wait for one.
struct Station {
    workers: Semaphore,
    waiting: Mutex<VecDeque<Instant>>,
}

impl Station {
    async fn work(self: Arc<Self>, context: Context) {
        let since = clock::now();
        self.waiting.lock().unwrap().push_back(since);
        let worker = context.wait(self.workers.acquire()).await;
        self.waiting.lock().unwrap().pop_front(); // workers are given in the order of arrival
        time::sleep(SERVICE).await;
        drop(worker);
    }
}

impl Queue for Station {
    fn stage(&self) -> Stage {
        Stage(Stage::FIRST_OWN)
    }

    fn wait(&self, now: Instant, _: Class) -> Duration {
        self.waiting.lock().unwrap().front().map_or(Duration::ZERO, |since| now.since(*since))
    }
}

/// What became of the requests that were counted.
#[derive(Clone, Copy, Debug, Default)]
struct Fates {
    /// Served within the SLO.
    good: u32,
    late: u32,
    /// By the server.
    refused: u32,
    /// At the client.
    dropped: u32,
}

impl Fates {
    fn unserved(self) -> u32 {
        self.refused + self.dropped
    }

    /// Good ones, as a part of what the workers can do.
    fn goodput(self) -> f64 {
        let capacity = MEASURED.div_duration_f64(SERVICE) * WORKERS as f64;
        f64::from(self.good) / capacity
    }
}

/// A server of ten workers, admitted by `algorithm`.
fn server(
    algorithm: &str,
) -> impl Service<
    Request<Body>,
    Response = Response<server::Body<Body>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let workers = Semaphore::new(WORKERS);
    let station = Arc::new(Station { workers, waiting: Mutex::default() });
    let mut config = server::Config {
        slo: SLO,
        workers: WORKERS,
        canary: Duration::ZERO, // nobody waits for the runtime
        seed: 7,
        ..server::Config::default()
    };
    config.admission.algorithm = algorithm.into();
    let layer = server::Layer::builder(config).queue(station.clone()).build().unwrap();
    layer.layer(service_fn(move |request: Request<Body>| {
        let station = station.clone();
        let context = request.extensions().get::<Context>().unwrap().clone();
        async move {
            station.work(context).await;
            Ok::<_, Infallible>(Response::new(Body::new()))
        }
    }))
}

/// Sends at even gaps, whatever becomes of it, and counts.
async fn load<S, R, E>(clients: Vec<S>) -> Fates
where
    S: Service<Request<Body>, Response = Response<R>, Error = E> + Clone + Send + 'static,
    S::Future: Send,
    R: Send + 'static,
    E: Into<client::BoxError> + Send + 'static,
{
    let fates = Arc::new(Mutex::new(Fates::default()));
    let begun = time::Instant::now();
    let end = begun + WARM_UP + MEASURED;
    let mut all = Vec::new();
    for (index, client) in clients.into_iter().enumerate() {
        let fates = fates.clone();
        all.push(tokio::spawn(async move {
            let mut calls = Vec::new();
            let mut at = begun + GAP.mul_f64(index as f64 / f64::from(CLIENTS));
            while at < end {
                sleep_until(at).await;
                let (client, fates) = (client.clone(), fates.clone());
                let counts = at >= begun + WARM_UP;
                calls.push(tokio::spawn(async move {
                    let result = client.oneshot(Request::new(Body::new())).await;
                    let mut fates = fates.lock().unwrap();
                    let fate = match &result {
                        Ok(response) if response.status() == StatusCode::OK => {
                            if at.elapsed() <= SLO { &mut fates.good } else { &mut fates.late }
                        }
                        Ok(_) => &mut fates.refused,
                        Err(_) => &mut fates.dropped,
                    };
                    *fate += u32::from(counts);
                }));
                at += GAP;
            }
            for call in calls {
                call.await.unwrap();
            }
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    let fates = *fates.lock().unwrap();
    println!("{fates:?}, goodput {:.3}", fates.goodput());
    fates
}

async fn with_clients(algorithm: &str) -> Fates {
    let server = server(algorithm);
    let clients = (0..CLIENTS).map(|_| {
        let config = client::Config { slo: SLO, ..client::Config::default() };
        client::Layer::new(config).unwrap().layer(server.clone())
    });
    load(clients.collect()).await
}

/// Clients that know nothing of credits.
async fn without(algorithm: &str) -> Fates {
    let server = server(algorithm);
    load((0..CLIENTS).map(|_| server.clone()).collect()).await
}

#[tokio::test(start_paused = true)]
async fn credits_refuse_where_it_costs_nothing() {
    for algorithm in ["breakwater", "protego"] {
        let fates = with_clients(algorithm).await;
        assert!(fates.goodput() >= 0.9, "{algorithm}: {fates:?}");
        let part = f64::from(fates.refused) / f64::from(fates.unserved());
        assert!(
            part <= 0.1,
            "{algorithm}: the server itself refused {part:.3} of what it could not"
        );
        let plain = without(algorithm).await;
        assert_eq!(plain.dropped, 0);
        assert!(plain.refused > 5 * fates.refused, "{algorithm}: {plain:?}, {fates:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_admission_everybody_is_late() {
    let fates = without("none").await;
    assert_eq!(fates.unserved(), 0);
    assert!(fates.goodput() < 0.1, "{fates:?}");
}
