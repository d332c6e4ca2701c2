//! The checkers, checked: each bug that is put in is found, and none is found where there is none.

use seawall_control::controller::{
    Arrival, Completion, ServerController, SessionEvent, SessionId, Verdict,
};
use seawall_control::metrics::Metrics;

use super::books::Rule;
use super::*;

/// Overload of a small server whose clients come and go, then calm.
fn scenario(algorithm: &str) -> Scenario {
    let text = "
        run = { warm_up = '1ms', time = '900ms' }
        server.cores = 2
        workload.clients = 20
        workload.load = '0s:2x,50ms:0.5x'
        workload.crash = [{ at = '20ms', share = 0.5, away = '5ms' }]";
    let mut scenario: Scenario = toml::from_str(text).unwrap();
    scenario.admission.algorithm = algorithm.into();
    scenario
}

fn run(algorithm: &str, fault: Option<Fault>) -> Result<Report, Violation> {
    let scenario = scenario(algorithm);
    let mut world = World::new(&scenario, 3).unwrap();
    world.fault = fault;
    world.run()
}

#[track_caller]
fn finds(fault: Fault, rule: Rule) {
    let violation = run("breakwater", Some(fault)).map(drop).unwrap_err();
    assert_eq!(violation.rule, rule, "{violation}");
}

#[test]
fn without_a_bug_none_is_found() {
    for algorithm in seawall_control::admission::NAMES {
        let report = run(algorithm, None).unwrap_or_else(|bug| panic!("{algorithm}: {bug}"));
        // The SRE throttle counts what it was asked for in the overload for two minutes more, and
        // drops by that.
        assert_eq!(report.recovered, Some(algorithm != "sre"), "{algorithm}");
    }
}

#[test]
fn lost_replies_are_found() {
    finds(Fault::LosesReplies, Rule::NoneLost);
}

#[test]
fn second_answers_are_found() {
    finds(Fault::AnswersTwice, Rule::OneEnd);
}

/// A controller whose books are wrong.
#[derive(Debug)]
struct Cooked;

impl ServerController for Cooked {
    fn on_session(&mut self, _: Instant, _: SessionId, _: SessionEvent) {}

    fn on_arrival(&mut self, _: Instant, _: &Arrival) -> Verdict {
        Verdict::Admit
    }

    fn on_completion(&mut self, _: Instant, _: &Completion) {}

    fn check(&self) -> Result<(), &'static str> {
        Err("issued credits are not the sum of windows")
    }

    fn metrics(&self) -> Metrics {
        Metrics::new()
    }
}

#[test]
fn cooked_books_are_found() {
    let scenario = scenario("none");
    let mut world = World::new(&scenario, 1).unwrap();
    world.servers[0].controller = Box::new(Cooked);
    assert_eq!(world.run().map(drop).unwrap_err().rule, Rule::BooksBalance);
}

#[test]
fn punished_honesty_is_found() {
    finds(Fault::ForgetsWindows, Rule::HonestyPays);
}

#[test]
fn idle_cores_are_found() {
    finds(Fault::ForgetsCores, Rule::WorkConserved);
}

/// Requests that draw, beyond what the memory and its semaphore take.
fn drawing(fault: Option<Fault>) -> Result<Report, Violation> {
    let text = "
        run = { warm_up = '1ms', time = '50ms' }
        admission.algorithm = 'none'
        server.cores = 4
        server.preempt = { quantum = '5us', cost = '100ns' }
        server.memory = { bandwidth = '2GB', semaphore = 'try', semaphore_capacity = 3 }
        workload.clients = 20
        workload.load = '150k'
        workload.class = [
            { name = 'cpu', share = 1.0, steps = [{ cpu = 'exp:10us' }] },
            { name = 'mem', share = 1.0, steps = [{ cpu = 'exp:10us', memory = '1GB' }] },
        ]";
    let scenario: Scenario = toml::from_str(text).unwrap();
    let mut world = World::new(&scenario, 3).unwrap();
    world.fault = fault;
    world.run()
}

#[test]
fn places_that_are_kept_are_found() {
    let report = drawing(None).unwrap();
    assert!(report.counts.refused_at_memory > 100 && report.counts.refused_later == 0);
    let rule = |fault| drawing(Some(fault)).map(drop).unwrap_err().rule;
    assert_eq!(rule(Fault::KeepsPlaces), Rule::CapacityKept);
}

#[test]
fn overbooked_memory_is_found() {
    let rule = drawing(Some(Fault::OverbooksMemory)).map(drop).unwrap_err().rule;
    assert_eq!(rule, Rule::CapacityKept);
}

#[test]
fn steps_that_never_end_are_found() {
    let rule = drawing(Some(Fault::ForgetsMemory)).map(drop).unwrap_err().rule;
    assert_eq!(rule, Rule::WorkConserved);
}

/// Two replicas, the second one slow, and copies of what takes longer than most.
fn copying(fault: Option<Fault>) -> Result<Report, Violation> {
    let text = "
        run = { warm_up = '1ms', time = '50ms' }
        server = { cores = 2, speeds = [1.0, 0.1], capacity = 100e3 }
        workload.clients = 20
        workload.load = '0.2x'
        [admission]
        algorithm = 'none'
        client.replicas.choose = 'random'
        client.retry = { attempts = 2, budget = 1.0, hedge = { after = '50us' } }";
    let scenario: Scenario = toml::from_str(text).unwrap();
    let mut world = World::new(&scenario, 3).unwrap();
    world.fault = fault;
    world.run()
}

#[test]
fn calls_that_end_twice_are_found() {
    let report = copying(None).unwrap();
    assert!(report.retries.hedges > 100, "{:?}", report.retries);
    let rule = |fault| copying(Some(fault)).map(drop).unwrap_err().rule;
    assert_eq!(rule(Fault::CountsCopies), Rule::OneEnd);
}

#[test]
fn copies_that_nobody_gives_up_are_found() {
    let rule = copying(Some(Fault::ForgetsCopies)).map(drop).unwrap_err().rule;
    assert!(matches!(rule, Rule::OneEnd | Rule::NoneLost), "{rule:?}");
}

#[test]
fn work_without_cpu_is_found() {
    let text = "
        run = { warm_up = '1ms', time = '50ms' }
        workload = { clients = 20, load = '0.5x' }
        [server]
        cores = 2
        noise = [{ every = 'exp:5ms', lasts = 'exp:1ms' }]";
    let scenario: Scenario = toml::from_str(text).unwrap();
    World::new(&scenario, 3).unwrap().run().unwrap();
    let mut world = World::new(&scenario, 3).unwrap();
    world.fault = Some(Fault::IgnoresNoise);
    assert_eq!(world.run().map(drop).unwrap_err().rule, Rule::NoneWithoutCpu);
}

#[test]
fn a_server_that_never_recovers_is_found() {
    let report = run("breakwater", Some(Fault::NeverRecovers)).unwrap();
    assert_eq!(report.recovered, Some(false));
}

#[test]
fn equal_seeds_make_equal_traces() {
    let scenario = scenario("breakwater");
    let trace = |seed| {
        let mut trace = Vec::new();
        World::new(&scenario, seed).unwrap().traced(&mut trace).run().unwrap();
        trace
    };
    let (one, same, other) = (trace(1), trace(1), trace(2));
    assert!(one.len() > 100_000 && one == same && one != other);
}
