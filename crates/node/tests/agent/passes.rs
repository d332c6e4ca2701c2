//! What a pass does with what a policy says, on recorded trees.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_abi::page::{Description, Publisher, Sample};
use seawall_control::Instant;
use seawall_control::scaling::{
    self, Candidate, Causes, Change, Container, Decision, Outcome, Reason, Report, Snapshot,
};
use seawall_node::agent::audit::Entry;
use seawall_node::agent::config::{Config, CpuActuator, Rule};
use seawall_node::agent::hierarchy::Version;
use seawall_node::agent::state::State;
use seawall_node::agent::{Agent, Decide};

use crate::fixtures::{Machine, id, systemd_pod};

const INTERVAL: Duration = Duration::from_millis(10);
pub(crate) const INTERVAL_NS: u64 = INTERVAL.as_nanos() as u64;

/// What a policy says to the containers that it sees.
pub(crate) type Script = Box<dyn FnMut(&[Container]) -> Vec<Change>>;

/// Says what a test wants: a change for each container, or none when there are fewer.
struct Scripted {
    script: Script,
    seen: Arc<Mutex<Vec<Snapshot>>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Decide for Scripted {
    fn decide(&mut self, _now: Instant, snapshot: &Snapshot) -> Outcome {
        self.seen.lock().unwrap().push(snapshot.clone());
        let changes = (self.script)(&snapshot.containers);
        let reason =
            Reason::Scored { score: 1, causes: Causes { slow: true, ..Causes::default() } };
        let decisions = changes
            .into_iter()
            .zip(&snapshot.containers)
            .map(|(change, container)| Decision { container: container.id, change, reason });
        let decisions: Vec<Decision> = decisions.collect();
        let candidates = decisions.iter().map(|decision| Candidate {
            container: decision.container,
            score: 1,
            sensitivity: None,
            is_unmet: false,
            can_grow: true,
        });
        Outcome { candidates: candidates.collect(), decisions }
    }
}

pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) agent: Agent,
    pub(crate) now_ns: u64,
    seen: Arc<Mutex<Vec<Snapshot>>>,
}

/// Every `*.service` is a container, and there are 20 units of a tenth of a CPU.
pub(crate) fn config(machine: &Machine) -> Config {
    let mut config = Config {
        units: Some(20),
        root: machine.root().to_owned(),
        pages: machine.root().join("pages"),
        state: machine.root().join("state"),
        ..Config::default()
    };
    config.discovery.systemd = vec!["*.service".to_owned()];
    config.discovery.every = INTERVAL;
    config.defaults.floor_milli = Some(100);
    fs::create_dir_all(&config.pages).unwrap();
    config
}

impl Bench {
    pub(crate) fn new(
        machine: Machine,
        config: Config,
        script: impl FnMut(&[Container]) -> Vec<Change> + 'static,
    ) -> Self {
        config.validate().unwrap();
        let state = State::open(&config.state).unwrap();
        Self::with(machine, config, Some(state), Box::new(script))
    }

    pub(crate) fn with(
        machine: Machine,
        config: Config,
        state: Option<State>,
        script: Script,
    ) -> Self {
        let seen = Arc::default();
        let policy = Box::new(Scripted { script, seen: Arc::clone(&seen) });
        let agent = Agent::new(config, policy, INTERVAL, state).unwrap();
        Self { machine, agent, now_ns: 1_000_000_000, seen }
    }

    pub(crate) fn pass(&mut self) {
        self.now_ns += INTERVAL_NS;
        self.agent.pass(self.now_ns, 1.5);
    }

