//! Where requests go.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use seawall_control::config::duration;
use seawall_control::controller::Algorithm;
use seawall_control::{admission, classes, gate, replica, retry};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::limits::TIMES;
use super::{ConfigError, Sessions, UpstreamTls};

/// A service, which any of its replicas can serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// Addresses, such as `["http://127.0.0.1:8080"]`, 1 to 256; `https://` for TLS. A name is
    /// resolved for each new connection.
    pub replicas: Vec<Endpoint>,
    /// Latency that counts as good, from a request's arrival here to its response, 10us to 10m.
    /// What could only be answered later is refused, as if that were its deadline. Default: only
    /// the requests' own deadlines count.
    #[serde(with = "duration::option")]
    pub slo: Option<Duration>,
    /// How many requests the upstream is let have at once, and who waits.
    pub gate: gate::Config,
    /// Which requests are told apart.
    pub classes: classes::Config,
    /// The algorithm that judges each arrival before the gate, by the wait at the gate. Default
    /// `none`: the gate alone refuses. Others need `slo`.
    pub admission: admission::Config,
    /// Bounds on the sessions of clients that name themselves, under algorithms that give credits.
    pub limits: Sessions,
    /// What is spoken with the replicas. Default `auto`.
    pub protocol: Protocol,
    /// The `Host` that replicas are told. Default: what the client said.
    pub host: Option<String>,
    /// TLS to replicas with `https://`.
    pub tls: UpstreamTls,
    /// Which replica a request goes to.
    pub balance: replica::Config,
    /// When a request is sent again.
    pub retry: Retry,
    /// Which replicas are left out.
    pub health: Health,
    /// Folder of the pages in which replicas on this host, at loopback addresses, say that they
    /// stand still, as Seawall's agent for Java does while a collector stops the world. Requests
    /// do not wait for those: they go to another replica, or are refused if they have less time.
    /// Default: nobody looks.
    pub pages: Option<PathBuf>,
    /// Connections, bounded.
    pub connections: Connections,
}

/// What algorithms are told where there is no SLO; only `none` is used then, which ignores it.
pub(crate) const SLO_UNSET: Duration = Duration::from_millis(100);

impl Default for Upstream {
    fn default() -> Self {
        Self {
            replicas: Vec::new(),
            slo: None,
            gate: gate::Config::default(),
            classes: classes::Config::default(),
            admission: admission::Config::named("none"),
            limits: Sessions::default(),
            protocol: Protocol::default(),
            host: None,
            tls: UpstreamTls::default(),
            balance: replica::Config::default(),
            retry: Retry::default(),
            health: Health::default(),
            pages: None,
            connections: Connections::default(),
        }
    }
}

/// What is spoken with replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// With TLS what the replica prefers (ALPN); without it HTTP/2 for gRPC and HTTP/1.1 for the
    /// rest. The default.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge.
    Http2,
}

/// Connections to one replica, of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connections {
    /// HTTP/1.1 connections that are kept although no request needs them, 0 to 10000. Default 256.
    pub idle: usize,
    /// For how long they are kept, 1ms to 60m. Default 55s: less than the 60s after which many
    /// servers close a connection.
    #[serde(with = "duration")]
    pub idle_time: Duration,
    /// Requests on one HTTP/2 connection, 1 to 10000; another connection is opened for more.
    /// Default 100.
    pub streams: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self { idle: 256, idle_time: Duration::from_secs(55), streams: 100 }
    }
}

/// When a request is sent again. A request that has reached no replica moves on for nothing. One
/// that a replica refused before it did anything may be sent again whatever its method is. One that
/// was lost on the way only if its method is idempotent (RFC 9110 §9.2.2), or its route says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// How often a request may be sent, 1 to 16. Default 2.
    pub attempts: u8,
    /// Retries for each request, on average, 0 to 16. Default 0.1.
    pub budget: f64,
    /// Retries that may be made beyond that, until requests have earned them again, 0 to 1000000.
    /// Default 10.
    pub burst: u32,
}

impl Default for Retry {
    fn default() -> Self {
        let retry::Config { attempts, budget, burst, .. } = retry::Config::default();
        Self { attempts, budget, burst }
    }
}

