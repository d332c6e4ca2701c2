//! Everything that can be set: one TOML file, and environment variables over it.

mod address;
mod error;
mod limits;
mod read;
mod route;
mod tls;
mod trust;
mod upstream;

pub use address::address;
pub use error::ConfigError;
pub use limits::{Limits, Timeouts};
pub use read::{ReadError, Setting, from_environment, from_layers, unknown_variables};
pub use route::Route;
pub use tls::{ListenerTls, UpstreamTls};
pub(crate) use upstream::SLO_UNSET;
pub use upstream::{Connections, Endpoint, Health, Probe, Protocol, Retry, Upstream};

pub use seawall_control::trust::{Known, Trust};
pub use seawall_tower::server::{Limits as Sessions, Mode, Statuses};

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::admit::NAMED_MAX;

/// The proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen, for HTTP/1.1 and HTTP/2 alike; port 0 lets the system choose. Default
    /// `127.0.0.1:8000`: reachable from this machine only. Cannot change while the proxy runs.
    #[serde(deserialize_with = "address::read")]
    pub listen: SocketAddr,
    /// Whether requests are refused: `observe`, the default here, decides and counts and lets
    /// everybody in; under `enforce` who is to wait waits, and who is to be refused is refused.
    pub mode: Mode,
    /// How refusals are told in HTTP; gRPC has codes of its own for them.
    pub status: Statuses,
    /// Whom to believe what a request's `seawall` field says of its priority, its tenant, and that
    /// it must not be dropped: `"nobody"`, the default, `"everybody"`, or a table of those who are
    /// known by a token or a client certificate. Routes say such things, too.
    #[serde(deserialize_with = "trust::read")]
    pub trust: Trust,
    /// Threads that forward, 1 to 256; 0, the default, for one on each core. Cannot change while
    /// the proxy runs.
    pub threads: usize,
    /// What upstreams are told about the client in `X-Forwarded-For`, `-Proto` and `-Host`.
    pub forwarded: Forwarded,
    /// Whether upstreams are told of this proxy in a `Via` field. Default false. Deviation: RFC
    /// 9110 §7.6.3 wants it always, but some upstreams turn compression off when they see one.
    pub via: bool,
    /// Protocols to which clients may switch a connection (`Upgrade`), lower case. Default
    /// `["websocket"]`. Others are not passed on, so that the upstream answers in HTTP. `h2c` is
    /// refused here: what follows it would be requests that nobody has looked at.
    pub upgrades: BTreeSet<String>,
    /// TLS for clients; without this table they speak in the clear.
    pub tls: Option<ListenerTls>,
    /// Bounds on what clients may ask for.
    pub limits: Limits,
    /// How long anything may take.
    pub timeouts: Timeouts,
    /// Where requests go, by name.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Which requests go where, and what else is to be known of them. The first that matches
    /// counts. Without routes, everything goes to the only upstream; what no route matches is
    /// answered with 404.
    pub routes: Vec<Route>,
    /// The endpoint for metrics.
    pub metrics: Metrics,
}

/// What upstreams are told about who a request came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarded {
    /// The client's address is appended to what the request says already; protocol and host are
    /// added where they are missing. The default: right behind another proxy.
    #[default]
    Append,
    /// What the request says is replaced: right where clients are not to be believed.
    Replace,
    /// The request's fields are passed on as they are.
    Off,
}

/// The endpoint for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Where to serve them, such as `127.0.0.1:9117`; nowhere by default. Cannot change while the
    /// proxy runs.
    #[serde(deserialize_with = "address::read_option")]
    pub listen: Option<SocketAddr>,
    /// Names under which browsers may ask for them, beside loopback names and addresses; `"*"` for
    /// all.
    pub allow_hosts: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000),
            mode: Mode::Observe,
            status: Statuses::default(),
            trust: Trust::default(),
            threads: 0,
            forwarded: Forwarded::default(),
            via: false,
            upgrades: BTreeSet::from(["websocket".to_owned()]),
            tls: None,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            upstreams: BTreeMap::new(),
            routes: Vec::new(),
            metrics: Metrics::default(),
        }
    }
}

