//! The demo, in a few seconds instead of ninety.

use serde_json::Value;

use crate::support::{file, succeed};

/// Fields that the documents promise; more may follow.
const POINT: [&str; 13] = [
    "load",
    "control",
    "valid",
    "lateness_p99_us",
    "offered",
    "goodput",
    "throughput",
    "p50_us",
    "p99_us",
    "client_drop_rate",
    "server_drop_rate",
    "latency_censored",
    "lost_rate",
];

#[track_caller]
fn has(object: &Value, fields: &[&str]) {
    let object = object.as_object().expect("it is an object");
    for field in fields {
        assert!(object.contains_key(*field), "{field}");
    }
}

#[test]
fn it_overloads_a_service_with_control_and_without() {
    let page = file("demo.html");
    let path = page.to_str().unwrap();
    let said = succeed(&[
        "demo",
        "--json",
        "--only=synthetic",
        "--seconds=0.2",
        "--loads=0.5,2",
        "--sessions=10",
        "--html",
        path,
    ]);
    let json = said.json();
    let [service] = &json.as_array().unwrap()[..] else { panic!("one service: {json}") };
    has(service, &["service", "slo_us", "peak_uncontrolled", "points", "spike"]);
    assert_eq!(service["service"], "synthetic");
    assert!(service["slo_us"].as_f64().unwrap() > 0.0);
    let points = service["points"].as_array().unwrap();
    let found: Vec<(f64, &str)> = points
        .iter()
        .map(|point| (point["load"].as_f64().unwrap(), point["control"].as_str().unwrap()))
        .collect();
    let expected = [(0.5, "none"), (2.0, "none"), (0.5, "breakwater"), (2.0, "breakwater")];
    assert_eq!(found, expected);
    for point in points {
        has(point, &POINT);
        assert!(point["valid"].is_boolean());
        assert!(point["offered"].as_f64().unwrap() > 0.0);
    }
    has(&service["spike"], &["stable_after_ms", "from_load", "to_load", "at_s", "runs"]);
    assert_eq!(service["spike"]["runs"].as_array().unwrap().len(), 2);
    // 0.2 × 2.14 s after the rise are less than the half second that has to hold.
    assert_eq!(service["spike"]["too_short"], true);
    assert!(service["spike"]["stable_after_ms"].is_null());

    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.contains("breakwater"));
    assert!(text.contains("too short to judge") && !text.contains("did not become stable"));
    assert!(said.stderr.contains(&format!("page with charts: {path}")), "{}", said.stderr);
    // Where nobody looks at a bar there is a line for each of the seven steps.
    assert!(said.stderr.contains("[1/7] synthetic: round trip and capacity"), "{}", said.stderr);
    assert!(said.stderr.contains("[7/7] synthetic: spike to 2× capacity"), "{}", said.stderr);
}