impl Retry {
    pub(crate) fn policy(&self) -> retry::Policy {
        let Self { attempts, budget, burst } = *self;
        retry::Policy::new(&retry::Config { attempts, budget, burst, ..retry::Config::NEVER })
    }
}

/// Which replicas are left out. The last that is well never is; when no probe is answered, all are
/// tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// How replicas are asked: `"none"`, the default; `{ http = "/healthz" }`, whose answer must be
    /// 200 to 399; `{ grpc = "" }`, the standard health service, with the name of a service or
    /// none; or `"tcp"`, a connection is enough.
    pub probe: Probe,
    /// How often they are asked, 1ms to 60m. Default 5s.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// How long an answer may take, 1ms to 60m. Default 1s.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Answers in a row after which a replica counts as healthy, 1 to 100. Default 2. The first
    /// answer of all counts at once.
    pub rise: u32,
    /// Failures in a row after which it does not, 1 to 100. Default 3.
    pub fall: u32,
    /// Requests in a row that could not connect, were lost, or were answered too late, after which
    /// a replica is left out for a while, 1 to 1000000; 0 for never. Default 5.
    pub eject_after: u32,
    /// For how long it is left out the first time, 1ms to 60m. Default 1s. Each time in a row takes
    /// twice as long as the one before, up to a minute.
    #[serde(with = "duration")]
    pub eject_for: Duration,
}

/// How a replica is asked whether it is well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// Not at all.
    #[default]
    None,
    /// A connection is enough.
    Tcp,
    /// A GET of this path.
    Http(String),
    /// `grpc.health.v1.Health/Check` of this service; empty for the server as a whole.
    Grpc(String),
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProbeVisitor)
    }
}

struct ProbeVisitor;

impl<'de> de::Visitor<'de> for ProbeVisitor {
    type Value = Probe;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""none", "tcp", { http = "/healthz" } or { grpc = "SERVICE" }"#)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Probe, E> {
        match word {
            "none" => Ok(Probe::None),
            "tcp" => Ok(Probe::Tcp),
            "http" => Err(E::custom(r#""http" needs a path: probe = { http = "/healthz" }"#)),
            "grpc" => Err(E::custom(
                r#""grpc" needs a service, "" for all of them: probe = { grpc = "" }"#,
            )),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut table: A) -> Result<Probe, A::Error> {
        let probe = match table.next_entry::<String, String>()? {
            Some((kind, path)) if kind == "http" => Probe::Http(path),
            Some((kind, service)) if kind == "grpc" => Probe::Grpc(service),
            Some((other, _)) => return Err(de::Error::unknown_field(&other, &["http", "grpc"])),
            None => return Err(de::Error::invalid_length(0, &self)),
        };
        match table.next_key::<String>()? {
            None => Ok(probe),
            Some(_) => Err(de::Error::invalid_length(2, &self)),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            probe: Probe::None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            rise: 2,
            fall: 3,
            eject_after: 5,
            eject_for: Duration::from_secs(1),
        }
    }
}

impl Upstream {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let replicas = self.replicas.len();
        if replicas == 0 {
            let problem = "there is none; give addresses such as [\"http://127.0.0.1:8080\"]";
            return Err(ConfigError::new("replicas", problem));
        }
        ConfigError::check_range("replicas", replicas, 1..=256)?;
        if let Some(slo) = self.slo {
            let allowed = Duration::from_micros(10)..=Duration::from_secs(600);
            ConfigError::check_time("slo", slo, allowed)?;
        }
        let limit = self.gate.limit.validate().map_err(ConfigError::from);
        limit.map_err(|error| error.within("gate.limit"))?;
        self.gate.validate()?;
        self.classes.validate()?;
        self.algorithm().map_err(|error| ConfigError::from(error).within("admission"))?;
        self.limits.validate()?;
        if self.slo.is_none() && self.admits() {
            let algorithm = &self.admission.algorithm;
            let problem = format!("{algorithm} needs it; give a time such as \"100ms\"");
            return Err(ConfigError::new("slo", problem));
        }
        if let Some(host) = &self.host
            && host.parse::<hyper::http::uri::Authority>().is_err()
        {
            let problem = format!("\"{host}\" is no host; write a name, with a port if need be");
            return Err(ConfigError::new("host", problem));
        }
        self.tls.validate().map_err(|error| error.within("tls"))?;
        self.balance.validate().map_err(|error| ConfigError::from(error).within("balance"))?;
        let Retry { attempts, budget, burst } = self.retry;
        ConfigError::check_range("retry.attempts", attempts, 1..=16)?;
        ConfigError::check_range("retry.budget", budget, 0.0..=16.0)?;
        ConfigError::check_range("retry.burst", burst, 0..=1_000_000)?;
        self.health.validate().map_err(|error| error.within("health"))?;
        if let Some(far) = self.replicas.iter().find(|replica| !replica.is_here())
            && self.pages.is_some()
        {
            let problem =
                format!("they are of replicas on this host, at loopback; \"{far}\" is not");
            return Err(ConfigError::new("pages", problem));
        }
        let Connections { idle, idle_time, streams } = self.connections;
        ConfigError::check_range("connections.idle", idle, 0..=10_000)?;
        ConfigError::check_time("connections.idle_time", idle_time, TIMES)?;
        ConfigError::check_range("connections.streams", streams, 1..=10_000)
    }
}

impl Upstream {
    /// Whether an algorithm judges arrivals.
    pub(crate) fn admits(&self) -> bool {
        self.admission.algorithm != "none"
    }

