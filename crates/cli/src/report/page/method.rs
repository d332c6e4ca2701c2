//! How it was measured.

use crate::report::data::{SLO_FACTOR, SPIKE_BIN_S, ServiceReport};
use crate::report::format;

/// How far a given SLO may be from the rule before it counts as chosen.
const SLO_TOLERANCE: f64 = 0.02;

/// The SLO and where it comes from.
pub(super) fn slo(service: &ServiceReport) -> String {
    let slo = format::delay(service.slo_us);
    let (own, trip) = (format::delay(service.service_us), format::delay(service.rtt_us));
    let rule = f64::from(SLO_FACTOR) * (service.service_us + service.rtt_us);
    if (service.slo_us - rule).abs() <= SLO_TOLERANCE * rule {
        format!("SLO {slo} = {SLO_FACTOR} × ({own} mean service + {trip} round trip)")
    } else {
        format!("SLO {slo} (chosen; mean service {own}, round trip {trip})")
    }
}

/// A name, and what it means.
type Rule<'a> = (&'a str, &'a str);

const LATENCY: Rule<'_> = (
    "Latency",
    "From the time at which a request was due, not from when it was sent: waiting in the client \
     counts.",
);
const GOODPUT: Rule<'_> = (
    "Goodput",
    "Requests per second that succeeded within the SLO. A refusal is never goodput, however quick.",
);
const SERVED: Rule<'_> = (
    "Served",
    "Successes per second that completed while it was measured, whenever they were due.",
);
const NOT_VALID: Rule<'_> = (
    "Not valid",
    "A point is marked when the generator could not offer the load, or not on time. Its numbers \
     are shown but never judged.",
);

/// The rules of the demo, the same for all services.
pub(super) fn of_services() -> String {
    let slo = format!("{SLO_FACTOR} × (mean service time + round trip without load).");
    let rules = [
        (
            "Load",
            "Open loop: requests are due at random times that do not depend on the answers. A load \
             of 1.0× is the capacity that was measured first.",
        ),
        ("SLO", &slo),
        LATENCY,
        GOODPUT,
        (
            "Peak",
            "The highest throughput of any valid point without control: what goodput with control \
             is compared with. Where none of them reached the capacity, that takes its place.",
        ),
        SERVED,
    ];
    section(&rules, SPIKE_BIN_S)
}

/// The rules of one load, whose bins are this wide.
pub(super) fn of_run(bin_s: f64) -> String {
    let rules = [
        ("Load", "Open loop: requests are due at times that do not depend on the answers."),
        LATENCY,
        GOODPUT,
        SERVED,
        (
            "Over time",
            "The charts show the whole run, the warm-up included; the numbers count the requests \
             that were due after it. A request is offered when it is due, and all else about it \
             belongs to the time at which it ended.",
        ),
    ];
    section(&rules, bin_s)
}

/// These rules, and those that hold for all.
fn section(rules: &[Rule<'_>], bin_s: f64) -> String {
    let stable = format!(
        "The first time after a change of the load from which, for 500 ms, every bin of {} has at \
         least 0.9 of the final goodput and a p99 within the SLO; with few requests, neighbouring \
         bins are judged together.",
        format::round(&format::delay(bin_s * 1e6)),
    );
    let rules = super::definitions(&[rules, &[NOT_VALID, ("Stable", &stable)]].concat());
    format!("<section>\n<h2>How it was measured</h2>\n{rules}</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn bins_are_as_wide_as_they_are() {
        assert!(of_services().contains("every bin of 20 ms has"));
        assert!(of_run(0.06).contains("every bin of 60 ms has"));
    }

    #[test]
    fn the_rule_is_shown_only_where_it_holds() {
        let mut service = sample::service();
        assert_eq!(slo(&service), "SLO 1.10 ms = 10 × (8.30 µs mean service + 102 µs round trip)");
        service.slo_us = 500.0;
        assert_eq!(slo(&service), "SLO 500 µs (chosen; mean service 8.30 µs, round trip 102 µs)");
    }
}
