//! How the API server is reached and treated.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_control::config::duration;
use serde::{Deserialize, Serialize};

use super::api::Server;
use crate::agent::config::{ConfigError, refuse, within};

/// Where a pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What becomes of a container's request when its limit changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requests {
    /// It stays, and is lowered only where it would exceed the limit. In pods of the class
    /// Guaranteed it follows, because Kubernetes lets no resize change a pod's class.
    #[default]
    Keep,
    /// It keeps its share of the limit, so that the scheduler knows what the node has left.
    Follow,
}

/// The API server, and how it is treated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where it is: `https://10.0.0.1:6443`. By default what Kubernetes tells each pod in
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// This node's name in Kubernetes; by default `NODE_NAME` of the environment, and outside of a
    /// pod the machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The file with the authority that has signed its certificate.
    pub ca: PathBuf,
    /// The file with the token, which is read anew for each request.
    pub token: PathBuf,
    /// How long it may take to answer. From 100ms to 30s.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// How long the kubelet may take until a resize is in force. From 1s to 5m.
    #[serde(with = "duration")]
    pub settle: Duration,
    /// How often a request is sent again that was not answered, or that the server had no time for.
    /// At most 20.
    pub retries_max: u32,
    /// Requests to the server at most. From 1 to 1000.
    pub requests_per_second: u32,
    /// What becomes of `requests.cpu`.
    pub requests: Requests,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            url: None,
            node: None,
            ca: Path::new(ACCOUNT).join("ca.crt"),
            token: Path::new(ACCOUNT).join("token"),
            timeout: Duration::from_secs(5),
            settle: Duration::from_secs(10),
            retries_max: 5,
            requests_per_second: 20,
            requests: Requests::default(),
        }
    }
}

impl Settings {
    /// Checks all ranges.
    pub(in crate::agent) fn validate(&self) -> Result<(), ConfigError> {
        let field = |name: &str| format!("actuator.kubernetes.{name}");
        let second = Duration::from_secs(1);
        within(&field("timeout"), self.timeout, second / 10, second * 30)?;
        within(&field("settle"), self.settle, second, second * 300)?;
        if self.retries_max > 20 {
            return refuse(field("retries_max"), &self.retries_max, "allowed: at most 20");
        }
        if !(1..=1_000).contains(&self.requests_per_second) {
            let allowed = "allowed: 1 to 1000";
            return refuse(field("requests_per_second"), &self.requests_per_second, allowed);
        }
        if let Some(url) = &self.url
            && let Err(problem) = Server::check(url)
        {
            return refuse(field("url"), &format!("`{url}`"), problem);
        }
        match self.node.as_ref().filter(|node| !super::pods::is_name(node)) {
            Some(node) => {
                let allowed = "a node's name has small letters, digits, dashes and dots";
                refuse(field("node"), &format!("`{node}`"), allowed)
            }
            None => Ok(()),
        }
    }

    /// Where the server is, by the configuration or by what the environment says.
    pub(super) fn server(&self, environment: impl Fn(&str) -> Option<String>) -> Option<Server> {
        let from_environment = || {
            let host = environment("KUBERNETES_SERVICE_HOST")?;
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            let port = environment("KUBERNETES_SERVICE_PORT").unwrap_or("443".to_owned());
            Some(format!("https://{host}:{port}"))
        };
        Some(Server {
            url: self.url.clone().or_else(from_environment)?,
            ca: self.ca.clone(),
            token: self.token.clone(),
            timeout: self.timeout,
        })
    }

    /// What Kubernetes calls this machine, whose own name is `hostname`.
    pub(super) fn node_name(
        &self,
        environment: impl Fn(&str) -> Option<String>,
        hostname: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let named = self.node.clone().or_else(|| environment("NODE_NAME"));
        // In a pod, the machine's name is the pod's.
        let is_in_pod = environment("KUBERNETES_SERVICE_HOST").is_some();
        let named = named.or_else(|| hostname().filter(|_| !is_in_pod));
        named.map(|name| name.to_lowercase()).filter(|name| super::pods::is_name(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_told_where_the_server_is_but_not_where_it_runs_itself() {
        let settings = Settings::default();
        let none = |_: &str| None;
        assert_eq!(settings.server(none), None);
        let pod = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("6443".to_owned()),
            _ => None,
        };
        assert_eq!(settings.server(pod).unwrap().url, "https://[fd00::1]:6443");
        let hostname = || Some("Worker-1".to_owned());
        assert_eq!(settings.node_name(pod, hostname), None);
        assert_eq!(settings.node_name(none, hostname).as_deref(), Some("worker-1"));
        let named = |name: &str| (name == "NODE_NAME").then(|| "worker-2".to_owned());
        assert_eq!(settings.node_name(named, hostname).as_deref(), Some("worker-2"));
        let settings = Settings { node: Some("worker-3".to_owned()), ..settings };
        assert_eq!(settings.node_name(named, hostname).as_deref(), Some("worker-3"));
    }
}
