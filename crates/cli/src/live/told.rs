//! What a listener tells, as a client reads it.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use super::fetch::{self, ABOUT, AT};
use super::http::decoded;
use super::picture::Sample;
use super::text::Metrics;

/// What every name of a metric of ours begins with.
const PREFIX: &str = "seawall_";

/// A listener, as its user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    authority: String,
    path: String,
}

/// One reading.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) sample: Sample,
    /// What runs there; empty if it does not say.
    pub(crate) about: String,
}

impl Target {
    /// `http://HOST:PORT/`, with or without the scheme and the path, of the page or the metrics.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix("http://").unwrap_or(text);
        if let Some((scheme, _)) = rest.split_once("://") {
            bail!("{scheme} is not spoken there; write http://HOST:PORT/");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = authority.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) || authority.starts_with(':') {
            bail!("{text} names no host with a port; write http://HOST:PORT/");
        }
        let path = if path.is_empty() { "metrics" } else { path };
        Ok(Self { authority: authority.to_owned(), path: format!("/{path}") })
    }

    /// Reads the metrics. Where the listener does not say when, `start` is when its clock began.
    ///
    /// # Errors
    ///
    /// If it does not answer, or with something else than the metrics of Seawall.
    pub(crate) async fn read(&self, start: Instant) -> Result<Told> {
        let Self { authority, path } = self;
        let reply = fetch::get(authority, path).await?;
        let at = reply.header(AT).and_then(|at| at.parse().ok());
        let at = at.unwrap_or_else(|| start.elapsed().as_secs_f64());
        let metrics = Metrics::parse(&reply.body)
            .map_err(|error| anyhow!("{error}"))
            .with_context(|| format!("http://{authority}{path} shows no metrics"))?;
        if !metrics.is_empty() && !metrics.names().any(|name| name.starts_with(PREFIX)) {
            bail!("http://{authority}{path} shows metrics, and none of Seawall among them");
        }
        let about = reply.header(ABOUT).map(|about| decoded(&about)).unwrap_or_default();
        Ok(Told { sample: Sample { at, metrics }, about })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_named_in_many_ways() {
        let target = |text: &str| Target::parse(text).map(|t| format!("{}{}", t.authority, t.path));
        for text in ["127.0.0.1:9117", "http://127.0.0.1:9117", "http://127.0.0.1:9117/"] {
            assert_eq!(target(text).unwrap(), "127.0.0.1:9117/metrics", "{text}");
        }
        assert_eq!(target("http://a.b:80/x/metrics").unwrap(), "a.b:80/x/metrics");
        assert_eq!(target("[::1]:9117").unwrap(), "[::1]:9117/metrics");
        for wrong in ["localhost", "http://localhost/", ":9117", "a:b", "a:99999", ""] {
            let error = target(wrong).unwrap_err().to_string();
            assert!(error.contains("write http://HOST:PORT/"), "{wrong}: {error}");
        }
        assert!(target("https://a:1").unwrap_err().to_string().starts_with("https is not"));
    }
}