    pub(crate) fn units(&self) -> BTreeMap<&str, u32> {
        let containers = self.agent.status().containers.iter();
        containers.map(|(name, container)| (name.as_str(), container.units)).collect()
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.agent.audit_path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn last(&self) -> Snapshot {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

pub(crate) fn to(container: &Container, to: u32) -> Change {
    Change::Units { from: container.units, to }
}

/// Nothing is decided.
pub(crate) fn idle(_: &[Container]) -> Vec<Change> {
    Vec::new()
}

pub(crate) fn services(version: Version, quotas: &[(&str, u64)]) -> Machine {
    let machine = Machine::new(version);
    for (name, quota) in quotas {
        machine.group(&format!("/system.slice/{name}.service"), Some(*quota));
    }
    machine
}

fn quota(bench: &Bench, name: &str) -> String {
    bench.machine.quota(&format!("/system.slice/{name}.service"))
}

#[test]
fn what_is_decided_is_written_and_in_the_end_put_back() {
    for version in [Version::V1, Version::V2] {
        let machine = services(version, &[("a", 50_000), ("b", 50_000)]);
        let before = files(machine.root());
        let config = config(&machine);
        let mut bench = Bench::new(machine, config, |containers| {
            vec![to(&containers[0], 9), to(&containers[1], 2)]
        });
        bench.pass();
        assert!(quota(&bench, "a").starts_with("90000"), "{}", quota(&bench, "a"));
        assert!(quota(&bench, "b").starts_with("20000"));
        assert_eq!(bench.agent.status().units_free, 9);
        let log = bench.log();
        assert_eq!(log.len(), 2);
        // What is taken comes before what is given.
        assert_eq!(
            (log[0].container.as_str(), log[0].change.as_str()),
            ("b.service", "units 5 -> 2")
        );
        assert_eq!((log[1].reason.as_str(), log[1].result.as_str()), ("scored 1: slow", "applied"));
        assert_eq!(log[1].score, Some(1));
        let done = bench.agent.close();
        assert_eq!((done.restored, done.failed.len()), (2, 0));
        assert_eq!(files(&bench.machine.root().join("sys")), sys(&before));
    }
}

#[test]
fn floors_limits_and_the_machine_hold_whatever_a_policy_says() {
    let machine = services(Version::V2, &[("a", 50_000), ("b", 50_000), ("c", 50_000)]);
    let mut config = config(&machine);
    config.containers.push(Rule {
        name: "b".to_owned(),
        cgroup: Some("/system.slice/b.service".to_owned()),
        limit_milli: Some(700),
        floor_milli: Some(400),
        ..Rule::default()
    });
    let mut round = 0;
    let mut bench = Bench::new(machine, config, move |containers| {
        round += 1;
        let wanted = if round == 1 { 100 } else { 0 };
        containers.iter().map(|container| to(container, wanted)).collect()
    });
    bench.pass();
    // a takes all that there is: 20 less 5 and 5; then b and c get nothing.
    let expected = BTreeMap::from([("a.service", 10), ("b", 5), ("c.service", 5)]);
    assert_eq!(bench.units(), expected);
    bench.pass();
    let expected = BTreeMap::from([("a.service", 1), ("b", 4), ("c.service", 1)]);
    assert_eq!(bench.units(), expected);
    assert_eq!(bench.agent.status().overruled, 6);
}

#[test]
fn a_dry_run_decides_and_changes_nothing() {
    let machine = services(Version::V1, &[("a", 50_000)]);
    let config = config(&machine);
    let before = files(&machine.root().join("sys"));
    let script: Script =
        Box::new(|containers: &[Container]| vec![to(&containers[0], containers[0].units + 1)]);
    let mut bench = Bench::with(machine, config, None, script);
    for _ in 0..3 {
        bench.pass();
    }
    assert_eq!(files(&bench.machine.root().join("sys")), before);
    let log = bench.log();
    let changes: Vec<&str> = log.iter().map(|entry| entry.change.as_str()).collect();
    assert_eq!(changes, ["units 5 -> 6", "units 6 -> 7", "units 7 -> 8"]);
    assert!(log.iter().all(|entry| entry.result == "dry run"));
    assert_eq!(bench.agent.close().restored, 0);
}

#[test]
fn what_others_change_is_the_truth_and_a_contest_ends() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    let mut config = config(&machine);
    config.contests_max = 2;
    let mut bench = Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, 9)).collect()
    });
    let set = |bench: &Bench, quota: &str| {
        let path = bench.machine.cpu("/system.slice/a.service").join("cpu.max");
        fs::write(path, quota).unwrap();
    };
    bench.pass();
    assert_eq!(quota(&bench, "a"), "90000 100000");
    for round in 1..=2 {
        set(&bench, "30000 100000");
        bench.pass();
        assert_eq!(bench.last().containers[0].units, 3, "it is taken as it is");
        assert_eq!(bench.agent.status().foreign_changes, round);
        assert_eq!(quota(&bench, "a"), "90000 100000");
    }
    set(&bench, "30000 100000");
    bench.pass();
    assert_eq!(quota(&bench, "a"), "30000 100000", "it is left alone");
    bench.pass();
    assert!(bench.units().is_empty());
    assert_eq!(bench.agent.status().left_alone, 1);
    // And it keeps what others have chosen.
    bench.agent.close();
    assert_eq!(quota(&bench, "a"), "30000 100000");
}

