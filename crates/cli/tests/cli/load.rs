//! Loads, small ones: that they work, never how fast.

use std::io::Write;
use std::net::TcpListener;
use std::thread;

use serde_json::Value;

use crate::support::{Said, Served, fail, run_after, succeed};

/// A load of a moment.
pub(crate) const BRIEFLY: [&str; 8] =
    ["--rate", "300", "--sessions", "4", "--warm-up", "50ms", "--time", "250ms"];

const SYNTHETIC: [&str; 3] = ["synthetic", "--service", "const:10us"];

fn load(servers: &[&Served], arguments: &[&str]) -> Said {
    let addresses: Vec<String> = servers.iter().map(|server| server.address()).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    succeed(&[&["load"], &addresses[..], &BRIEFLY, arguments].concat())
}

/// The keys and values that the documents promise.
#[track_caller]
pub(crate) fn check(summary: &Value, classes: &[&str]) {
    let number = |part: &Value, key: &str| {
        part[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {part}"))
    };
    for key in ["slo_us", "window_seconds", "lateness_p99_us", "sessions"] {
        assert!(number(summary, key) > 0.0, "{key}");
    }
    assert!(summary["valid"].is_boolean() && summary["algorithm"].is_string(), "{summary}");
    let parts = summary["classes"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, classes);
    for key in ["offered", "goodput", "throughput", "p50_us", "p99_us", "p999_us"] {
        assert!(number(summary, key) > 0.0, "{key}");
    }
    for part in parts.iter().chain([summary]) {
        let shares = ["client_drop_rate", "server_drop_rate", "lost_rate", "latency_censored"];
        for key in [&shares[..], &["unanswered", "failed"]].concat() {
            assert!(number(part, key) >= 0.0, "{key}");
        }
        assert!(number(part, "goodput") <= number(part, "offered"));
    }
}

#[test]
fn a_synthetic_service() {
    let server = Served::start(&SYNTHETIC);
    let summary = load(&[&server], &["--json"]).json();
    check(&summary, &["work"]);
    assert_eq!(summary["algorithm"], "breakwater");
    assert_eq!(summary["sessions"], 4);
    assert_eq!(summary["slo_us"], 5e6, "what the server says");
    assert_eq!(summary["failed"], 0);
    let summary = load(&[&server], &["--json", "--slo", "4s"]).json();
    assert_eq!(summary["slo_us"], 4e6, "what was chosen");
}

#[test]
fn every_algorithm_serves() {
    for algorithm in seawall_control::admission::NAMES {
        let server = Served::start(&[&["--algorithm", algorithm][..], &SYNTHETIC].concat());
        let summary = load(&[&server], &["--json", "--algorithm", algorithm]).json();
        check(&summary, &["work"]);
        assert_eq!(summary["algorithm"], algorithm);
    }
}

#[test]
fn a_key_value_store() {
    let server = Served::start(&["kv"]);
    let mix = ["--workload", "kv", "--mix", "0.5/uniform:200/uniform:1:64", "--json"];
    let summary = load(&[&server], &mix).json();
    check(&summary, &["get", "set"]);
    assert_eq!(summary["hit_share"], 1.0, "all keys were written before");
    let said = load(&[&server], &mix[..4]);
    assert!(said.stdout.contains("100 % of the lookups found something"), "{said:?}");
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 100), "{said:?}");
}

#[test]
fn every_kind_of_lock_serves_protegos_mixes() {
    for (name, _) in seawall_control::predict::lock::LockKind::NAMED {
        let server = Served::start(&["kv", "--locks", name]);
        let var = ["--workload", "kv", "--mix", "0.18/hot:200:0.1:0.9/uniform:5:1000", "--json"];
        check(&load(&[&server], &var).json(), &["get", "set"]);
    }
}

