//! `seawall node run` on this machine's control groups: it is killed at any time, and containers
//! have a sane allocation after that. Where groups cannot be written, the tests say so and pass.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use seawall_abi::page::{Description, Publisher, Sample};
use seawall_abi::responder::{Doorbell, Late};
use seawall_node::agent::crash::Step;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up: far longer than it ever takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What each container has at first, in microseconds of each 100 ms.
const SAVED: [i64; 2] = [30_000, 40_000];

/// A folder with the version 1 controller.
const CONTROLLER: &str = "/sys/fs/cgroup/cpu";

/// Two containers with a process in each, and a page that says that the first is in a surge.
struct Machine {
    name: String,
    groups: Vec<PathBuf>,
    services: Vec<Child>,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// This process can be in one container at a time.
static TURN: Mutex<()> = Mutex::new(());

impl Machine {
    fn new(name: &str) -> Option<Self> {
        let name = format!("seawall-{name}-{}", std::process::id());
        let outer = Path::new(CONTROLLER).join(&name);
        let folder = tempfile::tempdir().unwrap();
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut machine = Self { name, groups: Vec::new(), services: Vec::new(), folder, _turn };
        fs::create_dir(machine.folder.path().join("pages")).unwrap();
        for (container, quota) in ["a", "b"].iter().zip(SAVED) {
            let group = outer.join(container);
            let made = fs::create_dir_all(&group)
                .and_then(|()| fs::write(group.join("cpu.cfs_quota_us"), quota.to_string()));
            if let Err(error) = made {
                eprintln!("not tested: {}: {error}", group.display());
                return None;
            }
            let service = Command::new("sleep").arg("600").spawn().unwrap();
            fs::write(group.join("cgroup.procs"), service.id().to_string()).unwrap();
            machine.services.push(service);
            machine.groups.push(group);
        }
        // This process is the service of the first container, as far as pages tell.
        fs::write(machine.groups[0].join("tasks"), std::process::id().to_string()).unwrap();
        let config = format!(
            "interval = '1ms'\nunits = 20\n\
             state = '{folder}/state'\npages = '{folder}/pages'\n\
             [defaults]\nfloor_milli = 100\nlimit_milli = 1500\n\
             [scaling]\npolicy = 'escalator'\n\
             [[containers]]\nname = 'a'\ncgroup = '/{name}/a'\nexpected_exec = '1ms'\n\
             expected_time_from_start = '5ms'\ncalls = ['b']\n\
             [[containers]]\nname = 'b'\ncgroup = '/{name}/b'\nexpected_exec = '1ms'\n",
            folder = machine.folder.path().display(),
            name = machine.name,
        );
        fs::write(machine.config(), config).unwrap();
        Some(machine)
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("node.toml")
    }

    fn quotas(&self) -> [i64; 2] {
        [0, 1].map(|container| {
            let path: &Path = &self.groups[container].join("cpu.cfs_quota_us");
            fs::read_to_string(path).unwrap().trim().parse().unwrap()
        })
    }

    fn services_live(&mut self) -> bool {
        self.services.iter_mut().all(|service| service.try_wait().unwrap().is_none())
    }

