//! Locks of Java that predict who has to wait how long for them.

use std::sync::Arc;

use jni::EnvUnowned;
use jni::objects::{JClass, JObjectArray, JString};
use jni::sys::jlong;
use parking_lot::Mutex;
use seawall_control::predict::watched::{Ticket, Watched};
use seawall_rpc::clock;

use super::fault::{Fault, Throw};
use super::registry::Registry;
use super::words;

static LOCKS: Registry<Mutex<Watched>> = Registry::new("lock");

/// `long lockOpen()`: the number of a lock that is free.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockOpen<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
) -> jlong {
    env.with_env(|_| -> Result<_, Fault> { Ok(LOCKS.add(Arc::default())) }).resolve::<Throw>()
}

/// `void lockClose(long lock)`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockClose<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        LOCKS.remove(lock);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `long lockJoin(long lock, long left, boolean shared)`: a ticket of one who waits and has so much
/// left, negative for no limit; or, below 0, -1 - the predicted wait of one that cannot.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockJoin<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
    left: jlong,
    is_shared: bool,
) -> jlong {
    env.with_env(|_| -> Result<jlong, Fault> {
        let lock = LOCKS.get(lock)?;
        let (mut lock, now) = (lock.lock(), clock::now());
        if let Some(left) = words::limit(left) {
            let predicted = lock.wait(now, is_shared);
            if predicted > left || left.is_zero() {
                return Ok(-1 - words::to_java(predicted).min(jlong::MAX - 1));
            }
        }
        Ok(words::count(lock.join(now, is_shared).0))
    })
    .resolve::<Throw>()
}

/// `void lockLeave(long lock, long ticket)`: gave up waiting.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockLeave<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
    ticket: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        LOCKS.get(lock)?.lock().leave(Ticket(ticket.cast_unsigned()));
        Ok(())
    })
    .resolve::<Throw>();
}

/// `long lockEnter(long lock, long ticket, boolean shared)`: has it, after a wait if the ticket is
/// not negative; nanoseconds of it.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockEnter<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
    ticket: jlong,
    is_shared: bool,
) -> jlong {
    env.with_env(|_| -> Result<jlong, Fault> {
        let ticket = u64::try_from(ticket).ok().map(Ticket);
        Ok(words::to_java(LOCKS.get(lock)?.lock().enter(clock::now(), ticket, is_shared)))
    })
    .resolve::<Throw>()
}

/// `void lockExit(long lock)`.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockExit<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
) {
    env.with_env(|_| -> Result<(), Fault> {
        LOCKS.get(lock)?.lock().exit(clock::now());
        Ok(())
    })
    .resolve::<Throw>();
}

/// `void lockAnnounce(long lock, String label, long amount)`: what the holder does.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockAnnounce<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
    label: JString<'local>,
    amount: jlong,
) {
    env.with_env(|env| -> Result<(), Fault> {
        let label = words::keep(&label.try_to_string(env)?);
        let amount = u64::try_from(amount).map_err(|_| {
            Fault::Argument(format!("an amount of {amount} makes no sense; allowed is 0 or more"))
        })?;
        LOCKS.get(lock)?.lock().announce(clock::now(), label, amount);
        Ok(())
    })
    .resolve::<Throw>();
}

/// `String[] lockForecasts(long lock)`: a label, seconds beside its units, seconds for each unit,
/// and how many were predicted; and so on.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_seawall_internal_Native_lockForecasts<'local>(
    mut env: EnvUnowned<'local>,
    _class: JClass<'local>,
    lock: jlong,
) -> JObjectArray<'local, JString<'local>> {
    env.with_env(|env| -> Result<_, Fault> {
        let forecasts = LOCKS.get(lock)?.lock().forecasts();
        let texts: Vec<_> = forecasts
            .iter()
            .flat_map(|of| {
                let label = of.label.to_owned();
                let count = of.precision.count();
                [label, of.base.to_string(), of.per_unit.to_string(), count.to_string()]
            })
            .collect();
        words::strings(env, &texts)
    })
    .resolve::<Throw>()
}
