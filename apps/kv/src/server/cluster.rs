//! What a server knows of the cluster that it is a node of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall_control::Rng;
use seawall_control::config::ConfigError;
use seawall_control::request::{Context, Rejected, Stage};
use seawall_measure::ServiceTime;
use seawall_sync::RwLock;
use seawall_sync::rwlock::WriteGuard;
use serde::{Deserialize, Serialize};
use thread_priority::{ThreadPriority, set_current_thread_priority};

use crate::ring::Ring;
use crate::store::{SLAB_LOCK, Store};

/// The lock of the ring, in refusals.
pub const RING_LOCK: Stage = Stage(SLAB_LOCK.0 + 1);

/// A cluster of servers that share the keys.
///
/// Native requests for keys of other nodes fail. Servers do not know of each other: clients are
/// told all addresses, and each server is told which node it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Servers. Default: 1, which has all keys. Range: 1 to 1024.
    pub nodes: u16,
    /// Which of them this one is, from 0. Default: 0.
    pub node: u16,
    /// Servers that have each key. Default: 3, or all. Range: 1 to 1024.
    pub replicas: u16,
    /// Ranges of keys that each has. More make parts more equal, and take longer to balance.
    /// Default: 64. Range: 1 to 8192.
    pub tokens: u32,
    /// Whether who balances the ring says so, and how long it is, so that requests know how long
    /// that takes (LIBROS §VI). Default: true.
    pub announce: bool,
    /// Balances the ring anew, again and again. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Rebalance>,
}

/// Balancing as a background job: what an operator would do when nodes come and go, as often as an
/// experiment wants it. Meanwhile it holds the lock that all requests need. It begins with the
/// first lookup, so that a store can be filled before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebalance {
    /// Time between the end of one and the begin of the next.
    pub pause: ServiceTime,
    /// Tokens of each node: a random number between these two.
    pub tokens: [u32; 2],
    /// Whether requests have the CPU first, as far as niceness says so. Where it has none of its
    /// own, it holds the lock for longer then, the more so the more requests there are. Default:
    /// false.
    #[serde(default)]
    pub nice: bool,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { nodes: 1, node: 0, replicas: 3, tokens: 64, announce: true, rebalance: None }
    }
}

impl Cluster {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("cluster.nodes", self.nodes, 1..=1024)?;
        ConfigError::check_range("cluster.node", self.node, 0..=self.nodes - 1)?;
        ConfigError::check_range("cluster.replicas", self.replicas, 1..=1024)?;
        ConfigError::check_range("cluster.tokens", self.tokens, 1..=8192)?;
        if let Some(Rebalance { tokens: [least, most], .. }) = self.rebalance
            && !(1 <= least && least <= most && most <= 8192)
        {
            let problem = "give the least and the most, from 1 to 8192";
            return Err(ConfigError::new("cluster.rebalance.tokens", problem));
        }
        Ok(())
    }
}

/// The ring as this node knows it, and who balances it. Nothing where there is one node and nothing
/// is balanced: then requests do not ask.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    node: u16,
    ring: Option<Arc<RwLock<Ring>>>,
}

impl Membership {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let Cluster { nodes, node, replicas, tokens, .. } = *cluster;
        let is_needed = nodes > 1 || cluster.rebalance.is_some();
        let ring = || RwLock::new(Ring::new(nodes, tokens, replicas)).at(RING_LOCK, "ring");
        Self { node, ring: is_needed.then(|| Arc::new(ring())) }
    }

    /// Whether this node has the key.
    ///
    /// # Errors
    ///
    /// The ring is being balanced, and the request cannot wait for that.
    pub(super) async fn has(&self, ctx: &Context, key: &[u8]) -> Result<bool, Rejected> {
        match &self.ring {
            None => Ok(true),
            Some(ring) => Ok(ring.read(ctx).await?.has(self.node, key)),
        }
    }

    /// Balances the ring as `cluster` says, from the first lookup on.
    pub(super) fn rebalance(&self, cluster: &Cluster, store: &Arc<Store>) -> Option<Rebalancer> {
        let (job, ring) = (cluster.rebalance.clone()?, self.ring.clone()?);
        let Cluster { nodes, replicas, announce, .. } = *cluster;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, store) = (stop.clone(), store.clone());
        let thread = std::thread::Builder::new().name("rebalance".into()).spawn(move || {
            if job.nice && set_current_thread_priority(ThreadPriority::Min).is_err() {
                tracing::warn!("the thread that balances the ring keeps its priority");
            }
            let mut rng = Rng::new(u64::from(nodes));
            let [least, most] = job.tokens;
            while store.stats().cmd_get == 0 {
                std::thread::park_timeout(PAUSE_MIN);
                if stopped.load(Relaxed) {
                    return;
                }
            }
            loop {
                std::thread::park_timeout(job.pause.sample(&mut rng).max(PAUSE_MIN));
                if stopped.load(Relaxed) {
                    return;
                }
                let tokens = least + rng.below(u64::from(most - least) + 1) as u32;
                let mut ring = ring.blocking_write_plain();
                if announce {
                    WriteGuard::hold(&mut ring, "rebalance", Ring::work(nodes, tokens));
                }
                *ring = Ring::new(nodes, tokens, replicas);
            }
        });
        Some(Rebalancer { stop, thread: Some(thread.expect("a thread can be started")) })
    }
}

/// Requests get at least this long between two.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The thread that balances the ring. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Rebalancer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Rebalancer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
