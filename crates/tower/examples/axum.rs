//! A shop that speaks HTTP by axum: `cargo run -p seawall-tower --example axum --features axum`.
//!
//! Its stock is behind a lock. Who could not wait for it is refused at once, by the request's own
//! context, and so is who could not be served in time for any other reason.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use seawall_control::request::{Class, Stage};
use seawall_sync::Mutex;
use seawall_tower::Context;
use seawall_tower::server::{Classes, Config, Connection, Layer, Listener, Refused};

/// What refusals and metrics call the lock by.
pub(crate) const STOCK: Stage = Stage(Stage::FIRST_OWN);

/// What the shop has.
#[derive(Debug)]
pub(crate) struct Shop {
    stock: Mutex<u32>,
}

impl Shop {
    /// A shop with so much in stock.
    pub(crate) fn new(stock: u32) -> Arc<Self> {
        Arc::new(Self { stock: Mutex::new(stock).at(STOCK, "lock:stock") })
    }

    /// The lock, which tests hold to be in the way.
    #[allow(dead_code, reason = "for tests")]
    pub(crate) fn stock(&self) -> &Mutex<u32> {
        &self.stock
    }
}

/// Takes some of the stock: under its lock, if the request can wait for that.
async fn buy(
    context: Context,
    State(shop): State<Arc<Shop>>,
    Path(count): Path<u32>,
) -> Result<String, Refused> {
    let mut stock = shop.stock.lock(&context).await?;
    *stock = stock.saturating_sub(count);
    Ok(format!("{} left", *stock))
}

/// The layer in front of the shop.
pub(crate) fn layer(config: Config) -> Layer {
    let classes = Classes::new()
        .route("/buy/{count}", Class(1))
        .name(Class(0), "other")
        .name(Class(1), "buy");
    let layer = Layer::builder(config).classes(classes).stage(STOCK, "lock:stock");
    layer.build().expect("the configuration can be used")
}

/// The shop behind a layer.
pub(crate) fn app(shop: Arc<Shop>, layer: Layer) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/buy/{count}", get(buy))
        .with_state(shop)
        .layer(layer)
}

/// Serves, by sockets that know how long their bytes waited to be read.
pub(crate) async fn serve(listener: Listener, app: Router) -> std::io::Result<()> {
    let app = app.into_make_service_with_connect_info::<Connection>();
    axum::serve(listener, app).await
}

#[tokio::main]
#[allow(dead_code, reason = "tests start it themselves")]
async fn main() -> std::io::Result<()> {
    let listener = Listener::bind(([127, 0, 0, 1], 8080).into()).await?;
    println!("http://{}/buy/1", listener.local_addr()?);
    serve(listener, app(Shop::new(1_000_000), layer(Config::default()))).await
}
