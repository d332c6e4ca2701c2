//! Services that call each other, and what their pages say of that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_abi::page::Orders;
use seawall_control::request::Stage;
use seawall_rpc::{
    CallError, ClientConfig, Connections, Context, Downstream, Request, Router, Server, Status,
};
use tokio::sync::Semaphore;

use super::{gated, orders, paged, reader, settled};
use crate::support::{one_credit, session, spin, until};

const MS: Duration = Duration::from_millis(1);

fn downstream(server: &Server, connections: Connections) -> Downstream {
    Downstream::new("next", [server.address()], connections, ClientConfig::default())
}

/// Passes its payload on to the next service.
fn relay(next: &Downstream) -> Router {
    let next = next.clone();
    Router::new().method(1, "relay", move |ctx: Context, payload: Bytes| {
        let next = next.clone();
        async move { Ok::<_, Status>(next.call(&ctx, Request::new(1, payload)).await?.payload) }
    })
}

/// Three services one behind the other. The last waits for permits of the gate.
struct Chain {
    gate: Arc<Semaphore>,
    /// From the first to the second, and from the second to the third.
    links: [Downstream; 2],
    servers: [Server; 3],
    _folder: tempfile::TempDir,
}

impl Chain {
    fn start(connections: Connections) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let start = |service, router| Server::start(paged(folder.path(), service), router).unwrap();
        let third = start("third", gated(&gate));
        let to_third = downstream(&third, connections);
        let second = start("second", relay(&to_third));
        let to_second = downstream(&second, connections);
        let first = start("first", relay(&to_second));
        let (links, servers) = ([to_second, to_third], [first, second, third]);
        Self { gate, links, servers, _folder: folder }
    }
}

#[tokio::test]
async fn waits_for_a_connection_are_the_waiters_own_and_waits_for_replies_are_not() {
    let chain = Chain::start(Connections::Pool(1));
    let client = session(&chain.servers[0]).await;
    let calls: Vec<_> = (0..3).map(|_| client.call(Request::new(1, "x"))).collect();
    let [first, second, third] = &chain.servers;
    // One is at the end of the chain, and the others wait for its connection to the second.
    until(|| chain.links[0].waiting() == 2 && reader(third).counters().unwrap().in_flight == 1)
        .await;
    assert_eq!(reader(second).counters().unwrap().in_flight, 1);
    tokio::time::sleep(300 * MS).await;
    // That two wait can be seen while they do.
    let counters = reader(first).counters().unwrap();
    let waiting_ns = counters.waiting_ns(seawall_abi::clock::monotonic_ns());
    assert_eq!((counters.waiting, counters.pool_wait_ns), (2, 0));
    assert!(Duration::from_nanos(waiting_ns) >= 2 * 300 * MS, "{waiting_ns}");
    chain.gate.add_permits(3);
    for call in calls {
        assert_eq!(call.await.unwrap().payload, "x");
    }
    let [first, second, third] =
        [settled(first).await, settled(second).await, settled(third).await];
    for counters in [&first, &second, &third] {
        assert_eq!((counters.requests, counters.shed, counters.unserved), (3, 0, 0));
        assert_eq!((counters.waiting, counters.waiting_since_ns), (0, 0));
    }
    let held = Duration::from_millis(300).as_nanos() as u64;
    assert!(third.exec_ns >= held, "what waits in the handler is its own");
    assert_eq!(third.pool_wait_ns, 0);
    assert!(first.pool_wait_ns >= 2 * held, "two waited for a connection all the while");
    assert!(first.exec_ns >= first.pool_wait_ns);
    // The first and the second only passed on, but for that.
    assert!(first.exec_ns - first.pool_wait_ns < held, "{first:?}");
    assert!(second.exec_ns < held, "{second:?}");
    // Later services come later, and know what was executed before them.
    assert!(third.time_from_start_ns > second.time_from_start_ns);
    assert!(second.upstream_exec_ns > 0 && third.upstream_exec_ns > second.upstream_exec_ns);
    assert_eq!(first.upstream_exec_ns, 0);
    assert_eq!((chain.links[0].in_use(), chain.links[0].waiting()), (0, 0));
}

