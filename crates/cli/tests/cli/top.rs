//! A terminal's view of a server.

use std::thread;

use serde_json::Value;

use crate::support::{fail, free_port, succeed, until};
use crate::watched::Watched;

#[test]
fn one_table_says_what_happens() {
    let watched = Watched::start(&["synthetic", "--service=const:10us"]);
    let url = format!("http://{}/", watched.server.metrics());
    let once = ["top", &url, "--once", "--interval=200ms"];
    let idle = succeed(&[&once[..], &["--json"]].concat()).json();
    assert_eq!((&idle["level"], &idle["load"]), (&Value::from("idle"), &Value::from(0.0)));
    assert!(idle["about"].as_str().unwrap().contains("algorithm breakwater"), "{idle}");
    thread::scope(|scope| {
        let address = watched.server.address();
        let load = ["load", &address, "--rate=200", "--warm-up=0s", "--time=5s"].map(str::to_owned);
        let load = scope.spawn(move || succeed(&load.each_ref().map(String::as_str)));
        let mut busy = Value::Null;
        until("it is loaded", || {
            busy = succeed(&[&once[..], &["--json"]].concat()).json();
            busy["goodput"].as_f64() > Some(0.0)
        });
        assert!(busy["seconds"].as_f64() > Some(0.0), "{busy}");
        assert!(busy["p99_s"].as_f64() >= busy["p50_s"].as_f64(), "{busy}");
        assert!(busy["sentence"].as_str().unwrap().contains("/s"), "{busy}");
        load.join().expect("the load ends well");
    });
    let table = succeed(&once).stdout;
    for name in ["Idle: no requests", "load", "goodput", "refused", "sessions"] {
        assert!(table.contains(name), "{name}: {table}");
    }
}

#[test]
fn what_is_no_listener_of_ours_is_named() {
    let nobody = format!("127.0.0.1:{}", free_port());
    fail(&["top", &nobody, "--once"], &[&format!("cannot connect to {nobody}")]);
    fail(&["top", "https://127.0.0.1:1/", "--once"], &["https is not spoken", "http://HOST:PORT/"]);
    fail(&["top", "localhost", "--once"], &["localhost names no host with a port"]);
    let watched = Watched::start(&["synthetic"]);
    let listener = watched.server.metrics();
    let health = format!("http://{listener}/healthz");
    fail(&["top", &health, "--once"], &["shows no metrics", "line 1"]);
    let missing = format!("http://{listener}/nothing");
    fail(&["top", &missing, "--once"], &["answers 404", "/metrics"]);
    fail(&["top", &listener], &["no terminal", "--once"]);
    fail(&["top", &listener, "--interval=1ms"], &["100ms to 1m"]);
}
