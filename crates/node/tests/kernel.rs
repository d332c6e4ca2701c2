//! Run queues of the kernel that runs these tests. Where it shows none, the tests say why and pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use seawall_control::predict::cpu::{Features, State, WAIT_MAX};
use seawall_node::precision::{Mix, Plan, measure};
use seawall_node::{RunQueues, Unavailable};

fn open() -> Option<RunQueues> {
    match RunQueues::open() {
        Ok(queues) => Some(queues),
        Err(
            reason @ (Unavailable::NoBtf
            | Unavailable::NotPermitted(_)
            | Unavailable::NoTicks
            | Unavailable::Refused(_)),
        ) => {
            eprintln!("not tested: {reason}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn keep_to_first_cpu() {
    let mut set = CpuSet::new();
    set.set(0).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

#[test]
fn threads_that_compete_are_seen() {
    let Some(mut queues) = open() else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, hear) = channel();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (stop, tell) = (stop.clone(), tell.clone());
            std::thread::spawn(move || {
                keep_to_first_cpu();
                tell.send(gettid().as_raw() as u64).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let ids: Vec<u64> = threads.iter().map(|_| hear.recv().unwrap()).collect();
    let sample = queues.watch(0, std::process::id()).unwrap();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    assert_eq!((sample.cpu, sample.lost), (0, 0));
    let states: Vec<State> = ids
        .iter()
        .map(|&id| {
            let mut entities = sample.shadow.entities.iter();
            entities.find(|it| it.id() == Some(id)).expect("it is in the queue").state
        })
        .collect();
    let waiting = states.iter().filter(|state| **state == State::Waiting).count();
    assert!(waiting >= 2, "{states:?}");
    let watched = sample.watched.expect("somebody waits");
    // The formula knows no groups, and may compare virtual times that have nothing in common.
    for (_, features) in Features::NAMED {
        let wait = sample.shadow.wait(watched, features).expect("it waits");
        assert!(wait <= WAIT_MAX, "{features:?}: {wait:?}");
    }
    assert!(queues.watched().is_some_and(|it| it.ran > sample.taken), "it ran, and ended");
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let Some(mut queues) = open() else { return };
    let error = queues.copy(100_000).unwrap_err();
    assert!(matches!(error, Unavailable::NoCpu { cpu: 100_000, .. }), "{error}");
}

#[test]
fn predictions_are_measured() {
    let Some(mut queues) = open() else { return };
    let every = Duration::from_millis(10);
    let plan = Plan { mix: Mix::Dependent, cpus: vec![0], predictions: 3, every, seed: 1 };
    let measured = measure(&mut queues, &plan).unwrap();
    assert_eq!(measured.points.len() + measured.lost, 3, "{measured:?}");
}