#[tokio::test]
async fn hints_go_as_far_as_they_have_hops() {
    let chain = Chain::start(Connections::Shared);
    chain.gate.add_permits(100);
    let client = session(&chain.servers[0]).await;
    reader(&chain.servers[0]).set_orders(&Orders { hint: 2, ..orders() }).unwrap();
    client.call(Request::new(1, "")).await.unwrap();
    reader(&chain.servers[0]).set_orders(&Orders { hint: 1, ..orders() }).unwrap();
    client.call(Request::new(1, "")).await.unwrap();
    let expired = Orders { heartbeat_ns: 1, ..orders() };
    reader(&chain.servers[0]).set_orders(&Orders { hint: 9, ..expired }).unwrap();
    client.call(Request::new(1, "")).await.unwrap();
    let mut hinted = Vec::new();
    for server in &chain.servers {
        let counters = settled(server).await;
        assert_eq!(counters.requests, 3);
        hinted.push(counters.hinted);
    }
    assert_eq!(hinted, [0, 2, 1]);
}

#[tokio::test]
async fn what_is_sent_onward_carries_the_job() {
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let tell = Router::new().method(1, "tell", move |ctx: Context, _: Bytes| {
        let sent = sender.send((*ctx.claims(), ctx.time_left(seawall_rpc::clock::now())));
        async move { sent.map(|()| Bytes::new()).map_err(|_| Status::error(13, "nobody listens")) }
    });
    let folder = tempfile::tempdir().unwrap();
    let second = Server::start(paged(folder.path(), "second"), tell).unwrap();
    let next = downstream(&second, Connections::Shared);
    let mut config = paged(folder.path(), "first");
    let first = Server::start(config.clone(), relay(&next)).unwrap();
    let client = session(&first).await;
    let mut request = Request::new(1, "").with_deadline(60_000 * MS);
    (request.start_time_ns, request.path, request.upscale_hops) = (12_345, 7, 3);
    (request.priority.0, request.tenant.0) = (3, 9);
    request.budget = Some(50_000 * MS);
    client.call(request.clone()).await.unwrap();
    let (claims, left) = seen.recv().await.unwrap();
    assert_eq!((claims.start_time_ns, claims.path, claims.upscale_hops), (12_345, 7, 2));
    assert_eq!((claims.priority.0, claims.tenant.0), (3, 9));
    assert!(left.is_some_and(|left| left < 60_000 * MS), "{left:?}");
    assert!(claims.budget.is_some_and(|left| left <= 50_000 * MS));

    // A service that does not believe its client sets the start of the job itself.
    (config.trust.everybody, config.page.service) = (false, Some("front".into()));
    let front = Server::start(config, relay(&next)).unwrap();
    let before = seawall_rpc::clock::realtime_ns();
    session(&front).await.call(request).await.unwrap();
    let (claims, _) = seen.recv().await.unwrap();
    assert!(claims.start_time_ns >= before, "{}", claims.start_time_ns);
    assert_eq!((claims.upscale_hops, claims.priority.0), (0, 128));
    assert_eq!(settled(&front).await.hinted, 0);
    assert_eq!(reader(&front).service().unwrap().hints_distrusted, 1);
    assert_eq!((front.stats().hints_distrusted, first.stats().hints_distrusted), (1, 0));
}

#[tokio::test]
async fn who_cannot_afford_to_wait_for_a_connection_is_refused() {
    let chain = Chain::start(Connections::Pool(1));
    let client = session(&chain.servers[0]).await;
    let one = client.call(Request::new(1, ""));
    until(|| chain.links[0].in_use() == 1).await;
    let two = client.call(Request::new(1, ""));
    until(|| chain.links[0].waiting() == 1).await;
    tokio::time::sleep(20 * MS).await; // somebody has waited for as long as that
    let hurried = Request { budget: Some(10 * MS), ..Request::new(1, "") };
    let Err(CallError::Rejected(refused)) = client.call(hurried).await else { panic!("served") };
    assert_eq!(refused.stage, Stage::CONNECTION);
    assert!(refused.predicted_delay >= 20 * MS);
    chain.gate.add_permits(2);
    assert!(one.await.is_ok() && two.await.is_ok());
    let counters = settled(&chain.servers[0]).await;
    assert_eq!((counters.requests, counters.shed, counters.unserved), (2, 0, 1));
}

#[tokio::test]
async fn a_waiter_that_gives_up_takes_no_connection_with_it() {
    let chain = Chain::start(Connections::Pool(1));
    let client = session(&chain.servers[0]).await;
    let one = client.call(Request::new(1, ""));
    until(|| chain.links[0].in_use() == 1).await;
    let two = client.call(Request::new(1, ""));
    until(|| chain.links[0].waiting() == 1).await;
    drop(two);
    let counted = reader(&chain.servers[0]);
    until(|| counted.counters().unwrap().unserved == 1).await;
    // The connection of a call that is given up while it is served is free once it is answered.
    drop(one);
    until(|| counted.counters().unwrap().unserved == 2).await;
    until(|| chain.links[0].in_use() == 0).await;
    chain.gate.add_permits(1);
    assert!(client.call(Request::new(1, "")).await.is_ok());
    let counters = settled(&chain.servers[0]).await;
    assert_eq!((counters.requests, counters.unserved), (1, 2));
}

