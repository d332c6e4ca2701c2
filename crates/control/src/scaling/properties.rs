//! What holds for every policy, whatever containers say.

use std::format;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::fixture::apply;
use super::{
    Averages, Config, Container, ContainerId, Counters, Expected, Memory, NAMES, Node, Remembered,
    Report, Snapshot,
};
use crate::time::Instant;

/// Every policy in every variant, with short windows so that much happens in few steps.
fn configs() -> Vec<Config> {
    let variants = [
        "policy = 'parties'\nparties.variant = 'original'",
        "policy = 'escalator'\nescalator.variant = 'released'",
        "policy = 'escalator'\nescalator.hint = 'both'\nescalator.settle = 0.0",
        "policy = 'escalator'\nescalator.metrics = false\nescalator.sensitivity = false",
    ];
    let named = NAMES.map(|name| format!("policy = '{name}'"));
    let texts = named.into_iter().chain(variants.map(String::from));
    let short = "intake.samples_min = 1\nprofile.window = '1ms'\nprofile.samples_min = 1\n\
                 escalator.matrix_samples = 1\nvpa.confidence = '1s'";
    texts.map(|text| toml::from_str(&format!("{text}\n{short}")).unwrap()).collect()
}

/// Numbers as they occur, and others.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0_u64..20, 3 => 0_u64..10_000_000_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0_u32..12, 1 => any::<u32>()]
}

fn duration() -> impl Strategy<Value = Duration> {
    number().prop_map(Duration::from_nanos)
}

fn report() -> impl Strategy<Value = Report> {
    let counters = vec(number(), 11).prop_map(|it| {
        Report::Counters(Counters {
            requests: it[0],
            in_flight: it[1],
            exec_ns: it[2],
            pool_wait_ns: it[3],
            time_from_start_ns: it[4],
            upstream_exec_ns: it[5],
            hinted: it[6],
            shed: it[7],
            started: it[8],
            waiting: it[9],
            waiting_ns: it[10],
        })
    });
    let float = || prop_oneof![3 => 0.0..1e9, 1 => any::<f64>(), 1 => Just(f64::NAN)];
    let averages = (float(), float(), float(), any::<bool>()).prop_map(
        |(exec_metric_ns, exec_time_ns, time_from_start_ns, is_hinted)| {
            Report::Averages(Averages {
                exec_metric_ns,
                exec_time_ns,
                time_from_start_ns,
                is_hinted,
            })
        },
    );
    prop_oneof![4 => counters, 2 => averages, 1 => Just(Report::None)]
}

fn any_container() -> impl Strategy<Value = Container> {
    let allocation = (0_u64..6, small(), small(), small());
    let state = (0_u16..6, 0_u16..6, 0_u16..4, of(duration()), of(duration()), of(duration()));
    (allocation, state, report()).prop_map(|((id, units, floor, limit), state, report)| {
        let (level, hint, depth, cpu_time, exec, time_from_start) = state;
        Container {
            id: ContainerId(id),
            units,
            floor,
            limit,
            level,
            hint,
            depth,
            cpu_time,
            expected: Expected { exec, time_from_start },
            report,
        }
    })
}

fn node() -> impl Strategy<Value = Node> {
    (small(), small(), 0_u16..5, 0_u16..5).prop_map(|(units, unit_milli, levels, level_base)| {
        Node { units, unit_milli, levels, level_base }
    })
}

fn any_snapshots() -> impl Strategy<Value = Vec<(u64, Snapshot)>> {
    let snapshot = (node(), vec(any_container(), 0..8))
        .prop_map(|(node, containers)| Snapshot { node, containers });
    vec((number(), snapshot), 1..12)
}

/// What one container does in one step: requests, execution and waits in tenths of its own, and
/// the rest now and then.
type Deeds = Vec<(u64, u64, u64, u8)>;

fn deeds() -> impl Strategy<Value = Vec<Deeds>> {
    let deed = (0_u64..40, 1_u64..80, 0_u64..11, any::<u8>());
    vec(vec(deed, 5), 1..60)
}

