//! Bounds, and times.

use std::time::Duration;

use seawall_control::config::duration;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Bounds on what clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of clients at once, 1 to 1000000; more wait until others close. Default 10000.
    /// Cannot change while the proxy runs.
    pub connections: usize,
    /// Requests that a client may have open on one HTTP/2 connection, 1 to 10000. Default 256.
    pub streams: u32,
    /// Bytes of a request's head, or of a response's, 4096 to 1048576. Default 65536. More is
    /// answered with 431, or 502.
    pub head_bytes: usize,
    /// Fields of a head under HTTP/1.1, 1 to 10000. Default 100.
    pub fields: usize,
    /// Bytes of a request's body; more is answered with 413. Default: as many as there are.
    pub body_bytes: Option<u64>,
    /// Bytes of a request's body that are kept until it is answered, so that it can be sent again
    /// to another replica, at most 16777216. Default 65536. A request with a longer body is sent
    /// once. Nothing is kept where there is no second replica.
    pub retry_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 256,
            head_bytes: 65_536,
            fields: 100,
            body_bytes: None,
            retry_bytes: 65_536,
        }
    }
}

impl Limits {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::check_range("connections", self.connections, 1..=1_000_000)?;
        ConfigError::check_range("streams", self.streams, 1..=10_000)?;
        ConfigError::check_range("head_bytes", self.head_bytes, 4096..=1 << 20)?;
        ConfigError::check_range("fields", self.fields, 1..=10_000)?;
        ConfigError::check_range("retry_bytes", self.retry_bytes, 0..=1 << 24)
    }
}

/// How long anything may take. All are 1ms to 60m.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// How long an HTTP/1.1 connection may be without a complete request: idle, or sending the head
    /// of one slowly. The same for a TLS handshake. Default 60s.
    #[serde(with = "duration")]
    pub head: Duration,
    /// How long a client may send nothing of a body, or take nothing of what is sent to it. Default
    /// 30s.
    #[serde(with = "duration")]
    pub stall: Duration,
    /// How long a request may wait for a connection to a replica, whichever is first: one that
    /// comes free, or a new one, name and TLS included. Default 1s. When it is over, and no other
    /// replica is left, the same one is tried again, `retry.attempts` times in all.
    #[serde(with = "duration")]
    pub connect: Duration,
    /// How long an upstream may take until the head of its response; a route may say otherwise.
    /// Default 60s. A request's own deadline counts where it is sooner.
    #[serde(with = "duration")]
    pub response: Duration,
    /// How long open requests may take when the proxy stops. Default 30s.
    #[serde(with = "duration")]
    pub drain: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(60),
            stall: Duration::from_secs(30),
            connect: Duration::from_secs(1),
            response: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }
}

/// What any time may be.
pub(super) const TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

impl Timeouts {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let Self { head, stall, connect, response, drain } = *self;
        for (key, time) in [
            ("head", head),
            ("stall", stall),
            ("connect", connect),
            ("response", response),
            ("drain", drain),
        ] {
            ConfigError::check_time(key, time, TIMES)?;
        }
        Ok(())
    }
}
