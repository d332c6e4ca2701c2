//! Meters of memory and power, on trees of files as kernels lay them out: put together from what
//! their drivers write, not recorded.

mod tree;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seawall_control::Instant;
use seawall_control::steer::Meter;
use seawall_measure::memory::{
    Count, Counter, Counters, Declared, Detected, Event, Resctrl, Source, detect, detect_in,
};
use seawall_measure::power::{Energy, Power};
use tree::Tree;

/// Counters that show what a test says, all of them the same.
#[derive(Clone, Default)]
struct Hardware {
    now: Arc<Mutex<Count>>,
    opened: Rc<RefCell<Vec<Event>>>,
}

struct Shown(Arc<Mutex<Count>>);

impl Counter for Shown {
    fn count(&mut self) -> io::Result<Count> {
        Ok(*self.0.lock().unwrap())
    }
}

impl Hardware {
    fn open(&self, event: &Event) -> Box<dyn Counter> {
        self.opened.borrow_mut().push(event.clone());
        Box::new(Shown(self.now.clone()))
    }

    fn show(&self, value: u64, enabled: u64, running: u64) {
        *self.now.lock().unwrap() = Count { value, enabled, running };
    }

    fn detect(&self, tree: &Tree) -> Detected {
        detect_in(&tree.roots(), &mut |event| Ok(self.open(event)))
    }
}

/// Opens no counter.
fn deny(_: &Event) -> io::Result<Box<dyn Counter>> {
    Err(io::ErrorKind::PermissionDenied.into())
}

/// How many counters are opened of each PMU with each configuration, on which CPUs.
fn summary(events: &[Event]) -> BTreeMap<(String, u64), Vec<u32>> {
    let mut summary = BTreeMap::<_, Vec<u32>>::new();
    for event in events {
        assert_eq!((&event.config[1..], event.bytes), (&[0, 0][..], 64.0), "{event:?}");
        summary.entry((event.pmu.clone(), event.config[0])).or_default().push(event.cpu);
    }
    summary
}

/// Opens the counters of a machine, and says what they are.
fn opened(tree: &str, name: &str) -> BTreeMap<(String, u64), Vec<u32>> {
    let hardware = Hardware::default();
    let detected = hardware.detect(&Tree::new(tree));
    assert_eq!(detected.meter.expect("there are counters").name(), name);
    let opened = hardware.opened.borrow();
    summary(&opened)
}

#[test]
fn controllers_of_ice_lake_count_what_they_read_and_write() {
    let opened = opened("ice-lake", "uncore_imc, 48 counters");
    assert_eq!(opened.len(), 24);
    for controller in 0..12 {
        for config in [0x0f04, 0x3004] {
            assert_eq!(opened[&(format!("uncore_imc_{controller}"), config)], [0, 40]);
        }
    }
}

#[test]
fn controllers_of_sapphire_rapids_have_other_events() {
    let opened = opened("sapphire-rapids", "uncore_imc, 32 counters");
    assert_eq!(opened[&("uncore_imc_7".into(), 0xcf05)], [0, 56]);
    assert_eq!(opened[&("uncore_imc_7".into(), 0xf005)], [0, 56]);
}

#[test]
fn where_the_kernel_names_no_events_there_are_free_running_counters() {
    let opened = opened("sapphire-rapids-5.15", "uncore_imc_free_running, 16 counters");
    assert_eq!(opened.len(), 8);
    assert_eq!(opened[&("uncore_imc_free_running_3".into(), 0x20ff)], [0, 56]);
    assert_eq!(opened[&("uncore_imc_free_running_3".into(), 0x21ff)], [0, 56]);
}

#[test]
fn the_data_fabric_of_zen_2_counts_for_each_channel() {
    let opened = opened("zen2", "amd_df, 16 counters");
    let channels = opened.keys().map(|(_, config)| *config);
    let expected = [
        0x3807,
        0x3847,
        0x3887,
        0x38c7,
        0x1_0000_3807,
        0x1_0000_3847,
        0x1_0000_3887,
        0x1_0000_38c7,
    ];
    assert!(channels.eq(expected));
    assert!(opened.values().all(|cpus| *cpus == [0, 64]));
}

#[test]
fn controllers_of_zen_4_count_themselves() {
    let opened = opened("zen4", "amd_umc, 12 counters");
    assert_eq!(opened[&("amd_umc_11".into(), 0x0a)], [0]);
}

#[test]
fn a_total_is_lines_of_all_counters() {
    let (hardware, tree) = (Hardware::default(), Tree::new("ice-lake"));
    let mut meter = hardware.detect(&tree).meter.unwrap();
    assert_eq!(meter.resolution(), Duration::ZERO);
    hardware.show(1_000, 500, 500);
    assert_eq!(meter.total(), Some(48 * 1_000 * 64));
    hardware.show(1_500, 900, 900);
    assert_eq!(meter.total(), Some(48 * 1_500 * 64));
}

