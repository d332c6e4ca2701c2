//! A server whose handlers are Java.

use std::sync::Arc;
use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JBooleanArray, JClass, JIntArray, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jint, jlong};
use parking_lot::Mutex;
use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{Router, Server, ServerConfig, Status, Worker};

use super::fault::{Fault, Throw};
use super::registry::Registry;
use super::upcall::{self, Dispatcher};
use super::words;
use crate::agent;

static SERVERS: Registry<Served> = Registry::new("server");

struct Served {
    /// Until it is stopped.
    server: Mutex<Option<Server>>,
    worker: Worker,
}

/// `long serverStart(String config, int[] numbers, String[] names, boolean[] repeatable,
/// Dispatcher dispatcher)`: the number of a server that listens.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverStart<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    config: JString<'local>,
    numbers: JIntArray<'local>,
    names: JObjectArray<'local, JString<'local>>,
    repeatable: JBooleanArray<'local>,
    dispatcher: JObject<'local>,
) -> jlong {
    env.with_env(|env| -> Result<jlong, Fault> {
        let mut config: ServerConfig = toml::from_str(&config.try_to_string(env)?)
            .map_err(|error| Fault::Argument(error.to_string()))?;
        config.threads.outside = true;
        let count = numbers.len(env)?;
        let (mut all, mut may_repeat) = (vec![0; count], vec![false; count]);
        numbers.get_region(env, 0, &mut all)?;
        repeatable.get_region(env, 0, &mut may_repeat)?;
        let dispatcher = Arc::new(Dispatcher::new(env, &dispatcher)?);
        let mut router = Router::new();
        for (index, number) in all.into_iter().enumerate() {
            let number = u16::try_from(number).map_err(|_| {
                Fault::Argument(format!("method {number} is out of range; allowed is 0 to 65535"))
            })?;
            let name = names.get_element(env, index)?.try_to_string(env)?;
            let dispatcher = dispatcher.clone();
            router = router.method(number, words::keep(&name), move |context, payload| {
                let dispatcher = dispatcher.clone();
                async move { dispatcher.call(number, &context, &payload) }
            });
            if may_repeat[index] {
                router = router.repeatable(number);
            }
        }
        let server = Server::start(config, router);
        let server = server.map_err(|error| Fault::Argument(error.to_string()))?;
        agent::tell(server.halter());
        let worker = server.worker();
        Ok(SERVERS.add(Arc::new(Served { server: Mutex::new(Some(server)), worker })))
    })
    .resolve::<Throw>()
}

/// `void serverWork(long server)`: runs handlers on the thread that calls until the server stops.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverWork<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    server: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        // It may have been closed before this thread began.
        let Ok(served) = SERVERS.get(server) else { return Ok(()) };
        let worker = served.worker.clone();
        drop(served);
        worker.run();
        Ok(())
    })
    .resolve::<Throw>();
}

/// `String serverAddress(long server)`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverAddress<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    server: jlong,
) -> JString<'local> {
    env.with_env(|env| {
        let address = with(server, |server| server.address().to_string())?;
        Ok::<_, Fault>(env.new_string(address)?)
    })
    .resolve::<Throw>()
}

/// `void serverStop(long server, long graceNanos)`: waits for what was accepted, and for workers.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverStop<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    server: jlong,
    grace: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        let running = SERVERS.get(server)?.server.lock().take();
        if let Some(running) = running {
            running.shutdown(words::limit(grace).unwrap_or_default());
        }
        SERVERS.remove(server);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `long[] serverCounts(long server)`: requests, completions, failures, cancellations, refusals,
/// outstanding, sessions, bytes received, bytes sent, nanoseconds in handlers.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverCounts<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    server: jlong,
) -> JLongArray<'local> {
    env.with_env(|env| {
        let stats = with(server, Server::stats)?;
        let counts = [
            stats.requests,
            stats.completions,
            stats.failures,
            stats.cancellations,
            stats.refused(),
            stats.outstanding,
            stats.sessions,
            stats.bytes_received,
            stats.bytes_sent,
            stats.busy_nanos,
        ];
        words::longs(env, &counts.map(words::count))
    })
    .resolve::<Throw>()
}

/// `String[] serverRefusals(long server)`: a name of a stage, then how often it has refused, and so
/// on.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_serverRefusals<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    server: jlong,
) -> JObjectArray<'local, JString<'local>> {
    env.with_env(|env| {
        let stats = with(server, Server::stats)?;
        let pairs = stats.refusals.iter();
        let texts: Vec<_> = pairs
            .flat_map(|(stage, count)| [stats.stage_name(*stage), count.to_string()])
            .collect();
        words::strings(env, &texts)
    })
    .resolve::<Throw>()
}

fn with<T>(number: jlong, ask: impl FnOnce(&Server) -> T) -> Result<T, Fault> {
    let served = SERVERS.get(number)?;
    let server = served.server.lock();
    server.as_ref().map(ask).ok_or_else(|| Fault::State("the server is closed".into()))
}

/// `boolean charge(long nanos)`: the request that this thread handles has waited so long.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_charge<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    wait: jlong,
) -> bool {
    env.with_env(|_| -> Result<_, Fault> {
        Ok(upcall::charge(words::limit(wait).unwrap_or_default()))
    })
    .resolve::<Throw>()
}

/// `void fail(int code, String message)`: the handler on this thread has failed.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_fail<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    code: jint,
    message: JString<'local>,
) {
    env.with_env(|env| -> Result<(), Fault> {
        let message = if message.is_null() {
            "the virtual machine is out of memory".into()
        } else {
            message.try_to_string(env)?
        };
        let code = u16::try_from(code).unwrap_or(Status::INTERNAL);
        upcall::end(Status::error(code, message));
        Ok(())
    })
    .resolve::<Throw>();
}

/// `void refuse(int stage, long predicted, long remaining, long retryAfter)`: a stage has refused
/// the request that this thread handles.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_refuse<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    stage: jint,
    predicted: jlong,
    remaining: jlong,
    retry_after: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        let time = |nanos| words::limit(nanos).unwrap_or(Duration::MAX);
        let stage = Stage(u8::try_from(stage).unwrap_or(Stage::HANDLER.0));
        let rejected = Rejected::new(stage, time(predicted), time(remaining));
        upcall::end(Status::Rejected(rejected.with_retry_after(time(retry_after))));
        Ok(())
    })
    .resolve::<Throw>();
}
