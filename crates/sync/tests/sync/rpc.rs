//! Contexts that the RPC made are understood here: both crates read the same clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seawall_control::request::Stage;
use seawall_rpc::{
    CallError, Client, ClientConfig, Context, Request, Router, Server, ServerConfig,
};
use seawall_sync::Mutex;

const STAGE: Stage = Stage(16);
const DEADLINE: Duration = Duration::from_secs(1);

#[test]
fn a_handler_waits_for_a_lock_while_it_can_and_is_refused_when_it_cannot() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let orders = Arc::new(Mutex::new(0_u32).at(STAGE, "orders"));
        let (at_once, late) = (orders.clone(), orders.clone());
        let router = Router::new()
            .method(1, "add at once", move |ctx: Context, _| {
                let orders = at_once.clone();
                async move {
                    *orders.lock(&ctx).await? += 1;
                    Ok(Bytes::new())
                }
            })
            .method(2, "add late", move |ctx: Context, _| {
                let orders = late.clone();
                async move {
                    // Until the oldest waiter has waited for longer than this request still may.
                    while orders.snapshot().oldest <= ctx.remaining_now() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    *orders.lock(&ctx).await? += 1;
                    Ok(Bytes::new())
                }
            });
        let listen = ([127, 0, 0, 1], 0).into();
        let mut config = ServerConfig { listen, slo: DEADLINE, ..ServerConfig::default() };
        config.admission.algorithm = "none".into();
        let server = Server::start(config, router).unwrap();
        let client = Client::new([server.address()], ClientConfig::default());
        let call = |method| client.call(Request::new(method, "").with_deadline(DEADLINE));

        let holder = orders.try_lock().unwrap();
        let waits = async {
            while orders.snapshot().waiters == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(holder);
        };
        let (reply, ()) = tokio::join!(call(1), waits);
        reply.unwrap();

        let holder = orders.try_lock().unwrap();
        let waiting = orders.lock_plain();
        let refused = tokio::select! {
            biased;
            _ = waiting => panic!("it is held"),
            reply = call(2) => reply.unwrap_err(),
        };
        let CallError::Rejected(rejected) = refused else { panic!("{refused}") };
        assert_eq!(rejected.stage, STAGE);
        assert!(rejected.predicted_delay > Duration::ZERO);
        assert_eq!((*holder, orders.snapshot().refusals), (1, 1));
    });
}
