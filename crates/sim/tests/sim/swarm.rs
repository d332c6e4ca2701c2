//! Random scenarios under all checkers, and what they reached.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_control::predict::lock::LockKind;
use seawall_control::predict::memory::MemoryPolicy;
use seawall_control::replica::Selection;
use seawall_control::retry::{self, Hedge};
use seawall_control::{Rng, admission};
use seawall_sim::scenario::{Bandwidth, Class, Crash, Hold, MixShift, Noise, Power, Preempt, Step};
use seawall_sim::world::Report;
use seawall_sim::{Scenario, World};

/// What each algorithm should meet in a swarm.
const SITUATIONS: [&str; 9] = [
    "load shift",
    "refusal",
    "client drop",
    "revocation",
    "client crash",
    "memory refusal",
    "copy",
    "last resort",
    "no CPU",
];

/// A scenario in which anything may be unusual, but small enough for thousands of them.
fn scenario(seed: u64) -> Scenario {
    let rng = &mut Rng::new(seed);
    let mut scenario = Scenario::default();
    let names = admission::NAMES;
    scenario.admission.algorithm = names[(seed % names.len() as u64) as usize].into();

    let clients = [1, 3, 20, 100, 400];
    scenario.workload.clients = *pick(rng, &clients);
    let services =
        ["const:10us", "exp:10us", "bimodal:10us", "lognormal:10us:2", "exp:1us", "exp:50us"];
    scenario.workload.service = pick(rng, &services).parse().unwrap();
    scenario.workload.arrivals = pick(rng, &["poisson", "constant"]).parse().unwrap();
    let choices = [Selection::RoundRobin, Selection::Random, Selection::TwoChoices];
    scenario.admission.client.replicas.choose = *pick(rng, &choices);
    let (first, second) = (load(rng, 3.0), load(rng, 1.2));
    let shift = rng.below(20) + 1;
    scenario.workload.load = format!("0s:{first}x,{shift}ms:{second}x").parse().unwrap();
    if rng.chance(0.3) {
        scenario.workload.classes = classes(rng);
    }
    if rng.chance(0.3) {
        scenario.workload.deadline = Some(micros(rng, 20, 500));
    }
    for _ in 0..rng.below(3) {
        let (at, away) = (micros(rng, 0, 30_000), micros(rng, 0, 5_000));
        scenario.workload.crashes.push(Crash { at, share: rng.uniform(), away });
    }

    scenario.server.cores = *pick(rng, &[1, 2, 10]);
    let speeds: [&[f64]; 4] = [&[1.0], &[1.0], &[1.0, 0.5], &[1.0, 1.0, 0.1]];
    scenario.server.speeds = pick(rng, &speeds).to_vec();
    if rng.chance(0.3) {
        scenario.server.budget = seawall_control::request::Budget::Auto;
    }
    scenario.server.locks = pick(rng, &LockKind::NAMED).1;
    let delays = ["const:5us", "exp:5us", "const:500ns", "const:200us"];
    scenario.network.delay = pick(rng, &delays).parse().unwrap();
    (scenario.run.warm_up, scenario.run.time) = (Duration::ZERO, Duration::from_millis(30));

    scenario.admission.client.pending_max = *pick(rng, &[1, 16, 1024]);
    if rng.chance(0.3) {
        scenario.admission.client.retry = retry::Config {
            attempts: *pick(rng, &[2, 3, 16]),
            budget: *pick(rng, &[0.0, 0.1, 1.0]),
            burst: *pick(rng, &[0, 10]),
            patience: *pick(rng, &[None, Some(Duration::ZERO), Some(Duration::from_millis(1))]),
            ..retry::Config::NEVER
        };
        let choices = [Selection::First, Selection::RoundRobin, Selection::Random];
        scenario.admission.client.replicas.choose = *pick(rng, &choices);
    }
    scenario.admission.credit.messages_per_reply = *pick(rng, &[0.0, 0.25, 4.0]);
    scenario.admission.credit.revoke_beyond = *pick(rng, &[0.0, 0.125, f64::INFINITY]);
    scenario.admission.breakwater.beta = *pick(rng, &[0.02, 0.5]);
    // After all else, so that what a seed meant before it still means.
    if rng.chance(0.7) && !scenario.workload.classes.is_empty() {
        draw(rng, &mut scenario);
    }
    if rng.chance(0.4) {
        replicate(rng, &mut scenario);
    }
    if rng.chance(0.2) {
        scenario.workload.errors = rng.uniform();
    }
    // These runs are too short for the average of the CPU's use that it waits for.
    scenario.admission.bbr.cpu_threshold = *pick(rng, &[None, Some(0.0)]);
    scenario
}