#[test]
fn large_values_are_read_apart_whatever_the_semaphore() {
    let mix = "0.5/uniform:200/uniform:5:1000/0.5/uniform:9/uniform:800000:1200000";
    for semaphore in ["none", "try", "wait"] {
        let sizes = ["item_bytes_max=1300000", "memory_limit_mib=64"];
        let sizes = sizes.map(|size| format!("--set=kv.store.{size}"));
        let kv = ["kv", "--semaphore", semaphore, "--set=server.limits.body_bytes=1300000"];
        let server = Served::start(&[&kv[..], &[&sizes[0], &sizes[1]]].concat());
        let summary = load(&[&server], &["--workload", "kv", "--mix", mix, "--json"]).json();
        check(&summary, &["get", "set", "get_large"]);
        assert_eq!(summary["hit_share"], 1.0, "all keys were written before");
    }
}

#[test]
fn a_store_that_does_not_take_the_values_says_why() {
    let server = Served::start(&["kv", "--set", "kv.store.item_bytes_max=1024"]);
    let address = server.address();
    let large = ["load", &address, "--workload", "kv", "--mix", "0/uniform:20/const:2000"];
    fail(&large, &["cannot fill the store", "at most 1024 fit"]);
    // What no server reads is not even made.
    let huge = ["load", &address, "--workload", "kv", "--mix", "0/uniform:20/const:1073741824"];
    fail(&huge, &["values of up to 1073741824 bytes", "reads up to 1048576", "body_bytes"]);
}

#[test]
fn a_table_for_people() {
    let server = Served::start(&SYNTHETIC);
    let said = load(&[&server], &[]);
    for text in ["goodput/s", "breakwater, 4 sessions, SLO 5.00 s", "dropped: by the clients"] {
        assert!(said.stdout.contains(text), "{said:?}");
    }
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 100), "{said:?}");
}

#[test]
fn schedules_threads_and_processes() {
    let server = Served::start(&SYNTHETIC);
    let cases: [&[&str]; 4] = [
        &["--rate", "0s:0.5x,100ms:2x", "--capacity", "0.2k"],
        &["--threads", "3"],
        &["--arrivals", "constant"],
        &["--arrivals", "bursts:4:40ms:5ms", "--deadline", "4s", "--set", "client.expiry=1s"],
    ];
    for case in cases {
        let address = server.address();
        let load = [&["load", &address, "--json"], &BRIEFLY[2..], case].concat();
        check(&succeed(&load).json(), &["work"]);
    }
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let server = Served::start(&SYNTHETIC);
    let address = server.address();
    let load = ["load", &address, "--sessions=100", "--warm-up=0s", "--time=50ms"];
    let said = run_after("ulimit -Sn 64", &load);
    assert!(said.status.success(), "{said:?}");
}

#[test]
fn replicas_must_agree_where_it_matters() {
    let one = Served::start(&SYNTHETIC);
    let other = Served::start(&[&["--algorithm", "none"][..], &SYNTHETIC].concat());
    let summary = load(&[&one, &other], &["--json"]).json();
    check(&summary, &["work"]);
    assert_eq!(summary["algorithm"], "breakwater and none");

    let (one, other) = (one.address(), other.address());
    let mismatch = [&format!("{other} runs the algorithm none, not breakwater"), "--algorithm"];
    let wanted = ["--algorithm", "breakwater"];
    fail(&[&["load", &one, &other], &BRIEFLY[..], &wanted].concat(), &mismatch);

    let slower = Served::start_with_slo("6s", &SYNTHETIC);
    let address = slower.address();
    let both = [&["load", &one, &address], &BRIEFLY[..]].concat();
    fail(&both, &[&format!("{address} has an SLO of 6s, others of 5s"), "--slo"]);
    succeed(&[&both[..], &["--slo", "6s"]].concat());
}

#[test]
fn a_server_of_another_kind_is_told_apart() {
    let store = Served::start(&["kv"]);
    let said = load(&[&store], &[]);
    assert!(said.stderr.contains("warning: requests failed, the first one with:"), "{said:?}");

    let synthetic = Served::start(&SYNTHETIC);
    let address = synthetic.address();
    fail(
        &["load", &address, "--workload", "kv"],
        &["cannot fill the store at", "is it `seawall serve kv`?"],
    );
}

#[test]
fn a_server_of_another_protocol_is_told_apart() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.map(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    fail(&["load", &address, "--sessions", "1"], &["session 1 of 1", "protocol", &address]);
}
