//! Run queues of the kernel that runs these tests. Where it shows none, the tests say why and pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use seawall_control::Instant;
use seawall_control::predict::cpu::{Features, State, WAIT_MAX};
use seawall_control::predict::starvation::{CpuDelay, Starved};
use seawall_node::precision::{MeasureError, Mix, Plan, measure};
use seawall_node::{Foresight, Probe, RunQueues, Unavailable};

fn open() -> Option<RunQueues> {
    or_say_why(RunQueues::open())
}

fn or_say_why<T>(opened: Result<T, Unavailable>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(
            reason @ (Unavailable::NoBtf
            | Unavailable::NotPermitted { .. }
            | Unavailable::Forbidden(_)
            | Unavailable::NoTicks
            | Unavailable::Refused { .. }),
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

/// Threads that compete for the first CPU until this is dropped.
struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    ids: Vec<i32>,
}

impl Spinners {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, hear) = channel();
        let spin = |_| {
            let (stop, tell) = (stop.clone(), tell.clone());
            std::thread::spawn(move || {
                keep_to_first_cpu();
                tell.send(gettid().as_raw()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads: Vec<_> = (0..count).map(spin).collect();
        let ids = threads.iter().map(|_| hear.recv().unwrap()).collect();
        Self { stop, threads, ids }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn threads_that_compete_are_seen() {
    let Some(mut queues) = open() else { return };
    let spinners = Spinners::start(3);
    let sample = queues.watch(0, std::process::id()).unwrap();
    let ids = spinners.ids.clone();
    drop(spinners);

    assert_eq!((sample.cpu, sample.lost), (0, 0));
    let states: Vec<State> = ids
        .iter()
        .map(|&id| {
            let mut entities = sample.shadow.entities.iter();
            entities.find(|it| it.id() == u64::try_from(id).ok()).expect("it is in the queue").state
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
fn a_probe_finds_the_cpus_of_threads() {
    let Some(probe) = or_say_why(Probe::open()) else { return };
    assert_eq!(probe.predicted_wait(&[]), None);
    // While this thread asks, the others wait.
    keep_to_first_cpu();
    assert_eq!(probe.predicted_wait(&[gettid().as_raw()]), Some(Duration::ZERO));
    let spinners = Spinners::start(3);
    let waits: Vec<_> = spinners.ids.iter().map(|&id| probe.predicted_wait(&[id])).collect();
    let first = probe.predicted_wait(&spinners.ids);
    let ended = spinners.ids.clone();
    drop(spinners);
    assert!(waits.iter().chain([&first]).all(|wait| *wait > Some(Duration::ZERO)), "{waits:?}");
    assert!(first < Some(WAIT_MAX), "{first:?}");
    assert_eq!(probe.predicted_wait(&ended), None);
}

#[test]
fn a_server_learns_how_long_its_threads_wait() {
    let Some(mut foresight) = or_say_why(Foresight::open()) else { return };
    keep_to_first_cpu();
    let spinners = Spinners::start(3);
    let now = Instant::from_micros(1_000);
    let wait = foresight.predict(now, &Starved::new(now, &spinners.ids));
    assert!(wait > Duration::ZERO && wait < WAIT_MAX, "{wait:?}");
    // Of those who wait for nothing, or for what no run queue shows, it knows what was before.
    drop(spinners);
    let before = Duration::from_millis(7);
    foresight.on_episode(now, before);
    assert_eq!(foresight.predict(now, &Starved::new(now, &[])), before);
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
    for (name, mix) in Mix::NAMED {
        let every = Duration::from_millis(10);
        let plan = Plan { mix, cpus: vec![0], predictions: 3, every, seed: 1 };
        match measure(&mut queues, &plan) {
            Ok(measured) => {
                assert_eq!(measured.points.len() + measured.lost, 3, "{name}: {measured:?}");
            }
            Err(reason @ MeasureError::Groups { .. }) if mix == Mix::Groups => {
                eprintln!("not tested: {reason}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
}
