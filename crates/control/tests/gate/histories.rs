//! Whatever happens in whatever order: nobody is lost, and no place is.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use seawall_control::Instant;
use seawall_control::controller::Init;
use seawall_control::gate::{Answer, Config, End, Gate, Id, Turn};
use seawall_control::limit;
use seawall_control::request::{Claims, Class, Context};

#[derive(Clone, Debug)]
enum Op {
    Arrive {
        class: u8,
        droppable: bool,
        budget: Option<u64>,
        deadline: Option<u64>,
    },
    /// One that is inside or waits ends, whichever it is.
    End {
        which: usize,
        end: End,
    },
    Pass(u64),
    Retire(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let time = || prop_oneof![0..50_u64, 0..20_000_u64];
    let limits = (prop::option::of(time()), prop::option::of(time()));
    prop_oneof![
        4 => (0..4_u8, prop::bool::weighted(0.8), limits).prop_map(
            |(class, droppable, (budget, deadline))| Op::Arrive {
                class, droppable, budget, deadline,
            }
        ),
        3 => (any::<usize>(), prop_oneof![
            4 => Just(End::Served),
            1 => Just(End::Failed),
            1 => Just(End::Refused),
            1 => Just(End::Cancelled),
        ]).prop_map(|(which, end)| Op::End { which, end }),
        3 => prop_oneof![0..300_u64, 0..30_000_u64].prop_map(Op::Pass),
        1 => (0..4_u8).prop_map(Op::Retire),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    class: u8,
    droppable: bool,
    number: u64,
    arrived: Instant,
    /// When it has waited for as long as it can.
    expires: Instant,
}

/// The gate, and what must be true of it.
struct Watched {
    gate: Gate<u64>,
    now: Instant,
    number: u64,
    inside: Vec<(Id, u8)>,
    waiting: HashMap<Id, Waiter>,
    /// The last of each class and lane that had its turn.
    last: BTreeMap<(u8, bool), u64>,
}

impl Watched {
    fn new(config: &limit::Config) -> Self {
        let config = Config { limit: config.clone(), queue_max: 8, ..Config::default() };
        Self {
            gate: Gate::new(&config, Init::new(Instant::ORIGIN, 1)).unwrap(),
            now: Instant::from_micros(1),
            number: 0,
            inside: Vec::new(),
            waiting: HashMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Arrive { class, droppable, budget, deadline } => {
                self.arrive(class, droppable, budget, deadline);
            }
            Op::End { which, end } => {
                let inside = self.inside.iter().map(|(id, _)| *id);
                let mut ids: Vec<Id> = inside.chain(self.waiting.keys().copied()).collect();
                ids.sort();
                if ids.is_empty() {
                    return;
                }
                let id = ids[which % ids.len()];
                assert!(self.gate.on_end(self.now, id, end));
                assert!(!self.gate.on_end(self.now, id, end), "what has ended ends once");
                self.inside.retain(|(other, _)| *other != id);
                self.waiting.remove(&id);
            }
            Op::Pass(micros) => self.now = self.now + Duration::from_micros(micros),
            Op::Retire(class) => self.gate.retire(Class(class)),
        }
        self.carry_out();
        self.check();
    }

    fn arrive(&mut self, class: u8, droppable: bool, budget: Option<u64>, deadline: Option<u64>) {
        let time = |micros: Option<u64>| micros.map(Duration::from_micros);
        let (budget, deadline) = (time(budget), time(deadline));
        let claims = Claims { droppable, budget, deadline, ..Claims::default() };
        let context = Context::new(claims, self.now);
        let (number, now) = (self.number, self.now);
        self.number += 1;
        match self.gate.on_arrival(now, Class(class), &context, || number) {
            Ok(Answer::Go(id)) => {
                let is_first = self.waiting.values().all(|waiter| waiter.class != class);
                assert!(is_first, "nobody overtakes");
                self.inside.push((id, class));
            }
            Ok(Answer::Wait(id)) => {
                let expires = if droppable { now + context.remaining(now) } else { Instant::NEVER };
                let waiter = Waiter { class, droppable, number, arrived: now, expires };
                assert_eq!(self.waiting.insert(id, waiter), None);
            }
            Ok(Answer::Would(..)) => panic!("this gate does not only watch"),
            Err(rejected) => {
                assert!(droppable, "what must not be dropped is not refused");
                let is_full = self.waiting.values().filter(|it| it.class == class).count() >= 8;
                let is_late = rejected.predicted_delay > rejected.remaining;
                assert!(is_full || is_late || rejected.remaining.is_zero(), "{rejected}");
                assert_eq!(rejected.retry_after, rejected.predicted_delay, "when it has drained");
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(turn) = self.gate.poll(self.now) {
            match turn {
                Turn::Go { id, item, waited } => {
                    let waiter = self.waiting.remove(&id).expect("who has a turn waited");
                    assert_eq!((waiter.number, waiter.arrived + waited), (item, self.now));
                    assert!(self.now < waiter.expires, "a turn that comes too late is none");
                    let last = self.last.insert((waiter.class, waiter.droppable), item);
                    assert!(last < Some(item), "first come, first served");
                    self.inside.push((id, waiter.class));
                }
                Turn::Refuse { id, item, .. } => {
                    let waiter = self.waiting.remove(&id).expect("who is refused waited");
                    assert_eq!(waiter.number, item);
                    assert!(self.now >= waiter.expires, "it could have waited for longer");
                }
            }
        }
    }

    fn check(&self) {
        self.gate.check().unwrap();
        assert_eq!(self.gate.in_flight() as usize, self.inside.len());
        assert_eq!(self.gate.waiting() as usize, self.waiting.len());
        let timeout = self.gate.poll_timeout();
        assert_eq!(
            timeout,
            self.waiting.values().map(|it| it.expires).min().filter(|at| *at != Instant::NEVER)
        );
        for class in self.gate.classes(self.now) {
            let is_held =
                class.in_flight >= class.limit || self.gate.in_flight() >= self.gate.limit();
            assert!(class.waiting == 0 || is_held && class.in_flight > 0, "{class:?}");
        }
    }
}

/// More than the limit are inside only because it fell, or one for each class that had nobody.
fn is_within(watched: &Watched, limit: u32) -> bool {
    watched.gate.in_flight() <= limit + 4
}

proptest! {
    #[test]
    fn places_are_conserved_and_nobody_is_lost(
        ops in prop::collection::vec(op(), 0..400),
        fixed in 1..6_u32,
        policy in 0..3_usize,
    ) {
        let policy = ["fixed", "knee", "aimd"][policy];
        let mut config = limit::Config { fixed, ..limit::Config::named(policy) };
        (config.knee.limit_initial, config.knee.limit_max) = (fixed, 64);
        let mut watched = Watched::new(&config);
        for op in &ops {
            watched.apply(op);
            prop_assert!(policy != "fixed" || is_within(&watched, fixed));
        }
        // All that is inside ends: nobody waits for ever.
        while let Some((id, _)) = watched.inside.first().copied() {
            watched.inside.remove(0);
            watched.gate.on_end(watched.now, id, End::Served);
            watched.carry_out();
            watched.check();
        }
        prop_assert!(watched.waiting.is_empty());
    }
}
