//! A service whose requests spend CPU time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use seawall_control::Rng;
use seawall_measure::ServiceTime;
use seawall_rpc::{Context, Router, Status};
use serde::{Deserialize, Serialize};

use super::burn::{burn, calibrate};

/// The method that spends CPU time. Its number and the next are none of the key-value store's, so
/// that a load which meets a server of the other kind fails instead of measuring nonsense.
pub(crate) const WORK: u16 = 101;

/// The method that does nothing: what it takes is the round trip.
pub(crate) const NULL: u16 = 102;

/// The synthetic service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Config {
    /// How much CPU time a request takes. Default `exp:100us`.
    pub(super) service: ServiceTime,
    /// Seed of the random amounts. Default 1.
    pub(super) seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        let mean = std::time::Duration::from_micros(100);
        Self { service: ServiceTime::exponential(mean), seed: 1 }
    }
}

/// The methods of the service.
pub(super) fn router(config: &Config) -> Router {
    calibrate();
    let Config { service, seed } = config.clone();
    Router::new()
        .method(WORK, "work", move |_: Context, _: Bytes| async move {
            burn(THREAD_RNG.with_borrow_mut(|rng| {
                service.sample(rng.get_or_insert_with(|| thread_rng(seed)))
            }));
            Ok::<_, Status>(Bytes::new())
        })
        .method(NULL, "null", |_, payload| async move { Ok(payload) })
}

thread_local! {
    static THREAD_RNG: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// A generator of its own for each worker thread.
fn thread_rng(seed: u64) -> Rng {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    Rng::new(seed.wrapping_add(THREADS.fetch_add(1, Relaxed) << 32))
}
