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

pub mod otel;

use std::fmt;

use seawall_control::estimate::BOUNDS;

/// How a request ended: the values of the label `outcome` of [`REQUEST`], in the order in which
/// servers keep their histograms.
pub const OUTCOMES: [&str; 4] = ["done", "failed", "refused", "cancelled"];

/// What a metric's value does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often something took how long, in the [`buckets`].
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
    /// Bytes per second.
    BytesPerSecond,
    /// Watts.
    Watts,
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
    REQUESTS = "seawall_requests_total", Counter, Count, ["class"],
        "Requests received, whatever became of them";
    COMPLETIONS = "seawall_completions_total", Counter, Count, ["class"],
        "Requests served with a result";
    REFUSALS = "seawall_refusals_total", Counter, Count, ["class", "stage", "reason"],
        "Requests refused, by the stage that refused them and why";
    REQUEST = "seawall_request_seconds", Histogram, Seconds, ["class", "outcome"],
        "Time from a request's arrival to the end of its reply: done, failed, refused, cancelled";
    OBSERVED = "seawall_observed_refusals_total", Counter, Count, ["class", "stage", "reason"],
        "Requests that would have been refused, and were served since refusals are only observed";
    SPILLED = "seawall_spilled_total", Counter, Count, ["class"],
        "Requests refused here and handed to a replica, whatever became of them there";
    SPILLED_SERVED = "seawall_spilled_served_total", Counter, Count, ["class"],
        "Requests refused here that a replica ran";
    SPILLED_REFUSED = "seawall_spilled_refused_total", Counter, Count, ["class"],
        "Requests handed to a replica that did not run them either";
    SPILLED_OUTSTANDING = "seawall_spilled_outstanding_requests", Gauge, Count, [],
        "Requests that are at replicas";
    SPILL_REPLICAS = "seawall_spill_replicas", Gauge, Count, [],
        "Replicas to hand requests to that are connected";
    CANCELLATIONS = "seawall_cancellations_total", Counter, Count, ["class"],
        "Requests given up by their clients before they had a result";
    FAILURES = "seawall_failures_total", Counter, Count, ["class"],
        "Requests that ended in an error other than a refusal";
    OUTSTANDING = "seawall_outstanding_requests", Gauge, Count, [],
        "Requests received and not yet answered";
    QUEUEING_DELAY = "seawall_queueing_delay_seconds", Gauge, Seconds, [],
        "Age of the oldest waiting request, summed over the queues in front of the handlers";
    TARGET_DELAY = "seawall_target_delay_seconds", Gauge, Seconds, [],
        "Queueing delay that the algorithm steers for";
    SERVICE_TAIL = "seawall_service_tail_seconds", Gauge, Seconds, [],
        "Time that 99 % of handlers do not exceed, waits at stages apart";
    NETWORK_TAIL = "seawall_network_tail_seconds", Gauge, Seconds, [],
        "Network round trip that 99 % of the newest request's session do not exceed";
    DELAY_BUDGET = "seawall_delay_budget_seconds", Gauge, Seconds, [],
        "Queueing delay that the newest request may meet at all stages together; 0 without a limit";
    WORKER_BUSY = "seawall_worker_busy_seconds", Gauge, Seconds, [],
        "Time that worker threads have spent in handlers since the start";

    // Stages of the service's own: locks, semaphores, pools.
    STAGE_ACQUISITIONS = "seawall_stage_acquisitions_total", Counter, Count, ["stage"],
        "How often a stage was acquired";
    STAGE_WAITS = "seawall_stage_waits_total", Counter, Count, ["stage"],
        "How often somebody waited at a stage and got what was waited for";
    STAGE_REFUSALS = "seawall_stage_refusals_total", Counter, Count, ["stage"],
        "Requests that a stage refused because they could not have waited for it";
    STAGE_WAITED = "seawall_stage_waited_seconds", Gauge, Seconds, ["stage"],
        "How long all together have waited at a stage";
    STAGE_WAIT = "seawall_stage_wait_seconds", Histogram, Seconds, ["stage"],
        "How long requests waited at a stage that got there what they waited for";
    STAGE_DELAY = "seawall_stage_queueing_delay_seconds", Gauge, Seconds, ["stage"],
        "Age of the oldest waiter at a stage";
    STAGE_HOLDS = "seawall_stage_holds_predicted_total", Counter, Count, ["stage", "work"],
        "Holds of a stage that were predicted, by what the holder said that it did";
    STAGE_HOLD_ERROR = "seawall_stage_hold_error_seconds", Gauge, Seconds, ["stage", "work"],
        "What 95 % of the newest 1000 predicted holds were off by at most";

    // The machine.
    MEMORY_CAPACITY = "seawall_memory_semaphore_capacity", Gauge, Count, [],
        "Requests that the memory semaphore lets in at once; its stage is memory";
    MEMORY_HELD = "seawall_memory_semaphore_held", Gauge, Count, [],
        "Requests that are in: more than the capacity for a while after it has shrunk";
    BANDWIDTH = "seawall_memory_bandwidth_bytes_per_second", Gauge, BytesPerSecond, ["source"],
        "Bytes from and to memory, by what counts them: uncore, resctrl, or declared";
    POWER = "seawall_power_watts", Gauge, Watts, [],
        "Power of all processor packages";

    // Admission.
    SESSIONS = "seawall_sessions", Gauge, Count, [],
        "Sessions that are open";
    SESSIONS_REGISTERED = "seawall_sessions_registered", Gauge, Count, [],
        "Sessions that take part in the distribution of credits";
    SESSIONS_DRAINED = "seawall_sessions_drained", Gauge, Count, [],
        "Sessions without credits and without requests in the server";
    POOL = "seawall_credit_pool", Gauge, Count, [],
        "Credits that the server is willing to have issued, as its policy sized the pool";
    CREDITS_ISSUED = "seawall_credits_issued", Gauge, Count, [],
        "Credits issued: the sum of all sessions' windows, used and unused";
    CREDIT_MESSAGES = "seawall_credit_messages_total", Counter, Count, [],
        "Messages that carried a window and no reply";
    CREDIT_ROUND_TRIP = "seawall_credit_round_trip_seconds", Gauge, Seconds, [],
        "Time from telling a client of a credit to the answer of the request that used it";
    ITERATION = "seawall_iteration_seconds", Gauge, Seconds, [],
        "Time for which Protego counted before it sized the pool";
    MARGINAL_EFFICIENCY = "seawall_marginal_efficiency", Gauge, Count, [],
        "Change of throughput over change of load, from one of Protego's iterations to the next";
    UTILITY = "seawall_utility", Gauge, Count, [],
        "Utility that Svalinn's newest experiment had, in whatever unit it is";
    ADMISSION_LIMIT = "seawall_admission_limit", Gauge, Count, [],
        "Requests that a local limit lets in at once";
    ADMISSION_LEVEL = "seawall_admission_level", Gauge, Count, [],
        "Priorities below this are admitted, and its fraction of the requests of the next";
    PRIVILEGED = "seawall_privileged_in_flight", Gauge, Count, [],
        "Requests in the server that must not be dropped";
    BOUNCED = "seawall_bounced_total", Counter, Count, [],
        "Requests refused by the kernel, which the server, waiting for a CPU, did not see";
    WINDOW_VIOLATIONS = "seawall_window_violations_total", Counter, Count, [],
        "Requests refused because their session sent more than its window";
    PRIVILEGE_VIOLATIONS = "seawall_privilege_violations_total", Counter, Count, [],
        "Requests whose sender claimed a priority or privilege that it had no right to";
    HINTS_DISTRUSTED = "seawall_hints_distrusted_total", Counter, Count, [],
        "Requests with an upscale hint whose sender may not give any";

    // The proxy: its gates, and what is behind them.
    GATE_LIMIT = "seawall_gate_limit", Gauge, Count, ["upstream", "class"],
        "Requests that a gate lets in at once: all together, and of one class";
    GATE_IN_FLIGHT = "seawall_gate_in_flight", Gauge, Count, ["upstream", "class"],
        "Requests that a gate has let in and that have not ended";
    GATE_WAITING = "seawall_gate_waiting", Gauge, Count, ["upstream", "class"],
        "Requests that wait at a gate";
    GATE_DELAY = "seawall_gate_queueing_delay_seconds", Gauge, Seconds, ["upstream", "class"],
        "Age of the oldest request that waits at a gate";
    GATE_TAIL = "seawall_gate_service_tail_seconds", Gauge, Seconds, ["upstream", "class"],
        "Time that 99 % of the requests of a class do not exceed behind a gate";
    PROXY_RESPONSES = "seawall_proxy_responses_total", Counter, Count, ["route", "status"],
        "Responses that a proxy gave, by the first digit of their status";
    PROXY_REFUSALS = "seawall_proxy_refusals_total", Counter, Count,
        ["route", "class", "stage", "reason"],
        "Requests that a proxy refused before the upstream had them";
    PROXY_UNREFUSED = "seawall_proxy_unrefused_total", Counter, Count,
        ["route", "class", "stage", "reason"],
        "Requests that a proxy would have refused, were it not only observing";
    PROXY_FAILURES = "seawall_proxy_failures_total", Counter, Count, ["error"],
        "Requests without a response to pass on, by the error's name in RFC 9209";
    CONNECTIONS_OPEN = "seawall_proxy_connections", Gauge, Count, [],
        "Connections of clients that are open at a proxy";
    RELOADS = "seawall_proxy_reloads_total", Counter, Count, ["result"],
        "How often a proxy read its configuration again: used, or refused";
    UPSTREAM_OUTSTANDING = "seawall_upstream_outstanding_requests", Gauge, Count,
        ["upstream", "replica"],
        "Requests that are with a replica behind a proxy";
    UPSTREAM_WELL = "seawall_upstream_well", Gauge, Count, ["upstream", "replica"],
        "1 while a replica is well, 0 while it fails and is left out; if all do, all get requests";
    ATTEMPTS = "seawall_upstream_attempts_total", Counter, Count,
        ["upstream", "replica", "result"],
        "Requests given to a replica: answered, refused, unsent, lost, timed_out";
    UPSTREAM_SLO = "seawall_upstream_slo_seconds", Gauge, Seconds, ["upstream"],
        "Latency that counts as good for an upstream of a proxy, 0 where none is set";
    UPSTREAM_ENFORCES = "seawall_upstream_enforces", Gauge, Count, ["upstream"],
        "1 where a proxy refuses for an upstream, 0 where it only observes what it would refuse";
    RETRIES = "seawall_upstream_retries_total", Counter, Count, ["upstream", "kind"],
        "Requests sent again (retry), moved for nothing (move), or not for the budget (forbidden)";

    // The node agent: one process for all containers of a machine.
    SCALING_UNITS = "seawall_scaling_units", Gauge, Count, ["container"],
        "Units of CPU that a container has";
    SCALING_UNITS_FREE = "seawall_scaling_free_units", Gauge, Count, [],
        "Units of CPU that no container has";
    SCALING_LEVEL = "seawall_scaling_level", Gauge, Count, ["container"],
        "Step of the frequency ladder that a container has, 0 the lowest";
    SCALING_SCORE = "seawall_scaling_score", Gauge, Count, ["container"],
        "Conditions for more CPU that a container fulfils; 0 if it needs nothing";
    SCALING_UNMET = "seawall_scaling_unmet", Gauge, Count, ["container"],
        "1 while a container needs CPU that this node cannot give: a replica elsewhere would help";
    SCALING_SHED = "seawall_scaling_shed_total", Counter, Count, ["container"],
        "Requests that a container refused for want of CPU, as its pages say";
    SCALING_DECISIONS = "seawall_scaling_decisions_total", Counter, Count, ["decision"],
        "Decisions that were carried out, by what was changed and why";
    SCALING_OVERRULED = "seawall_scaling_overruled_total", Counter, Count, [],
        "Decisions that were cut to floor, limit, or what the node has";
    SCALING_REFUSALS = "seawall_scaling_refusals_total", Counter, Count, ["kind"],
        "Reports of containers that could not be believed, by what is wrong with them";
    SCALING_FOREIGN = "seawall_scaling_foreign_changes_total", Counter, Count, [],
        "Changes of containers' CPU that somebody else made";
    SCALING_ERRORS = "seawall_scaling_errors_total", Counter, Count, ["kind"],
        "What the agent could not read, write or do, by kind";
    SCALING_GONE = "seawall_scaling_gone_total", Counter, Count, [],
        "Containers that have gone";
    SCALING_CONTAINERS = "seawall_scaling_containers", Gauge, Count, [],
        "Containers that are managed";
    SCALING_PAGES = "seawall_scaling_pages", Gauge, Count, ["state"],
        "Files of services' metrics: read, or refused";
    SCALING_PASSES = "seawall_scaling_passes_total", Counter, Count, [],
        "Looks at all containers";
    SCALING_PASSES_MISSED = "seawall_scaling_passes_missed_total", Counter, Count, [],
        "Looks that were left out because the one before took too long";
    SCALING_LATE = "seawall_scaling_late_seconds", Gauge, Seconds, [],
        "What 99 % of the newest 1000 looks began late by at most";
    SCALING_PASS = "seawall_scaling_pass_seconds", Gauge, Seconds, [],
        "What 99 % of the newest 1000 looks took at most";
    SCALING_WATCHDOGS = "seawall_scaling_watchdog_starts_total", Counter, Count, [],
        "Starts of the process that puts containers back when the agent dies";

    // The node agent's FirstResponder.
    RESPONDER_WATCHES = "seawall_responder_watches", Gauge, Count, ["source"],
        "1 where late requests are seen: in the kernel, or by services that ring the doorbell";
    RESPONDER_REQUESTS = "seawall_responder_requests_total", Counter, Count, ["source"],
        "Requests that were looked at in the kernel, and rings of the doorbell";
    RESPONDER_LATE = "seawall_responder_late_total", Counter, Count, ["source"],
        "Requests that came later than expected, by who saw them";
    RESPONDER_IGNORED = "seawall_responder_ignored_total", Counter, Count, ["source", "reason"],
        "Requests and rings that led to no boost although they were late or not judged, by why";
    RESPONDER_BOOSTS = "seawall_responder_boosts_total", Counter, Count, ["container"],
        "Times at which a container was boosted";
    RESPONDER_BOOSTED = "seawall_responder_boosted_seconds", Gauge, Seconds, ["container"],
        "Time for which a container was boosted since the start";
    RESPONDER_CUT = "seawall_responder_cut_total", Counter, Count, ["reason"],
        "Boosts that were cut or refused: share of time, room on the node, group around it";
    RESPONDER_FAILURES = "seawall_responder_failures_total", Counter, Count, [],
        "Boosts that could not be written, or whose end could not";

    // Clients: of one session each, so not at the endpoint of a server.
    CREDIT_WINDOW = "seawall_credit_window", Gauge, Count, [],
        "Requests that a client's credits let it have outstanding";
    CLIENT_WINDOW = "seawall_client_window", Gauge, Count, [],
        "Requests that a client lets itself have outstanding";
    CLIENT_RATE = "seawall_client_rate", Gauge, Count, [],
        "Requests that a client lets itself send in a second";
    CLIENT_DROP_PROBABILITY = "seawall_client_drop_probability", Gauge, Count, [],
        "Part of its requests that a client drops, from 0 to 1";

    // Clients in front of HTTP and gRPC services.
    CLIENT_ATTEMPTS = "seawall_client_attempts_total", Counter, Count, ["upstream", "outcome"],
        "Requests sent to a service, by what became of them: retries are counted, too";
    CLIENT_REFUSALS = "seawall_client_refusals_total", Counter, Count, ["upstream", "stage"],
        "Requests that a service refused, by the stage that it told";
    CLIENT_DROPS = "seawall_client_drops_total", Counter, Count, ["upstream", "reason"],
        "Requests given up before they were sent, by the reason";
    CLIENT_RETRIES = "seawall_client_retries_total", Counter, Count, ["upstream", "kind"],
        "Requests sent again or moved to another replica, and those that the budget forbade";
    CLIENT_OUTSTANDING = "seawall_client_outstanding_requests", Gauge, Count, ["upstream"],
        "Requests sent to a service whose responses have not ended";
    CLIENT_PENDING = "seawall_client_pending_requests", Gauge, Count, ["upstream"],
        "Requests that wait for leave to be sent";

    // Connections.
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
            Self::BytesPerSecond => "bytes per second",
            Self::Watts => "watts",
        })
    }
}

