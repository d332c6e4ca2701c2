//! The Prometheus endpoint.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_util::MetricKindMask;
use seawall_measure::names::{self, Kind};

/// How often a server's counters and gauges are handed to the endpoint.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// Serves what the process records, under the names and with the words of [`names::ALL`]. What has
/// not been handed over for as long as `idle` is not shown any more, nor kept.
///
/// # Errors
///
/// If the address cannot be listened at.
pub(crate) fn serve(address: SocketAddr, idle: Option<Duration>) -> Result<()> {
    PrometheusBuilder::new()
        .with_http_listener(address)
        .idle_timeout(MetricKindMask::ALL, idle)
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
