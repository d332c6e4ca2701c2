//! `seawall proxy`: a sidecar and gateway for services that speak HTTP or gRPC.

mod run;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use seawall_control::config::duration;
use seawall_proxy::Config;
use seawall_proxy::config::{Endpoint, Mode, from_environment, from_layers};

use crate::{descriptors, output};

const EXAMPLES: &str = "\
Examples:
  seawall proxy --upstream http://127.0.0.1:8080    for a first try: listens at 127.0.0.1:8000
  seawall proxy --upstream http://127.0.0.1:8080 --upstream http://127.0.0.1:8081
  seawall proxy --upstream http://127.0.0.1:8080 --slo 100ms --enforce
  seawall proxy proxy.toml                          as the file says, and again when it changes
  seawall proxy proxy.toml --check                  look whether that would work, and stop
  seawall proxy proxy.toml --set limits.streams=64

Each key can also be set in the environment: SEAWALL_PROXY__LIMITS__STREAMS=64.
docs/proxy.md describes all keys.";

/// Options of `seawall proxy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Configuration file (TOML)
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,

    /// A replica of the service behind the proxy, such as http://127.0.0.1:8080; may be given
    /// again
    #[arg(long, value_name = "URL")]
    upstream: Vec<Endpoint>,

    /// Where to listen; port 0 lets the system choose [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Refuse what cannot be served in time, rather than only count it
    #[arg(long)]
    enforce: bool,

    /// Latency that counts as good, of the upstream given by --upstream
    #[arg(long, value_name = "DURATION", requires = "upstream")]
    slo: Option<duration::Text>,

    /// Serve Prometheus metrics and the live page here, such as 127.0.0.1:9117 [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,

    /// Set one key of the configuration, over what file and environment say
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Check the configuration, try addresses and certificates, print what would run, and stop
    #[arg(long)]
    check: bool,

    /// Stop when standard input ends, too: for a parent process that must not leave a proxy behind
    #[arg(long)]
    until_stdin_ends: bool,
}

/// Runs `seawall proxy`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let config = options.read()?;
    if options.check {
        return check(&config);
    }
    let (allowed, connections) = (descriptors::raise(), config.limits.connections);
    if allowed < 2 * connections as u64 {
        tracing::info!(allowed, connections, "few open files for limits.connections");
    }
    run::run(options, config)
}

impl Options {
    /// The configuration: the file, over it the environment, over both the flags.
    fn read(&self) -> Result<Config> {
        let mut settings = from_environment();
        for setting in &self.set {
            let (key, value) = setting
                .split_once('=')
                .with_context(|| format!("--set {setting}: write KEY=VALUE"))?;
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
        let mut flag = |key: &str, value: Option<String>| {
            settings.extend(value.map(|value| (key.to_owned(), value)));
        };
        flag("listen", self.listen.map(|address| address.to_string()));
        flag("metrics.listen", self.metrics.map(|address| address.to_string()));
        flag("mode", self.enforce.then(|| "enforce".to_owned()));
        flag("upstreams.default.slo", self.slo.map(|slo| slo.to_string()));
        if !self.upstream.is_empty() {
            let replicas = self.upstream.iter().map(|replica| format!("{:?}", replica.to_string()));
            let replicas = replicas.collect::<Vec<_>>().join(", ");
            flag("upstreams.default.replicas", Some(format!("[{replicas}]")));
        }
        if self.config.is_none() && !settings.iter().any(|(key, _)| key.starts_with("upstreams")) {
            bail!("nothing is behind the proxy; give --upstream http://HOST:PORT, or a file");
        }
        let text = match &self.config {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read the configuration {name}"))?;
                Some((name, text))
            }
        };
        let file = text.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        Ok(from_layers(file, &settings)?)
    }
}

/// Says what would run, and what of it is there.
fn check(config: &Config) -> Result<()> {
    let findings = seawall_proxy::check(config)?;
    output::print(&format!("{}{findings}", describe(config, config.listen)))?;
    if !findings.is_fine() {
        eprintln!("the configuration can be used; not all that it names is there now");
    }
    Ok(())
}

/// What runs, in words.
fn describe(config: &Config, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let mode = match config.mode {
        Mode::Observe => "observing: nothing is refused",
        Mode::Enforce => "enforcing",
    };
    let mut text = format!("proxy at {scheme}://{address}, {mode}\n");
    for (name, upstream) in &config.upstreams {
        let replicas: Vec<_> = upstream.replicas.iter().map(ToString::to_string).collect();
        let slo = upstream.slo.map(|slo| format!(", SLO {}", duration::format(slo)));
        text += &format!("  upstream {name}: {}", replicas.join(", "));
        text += &format!(
            " (limit by {}, algorithm {}{})\n",
            upstream.gate.limit.policy,
            upstream.admission.algorithm,
            slo.unwrap_or_default()
        );
    }
    for route in &config.routes {
        let methods =
            if route.methods.is_empty() { "any method".into() } else { route.methods.join(", ") };
        let host = route.host.as_deref().unwrap_or("any host");
        let only = config.upstreams.keys().next().map_or("", String::as_str);
        let upstream = route.upstream.as_deref().unwrap_or(only);
        text += &format!("  route {methods}, {host}, {}: {upstream}\n", route.path);
    }
    text
}
