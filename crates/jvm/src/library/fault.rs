//! What goes wrong here, and the exceptions that say so.

use std::any::Any;
use std::borrow::Cow;

use jni::Env;
use jni::errors::{Error, ErrorPolicy, JniError};
use jni::jni_str;
use jni::strings::{JNIStr, JNIString};

/// Why a native function has no result.
#[derive(Debug)]
pub(super) enum Fault {
    /// It was asked for what makes no sense.
    Argument(String),
    /// What it was asked of is closed, or cannot be used so.
    State(String),
    /// The virtual machine says no.
    Vm(Error),
}

/// Throws faults and panics.
pub(super) struct Throw;

impl Fault {
    fn exception(&self) -> (&'static JNIStr, Cow<'_, str>) {
        match self {
            Self::Argument(text) => (jni_str!("java/lang/IllegalArgumentException"), text.into()),
            Self::State(text) => (jni_str!("java/lang/IllegalStateException"), text.into()),
            Self::Vm(Error::JniCall(JniError::NoMemory)) => {
                (jni_str!("java/lang/OutOfMemoryError"), "for a native call of Seawall".into())
            }
            Self::Vm(error) => {
                (jni_str!("java/lang/IllegalStateException"), error.to_string().into())
            }
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Vm(error)
    }
}

impl<T: Default> ErrorPolicy<T, Fault> for Throw {
    type Captures<'frame: 'method, 'method> = ();

    fn on_error<'frame: 'method, 'method>(
        env: &mut Env<'frame>,
        _: &mut (),
        fault: Fault,
    ) -> jni::errors::Result<T> {
        throw(env, &fault);
        Ok(T::default())
    }

    fn on_panic<'frame: 'method, 'method>(
        env: &mut Env<'frame>,
        _: &mut (),
        payload: Box<dyn Any + Send + 'static>,
    ) -> jni::errors::Result<T> {
        let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        throw(env, &Fault::State(format!("Seawall has a defect: {said}")));
        Ok(T::default())
    }
}

fn throw(env: &mut Env<'_>, fault: &Fault) {
    if env.exception_check() {
        return; // it says more than we know
    }
    let (class, text) = fault.exception();
    // It says "an exception is pending", which is what was wanted.
    _ = env.throw_new(class, JNIString::from(&*text));
}
