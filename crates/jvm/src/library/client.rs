//! A client whose callers are Java.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jni::EnvUnowned;
use jni::objects::{JByteArray, JClass, JLongArray, JString};
use jni::sys::{jint, jlong};
use parking_lot::Mutex;
use seawall_control::config::duration;
use seawall_control::request::{Priority, Tenant};
use seawall_control::retry;
use seawall_rpc::{Answer, CallError, Client, ClientConfig, ClientTls, Request};
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use super::fault::{Fault, Throw};
use super::registry::Registry;
use super::words;

static CLIENTS: Registry<Calling> = Registry::new("client");

/// Reads and writes for all clients of the process.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Places in the array that tells of a call's end.
const OUTCOME: usize = 7;

struct Calling {
    client: Client,
    ended: Sender<Option<Ended>>,
    /// Calls that have not ended.
    out: Mutex<HashMap<jlong, AbortHandle>>,
    /// One Java thread takes what has ended.
    ends: Mutex<Receiver<Option<Ended>>>,
}

struct Ended {
    id: jlong,
    answer: Answer,
}

/// What can be set about a client in Java.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    replicas: Vec<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    tls: Option<Tls>,
    #[serde(default)]
    retry: retry::Config,
    #[serde(default, with = "duration::option")]
    rtt: Option<Duration>,
    #[serde(default, with = "duration::option")]
    connect_timeout: Option<Duration>,
}

/// PEM files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    authorities: PathBuf,
    #[serde(default)]
    certificate: Option<PathBuf>,
    #[serde(default)]
    key: Option<PathBuf>,
    /// Default: that of the first replica.
    #[serde(default)]
    server_name: Option<String>,
}

/// Why a call has no result, as Java tells it apart; 0 says that it has one.
#[repr(i64)]
enum Kind {
    Rejected = 1,
    Failed,
    NotSent,
    Cancelled,
    DeadlineExceeded,
    ConnectionLost,
}

impl Config {
    fn client(self) -> Result<Client, Fault> {
        let wrong = |what: String| Fault::Argument(what);
        if self.replicas.is_empty() {
            return Err(wrong("there are no replicas; write HOST:PORT of each".into()));
        }
        let mut addresses = Vec::new();
        for replica in &self.replicas {
            addresses.push(resolve(replica).map_err(wrong)?);
        }
        let mut config = ClientConfig {
            name: self.name.unwrap_or_else(|| "seawall java".into()),
            token: self.token.map(Into::into),
            ..Default::default()
        };
        let first = self.replicas[0].rsplit_once(':').map_or("", |(host, _)| host);
        config.tls = self.tls.map(|tls| ClientTls {
            authorities: tls.authorities,
            identity: tls.certificate.zip(tls.key),
            server_name: tls.server_name.unwrap_or_else(|| first.to_owned()),
        });
        config.admission.client.retry = self.retry;
        config.admission.client.validate().map_err(|error| wrong(error.to_string()))?;
        config.rtt = self.rtt.unwrap_or(config.rtt);
        config.connect_timeout = self.connect_timeout.unwrap_or(config.connect_timeout);
        Ok(Client::new(addresses, config))
    }
}

fn resolve(replica: &str) -> Result<SocketAddr, String> {
    let addresses = replica.to_socket_addrs();
    let mut addresses = addresses
        .map_err(|error| format!("cannot find the replica {replica} ({error}); write HOST:PORT"))?;
    addresses.next().ok_or_else(|| format!("{replica} has no address"))
}

fn runtime() -> &'static Runtime {
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("seawall-client").enable_all();
        builder.build().expect("the system gives a thread")
    })
}

/// `long clientOpen(String config)`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_clientOpen<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    config: JString<'local>,
) -> jlong {
    env.with_env(|env| -> Result<jlong, Fault> {
        let config: Config = toml::from_str(&config.try_to_string(env)?)
            .map_err(|error| Fault::Argument(error.to_string()))?;
        let (ended, ends) = channel();
        let client = config.client()?;
        Ok(CLIENTS.add(Arc::new(Calling {
            client,
            ended,
            out: Mutex::default(),
            ends: Mutex::new(ends),
        })))
    })
    .resolve::<Throw>()
}

