//! A service that drives hyper by hand: `cargo run -p seawall-tower --example hyper`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use seawall_tower::Context;
use seawall_tower::server::{Config, Layer, Listener};
use tower::service_fn;
use tower_layer::Layer as _;

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let context = request.extensions().get::<Context>().expect("the layer has put it there");
    let text = format!("{:?} left", context.remaining_now());
    Ok(Response::new(Full::from(text)))
}

/// Serves by HTTP/1 and HTTP/2 alike.
pub(crate) async fn serve(listener: Listener, layer: Layer) {
    loop {
        let (io, _peer) = listener.accept().await;
        // The requests of a connection carry what the layer has to know of it.
        let service = io.connection().wrap(layer.layer(service_fn(hello)));
        tokio::spawn(async move {
            let builder = Builder::new(TokioExecutor::new());
            let service = TowerToHyperService::new(service);
            if let Err(error) = builder.serve_connection(TokioIo::new(io), service).await {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}

#[tokio::main]
#[allow(dead_code, reason = "tests start it themselves")]
async fn main() -> std::io::Result<()> {
    let listener = Listener::bind(([127, 0, 0, 1], 8080).into()).await?;
    println!("http://{}", listener.local_addr()?);
    let layer = Layer::new(Config::default()).expect("the defaults can be used");
    serve(listener, layer).await;
    Ok(())
}
