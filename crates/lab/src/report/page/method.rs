//! How it was measured.

use crate::report::format;

/// A name, and what it means.
type Rule<'a> = (&'a str, &'a str);

/// Width of the bins of the demo, in seconds: as in Breakwater's figure 7.
const DEMO_BIN_S: f64 = 0.02;

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

/// The rules of the demo, whose SLO is this many times what a request takes.
pub fn of_demo(slo_factor: u32) -> String {
    let slo = format!(
        "{slo_factor} × the mean service time, and the round trip where that is not much shorter."
    );
    let rules = [
        (
            "Load",
            "Open loop: requests are due at random times that do not depend on the answers. A load \
             of 1.0× is the capacity, measured first.",
        ),
        ("SLO", &slo),
        LATENCY,
        GOODPUT,
        (
            "±",
            "Half of the 95 % confidence interval of the goodput, by the means of batches of \
             200 ms.",
        ),
        (
            "Disturbed",
            "Threads that only sleep tell how long the machine stalled. A point that stalled for \
             more than 0.5 % of its time, or that was not valid, is measured once more; nothing is \
             subtracted.",
        ),
    ];
    section(&rules, DEMO_BIN_S)
}

/// The rules of one load, whose bins are this wide.
pub fn of_run(bin_s: f64) -> String {
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

    #[test]
    fn bins_are_as_wide_as_they_are() {
        assert!(of_demo(10).contains("every bin of 20 ms has"));
        assert!(of_run(0.06).contains("every bin of 60 ms has"));
    }
}
