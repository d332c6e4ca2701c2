//! The synthetic service with locks: what it refuses, and what it says of them.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use seawall_control::request::{Rejected, Stage};
use seawall_rpc::{CallError, ClientConfig, Request, Session};
use serde_json::Value;

use crate::load::{BRIEFLY, check};
use crate::support::{Served, fail, succeed};

/// Requests that hold one lock for 10 ms, but for those that `share` leaves out.
fn service<'a>(paths: &'a str, locks: &'a str) -> [&'a str; 9] {
    [
        "synthetic",
        "--service",
        "const:0us",
        "--wait",
        "const:10ms",
        "--paths",
        paths,
        "--locks",
        locks,
    ]
}

/// The method of the synthetic service that takes time.
const WORK: u16 = 101;

/// The first refusal at a stage of its own of a server that is called again and again, and what it
/// calls the stage.
fn refusal(server: &Served) -> (Rejected, String) {
    let address: SocketAddr = server.address().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = Session::connect(address, &ClientConfig::default()).await.unwrap();
        let (tell, told) = mpsc::channel();
        for _ in 0..10_000 {
            // Five come while one has the lock, so that those who wait grow older and older.
            let tell = tell.clone();
            let done = move |result| _ = tell.send(result);
            session.submit(Request::new(WORK, ""), Box::new(done));
            tokio::time::sleep(Duration::from_millis(2)).await;
            for result in told.try_iter() {
                if let Err(CallError::Rejected(rejected)) = result
                    && rejected.stage.0 >= Stage::FIRST_OWN
                {
                    let stages = &session.settings().stages;
                    let name = stages.iter().find(|(stage, _)| *stage == rejected.stage);
                    return (rejected, name.expect("it has a name").1.clone());
                }
            }
        }
        panic!("nobody is refused");
    })
}

#[test]
fn a_refusal_names_the_lock_and_the_predicted_wait() {
    let budget = ["--algorithm", "none", "--set", "server.budget={ fixed = '5ms' }"];
    for locks in ["oldest-waiter", "queued-work", "larger"] {
        let server = Served::start(&[&budget[..], &service("hot:1", locks)].concat());
        let (refused, name) = refusal(&server);
        assert_eq!((refused.stage, &*name), (Stage(16), "first_lock"), "{locks}");
        assert!(refused.predicted_delay > Duration::ZERO, "{locks}: {refused}");
    }
}

#[test]
fn a_lock_that_is_only_tried_refuses_without_a_wait() {
    let server = Served::start(&[&["--algorithm", "none"][..], &service("two:0", "try")].concat());
    let (refused, name) = refusal(&server);
    assert_eq!((refused.stage, &*name), (Stage(17), "second_lock"));
}

#[test]
fn both_paths_are_measured_apart() {
    let server = Served::start(&service("hot:0.5", "larger"));
    let address = server.address();
    for by in ["method", "data"] {
        let paths = ["--path-by", by, "--paths", "hot:0.3", "--json"];
        let summary = succeed(&[&["load", &address], &BRIEFLY[..], &paths].concat()).json();
        check(&summary, &["first", "second"]);
        let offered = |class: usize| summary["classes"][class]["offered"].as_f64().unwrap();
        assert!(offered(0) > 0.0 && offered(1) > offered(0), "{by}: {summary}");
    }
}

#[test]
fn a_third_path_computes() {
    let service = [&service("three:0.3:0.3", "larger")[..], &["--set=synthetic.third=const:1ms"]];
    let server = Served::start(&service.concat());
    let address = server.address();
    let paths = ["--path-by", "method", "--paths", "three:0.3:0.3", "--json"];
    let summary = succeed(&[&["load", &address], &BRIEFLY[..], &paths].concat()).json();
    check(&summary, &["first", "second", "third"]);
}

#[test]
fn what_one_server_refuses_another_gets() {
    let busy = Served::start(&service("hot:1", "try"));
    let servers = [busy, Served::start(&["synthetic", "--service=const:10us"])];
    let [busy, free] = servers.each_ref().map(Served::address);
    let retry = ["--retry", "--set", "client.retry.budget=1", "--json"];
    let summary = succeed(&[&["load", &busy, &free], &BRIEFLY[..], &retry].concat()).json();
    let count = |key: &str| summary["retries"][key].as_u64().unwrap();
    assert!(count("retries") > 0 && count("calls") > count("retries"), "{summary}");
    assert_eq!(summary["server_drop_rate"], 0.0, "all were served at last: {summary}");
    let said = succeed(&[&["load", &busy, &free], &BRIEFLY[..], &["--retry"]].concat());
    assert!(said.stdout.contains("went to another server"), "{said:?}");
    assert!(said.stdout.lines().all(|line| line.chars().count() <= 100), "{said:?}");
}

#[test]
fn contended_stages_are_listed_at_the_end() {
    let load = |server: &Served| {
        let address = server.address();
        succeed(&[&["load", &address], &BRIEFLY[..]].concat());
    };
    let server = Served::start(&[&["--json"][..], &service("two:0.9", "plain")].concat());
    load(&server);
    let report: Value = serde_json::from_str(&server.last_words().0).unwrap();
    let first = &report["stages"][0];
    assert_eq!((&first["name"], &first["stage"]), (&"first_lock".into(), &16.into()), "{report}");
    assert!(
        first["waits"].as_u64() > Some(0) && first["waited_s"].as_f64() > Some(0.0),
        "{report}"
    );

    let people = [&["serve", "--listen", "127.0.0.1:0"][..], &service("hot:1", "plain")].concat();
    let server = Served::start_exactly(&people);
    load(&server);
    let (_, errors) = server.last_words();
    assert!(errors.contains("contended stages:") && errors.contains("first_lock"), "{errors}");
    let table = errors.lines().skip_while(|line| !line.starts_with("contended"));
    assert!(table.clone().count() > 2 && table.clone().all(|line| line.len() <= 110), "{errors}");
}

#[test]
fn nonsense_is_refused() {
    fail(&["serve", "synthetic", "--paths", "three:1"], &["share is missing", "three:SHARE:SHARE"]);
    fail(&["serve", "synthetic", "--attempts", "0"], &["server.attempts: 0", "1 to 16"]);
    let target = ["serve", "synthetic", "--target-delay", "3ms"];
    fail(&target, &["server.target_delay: 3ms", "up to the SLO"]);
    let load = ["load", "127.0.0.1:1", "--path-by", "data", "--paths"];
    fail(&[&load[..], &["hot:2"]].concat(), &["share is 2", "0 to 1"]);
    fail(&[&load[..], &["hot:0.5", "--workload", "kv"]].concat(), &["--path-by"]);
}
