//! What the Java library calls, as `dev.seawall.internal.Native` declares it.
//!
//! ```text
//!   SeawallServer   ─► server ─► seawall-rpc: reads, judges, refuses, writes     native threads
//!     worker thread ─► work ───► upcall ─► Handler.handle(context, payload)      Java threads
//!   SeawallClient ───► client ─► seawall-rpc: credits, retries ─► next ─► futures
//!   LatencyAware…Lock ► lock ──► control: predicts the wait
//! ```
//!
//! Nothing unwinds into the virtual machine: what goes wrong here is thrown as a Java exception
//! that says what it was.

mod client;
mod fault;
mod lock;
mod registry;
mod server;
mod upcall;
mod words;

use jni::EnvUnowned;
use jni::objects::{JClass, JLongArray, JString};

use crate::agent;
use fault::{Fault, Throw};

/// `void attach(String options)`: has pauses predicted, if no agent does it yet.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_attach<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    options: JString<'local>,
) {
    env.with_env(|env| -> Result<(), Fault> {
        let options = options.try_to_string(env)?;
        agent::attach(&env.get_java_vm()?, &options).map_err(Fault::Argument)
    })
    .resolve::<Throw>();
}

/// `long[] pauses()`: what is known of pauses, in the order of [`agent::Account`]; empty without
/// an agent.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_pauses<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> JLongArray<'local> {
    env.with_env(|env| -> Result<_, Fault> {
        let account = agent::account().map(agent::Account::to_longs);
        words::longs(env, account.as_ref().map_or(&[], |longs| longs))
    })
    .resolve::<Throw>()
}
