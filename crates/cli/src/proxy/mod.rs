//! `seawall proxy`: a sidecar and gateway for services that speak HTTP or gRPC.

mod run;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use seawall_control::config::duration;
use seawall_proxy::Config;
use seawall_proxy::config::{
    Endpoint, Mode, Setting, address, from_environment, from_layers, unknown_variables,
};

use crate::{descriptors, output};

const EXAMPLES: &str = "\
Examples:
  seawall proxy --upstream http://127.0.0.1:8080    for a first try: listens at 127.0.0.1:8000
  seawall proxy --upstream http://127.0.0.1:8080 --upstream http://127.0.0.1:8081
  seawall proxy --upstream http://127.0.0.1:8080 --slo 100ms --enforce
  seawall proxy proxy.toml                          as the file says, and again when it changes
  seawall proxy proxy.toml --check                  look whether that would work, and stop
  seawall proxy --upstream http://127.0.0.1:8080 --print-config > proxy.toml
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
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,

    /// Refuse what cannot be served in time, rather than only count it
    #[arg(long)]
    enforce: bool,

    /// Latency that counts as good, of the upstream given by --upstream
    #[arg(long, value_name = "DURATION")]
    slo: Option<duration::Text>,

    /// Serve Prometheus metrics and the live page here, such as 127.0.0.1:9117 [default: nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,

    /// Set one key of the configuration, over what file and environment say
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Check the configuration, try addresses and certificates, print what would run, and stop
    #[arg(long)]
    check: bool,

    /// Print the configuration that results from file, environment and flags, tokens included, and
    /// stop
    #[arg(long, conflicts_with = "check")]
    print_config: bool,

    /// Stop when standard input ends, too: for a parent process that must not leave a proxy behind
    #[arg(long)]
    until_stdin_ends: bool,
}

/// Runs `seawall proxy`.
pub(crate) fn run(options: &Options) -> Result<()> {
    let config = options.read()?;
    for name in unknown_variables() {
        tracing::warn!(
            "the variable {name} sets nothing; a key has two underscores for each dot, such as \
             SEAWALL_PROXY__LIMITS__STREAMS"
        );
    }
    if options.print_config {
        return output::print(&toml::to_string_pretty(&config)?);
    }
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
        self.check_slo()?;
        let mut settings = from_environment();
        for setting in &self.set {
            let source = format!("--set {setting}");
            let (key, value) =
                setting.split_once('=').with_context(|| format!("{source}: write KEY=VALUE"))?;
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            settings.push(Setting { source, key, value });
        }
        let mut flag = |source: &str, key: &str, value: Option<String>| {
            let (source, key) = (source.to_owned(), key.to_owned());
            settings.extend(value.map(|value| Setting { source, key, value }));
        };
        flag("--listen", "listen", self.listen.map(|address| address.to_string()));
        flag("--metrics", "metrics.listen", self.metrics.map(|address| address.to_string()));
        flag("--enforce", "mode", self.enforce.then(|| "enforce".to_owned()));
        flag("--slo", "upstreams.default.slo", self.slo.map(|slo| slo.to_string()));
        if !self.upstream.is_empty() {
            let replicas = self.upstream.iter().map(|replica| format!("{:?}", replica.to_string()));
            let replicas = format!("[{}]", replicas.collect::<Vec<_>>().join(", "));
            flag("--upstream", "upstreams.default.replicas", Some(replicas));
        }
        if self.config.is_none()
            && !settings.iter().any(|setting| setting.key.starts_with("upstreams"))
        {
            bail!("nothing is behind the proxy; give --upstream http://HOST:PORT, or a file");
        }
        let text = self.text()?;
        let file = text.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        Ok(from_layers(file, &settings)?)
    }

    /// The file's name and text.
    fn text(&self) -> Result<Option<(String, String)>> {
        let Some(path) = &self.config else { return Ok(None) };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {name}"))?;
        Ok(Some((name, text)))
    }

    /// `--slo` is about the upstream that `--upstream` gives.
    fn check_slo(&self) -> Result<()> {
        let Some(slo) = self.slo.filter(|_| self.upstream.is_empty()) else { return Ok(()) };
        let Some((_, text)) = self.text()? else {
            bail!("--slo belongs to --upstream; give --upstream http://HOST:PORT, too");
        };
        let table = text.parse::<toml::Table>().unwrap_or_default();
        let upstreams = table.get("upstreams").and_then(toml::Value::as_table);
        let name = upstreams.and_then(|upstreams| upstreams.keys().next());
        let name = name.map_or("NAME", String::as_str);
        bail!("--slo belongs to --upstream; with a file use --set upstreams.{name}.slo={slo}")
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
