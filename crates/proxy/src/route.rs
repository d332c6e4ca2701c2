//! Which route a request takes.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;

use crate::config::{self, Config};
use crate::upstream::Upstream;

/// A route that requests can take.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: config::Route,
    pub(crate) upstream: Arc<Upstream>,
    /// How long the upstream may take until the head of its response.
    pub(crate) timeout: Duration,
    methods: Vec<Method>,
    /// The path without a slash at its end.
    path: String,
    host: Host,
}

#[derive(Debug)]
enum Host {
    Any,
    Exact(String),
    /// With the dot before it.
    Below(String),
}

impl Route {
    /// The routes of a valid configuration, or one for everything if it has none.
    pub(crate) fn all(config: &Config, upstreams: &[Arc<Upstream>]) -> Vec<Self> {
        let all = [config::Route::default()];
        let routes = if config.routes.is_empty() { &all[..] } else { &config.routes };
        routes.iter().map(|route| Self::new(route, config, upstreams)).collect()
    }

    fn new(route: &config::Route, config: &Config, upstreams: &[Arc<Upstream>]) -> Self {
        let named = |upstream: &&Arc<Upstream>| {
            route.upstream.as_ref().is_none_or(|name| upstream.name() == name)
        };
        let upstream = upstreams.iter().find(named).expect("the configuration was checked");
        let methods = route.methods.iter().map(|method| method.parse());
        let host = match &route.host {
            None => Host::Any,
            Some(host) => match host.strip_prefix('*') {
                Some(below) => Host::Below(below.to_ascii_lowercase()),
                None => Host::Exact(host.to_ascii_lowercase()),
            },
        };
        Self {
            upstream: upstream.clone(),
            timeout: route.timeout.unwrap_or(config.timeouts.response),
            methods: methods.map(|method| method.expect("the configuration was checked")).collect(),
            path: route.path.trim_end_matches('/').to_owned(),
            host,
            config: route.clone(),
        }
    }

    /// Whether a request to this host (a port may be behind it) and path takes this route.
    pub(crate) fn takes(&self, host: &str, path: &str, method: &Method) -> bool {
        let path_fits = path
            .strip_prefix(&*self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.path.is_empty());
        path_fits
            && (self.methods.is_empty() || self.methods.contains(method))
            && self.host.is(host)
    }
}

impl Host {
    fn is(&self, host: &str) -> bool {
        let name = || match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        match self {
            Self::Any => true,
            Self::Exact(exact) => name().eq_ignore_ascii_case(exact),
            Self::Below(below) => {
                let name = name().as_bytes();
                let at = name.len().checked_sub(below.len()).filter(|at| *at > 0);
                at.is_some_and(|at| name[at..].eq_ignore_ascii_case(below.as_bytes()))
            }
        }
    }
}