#[test]
fn counters_that_take_turns_are_taken_to_see_what_is_usual() {
    let (hardware, tree) = (Hardware::default(), Tree::new("zen2"));
    let mut meter = hardware.detect(&tree).meter.unwrap();
    assert_eq!(meter.resolution(), Duration::from_millis(20));
    hardware.show(1_000, 4_000, 2_000);
    assert_eq!(meter.total(), Some(16 * 2_000 * 64));
    hardware.show(1_000, 6_000, 2_000); // not their turn
    assert_eq!(meter.total(), Some(16 * 2_000 * 64));
    hardware.show(2_000, 8_000, 4_000);
    assert_eq!(meter.total(), Some(16 * 4_000 * 64));
}

#[test]
fn a_counter_that_cannot_be_read_makes_no_total() {
    struct Broken;
    impl Counter for Broken {
        fn count(&mut self) -> io::Result<Count> {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
    let (hardware, tree) = (Hardware::default(), Tree::new("zen4"));
    drop(hardware.detect(&tree));
    let events = hardware.opened.take();
    let mut counters = Counters::open(&events, &mut |_| Ok(Box::new(Broken))).unwrap();
    assert_eq!(counters.total(), None);
}

#[test]
fn the_second_best_is_taken_and_the_reason_told() {
    let tree = Tree::new("ice-lake");
    let detected = detect_in(&tree.roots(), &mut deny);
    assert_eq!(
        detected.to_string(),
        "memory controllers: not to be had: uncore_imc_0 on CPU 0: permission denied; it takes \
         CAP_PERFMON, or 0 in /proc/sys/kernel/perf_event_paranoid\n\
         resctrl: used\n"
    );
    assert_eq!(detected.meter.unwrap().total(), Some(83_200_000_000));
}

#[test]
fn what_is_best_is_not_compared() {
    let detected = Hardware::default().detect(&Tree::new("ice-lake"));
    assert_eq!(detected.to_string(), "memory controllers: uncore_imc, 48 counters, used\n");
    assert_eq!(detected.source(), Some(Source::Uncore));
}

#[test]
fn a_virtual_machine_has_nothing_and_says_so() {
    let tree = Tree::new("virtual");
    let detected = Hardware::default().detect(&tree);
    assert!(detected.meter.is_none());
    let said = detected.to_string().replace(&tree.path(""), "");
    assert_eq!(
        said,
        "memory controllers: not to be had: sys/bus/event_source/devices: no counters of a memory \
         controller, only breakpoint, msr, software, tracepoint\n\
         resctrl: not to be had: resctrl: no resctrl file system is mounted here (or processor or \
         kernel lack it)\n\
         declared bytes: to be had, if the application counts what it moves\n"
    );
}

#[test]
fn where_no_hardware_counts_the_application_does() {
    static MOVED: Declared = Declared::new();
    let tree = Tree::new("virtual");
    let detected = Source::Auto.open_with(&tree.roots(), Some(&MOVED), &mut deny).unwrap();
    assert_eq!(detected.source(), Some(Source::Declared));
    let said = detected.to_string();
    assert!(said.ends_with("declared bytes: used\n"), "{said}");
    MOVED.add(5);
    assert_eq!(detected.meter.unwrap().total(), Some(5));
    let detected = Source::Auto.open_with(&tree.roots(), None, &mut deny).unwrap();
    assert!(detected.meter.is_none() && detected.source().is_none());
    let said = detected.to_string();
    assert!(said.ends_with("declared bytes: not to be had: the application declares none\n"));
}

#[test]
fn a_source_that_is_named_is_the_only_one() {
    static MOVED: Declared = Declared::new();
    let tree = Tree::new("ice-lake");
    let open = |source: Source| source.open_with(&tree.roots(), Some(&MOVED), &mut deny);
    for source in [Source::Resctrl, Source::Declared] {
        let detected = open(source).unwrap();
        assert_eq!((detected.source(), detected.findings.len()), (Some(source), 1));
    }
    let refused = open(Source::Uncore).unwrap_err().to_string();
    assert!(refused.contains("CAP_PERFMON"), "{refused}");
    let refused = Source::Declared.open_with(&tree.roots(), None, &mut deny).unwrap_err();
    assert_eq!(refused.to_string(), "the application declares none");
}

#[test]
fn a_newer_data_fabric_is_not_mistaken_for_an_older_one() {
    let said = Hardware::default().detect(&Tree::new("zen4-6.1")).to_string();
    assert!(said.contains("a data fabric of Zen 4 or later, and no amd_umc"), "{said}");
}

#[test]
fn this_machine_has_some_of_it_or_says_why_not() {
    let detected = detect();
    assert!(!detected.findings.is_empty());
    println!("{detected}");
    let works = detected.findings.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    assert_eq!(works, usize::from(detected.meter.is_some()));
    if let Some(mut meter) = detected.meter {
        let (before, after) = (meter.total(), meter.total());
        assert!(before.is_some() && before <= after);
    }
}

#[test]
fn resctrl_adds_up_caches_and_control_groups() {
    let tree = Tree::new("sapphire-rapids");
    let mut resctrl = Resctrl::open(&tree.roots().resctrl).unwrap();
    assert_eq!(resctrl.total(), Some(5_000 + 7_000 + 100 + 200));
    let cache = "resctrl/mon_data/mon_L3_01/mbm_total_bytes";
    tree.write(cache, "7500");
    assert_eq!(resctrl.total(), Some(12_800));
    for nothing in ["Unavailable", "Error", "Unassigned", ""] {
        tree.write(cache, nothing);
        assert_eq!(resctrl.total(), None, "{nothing}");
    }
    tree.write(cache, "7600");
    assert_eq!(resctrl.total(), Some(12_900));
    tree.remove("resctrl/batch");
    assert_eq!(resctrl.total(), None);
}

#[test]
fn resctrl_says_what_is_missing() {
    let tree = Tree::new("zen4");
    let problem = |tree: &Tree| Resctrl::open(&tree.roots().resctrl).unwrap_err().to_string();
    assert!(problem(&tree).ends_with("it says \"Unavailable\", which is no number"));
    for cache in ["00", "01"] {
        tree.remove(&format!("resctrl/mon_data/mon_L3_{cache}/mbm_total_bytes"));
    }
    assert!(problem(&tree).ends_with("mon_data: no cache in it has mbm_total_bytes"));
    tree.remove("resctrl/info");
    assert!(problem(&tree).contains("no resctrl file system is mounted here"));
}

#[test]
fn caches_of_zen_2_are_many() {
    let tree = Tree::new("zen2");
    assert_eq!(Resctrl::open(&tree.roots().resctrl).unwrap().total(), Some(10_000));
}

#[test]
fn broken_descriptions_are_named() {
    let complain = |path: &str, text: &str| {
        let tree = Tree::new("ice-lake");
        let path = format!("sys/bus/event_source/devices/uncore_imc_0/{path}");
        tree.write(&path, text);
        tree.remove("resctrl/info");
        for controller in 0..4 {
            let name = format!("uncore_imc_free_running_{controller}");
            tree.remove(&format!("sys/bus/event_source/devices/{name}"));
        }
        Hardware::default().detect(&tree).findings[0].1.clone().unwrap_err().to_string()
    };
    assert!(complain("cpumask", "").ends_with("\"\" names no CPU"));
    assert!(complain("type", "imc").ends_with("it says \"imc\", which is no number"));
    assert!(complain("events/cas_count_read.unit", "W").ends_with("\"W\" is no unit of bytes"));
    assert!(complain("format/umask", "config:8-9").contains("\"umask=0x0f\" does not fit"));
    assert!(complain("events/cas_count_read", "event=4,what=1").contains("\"what=1\""));
}

#[test]
fn declared_bytes_are_what_was_declared() {
    static MOVED: Declared = Declared::new();
    let mut meter = &MOVED;
    assert_eq!(meter.total(), Some(0));
    MOVED.add(4_096);
    MOVED.add(u64::MAX);
    assert_eq!(
        (meter.total(), MOVED.bytes(), meter.name()),
        (Some(4_095), 4_095, "declared bytes")
    );
}

#[test]
fn power_is_that_of_packages_and_survives_the_wrap_of_their_counters() {
    let tree = Tree::new("ice-lake");
    let mut power = Power::open(&tree.powercap()).unwrap();
    assert_eq!(power.watts(Instant::from_micros(0)), None);
    // A tenth of a second at 100 W and 80 W; the first counter had 0.32885 J to go.
    tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "9671150");
    tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "13000000");
    tree.write("sys/class/powercap/intel-rapl:0:0/energy_uj", "9999999");
    let watts = power.watts(Instant::from_micros(100_000)).unwrap();
    assert!((watts - 180.0).abs() < 1e-6, "{watts}");
    tree.remove("sys/class/powercap/intel-rapl:1");
    assert_eq!(power.watts(Instant::from_micros(200_000)), None);
}