#[tokio::test]
async fn a_wait_for_credits_hides_a_dependency_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let mut config = one_credit();
    config.slo = Duration::from_secs(600); // so that nobody gives up waiting
    let second = Server::start(config, gated(&gate)).unwrap();
    let next = downstream(&second, Connections::Shared);
    let first = Server::start(paged(folder.path(), "first"), relay(&next)).unwrap();
    let client = session(&first).await;
    let calls: Vec<_> = (0..2).map(|_| client.call(Request::new(1, ""))).collect();
    until(|| reader(&first).counters().unwrap().in_flight == 2).await;
    until(|| second.stats().outstanding == 1).await;
    tokio::time::sleep(50 * MS).await;
    gate.add_permits(2);
    for call in calls {
        call.await.unwrap();
    }
    let counters = settled(&first).await;
    let held = (50 * MS).as_nanos() as u64;
    assert!(counters.pool_wait_ns >= held && counters.exec_ns >= counters.pool_wait_ns);
    assert_eq!(counters.requests, 2);
}

#[tokio::test]
async fn a_connection_that_ends_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(100));
    let mut config = paged(folder.path(), "second");
    let second = Server::start(config.clone(), gated(&gate)).unwrap();
    config.listen = second.address();
    let next = downstream(&second, Connections::Pool(2));
    let first = Server::start(paged(folder.path(), "first"), relay(&next)).unwrap();
    let client = session(&first).await;
    client.call(Request::new(1, "")).await.unwrap();
    drop(second);
    let lost = client.call(Request::new(1, "")).await;
    let code = Status::UNAVAILABLE;
    assert!(
        matches!(lost, Err(CallError::Failed { code: found, .. }) if found == code),
        "{lost:?}"
    );
    let _second = Server::start(config, gated(&gate)).unwrap();
    client.call(Request::new(1, "")).await.unwrap();
    assert_eq!((next.in_use(), settled(&first).await.requests), (0, 3));
}

#[tokio::test]
async fn what_a_handler_computes_while_its_call_is_out_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let second = Server::start(paged(folder.path(), "second"), gated(&gate)).unwrap();
    let next = downstream(&second, Connections::Pool(4));
    let (opened, called) = (gate.clone(), Arc::new(reader(&second)));
    let busy = Router::new().method(1, "busy", move |ctx: Context, payload: Bytes| {
        let (next, gate, there) = (next.clone(), opened.clone(), called.clone());
        async move {
            let called = next.call(&ctx, Request::new(1, payload));
            let computes = async {
                until(|| there.counters().unwrap().in_flight == 1).await;
                spin(50 * MS);
                let device = ctx.working();
                tokio::time::sleep(50 * MS).await;
                drop(device);
                gate.add_permits(1);
            };
            let (called, ()) = futures_util::future::join(called, computes).await;
            Ok::<_, Status>(called?.payload)
        }
    });
    let first = Server::start(paged(folder.path(), "first"), busy).unwrap();
    session(&first).await.call(Request::new(1, "")).await.unwrap();
    let counters = settled(&first).await;
    assert!(counters.exec_ns >= (100 * MS).as_nanos() as u64, "{counters:?}");
}

#[tokio::test]
async fn branches_that_wait_side_by_side_are_charged_once() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let second = Server::start(paged(folder.path(), "second"), gated(&gate)).unwrap();
    let next = downstream(&second, Connections::Pool(1));
    let link = next.clone();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let fork = Router::new().method(1, "fork", move |ctx: Context, _: Bytes| {
        let (next, tell) = (next.clone(), tell.clone());
        async move {
            let calls = (0..4).map(|_| next.call(&ctx, Request::new(1, "")));
            let replies = futures_util::future::join_all(calls).await;
            _ = tell.send((ctx.charged(), ctx.spent().connections));
            replies.into_iter().try_for_each(|reply| reply.map(|_| ()))?;
            Ok::<_, Status>(Bytes::new())
        }
    });
    let first = Server::start(paged(folder.path(), "first"), fork).unwrap();
    let client = session(&first).await;
    let call = client.call(Request::new(1, ""));
    until(|| link.waiting() == 3).await;
    tokio::time::sleep(50 * MS).await;
    gate.add_permits(4);
    call.await.unwrap();
    let (charged, connections) = told.recv().await.unwrap();
    assert!(connections >= 50 * MS && charged >= connections, "{charged:?} {connections:?}");
    // Three waited for as long as that.
    assert!(charged < 2 * connections, "{charged:?} {connections:?}");
}
