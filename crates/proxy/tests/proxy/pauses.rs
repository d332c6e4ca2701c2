//! Replicas that stand still, and say so on their pages.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{Description, Publisher};
use seawall_control::replica::Selection;
use seawall_proxy::config::{Mode, from_layers};
use seawall_proxy::{Config, Proxy};
use tempfile::TempDir;

use crate::support::*;

const LONG: Duration = Duration::from_secs(60);

/// A page of a service of this process that listens at the port of an upstream.
fn page(folder: &TempDir, upstream: &Upstream) -> Publisher {
    let described = Description::of_this_process("java", upstream.address.port()).unwrap();
    let page = Publisher::create(folder.path(), &described).unwrap();
    page.beat(monotonic_ns());
    page
}

/// Says for a while what an agent says in a pause.
fn stand_still(page: &Publisher) {
    let now = monotonic_ns();
    page.beat(now);
    page.pause(now, now + LONG.as_nanos() as u64);
}

/// A proxy that knows its upstreams' pauses, and tries the first one first.
fn watching(folder: &TempDir, upstreams: &[&Upstream]) -> Config {
    let replicas: Vec<_> = upstreams.iter().map(|upstream| upstream.address).collect();
    let mut config = config(&replicas);
    config.mode = Mode::Enforce;
    let upstream = upstream(&mut config);
    upstream.pages = Some(folder.path().to_owned());
    upstream.slo = Some(Duration::from_secs(5));
    upstream.balance.choose = Selection::First;
    config
}

/// Goes on saying it, as an agent does, until `request` is answered.
async fn in_a_pause<T>(page: &Publisher, request: impl Future<Output = T>) -> T {
    let mut request = std::pin::pin!(request);
    loop {
        stand_still(page);
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(20), &mut request).await {
            return answer;
        }
    }
}

#[tokio::test]
async fn what_comes_in_a_pause_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let held = Held::start().await;
    let page = page(&folder, &held.upstream);
    let proxy = Proxy::start(watching(&folder, &[&held.upstream])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    held.permits.add_permits(1);
    assert_eq!(said(client.get("/").await).await, "served");

    let began = Instant::now();
    // Its page may not be found yet: then the request is caught by the pause.
    let response = in_a_pause(&page, client.get("/")).await;
    assert!(began.elapsed() < LONG / 2);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let field = response.headers()["seawall"].to_str().unwrap().to_owned();
    assert!(field.contains("stage=\"pause\""), "{field}");
    assert!(response.headers().contains_key("retry-after"));

    page.resume(1);
    held.permits.add_permits(2); // one for who was caught, who may still be there
    assert_eq!(said(client.get("/").await).await, "served");
}

#[tokio::test]
async fn another_replica_serves_meanwhile() {
    let folder = TempDir::new().unwrap();
    let (held, well) = (Held::start().await, Upstream::saying("well").await);
    let page = page(&folder, &held.upstream);
    let proxy = Proxy::start(watching(&folder, &[&held.upstream, &well])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    // A request that the pause catches goes on elsewhere, and those that come do at once.
    for _ in 0..5 {
        assert_eq!(said(in_a_pause(&page, client.get("/")).await).await, "well");
    }
    assert!(held.upstream.requests() <= 1, "at most until its page was found");
    page.resume(1);
    held.permits.add_permits(1);
    assert_eq!(said(client.get("/").await).await, "served");
}

/// What may have begun waits for the end of the pause if it may not run twice.
#[tokio::test]
async fn what_may_run_only_once_waits() {
    let folder = TempDir::new().unwrap();
    let (held, well) = (Held::start().await, Upstream::saying("well").await);
    let page = page(&folder, &held.upstream);
    let proxy = Proxy::start(watching(&folder, &[&held.upstream, &well])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    let posting = client.send(post("/", text("an order")));
    let mut posting = std::pin::pin!(posting);
    until("it is there", async || {
        _ = tokio::time::timeout(Duration::from_millis(1), &mut posting).await;
        held.upstream.requests() == 1
    })
    .await;
    for _ in 0..100 {
        stand_still(&page);
        _ = tokio::time::timeout(Duration::from_millis(5), &mut posting).await;
    }
    page.resume(1);
    held.permits.add_permits(1);
    assert_eq!(said(posting.await).await, "served");
    assert_eq!(well.requests(), 0);
}

/// An agent that has died in a pause says nothing any more, and is not believed for ever.
#[tokio::test]
async fn last_words_do_not_count() {
    let folder = TempDir::new().unwrap();
    let well = Upstream::saying("well").await;
    let page = page(&folder, &well);
    let proxy = Proxy::start(watching(&folder, &[&well])).unwrap();
    let mut client = Client::connect(proxy.address()).await;
    stand_still(&page);
    until("it is asked again", async || client.get("/").await.status() == 200).await;
}

#[test]
fn pages_are_of_this_host() {
    let text = "[upstreams.default]\nreplicas = [\"http://10.0.0.1:80\"]\npages = \"/run/seawall\"";
    let error = from_layers(Some(("proxy.toml", text)), &[]).unwrap_err().to_string();
    assert!(error.contains("upstreams.default.pages") && error.contains("10.0.0.1"), "{error}");
}
