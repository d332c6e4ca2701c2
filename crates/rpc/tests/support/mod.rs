//! What the tests over real connections share.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::{Duration, Instant};

use seawall_control::admission;
use seawall_rpc::ServerConfig;

/// A server on a free port of loopback, with one worker.
pub(crate) fn config(algorithm: &str) -> ServerConfig {
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        slo: Duration::from_secs(5),
        admission: admission::Config::named(algorithm),
        ..ServerConfig::default()
    };
    config.threads.workers = 1;
    config
}

/// Keeps the thread busy.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Waits until `condition` holds: for events that nothing announces. Fails after half a minute.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "what was waited for did not happen");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
