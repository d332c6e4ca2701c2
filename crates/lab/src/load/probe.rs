//! Measurements that come before a load: the round trip, and what the server can do at most.

use std::iter::repeat_n;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use seawall_control::Rng;
use seawall_measure::KeyValueMix;
use seawall_rpc::{CallError, CallFuture, CallResult, ClientConfig, Request, Session, clock};

use super::engine::runtime;
use super::sessions;
use super::workload::{self, Workload};

/// Calls of one round-trip measurement, after as many that are not counted.
pub const PINGS: usize = 1_000;

/// A write that waits to be sent is given up after this long.
const FILL_EXPIRY: Duration = Duration::from_secs(10);

/// Writes on their way at the same time while a store is filled, and the bytes of large ones.
const FILLERS: u64 = 64;
const FILL_BYTES: u64 = 64 << 20;

/// For how long a write that is refused is tried again, and how long after each time: when the
/// server says, within these bounds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Median time of a call that does nothing, one at a time, by a client that does not sleep.
///
/// # Errors
///
/// If the server cannot be reached, or a call has no result.
pub fn round_trip(
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
            let result = loop {
                if let Some(result) = done.lock().take() {
                    break result;
                }
                if clock::now().since(start) > Duration::from_secs(5) {
                    bail!("{server} did not answer a call within 5 s");
                }
                tokio::task::yield_now().await;
            };
            result.with_context(|| format!("cannot measure the round trip to {server}"))?;
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
/// If the server cannot be reached, answers nothing, or answers with anything but results and
/// refusals: how fast requests fail is no capacity.
pub fn capacity(
    server: SocketAddr,
    config: &ClientConfig,
    workload: &Workload,
    count: usize,
    (warm_up, time): (Duration, Duration),
) -> Result<f64> {
    runtime()?.block_on(async {
        let sessions = sessions::open(repeat_n(server, count), config).await?;
        let ended = Arc::new(Mutex::new(Vec::new()));
        let mut rng = Rng::new(1);
        let submit = |session: usize, rng: &mut Rng| {
            let ended = ended.clone();
            let done = move |result: CallResult| ended.lock().push((session, result));
            sessions[session].submit(workload.next(rng).1, Box::new(done));
        };
        (0..2 * count).for_each(|i| submit(i % count, &mut rng));
        let start = clock::now();
        let mut begin = None;
        let mut served = 0_u64;
        loop {
            let free = std::mem::take(&mut *ended.lock());
            for (session, result) in free {
                match result {
                    Ok(_) => served += 1,
                    Err(CallError::Rejected(_) | CallError::NotSent(_)) => {}
                    Err(error) => {
                        let what = format!("cannot measure the capacity of {server}");
                        return Err(error).context(what);
                    }
                }
                submit(session, &mut rng);
            }
            let now = clock::now();
            let (at, count) = match begin {
                None if now.since(start) >= warm_up => *begin.insert((now, served)),
                Some(begin) => begin,
                None => (now, 0),
            };
            if begin.is_some() && now.since(at) >= time {
                let rate = (served - count) as f64 / now.since(at).as_secs_f64();
                return if rate > 0.0 { Ok(rate) } else { bail!("{server} answered nothing") };
            }
            tokio::task::yield_now().await;
        }
    })
}

/// Writes all keys of `mix` once; `progress` is told how many have been written.
///
/// # Errors
///
/// If the server cannot be reached, does not read values of that size, or does not store them.
pub fn fill(
    server: SocketAddr,
    config: &ClientConfig,
    mix: &KeyValueMix,
    progress: impl Fn(u64),
) -> Result<()> {
    let config = &patient(config);
    runtime()?.block_on(async {
        let session = sessions::connect(server, config).await?;
        let (keys, value_max) = (mix.key_count(), mix.value_max());
        let largest = workload::set(keys - 1, 0).payload.len() as u64 + u64::from(value_max);
        let allowed = session.settings().body_max;
        if largest > u64::from(allowed) {
            bail!(
                "the mix has values of up to {value_max} bytes, in requests of {largest}; {server} \
                 reads up to {allowed} (server.limits.body_bytes)"
            );
        }
        let at_once = (FILL_BYTES / largest).clamp(1, FILLERS);
        let mut rng = Rng::new(2);
        let mut key = 0;
        while key < keys {
            let batch = key..keys.min(key + at_once);
            key = batch.end;
            let writes = batch.map(|key| {
                let request = workload::set(key, mix.value_len(key, &mut rng));
                finish(&session, session.call(request.clone()), request)
            });
            try_join_all(writes).await.with_context(|| {
                format!("cannot fill the store at {server}; is it `seawall serve kv`?")
            })?;
            progress(key);
        }
        Ok(())
    })
}

/// The same client, but one that waits for as long as it takes, and that need not find out in many
/// seconds how fast it may send when nobody else does.
fn patient(config: &ClientConfig) -> ClientConfig {
    let mut config = config.clone();
    config.admission.client.expiry = Some(FILL_EXPIRY);
    config.admission.seda.rate_min = config.admission.seda.rate_max;
    config
}

/// Sees a write through. What was refused, as a server may do even to a lone client that sends this
/// fast, is tried again until there is room for it.
async fn finish(session: &Session, write: CallFuture, request: Request) -> Result<()> {
    let start = clock::now();
    let mut result = write.await;
    while clock::now().since(start) < PATIENCE {
        let pause = match result {
            Err(CallError::Rejected(rejected)) => rejected.retry_after.clamp(PAUSE, LONGEST_PAUSE),
            Err(CallError::NotSent(_)) => PAUSE,
            done => return Ok(done.map(|_| ())?),
        };
        tokio::time::sleep(pause).await;
        result = session.call(request.clone()).await;
    }
    Ok(result.map(|_| ())?)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bytes::Bytes;
    use seawall_control::admission;
    use seawall_control::request::{Rejected, Stage};
    use seawall_rpc::{Router, Server, ServerConfig, Status};

    use super::*;
    use crate::synthetic::{NULL, WORK};

    /// A server that refuses nothing by itself, and whose work ends like this.
    fn server(work: fn() -> Result<Bytes, Status>) -> Server {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let router = Router::new().method(WORK, "work", move |_, _| async move { work() });
        let admission = admission::Config::named("none");
        Server::start(ServerConfig { listen, admission, ..Default::default() }, router).unwrap()
    }

    fn refused() -> Rejected {
        Rejected::new(Stage::RUN_QUEUE, Duration::ZERO, Duration::ZERO)
    }

    fn capacity_of(server: &Server) -> Result<f64> {
        let (config, times) =
            (ClientConfig::default(), (Duration::ZERO, Duration::from_millis(50)));
        capacity(server.address(), &config, &Workload::Synthetic, 2, times)
    }

    #[test]
    fn only_results_and_refusals_are_measured() {
        assert!(capacity_of(&server(|| Ok(Bytes::new()))).unwrap() > 0.0);
        let failing = server(|| Err(Status::error(Status::RESOURCE_EXHAUSTED, "full")));
        let error = format!("{:#}", capacity_of(&failing).unwrap_err());
        assert!(error.contains("capacity of") && error.contains("error 8: full"), "{error}");
        let busy = server(|| Err(refused().into()));
        let error = capacity_of(&busy).unwrap_err().to_string();
        assert!(error.contains("answered nothing"), "{error}");
    }

    #[test]
    fn a_call_that_fails_is_no_round_trip() {
        let server = server(|| Ok(Bytes::new()));
        let ping = |method| {
            round_trip(server.address(), &ClientConfig::default(), &Request::new(method, ""))
        };
        assert!(ping(WORK).unwrap() > Duration::ZERO);
        let error = format!("{:#}", ping(NULL).unwrap_err());
        assert!(error.contains("round trip to") && error.contains("error 12"), "{error}");
    }
}
