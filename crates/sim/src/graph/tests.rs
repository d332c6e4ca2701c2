//! The checkers, checked; and the model against what theory says of it.

use seawall_measure::graph::NAMES;

use super::*;
use crate::world::Rule;

fn scenario(text: &str) -> Scenario {
    let scenario: Scenario = toml::from_str(text).unwrap();
    scenario.validate().unwrap_or_else(|error| panic!("{error}"));
    scenario
}

/// A surge beyond the capacity of a chain with small pools, and the calm after it.
const SURGE: &str = "
    workload = { load = '0.75x', arrivals = 'surges:2:100ms:40ms' }
    run = { warm_up = '10ms', time = '130ms', bin = '10ms' }
    graph = { table = 'chain', work = 10.0, pools = 0.05, profile_jobs = 200 }
";

fn run(scenario: &Scenario, fault: Option<Fault>) -> Result<Run, Violation> {
    let mut world = World::new(scenario, 3).unwrap();
    world.fault = fault;
    world.run(Params::default(), 3)
}

fn outcome(scenario: &Scenario) -> (Run, Outcome) {
    let run = run(scenario, None).unwrap_or_else(|bug| panic!("{bug}"));
    let outcome = run.graph.clone().unwrap();
    (run, outcome)
}

#[test]
fn without_a_bug_none_is_found() {
    for policy in seawall_control::scaling::NAMES {
        for table in NAMES {
            let mut scenario = scenario(SURGE);
            scenario.scaling.policy = policy.into();
            let graph = scenario.graph.as_mut().unwrap();
            graph.table = Source::Named(table.into());
            graph.nodes = 1 + (table.len() % 2) as u32;
            graph.responder = (policy == "escalator").then(Responder::default);
            let run = run(&scenario, None).unwrap_or_else(|bug| panic!("{policy}, {table}: {bug}"));
            assert_eq!(run.figures.unanswered, 0, "{policy}, {table}");
            let outcome = run.graph.unwrap();
            assert!(outcome.surge_mean_us > Some(run.slo_us / 2.0), "{policy}, {table}");
        }
    }
}

#[track_caller]
fn finds(fault: Fault, rule: Rule) {
    let violation = run(&scenario(SURGE), Some(fault)).map(drop).unwrap_err();
    assert_eq!(violation.rule, rule, "{violation}");
}

#[test]
fn lost_replies_are_found() {
    finds(Fault::LosesReplies, Rule::NoneLost);
}

#[test]
fn overfull_pools_are_found() {
    finds(Fault::OverfillsPools, Rule::PoolKept);
}

#[test]
fn overbooked_nodes_are_found() {
    finds(Fault::OverbooksNodes, Rule::UnitsKept);
}

#[test]
fn forgotten_work_is_found() {
    finds(Fault::ForgetsWork, Rule::WorkConserved);
}

#[test]
fn equal_seeds_make_equal_traces() {
    let scenario = scenario(SURGE);
    let trace = |seed| {
        let mut trace = Vec::new();
        let world = World::new(&scenario, seed).unwrap().traced(&mut trace);
        world.run(Params::default(), seed).unwrap();
        trace
    };
    let (one, same, other) = (trace(1), trace(1), trace(2));
    assert!(one.len() > 100_000 && one == same && one != other);
}

/// With exponential work, threads that share *c* units are in number what an M/M/c queue has:
/// both lose one at the rate of `min(n, c)` times that of one.
#[test]
fn one_container_is_as_erlang_says() {
    let text = |load: &str| {
        format!(
            "workload = {{ load = '{load}' }}
            network.delay = 'const:0us'
            run = {{ warm_up = '1s', time = '60s' }}
            scaling.policy = 'static'
            [graph.table]
            name = 'one'
            service = [{{ name = 'only', units = 4, steps = [{{ work = 'exp:2ms' }}] }}]"
        )
    };
    for load in [0.5, 0.8] {
        let (run, outcome) = outcome(&scenario(&text(&format!("{load}x"))));
        let (units, offered) = (4.0, 4.0 * load);
        let term = |n: i32| f64::powi(offered, n) / (1..=n).map(f64::from).product::<f64>();
        let full = term(4) / (1.0 - load);
        let waits = full / ((0..4).map(term).sum::<f64>() + full);
        let mean = 2_000.0 * (1.0 + waits / (units - offered));
        let measured = run.figures.mean_us.unwrap();
        assert!((measured / mean - 1.0).abs() < 0.03, "{load}: {measured}, not {mean}");
        assert!((run.busy / load - 1.0).abs() < 0.02, "{load}: {}", run.busy);
        assert!((outcome.cores - 4.0).abs() < 1e-9 && outcome.cores_peak == 4.0);
        assert!((outcome.energy / 60.0 / offered - 1.0).abs() < 0.02, "{}", outcome.energy);
    }
}

