//! The Prometheus endpoint.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::PrometheusBuilder;
use seawall_measure::names::{self, Kind};

/// How often a server's counters and gauges are handed to the endpoint.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// Serves what the process records, under the names and with the words of [`names::ALL`].
///
/// # Errors
///
/// If the address cannot be listened at.
pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    PrometheusBuilder::new()
        .with_http_listener(address)
        .install()
        .with_context(|| format!("cannot serve metrics at {address}"))?;
    for metric in names::ALL {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
        }
    }
    Ok(())
}
