//! What services say of themselves, and what the agent makes of it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use seawall_abi::page::{Orders, Publisher, Reader, Sample};
use seawall_control::scaling::escalator::HintForm;
use seawall_control::scaling::{Container, Report};
use seawall_node::agent::Agent;
use seawall_node::agent::audit::Entry;
use seawall_node::agent::config::{Config, CpuActuator, Rule};
use seawall_node::agent::hierarchy::Version;
use seawall_node::agent::state::State;

use crate::fixtures::Machine;
use crate::passes::{Bench, INTERVAL_NS, config, idle, publisher, services, to};

/// Services that model their cores, of which the machine has 20.
fn modelled(machine: &Machine) -> Config {
    let mut config = config(machine);
    config.actuator.cpu = CpuActuator::Virtual;
    config.unit_milli = 1_000;
    config.defaults.floor_milli = Some(1_000);
    config.defaults.initial_milli = Some(3_000);
    config
}

/// The owner of a page writes what only the agent should.
fn grant_itself(publisher: &Publisher, granted_milli: u32) {
    let page = Reader::open(publisher.path()).unwrap();
    let orders = page.orders().unwrap();
    page.set_orders(&Orders { granted_milli, ..orders }).unwrap();
}

#[test]
fn a_service_that_models_its_cores_does_not_raise_itself() {
    let machine = Machine::new(Version::V2);
    let mut config = modelled(&machine);
    config.contests_max = 2;
    let honest = publisher(&config.pages, "honest");
    let greedy = publisher(&config.pages, "greedy");
    let mut bench = Bench::new(machine, config, idle);
    bench.pass();
    for round in 1..=10 {
        // All that there is, more than there is, nothing (which says that nobody has bounded it).
        grant_itself(&greedy, [20_000, u32::MAX, 0, 4_000][round % 4]);
        bench.pass();
        assert_eq!(bench.units(), BTreeMap::from([("greedy", 3), ("honest", 3)]));
        assert_eq!(greedy.orders().granted_milli, 3_000, "it is put back");
        assert_eq!(bench.agent.status().foreign_changes, round as u64);
        assert_eq!(bench.agent.status().units_free, 14);
    }
    assert_eq!(bench.agent.status().left_alone, 0);
    let told = bench.log().iter().filter(|entry| entry.result == "put back").count();
    assert_eq!(told, 2, "it does not fill the log");
    assert_eq!(honest.orders().granted_milli, 3_000);
}

#[test]
fn what_a_page_claims_at_first_is_cut_to_limits_and_to_what_there_is() {
    let machine = Machine::new(Version::V2);
    let mut config = modelled(&machine);
    config.defaults.limit_milli = Some(15_000);
    let pages: Vec<Publisher> =
        ["a", "b", "c"].iter().map(|name| publisher(&config.pages, name)).collect();
    for (page, claim) in pages.iter().zip([u32::MAX - 1, 18_000, 9_000]) {
        grant_itself(page, claim);
    }
    let mut bench = Bench::new(machine, config, idle);
    bench.pass();
    // The limit, then what is left of 20, then what no container has less than.
    assert_eq!(bench.units(), BTreeMap::from([("a", 15), ("b", 5), ("c", 1)]));
    let granted: Vec<u32> = pages.iter().map(|page| page.orders().granted_milli).collect();
    assert_eq!(granted, [15_000, 5_000, 1_000]);
}

#[test]
fn the_cpu_time_of_modelled_cores_is_what_their_service_says() {
    let machine = Machine::new(Version::V2);
    let config = modelled(&machine);
    let publisher = publisher(&config.pages, "a");
    let mut bench = Bench::new(machine, config, idle);
    bench.pass();
    assert_eq!(bench.last().containers[0].cpu_time, None, "it has not said anything");
    publisher.set_cpu_time(5_000_000);
    bench.pass();
    let used = bench.last().containers[0].cpu_time;
    assert_eq!(used, Some(Duration::from_millis(5)));
}

/// Wants one more than it has, for each container.
fn more(containers: &[Container]) -> Vec<seawall_control::scaling::Change> {
    containers.iter().map(|container| to(container, container.units)).collect()
}

#[test]
fn growth_is_promised_only_while_a_unit_is_free() {
    for (units, is_promised) in [(10, false), (11, true)] {
        let machine = services(Version::V2, &[("a", 50_000), ("b", 50_000)]);
        machine.enter(std::process::id(), "/system.slice/a.service");
        let mut config = config(&machine);
        config.units = Some(units);
        let publisher = publisher(&config.pages, "cart");
        let mut bench = Bench::new(machine, config, more);
        publisher.beat(bench.now_ns);
        bench.pass();
        let is_growing = publisher.orders().growing_until_ns > bench.now_ns;
        assert_eq!(is_growing, is_promised, "of {units} units, ten are taken");
    }
}

