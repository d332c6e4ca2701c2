//! A service whose requests take time, on the CPU and off it, with a lock and without.

mod burn;
mod locks;
mod timer;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use seawall_control::Rng;
use seawall_control::predict::lock::LockKind;
use seawall_control::request::Class;
use seawall_measure::{Paths, ServiceTime};
use seawall_rpc::{Context, Router, Status};
use serde::{Deserialize, Serialize};

use burn::{burn, calibrate};
use locks::{Lock, STAGES};

/// The method that takes time. If its payload is not empty, the first byte is the number of the
/// path; else the service draws one. The numbers of methods are none of the key-value store's, so
/// that a load which meets a server of the other kind fails instead of measuring nonsense.
pub const WORK: u16 = 101;

/// The method that does nothing: what it takes is the round trip.
pub const NULL: u16 = 102;

/// Methods that take the first path, the second, and the third.
pub const PATHS: [u16; 3] = [103, 104, 105];

/// Names of the methods, and of the classes by which requests are measured.
pub const PATH_NAMES: [&str; 3] = ["first", "second", "third"];

/// The path whose requests spend CPU time and nothing else.
const COMPUTING: usize = 2;

/// The synthetic service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much CPU time a request takes. Default `exp:100us`.
    pub service: ServiceTime,
    /// How long it then waits for something else, as for a disk or another service; it keeps no
    /// worker meanwhile, but its lock. Default: not at all.
    pub wait: Option<ServiceTime>,
    /// How long it blocks its worker off the CPU, as a call to a disk or a database on the same
    /// thread does. Such a request waits for its lock on its worker, too. Default: not at all.
    pub block: Option<ServiceTime>,
    /// Data paths through locks, which requests hold all the while. Default `none`.
    pub paths: Paths,
    /// How much CPU time a request of a third path takes; it waits for nothing. Default
    /// `exp:500us`.
    pub third: ServiceTime,
    /// What a request does that comes to a lock. Default `larger`: it is refused if it cannot
    /// wait.
    pub locks: LockKind,
    /// Seed of the random amounts. Default 1.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service: ServiceTime::exponential(Duration::from_micros(100)),
            wait: None,
            block: None,
            paths: Paths::None,
            third: ServiceTime::exponential(Duration::from_micros(500)),
            locks: LockKind::default(),
            seed: 1,
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "synthetic service ({}", self.service)?;
        if let Some(wait) = self.wait {
            write!(f, ", then {wait} off the CPU")?;
        }
        if let Some(block) = self.block {
            write!(f, ", then {block} blocking its worker")?;
        }
        if self.paths != Paths::None {
            write!(f, ", paths {}", self.paths)?;
        }
        if let Paths::Three { .. } = self.paths {
            write!(f, ", the third {}", self.third)?;
        }
        f.write_str(")")
    }
}

/// What all requests share.
struct Service {
    config: Config,
    locks: Vec<Lock>,
}

/// The methods of the service.
pub fn router(config: &Config) -> Router {
    calibrate();
    if config.wait.is_some() {
        timer::start();
    }
    let locks = Lock::all(config.paths, config.locks);
    let service = Arc::new(Service { config: config.clone(), locks });
    let work = service.clone();
    let mut router = Router::new()
        .method(WORK, "work", move |ctx, payload: Bytes| {
            let service = work.clone();
            async move {
                let path = payload.first().map(|&path| usize::from(path));
                if path.is_some_and(|path| path >= PATHS.len()) {
                    return Err(Status::error(
                        Status::INVALID,
                        "there are only two paths, 0 and 1",
                    ));
                }
                service.serve(path.unwrap_or_else(|| service.draw()), &ctx).await
            }
        })
        .method(NULL, "null", |_, payload| async move { Ok(payload) });
    for (path, name) in PATH_NAMES.into_iter().enumerate() {
        let service = service.clone();
        let class = Class(path as u8);
        router = router.method_in_class(PATHS[path], name, class, move |ctx, _| {
            let service = service.clone();
            async move { service.serve(path, &ctx).await }
        });
    }
    let named = STAGES[..config.paths.locks()].iter();
    named.fold(router, |router, &(stage, name)| router.stage(stage, name))
}

impl Service {
    /// Serves a request that takes this path.
    async fn serve(&self, path: usize, ctx: &Context) -> Result<Bytes, Status> {
        if path == COMPUTING {
            burn(self.sample(self.config.third));
            return Ok(Bytes::new());
        }
        let _held = match self.locks.get(path) {
            Some(lock) if self.config.block.is_some() => Some(lock.blocking_lock(ctx)?),
            Some(lock) => Some(lock.lock(ctx).await?),
            None => None,
        };
        burn(self.sample(self.config.service));
        if let Some(block) = self.config.block {
            timer::block(self.sample(block));
        }
        if let Some(wait) = self.config.wait {
            timer::sleep(self.sample(wait)).await;
        }
        Ok(Bytes::new())
    }

    fn sample(&self, time: ServiceTime) -> Duration {
        self.random(|rng| time.sample(rng))
    }

    /// The path of a request that names none.
    fn draw(&self) -> usize {
        self.config.paths.of(self.random(Rng::uniform))
    }

    fn random<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        let seed = self.config.seed;
        THREAD_RNG.with_borrow_mut(|rng| draw(rng.get_or_insert_with(|| thread_rng(seed))))
    }
}

thread_local! {
    static THREAD_RNG: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// A generator of its own for each worker thread.
fn thread_rng(seed: u64) -> Rng {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    Rng::new(seed.wrapping_add(THREADS.fetch_add(1, Relaxed) << 32))
}
