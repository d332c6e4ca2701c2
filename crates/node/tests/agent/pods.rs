//! Containers of pods, whose groups are bounded, too.

use std::fs;

use seawall_node::agent::hierarchy::Version;
use seawall_node::agent::state::State;

use crate::fixtures::{Machine, POD, id, systemd_pod};
use crate::passes::{Bench, Script, config, to};

/// A pod with 80 % of a CPU, and containers in it.
fn pod(version: Version, containers: &[(char, Option<u64>)]) -> (Machine, String) {
    let machine = Machine::new(version);
    for (digit, quota) in containers {
        machine.group(&systemd_pod("burstable", POD, &id(*digit)), *quota);
    }
    let group = systemd_pod("burstable", POD, &id(containers[0].0));
    let (pod, _) = group.rsplit_once('/').unwrap();
    machine.group(pod, Some(80_000));
    (machine, pod.to_owned())
}

fn bench(machine: Machine) -> Bench {
    let mut config = config(&machine);
    config.discovery.kubernetes = true;
    config.defaults.limit_milli = Some(1_500);
    Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, 12)).collect()
    })
}

fn quota_us(machine: &Machine, group: &str) -> String {
    machine.quota(group).split(' ').next().unwrap().to_owned()
}

#[test]
fn the_group_of_a_pod_with_one_container_is_raised_with_it() {
    for version in [Version::V1, Version::V2] {
        // The sandbox has a group, too, without a bound.
        let (machine, pod) = pod(version, &[('a', Some(80_000)), ('b', None)]);
        let container = systemd_pod("burstable", POD, &id('a'));
        let mut bench = bench(machine);
        bench.pass();
        let one = bench.agent.status().containers.values().next().unwrap();
        assert_eq!((one.units, one.limit, one.is_bound), (12, 15, false));
        assert_eq!(quota_us(&bench.machine, &pod), "150000", "all that the container may get");
        assert_eq!(quota_us(&bench.machine, &container), "120000");
        let log = bench.log();
        assert_eq!((&*log[0].change, &*log[0].result), ("pod milli 800 -> 1500", "applied"));
        let done = bench.agent.close();
        assert_eq!((done.restored, done.failed.len()), (2, 0));
        assert_eq!(quota_us(&bench.machine, &pod), "80000");
        assert_eq!(quota_us(&bench.machine, &container), "80000");
    }
}

#[test]
fn what_a_crash_left_raised_is_put_back_too() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(80_000))]);
    let mut bench = bench(machine);
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "150000");
    let Bench { machine, agent, .. } = bench;
    drop(agent);
    let done = State::open(&machine.root().join("state")).unwrap().restore();
    assert_eq!((done.restored, done.failed.len()), (2, 0));
    assert_eq!(quota_us(&machine, &pod), "80000");
}

#[test]
fn a_pod_is_raised_no_further_than_what_is_around_it() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(80_000))]);
    machine.group("/kubepods.slice", Some(100_000));
    let mut bench = bench(machine);
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "100000");
    let one = bench.agent.status().containers.values().next().unwrap();
    assert_eq!((one.units, one.limit, one.is_bound), (10, 10, true));
    // Somebody raises that: the pod and its container may follow.
    bench.machine.group("/kubepods.slice", Some(120_000));
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "120000");
    let one = bench.agent.status().containers.values().next().unwrap();
    assert_eq!((one.units, one.limit, one.is_bound), (12, 12, true));
    bench.machine.group("/kubepods.slice", None);
    bench.pass();
    let one = bench.agent.status().containers.values().next().unwrap();
    assert_eq!((one.limit, one.is_bound), (15, false));
    assert_eq!(bench.agent.close().failed.len(), 0);
    assert_eq!(quota_us(&bench.machine, &pod), "80000");
}

#[test]
fn what_others_gave_a_pod_is_not_raised_further() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(80_000))]);
    machine.group("/kubepods.slice", Some(100_000));
    let mut bench = bench(machine);
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "100000");
    bench.machine.group(&pod, Some(90_000));
    bench.machine.group("/kubepods.slice", None);
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "90000");
}

#[test]
fn a_pod_with_several_containers_binds_them() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(50_000)), ('b', Some(30_000))]);
    let mut bench = bench(machine);
    bench.pass();
    for one in bench.agent.status().containers.values() {
        assert_eq!((one.units, one.limit, one.is_bound), (8, 8, true));
    }
    assert_eq!(quota_us(&bench.machine, &pod), "80000");
}

#[test]
fn a_dry_run_raises_no_pod() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(80_000))]);
    let mut config = config(&machine);
    config.discovery.kubernetes = true;
    let script: Script = Box::new(|_| Vec::new());
    let mut bench = Bench::with(machine, config, None, script);
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "80000");
}

#[test]
fn a_pod_whose_container_is_left_to_others_is_put_back() {
    let (machine, pod) = pod(Version::V2, &[('a', Some(80_000))]);
    let mut config = config(&machine);
    config.discovery.kubernetes = true;
    config.contests_max = 0;
    let mut bench = Bench::new(machine, config, |containers| {
        containers.iter().map(|container| to(container, 12)).collect()
    });
    bench.pass();
    assert_eq!(quota_us(&bench.machine, &pod), "200000", "all that the machine has");
    let container = bench.machine.cpu(&systemd_pod("burstable", POD, &id('a')));
    fs::write(container.join("cpu.max"), "30000 100000").unwrap();
    bench.pass();
    assert_eq!(bench.agent.status().left_alone, 1);
    assert_eq!(quota_us(&bench.machine, &pod), "80000");
}
