//! The demo, in a few seconds instead of eighty.

use serde_json::Value;

use crate::support::{file, run};

/// Numbers that the documents promise of every point.
const NUMBERS: [&str; 8] = [
    "load",
    "offered",
    "goodput",
    "throughput",
    "goodput_interval",
    "rejected_by_server",
    "rejected_by_client",
    "lost",
];

/// Short points say little, so whether the story held is the machine's affair; but exit status and
/// result have to agree on it.
#[test]
fn it_overloads_two_services_without_control_and_with_it() {
    let (page, picture) = (file("demo.html"), file("demo.svg"));
    let (page_name, picture_name) = (page.to_str().unwrap(), picture.to_str().unwrap());
    let said = run(&[
        "demo",
        "--json",
        "--stretch=0.1",
        "--loads=0.5,2",
        "--sessions=10",
        "--html",
        page_name,
        "--picture",
        picture_name,
    ]);
    let json = said.json();
    assert_eq!(json["held"], said.status.success(), "{said:?}");
    assert_eq!(json["unmet"].as_array().unwrap().is_empty(), said.status.success(), "{said:?}");
    assert!(!said.stdout.contains("null"), "{}", said.stdout);
    let services = json["services"].as_array().unwrap();
    assert_eq!([&services[0]["service"], &services[1]["service"]], ["worker", "lock"]);
    services.iter().for_each(check);
    let spike = &services[0]["spike"];
    assert_eq!(spike["runs"].as_array().unwrap().len(), 2);
    // 0.3 s after the rise are less than the half second that has to hold.
    assert_eq!(spike["runs"][1]["too_short"], true);
    assert!(services[1].get("spike").is_none());

    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("With Seawall, goodput at 2.0×"));
    assert_eq!(page.matches("<svg ").count(), 7);
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("with Seawall"));
    // Where nobody looks at a bar there is a line for each step.
    let steps = ["[1/12] worker: capacity", "[12/12] lock: 2.0×, breakwater"];
    assert!(steps.iter().all(|step| said.stderr.contains(step)), "{}", said.stderr);
}

#[track_caller]
fn check(service: &Value) {
    let rate = |value: &Value| value.as_f64().unwrap();
    assert!(rate(&service["slo_us"]) > 0.0 && rate(&service["capacity"]) > 0.0, "{service}");
    let points = service["points"].as_array().unwrap();
    let found: Vec<(f64, &str)> = points
        .iter()
        .map(|point| (rate(&point["load"]), point["control"].as_str().unwrap()))
        .collect();
    let by_turns = [(0.5, "none"), (0.5, "breakwater"), (2.0, "none"), (2.0, "breakwater")];
    assert_eq!(found, by_turns);
    for point in points {
        for number in NUMBERS {
            assert!(point[number].is_number(), "{number}: {point}");
        }
        assert!(point["valid"].is_boolean() && rate(&point["offered"]) > 0.0, "{point}");
    }
    let classes = |point: &Value| point["classes"].as_array().map_or(0, Vec::len);
    let expected = if service["service"] == "lock" { 2 } else { 0 };
    assert!(points.iter().all(|point| classes(point) == expected), "{service}");
}
