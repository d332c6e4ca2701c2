//! Measurements that come before a load: the round trip, and what the server can do at most.

use std::iter::repeat_n;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use seawall_control::Rng;
use seawall_measure::KeyValueMix;
use seawall_rpc::{CallError, CallResult, ClientConfig, Request, Session, clock};

use super::engine::runtime;
use super::sessions;
use super::workload::{self, Workload};

/// Calls of one round-trip measurement, after as many that are not counted.
pub(crate) const PINGS: usize = 1_000;

/// Writes on their way at the same time while a store is filled.
const FILLERS: u64 = 64;

/// How often a write that was refused is tried again, and how long after each time.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Median time of a call that does nothing, one at a time, by a client that does not sleep.
///
/// # Errors
///
/// If the server cannot be reached or does not answer.
pub(crate) fn round_trip(
    server: SocketAddr,
    config: &ClientConfig,
    request: &Request,
) -> Result<Duration> {
    runtime()?.block_on(async {
        let session = sessions::connect(server, config).await?;
        let mut times = Vec::with_capacity(PINGS);
        for ping in 0..2 * PINGS {
            let start = clock::now();
            let done = Arc::new(Mutex::new(None));
            let tell = done.clone();
            session.submit(request.clone(), Box::new(move |result| *tell.lock() = Some(result)));
            while done.lock().is_none() {
                if clock::now().since(start) > Duration::from_secs(5) {
                    bail!("{server} did not answer a call within 5 s");
                }
                tokio::task::yield_now().await;
            }
            if ping >= PINGS {
                times.push(clock::now().since(start));
            }
        }
        times.sort_unstable();
        Ok(times[PINGS / 2])
    })
}

/// Requests per second that the server serves when each of `count` sessions always has a request or
/// two on its way.
///
/// # Errors
///
/// If the server cannot be reached, or answers nothing.
pub(crate) fn capacity(
    server: SocketAddr,
    config: &ClientConfig,
    workload: &Workload,
    count: usize,
    (warm_up, time): (Duration, Duration),
) -> Result<f64> {
    runtime()?.block_on(async {
        let sessions = sessions::open(repeat_n(server, count), config).await?;
        let served = Arc::new(AtomicU64::new(0));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut rng = Rng::new(1);
        let submit = |session: usize, rng: &mut Rng| {
            let (served, ended) = (served.clone(), ended.clone());
            let done = move |result: CallResult| {
                served.fetch_add(u64::from(result.is_ok()), Relaxed);
                ended.lock().push(session);
            };
            sessions[session].submit(workload.next(rng).1, Box::new(done));
        };
        (0..2 * count).for_each(|i| submit(i % count, &mut rng));
        let start = clock::now();
        let mut begin = None;
        loop {
            let free = std::mem::take(&mut *ended.lock());
            free.into_iter().for_each(|session| submit(session, &mut rng));
            let now = clock::now();
            let (at, count) = match begin {
                None if now.since(start) >= warm_up => *begin.insert((now, served.load(Relaxed))),
                Some(begin) => begin,
                None => (now, 0),
            };
            if begin.is_some() && now.since(at) >= time {
                let rate = (served.load(Relaxed) - count) as f64 / now.since(at).as_secs_f64();
                return if rate > 0.0 { Ok(rate) } else { bail!("{server} answered nothing") };
            }
            tokio::task::yield_now().await;
        }
    })
}

/// Writes all keys of `mix` once.
///
/// # Errors
///
/// If the server cannot be reached or does not store them.
pub(crate) fn fill(server: SocketAddr, config: &ClientConfig, mix: &KeyValueMix) -> Result<()> {
    runtime()?.block_on(async {
        let session = sessions::connect(server, config).await?;
        let mut rng = Rng::new(2);
        let keys = mix.keys().count();
        let mut key = 0;
        while key < keys {
            let batch = key..keys.min(key + FILLERS);
            key = batch.end;
            let writes: Vec<_> = batch
                .map(|key| {
                    let request = workload::set(key, mix.values().sample(&mut rng));
                    (request.clone(), session.call(request))
                })
                .collect();
            for (request, write) in writes {
                finish(&session, request, write.await).await.with_context(|| {
                    format!("cannot fill the store at {server}; is it `seawall serve kv`?")
                })?;
            }
        }
        Ok(())
    })
}

/// Sees a write through. What was refused, as a server may do even to a lone client that sends this
/// fast, is tried again until there is room for it.
async fn finish(session: &Session, request: Request, mut result: CallResult) -> Result<()> {
    for _ in 0..TRIES {
        match result {
            Err(CallError::Rejected(_) | CallError::NotSent(_)) => {}
            done => return Ok(done.map(|_| ())?),
        }
        tokio::time::sleep(PAUSE).await;
        result = session.call(request.clone()).await;
    }
    Ok(result.map(|_| ())?)
}