#[test]
fn energy_of_other_zones_is_not_counted_twice() {
    let tree = Tree::new("sapphire-rapids");
    let mut energy = Energy::open(&tree.powercap()).unwrap();
    for zone in ["intel-rapl:2", "intel-rapl-mmio:0", "intel-rapl:0:0"] {
        tree.write(&format!("sys/class/powercap/{zone}/energy_uj"), "99000000");
    }
    assert_eq!(energy.total(), Some(0));
    tree.write("sys/class/powercap/intel-rapl:1/energy_uj", "2500000");
    assert_eq!((energy.total(), energy.name()), (Some(500_000), "energy of packages"));
}

#[test]
fn processors_of_the_other_maker_have_packages_too() {
    let tree = Tree::new("zen2");
    let mut energy = Energy::open(&tree.powercap()).unwrap();
    tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "4000000");
    assert_eq!(energy.total(), Some(1_000_000));
}

#[test]
fn power_says_what_is_missing() {
    let problem = |tree: &Tree| Energy::open(&tree.powercap()).unwrap_err().to_string();
    assert!(problem(&Tree::new("virtual")).ends_with("no package of intel-rapl is in it"));
    let tree = Tree::new("zen4");
    tree.remove("sys/class/powercap/intel-rapl:0/energy_uj");
    assert!(problem(&tree).contains("intel-rapl:0/energy_uj: No such file"));
}