/// A node that lives on, with what was decided carried out.
fn live(config: &Config, seed: u64, units: u32, levels: u16, deeds: &[Deeds]) -> Vec<String> {
    let mut scaler = config.build(seed).unwrap();
    let mut containers: Vec<_> = (0..5).map(|id| super::fixture::container(id, 3)).collect();
    containers.iter_mut().for_each(|it| (it.floor, it.limit) = (2, 9));
    let node = Node { units, levels, ..Node::default() };
    let mut snapshot = Snapshot { node, containers };
    let mut decisions = Vec::new();
    for (step, deeds) in (1_u64..).zip(deeds) {
        for (container, (requests, tenths, waits, rest)) in
            snapshot.containers.iter_mut().zip(deeds)
        {
            let Report::Counters(counters) = &mut container.report else { unreachable!() };
            let exec = requests * tenths * 100_000;
            counters.requests += requests;
            counters.exec_ns += exec;
            counters.pool_wait_ns += exec * waits / 11;
            counters.started += requests;
            counters.time_from_start_ns += exec;
            counters.hinted += u64::from(rest % 5 == 0) * requests;
            counters.shed += u64::from(rest % 7 == 0);
            let used = Duration::from_millis(10) * (rest % 4).into();
            container.cpu_time = Some(container.cpu_time.unwrap_or_default() + used);
        }
        let outcome = scaler.on_snapshot(Instant::from_micros(step * 10_000), &snapshot);
        apply(&mut snapshot, &outcome);
        decisions.push(format!("{outcome:?}"));
    }
    decisions
}

proptest! {
    #[test]
    fn bounds_hold_whatever_containers_say(snapshots in any_snapshots(), seed: u64) {
        for config in configs() {
            let mut scaler = config.build(seed).unwrap();
            let mut now = Instant::ORIGIN;
            for (passed, snapshot) in &snapshots {
                now = now + Duration::from_nanos(*passed);
                let outcome = scaler.on_snapshot(now, snapshot);
                apply(&mut snapshot.clone(), &outcome);
                for candidate in &outcome.candidates {
                    let is_there = |it: &Container| it.id == candidate.container;
                    prop_assert!(snapshot.containers.iter().any(is_there));
                    prop_assert!(candidate.score > 0);
                }
            }
            // What was learned can be written down and read.
            let memory = scaler.memory();
            let text = toml::to_string(&memory).unwrap();
            prop_assert_eq!(toml::from_str::<Memory>(&text).unwrap(), memory);
        }
    }

    #[test]
    fn bounds_hold_while_a_node_lives_on(
        deeds in deeds(), seed: u64, units in 10_u32..30, levels in 1_u16..6,
    ) {
        for config in configs() {
            let decisions = live(&config, seed, units, levels, &deeds);
            prop_assert_eq!(live(&config, seed, units, levels, &deeds), decisions);
        }
    }

    #[test]
    fn any_memory_is_taken_up_or_refused(
        entries in vec((0_u64..4, of(any::<f64>()), vec((any::<u32>(), any::<f64>()), 0..4)), 0..6),
    ) {
        let containers = entries.iter().map(|(id, value, exec_avg)| Remembered {
            id: *id,
            exec_ns: *value,
            queue_buildup: *value,
            exec_avg: exec_avg.clone(),
            ..Remembered::default()
        });
        let mut scaler = Config::named("escalator").unwrap().build(0).unwrap();
        let absurd = scaler.recall(Memory { containers: containers.collect() });
        prop_assert!(absurd <= entries.len());
        let containers = (0..4).map(|id| super::fixture::container(id, 3)).collect();
        let snapshot = Snapshot { node: Node { units: 20, ..Node::default() }, containers };
        for step in 1..5 {
            let outcome = scaler.on_snapshot(Instant::from_micros(step), &snapshot);
            apply(&mut snapshot.clone(), &outcome);
        }
    }
}

#[test]
fn what_was_learned_outlives_the_agent() {
    let config = Config::named("escalator").unwrap();
    let learned = Remembered {
        id: 1,
        exec_ns: Some(500_000.0),
        queue_buildup: Some(1.5),
        exec_avg: Vec::from([(2, 1e6), (3, 0.5e6)]),
        ..Remembered::default()
    };
    let later = Remembered { id: 9, exec_ns: Some(1.0), ..Remembered::default() };
    let absurd = Remembered { id: 2, exec_ns: Some(f64::NAN), ..Remembered::default() };
    let memory = Memory { containers: Vec::from([learned.clone(), later.clone()]) };
    let mut scaler = config.build(0).unwrap();
    let mut with_absurd = memory.clone();
    with_absurd.containers.push(absurd);
    assert_eq!(scaler.recall(with_absurd), 1);
    assert_eq!(scaler.memory(), Memory { containers: Vec::from([learned, later]) });

    let mut container = super::fixture::container(1, 2);
    container.expected = Expected::default();
    let snapshot = Snapshot { containers: Vec::from([container]), ..Snapshot::default() };
    scaler.on_snapshot(Instant::ORIGIN, &snapshot);
    let expected = scaler.profiled(ContainerId(1)).unwrap();
    assert_eq!(expected.exec, Some(Duration::from_millis(1)), "twice what it was");
    assert_eq!(scaler.memory(), memory, "also of the one that has not come yet");
}