    /// The algorithm, ready to be built.
    pub(crate) fn algorithm(
        &self,
    ) -> Result<Arc<dyn Algorithm>, seawall_control::config::ConfigError> {
        self.admission.build_with(seawall_measure::utility::read)
    }
}

impl Health {
    fn validate(&self) -> Result<(), ConfigError> {
        if let Probe::Http(path) = &self.probe
            && (!path.starts_with('/') || path.parse::<Uri>().is_err())
        {
            let problem = format!("\"{path}\" is no path; it begins with /");
            return Err(ConfigError::new("probe.http", problem));
        }
        ConfigError::check_time("interval", self.interval, TIMES)?;
        ConfigError::check_time("timeout", self.timeout, TIMES)?;
        ConfigError::check_range("rise", self.rise, 1..=100)?;
        ConfigError::check_range("fall", self.fall, 1..=100)?;
        ConfigError::check_range("eject_after", self.eject_after, 0..=1_000_000)?;
        ConfigError::check_time("eject_for", self.eject_for, TIMES)
    }
}

/// The address of a replica: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Whether it is a loopback address.
    fn is_here(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!("\"{text}\": {why}; write http://HOST:PORT or https://HOST:PORT"))
        };
        let Ok(uri) = text.parse::<Uri>() else { return wrong("this is no address") };
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return wrong("there is no http:// or https:// before it"),
        };
        let Some(authority) = uri.authority() else { return wrong("there is no host") };
        if authority.as_str().contains('@') {
            return wrong("a user has no meaning here");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return wrong("a path has no meaning here");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let named = authority.as_str().rsplit_once("]").map_or(authority.as_str(), |(_, end)| end);
        let port = match (authority.port_u16(), named.contains(':')) {
            (Some(port), _) => port,
            (None, true) => return wrong("the port is no number up to 65535"),
            (None, false) => 80 + 363 * u16::from(tls),
        };
        if host.is_empty() {
            return wrong("there is no host");
        }
        Ok(Self { tls, host, port })
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_printed() {
        for text in ["http://127.0.0.1:8080", "https://a.example:9", "http://[::1]:7"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        let port = |text: &str| text.parse::<Endpoint>().unwrap().port;
        assert_eq!(port("http://a"), 80);
        assert_eq!(port("https://a/"), 443);
    }

    #[test]
    fn what_is_no_address_is_told_what_is_wrong() {
        for (text, why) in [
            ("127.0.0.1:80", "http://"),
            ("ftp://a", "http://"),
            ("http://a/b", "path"),
            ("http://a?b", "path"),
            ("http://u@a", "user"),
            ("http://a:99999", "port"),
            ("http://", "no address"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }
}