    fn agent(&self, more: &[&str]) -> Agent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seawall"))
            .args(["node", "run", "--config"])
            .arg(self.config())
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str(&line) else {
            panic!("the agent does not begin: {:?}", child.wait_with_output());
        };
        Agent { child, output, ready }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let root = Path::new(CONTROLLER).join("tasks");
        let _ = fs::write(root, std::process::id().to_string());
        for service in &mut self.services {
            let _ = service.kill();
            let _ = service.wait();
        }
        let outer = Path::new(CONTROLLER).join(&self.name);
        let folders = self.groups.iter().map(PathBuf::as_path).chain([outer.as_path()]);
        for folder in folders {
            // A process that has just ended may still be counted for a moment.
            for _ in 0..100 {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(10));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// A running agent, which ends with this.
struct Agent {
    child: Child,
    output: BufReader<ChildStdout>,
    ready: Value,
}

impl Agent {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn watchdog(&self) -> Pid {
        Pid::from_raw(self.ready["watchdog"].as_i64().unwrap() as i32)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent that is to die by itself, and does not outlive a test that fails before that.
struct Doomed(Child);

impl Drop for Doomed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A service in a surge: each request takes five times what is expected.
struct Surge<'a> {
    publisher: &'a Publisher,
}

impl Surge<'_> {
    fn serve(&self) {
        self.publisher.beat(seawall_abi::clock::monotonic_ns());
        let shard = self.publisher.shard(0);
        for _ in 0..3 {
            shard.on_arrival();
            shard.on_completion(&Sample { exec_ns: 5_000_000, ..Sample::default() });
        }
    }
}

fn publisher(machine: &Machine) -> Publisher {
    let folder = machine.folder.path().join("pages");
    Publisher::create(&folder, &Description::of_this_process("a", PORT).unwrap()).unwrap()
}

/// Where the first container's service says that it listens.
const PORT: u16 = 7_117;

/// Tells of a late request, as the receiving library does.
fn ring(machine: &Machine) {
    let bell = Doorbell::new(&machine.folder.path().join("pages")).unwrap();
    bell.ring(&Late { path: 3, port: PORT, late_by_ns: 2_000_000, ..Late::default() });
}

/// Kills the agent at a time that differs from round to round, and looks what is left.
fn killed(name: &str, rounds: u32) {
    let Some(mut machine) = Machine::new(name) else { return };
    let publisher = publisher(&machine);
    let surge = Surge { publisher: &publisher };
    let mut raised = 0;
    for round in 0..rounds {
        let agent = machine.agent(&[]);
        // Through all steps of decisions: some die before the first, some amid the surge.
        let begun = Instant::now();
        let life = Duration::from_micros(u64::from(round * 7_919 % 150) * 1_000 + 300);
        while begun.elapsed() < life {
            surge.serve();
            thread::sleep(Duration::from_micros(500));
        }
        raised += u32::from(machine.quotas()[0] > SAVED[0]);
        agent.signal(Signal::SIGKILL);
        let watchdog = agent.watchdog();
        drop(agent);
        until("the watchdog puts back what containers had", || machine.quotas() == SAVED);
        until("the watchdog ends", || kill(watchdog, None).is_err());
        assert!(machine.services_live(), "round {round}: a service has ended");
        assert!(!machine.folder.path().join("state/allocations.json").exists());
    }
    eprintln!("{raised} of {rounds} died while the container had more than at first");
    assert!(rounds < 20 || raised > 0, "no agent lived long enough to give anything");
}

#[test]
fn containers_are_put_back_when_the_agent_is_killed() {
    killed("killed", 5);
}

#[test]
#[ignore = "kills a hundred agents"]
fn containers_are_put_back_a_hundred_times() {
    killed("hundred", 100);
}

#[test]
fn containers_are_put_back_when_agent_and_watchdog_are_killed_and_another_begins() {
    let Some(mut machine) = Machine::new("both") else { return };
    let publisher = publisher(&machine);
    let agent = machine.agent(&[]);
    let surge = Surge { publisher: &publisher };
    until("the surge is answered", || {
        surge.serve();
        machine.quotas()[0] > SAVED[0]
    });
    // Stopped first, so that it cannot start another watchdog.
    agent.signal(Signal::SIGSTOP);
    kill(agent.watchdog(), Signal::SIGKILL).unwrap();
    agent.signal(Signal::SIGKILL);
    drop(agent);
    let [quota, _] = machine.quotas();
    assert!((10_000..=150_000).contains(&quota), "{quota} lies within floor and limit");
    let agent = machine.agent(&[]);
    assert_eq!(agent.ready["restored"], 2);
    agent.signal(Signal::SIGTERM);
    until("it has ended", || machine.quotas() == SAVED);
    assert!(machine.services_live());
}

#[test]
fn a_watchdog_that_is_killed_is_replaced() {
    let Some(machine) = Machine::new("replaced") else { return };
    let agent = machine.agent(&["--json"]);
    kill(agent.watchdog(), Signal::SIGKILL).unwrap();
    // The agent's summary tells how many there were.
    thread::sleep(Duration::from_millis(500));
    agent.signal(Signal::SIGINT);
    let summary = summary(agent);
    assert!(summary["watchdog_starts"].as_u64() >= Some(2), "{summary}");
    assert_eq!(machine.quotas(), SAVED);
}

fn summary(mut agent: Agent) -> Value {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut agent.output, &mut text).unwrap();
    let status = agent.child.wait().unwrap();
    assert!(status.success(), "{status}");
    serde_json::from_str(&text).unwrap()
}

/// Both containers with their quotas times two: the first is late and calls the second.
const BOOSTED: [i64; 2] = [60_000, 80_000];

/// The doorbell works wherever containers do.
const BELL: [&str; 6] =
    ["--set", "responder.way=doorbell", "--set", "responder.boost=50ms", "--algorithm", "static"];

#[test]
fn a_late_request_boosts_its_container_and_those_downstream_for_a_while() {
    let Some(machine) = Machine::new("late") else { return };
    let publisher = publisher(&machine);
    let agent = machine.agent(&[&BELL[..], &["--json"]].concat());
    until("both are boosted", || {
        publisher.beat(seawall_abi::clock::monotonic_ns());
        ring(&machine);
        machine.quotas() == BOOSTED
    });
    until("the boost ends", || machine.quotas() == SAVED);
    let orders = publisher.orders();
    assert_eq!((orders.boost_permille, orders.expected_time_from_start_ns), (2_000, 5_000_000));
    assert!(orders.freeze_ns > 0);
    agent.signal(Signal::SIGINT);
    let summary = summary(agent);
    let responder = &summary["responder"];
    assert_eq!(responder["source"], "doorbell");
    assert!(responder["boosts"]["a"]["boosts"].as_u64() >= Some(1), "{summary}");
    assert!(responder["boosts"]["b"]["seconds"].as_f64() > Some(0.0), "{summary}");
    assert_eq!(summary["foreign_changes"], 0, "a boost is no change by others");
    assert_eq!(responder["failures"], 0);
    let log = fs::read_to_string(machine.folder.path().join("state/audit.jsonl")).unwrap();
    for line in ["boost milli 300 -> 600", "boost milli 600 -> 300", "late by 2.000 ms on path 3"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn an_agent_that_is_killed_during_a_boost_leaves_what_was_saved() {
    let Some(mut machine) = Machine::new("boosted") else { return };
    let publisher = publisher(&machine);
    let long = ["--set", "responder.boost=10s"];
    let agent = machine.agent(&[&BELL[..], &long].concat());
    until("both are boosted", || {
        publisher.beat(seawall_abi::clock::monotonic_ns());
        ring(&machine);
        machine.quotas() == BOOSTED
    });
    agent.signal(Signal::SIGKILL);
    drop(agent);
    until("the watchdog puts back what containers had", || machine.quotas() == SAVED);
    assert!(machine.services_live());
}

#[test]
fn whatever_the_step_at_which_it_dies_containers_have_what_they_had() {
    let Some(mut machine) = Machine::new("steps") else { return };
    let publisher = publisher(&machine);
    let surge = Surge { publisher: &publisher };
    for (name, _) in Step::NAMED {
        let mut child = Doomed(
            Command::new(env!("CARGO_BIN_EXE_seawall"))
                .args(["node", "run", "--crash-at", name, "--set", "responder.way=doorbell"])
                .arg("--config")
                .arg(machine.config())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        until(name, || {
            surge.serve();
            ring(&machine);
            child.0.try_wait().unwrap().is_some()
        });
        assert_eq!(child.0.wait().unwrap().signal(), Some(Signal::SIGKILL as i32), "{name}");
        let saved = machine.folder.path().join("state/allocations.json");
        until(name, || machine.quotas() == SAVED && !saved.exists());
        assert!(machine.services_live(), "{name}");
    }
}

#[test]
fn what_was_learned_is_kept_and_nonsense_is_left_out() {
    let Some(machine) = Machine::new("learned") else { return };
    let state = machine.folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let learned = state.join("learned.json");
    for (text, errors) in [("{nonsense", Some(1)), ("", Some(1))] {
        fs::write(&learned, text).unwrap();
        let agent = machine.agent(&["--json"]);
        agent.signal(Signal::SIGTERM);
        let summary = summary(agent);
        assert_eq!(summary["errors"]["learned"].as_u64(), errors, "{summary}");
    }
    let entry = r#"{"id":1,"exec_ns":7000000.0,"exec_avg":[[3,7000000.0]]}"#;
    fs::write(&learned, format!(r#"{{"version":1,"containers":{{"b":{entry}}}}}"#)).unwrap();
    let agent = machine.agent(&["--json"]);
    agent.signal(Signal::SIGTERM);
    assert_eq!(summary(agent)["errors"]["learned"].as_u64(), None);
    let kept: Value = serde_json::from_str(&fs::read_to_string(&learned).unwrap()).unwrap();
    assert_eq!(kept["containers"]["b"]["exec_ns"], 7e6);
}

#[test]
fn a_second_agent_is_told_who_the_first_is() {
    let Some(machine) = Machine::new("second") else { return };
    let agent = machine.agent(&[]);
    let second = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["node", "run", "--config"])
        .arg(machine.config())
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8(second.stderr).unwrap();
    let first = format!("another agent runs as process {}", agent.child.id());
    assert!(said.contains(&first), "{said}");
}

#[test]
fn a_dry_run_and_a_check_change_nothing() {
    let Some(machine) = Machine::new("dry") else { return };
    let publisher = publisher(&machine);
    let surge = Surge { publisher: &publisher };
    let agent = machine.agent(&["--dry-run", "--json"]);
    let log = machine.folder.path().join("state/audit.jsonl");
    until("something is decided", || {
        surge.serve();
        fs::read_to_string(&log).is_ok_and(|text| text.contains("units"))
    });
    assert_eq!(machine.quotas(), SAVED);
    agent.signal(Signal::SIGTERM);
    assert!(summary(agent)["passes"].as_u64() > Some(0));
    assert!(!publisher.orders().hold(seawall_abi::clock::monotonic_ns()));

    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        let said = command.args(["node"]).args(arguments).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let people = run(&["log", log.to_str().unwrap(), "--container", "a"]);
    assert!(people.contains("a: units 3 -> 4") && people.contains("[dry run]"), "{people}");
    let config = machine.config();
    let listed = run(&["run", "--check", "--config", config.to_str().unwrap()]);
    assert!(listed.contains("a: 3 units, 1 to 15\n"), "{listed}");
    assert!(listed.contains("FirstResponder: "), "{listed}");
    assert!(listed.contains("b: 4 units, 1 to 15, publishes nothing"), "{listed}");
    assert_eq!(machine.quotas(), SAVED);
}

#[test]
fn nonsense_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.toml");
    for (text, says) in [
        ("unit = 5", "unknown field `unit`"),
        ("unit_milli = 0", "unit_milli is 0; allowed: 1 to 100000"),
        ("[scaling]\npolicy = 'guess'", "scaling.policy"),
        ("", "nothing to manage"),
    ] {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        let said = command.args(["node", "run", "--config"]).arg(&file).output().unwrap();
        let stderr = String::from_utf8(said.stderr).unwrap();
        assert!(!said.status.success() && stderr.contains(says), "{text}: {stderr}");
    }
}

#[test]
fn a_line_of_the_log_that_was_cut_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let line = |units: u32| {
        let change = format!(r#""container":"a","change":"units 3 -> {units}""#);
        format!(r#"{{"time":1.0,{change},"reason":"idle","result":"applied"}}"#)
    };
    let log = |text: String| {
        fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        let said = command.args(["node", "log"]).arg(&file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (said.status.success(), text(said.stdout), text(said.stderr))
    };
    let (is_well, shown, problems) = log(format!("{}\n{{\"time\":1\n{}\n", line(4), line(5)));
    assert!(is_well && shown.contains("3 -> 4") && shown.contains("3 -> 5"), "{shown}");
    assert!(problems.contains("line 2 is no decision"), "{problems}");
    let (is_well, _, problems) = log("another file\n".to_owned());
    assert!(!is_well && problems.contains("line 1 is no decision"), "{problems}");
}
