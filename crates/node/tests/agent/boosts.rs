//! Boosts of containers that come and go, on recorded trees; late requests ring the doorbell.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use seawall_abi::responder::{Doorbell, Late};
use seawall_node::agent::config::{Rule, Way};
use seawall_node::agent::hierarchy::Version;

use crate::passes::{Bench, config, idle, publisher, services};

const PATIENCE: Duration = Duration::from_secs(60);

/// What fixtures' pages say.
const PORT: u16 = 7;

/// A service whose late requests boost it.
fn boosted(version: Version) -> Bench {
    let machine = services(version, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let mut config = config(&machine);
    config.responder.way = Way::Doorbell;
    config.responder.boost = Duration::from_millis(400);
    config.containers.push(Rule {
        name: "a".to_owned(),
        cgroup: Some("/system.slice/a.service".to_owned()),
        expected_time_from_start: Some(Duration::from_millis(5)),
        ..Rule::default()
    });
    let mut bench = Bench::new(machine, config, idle);
    bench.agent.respond().unwrap();
    bench
}

/// Rings until the quota is this.
fn ring(bench: &Bench, quota_us: &str) {
    let bell = Doorbell::new(&bench.machine.root().join("pages")).unwrap();
    let begun = Instant::now();
    let quota = || bench.machine.quota("/system.slice/a.service");
    while quota().split(' ').next() != Some(quota_us) {
        assert!(begun.elapsed() < PATIENCE, "it has {}", quota());
        bell.ring(&Late { path: 1, port: PORT, late_by_ns: 1_000_000, ..Late::default() });
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_service_that_is_started_anew_is_boosted_like_the_one_before() {
    for version in [Version::V1, Version::V2] {
        let mut bench = boosted(version);
        let _page = publisher(&bench.machine.root().join("pages"), "a");
        bench.pass();
        ring(&bench, "100000");
        let group = bench.machine.cpu("/system.slice/a.service");
        fs::rename(&group, bench.machine.cpu("/old")).unwrap();
        bench.machine.group("/system.slice/a.service", Some(40_000));
        bench.pass();
        bench.pass();
        ring(&bench, "80000");
        assert_eq!(bench.agent.status().foreign_changes, 0);
        bench.agent.close();
        assert!(bench.machine.quota("/system.slice/a.service").starts_with("40000"));
    }
}

#[test]
fn a_boost_knows_the_period_that_others_have_set() {
    for version in [Version::V1, Version::V2] {
        let mut bench = boosted(version);
        let _page = publisher(&bench.machine.root().join("pages"), "a");
        bench.pass();
        // As `systemctl set-property CPUQuotaPeriodSec=10ms` does: its share is what it was.
        let group = bench.machine.cpu("/system.slice/a.service");
        match version {
            Version::V1 => {
                fs::write(group.join("cpu.cfs_quota_us"), "5000\n").unwrap();
                fs::write(group.join("cpu.cfs_period_us"), "10000\n").unwrap();
            }
            Version::V2 => fs::write(group.join("cpu.max"), "5000 10000\n").unwrap(),
        }
        bench.pass();
        ring(&bench, "10000");
        bench.agent.close();
    }
}
