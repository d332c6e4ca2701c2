//! A server in Rust: one workload behind one limiter, on one thread.
//!
//! It prints one line of JSON with its address when it listens, and ends with its standard input,
//! as the one in Go does.

mod limiters;
mod reply;
mod timer;
mod work;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::serve::ListenerExt;
use axum::{Router, ServiceExt};
use clap::{Args, ValueEnum};
use seawall_control::config::duration;
use seawall_tower::Context;
use seawall_tower::server::{Connection, Listener, Refused};
use tower::make::Shared;
use tower::util::BoxCloneSyncService;

pub use limiters::Peer;
pub use work::Kind;
use work::{End, Work};

/// A service that is ready to be served, behind a limiter or not.
type App = BoxCloneSyncService<Request, Response, std::convert::Infallible>;

/// Largest body of a request that is read.
const BODY_MAX: usize = 1 << 16;

/// What a request may ask for: of HTTP the path, of gRPC the method.
const PATHS: [(&str, &str); 3] =
    [("/work", "/peers.Work/Work"), ("/hot", "/peers.Work/Hot"), ("/cold", "/peers.Work/Cold")];

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// Unary gRPC over HTTP/2.
    Grpc,
}

/// Options of a server.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The limiter.
    #[arg(long, value_enum, default_value = "none")]
    pub peer: Peer,
    /// Set the limiter as an informed user would.
    #[arg(long)]
    pub tuned: bool,
    /// What a request does.
    #[arg(long, value_enum, default_value = "idle")]
    pub work: Kind,
    /// The protocol.
    #[arg(long, value_enum, default_value = "http")]
    pub proto: Protocol,
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Time for which the lock is held.
    #[arg(long, default_value = "2ms", value_parser = duration::parse)]
    pub hold: Duration,
    /// CPU time of a request.
    #[arg(long, default_value = "2ms", value_parser = duration::parse)]
    pub burn: Duration,
    /// Share of the requests that fail, 0 to 1.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    pub errors: f64,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("allowed: 0 to 1".into()) }
}

/// Serves until standard input ends.
///
/// # Errors
///
/// If it cannot listen.
pub fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (listener, app) = start(options).await?;
        let address = listener.local_addr()?;
        println!("{}", serde_json::json!({ "address": address.to_string() }));
        std::thread::spawn(|| {
            _ = io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        serve(listener, app, options.peer).await.context("serving")
    })
}

/// A listener and what it is to serve.
///
/// # Errors
///
/// If it cannot listen.
pub async fn start(options: &Options) -> Result<(tokio::net::TcpListener, App)> {
    let listener = tokio::net::TcpListener::bind(options.listen).await;
    let listener = listener.with_context(|| format!("cannot listen at {}", options.listen))?;
    Ok((listener, app(options)))
}

/// Serves for ever.
///
/// # Errors
///
/// If the listener breaks.
pub async fn serve(listener: tokio::net::TcpListener, app: App, peer: Peer) -> io::Result<()> {
    if peer.is_ours() {
        // So that requests know when their bytes came.
        let service = ServiceExt::<Request>::into_make_service_with_connect_info::<Connection>(app);
        return axum::serve(Listener::from(listener), service).await;
    }
    let listener = listener.tap_io(|stream| {
        // Replies are small, and nobody is to wait for more of them.
        _ = stream.set_nodelay(true);
    });
    axum::serve(listener, Shared::new(app)).await
}

/// The workload behind its limiter: one for all requests, as documentations have it, or, tuned, one
/// for each path.
fn app(options: &Options) -> App {
    let work = Arc::new(Work::new(options.work, options.hold, options.burn, options.errors));
    let routes = |wrap: &dyn Fn(App) -> App| {
        PATHS.iter().fold(Router::new(), |router, &(http, grpc)| {
            // Who asks the lock with the request's context, and may be refused there.
            let asks = options.peer == Peer::Seawall;
            let handler = any(handle).with_state((work.clone(), options.proto, asks));
            let route = wrap(App::new(handler));
            router.route_service(http, route.clone()).route_service(grpc, route)
        })
    };
    let limited = |inner: App| options.peer.limit(options.tuned, options.proto, inner);
    match options.tuned && !options.peer.is_ours() {
        true => App::new(routes(&limited)),
        false => limited(App::new(routes(&|inner| inner))),
    }
}

async fn handle(
    State((work, protocol, asks)): State<(Arc<Work>, Protocol, bool)>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return reply::failed(protocol) };
    let path = head.uri.path();
    let name = path.rsplit('/').next().unwrap_or(path);
    let context = asks.then(|| head.extensions.get::<Context>()).flatten();
    let payload = reply::payload(protocol, &body);
    match work.run(name, &payload, context.map(|context| &**context)).await {
        Ok(()) => reply::done(protocol),
        Err(End::Injected) => reply::failed(protocol),
        Err(End::Refused(rejected)) => Refused(rejected).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use clap::{Parser, ValueEnum};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Arguments::parse_from(line.split_whitespace()).options
    }

    fn ask(options: &Options, path: &str, body: &'static [u8]) -> (u16, Option<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let request = Request::builder().uri(path).body(Body::from(body)).unwrap();
            let (head, body) = app(options).oneshot(request).await.unwrap().into_parts();
            let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
            let status = trailers.get("grpc-status").or(head.headers.get("grpc-status"));
            (head.status.as_u16(), status.map(|code| code.to_str().unwrap().to_owned()))
        })
    }

    #[test]
    fn every_peer_serves_both_protocols() {
        for &peer in Peer::value_variants() {
            for tuned in [false, true] {
                let http = Options { peer, tuned, ..options("x --work mix") };
                assert_eq!(ask(&http, "/work", b"h1"), (200, None), "{peer:?}");
                let grpc = Options { peer, tuned, ..options("x --work mix --proto grpc") };
                let found = ask(&grpc, "/peers.Work/Work", b"\0\0\0\0\x04\x0a\x02h1");
                assert_eq!(found, (200, Some("0".to_owned())), "{peer:?}");
            }
        }
    }

    #[test]
    fn an_injected_error_is_no_refusal() {
        assert_eq!(ask(&options("x --errors 1"), "/work", b""), (500, None));
        let grpc = options("x --errors 1 --proto grpc");
        assert_eq!(ask(&grpc, "/peers.Work/Hot", b""), (200, Some("13".to_owned())));
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = Options { peer: Peer::Tower, tuned: true, ..options("x --work lock") };
        let statuses = runtime.block_on(async {
            let app = app(&options);
            let ask = |_| {
                let request = Request::builder().uri("/work").body(Body::empty()).unwrap();
                tokio::spawn(app.clone().oneshot(request))
            };
            let asked: Vec<_> = (0..60).map(ask).collect();
            let mut statuses = Vec::new();
            for asked in asked {
                statuses.push(asked.await.unwrap().unwrap().status().as_u16());
            }
            statuses
        });
        let count = |code| statuses.iter().filter(|status| **status == code).count();
        assert_eq!((count(200), count(503)), (40, 20));
    }
}