/// SurgeGuard Fig. 5: with a bounded pool the service in front waits, and the one behind looks
/// healthy; with a connection for each request, the one behind has them all.
#[test]
fn a_bounded_pool_hides_the_slow_service() {
    let in_flight = |pools: &str| {
        let text = format!(
            "workload = {{ load = '400', arrivals = 'surges:2:10s:2s' }}
            run = {{ warm_up = '0s', time = '10s', bin = '1s' }}
            scaling.policy = 'static'
            graph.pools = {pools}
            [graph.table]
            name = 'two'
            service = [
                {{ name = 'front', units = 6, steps = [{{ work = 'exp:5ms' }}, {{ call = 'back' }}],
                   pools = {{ back = 12 }} }},
                {{ name = 'back', units = 3, steps = [{{ work = 'exp:5ms' }}] }},
            ]"
        );
        let scenario = scenario(&text);
        let mut world = World::new(&scenario, 1).unwrap();
        world.live(Instant::from_nanos(9_999_000_000)).unwrap();
        let now = world.now;
        let of = |index: usize| world.machine.containers[index].counters;
        let (front, back) = (of(0), of(1));
        assert!(now > Instant::from_nanos(9_990_000_000));
        (front.in_flight, back.in_flight, front.pool_wait_ns as f64 / front.exec_ns as f64)
    };
    let (front, back, waiting) = in_flight("1.0");
    assert!(front > 200 && back <= 12 && waiting > 0.9, "{front}, {back}, {waiting}");
    let (front, back, waiting) = in_flight("inf");
    assert!(back > 200 && front >= back && waiting == 0.0, "{front}, {back}, {waiting}");
}

#[test]
fn branches_go_on_side_by_side() {
    let text = "
        workload = { load = '10', arrivals = 'constant' }
        network.delay = 'const:1ms'
        run = { warm_up = '0s', time = '1s' }
        scaling.policy = 'static'
        [graph.table]
        name = 'fork'
        service = [
            { name = 'front', units = 4, steps = [
                { parallel = [
                    [{ call = 'a' }, { work = 'const:3ms' }],
                    [{ work = 'const:7ms' }],
                ] },
                { call = 'b', chance = 0.0 },
                { work = 'const:1ms' },
            ] },
            { name = 'a', units = 1, steps = [{ work = 'const:2ms' }] },
            { name = 'b', units = 1, steps = [{ work = 'const:9ms' }] },
        ]";
    let (run, _) = outcome(&scenario(text));
    // There and back, 1 ms each; the first branch takes 1 + 2 + 1 + 3 ms as the second takes 7.
    let millis = run.figures.mean_us.unwrap() / 1e3;
    assert!((millis - (2.0 + 7.0 + 1.0)).abs() < 1e-6, "{millis}");
}

#[test]
fn a_slow_network_takes_longer_meanwhile() {
    let text = "
        workload = { load = '100', arrivals = 'constant' }
        network.delay = 'const:1ms'
        run = { warm_up = '0s', time = '1s' }
        scaling.policy = 'static'
        graph.slowdown = { extra = '5ms', period = '500ms', length = '50ms' }
        [graph.table]
        name = 'one'
        service = [{ name = 'only', units = 1, steps = [{ work = 'const:1ms' }] }]";
    let (run, _) = outcome(&scenario(text));
    assert_eq!(run.figures.max_us, Some(13_000.0));
    let share = (run.figures.mean_us.unwrap() - 3_000.0) / 10_000.0;
    assert!((share - 0.1).abs() < 0.02, "{share}");
}

#[test]
fn the_ideal_controller_overcomes_a_surge() {
    let ideal = |delay: &str| {
        let ideal = format!("ideal = {{ delay = '{delay}', drain = '10ms' }}");
        let graph = format!("graph = {{ node_units = 150, {ideal},");
        let text = format!("slo = '12ms'\n{SURGE}").replace("0.05", "1.0");
        outcome(&scenario(&text.replace("graph = {", &graph))).1
    };
    let (soon, late) = (ideal("200us"), ideal("20ms"));
    assert!(late.violation_volume > 4.0 * soon.violation_volume, "{late:?}, {soon:?}");
    assert!(late.cores_peak > soon.cores_peak && soon.cores_peak >= 68.0, "{late:?}");
}

#[test]
fn what_containers_had_before_the_measured_time_is_not_measured() {
    let text = SURGE.replace("'10ms', time = '130ms'", "'90ms', time = '5ms'");
    let ideal = "graph = { node_units = 150, ideal = { delay = '1ms', drain = '1s' },";
    let mut scenario = scenario(&text.replace("graph = {", ideal));
    assert_eq!(outcome(&scenario).1.cores_peak, 34.0);
    scenario.graph.as_mut().unwrap().reset = false;
    assert!(outcome(&scenario).1.cores_peak > 60.0);
}

