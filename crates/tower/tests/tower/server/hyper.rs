//! The example for hyper.

use http::StatusCode;
use seawall_control::request::Stage;
use seawall_tower::server::{Layer, Listener};

use super::support::{field, get, patient};

#[path = "../../../examples/hyper.rs"]
mod example;

#[tokio::test]
async fn requests_know_their_connection() {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let server = listener.local_addr().unwrap();
    let layer = Layer::new(patient()).unwrap();
    let monitor = layer.monitor();
    tokio::spawn(example::serve(listener, layer));
    let response = get(server, "/", &[("seawall", "deadline=30000000")]).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.body().ends_with("s left"), "{response:?}");
    assert!(field(response.headers()).unwrap().queue.is_some());
    // The kernel told when its bytes came.
    assert_eq!(monitor.stats().waits[&Stage::SOCKET].count(), 1);
}