#[test]
fn a_promise_ends_with_the_lease_whatever_the_interval() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let mut config = config(&machine);
    config.lease = Duration::from_nanos(INTERVAL_NS * 2);
    let publisher = publisher(&config.pages, "cart");
    let mut bench = Bench::new(machine, config, more);
    publisher.beat(bench.now_ns);
    bench.pass();
    assert_eq!(publisher.orders().growing_until_ns, bench.now_ns + 2 * INTERVAL_NS);
}

#[test]
fn orders_hold_between_passes_that_are_far_apart() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let config = config(&machine);
    let lease_ns = config.lease.as_nanos() as u64;
    let publisher = publisher(&config.pages, "cart");
    let mut bench = Bench::new(machine, config, idle);
    publisher.beat(bench.now_ns);
    bench.pass();
    let every_ns = bench.agent.beat_every().as_nanos() as u64;
    assert!(every_ns < lease_ns);
    let mut now_ns = bench.now_ns;
    for _ in 0..40 {
        now_ns += every_ns;
        assert!(publisher.orders().hold(now_ns));
        bench.agent.beat(now_ns);
    }
    assert!(!publisher.orders().hold(now_ns + lease_ns), "without it, they end");
}

#[test]
fn requests_that_are_late_for_no_known_reason_raise_who_gets_them_but_not_the_entry() {
    let machine = Machine::new(Version::V2);
    let mut config = modelled(&machine);
    for (name, depth) in [("entry", 0), ("behind", 1)] {
        let service = Some(name.to_owned());
        config.containers.push(Rule { name: name.to_owned(), service, depth, ..Rule::default() });
    }
    config.scaling.escalator.hint = HintForm::Residual;
    let (entry, behind) = (publisher(&config.pages, "entry"), publisher(&config.pages, "behind"));
    let (policy, state) = (config.scaling.build(7).unwrap(), State::open(&config.state).unwrap());
    let interval = Duration::from_nanos(INTERVAL_NS);
    let mut agent = Agent::new(config, Box::new(policy), interval, Some(state)).unwrap();
    let mut now_ns = 1_000_000_000;
    let mut serve = |agent: &mut Agent, late_us: u64| {
        // Jobs begin at the entry; behind it, what they did there is known and not late.
        for (page, from_start_us, upstream_us) in [(&entry, 0, 0), (&behind, 100 + late_us, 100)] {
            for _ in 0..10 {
                page.shard(0).on_arrival();
                page.shard(0).on_completion(&Sample {
                    exec_ns: 100_000,
                    time_from_start_ns: Some(from_start_us * 1_000),
                    upstream_exec_ns: upstream_us * 1_000,
                    ..Sample::default()
                });
            }
            page.beat(now_ns);
        }
        agent.pass(now_ns, 0.0);
        now_ns += INTERVAL_NS;
    };
    let log = |agent: &Agent| -> Vec<Entry> {
        let text = fs::read_to_string(agent.audit_path()).unwrap_or_default();
        let entries = text.lines().map(|line| serde_json::from_str::<Entry>(line).unwrap());
        entries.filter(|entry| entry.reason.contains("late")).collect()
    };
    // Low load, until it is known what is usual.
    (0..600).for_each(|_| serve(&mut agent, 50));
    assert_eq!(log(&agent), []);
    (0..50).for_each(|_| serve(&mut agent, 5_000));
    let late = log(&agent);
    assert!(!late.is_empty() && late.iter().all(|entry| entry.container == "behind"), "{late:?}");
    // It was at ease before, and had its floor.
    assert_eq!((late[0].change.as_str(), late[0].result.as_str()), ("units 1 -> 2", "applied"));
    assert_eq!(behind.orders().granted_milli / 1_000, agent.status().containers["behind"].units);
}

#[test]
fn what_a_silent_service_had_in_it_is_not_taken_to_be_there_still() {
    let machine = services(Version::V2, &[("a", 50_000)]);
    machine.enter(std::process::id(), "/system.slice/a.service");
    let config = config(&machine);
    let (hung, well) = (publisher(&config.pages, "hung"), publisher(&config.pages, "well"));
    let mut bench = Bench::new(machine, config, idle);
    let facts = |bench: &Bench| match bench.last().containers[0].report {
        Report::Counters(counters) => counters,
        other => panic!("{other:?}"),
    };
    for page in [&hung, &well] {
        page.beat(bench.now_ns);
        page.shard(0).on_arrival();
        page.shard(0).on_wait(bench.now_ns);
    }
    bench.pass();
    assert_eq!((facts(&bench).in_flight, facts(&bench).waiting), (2, 2));
    bench.now_ns += 10_000_000_000;
    well.beat(bench.now_ns);
    bench.pass();
    assert_eq!((facts(&bench).in_flight, facts(&bench).waiting), (1, 1));
    assert_eq!(facts(&bench).waiting_ns, 10_000_000_000 + 2 * INTERVAL_NS);
}
