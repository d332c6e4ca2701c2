//! Layers that put Seawall around services that speak HTTP or gRPC, whatever serves them: axum,
//! hyper, tonic, or anything else made of `tower` services.
//!
//! ```text
//!   client::Layer ── seawall: client, demand, deadline ──► server::Layer ──► handler(Context)
//!     credits, deadlines,                                    admission by any algorithm;
//!     second tries within a budget                           stages refuse who cannot wait
//!        ▲                                                          │
//!        └────── seawall: window, seq, queue; 503, stage, Retry-After
//! ```
//!
//! Either works without the other. What they say to each other, and to others who know nothing of
//! it, is one header and the conventions of HTTP and gRPC; `docs/http.md` has all of it.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use bytes::Bytes;
//! use seawall_tower::Context;
//! use seawall_tower::server::{Config, Layer};
//! use tower::{ServiceBuilder, ServiceExt};
//!
//! async fn hello(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     let context = request.extensions().get::<Context>().expect("the layer has put it there");
//!     Ok(Response::new(Full::from(format!("{:?} left", context.remaining_now()))))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let layer = Layer::new(Config::default())?;
//! let service = ServiceBuilder::new().layer(layer.clone()).service_fn(hello);
//!
//! let request = Request::builder().header("seawall", "deadline=50000").body(())?;
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! assert_eq!(layer.monitor().stats().total().requests, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder `examples` has services of axum, hyper and tonic, with locks that refuse by the
//! context.
//!
//! # What it does not do
//!
//! It opens no connections for clients, and accepts no TLS: at most it reads who tonic has accepted
//! (feature `tonic-tls`). It runs handlers where they would run anyway: unlike `seawall-rpc` it has
//! no run queue of its own, so it measures the runtime's from outside.

pub mod client;
pub mod clock;
pub mod headers;
pub mod server;

pub use server::Context;
