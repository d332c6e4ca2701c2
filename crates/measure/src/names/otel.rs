//! The same metrics under names that OpenTelemetry's conventions ask for: one vocabulary, spelt
//! twice. Nothing is counted twice for it.
//!
//! Names are dotted and in lower case, without the unit and without `_total`, which is said beside
//! them; what takes time is a `duration`; attributes are in a namespace. What the conventions have
//! a name for has that.

use super::{ALL, Kind, Metric, Unit};

/// The system that calls are made with, in the sense of the conventions of RPC.
pub const RPC_SYSTEM: (&str, &str) = ("rpc.system.name", "seawall");

/// Says that a request did not end well; by the conventions its value is what kind of end it was.
pub const ERROR_TYPE: &str = "error.type";

/// Names that do not follow from the others.
const OWN: &[(&str, &str)] = &[
    ("seawall_request_seconds", "rpc.server.call.duration"),
    ("seawall_stage_wait_seconds", "seawall.stage.wait.duration"),
    ("seawall_spilled_total", "seawall.spill.requests"),
    ("seawall_power_watts", "seawall.machine.power"),
    ("seawall_worker_busy_seconds", "seawall.machine.worker_time"),
    ("seawall_credit_window", "seawall.client.credit_window"),
    ("seawall_writes_total", "seawall.network.writes"),
    ("seawall_received_bytes_total", "seawall.network.received"),
    ("seawall_sent_bytes_total", "seawall.network.sent"),
];

/// The namespaces of the others, by how their names begin. The first that fits counts; what none
/// fits is about [admission](ADMISSION).
const SPACES: &[(&str, &str)] = &[
    ("admission_", ADMISSION),
    ("stage_", "stage"),
    ("memory_", "memory"),
    ("scaling_", "scaling"),
    ("responder_", "responder"),
    ("client_", "client"),
    ("proxy_", "proxy"),
    ("spilled_", "spill"),
    ("spill_", "spill"),
    ("credits_", "credit"),
    ("credit_", "credit"),
    ("connections_", "connection"),
    ("protocol_", "protocol"),
];

const ADMISSION: &str = "admission";

impl Metric {
    /// Its name by OpenTelemetry's conventions.
    pub fn otel_name(&self) -> String {
        if let Some((_, name)) = OWN.iter().find(|(known, _)| *known == self.name) {
            return (*name).to_owned();
        }
        let name = self.name.strip_prefix("seawall_").unwrap_or(self.name);
        let name = name.strip_suffix("_total").unwrap_or(name);
        let (prefix, space) =
            SPACES.iter().find(|(prefix, _)| name.starts_with(prefix)).unwrap_or(&("", ADMISSION));
        let kept = &name[prefix.len()..];
        let unit = match self.unit {
            Unit::Count => "",
            Unit::Seconds => "_seconds",
            Unit::Bytes => "_bytes",
            Unit::BytesPerSecond => "_bytes_per_second",
            Unit::Watts => "_watts",
        };
        let kept = kept.strip_suffix(unit).unwrap_or(kept);
        let duration = if self.kind == Kind::Histogram { ".duration" } else { "" };
        format!("seawall.{space}.{kept}{duration}")
    }

    /// Its unit in UCUM, with what is counted in braces.
    pub fn otel_unit(&self) -> &'static str {
        match self.unit {
            Unit::Seconds => "s",
            Unit::Bytes => "By",
            Unit::BytesPerSecond => "By/s",
            Unit::Watts => "W",
            Unit::Count => {
                let counted = [
                    ("credit_messages", "{message}"),
                    ("scaling_refusals", "{report}"),
                    ("connection", "{connection}"),
                    ("session", "{session}"),
                    ("credit", "{credit}"),
                    ("container", "{container}"),
                    ("request", "{request}"),
                    ("refusals", "{request}"),
                    ("completions", "{request}"),
                    ("cancellations", "{request}"),
                    ("failures", "{failure}"),
                    ("spilled", "{request}"),
                ];
                counted.iter().find(|(word, _)| self.name.contains(word)).map_or("1", |it| it.1)
            }
        }
    }
}

/// The attribute that a label is.
pub fn attribute(label: &str) -> String {
    format!("seawall.{label}")
}

/// The table of all metrics by both names in Markdown.
pub fn markdown() -> String {
    let mut table = String::from(
        "| Prometheus | OpenTelemetry | instrument | unit | attributes |\n|---|---|---|---|---|\n",
    );
    for metric in ALL {
        let instrument = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let attributes: Vec<_> =
            metric.labels.iter().map(|label| format!("`{}`", attribute(label))).collect();
        table.push_str(&format!(
            "| `{}` | `{}` | {instrument} | `{}` | {} |\n",
            metric.name,
            metric.otel_name(),
            metric.otel_unit(),
            attributes.join(", ")
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::names;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for metric in ALL {
            let name = metric.otel_name();
            let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(name.chars().all(plain) && name.contains('.'), "{name}");
            assert!(name.split('.').all(|part| !part.is_empty()), "{name}");
            for suffix in ["_total", "_seconds", "_bytes", "_watts"] {
                assert!(!name.ends_with(suffix), "{name}");
            }
            assert_eq!(name.ends_with(".duration"), metric.kind == Kind::Histogram, "{name}");
            assert!(seen.insert(name.clone()), "{name} is there twice");
        }
        // A name is not a namespace, too.
        for name in &seen {
            assert!(!seen.iter().any(|other| other.starts_with(&format!("{name}."))), "{name}");
        }
        let known = OWN.iter().all(|(own, _)| ALL.iter().any(|metric| metric.name == *own));
        assert!(known, "a metric that is spelt apart does not exist");
    }

    #[test]
    fn anchors_and_ours() {
        assert_eq!(names::REQUEST.otel_name(), "rpc.server.call.duration");
        assert_eq!(names::REFUSALS.otel_name(), "seawall.admission.refusals");
        assert_eq!(names::STAGE_DELAY.otel_name(), "seawall.stage.queueing_delay");
        assert_eq!(names::POOL.otel_name(), "seawall.credit.pool");
        assert_eq!(names::BYTES_SENT.otel_name(), "seawall.network.sent");
        assert_eq!(names::BANDWIDTH.otel_name(), "seawall.memory.bandwidth");
        assert_eq!(names::BANDWIDTH.otel_unit(), "By/s");
    }

    #[test]
    fn the_document_has_the_table() {
        let document = include_str!("../../../../docs/metrics.md");
        assert!(document.contains(&markdown()), "put this into docs/metrics.md:\n{}", markdown());
    }
}