/// The bounds of all histograms' buckets, in seconds.
pub fn buckets() -> [f64; BOUNDS.len()] {
    BOUNDS.map(|bound| bound.as_secs_f64())
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
            // All have the buckets of times.
            assert!(*kind != Kind::Histogram || *unit == Unit::Seconds, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
            assert_eq!(base.ends_with("_bytes"), *unit == Unit::Bytes, "{name}");
            assert_eq!(
                base.ends_with("_bytes_per_second"),
                *unit == Unit::BytesPerSecond,
                "{name}"
            );
            assert_eq!(base.ends_with("_watts"), *unit == Unit::Watts, "{name}");
            assert!(!help.is_empty() && !help.ends_with('.') && !help.contains('\n'), "{name}");
        }
    }

    #[test]
    fn bounds_are_the_numbers_that_people_write() {
        let written = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2];
        let longer = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
        assert_eq!(buckets().to_vec(), [&written[..], &longer].concat());
    }

    #[test]
    fn the_readme_has_the_table() {
        let readme = include_str!("../../../README.md");
        assert!(readme.contains(&markdown()), "put this into README.md:\n{}", markdown());
    }

    #[test]
    fn the_table_has_a_row_for_each_metric() {
        assert_eq!(markdown().lines().count(), ALL.len() + 2);
        assert!(
            markdown()
                .contains("| `seawall_request_seconds` | histogram | seconds | class, outcome |")
        );
    }
}
