//! Clients that send as fast as they can: they get their turn, and the others get theirs.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use seawall_control::wire::{Hello, RequestOp};
use seawall_rpc::Server;

use crate::support::raw::{call, hello_frame, short};
use crate::support::{Bystander, ECHO, SLEEP, balanced, config, router, until};

/// Bytes of a flood that are read for each call of somebody else. It takes a few turns to serve
/// one, and a turn reads a quarter of a mebibyte; the rest is patience with busy machines.
const FAIR: u64 = 5 << 20;

/// Sends `bytes` again and again from a thread of its own, until it is stopped or disconnected.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Flood {
    fn start(server: &Server, first: &[u8], bytes: Vec<u8>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tcp = TcpStream::connect(server.address()).unwrap();
        tcp.write_all(&[&hello_frame(&Hello::default()), first].concat()).unwrap();
        let stopped = stop.clone();
        let thread =
            std::thread::spawn(
                move || {
                    while !stopped.load(SeqCst) && tcp.write_all(&bytes).is_ok() {}
                },
            );
        Self { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, SeqCst);
        self.thread.join().unwrap();
    }
}

#[tokio::test]
async fn floods_leave_the_others_their_turn() {
    // All of these are refused or ignored, and none of them is closed.
    let demand = short(RequestOp::Demand, 0).repeat(1_000);
    let cancels = short(RequestOp::Cancel, 7).repeat(1_000);
    let large = call(1, ECHO, &vec![7; 1_000_000]);
    let goodbye = [call(1, SLEEP, b""), short(RequestOp::Goodbye, 0)].concat();
    for (what, first, flood) in [
        ("demand", &[][..], demand),
        ("cancels", &[], cancels),
        ("refused calls", &call(0, SLEEP, b""), large),
        ("after a goodbye", &goodbye, b"anything at all".repeat(1_000)),
    ] {
        let mut config = config("none");
        config.limits.outstanding = 1;
        config.limits.violations = u32::MAX;
        let server = Server::start(config, router()).unwrap();
        let bystander = Bystander::start(&server).await;
        let flood = Flood::start(&server, first, flood);
        until(|| server.stats().bytes_received > 1 << 20).await;
        let before = server.stats().bytes_received;
        for _ in 0..10 {
            bystander.goes_on().await;
        }
        let bytes_per_call = (server.stats().bytes_received - before) / 100;
        assert!(bytes_per_call < FAIR, "{what}: {bytes_per_call} bytes for each call of another");
        flood.stop();
        bystander.leave().await;
        balanced(&server).await;
    }
}
