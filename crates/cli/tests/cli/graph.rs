//! `seawall graph`: real services under load, and nothing left of them afterwards.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{fail, file, file_with, succeed, until};

/// Two contenders over in a moment, with a target that no machine is too slow for.
const PLAN: &str = "
    title = 'A small graph'
    about = 'Why it is so small.'
    graph = 'chain'
    time_scale = 5
    units_total = 10
    units_spare = 5
    pool = 4
    qos = '5s'
    [load]
    rate = 100
    surge = { factor = 2, length = '100ms', every = '300ms' }
    warm_up = '200ms'
    time = '600ms'
    sessions = 4
    [calibration]
    time = '300ms'
    [[contender]]
    name = 'static'
    scaling.policy = 'static'
    [[contender]]
    name = 'escalator'
    scaling = { policy = 'escalator', escalator.interval = '10ms' }
";

#[test]
fn contenders_are_measured_saved_and_shown_again() {
    let plan = file_with("graph.toml", PLAN);
    let folder = file("graphs");
    let folder = folder.to_str().unwrap();
    let said = succeed(&["graph", "run", &plan, "--json", "--save", folder]);
    assert!(said.stderr.contains("[3/3] round 1: escalator"), "{said:?}");
    let results = said.json();
    assert_eq!(results["units"], serde_json::json!([10, 15]), "{results}");
    assert_eq!(results["services"].as_array().unwrap().len(), 5);
    assert!(results["calm_ms"].as_f64() > Some(5.0), "five services of 1 ms: {results}");
    for (point, name) in results["points"].as_array().unwrap().iter().zip(["static", "escalator"]) {
        check(point, name);
    }
    let fixed = &results["points"][0];
    assert_eq!((&fixed["units_used"], &fixed["agent"]["decisions"]), (&10.0.into(), &0.into()));

    let page = format!("{folder}/page.html");
    let shown = succeed(&["graph", "run", &plan, "--from", folder, "--html", &page]).stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["A small graph", "static", "escalator", "10 units at first, 15 in all", "ping-4"] {
        assert!(words.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Why it is so small.") && page.matches("<svg").count() == 5, "{page}");
}

#[track_caller]
fn check(point: &Value, name: &str) {
    assert_eq!(point["contender"], name);
    let volume = &point["volume"];
    let requests = volume["requests"].as_u64().unwrap();
    assert_eq!(point["figures"]["offered_count"].as_u64(), Some(requests), "{point}");
    assert_eq!((volume["refused"].as_u64(), volume["unanswered"].as_u64()), (Some(0), Some(0)));
    assert!(volume["area_ms_s"] == 0.0, "nothing takes five seconds: {volume}");
    let units = point["units_used"].as_f64().unwrap();
    assert!((10.0..=15.0).contains(&units), "{units}");
    assert_eq!(point["curve"].as_array().unwrap().len(), 6, "{point}");
    for service in point["services"].as_array().unwrap() {
        assert!(service["requests"].as_u64() > Some(0), "{service}");
        assert!(service["exec_metric_ms"].as_f64() > Some(0.9), "{service}");
        assert!(service["queue_buildup"].as_f64() >= Some(1.0), "{service}");
    }
    assert!(point["agent"]["looks"].as_u64() > Some(0), "{point}");
}

#[test]
fn a_graph_is_shown() {
    let shown = succeed(&["graph", "show", "chain"]).stdout;
    assert!(shown.contains("34 units do 30.0k jobs/s, which ping-4 bounds."), "{shown}");
    let more = succeed(&["graph", "show", "chain", "--units", "35"]).stdout;
    assert!(more.contains("35 units do 35.0k jobs/s, which ping-0 bounds."), "{more}");
}

#[test]
fn errors_say_what_is_wrong() {
    fail(&["graph", "show", "tree"], &["there is no graph tree; allowed: chain, read-user"]);
    fail(&["graph", "serve", "chain", "pong"], &["chain has no service pong; it has ping-0"]);
    fail(&["graph", "serve", "chain", "ping-0"], &["ping-0 calls ping-1, and nobody said where"]);
    fail(&["graph", "serve", "chain", "ping-4", "--quantum", "1us"], &["cpu.quantum"]);
    fail(&["graph", "serve", "./none.toml", "ping-4"], &["cannot read ./none.toml"]);
    let plan = file_with("bad-graph.toml", &PLAN.replace("'chain'", "'tree'"));
    fail(&["graph", "run", &plan], &["bad-graph.toml: graph: there is no graph tree"]);
    let plan = file_with("bad-pool.toml", &PLAN.replace("pool = 4", "pool = 0"));
    fail(&["graph", "run", &plan], &["service ping-0, pool to ping-1: it has 0 connections"]);
}

/// Processes of the services whose table lies in the folder of a run.
fn services(run: u32) -> Vec<u32> {
    let table = folder(run) + "/graph.toml";
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&table) {
            found.push(pid);
        }
    }
    found
}

fn folder(run: u32) -> String {
    std::env::temp_dir().join(format!("seawall-graph-{run}")).to_string_lossy().into_owned()
}

/// A run that ends with the test, however that ends.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

fn start(plan: &str) -> Run {
    // A shell that runs tests in the background has them ignore SIGINT.
    let run = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_seawall"), "graph", "run", plan])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Run(run.unwrap())
}

#[test]
fn who_kills_a_run_kills_its_services() {
    let plan = file_with("long-graph.toml", &PLAN.replace("'600ms'", "'60m'"));
    for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
        let mut run = start(&plan);
        until("all services run", || services(run.id()).len() == 5);
        kill(Pid::from_raw(run.id().cast_signed()), signal).unwrap();
        run.0.wait().unwrap();
        until("they have ended", || services(run.id()).is_empty());
        until("the folder is gone", || !Path::new(&folder(run.id())).exists());
    }
}

#[test]
fn quotas_bound_services_and_their_groups_go_with_the_run() {
    if !nix::unistd::geteuid().is_root() {
        return; // control groups are made by root alone
    }
    let quota = PLAN
        .replace("time_scale = 5", "time_scale = 0.5\ncpu.kind = 'quota'\nunit_milli = 50")
        .replace(
            "policy = 'static'",
            "policy = 'static'\n[[contender]]\nname = 'x'\nscaling.policy = 'static'",
        );
    let plan = file_with("quota-graph.toml", &quota.replace("'600ms'", "'60m'"));
    let mut run = start(&plan);
    let group = |controller: &str| {
        Path::new("/sys/fs/cgroup").join(controller).join(format!("seawall-{}", run.id()))
    };
    let all = ["cpu", "cpu,cpuacct", ""].map(group);
    until("all services run", || services(run.id()).len() == 5);
    let there = all.iter().find(|group| group.exists()).expect("the groups are there").clone();
    // Two units of 50 thousandths over 50 ms, of the first service of the first contender.
    until("the quota is set", || {
        let quota = std::fs::read_to_string(there.join("replica-0/cpu.cfs_quota_us"))
            .or_else(|_| std::fs::read_to_string(there.join("replica-0/cpu.max")));
        quota.is_ok_and(|quota| quota.starts_with("5000"))
    });
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    until("they have ended", || services(run.id()).is_empty());
    until("the groups are gone", || !there.exists());
}
