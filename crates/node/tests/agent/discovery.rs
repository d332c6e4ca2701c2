//! Containers are found by the names of their groups.

use std::fs;

use seawall_node::agent::config::{Config, Rule};
use seawall_node::agent::discover::{CONTAINERS_MAX, Finder, Found, Kind};
use seawall_node::agent::hierarchy::{Hierarchies, Version};

use crate::fixtures::{Machine, POD, cgroupfs_pod, id, systemd_pod};

fn finder(machine: &Machine, config: &Config) -> Finder {
    config.validate().unwrap();
    Finder::new(config, Hierarchies::detect(machine.root()).unwrap().cpu)
}

fn found(machine: &Machine, config: &Config) -> Vec<Found> {
    let scan = finder(machine, config).scan();
    assert_eq!((scan.unreadable, scan.is_cut), (0, false));
    scan.found
}

fn kubernetes() -> Config {
    let mut config = Config::default();
    config.discovery.kubernetes = true;
    config
}

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

#[test]
fn pods_of_both_drivers_in_both_versions() {
    for version in VERSIONS {
        for path in [systemd_pod, cgroupfs_pod] {
            let machine = Machine::new(version);
            let (a, b) = (path("burstable", POD, &id('a')), path("besteffort", POD, &id('b')));
            machine.group(&a, Some(50_000));
            machine.group(&b, None);
            // A process that the container manages for itself, and groups that are no pods.
            machine.group(&format!("{a}/inner"), None);
            machine.group("/system.slice/kubelet.service", None);
            machine.group(&format!("/system.slice/docker-{}.scope", id('c')), None);
            let found = found(&machine, &kubernetes());
            assert_eq!(found.len(), 2, "{found:?}");
            let of_a = found.iter().find(|found| found.group == a).unwrap();
            let (pod, container) = (POD.to_owned(), id('a'));
            assert_eq!(of_a.kind, Kind::Kubernetes { pod, container });
            assert_eq!(of_a.name, format!("{POD}/aaaaaaaaaaaa"));
            assert!(found.iter().any(|found| found.group == b));
        }
    }
}

#[test]
fn docker_in_both_ways() {
    let machine = Machine::new(Version::V2);
    machine.group(&format!("/docker/{}", id('d')), None);
    machine.group(&format!("/system.slice/docker-{}.scope", id('e')), None);
    machine.group("/docker/buildkit", None);
    let mut config = Config::default();
    config.discovery.docker = true;
    let names: Vec<String> = found(&machine, &config).into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["docker/dddddddddddd", "docker/eeeeeeeeeeee"]);
}

#[test]
fn units_of_systemd_by_pattern() {
    let machine = Machine::new(Version::V1);
    for unit in ["web-1.service", "web-2.service", "ssh.service"] {
        machine.group(&format!("/system.slice/{unit}"), None);
    }
    machine.group("/shop.slice/cart.service", None);
    let mut config = Config::default();
    config.discovery.systemd = vec!["web-*.service".to_owned(), "shop.slice".to_owned()];
    let names: Vec<String> = found(&machine, &config).into_iter().map(|found| found.name).collect();
    // What is in a slice that was chosen is the slice's business.
    assert_eq!(names, ["shop.slice", "web-1.service", "web-2.service"]);
}

#[test]
fn groups_that_the_configuration_names() {
    let machine = Machine::new(Version::V2);
    for group in ["/apps/cart", "/apps/cart/worker", "/apps/search", "/other"] {
        machine.group(group, None);
    }
    let rule = |name: &str, cgroup: &str| Rule {
        name: name.to_owned(),
        cgroup: Some(cgroup.to_owned()),
        ..Rule::default()
    };
    let containers = vec![rule("cart", "/apps/cart"), rule("app", "/apps/*")];
    let found = found(&machine, &Config { containers, ..Config::default() });
    let rules: Vec<_> = found.iter().map(|found| (found.group.as_str(), found.rule)).collect();
    assert_eq!(rules, [("/apps/cart", Some(0)), ("/apps/search", Some(1))]);
    assert!(found.iter().all(|found| found.kind == Kind::Configured));
}

#[test]
fn a_rule_may_say_more_of_a_pod() {
    let machine = Machine::new(Version::V2);
    machine.group(&systemd_pod("burstable", POD, &id('a')), None);
    let mut config = kubernetes();
    config.containers.push(Rule {
        name: "cart".to_owned(),
        cgroup: Some("/kubepods.slice/**/cri-containerd-aaa*.scope".to_owned()),
        ..Rule::default()
    });
    let found = found(&machine, &config);
    assert_eq!(found[0].rule, Some(0));
    assert!(matches!(found[0].kind, Kind::Kubernetes { .. }));
}

#[test]
fn two_thousand_containers_are_one_walk() {
    let machine = Machine::new(Version::V2);
    for number in 0..2_000 {
        let uid = format!("{number:08x}-9d8f-4a2c-a3f3-9b1c5a0c7f3e");
        let folder = machine.cpu(&systemd_pod("burstable", &uid, &id('a')));
        fs::create_dir_all(folder).unwrap();
    }
    assert_eq!(found(&machine, &kubernetes()).len(), 2_000);
}

#[test]
fn more_than_anybody_has_are_cut() {
    let machine = Machine::new(Version::V2);
    let mut config = Config::default();
    config.discovery.systemd = vec!["*.service".to_owned()];
    for number in 0..=CONTAINERS_MAX {
        fs::create_dir_all(machine.cpu(&format!("/{number}.service"))).unwrap();
    }
    let scan = finder(&machine, &config).scan();
    assert!(scan.is_cut);
    assert_eq!(scan.found.len(), CONTAINERS_MAX);
}

#[test]
fn containers_that_come_and_go_while_they_are_listed() {
    let machine = Machine::new(Version::V2);
    let mut config = Config::default();
    config.discovery.systemd = vec!["*.service".to_owned()];
    let finder = finder(&machine, &config);
    let stays = "/system.slice/stays.service";
    machine.group(stays, None);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for round in 0..300 {
                let folder = machine.cpu(&format!("/system.slice/{}.slice", round % 7));
                fs::create_dir_all(folder.join("a.service")).unwrap();
                fs::remove_dir_all(&folder).unwrap();
            }
        });
        while !churn.is_finished() {
            let scan = finder.scan();
            assert!(scan.found.iter().any(|found| found.group == stays));
            assert_eq!(scan.unreadable, 0, "one that has gone is no fault");
        }
    });
    assert_eq!(finder.scan().found.len(), 1);
}
