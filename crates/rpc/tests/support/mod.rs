//! What the tests over real connections share.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod fake;
pub(crate) mod raw;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use seawall_control::admission;
use seawall_rpc::{
    Budget, ClientConfig, Context, Request, Router, Server, ServerConfig, Session, Stats, Status,
};

/// Methods of [`router`].
pub(crate) const ECHO: u16 = 1;
pub(crate) const SLEEP: u16 = 2;
pub(crate) const SPIN: u16 = 3;
pub(crate) const GROW: u16 = 4;
pub(crate) const PANIC: u16 = 5;

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

/// Such a server under Breakwater whose pool is one credit and never grows: who has it keeps it
/// from all others.
pub(crate) fn one_credit() -> ServerConfig {
    let mut config = config("breakwater");
    (config.rtt, config.budget) = (Duration::from_secs(3_600), Budget::Off);
    config
}

/// Echoes, sleeps until it is cancelled, spins for the milliseconds in the payload, answers with as
/// many bytes as the payload says, panics.
pub(crate) fn router() -> Router {
    async fn echo(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
        Ok(payload)
    }
    async fn sleep(_ctx: Context, _payload: Bytes) -> Result<Bytes, Status> {
        std::future::pending().await
    }
    async fn spin_for(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
        spin(Duration::from_millis(u64::from(payload[0])));
        Ok(Bytes::new())
    }
    async fn grow(_ctx: Context, payload: Bytes) -> Result<Bytes, Status> {
        let len = payload[..].try_into().map(u32::from_le_bytes);
        let len = len.map_err(|_| Status::error(Status::INVALID, "four bytes are wanted"))?;
        Ok(vec![7; len as usize].into())
    }
    async fn fail(_ctx: Context, _payload: Bytes) -> Result<Bytes, Status> {
        panic!("asked to panic")
    }
    Router::new()
        .method(ECHO, "echo", echo)
        .method(SLEEP, "sleep", sleep)
        .method(SPIN, "spin", spin_for)
        .method(GROW, "grow", grow)
        .method(PANIC, "panic", fail)
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

/// A session that keeps to the rules.
pub(crate) async fn session(server: &Server) -> Session {
    Session::connect(server.address(), &ClientConfig::default()).await.unwrap()
}

/// A client that keeps to the rules and calls without pause while somebody else misbehaves.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicU64>,
    calls: tokio::task::JoinHandle<()>,
}

impl Bystander {
    /// Starts calling.
    pub(crate) async fn start(server: &Server) -> Self {
        let session = session(server).await;
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let calls = tokio::spawn({
            let (stop, served) = (stop.clone(), served.clone());
            async move {
                while !stop.load(SeqCst) {
                    let reply = session.call(Request::new(ECHO, "bystander")).await;
                    assert_eq!(reply.expect("others are not disturbed").payload, "bystander");
                    served.fetch_add(1, SeqCst);
                }
            }
        });
        let bystander = Self { stop, served, calls };
        bystander.goes_on().await;
        bystander
    }

    /// Waits until more of its calls were answered.
    pub(crate) async fn goes_on(&self) {
        let before = self.served.load(SeqCst);
        until(|| self.served.load(SeqCst) >= before + 10 || self.calls.is_finished()).await;
        assert!(!self.calls.is_finished(), "a call of the bystander failed");
    }

    /// Calls a little more, and leaves. All its calls must have been answered.
    pub(crate) async fn leave(self) {
        self.goes_on().await;
        self.stop.store(true, SeqCst);
        self.calls.await.expect("no call of the bystander failed");
    }
}

/// Waits until everybody has left, and checks that the books are balanced: every connection ended
/// with a reason, every call with an outcome, every credit came back.
pub(crate) async fn balanced(server: &Server) -> Stats {
    let ended = |stats: &Stats| stats.closed.values().sum::<u64>() == stats.accepted;
    until(|| server.stats().sessions == 0).await;
    until(|| ended(&server.stats())).await;
    let stats = server.stats();
    assert_eq!(stats.outstanding, 0);
    let outcomes = stats.completions + stats.failures + stats.cancellations + stats.refused();
    assert_eq!(stats.requests, outcomes, "{stats:?}");
    assert_eq!(gauge(&stats, "credits_issued").unwrap_or(0.0), 0.0, "credits leaked");
    assert_eq!(gauge(&stats, "sessions_registered").unwrap_or(0.0), 0.0);
    stats
}

/// One value of the controller.
pub(crate) fn gauge(stats: &Stats, name: &str) -> Option<f64> {
    stats.controller.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// How many connections were closed for this reason.
pub(crate) fn closed(server: &Server, kind: &str) -> u64 {
    server.stats().closed.get(kind).copied().unwrap_or(0)
}
