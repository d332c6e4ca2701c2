//! The program in the kernel decides as the pure code does.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use proptest::prelude::*;
use seawall_control::Instant;
use seawall_control::scaling::responder::{self, Trust, Turn, Unbelievable};
use seawall_node::responder::{
    Boost, Config, Decision, Path, Rehearsal, Service, Slot, Stats, WorkerConfig,
};

use super::{load, service};

const MS: u64 = 1_000_000;
const SERVICES: Slot = 4;

/// When the first request comes, on both clocks.
const REAL: u64 = 1_700_000_000_000 * MS;
const MONOTONIC: u64 = 1_000 * MS;

/// The path with a window of its own.
const SHORT: Path = Path { number: 3, window: Duration::from_millis(7) };

fn config() -> Config {
    let ms = Duration::from_millis;
    let boosted_max = ms(130);
    Config { window: ms(20), boost: ms(100), age_max: ms(500), late_max: ms(300), boosted_max }
}

fn expected(slot: Slot) -> Duration {
    Duration::from_millis(10 * (u64::from(slot) + 1))
}

fn downstream(slot: Slot) -> std::ops::Range<Slot> {
    slot + 1..SERVICES
}

/// Each calls all those behind it.
fn services() -> Vec<Service> {
    let one = |slot: Slot| {
        let mut one = service(&slot.to_string(), 60_000 + slot);
        one.expected = expected(slot);
        one.downstream = downstream(slot).map(|slot| slot.to_string()).collect();
        one
    };
    (0..SERVICES).map(one).collect()
}

/// What the program does, of the parts that the receiving library has.
#[derive(Default)]
struct Pure {
    responder: responder::Responder,
    trust: [Trust; SERVICES as usize],
    turns: [Turn; SERVICES as usize],
    stats: Stats,
}

impl Pure {
    /// By how much the request is late, if that calls for a boost, and whom until when.
    fn on_request(&mut self, it: &Rehearsal) -> Option<(Duration, Vec<(Slot, Instant)>)> {
        let stats = &mut self.stats;
        stats.requests += 1;
        let config = config();
        let window = if it.path == SHORT.number { SHORT.window } else { config.window };
        let expected = Some(expected(it.slot));
        let judged = responder::Config { expected, window, age_max: config.age_max };
        let passed = match responder::observed(it.start_time_ns, it.now_ns, config.age_max) {
            Ok(passed) => passed,
            Err(claim) => {
                *match claim {
                    Unbelievable::Absent => &mut stats.no_start,
                    Unbelievable::Future => &mut stats.future,
                    Unbelievable::Stale => &mut stats.stale,
                } += 1;
                return None;
            }
        };
        let is_late = responder::lateness(passed, &judged).is_some();
        let trust = &mut self.trust[usize::from(it.slot)];
        if !trust.on_judged(it.now, is_late, config.late_max) {
            *if is_late { &mut stats.disbelieved } else { &mut stats.in_time } += 1;
            return None;
        }
        let late_by = self.responder.on_arrival(it.now, it.path, passed, &judged);
        let Some(late_by) = late_by else {
            stats.frozen += 1;
            return None;
        };
        let mut grant = |slot: Slot| {
            let turn = &mut self.turns[usize::from(slot)];
            Some((slot, turn.grant(it.now, it.now + config.boost, config.boosted_max)?))
        };
        let raised: Vec<_> = (it.slot..SERVICES).filter_map(&mut grant).collect();
        *if raised.is_empty() { &mut stats.spent } else { &mut stats.boosts } += 1;
        (!raised.is_empty()).then_some((late_by, raised))
    }
}

/// One request, and the time since the one before.
#[derive(Clone, Debug)]
struct Step {
    slot: Slot,
    path: u16,
    since_ns: u64,
    start: Start,
}

#[derive(Clone, Debug)]
enum Start {
    At(u64),
    Before(u64),
    After(u64),
}

impl Start {
    fn ns(&self, now: u64) -> u64 {
        match self {
            Self::At(ns) => *ns,
            Self::Before(ns) => now - ns,
            Self::After(ns) => now + ns,
        }
    }
}

/// Any times, and those at which something changes.
fn step() -> impl Strategy<Value = Step> {
    let since = prop_oneof![
        5 => 0..5 * MS,
        1 => Just(0),
        1 => prop::sample::select(vec![7 * MS, 20 * MS - 1, 20 * MS, 301 * MS]),
    ];
    let edge = prop::sample::select(vec![0, 10, 20, 30, 40, 500]);
    let start = prop_oneof![
        6 => (0..60 * MS).prop_map(Start::Before),
        2 => (edge, 0..2_u64).prop_map(|(ms, more)| Start::Before(ms * MS + more)),
        1 => (0..700 * MS).prop_map(Start::Before),
        1 => (1..u64::from(u32::MAX)).prop_map(Start::After),
        1 => prop::sample::select(vec![0, 1, u64::MAX]).prop_map(Start::At),
    ];
    (0..SERVICES, 0..6_u16, since, start).prop_map(|(slot, path, since_ns, start)| Step {
        slot,
        path,
        since_ns,
        start,
    })
}

struct Teller(Sender<Decision>);

impl Boost for Teller {
    fn raise(&mut self, decision: &Decision) -> io::Result<()> {
        self.0.send(decision.clone()).map_err(io::Error::other)
    }

    fn lower(&mut self, _: Slot) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_decides_as_the_pure_code(steps in prop::collection::vec(step(), 1..300)) {
        let Some(mut responder) = load(&config()) else { return Ok(()) };
        responder.set_services(&services()).unwrap();
        responder.set_paths(&[SHORT]).unwrap();
        let (tell, told) = channel();
        responder.work(WorkerConfig::default(), Box::new(Teller(tell))).unwrap();
        let boosts = responder.boosts().unwrap();
        let slot = |slot: Slot| responder.slot(&slot.to_string()).unwrap();

        let mut pure = Pure::default();
        let mut until = [Instant::ORIGIN; SERVICES as usize];
        let (mut passed, mut decisions) = (0, Vec::new());
        for step in &steps {
            passed += step.since_ns;
            let (now, now_ns) = (Instant::from_nanos(MONOTONIC + passed), REAL + passed);
            let rehearsal = Rehearsal {
                slot: slot(step.slot),
                path: step.path,
                start_time_ns: step.start.ns(now_ns),
                now_ns,
                now,
            };
            responder.rehearse(&rehearsal).unwrap();
            let judged = pure.on_request(&Rehearsal { slot: step.slot, ..rehearsal });
            if let Some((late_by, raised)) = judged {
                raised.iter().for_each(|&(slot, end)| until[usize::from(slot)] = end);
                let end = raised.iter().map(|(_, end)| *end).min().unwrap();
                let raised = raised.into_iter().map(|(number, _)| slot(number)).collect();
                decisions.push((now, end, late_by, step.path, raised));
            }
            prop_assert_eq!(responder.stats(), pure.stats, "{:?}", step);
            for number in 0..SERVICES {
                prop_assert_eq!(boosts.until(slot(number)), until[usize::from(number)]);
            }
        }
        let wait = Duration::from_secs(30);
        let told: Vec<_> = decisions.iter().map_while(|_| told.recv_timeout(wait).ok()).collect();
        let told = told.into_iter().map(|it| (it.at, it.until, it.late_by, it.path, it.raised));
        prop_assert_eq!(told.collect::<Vec<_>>(), decisions);
    }
}
