//! What counts the bytes of memory and the power, who is told, and who sets the semaphore.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use seawall_measure::names::{self, Metric};

use crate::support::{Served, fail, succeed, until};
use crate::watched::{Watched, name_of};

/// A machine with nothing but what is written into it.
struct Bare(tempfile::TempDir);

impl Bare {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Options that make a server look into it.
    fn options(&self) -> Vec<String> {
        let set = |key: &str, folder: &str| {
            format!("--set=memory.{key}={}", self.0.path().join(folder).display())
        };
        vec![set("sysfs", "sys"), set("resctrl", "resctrl")]
    }

    /// Writes a file at once, as those of the kernel change.
    fn write(&self, path: &str, content: &str) {
        let path: PathBuf = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = path.with_extension("new");
        fs::write(&new, format!("{content}\n")).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// With what resctrl and RAPL show, as their drivers lay it out.
    fn with_meters() -> Self {
        let bare = Self::new();
        bare.write("resctrl/info/L3_MON/mon_features", "mbm_total_bytes");
        bare.write("sys/class/powercap/intel-rapl:0/name", "package-0");
        bare.write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850");
        bare.show(0);
        bare
    }

    fn show(&self, total: u64) {
        self.write("resctrl/mon_data/mon_L3_00/mbm_total_bytes", &total.to_string());
        self.write("sys/class/powercap/intel-rapl:0/energy_uj", &(total / 1_000).to_string());
    }

    /// Lets what its meters show grow while `work` lasts.
    fn while_used<T>(&self, work: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (stop, mut total) = (&stop, 0);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    total += 1_000_000;
                    self.show(total);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let _stop = Stop(stop);
            work()
        })
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn strs(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// The value of a metric with that label.
fn labelled(watched: &Watched, metric: &Metric, label: &str) -> Option<f64> {
    let text = watched.scrape();
    let mut of_metric = text.lines().filter(|line| name_of(line) == Some(metric.name));
    of_metric.find(|line| line.contains(label))?.rsplit(' ').next()?.parse().ok()
}

/// Every lookup passes the semaphore, so that a small load is enough.
const HEAVY: [&str; 3] = ["kv", "--semaphore=try", "--set=kv.large.bytes=1"];

#[test]
fn declared_bytes_move_the_capacity() {
    let bare = Bare::new();
    let options = [bare.options(), vec!["--set=memory.capacity_max=8".into()]].concat();
    let watched = Watched::start(&[&HEAVY[..], &strs(&options)].concat());
    until("the semaphore is shown", || watched.value(&names::MEMORY_CAPACITY).is_some());
    assert_eq!(watched.value(&names::MEMORY_CAPACITY), Some(1.0), "before the first use");
    let address = watched.server.address();
    let load = ["load", &address, "--workload=kv", "--mix=0.9/uniform:200/const:500", "--json"];
    let times = ["--rate=2k", "--warm-up=0s", "--time=1s"];
    let (mut capacities, mut bandwidth) = (BTreeSet::new(), 0.0_f64);
    while capacities.len() < 2 || bandwidth == 0.0 {
        thread::scope(|scope| {
            let loading = scope.spawn(|| succeed(&[&load[..], &times].concat()));
            while !loading.is_finished() {
                let capacity = watched.value(&names::MEMORY_CAPACITY).unwrap();
                capacities.insert(capacity as u32);
                let declared = labelled(&watched, &names::BANDWIDTH, "source=\"declared\"");
                bandwidth = bandwidth.max(declared.unwrap_or(0.0));
                thread::sleep(Duration::from_millis(20));
            }
        });
    }
    assert!(capacities.iter().all(|capacity| (1..=8).contains(capacity)), "{capacities:?}");
    let entered = labelled(&watched, &names::STAGE_ACQUISITIONS, "stage=\"memory\"");
    assert!(entered > Some(100.0), "{entered:?}");
    assert!(labelled(&watched, &names::STAGE_REFUSALS, "stage=\"memory\"").is_some());
    until("everybody has left", || watched.value(&names::MEMORY_HELD) == Some(0.0));
}

#[test]
fn a_server_says_what_counts_and_why_nothing_better() {
    let bare = Bare::new();
    let start = ["serve", "--listen=127.0.0.1:0"];
    let said = |more: &[&str]| {
        let options = bare.options();
        let server = Served::start_exactly(&[&start[..], more, &strs(&options)].concat());
        server.last_words().1
    };
    let auto = said(&["kv", "--semaphore=try", "--set=memory.capacity_max=5"]);
    for line in [
        "  memory controllers: not to be had: ",
        "  resctrl: not to be had: ",
        "  declared bytes: used",
        "memory semaphore: 1 to 5 at once, as the bandit finds by declared bytes",
    ] {
        assert!(auto.lines().any(|said| said.starts_with(line)), "{line}:\n{auto}");
    }
    let fixed = said(&["kv", "--semaphore=wait", "--set=memory.capacity=3"]);
    assert!(fixed.contains("memory semaphore: 3 at once, as configured"), "{fixed}");
    let without = said(&["kv"]);
    assert!(!without.contains("memory"), "{without}");
}

#[test]
fn a_fixed_capacity_stays() {
    let watched = Watched::start(&[&HEAVY[..], &["--set=memory.capacity=3"]].concat());
    watched.load(&["--workload=kv", "--mix=0.9/uniform:200/const:500"]);
    until("it is shown", || watched.value(&names::MEMORY_CAPACITY) == Some(3.0));
}

#[test]
fn the_controller_is_told_what_its_utility_asks_for() {
    let bare = Bare::with_meters();
    for utility in ["bandwidth", "power"] {
        let set = format!("--set=server.admission.svalinn.utility.expression={utility}");
        let options = [bare.options(), vec!["--algorithm=svalinn".into(), set]].concat();
        let watched = Watched::start(&[&["synthetic"][..], &strs(&options)].concat());
        bare.while_used(|| {
            until("its utility is what was measured", || {
                watched.load(&[]);
                watched.value(&names::UTILITY) > Some(0.0)
            });
            until("the endpoint shows it, too", || {
                let bandwidth = labelled(&watched, &names::BANDWIDTH, "source=\"resctrl\"");
                bandwidth > Some(0.0) && watched.value(&names::POWER) > Some(0.0)
            });
        });
    }
}

#[test]
fn a_utility_that_asks_for_what_is_not_measured_is_told_of() {
    let bare = Bare::new();
    for (utility, service, reason) in [
        ("power=55", "kv", "no package of intel-rapl"),
        ("expression=goodput/max(power,1)", "synthetic", "no package of intel-rapl"),
        ("expression=bandwidth", "synthetic", "the application declares none"),
    ] {
        let set = format!("--set=server.admission.svalinn.utility.{utility}");
        let start = ["serve", "--listen=127.0.0.1:0", "--algorithm=svalinn", service, &set];
        let options = bare.options();
        let said = Served::start_exactly(&[&start[..], &strs(&options)].concat()).last_words().1;
        assert!(said.contains("which is not measured on this machine"), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let bare = Bare::new();
    let options = bare.options();
    let refused = |set: &str, expected: &[&str]| {
        let set = format!("--set=memory.{set}");
        fail(&[&["serve", "kv", "--semaphore=try", &set][..], &strs(&options)].concat(), expected);
    };
    let others = "auto takes the best that does, declared works everywhere";
    refused("source=resctrl", &["memory.source: resctrl does not work here: ", others]);
    refused("source=uncore", &["memory.source: uncore does not work here: ", others]);
    refused("source=pcm", &["expected one of `auto`, `uncore`, `resctrl`, `declared`"]);
    refused("capacity=0", &["memory.capacity: 0 is out of range; allowed is 1 to"]);
    refused("capacity_max=0", &["memory.capacity_max: 0 is out of range"]);
    refused("bandit.alpha=2", &["memory.bandit.alpha: 2 is out of range; allowed is 0 to 1"]);
}
