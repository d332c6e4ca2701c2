//! Servers that hand on what they refuse, and what they tell of requests by class.

use seawall_measure::names;
use serde_json::Value;

use crate::support::{Served, fail, succeed, until};
use crate::watched::Watched;

/// A server that lets one request in at once.
const NARROW: [&str; 5] = [
    "synthetic",
    "--service=const:2ms",
    "--algorithm=aimd",
    "--set=server.admission.aimd.limit_initial=1",
    "--set=server.admission.aimd.limit_max=1",
];

fn load(address: &str) {
    let load = ["load", address, "--rate=2k", "--sessions=20", "--warm-up=0s", "--time=300ms"];
    succeed(&[&load[..], &["--slo=5s"]].concat());
}

#[test]
fn what_is_refused_is_handed_on_and_told_at_the_end() {
    let replica = Served::start(&["synthetic", "--service=const:0us"]);
    let spill = format!("--spill={}", replica.address());
    let server = Watched::start(&[&NARROW[..], &[&spill, "--json"]].concat());
    until("the replica is connected", || server.value(&names::SPILL_REPLICAS) == Some(1.0));
    load(&server.server.address());
    until("something is told", || server.value(&names::SPILLED_SERVED) > Some(0.0));
    let class = "class=\"work/null/first\"";
    let labelled = |metric: &names::Metric| {
        server.scrape().lines().any(|line| line.starts_with(metric.name) && line.contains(class))
    };
    for metric in [names::REQUESTS, names::SPILLED, names::SPILLED_SERVED] {
        assert!(labelled(&metric), "{}", server.scrape());
    }
    let (output, errors) = server.server.last_words();
    let told: Value = serde_json::from_str(&output).unwrap();
    let requests = &told["requests"][0];
    let count = |name: &str| requests[name].as_u64().unwrap();
    assert_eq!(requests["class"], "work/null/first", "{told}");
    assert!(count("served_there") > 0 && count("served_there") <= count("handed_on"), "{told}");
    assert!(count("received") >= count("served"), "{told}");
    assert_eq!(errors, "");
}

#[test]
fn a_table_of_the_classes_stands_at_the_end() {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--slo=5s"];
    let paths = ["--service=const:0us", "--paths=two:0.5"];
    let server = Served::start_exactly(&[&arguments, &["synthetic"][..], &paths].concat());
    let more = ["--path-by", "method", "--paths", "two:0.5", "--warm-up=0s", "--time=200ms"];
    succeed(&[&["load", &server.address(), "--rate=500"], &more[..]].concat());
    let (_, errors) = server.last_words();
    let table: Vec<&str> = errors.lines().skip_while(|line| *line != "requests:").collect();
    let head: Vec<&str> = table[1].split_whitespace().collect();
    assert_eq!(head, ["class", "received", "served", "refused", "cancelled", "failed"], "{errors}");
    for class in ["work/null/first", "second"] {
        let row = table.iter().find(|line| line.starts_with(class)).expect(class);
        let counts: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((counts[1], counts[3], counts[5]), (counts[2], "0", "0"), "{errors}");
    }
}

#[test]
fn nonsense_is_named() {
    let this = ["serve", "synthetic", "--listen=127.0.0.1:7117", "--spill=127.0.0.1:7117"];
    fail(&this, &["server.spill.replicas: 127.0.0.1:7117 is this server; name others"]);
    fail(
        &["serve", "synthetic", "--set=server.spill.outstanding=0"],
        &["server.spill.outstanding: 0 is out of range; allowed is 1 to 1048576"],
    );
    fail(&["serve", "synthetic", "--set=server.spill.at=lunch"], &["lunch"]);
}
