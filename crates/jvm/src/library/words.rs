//! Values of Java, to and fro.

use std::collections::BTreeSet;
use std::time::Duration;

use jni::Env;
use jni::objects::{JLongArray, JObject, JObjectArray, JString};
use jni::sys::jlong;
use parking_lot::Mutex;

use super::fault::Fault;

/// So many different words are kept; those that a program makes up beyond that share one.
const KEPT_MAX: usize = 4096;

static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A word of the program's for ever: the name of a method, a lock, or what its holder does.
pub(super) fn keep(word: &str) -> &'static str {
    let mut kept = KEPT.lock();
    if let Some(known) = kept.get(word) {
        return known;
    }
    if kept.len() >= KEPT_MAX {
        return "others";
    }
    let word: &'static str = Box::leak(word.into());
    kept.insert(word);
    word
}

/// Nanoseconds; `None` where Java says that there is no limit, by a negative number.
pub(super) fn limit(nanos: jlong) -> Option<Duration> {
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// Nanoseconds for Java, which counts up to 292 years.
pub(super) fn to_java(duration: Duration) -> jlong {
    jlong::try_from(duration.as_nanos()).unwrap_or(jlong::MAX)
}

/// The same of a time that may have no limit.
pub(super) fn limit_to_java(duration: Option<Duration>) -> jlong {
    duration.filter(|duration| *duration != Duration::MAX).map_or(-1, to_java)
}

/// A count for Java.
pub(super) fn count(value: u64) -> jlong {
    jlong::try_from(value).unwrap_or(jlong::MAX)
}

pub(super) fn longs<'local>(
    env: &mut Env<'local>,
    values: &[jlong],
) -> Result<JLongArray<'local>, Fault> {
    let array = env.new_long_array(values.len())?;
    array.set_region(env, 0, values)?;
    Ok(array)
}

pub(super) fn strings<'local>(
    env: &mut Env<'local>,
    texts: &[String],
) -> Result<JObjectArray<'local, JString<'local>>, Fault> {
    let array = JObjectArray::<JString>::new(env, texts.len(), JString::null())?;
    for (index, text) in texts.iter().enumerate() {
        let text = env.new_string(text)?;
        array.set_element(env, index, &text)?;
        env.delete_local_ref(JObject::from(text));
    }
    Ok(array)
}