impl Config {
    /// A proxy for one upstream with these replicas, and defaults for the rest.
    pub fn for_upstream(replicas: Vec<Endpoint>) -> Self {
        let upstream = Upstream { replicas, ..Upstream::default() };
        Self { upstreams: BTreeMap::from([("default".to_owned(), upstream)]), ..Self::default() }
    }

    /// Checks all ranges, and that what is named exists.
    ///
    /// # Errors
    ///
    /// Names the first key that cannot be used, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.status.validate()?;
        self.trust.validate()?;
        ConfigError::check_range("threads", self.threads, 0..=256)?;
        for protocol in &self.upgrades {
            if protocol == "h2c" || !is_lower_token(protocol) {
                let problem = format!(
                    "\"{protocol}\" cannot be switched to; allowed are lower-case names of \
                     protocols other than h2c"
                );
                return Err(ConfigError::new("upgrades", problem));
            }
        }
        let tls = self.tls.as_ref().map_or(Ok(()), ListenerTls::validate);
        tls.map_err(|error| error.within("tls"))?;
        self.limits.validate().map_err(|error| error.within("limits"))?;
        self.timeouts.validate().map_err(|error| error.within("timeouts"))?;
        if self.upstreams.is_empty() {
            let problem = "there is none; add [upstreams.NAME] with replicas = [\"http://…\"]";
            return Err(ConfigError::new("upstreams", problem));
        }
        for (name, upstream) in &self.upstreams {
            let place = format!("upstreams.{name}");
            if !is_name(name) {
                return Err(ConfigError::new(place, NAMES));
            }
            upstream.validate().map_err(|error| error.within(&place))?;
        }
        if self.routes.is_empty() && self.upstreams.len() > 1 {
            let problem = "there are several upstreams and no routes to them; add [[routes]]";
            return Err(ConfigError::new("routes", problem));
        }
        for name in self.upstreams.keys() {
            let classes = self.classes_of(name).len();
            if classes > NAMED_MAX {
                let problem =
                    format!("the routes to {name} name {classes} classes; allowed are {NAMED_MAX}");
                return Err(ConfigError::new("routes", problem));
            }
        }
        let mut names = BTreeSet::new();
        for (index, route) in self.routes.iter().enumerate() {
            let place = format!("routes[{index}]");
            route.validate(&self.upstreams).map_err(|error| error.within(&place))?;
            if !names.insert(route.label()) {
                let problem = format!(
                    "another route is called \"{}\", too; give each a name of its own",
                    route.label()
                );
                return Err(ConfigError::new(format!("{place}.name"), problem));
            }
        }
        Ok(())
    }

    /// The classes that routes to an upstream name, in order.
    pub(crate) fn classes_of(&self, upstream: &str) -> Vec<String> {
        let goes_there =
            |route: &&Route| route.upstream.as_deref().is_none_or(|name| name == upstream);
        let named = self.routes.iter().filter(goes_there).filter_map(|route| route.class.clone());
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What of `other` cannot take the place of this while the proxy runs.
    pub(crate) fn fixed_that_differ(&self, other: &Self) -> Option<&'static str> {
        if self.listen != other.listen {
            Some("listen")
        } else if self.threads != other.threads {
            Some("threads")
        } else if self.metrics != other.metrics {
            Some("metrics")
        } else if self.limits.connections != other.limits.connections {
            Some("limits.connections")
        } else {
            None
        }
    }
}

/// What a name may be made of.
const NAMES: &str = "a name is 1 to 63 of a-z, A-Z, 0-9, '-', '_', '.' and '/'";

/// Whether a text may name something, and be a label of metrics.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (1..=63).contains(&text.len()) && text.chars().all(fits)
}

fn is_lower_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-./_".contains(c);
    !text.is_empty() && text.chars().all(fits)
}
