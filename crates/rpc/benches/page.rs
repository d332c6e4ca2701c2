//! What a page of metrics costs a call: the same calls over loopback without one, with one, and
//! with one whose agent orders something.

use std::hint::black_box;
use std::path::Path;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::future::join_all;
use seawall_abi::clock::monotonic_ns;
use seawall_abi::page::{Orders, Reader};
use seawall_control::admission;
use seawall_rpc::{
    ClientConfig, Context, GuardianWay, Request, Router, Server, ServerConfig, Session, Status,
};
use tokio::runtime::{Builder, Runtime};

/// Calls under way at a time: enough that reads and writes are shared, as under load.
const CALLS: usize = 64;

/// A server whose handler does nothing, so that all the rest shows.
fn server(folder: &Path) -> Server {
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        admission: admission::Config::named("none"),
        ..ServerConfig::default()
    };
    config.threads.workers = 1;
    config.guardian.way = GuardianWay::Off;
    config.trust.everybody = true;
    config.page.folder = Some(folder.into()); // an empty one is none
    let echo = |_: Context, payload: Bytes| async { Ok::<_, Status>(payload) };
    Server::start(config, Router::new().method(1, "echo", echo)).expect("a server")
}

fn call(runtime: &Runtime, session: &Session) {
    let calls = (0..CALLS).map(|_| session.call(Request::new(1, Bytes::new())));
    for reply in runtime.block_on(join_all(calls)) {
        black_box(reply.expect("a reply"));
    }
}

fn page(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = c.benchmark_group("call");
    group.throughput(Throughput::Elements(CALLS as u64));
    for (name, is_paged, is_ordered) in
        [("without a page", false, false), ("with a page", true, false), ("ordered", true, true)]
    {
        let server = server(if is_paged { folder.path() } else { Path::new("") });
        assert_eq!(server.page().is_some(), is_paged);
        if let Some(page) = server.page().filter(|_| is_ordered) {
            let orders = Orders {
                heartbeat_ns: monotonic_ns(),
                lease_ns: 60_000_000_000,
                hint: 1,
                expected_time_from_start_ns: 60_000_000_000,
                ..Orders::default()
            };
            let reader = Reader::open(page.path()).expect("a page");
            reader.set_orders(&orders).expect("it may be written");
        }
        let config = ClientConfig::default();
        let connected = runtime.block_on(Session::connect(server.address(), &config));
        let session = connected.expect("a session");
        group.bench_function(name, |b| b.iter(|| call(&runtime, &session)));
    }
    group.finish();
}

criterion_group!(benches, page);
criterion_main!(benches);