/// Three replicas or more, some of the keys on each, and copies of what is slow.
fn replicate(rng: &mut Rng, scenario: &mut Scenario) {
    let speeds: [&[f64]; 3] = [&[1.0, 1.0, 1.0], &[1.0, 0.1, 1.0], &[1.0, 1.0, 1.0, 0.5, 1.0]];
    scenario.server.speeds = pick(rng, &speeds).to_vec();
    scenario.workload.replication = *pick(rng, &[None, Some(1), Some(2), Some(3)]);
    scenario.workload.keys = pick(rng, &[None, Some("zipf:100:1.1".parse().unwrap())]).to_owned();
    if rng.chance(0.5) {
        scenario.workload.budget = Some(micros(rng, 5, 300));
    }
    let client = &mut scenario.admission.client;
    let choices = [Selection::Snitch, Selection::C3, Selection::TwoChoices, Selection::First];
    client.replicas.choose = *pick(rng, &choices);
    client.replicas.guided = rng.chance(0.7);
    let percentile = Hedge::Percentile(0.9);
    let hedges = [Hedge::Never, Hedge::After(micros(rng, 0, 300)), percentile, percentile];
    client.retry = retry::Config {
        attempts: *pick(rng, &[2, 3, 16]),
        budget: *pick(rng, &[0.1, 1.0]),
        burst: *pick(rng, &[0, 10, 1_000]),
        patience: *pick(rng, &[None, Some(Duration::ZERO), Some(Duration::from_millis(1))]),
        hedge: *pick(rng, &hedges),
        last_resort: rng.chance(0.5),
    };
    if rng.chance(0.7) && !scenario.workload.draws_memory() {
        disturb(rng, scenario);
    }
}

/// Others take the CPU from the replicas, or from one of them, and a lock is held for long.
fn disturb(rng: &mut Rng, scenario: &mut Scenario) {
    let server = &mut scenario.server;
    for _ in 0..=rng.below(2) {
        server.noise.push(Noise {
            replica: *pick(rng, &[None, None, Some(0)]),
            every: pick(rng, &["exp:3ms", "const:1ms", "exp:500us"]).parse().unwrap(),
            lasts: pick(rng, &["exp:1ms", "lognormal:300us:1", "const:50us"]).parse().unwrap(),
            foreseen: pick(rng, &[None, Some("const:0us"), Some("exp:200us")])
                .map(|error| error.parse().unwrap()),
        });
    }
    server.guardian = rng.chance(0.7);
    if scenario.workload.classes.is_empty() {
        return;
    }
    server.holds.push(Hold {
        replica: *pick(rng, &[None, Some(2)]),
        lock: "hot".into(),
        every: pick(rng, &["exp:2ms", "const:300us"]).parse().unwrap(),
        amounts: vec![1, 10],
        each: micros(rng, 1, 100),
        base: micros(rng, 0, 200),
        scatter: *pick(rng, &[0.0, 0.3]),
        announced: rng.chance(0.7),
    });
}

fn pick<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    &values[rng.below(values.len() as u64) as usize]
}

fn load(rng: &mut Rng, most: f64) -> f64 {
    (rng.uniform() * most * 100.0).round() / 100.0
}

fn micros(rng: &mut Rng, least: u64, most: u64) -> Duration {
    Duration::from_micros(least + rng.below(most - least))
}

/// Two classes, one of which needs a lock for some of its steps.
fn classes(rng: &mut Rng) -> Vec<Class> {
    let step = |cpu: &str, lock: Option<&str>| Step {
        cpu: cpu.parse().unwrap(),
        wait: None,
        lock: lock.map(Into::into),
        memory: None,
        plain: false,
    };
    let plain = |step| Step { plain: true, ..step };
    let with_wait = |wait: &str, step| Step { wait: Some(wait.parse().unwrap()), ..step };
    let locked = match rng.below(4) {
        0 => vec![step("exp:10us", Some("hot"))],
        1 => vec![step("exp:3us", None), step("exp:5us", Some("hot")), step("const:2us", None)],
        2 => vec![with_wait("exp:30us", step("exp:3us", Some("hot"))), step("exp:5us", None)],
        _ => vec![step("exp:3us", Some("hot")), plain(step("exp:5us", Some("cold")))],
    };
    let free = vec![step("exp:10us", None)];
    let class =
        |name: &str, share, steps| Class { name: name.into(), share, droppable: true, steps };
    let share = rng.uniform() + 0.01;
    let mut classes = vec![class("locked", 1.0, locked), class("free", share, free)];
    if rng.chance(0.25) {
        let steps = classes[0].steps.clone();
        classes
            .push(Class { droppable: false, ..class("privileged", rng.uniform() / 20.0, steps) });
    }
    classes
}

