//! Callers that each make one call after the other, and what they saw.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use parking_lot::Mutex;
use seawall_measure::Latencies;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::cores::CpuTime;

/// A client of one contestant. Clones share its connection.
pub trait Caller: Clone + Send + 'static {
    /// Sends a payload and waits for it to come back.
    fn call(&mut self, payload: Bytes) -> impl Future<Output = Result<Bytes>> + Send;
}

/// What is asked, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of each payload.
    pub payload: usize,
    /// Callers: requests outstanding at any time.
    pub depth: usize,
    /// Time before anything counts.
    pub warm_up: Duration,
    /// Time that counts.
    pub time: Duration,
}

/// What one turn measured.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sample {
    /// Calls answered.
    pub calls: u64,
    /// Calls that failed or came back changed.
    pub failures: u64,
    /// Calls answered in a second.
    pub calls_per_second: f64,
    /// Median latency.
    pub p50_us: f64,
    /// Latency that 99 % of the calls did not exceed.
    pub p99_us: f64,
    /// Processor time of the client for each call.
    pub client_cpu_us: f64,
    /// Processor time of the server for each call.
    pub server_cpu_us: f64,
}

#[derive(Default)]
struct Tally {
    latencies: Latencies,
    failures: u64,
}

/// Lets callers make calls for the time of `load`, on the current runtime.
///
/// `around` is told when the time that counts begins, and again when it has ended.
///
/// # Errors
///
/// If no call was answered.
pub async fn run<C: Caller>(caller: C, load: &Load, mut around: impl FnMut()) -> Result<Sample> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let payload = Bytes::from(vec![b'x'; load.payload]);
    let mut callers = JoinSet::new();
    for _ in 0..load.depth {
        callers.spawn(call_for_ever(caller.clone(), payload.clone(), tally.clone()));
    }
    tokio::time::sleep(load.warm_up).await;
    *tally.lock() = Tally::default();
    around();
    let (start, cpu) = (Instant::now(), CpuTime::now());
    tokio::time::sleep(load.time).await;
    let (elapsed, (client_cpu, server_cpu)) = (start.elapsed(), CpuTime::now().since(cpu));
    around();
    let tally = std::mem::take(&mut *tally.lock());
    callers.shutdown().await;

    let calls = tally.latencies.count();
    ensure!(calls > 0, "no call was answered, {} failed", tally.failures);
    let per_call_us = |time: Duration| time.as_secs_f64() * 1e6 / calls as f64;
    Ok(Sample {
        calls,
        failures: tally.failures,
        calls_per_second: calls as f64 / elapsed.as_secs_f64(),
        p50_us: tally.latencies.quantile_us(0.5).unwrap_or_default(),
        p99_us: tally.latencies.quantile_us(0.99).unwrap_or_default(),
        client_cpu_us: per_call_us(client_cpu),
        server_cpu_us: per_call_us(server_cpu),
    })
}

async fn call_for_ever<C: Caller>(mut caller: C, payload: Bytes, tally: Arc<Mutex<Tally>>) {
    let mut began = Instant::now();
    loop {
        let reply = caller.call(payload.clone()).await;
        let ended = Instant::now();
        if reply.is_ok_and(|reply| reply == payload) {
            tally.lock().latencies.record(ended - began);
        } else {
            tally.lock().failures += 1;
            // What fails at once must not keep the others from running.
            tokio::task::yield_now().await;
        }
        began = ended;
    }
}
