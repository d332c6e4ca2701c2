//! The whole agent, with pods that are resized.

use std::fs;
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::scaling::{Causes, Change, Decision, Outcome, Reason, Snapshot};
use seawall_node::agent::actuator::kubernetes::Settings;
use seawall_node::agent::audit::Entry;
use seawall_node::agent::config::{Config, CpuActuator};
use seawall_node::agent::hierarchy::Version;
use seawall_node::agent::state::State;
use seawall_node::agent::{Agent, Decide};

use super::server::{Asked, Reply, Server};
use super::{eventually, failure, settings, willing, with_pod};
use crate::fixtures::{Machine, POD, id, systemd_pod};

/// Wants five units more for everybody, as long as they have ten.
#[derive(Debug)]
struct More;

impl Decide for More {
    fn decide(&mut self, _now: Instant, snapshot: &Snapshot) -> Outcome {
        let reason =
            Reason::Scored { score: 1, causes: Causes { slow: true, ..Causes::default() } };
        let ten = snapshot.containers.iter().filter(|container| container.units == 10);
        let decision =
            |id| Decision { container: id, change: Change::Units { from: 10, to: 15 }, reason };
        let decisions = ten.map(|container| decision(container.id)).collect();
        Outcome { candidates: Vec::new(), decisions }
    }
}

struct Bench {
    machine: Machine,
    server: Server,
    agent: Agent,
    now_ns: u64,
}

fn config(machine: &Machine, settings: Settings) -> Config {
    let mut config = Config {
        units: Some(40),
        root: machine.root().to_owned(),
        pages: machine.root().join("pages"),
        state: machine.root().join("state"),
        ..Config::default()
    };
    config.discovery.kubernetes = true;
    config.actuator.cpu = CpuActuator::Kubernetes;
    config.actuator.kubernetes = settings;
    fs::create_dir_all(&config.pages).unwrap();
    config
}

impl Bench {
    fn new(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let machine = Machine::new(Version::V2);
        let server = Server::start(machine.root(), script);
        let config = config(&machine, settings(&server));
        config.validate().unwrap();
        let bench = |agent| Self { machine, server, agent, now_ns: 1_000_000_000 };
        let state = State::open(&config.state).unwrap();
        let agent = Agent::new(config, Box::new(More), Duration::from_millis(10), Some(state));
        let bench = bench(agent.unwrap());
        bench.kubelet(1_000);
        bench
    }

    fn kubelet(&self, milli: u64) {
        self.machine.group(&group(), Some(milli * 100));
    }

    fn pass(&mut self) {
        self.now_ns += 10_000_000;
        self.agent.pass(self.now_ns, 1.5);
    }

    fn log(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.agent.audit_path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn group() -> String {
    systemd_pod("burstable", POD, &id('a'))
}

#[test]
fn a_decision_is_asked_for_told_when_it_is_in_force_and_undone() {
    let mut bench = Bench::new(with_pod(willing));
    bench.pass();
    let units = |bench: &Bench| bench.agent.status().containers.values().next().unwrap().units;
    assert_eq!(units(&bench), 15);
    assert_eq!(bench.log().last().unwrap().result, "asked");
    eventually(|| (bench.server.patches().len() == 1).then_some(()));
    bench.kubelet(1_500);
    eventually(|| {
        bench.pass();
        bench.log().iter().any(|entry| entry.result.starts_with("in force after")).then_some(())
    });
    // The same decision once, and nobody else has changed anything.
    assert_eq!(bench.server.patches().len(), 1);
    assert_eq!(bench.agent.status().foreign_changes, 0);
    let done = bench.agent.close();
    assert_eq!((done.restored, done.failed.len()), (1, 0));
    let last = bench.server.patches().pop().unwrap().body;
    assert_eq!(last["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
}

#[test]
fn a_refusal_is_counted_logged_once_and_leaves_what_it_had() {
    let script = |_: &Asked| failure(403, "User \"agent\" cannot patch resource \"pods/resize\"");
    let mut bench = Bench::new(with_pod(script));
    eventually(|| {
        bench.pass();
        bench.agent.status().errors.contains_key("api_forbidden").then_some(())
    });
    for _ in 0..100 {
        bench.pass();
    }
    let status = bench.agent.status();
    let container = status.containers.values().next().unwrap();
    assert_eq!((container.units, status.foreign_changes), (10, 0));
    assert_eq!(status.errors["api_forbidden"], 1);
    assert_eq!(bench.server.patches().len(), 1);
    let log = bench.log();
    let told = log.iter().filter(|entry| entry.result.contains("cannot patch")).count();
    // That it was refused, and that it is not asked again yet; not a hundred times.
    assert!((1..=2).contains(&told), "{log:?}");
    // What cannot be put back stays written down, and is said.
    let done = bench.agent.close();
    assert!(done.failed[0].1.contains("403"), "{done:?}");
}
