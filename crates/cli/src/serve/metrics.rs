//! What the process records, for the metrics endpoint.

use std::time::Duration;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use seawall_measure::names::{self, Kind};
use seawall_rpc::Stats;

use super::stages;

/// How often a server's counters and gauges are handed to the recorder although nobody asks.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);

/// What was handed to the recorder last: histograms are told what is new since then.
#[derive(Default)]
pub(super) struct Published {
    stats: Stats,
    waits: stages::Waits,
}

impl Published {
    /// Hands over what a server counts now, and what its stages do.
    pub(super) fn update(&mut self, stats: Stats) {
        stats.publish(&self.stats);
        self.stats = stats;
        stages::publish(&mut self.waits);
    }
}

/// What is not shown any more, nor kept, when it has not been handed over for so long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forgets {
    /// What once was stays.
    Nothing,
    /// What gauges say of things that have gone; what was counted of them stays.
    Gauges(Duration),
    /// All of it.
    #[cfg_attr(not(feature = "node"), expect(dead_code, reason = "only the node agent's"))]
    All(Duration),
}

/// What the process records, if anybody is to see it.
pub(crate) struct Recording {
    pub(crate) handle: Option<PrometheusHandle>,
    #[cfg(feature = "otel")]
    _exporter: Option<crate::otel::Exporter>,
}

impl Recording {
    /// Records from now on if there is a listener that shows it, or if it is to be exported: to
    /// `endpoint`, or to where the environment says.
    ///
    /// # Errors
    ///
    /// Names what is wrong with the export that is asked for.
    #[cfg_attr(not(feature = "otel"), expect(unused_variables, reason = "nobody exports"))]
    pub(crate) fn start(shown: bool, endpoint: Option<&str>, forgets: Forgets) -> Result<Self> {
        #[cfg(feature = "otel")]
        if let Some(export) = crate::otel::Config::read(endpoint)? {
            let handle = record(forgets)?;
            let exporter = crate::otel::Exporter::start(export, handle.clone())?;
            return Ok(Self { handle: Some(handle), _exporter: Some(exporter) });
        }
        Ok(Self {
            handle: shown.then(|| record(forgets)).transpose()?,
            #[cfg(feature = "otel")]
            _exporter: None,
        })
    }
}

/// Keeps what the process records from now on, under the names and with the words of
/// [`names::ALL`]. Who has the handle calls its `run_upkeep` now and then.
///
/// # Errors
///
/// If somebody keeps it already.
fn record(forgets: Forgets) -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in names::ALL.iter().filter(|metric| metric.kind == Kind::Histogram) {
        let name = Matcher::Full(metric.name.into());
        builder = builder.set_buckets_for_metric(name, &names::buckets())?;
    }
    let (kinds, idle) = match forgets {
        Forgets::Nothing => (MetricKindMask::NONE, None),
        Forgets::Gauges(idle) => (MetricKindMask::GAUGE, Some(idle)),
        Forgets::All(idle) => (MetricKindMask::ALL, Some(idle)),
    };
    let handle =
        builder.idle_timeout(kinds, idle).install_recorder().context("cannot record metrics")?;
    for metric in names::ALL {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
    Ok(handle)
}