#[test]
fn what_others_chose_is_what_is_put_back() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    let config = config(&machine);
    let mut bench = Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, 9)).collect()
    });
    bench.pass();
    let path = bench.machine.cpu("/system.slice/a.service").join("cpu.max");
    fs::write(path, "70000 100000").unwrap();
    bench.pass();
    bench.agent.close();
    assert_eq!(quota(&bench, "a"), "70000 100000");
}

#[test]
fn a_container_that_goes_between_decision_and_write_is_an_event() {
    let machine = services(Version::V1, &[("a", 50_000), ("b", 50_000)]);
    let config = config(&machine);
    let folder = machine.cpu("/system.slice/a.service");
    let mut bench = Bench::new(machine, config, move |containers| {
        let _ = fs::remove_dir_all(&folder);
        containers.iter().map(|container| to(container, 7)).collect()
    });
    bench.pass();
    assert_eq!(bench.agent.status().gone, 1);
    assert_eq!(bench.units(), BTreeMap::from([("b.service", 7)]));
    assert!(bench.agent.status().errors.is_empty(), "{:?}", bench.agent.status().errors);
    bench.pass();
    let done = bench.agent.close();
    assert_eq!((done.restored, done.gone, done.failed.len()), (1, 0, 0));
}

#[test]
fn containers_that_come_and_go_between_passes() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    let config = config(&machine);
    let mut bench = Bench::new(machine, config, idle);
    for round in 0..50 {
        let name = format!("/system.slice/x{round}.service");
        bench.machine.group(&name, Some(10_000));
        bench.pass();
        assert_eq!(bench.units().len(), 2);
        fs::remove_dir_all(bench.machine.cpu(&name)).unwrap();
    }
    bench.pass();
    assert_eq!(bench.units().len(), 1);
    let ids: Vec<u64> = bench
        .seen
        .lock()
        .unwrap()
        .iter()
        .map(|seen| seen.containers.last().unwrap().id.0)
        .collect();
    let mut once = ids.clone();
    once.dedup();
    assert!(once.len() >= 50, "a number is not used again");
}

#[test]
fn a_group_around_binds_only_as_long_as_it_has_less() {
    for version in [Version::V1, Version::V2] {
        let machine = services(version, &[("a", 50_000)]);
        machine.group("/system.slice", Some(70_000));
        let config = config(&machine);
        let mut bench = Bench::new(machine, config, |containers| {
            containers.iter().map(|container| to(container, 15)).collect()
        });
        for (around, limit) in [(Some(70_000), 7), (Some(110_000), 11), (None, 20)] {
            bench.machine.group("/system.slice", around);
            bench.pass();
            let one = &bench.agent.status().containers["a.service"];
            assert_eq!((one.limit, one.is_bound), (limit, limit < 20));
            assert_eq!(one.units, limit.min(15));
        }
    }
}

