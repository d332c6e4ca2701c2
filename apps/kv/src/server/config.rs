//! What can be set about the server.

use std::net::SocketAddr;
use std::time::Duration;

use seawall_control::config::{ConfigError, duration};
use seawall_rpc::ServerConfig;
use serde::{Deserialize, Serialize};

use super::{Cluster, LargeValues, StartError};
use crate::store;

/// A key-value server: its store, its native listener, and the one for memcached's clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KvConfig {
    /// Memory, hash table and item limits.
    pub store: store::Config,

    /// What is done about large values.
    pub large: LargeValues,

    /// The servers that share the keys. Default: this one has all of them.
    pub cluster: Cluster,

    /// The native listener, and how both kinds of request are admitted. Its `limits` hold for
    /// memcached connections as well: `sessions`, `outstanding`, `unread_bytes`, `frame_timeout`
    /// for commands that began and do not end, and `write_timeout`.
    pub server: ServerConfig,

    /// Where to speak memcached's text protocol. Default: nowhere.
    ///
    /// The protocol has no authentication, so anything but a loopback address hands the store to
    /// everybody who can reach it.
    pub memcached: Option<SocketAddr>,

    /// Commands that one memcached connection may have unanswered; then its server stops reading.
    /// Default: 64, which is also the most credits that a native session holds by default. Range:
    /// 1 to 65536.
    ///
    /// Raise it for a few connections that send long pipelines; lower it so that no connection can
    /// fill the run queue.
    pub pipeline: u32,

    /// Within how long the memory of an expired item becomes free although nobody looks at it.
    /// Default: 60s. Range: 1s to 1 day.
    ///
    /// Lower it when short-lived items push out others; each round visits every bucket once.
    #[serde(with = "duration")]
    pub sweep_period: Duration,
}

impl Default for KvConfig {
    fn default() -> Self {
        Self {
            store: store::Config::default(),
            large: LargeValues::default(),
            cluster: Cluster::default(),
            server: ServerConfig::default(),
            memcached: None,
            pipeline: 64,
            sweep_period: Duration::from_secs(60),
        }
    }
}

impl KvConfig {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// Names the first field that lies outside of its range, and the range.
    pub fn validate(&self) -> Result<(), StartError> {
        self.store.validate()?;
        self.large.validate()?;
        self.cluster.validate()?;
        self.server.validate()?;
        ConfigError::check_range("pipeline", self.pipeline, 1..=1 << 16)?;
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(86_400));
        if !(least..=most).contains(&self.sweep_period) {
            let value = duration::format(self.sweep_period);
            let problem = format!("{value} is out of range; allowed is 1s to 1440m");
            return Err(ConfigError::new("sweep_period", problem).into());
        }
        Ok(())
    }

    /// Commands that one memcached connection may have unanswered. More than `outstanding` would
    /// only be refused.
    pub(super) fn pipeline(&self) -> usize {
        self.pipeline.min(self.server.limits.outstanding) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_survive_serialization() {
        let config = KvConfig::default();
        config.validate().unwrap();
        assert_eq!(config.memcached, None);
        let text = toml::to_string(&config).unwrap();
        let read: KvConfig = toml::from_str(&text).unwrap();
        assert_eq!(toml::to_string(&read).unwrap(), text);
        assert_eq!(toml::to_string(&toml::from_str::<KvConfig>("").unwrap()).unwrap(), text);
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert!(toml::from_str::<KvConfig>("memcache = '127.0.0.1:11211'").is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (field, text) in [
            ("pipeline", "pipeline = 0"),
            ("sweep_period", "sweep_period = '10ms'"),
            ("memory_limit_mib", "[store]\nmemory_limit_mib = 0"),
            ("large.bytes", "[large]\nbytes = 0"),
            ("cluster.nodes", "[cluster]\nnodes = 0"),
            ("cluster.node", "[cluster]\nnodes = 3\nnode = 3"),
            (
                "cluster.rebalance.tokens",
                "[cluster]\nrebalance = { pause = 'exp:1s', tokens = [9, 8] }",
            ),
            ("slo", "[server]\nslo = '0ns'"),
        ] {
            let config: KvConfig = toml::from_str(text).unwrap();
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
