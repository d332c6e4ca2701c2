//! Memory whose bandwidth is the bottleneck, while there are cores enough.

use seawall_sim::plan::Measured;
use seawall_sim::{Plan, Run};

/// A server with 45 cores, 24 of which use all of its memory's bandwidth if they draw from it, and
/// costs next to nothing for messages. `draw` requests of 100 µs and `compute` of 25 µs come.
fn server(draw: u32, compute: u32, more: &str) -> Run {
    // The bandit begins at one, and tries the next one every some milliseconds.
    let warm_up = if more.contains("semaphore = 'try'") { "200ms" } else { "40ms" };
    let text = format!(
        "[scenario]
        slo = '2ms'
        run = {{ warm_up = '{warm_up}', time = '60ms' }}
        admission.algorithm = 'none'
        [scenario.server]
        cores = 45
        capacity = 1e5
        costs = {{ receive = '1ns', request = '1ns', reply = '1ns', send = '1ns' }}
        memory.bandwidth = '180GB'
        power = {{ idle = 20.0, core = 2.5 }}
        {more}
        [scenario.workload]
        clients = 100
        load = '{}k'
        class = [
            {{ name = 'cpu', share = {compute}.0, steps = [{{ cpu = 'const:25us' }}] }},
            {{ name = 'mem', share = {draw}.0,
               steps = [{{ cpu = 'const:100us', memory = '7.5GB' }}] }},
        ]",
        draw + compute
    );
    let plan = Plan::read(&text, &[], |_| Err("nothing is included".into())).unwrap();
    plan.run(|_, _| {}).unwrap().remove(0)
}

#[test]
fn below_saturation_use_grows_with_load_and_beyond_only_that_of_cores_does() {
    let [low, high] = [server(60, 0, ""), server(120, 0, "")];
    for (run, load) in [(&low, 60.0), (&high, 120.0)] {
        let bandwidth = run.metric("memory_bandwidth").unwrap();
        assert!((bandwidth / (load * 0.75) - 1.0).abs() < 0.03, "{bandwidth} at {load}k");
        assert!((run.busy * 45.0 / (load * 0.1) - 1.0).abs() < 0.03, "{} at {load}k", run.busy);
        let watts = run.metric("power").unwrap();
        assert!((watts - (20.0 + 2.5 * 45.0 * run.busy)).abs() < 1.0, "{watts}");
    }
    // 240,000 are possible: what is offered beyond stalls all cores.
    let over = server(264, 0, "");
    assert!((over.figures.throughput / 240e3 - 1.0).abs() < 0.02, "{}", over.figures.throughput);
    assert!((over.memory_bandwidth.unwrap() - 180.0).abs() < 0.5);
    assert!(over.busy > 0.99 && over.semaphore_capacity.is_none());
}

#[test]
fn a_semaphore_leaves_cores_to_those_who_do_not_draw() {
    let plain = server(300, 600, "");
    let [cpu, mem] = [0, 1].map(|class| plain.classes[class].figures.goodput);
    assert!(cpu < 0.5 * 600e3 && mem < 0.5 * 240e3, "{cpu} {mem}");
    let fixed = "memory.semaphore = 'try'\nmemory.semaphore_capacity = 24";
    let fixed = server(300, 600, fixed);
    let [cpu, mem] = [0, 1].map(|class| fixed.classes[class].figures.goodput);
    assert!(cpu > 0.99 * 600e3 && mem > 0.9 * 240e3, "{cpu} {mem}");
    assert_eq!(fixed.semaphore_capacity, Some(24.0));
    assert_eq!((fixed.semaphore_mode, fixed.semaphore_mode_share), (Some(24), Some(1.0)));
    assert!((fixed.memory_refusals + mem - 300e3).abs() < 3e3, "{}", fixed.memory_refusals);
    assert_eq!(fixed.counts.refused_later, 0);
}

#[test]
fn the_bandit_finds_how_many_use_the_memory_up() {
    let run = server(300, 100, "memory.semaphore = 'try'");
    let capacity = run.semaphore_capacity.unwrap();
    assert!((23.0..26.0).contains(&capacity), "{capacity}");
    assert!(run.memory_bandwidth.unwrap() > 150.0, "{:?}", run.memory_bandwidth);
    let (mode, share) = (run.semaphore_mode.unwrap(), run.semaphore_mode_share.unwrap());
    assert!((23..=26).contains(&mode) && (0.2..=1.0).contains(&share), "{mode} {share}");
}

#[test]
fn who_may_wait_does_so_within_its_budget() {
    let wait = |budget: &str| {
        let memory = "memory.semaphore = 'wait'\nmemory.semaphore_capacity = 24";
        server(300, 100, &format!("budget = {{ fixed = '{budget}' }}\n{memory}"))
    };
    let [short, long] = [wait("100us"), wait("1ms")];
    for (run, most) in [(&short, 210.0), (&long, 1_110.0)] {
        let mem = &run.classes[1].figures;
        assert!(mem.goodput > 0.99 * 240e3, "{}", mem.goodput);
        let p99 = mem.p99_us.unwrap();
        assert!((0.9 * most..1.05 * most).contains(&p99), "{p99} of {most}");
        assert!(run.counts.refused_at_memory > 0 && run.counts.refused_later == 0);
    }
}

/// A step of each class is preempted again and again, and needs what it needs.
#[test]
fn preemption_changes_when_work_is_done_and_not_how_much() {
    let preempt = "preempt = { quantum = '10us', cost = '0s' }";
    let [plain, preempted] = ["", preempt].map(|more| server(150, 600, more));
    assert_eq!(plain.figures.offered, preempted.figures.offered);
    for run in [&plain, &preempted] {
        assert!(run.figures.throughput > 0.99 * run.figures.offered, "{:?}", run.figures);
    }
    assert!((plain.busy / preempted.busy - 1.0).abs() < 0.02, "{} {}", plain.busy, preempted.busy);
    let costly = server(150, 600, &preempt.replace("0s", "1us"));
    assert!(costly.busy > preempted.busy, "{} {}", costly.busy, preempted.busy);
}

#[test]
fn a_change_of_the_mix_is_followed() {
    let text = "[scenario]
        slo = '2ms'
        run = { warm_up = '100ms', time = '500ms', bin = '5ms' }
        admission.algorithm = 'none'
        [scenario.server]
        cores = 18
        capacity = 1e5
        memory = { bandwidth = '45GB', semaphore = 'try' }
        [scenario.workload]
        clients = 100
        load = '200k'
        class = [
            { name = 'low', share = 1.0, steps = [{ cpu = 'const:80us', memory = '3.5GB' }] },
            { name = 'high', share = 0.0, steps = [{ cpu = 'const:80us', memory = '7.5GB' }] },
        ]
        shift = [{ at = '300ms', shares = { low = 0.0, high = 1.0 } }]";
    let plan = Plan::read(text, &[], |_| Err("nothing is included".into())).unwrap();
    let run = plan.run(|_, _| {}).unwrap().remove(0);
    assert_eq!(run.capacities.len(), 120);
    let before = run.capacities[40..60].iter().sum::<f64>() / 20.0;
    assert!((12.0..14.5).contains(&before), "{before}");
    let after = run.metric("mix1.capacity").unwrap();
    assert!((5.5..8.0).contains(&after), "{after}");
    let settled = run.metric("mix1.settled_after_ms").unwrap();
    assert!((5.0..100.0).contains(&settled), "{settled}");
    assert_eq!(run.metric("mix_settled_after_ms"), Some(settled));
}