#[test]
fn a_service_that_is_started_anew_is_another_container() {
    for version in [Version::V1, Version::V2] {
        let machine = services(version, &[("a", 50_000)]);
        let mut config = config(&machine);
        config.contests_max = 0;
        let mut bench = Bench::new(machine, config, |containers| {
            containers.iter().map(|container| to(container, 9)).collect()
        });
        bench.pass();
        for round in 1..=3 {
            let group = bench.machine.cpu("/system.slice/a.service");
            let old = bench.machine.cpu("/old");
            fs::rename(&group, &old).unwrap();
            bench.machine.group("/system.slice/a.service", Some(40_000));
            fs::remove_dir_all(&old).unwrap();
            bench.pass();
            bench.pass();
            let status = bench.agent.status();
            assert_eq!((status.gone, status.foreign_changes, status.left_alone), (round, 0, 0));
            assert_eq!(bench.units(), BTreeMap::from([("a.service", 9)]));
        }
        bench.agent.close();
        assert!(quota(&bench, "a").starts_with("40000"), "{}", quota(&bench, "a"));
    }
}

#[test]
fn a_container_without_bounds_is_left_alone_unless_told_what_to_give() {
    let machine = Machine::new(Version::V2);
    for name in ["free", "told"] {
        machine.group(&format!("/system.slice/{name}.service"), None);
    }
    let mut config = config(&machine);
    config.containers.push(Rule {
        name: "told".to_owned(),
        cgroup: Some("/system.slice/told.service".to_owned()),
        initial_milli: Some(300),
        ..Rule::default()
    });
    let mut bench = Bench::new(machine, config, idle);
    bench.pass();
    assert_eq!(bench.units(), BTreeMap::from([("told", 3)]));
    assert_eq!(quota(&bench, "told"), "30000 100000");
    assert_eq!(quota(&bench, "free"), "max 100000");
    bench.agent.close();
    assert_eq!(quota(&bench, "told"), "max 100000");
}

pub(crate) fn publisher(bench_pages: &Path, name: &str) -> Publisher {
    Publisher::create(bench_pages, &Description::of_this_process(name, 7).unwrap()).unwrap()
}

pub(crate) fn serve(publisher: &Publisher, requests: u64, exec: Duration) {
    for _ in 0..requests {
        publisher.shard(0).on_arrival();
        let exec_ns = exec.as_nanos() as u64;
        publisher.shard(0).on_completion(&Sample { exec_ns, ..Sample::default() });
    }
}

#[test]
fn pages_are_heard_ordered_and_silenced() {
    let machine = services(Version::V1, &[("a", 50_000)]);
    // The service's process is in a group inside of the container's.
    machine.enter(std::process::id(), "/system.slice/a.service/worker");
    let config = config(&machine);
    let publisher = publisher(&config.pages, "cart");
    let mut bench = Bench::new(machine, config, |containers| {
        vec![Change::Hint { from: containers[0].hint, to: 3 }]
    });
    publisher.beat(bench.now_ns);
    serve(&publisher, 4, Duration::from_millis(2));
    bench.pass();
    let Report::Counters(counters) = bench.last().containers[0].report else {
        panic!("{:?}", bench.last());
    };
    assert_eq!((counters.requests, counters.exec_ns), (4, 8_000_000));
    let measured = bench.log()[0].measured.unwrap();
    assert_eq!((measured.requests, measured.exec_metric_us), (4, 2_000.0));
    let orders = publisher.orders();
    assert_eq!((orders.hint, orders.granted_milli), (3, 500));
    assert!(orders.hold(bench.now_ns) && orders.growing_until_ns > bench.now_ns);
    // The service hangs: what it says does not count any more.
    bench.now_ns += 3_000_000_000;
    bench.pass();
    assert_eq!(bench.last().containers[0].report, Report::None);
    bench.agent.close();
    assert!(!publisher.orders().hold(bench.now_ns));
}