/// `void clientCall(long client, long id, int method, byte[] payload, long deadline, long budget,
/// int priority, int tenant, boolean droppable, boolean idempotent)`: its end comes by
/// `clientNext`. Times are nanoseconds, negative for none.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_clientCall<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    client: jlong,
    id: jlong,
    method: jint,
    payload: JByteArray<'local>,
    deadline: jlong,
    budget: jlong,
    priority: jint,
    tenant: jint,
    droppable: bool,
    idempotent: bool,
) {
    env.with_env(|env| -> Result<(), Fault> {
        let calling = CLIENTS.get(client)?;
        let method = u16::try_from(method).map_err(|_| {
            Fault::Argument(format!("method {method} is out of range; allowed is 0 to 65535"))
        })?;
        let mut request = Request::new(method, env.convert_byte_array(payload)?);
        request.deadline = words::limit(deadline);
        request.budget = words::limit(budget);
        request.priority = Priority(u8::try_from(priority).map_err(|_| {
            Fault::Argument(format!("priority {priority} is out of range; allowed is 0 to 255"))
        })?);
        request.tenant = Tenant(tenant.cast_unsigned());
        (request.droppable, request.idempotent) = (droppable, idempotent);
        let caller = calling.clone();
        let mut out = calling.out.lock(); // so that it ends after it is known to be out
        let call = runtime().spawn(async move {
            let answer = caller.client.call_traced(request).await;
            caller.out.lock().remove(&id);
            // Nobody waits for it once the client is closed.
            _ = caller.ended.send(Some(Ended { id, answer }));
        });
        out.insert(id, call.abort_handle());
        Ok(())
    })
    .resolve::<Throw>();
}

/// `void clientCancel(long client, long id)`: nobody waits for that call any more.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_clientCancel<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    client: jlong,
    id: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        let call = CLIENTS.get(client)?.out.lock().remove(&id);
        call.inspect(AbortHandle::abort);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `byte[] clientNext(long client, long[] outcome)`: waits for the end of a call, and gives its
/// result, or what went wrong in words; null once the client is closed. The outcome: number of the
/// call, how it ended, stage or code, nanoseconds predicted, left and until it is worth trying
/// again, and how often it was sent.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_clientNext<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    client: jlong,
    outcome: JLongArray<'local>,
) -> JByteArray<'local> {
    env.with_env(|env| -> Result<_, Fault> {
        let calling = CLIENTS.get(client)?;
        let ended = calling.ends.lock().recv().ok().flatten();
        let Some(Ended { id, answer }) = ended else { return Ok(JByteArray::null()) };
        let (numbers, text) = tell(id, &answer);
        outcome.set_region(env, 0, &numbers)?;
        Ok(match &answer.result {
            Ok(reply) => env.byte_array_from_slice(&reply.payload)?,
            Err(_) => env.byte_array_from_slice(text.as_bytes())?,
        })
    })
    .resolve::<Throw>()
}

fn tell(id: jlong, answer: &Answer) -> ([jlong; OUTCOME], String) {
    let mut numbers = [0; OUTCOME];
    (numbers[0], numbers[6]) = (id, answer.attempts.into());
    let Err(error) = &answer.result else { return (numbers, String::new()) };
    let kind = match error {
        CallError::Rejected(rejected) => {
            numbers[2] = rejected.stage.0.into();
            numbers[3] = words::to_java(rejected.predicted_delay);
            numbers[4] = words::limit_to_java(Some(rejected.remaining));
            numbers[5] = words::to_java(rejected.retry_after);
            Kind::Rejected
        }
        CallError::Failed { code, .. } => {
            numbers[2] = (*code).into();
            Kind::Failed
        }
        CallError::Cancelled => Kind::Cancelled,
        CallError::DeadlineExceeded => Kind::DeadlineExceeded,
        CallError::ConnectionLost(_) => Kind::ConnectionLost,
        // And what this does not know yet, which is told in words.
        _ => Kind::NotSent,
    };
    numbers[1] = kind as jlong;
    let text = match error {
        CallError::Failed { message, .. } => message.clone(),
        other => other.to_string(),
    };
    (numbers, text)
}

/// `void clientClose(long client)`: calls that are out have no end any more.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_clientClose<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    client: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        if let Some(calling) = CLIENTS.remove(client) {
            calling.out.lock().drain().for_each(|(_, call)| call.abort());
            _ = calling.ended.send(None);
        }
        Ok(())
    })
    .resolve::<Throw>();
}
