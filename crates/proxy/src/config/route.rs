//! Which requests go where.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use seawall_control::config::duration;
use serde::{Deserialize, Serialize};

use super::limits::TIMES;
use super::{ConfigError, NAMES, Upstream, is_name};

/// Requests that have a host, path and method in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// What it is called in metrics. Default: its path.
    pub name: Option<String>,
    /// The host that requests name, without a port: `api.example.org`, or `*.example.org` for all
    /// below that. Default: any.
    pub host: Option<String>,
    /// What paths begin with: `/api` matches `/api` and `/api/x`, but not `/apix`. A gRPC service
    /// is `/package.Service`. Default `/`: all.
    pub path: String,
    /// Methods, such as `["GET", "HEAD"]`. Default: any.
    pub methods: Vec<String>,
    /// The upstream that they go to. Default: the only one.
    pub upstream: Option<String>,
    /// The class that its requests have. Default: it is learned from their latencies.
    pub class: Option<String>,
    /// How important they are, 0 to 255; lower is more important. Default: as their sender says, if
    /// that is believed, or 128.
    pub priority: Option<u8>,
    /// Whether they may be refused. Default true. Those that may not wait ahead of the others; only
    /// so many at once have that privilege (`admission.credit.privileged_max`).
    pub droppable: bool,
    /// How long the upstream may take until the head of its response. Default: `timeouts.response`.
    #[serde(with = "duration::option")]
    pub timeout: Option<Duration>,
    /// Within how long requests that bring no deadline of their own must be answered. Default: they
    /// have none.
    #[serde(with = "duration::option")]
    pub deadline: Option<Duration>,
    /// The longest deadline that requests may bring. Default: any.
    #[serde(with = "duration::option")]
    pub deadline_max: Option<Duration>,
    /// Whether they may run twice without harm, whatever their method says. Default: as RFC 9110
    /// says of the method.
    pub idempotent: Option<bool>,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            name: None,
            host: None,
            path: "/".into(),
            methods: Vec::new(),
            upstream: None,
            class: None,
            priority: None,
            droppable: true,
            timeout: None,
            deadline: None,
            deadline_max: None,
            idempotent: None,
        }
    }
}

impl Route {
    /// What it is called in metrics.
    pub(crate) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.path)
    }

    pub(super) fn validate(
        &self,
        upstreams: &BTreeMap<String, Upstream>,
    ) -> Result<(), ConfigError> {
        if !is_name(self.label()) {
            return Err(ConfigError::new("name", NAMES));
        }
        if !self.path.starts_with('/') || self.path.contains(['?', '#', ' ']) {
            let problem = format!("\"{}\" is no path; it begins with /", self.path);
            return Err(ConfigError::new("path", problem));
        }
        if let Some(host) = &self.host {
            let name = host.strip_prefix("*.").unwrap_or(host);
            if name.is_empty() || name.contains(['*', ':', '/']) {
                let problem = format!("\"{host}\" is no host; write name.example or *.example");
                return Err(ConfigError::new("host", problem));
            }
        }
        for method in &self.methods {
            if Method::from_bytes(method.as_bytes()).is_err() {
                let problem = format!("\"{method}\" is no method; write names such as GET");
                return Err(ConfigError::new("methods", problem));
            }
        }
        if let Some(class) = &self.class
            && !is_name(class)
        {
            return Err(ConfigError::new("class", NAMES));
        }
        let names = || upstreams.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        match &self.upstream {
            Some(name) if !upstreams.contains_key(name) => {
                let problem = format!("\"{name}\" is unknown; allowed is one of {}", names());
                return Err(ConfigError::new("upstream", problem));
            }
            None if upstreams.len() > 1 => {
                let problem = format!("there are several; name one of {}", names());
                return Err(ConfigError::new("upstream", problem));
            }
            _ => {}
        }
        let times = [
            ("timeout", self.timeout),
            ("deadline", self.deadline),
            ("deadline_max", self.deadline_max),
        ];
        for (key, time) in times {
            time.map_or(Ok(()), |time| ConfigError::check_time(key, time, TIMES))?;
        }
        Ok(())
    }
}