#[test]
fn modelled_cores_are_numbers_in_pages() {
    let machine = Machine::new(Version::V2);
    let mut config = config(&machine);
    config.actuator.cpu = CpuActuator::Virtual;
    config.unit_milli = 1_000;
    config.defaults.floor_milli = Some(1_000);
    config.defaults.initial_milli = Some(3_000);
    let (a, b) = (publisher(&config.pages, "a"), publisher(&config.pages, "b"));
    let mut bench = Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, container.units + 1)).collect()
    });
    bench.pass();
    bench.pass();
    assert_eq!((a.orders().granted_milli, b.orders().granted_milli), (5_000, 5_000));
    assert_eq!(bench.units(), BTreeMap::from([("a", 5), ("b", 5)]));
    drop(b);
    bench.pass();
    assert_eq!(bench.units(), BTreeMap::from([("a", 6)]));
    bench.agent.close();
    assert_eq!(a.orders().granted_milli, 0);
}

#[test]
fn escalator_feeds_the_slow_one_from_what_is_free() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let mut config = config(&machine);
    config.containers.push(Rule {
        name: "a".to_owned(),
        cgroup: Some("/system.slice/a.service".to_owned()),
        expected_exec: Some(Duration::from_millis(2)),
        ..Rule::default()
    });
    let state = State::open(&config.state).unwrap();
    let policy = scaling::Config::named("escalator").unwrap().build(7).unwrap();
    let publisher = publisher(&config.pages, "cart");
    let mut agent = Agent::new(config, Box::new(policy), INTERVAL, Some(state)).unwrap();
    let mut now_ns = 1_000_000_000;
    for _ in 0..200 {
        serve(&publisher, 5, Duration::from_millis(6));
        publisher.beat(now_ns);
        agent.pass(now_ns, 0.0);
        now_ns += INTERVAL_NS;
    }
    let quota = machine.quota("/system.slice/a.service");
    let quota: u32 = quota.split(' ').next().unwrap().parse().unwrap();
    assert!(quota > 50_000, "{quota}: {:?}", agent.status());
    assert!(agent.status().decisions.keys().any(|key| key.starts_with("units: scored")));
}

#[test]
fn a_page_that_lies_is_refused_and_counted() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let config = config(&machine);
    let state = State::open(&config.state).unwrap();
    let policy = scaling::Config::named("escalator").unwrap().build(7).unwrap();
    let publisher = publisher(&config.pages, "liar");
    let mut agent = Agent::new(config, Box::new(policy), INTERVAL, Some(state)).unwrap();
    for round in 1..20 {
        let now_ns = 1_000_000_000 + round * INTERVAL_NS;
        publisher.beat(now_ns);
        // An hour of execution in an interval of 10 ms, of which two hours are waits.
        publisher.shard(1).on_arrival();
        publisher.shard(1).on_completion(&Sample {
            exec_ns: 3_600_000_000_000,
            pool_wait_ns: 7_200_000_000_000,
            time_from_start_ns: Some(u64::MAX / 64),
            ..Sample::default()
        });
        agent.pass(now_ns, 0.0);
    }
    assert_eq!(machine.quota("/system.slice/a.service"), "50000 100000");
    assert!(agent.status().refusals.values().sum::<u64>() > 0, "{:?}", agent.status().refusals);
}

#[test]
fn two_thousand_containers_in_one_pass() {
    let machine = Machine::new(Version::V2);
    for number in 0..2_000 {
        let uid = format!("{number:08x}-9d8f-4a2c-a3f3-9b1c5a0c7f3e");
        machine.group(&systemd_pod("burstable", &uid, &id('a')), Some(10_000));
    }
    let mut config = config(&machine);
    config.discovery.kubernetes = true;
    config.units = Some(10_000);
    let mut bench = Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, 2)).collect()
    });
    bench.pass();
    let status = bench.agent.status();
    assert_eq!((status.containers.len(), status.units_free), (2_000, 6_000));
    assert!(status.errors.is_empty(), "{:?}", status.errors);
    assert_eq!(bench.agent.close().restored, 2_000);
}

/// All files below a folder with what they hold.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap().trim_end().to_owned();
                let name = path.to_string_lossy().into_owned();
                found.insert(name, text);
            }
        }
    }
    found
}

/// Those of them that the kernel has.
fn sys(files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_sys = |(name, _): &(&String, &String)| name.contains("/sys/fs/cgroup");
    files.iter().filter(is_sys).map(|(name, text)| (name.clone(), text.clone())).collect()
}
