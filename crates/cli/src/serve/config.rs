//! The configuration file of `seawall serve`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow};
#[cfg(feature = "columns")]
use seawall_columns::server::ColumnsConfig;
use seawall_control::config::duration;
use seawall_control::predict::memory::MemoryPolicy;
use seawall_kv::server::{Cluster, KvConfig, LargeValues};
#[cfg(feature = "rocks")]
use seawall_rocks::server::RocksConfig;
use seawall_rpc::ServerConfig;
#[cfg(feature = "search")]
use seawall_search::{engine::EngineConfig, server::SearchConfig};
use serde::{Deserialize, Serialize};

use super::machine::{self, Needs};
use super::{Service, synthetic};
use crate::live::Hosts;
use crate::options::readable;

/// Everything that can be set, for all services: one file serves them all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The server, whatever it serves.
    pub(super) server: ServerConfig,
    /// `seawall serve synthetic`.
    pub(super) synthetic: synthetic::Config,
    /// `seawall serve kv`.
    pub(super) kv: Kv,
    /// `seawall serve rocks`.
    #[cfg(feature = "rocks")]
    pub(super) rocks: Rocks,
    /// `seawall serve columns`.
    #[cfg(feature = "columns")]
    pub(super) columns: Columns,
    /// `seawall serve search`.
    #[cfg(feature = "search")]
    pub(super) search: Search,
    /// The semaphore for memory bandwidth, and what counts that.
    pub(super) memory: machine::Config,
    /// The metrics endpoint.
    pub(super) metrics: Metrics,
}

/// A key-value server, without what all servers have.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Kv {
    /// Memory, hash table and item limits.
    pub(super) store: seawall_kv::Config,
    /// What is done about large values.
    pub(super) large: LargeValues,
    /// Where to listen for memcached's text protocol; nowhere by default.
    pub(super) memcached: Option<SocketAddr>,
    /// Commands that one memcached connection may have unanswered.
    pub(super) pipeline: u32,
    /// The servers that share the keys.
    pub(super) cluster: Cluster,
    /// Within how long the memory of an expired item becomes free although nobody looks at it.
    #[serde(with = "duration")]
    pub(super) sweep_period: Duration,
}

impl Default for Kv {
    fn default() -> Self {
        let KvConfig { store, large, memcached, pipeline, cluster, sweep_period, .. } =
            KvConfig::default();
        Self { store, large, memcached, pipeline, cluster, sweep_period }
    }
}

/// A RocksDB server, without what all servers have.
#[cfg(feature = "rocks")]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rocks {
    /// The folder with the store.
    pub(super) folder: std::path::PathBuf,
    /// How values are read.
    pub(super) store: seawall_rocks::store::StoreConfig,
}

#[cfg(feature = "rocks")]
impl Default for Rocks {
    fn default() -> Self {
        let RocksConfig { folder, store, .. } = RocksConfig::default();
        Self { folder, store }
    }
}

/// A column server, without what all servers have.
#[cfg(feature = "columns")]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Columns {
    /// The file with the series.
    pub(super) file: std::path::PathBuf,
    /// How it computes.
    pub(super) store: seawall_columns::store::StoreConfig,
}

#[cfg(feature = "columns")]
impl Default for Columns {
    fn default() -> Self {
        let ColumnsConfig { file, store, .. } = ColumnsConfig::default();
        Self { file, store }
    }
}

/// A search server, without what all servers have.
#[cfg(feature = "search")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Search {
    /// The folder with the index.
    pub(super) folder: std::path::PathBuf,
    /// Locks and caches.
    pub(super) engine: EngineConfig,
}

/// The metrics endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Metrics {
    /// Where to serve Prometheus metrics and the page that draws them; nowhere by default.
    pub(super) listen: Option<SocketAddr>,
    /// Host names under which they may be asked for, beside loopback names and addresses in
    /// digits; `*` for all.
    pub(super) allow_hosts: Vec<String>,
}

impl Config {
    /// The key-value server that this describes.
    pub(super) fn kv(&self) -> KvConfig {
        let Kv { store, large, memcached, pipeline, cluster, sweep_period } = self.kv.clone();
        let server = self.server.clone();
        KvConfig { store, large, cluster, server, memcached, pipeline, sweep_period }
    }

    /// The RocksDB server that this describes.
    #[cfg(feature = "rocks")]
    pub(super) fn rocks(&self) -> RocksConfig {
        let Rocks { folder, store } = self.rocks.clone();
        RocksConfig { folder, store, server: self.server.clone() }
    }

    /// The column server that this describes.
    #[cfg(feature = "columns")]
    pub(super) fn columns(&self) -> ColumnsConfig {
        let Columns { file, store } = self.columns.clone();
        ColumnsConfig { file, store, server: self.server.clone() }
    }

    /// The search server that this describes.
    #[cfg(feature = "search")]
    pub(super) fn search(&self) -> SearchConfig {
        let Search { folder, engine } = self.search.clone();
        SearchConfig { folder, engine, server: self.server.clone() }
    }

    /// What `service` has to do with memory.
    pub(super) fn needs(&self, service: &Service) -> Needs {
        let heavy = |policy| Needs { policy, declares: true };
        match service {
            Service::Kv { .. } => heavy(self.kv.large.semaphore),
            #[cfg(feature = "rocks")]
            Service::Rocks { .. } => heavy(self.rocks.store.semaphore),
            #[cfg(feature = "columns")]
            Service::Columns { .. } => heavy(self.columns.store.semaphore),
            _ => Needs { policy: MemoryPolicy::None, declares: false },
        }
    }

    /// Checks all ranges, also those of services that will not run: a file that is wrong anywhere
    /// is better refused today.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub(crate) fn validate(&self) -> Result<()> {
        // Each part names its own fields, so each is asked apart, to tell where they are.
        let server = &self.server;
        server
            .admission
            .build_with(seawall_measure::utility::read)
            .map_err(|error| anyhow!("server.admission.{error}"))?;
        server.validate().map_err(|error| anyhow!("server.{error}"))?;
        #[cfg(feature = "rocks")]
        self.rocks.store.validate().map_err(|error| anyhow!("rocks.store.{error}"))?;
        #[cfg(feature = "columns")]
        self.columns.store.validate().map_err(|error| anyhow!("columns.store.{error}"))?;
        #[cfg(feature = "search")]
        self.search.engine.validate().map_err(|error| anyhow!("search.engine.{error}"))?;
        self.memory.validate().map_err(|error| anyhow!("memory.{error}"))?;
        self.kv.store.validate().map_err(|error| anyhow!("in kv.store: {error}"))?;
        Hosts::new(&self.metrics.allow_hosts)
            .map_err(|error| anyhow!("metrics.allow_hosts: {error}"))?;
        self.kv().validate().map_err(|error| anyhow!("kv.{error}"))
    }

    /// Checks that the files which it names can be read.
    ///
    /// # Errors
    ///
    /// Names the field and the file.
    pub(super) fn check_files(&self) -> Result<()> {
        let Some(tls) = &self.server.tls else { return Ok(()) };
        readable("server.tls.certificate", &tls.certificate)?;
        readable("server.tls.key", &tls.key)?;
        tls.client_authorities
            .as_ref()
            .map_or(Ok(()), |file| readable("server.tls.client_authorities", file))
    }
}
