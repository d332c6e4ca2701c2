//! The names of all metrics: one vocabulary for the live server, the simulator, the metrics
//! endpoint and the documents.
//!
//! Names follow the conventions of Prometheus: the prefix `seawall_`, base units (seconds, bytes)
//! as a suffix, `_total` at the end of counters. A metric that is not in [`ALL`] does not exist;
//! the endpoint registers this list and the README prints it with [`markdown`].
//!
//! ```
//! use seawall_measure::names;
//!
//! assert_eq!(names::REFUSALS.name, "seawall_refusals_total");
//! assert!(names::ALL.contains(&names::REFUSALS));
//! ```

use std::fmt;

/// What a metric's value does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is a distribution.
    Histogram,
}

/// What a metric's value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things: requests, credits, connections.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A share, 0 to 1.
    Ratio,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name at the endpoint.
    pub name: &'static str,
    /// What its value does over time.
    pub kind: Kind,
    /// What its value counts.
    pub unit: Unit,
    /// The labels that tell its series apart.
    pub labels: &'static [&'static str],
    /// One line that says what it is.
    pub help: &'static str,
}

/// Declares each metric as a constant and all of them as the table, so that none is left out.
macro_rules! metrics {
    ($(
        $constant:ident = $name:literal, $kind:ident, $unit:ident, [$($label:literal),*],
        $help:literal;
    )+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $help)]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// Every metric, in the order of the documents.
        pub const ALL: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    // Requests at the server.
    REQUESTS = "seawall_requests_total", Counter, Count, ["method"],
        "Requests received, whatever became of them";
    COMPLETIONS = "seawall_completions_total", Counter, Count, ["method"],
        "Requests served with a result";
    REFUSALS = "seawall_refusals_total", Counter, Count, ["stage"],
        "Requests refused, by the stage that refused them";
    CANCELLATIONS = "seawall_cancellations_total", Counter, Count, ["stage"],
        "Requests given up after they were admitted, by the stage they were in";
    FAILURES = "seawall_failures_total", Counter, Count, ["method"],
        "Requests that ended in an error other than a refusal";
    OUTSTANDING = "seawall_outstanding_requests", Gauge, Count, [],
        "Requests received and not yet answered";
    SERVICE_TIME = "seawall_service_seconds", Histogram, Seconds, ["method"],
        "Time from the start of a request's handler to its result, without waits for stages";
    REQUEST_TIME = "seawall_request_seconds", Histogram, Seconds, ["method"],
        "Time from the arrival of a request at the server to its reply";

    // Stages.
    QUEUEING_DELAY = "seawall_queueing_delay_seconds", Gauge, Seconds, ["stage"],
        "Age of the oldest request waiting at the stage";
    STAGE_WAIT = "seawall_stage_wait_seconds", Histogram, Seconds, ["stage"],
        "Time that a request waited at the stage";
    STAGE_WAITING = "seawall_stage_waiting_requests", Gauge, Count, ["stage"],
        "Requests waiting at the stage";
    PREDICTION_ERROR = "seawall_prediction_error_seconds", Histogram, Seconds, ["stage"],
        "Absolute difference between the predicted and the real wait at the stage";

    // Admission.
    SESSIONS = "seawall_sessions", Gauge, Count, [],
        "Sessions that are open";
    POOL = "seawall_credit_pool", Gauge, Count, [],
        "Credits that the server is willing to have issued, as its policy sized the pool";
    CREDITS_ISSUED = "seawall_credits_issued", Gauge, Count, [],
        "Credits issued: the sum of all sessions' windows, used and unused";
    CREDITS_GRANTED = "seawall_credits_granted_total", Counter, Count, [],
        "Credits granted by growing windows";
    CREDITS_REVOKED = "seawall_credits_revoked_total", Counter, Count, [],
        "Credits taken back by shrinking windows";
    CREDIT_MESSAGES = "seawall_credit_messages_total", Counter, Count, [],
        "Messages that carried a window and no reply";
    DEMAND = "seawall_demand_requests", Gauge, Count, [],
        "Requests that clients last said they have waiting";
    ADMISSION_LIMIT = "seawall_admission_limit", Gauge, Count, [],
        "Requests that a local limit lets in at once";
    ADMISSION_LEVEL = "seawall_admission_level", Gauge, Count, [],
        "Priority level below which a level-based policy refuses";
    WINDOW_VIOLATIONS = "seawall_window_violations_total", Counter, Count, [],
        "Requests refused because their session sent more than its window";
    PRIVILEGE_VIOLATIONS = "seawall_privilege_violations_total", Counter, Count, ["claim"],
        "Claims of priority or of being not droppable that the sender had no right to";

    // Connections.
    CONNECTIONS = "seawall_connections", Gauge, Count, [],
        "Connections that are open";
    CONNECTIONS_ACCEPTED = "seawall_connections_accepted_total", Counter, Count, [],
        "Connections accepted";
    CONNECTIONS_CLOSED = "seawall_connections_closed_total", Counter, Count, ["reason"],
        "Connections closed, by the reason";
    PROTOCOL_ERRORS = "seawall_protocol_errors_total", Counter, Count, ["kind"],
        "Frames that break the protocol, by what is wrong with them";
    BYTES_RECEIVED = "seawall_received_bytes_total", Counter, Bytes, [],
        "Bytes read from connections";
    BYTES_SENT = "seawall_sent_bytes_total", Counter, Bytes, [],
        "Bytes written to connections";
    WRITES = "seawall_writes_total", Counter, Count, [],
        "Writes to connections; replies over writes is how well replies are coalesced";

    // Workers.
    WORKERS = "seawall_workers", Gauge, Count, [],
        "Worker threads";
    WORKER_UTILIZATION = "seawall_worker_utilization_ratio", Gauge, Ratio, [],
        "Share of the workers' time spent on requests";

    // Clients.
    CLIENT_REQUESTS = "seawall_client_requests_total", Counter, Count, ["outcome"],
        "Requests offered to the client, by their outcome";
    CLIENT_DROPS = "seawall_client_drops_total", Counter, Count, ["reason"],
        "Requests given up before they were sent, by the reason";
    CLIENT_LATENCY = "seawall_client_latency_seconds", Histogram, Seconds, ["outcome"],
        "Time from a request's scheduled time to its outcome at the client";
    CLIENT_WAITING = "seawall_client_waiting_requests", Gauge, Count, [],
        "Requests waiting at the client for leave to be sent";
    CLIENT_OUTSTANDING = "seawall_client_outstanding_requests", Gauge, Count, [],
        "Requests sent and not yet answered";
    CLIENT_WINDOW = "seawall_client_window", Gauge, Count, [],
        "Requests that the client may have outstanding: the sum of its sessions' windows";
    CLIENT_RETRIES = "seawall_client_retries_total", Counter, Count, ["cause"],
        "Requests sent again elsewhere, by the cause: a refusal, a timeout, a hedge";
    CLIENT_RETRIES_DENIED = "seawall_client_retries_denied_total", Counter, Count, [],
        "Retries that the retry budget did not allow";

    // The load generator.
    GENERATOR_LATENESS = "seawall_generator_lateness_seconds", Histogram, Seconds, [],
        "How late the load generator handed a request to the client";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
        })
    }
}

/// The table of all metrics in Markdown.
pub fn markdown() -> String {
    let mut table =
        String::from("| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n");
    for Metric { name, kind, unit, labels, help } in ALL {
        let labels = labels.join(", ");
        table.push_str(&format!("| `{name}` | {kind} | {unit} | {labels} | {help} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for Metric { name, kind, unit, labels, help } in ALL {
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.starts_with("seawall_"), "{name}");
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.chars().all(plain), "{name}");
            assert!(labels.iter().all(|label| label.chars().all(plain)), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
            assert_eq!(base.ends_with("_bytes"), *unit == Unit::Bytes, "{name}");
            assert_eq!(base.ends_with("_ratio"), *unit == Unit::Ratio, "{name}");
            assert!(!help.is_empty() && !help.ends_with('.') && !help.contains('\n'), "{name}");
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_metric() {
        assert_eq!(markdown().lines().count(), ALL.len() + 2);
        assert!(markdown().contains("| `seawall_refusals_total` | counter | count | stage | "));
    }
}
