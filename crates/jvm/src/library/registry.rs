//! What Java holds a number of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use jni::sys::jlong;
use parking_lot::RwLock;

use super::fault::Fault;

/// All of one kind that are open. A number that was closed names nothing ever again, so that no
/// mistake of a caller's can reach what is not there.
pub(super) struct Registry<T> {
    what: &'static str,
    numbers: AtomicI64,
    open: RwLock<BTreeMap<jlong, Arc<T>>>,
}

impl<T> Registry<T> {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, numbers: AtomicI64::new(1), open: RwLock::new(BTreeMap::new()) }
    }

    pub(super) fn add(&self, one: Arc<T>) -> jlong {
        let number = self.numbers.fetch_add(1, Relaxed);
        self.open.write().insert(number, one);
        number
    }

    /// # Errors
    ///
    /// It is closed.
    pub(super) fn get(&self, number: jlong) -> Result<Arc<T>, Fault> {
        let known = self.open.read().get(&number).cloned();
        known.ok_or_else(|| Fault::State(format!("the {} is closed", self.what)))
    }

    /// Forgets it; nothing if it is closed already.
    pub(super) fn remove(&self, number: jlong) -> Option<Arc<T>> {
        self.open.write().remove(&number)
    }
}
