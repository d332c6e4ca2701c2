//! The limiters of Rust services, each as its documentation has it, or as an informed user would
//! set it.

use std::sync::Arc;
use std::time::Duration;

use axum::error_handling::HandleErrorLayer;
use axum::response::Response;
use clap::ValueEnum;
use congestion_limiter::limiter::{DefaultLimiter, Limiter, Outcome};
use congestion_limiter::limits;
use little_loadshedder::{LoadShedLayer, LoadShedResponse};
use seawall_tower::server::{self, Config, Layer};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_resilience_adaptive::{AdaptiveLimiterLayer, Aimd, Vegas};

use super::work::{STAGE, STAGE_NAME};
use super::{App, Protocol, reply};

/// What an informed user makes of an SLO of 100 ms and a service time of 2 ms: requests that one
/// core or one lock can serve within four fifths of the SLO.
const TUNED_LIMIT: usize = 40;

/// Half of the SLO, as a target of mean latency.
const TUNED_TARGET: Duration = Duration::from_millis(50);

/// What an informed user of Seawall sets: ten service times, as Breakwater has it (§5.1).
const TUNED_DELAY: Duration = Duration::from_millis(20);

/// A limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Nothing.
    None,
    /// tower's concurrency limit behind its load shedding. It has no default; 100 is a usual one.
    Tower,
    /// little-loadshedder; its documentation's 1 % and 2 s.
    Little,
    /// congestion-limiter; AIMD as in its documentation, or Vegas.
    Congestion,
    /// tower-resilience-adaptive; AIMD, the first one of its documentation.
    Resilience,
    /// Seawall's layer, and its mutex, at which requests may be refused.
    Seawall,
    /// Seawall's layer, before handlers that know nothing of it.
    SeawallPlain,
}

impl Peer {
    /// `inner` behind a limiter.
    pub(super) fn limit(self, tuned: bool, protocol: Protocol, inner: App) -> App {
        match self {
            Self::None => inner,
            Self::Tower => tower(if tuned { TUNED_LIMIT } else { 100 }, protocol, inner),
            Self::Little => {
                let target = if tuned { TUNED_TARGET } else { Duration::from_secs(2) };
                little(target, protocol, inner)
            }
            Self::Congestion if tuned => {
                let vegas = limits::Vegas::new_with_initial_limit(10).with_max_limit(TUNED_LIMIT);
                congestion(Arc::new(DefaultLimiter::new(vegas)), protocol, inner)
            }
            Self::Congestion => {
                // The example of its documentation. Its gradient, which would be the other choice,
                // panics when a latency is below the mean (0.1.0, moving_avg.rs:47).
                let aimd = limits::Aimd::new_with_initial_limit(10).with_max_limit(20);
                let aimd = aimd.decrease_factor(0.9).increase_by(1);
                congestion(Arc::new(DefaultLimiter::new(aimd)), protocol, inner)
            }
            Self::Resilience => resilience(tuned, protocol, inner),
            Self::Seawall | Self::SeawallPlain => seawall(tuned, inner),
        }
    }

    /// Whether it is Seawall's, which wants one limiter for all paths and a listener of its own.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Seawall | Self::SeawallPlain)
    }
}

/// Seawall's layer, with an SLO of 100 ms, which is its default, and one worker.
fn seawall(tuned: bool, inner: App) -> App {
    let target_delay = tuned.then_some(TUNED_DELAY);
    let config = Config { target_delay, workers: 1, ..Config::default() };
    let layer = Layer::builder(config).stage(STAGE, STAGE_NAME).build();
    let layer = layer.expect("the configuration is one of the defaults");
    let stack = ServiceBuilder::new()
        .map_response(|response: Response<server::Body<_>>| response.map(axum::body::Body::new));
    App::new(stack.layer(layer).service(inner))
}

fn tower(limit: usize, protocol: Protocol, inner: App) -> App {
    let stack = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async move |_: BoxError| reply::refused(protocol)))
        .load_shed()
        .concurrency_limit(limit);
    App::new(stack.service(inner))
}

fn resilience(tuned: bool, protocol: Protocol, inner: App) -> App {
    let refuse = HandleErrorLayer::new(async move |_: BoxError| reply::refused(protocol));
    let stack = ServiceBuilder::new().layer(refuse).load_shed();
    if tuned {
        let vegas = Vegas::builder().max_limit(TUNED_LIMIT).build();
        let vegas = vegas.expect("the limits are in order");
        App::new(stack.layer(AdaptiveLimiterLayer::new(vegas)).service(inner))
    } else {
        let aimd = Aimd::builder().build().expect("the defaults are in order");
        App::new(stack.layer(AdaptiveLimiterLayer::new(aimd)).service(inner))
    }
}

fn little(target: Duration, protocol: Protocol, inner: App) -> App {
    let stack = ServiceBuilder::new()
        .map_response(move |response: LoadShedResponse<Response>| match response {
            LoadShedResponse::Inner(response) => response,
            LoadShedResponse::Overload => reply::refused(protocol),
        })
        .layer(LoadShedLayer::new(0.01, target));
    App::new(stack.service(inner))
}

/// It has no layer of its own.
fn congestion(limiter: Arc<dyn Limiter + Send + Sync>, protocol: Protocol, inner: App) -> App {
    App::new(tower::service_fn(move |request| {
        let (limiter, inner) = (limiter.clone(), inner.clone());
        async move {
            let Some(token) = limiter.try_acquire().await else {
                return Ok(reply::refused(protocol));
            };
            let response = inner.oneshot(request).await;
            limiter.release(token, Some(Outcome::Success)).await;
            response
        }
    }))
}
