//! Which route a request takes.

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use metrics::{Counter, counter};
use seawall_control::request::Class;
use seawall_measure::names;

use crate::config::{self, Config};
use crate::upstream::Upstream;

/// The counters of one route: its responses by the first digit of their status.
#[derive(Debug)]
pub(crate) struct Books([Counter; STATUS.len()]);

const STATUS: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Books {
    fn new(route: &str) -> Self {
        let name = names::PROXY_RESPONSES.name;
        let count = |status| counter!(name, "route" => route.to_owned(), "status" => status);
        Self(STATUS.map(count))
    }

    /// A response is about to be given.
    pub(crate) fn responded(&self, status: StatusCode) {
        let digit = usize::from(status.as_u16() / 100);
        self.0[digit.clamp(1, STATUS.len()) - 1].increment(1);
    }
}

/// A route that requests can take.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) config: config::Route,
    pub(crate) number: usize,
    /// The class that it gives, if it does.
    pub(crate) class: Option<Class>,
    pub(crate) books: Books,
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
        let numbered = routes.iter().enumerate();
        numbered.map(|(number, route)| Self::new(number, route, config, upstreams)).collect()
    }

    fn new(
        number: usize,
        route: &config::Route,
        config: &Config,
        upstreams: &[Arc<Upstream>],
    ) -> Self {
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
        let classes = config.classes_of(upstream.name());
        let own = |class: &String| classes.iter().position(|name| name == class);
        let class = route.class.as_ref().and_then(own);
        Self {
            number,
            class: class.map(|index| Class((Class::COUNT + index) as u8)),
            books: Books::new(route.label()),
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
