//! A handler in Java, called by a worker that is a Java thread.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use jni::errors::{Error, JniError};
use jni::objects::{Global, JByteArray, JMethodID, JObject};
use jni::signature::ReturnType;
use jni::sys::jvalue;
use jni::{Env, JavaVM, jni_sig, jni_str};
use seawall_rpc::{Context, Status, clock};

use super::words::limit_to_java;

thread_local! {
    /// The call that the thread is in.
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    context: Context,
    /// What the handler has instead of a result.
    status: Option<Status>,
}

/// `dev.seawall.internal.Dispatcher`, which finds the handler and makes its context.
#[derive(Debug)]
pub(super) struct Dispatcher {
    vm: JavaVM,
    object: Global<JObject<'static>>,
    dispatch: JMethodID,
}

impl Dispatcher {
    pub(super) fn new(env: &mut Env<'_>, object: &JObject<'_>) -> Result<Self, Error> {
        let class = env.get_object_class(object)?;
        let dispatch =
            env.get_method_id(class, jni_str!("dispatch"), jni_sig!("(IJJJJIIIZ[B)[B"))?;
        Ok(Self { vm: env.get_java_vm()?, object: env.new_global_ref(object)?, dispatch })
    }

    /// Calls the handler of `method` on this thread.
    pub(super) fn call(
        &self,
        method: u16,
        context: &Context,
        payload: &Bytes,
    ) -> Result<Bytes, Status> {
        let current = Current { context: context.clone(), status: None };
        CURRENT.set(Some(current));
        let result =
            self.vm.attach_current_thread(|env| self.dispatch(env, method, context, payload));
        let status = CURRENT.take().and_then(|current| current.status);
        match (result, status) {
            (_, Some(status)) => Err(status),
            (Ok(Some(payload)), None) => Ok(payload),
            (Ok(None), None) => Err(Status::error(Status::INTERNAL, "the handler returned null")),
            (Err(Error::JniCall(JniError::NoMemory)), None) => {
                let message = "the virtual machine is out of memory";
                Err(Status::error(Status::RESOURCE_EXHAUSTED, message))
            }
            // Not by the dispatcher, for want of memory: what is said of it holds the stack.
            (Err(Error::CaughtJavaException { name, .. }), None) => {
                let is_memory = name == "java.lang.OutOfMemoryError";
                let code = if is_memory { Status::RESOURCE_EXHAUSTED } else { Status::INTERNAL };
                Err(Status::error(code, name))
            }
            (Err(error), None) => Err(Status::error(Status::INTERNAL, error.to_string())),
        }
    }

    fn dispatch(
        &self,
        env: &mut Env<'_>,
        method: u16,
        context: &Context,
        payload: &Bytes,
    ) -> Result<Option<Bytes>, Error> {
        let claims = context.claims();
        // Java's own clock, System.nanoTime(), is the same: CLOCK_MONOTONIC. A point in time, and
        // not what is left of it: the world may stand still before Java reads this.
        let arrived = context.arrived().as_nanos() as i64;
        let now = clock::now();
        let deadline = context.time_left(now).map_or(-1, |left| (now + left).as_nanos() as i64);
        let payload = env.byte_array_from_slice(payload)?;
        let budget = limit_to_java(Some(context.budget_left()));
        let arguments = [
            jvalue { i: i32::from(method) },
            jvalue { j: claims.id as i64 },
            jvalue { j: arrived },
            jvalue { j: deadline },
            jvalue { j: budget },
            jvalue { i: i32::from(claims.priority.0) },
            jvalue { i: claims.tenant.0.cast_signed() },
            jvalue { i: i32::from(claims.attempt) },
            jvalue { z: claims.droppable },
            jvalue { l: payload.as_raw() },
        ];
        // SAFETY: the method was found by this signature, and the arguments have its types.
        let result = unsafe {
            env.call_method_unchecked(&self.object, self.dispatch, ReturnType::Array, &arguments)
        };
        let result = result?.l()?;
        if result.is_null() {
            return Ok(None);
        }
        let result = env.cast_local::<JByteArray>(result)?;
        env.convert_byte_array(result).map(|bytes| Some(bytes.into()))
    }
}

/// The request of the handler that runs on this thread has waited for so long at a stage. False if
/// none runs.
pub(super) fn charge(wait: Duration) -> bool {
    with_current(|current| current.context.charge(wait))
}

/// The handler that runs on this thread has no result. False if none runs.
pub(super) fn end(status: Status) -> bool {
    with_current(|current| current.status = Some(status))
}

fn with_current(act: impl FnOnce(&mut Current)) -> bool {
    CURRENT.with_borrow_mut(|current| current.as_mut().map(act).is_some())
}