#[test]
fn nonsense_is_refused_by_name() {
    let field = |text: &str| {
        let scenario: Scenario = toml::from_str(text).unwrap();
        scenario.validate().unwrap_err().field.to_string()
    };
    assert_eq!(field("graph.table = 'none'"), "graph.table");
    assert_eq!(field("graph.work = 0.0"), "graph.work");
    assert_eq!(field("graph.pools = 0.0"), "graph.pools");
    assert_eq!(field("graph.node_units = 33"), "graph.node_units");
    assert_eq!(field("graph.units = 4"), "graph.units");
    assert_eq!(field("graph.nodes = 0"), "graph.nodes");
    assert_eq!(field("graph.frequency.top = 1.0"), "graph.frequency.top");
    assert_eq!(field("graph.violation_bin = '0s'"), "graph.violation_bin");
    let slowdown = "graph.slowdown = { extra = '1ms', period = '1s', length = '1s' }";
    assert_eq!(field(slowdown), "graph.slowdown.length");
    assert_eq!(field("graph.ideal = { delay = '1s', drain = '0s' }"), "graph.ideal.drain");
    assert_eq!(field("graph = {}\nworkload.clients = 5"), "workload");
    assert_eq!(field("graph = {}\nserver.cores = 5"), "server");
    assert_eq!(field("graph = {}\nworkload.load = '1e9x'"), "workload.load");
    assert_eq!(field("graph = {}\nscaling.policy = 'none'"), "policy");
    assert_eq!(field("scaling.policy = 'static'"), "scaling");
}

/// Surges of which FirstResponder sees each, and a policy that leaves frequencies alone.
const LATE: &str = "
    workload = { load = '0.3x', arrivals = 'surges:8:200ms:5ms' }
    run = { warm_up = '10ms', time = '590ms', bin = '10ms' }
    graph = { table = 'chain', profile_jobs = 200, responder = { boost = '50ms' } }
    scaling.policy = 'static'
";

#[test]
fn a_boost_ends_by_itself_or_stays_until_the_policy_lowers_it() {
    let mut scenario = scenario(LATE);
    let raised = |scenario: &Scenario| {
        let (_, outcome) = outcome(scenario);
        assert!(outcome.boosts >= 3, "{}", outcome.boosts);
        let levels: Vec<u16> = outcome.samples.iter().map(|sample| sample.levels[4]).collect();
        assert!(levels.iter().all(|level| [0, 15].contains(level)), "{levels:?}");
        let falls = levels.windows(2).filter(|pair| pair[0] > pair[1]).count();
        (falls, levels.last().copied())
    };
    let (falls, last) = raised(&scenario);
    assert!(falls >= 2, "each surge's boost ended, but {falls}");
    assert!(last == Some(0) || last == Some(15));
    scenario.graph.as_mut().unwrap().responder.as_mut().unwrap().until_lowered = true;
    // The start of the measured time is the only one that lowers it.
    let (falls, last) = raised(&scenario);
    assert!(falls <= 1 && last == Some(15), "{falls} {last:?}");
}

#[test]
fn units_above_the_first_come_in_steps() {
    let mut scenario = scenario(SURGE);
    let graph = scenario.graph.as_mut().unwrap();
    (graph.step, graph.smt_gain) = (2, 1.3);
    let first = graph.first_units(&graph.graph().unwrap());
    let (run, outcome) = outcome(&scenario);
    assert!((run.capacity / (30_000.0 / 10.0 * 0.65) - 1.0).abs() < 1e-9, "{}", run.capacity);
    let more = |sample: &Sample| -> Vec<u32> {
        sample.units.iter().zip(&first).map(|(units, first)| units - first).collect()
    };
    let mores: Vec<u32> = outcome.samples.iter().flat_map(more).collect();
    assert!(mores.iter().any(|more| *more > 0) && mores.iter().all(|more| more % 2 == 0));
    assert!(outcome.cores_peak <= 52.0);
}

#[test]
fn work_that_waits_for_memory_does_not_go_with_the_clock() {
    let text = "
        workload = { load = '0.1x' }
        network.delay = 'const:0us'
        run = { warm_up = '10ms', time = '200ms' }
        scaling.policy = 'static'
        graph = { table = 'chain', responder = { until_lowered = true }, profile_jobs = 200 }
    ";
    let mut slow = scenario(text);
    // The first service never sees a late request; those behind it are late, and at the top.
    let config = slow.graph.as_mut().unwrap();
    config.slowdown = Some(Slowdown {
        extra: Duration::from_millis(5),
        period: Duration::from_secs(10),
        length: Duration::from_nanos(9_999_999_999),
    });
    config.reset = false;
    let mean = |part: f64| {
        let mut scenario = slow.clone();
        scenario.graph.as_mut().unwrap().frequency.part = part;
        outcome(&scenario).0.figures.mean_us.unwrap()
    };
    let (none, half, all) = (mean(0.0), mean(0.5), mean(1.0));
    // Four services of 200 us each, at 3.1 instead of 1.6 GHz.
    let saved = 800.0 * (1.0 - 1.6 / 3.1);
    assert!((none - all - saved).abs() < 10.0, "{none} {all}");
    assert!((none - half - saved / 2.0).abs() < 10.0, "{none} {half}");
}