/// Some steps draw from a memory, with a semaphore or without, and may be preempted.
fn draw(rng: &mut Rng, scenario: &mut Scenario) {
    let gigabytes = |count: u64| Some(Bandwidth::from_bytes(count * 1_000_000_000));
    for class in &mut scenario.workload.classes {
        for step in &mut class.steps {
            step.memory = gigabytes(rng.below(4)).filter(|draw| draw.bytes() > 0);
        }
    }
    if rng.chance(0.5) {
        let shares = [("locked", 0.0), ("free", 1.0)].map(|(name, share)| (name.into(), share));
        let at = micros(rng, 0, 30_000);
        scenario.workload.shifts.push(MixShift { at, shares: shares.into() });
    }
    let server = &mut scenario.server;
    server.memory.bandwidth = *pick(rng, &[None, gigabytes(1), gigabytes(5)]);
    server.memory.semaphore =
        *pick(rng, &[MemoryPolicy::None, MemoryPolicy::Try, MemoryPolicy::Wait, MemoryPolicy::Try]);
    server.memory.semaphore_capacity = *pick(rng, &[None, None, Some(1), Some(3)]);
    server.memory.noise = Bandwidth::from_bytes(rng.below(2) * 300_000_000);
    server.memory.bandit.interval = micros(rng, 50, 1_000);
    if rng.chance(0.5) {
        let (quantum, cost) =
            (micros(rng, 1, 20), *pick(rng, &[Duration::ZERO, server.costs.send]));
        server.preempt = Some(Preempt { quantum, cost });
    }
    if rng.chance(0.5) {
        server.power = Some(Power { idle: 20.0, core: 2.5 });
    }
}

/// Runs scenarios, and counts by algorithm which situations came up.
fn swarm(seeds: std::ops::Range<u64>) -> BTreeMap<String, [u64; SITUATIONS.len()]> {
    let mut reached: BTreeMap<String, [u64; SITUATIONS.len()]> = BTreeMap::new();
    for seed in seeds {
        let scenario = scenario(seed);
        let report = World::new(&scenario, seed)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"))
            .run()
            .unwrap_or_else(|bug| panic!("seed {seed}: {bug}\n{scenario:#?}"));
        // What the memory slows, or others do, has less capacity than recovery is judged by.
        let slowed =
            scenario.server.memory.bandwidth.is_some() || !scenario.server.noise.is_empty();
        // The SRE throttle goes by the last two minutes, and these runs are of milliseconds.
        let forgets = scenario.admission.algorithm != "sre";
        let recovered = report.recovered != Some(false) || slowed || !forgets;
        assert!(recovered, "seed {seed} does not recover\n{scenario:#?}");
        let row = reached.entry(scenario.admission.algorithm.clone()).or_default();
        for (count, came_up) in row.iter_mut().zip(situations(&scenario, &report)) {
            *count += u64::from(came_up);
        }
    }
    println!("{:<12} {}", "", SITUATIONS.join("  "));
    for (name, row) in &reached {
        println!("{name:<12} {row:?}");
    }
    reached
}

fn situations(scenario: &Scenario, report: &Report) -> [bool; SITUATIONS.len()] {
    let figures = report.recorder.summary().total;
    let refused = report.counts.refused_at_entry + report.counts.refused_later;
    let shifts = scenario.rates().unwrap().shifts().count();
    let crashes = scenario.workload.crashes.iter().any(|crash| crash.share > 0.0);
    let at_memory = report.counts.refused_at_memory;
    [
        shifts > 0,
        refused > 0,
        !figures.client_drops.is_empty(),
        report.counts.revoked > 0,
        crashes,
        at_memory > 0,
        report.retries.hedges > 0,
        report.retries.last_resorts > 0,
        report.counts.refused_at_cpu > 0,
    ]
}

#[test]
fn three_hundred_random_scenarios_break_no_rule() {
    let reached = swarm(0..300);
    for name in admission::NAMES {
        let row = reached[name];
        let [shift, refusal, _, revocation, crash, ..] = row;
        assert!(shift > 0 && crash > 0, "{name}: {row:?}");
        // Whoever controls at the server refuses; only credits can be taken back.
        assert!(refusal > 0 || name == "none", "{name}: {row:?}");
        assert!(revocation > 0 || name != "breakwater", "{name}: {row:?}");
    }
    for (situation, least) in [(5, 3), (6, 20), (7, 3), (8, 3)] {
        let times: u64 = reached.values().map(|row| row[situation]).sum();
        assert!(times > least, "{}: {reached:?}", SITUATIONS[situation]);
    }
}

#[test]
#[ignore = "long: twenty thousand scenarios"]
fn twenty_thousand_random_scenarios_break_no_rule() {
    swarm(300..20_300);
}
