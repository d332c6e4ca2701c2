//! Export of the metrics to OpenTelemetry: OTLP over HTTP, in protobuf.
//!
//! ```text
//!   what the process records ──► text of /metrics ──► OTLP message ──► POST {endpoint}/v1/metrics
//! ```
//!
//! What is sent is what `/metrics` shows, under other names ([`names::otel`]): there is no second
//! counter, and a request costs nothing more for it. Deviation: OpenTelemetry's own instruments are
//! not used, because their histograms can be told single values alone, one call for each request;
//! its `MetricProducer`, which is meant for what is counted already, the Rust SDK does not have.
//!
//! [`names::otel`]: seawall_measure::names::otel

mod config;
mod message;
mod text;

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use ureq::Agent;

pub(crate) use config::Config;
use message::Span;

/// Sends what is recorded, in intervals and once more when it is dropped.
#[derive(Debug)]
pub(crate) struct Exporter {
    thread: Option<JoinHandle<()>>,
    /// Dropping it ends the thread.
    stop: Option<Sender<()>>,
}

impl Exporter {
    /// Begins to send what `recorded` has.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(crate) fn start(config: Config, recorded: PrometheusHandle) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let sender = Channel::new(config, recorded);
        let run = move || {
            while stopped.recv_timeout(sender.config.interval) == Err(RecvTimeoutError::Timeout) {
                sender.send_or_warn();
            }
            sender.send_or_warn(); // what came since
        };
        let thread = thread::Builder::new().name("seawall-otlp".into()).spawn(run);
        let thread = thread.context("cannot start the thread that exports metrics")?;
        Ok(Self { thread: Some(thread), stop: Some(stop) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has said what went wrong
        }
    }
}

struct Channel {
    config: Config,
    recorded: PrometheusHandle,
    agent: Agent,
    start: u64,
}

impl Channel {
    fn new(config: Config, recorded: PrometheusHandle) -> Self {
        let agent = Agent::config_builder()
            .timeout_global(Some(config.timeout))
            .http_status_as_error(true)
            .build();
        Self { config, recorded, agent: agent.into(), start: now() }
    }

    /// Metrics are cumulative: what is not told now is in what is told next.
    fn send_or_warn(&self) {
        if let Err(error) = self.send() {
            let endpoint = &*self.config.endpoint;
            tracing::warn!(endpoint, "metrics were not exported: {error:#}");
        }
    }

    fn send(&self) -> Result<()> {
        let span = Span { start: self.start, end: now() };
        let request = message::request(&self.recorded.render(), &self.config.resource, span);
        let mut post = self.agent.post(&self.config.endpoint);
        for (name, value) in &self.config.headers {
            post = post.header(name, value);
        }
        let post = post.header("content-type", "application/x-protobuf");
        let mut reply = post.send(request.encode_to_vec())?;
        let body = reply.body_mut().read_to_vec()?;
        let told = ExportMetricsServiceResponse::decode(&*body).unwrap_or_default();
        match told.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => {
                let count = partial.rejected_data_points;
                Err(anyhow!("{count} points were not taken: {}", partial.error_message))
            }
            _ => Ok(()),
        }
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
