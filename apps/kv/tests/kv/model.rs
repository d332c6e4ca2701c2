//! The store against a model that is simple enough to be right: a map.
//!
//! The store gets so much memory that it never evicts. Time only moves when an operation says so.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use seawall_control::Instant;
use seawall_control::request::{Claims, Context};
use seawall_kv::store::{ArithmeticError, Config, Entry, Store, StoreMode, StoreOutcome};
use seawall_kv::{Exptime, UnixTime};

#[derive(Clone, Debug)]
enum Op {
    Get(u8),
    Store { mode: Mode, key: u8, value: Vec<u8>, flags: u32, exptime: i64 },
    Delete(u8),
    Arithmetic { increment: bool, key: u8, delta: u64 },
    Touch { key: u8, exptime: i64, and_get: bool },
    FlushAll { delay: u64 },
    Wait(u64),
    Sweep(usize),
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// With the number that the model believes current, or with another.
    Cas {
        current: bool,
    },
}

/// A request that may wait for ever.
fn patient() -> Context {
    Context::new(Claims::default(), Instant::ORIGIN)
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..6u8;
    let exptime = || {
        let absolute = 1_700_000_000..1_700_000_040i64;
        prop_oneof![4 => Just(0i64), 2 => 1..20i64, 1 => Just(-1), 1 => absolute]
    };
    let value = prop_oneof![
        3 => vec(any::<u8>(), 0..300),
        2 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        1 => (0..1000u64).prop_map(|number| number.to_string().into_bytes()),
    ];
    let mode = prop_oneof![
        Just(Mode::Set),
        Just(Mode::Add),
        Just(Mode::Replace),
        Just(Mode::Append),
        Just(Mode::Prepend),
        any::<bool>().prop_map(|current| Mode::Cas { current }),
    ];
    let store = (mode, key(), value, any::<u32>(), exptime()).prop_map(
        |(mode, key, value, flags, exptime)| Op::Store { mode, key, value, flags, exptime },
    );
    let arithmetic = (any::<bool>(), key(), prop_oneof![0..2000u64, any::<u64>()])
        .prop_map(|(increment, key, delta)| Op::Arithmetic { increment, key, delta });
    let touch = (key(), exptime(), any::<bool>()).prop_map(|(key, exptime, and_get)| Op::Touch {
        key,
        exptime,
        and_get,
    });
    prop_oneof![
        6 => key().prop_map(Op::Get),
        12 => store,
        2 => key().prop_map(Op::Delete),
        4 => arithmetic,
        2 => touch,
        1 => (0..15u64).prop_map(|delay| Op::FlushAll { delay }),
        3 => (0..8u64).prop_map(Op::Wait),
        1 => (0..5usize).prop_map(Op::Sweep),
    ]
}

/// What the store is supposed to be.
#[derive(Default)]
struct Model {
    now: u64,
    items: HashMap<u8, Item>,
    flush_due: Option<u64>,
}

#[derive(Clone)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    deadline: Option<u64>,
    /// The store's number for this version, once a lookup has shown it.
    cas: u64,
}

impl Model {
    fn deadline(&self, exptime: i64) -> Option<u64> {
        match exptime {
            0 => None,
            ..0 => Some(0),
            1..=2_592_000 => Some(self.now + exptime as u64),
            absolute => Some(absolute as u64),
        }
    }

    fn expire(&mut self) {
        if self.flush_due.is_some_and(|due| due <= self.now) {
            self.flush_due = None;
            self.items.clear();
        }
        self.items.retain(|_, item| item.deadline.is_none_or(|deadline| deadline > self.now));
    }

    fn store(&mut self, mode: StoreMode, key: u8, new: Item) -> StoreOutcome {
        let present = self.items.get_mut(&key);
        match (mode, present) {
            (StoreMode::Cas(_), None) => return StoreOutcome::NotFound,
            (StoreMode::Cas(cas), Some(item)) if item.cas != cas => return StoreOutcome::Exists,
            (StoreMode::Append, Some(item)) => item.value.extend(new.value),
            (StoreMode::Prepend, Some(item)) => {
                item.value = [new.value, item.value.clone()].concat();
            }
            (StoreMode::Add, Some(_))
            | (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
                return StoreOutcome::NotStored;
            }
            _ => _ = self.items.insert(key, new),
        }
        StoreOutcome::Stored
    }

    fn arithmetic(
        &mut self,
        increment: bool,
        key: u8,
        delta: u64,
    ) -> Result<Option<u64>, ArithmeticError> {
        let Some(item) = self.items.get_mut(&key) else { return Ok(None) };
        let digits = item.value.iter().all(u8::is_ascii_digit) && !item.value.is_empty();
        let text = std::str::from_utf8(&item.value).unwrap_or("");
        let Some(number) = digits.then(|| text.parse::<u64>().ok()).flatten() else {
            return Err(ArithmeticError::NotNumeric);
        };
        let result =
            if increment { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
        item.value = result.to_string().into_bytes();
        Ok(Some(result))
    }
}

/// Applies `op` to both, and compares what they answer.
fn apply(store: &Store, model: &mut Model, op: &Op) {
    model.expire();
    let now = UnixTime::from_secs(model.now);
    match op {
        Op::Get(key) => check(store, model, *key),
        Op::Store { mode, key, value, flags, exptime } => {
            let mode = match *mode {
                Mode::Set => StoreMode::Set,
                Mode::Add => StoreMode::Add,
                Mode::Replace => StoreMode::Replace,
                Mode::Append => StoreMode::Append,
                Mode::Prepend => StoreMode::Prepend,
                Mode::Cas { current } => {
                    let cas = model.items.get(key).map_or(1, |item| item.cas);
                    StoreMode::Cas(if current { cas } else { cas + 1 })
                }
            };
            let exptime_now = Exptime::from_wire(*exptime);
            let entry = Entry { key: &[*key], value, flags: *flags, exptime: exptime_now };
            let deadline = model.deadline(*exptime);
            let new = Item { value: value.clone(), flags: *flags, deadline, cas: 0 };
            let expected = model.store(mode, *key, new);
            assert_eq!(store.store(&patient(), now, mode, &entry), Ok(expected));
            check(store, model, *key);
        }
        Op::Delete(key) => {
            assert_eq!(
                store.delete(&patient(), now, &[*key]).unwrap(),
                model.items.remove(key).is_some()
            );
        }
        Op::Arithmetic { increment, key, delta } => {
            let expected = model.arithmetic(*increment, *key, *delta);
            let result = if *increment {
                store.incr(&patient(), now, &[*key], *delta)
            } else {
                store.decr(&patient(), now, &[*key], *delta)
            };
            assert_eq!(result, expected);
            check(store, model, *key);
        }
        Op::Touch { key, exptime, and_get } => {
            let deadline = model.deadline(*exptime);
            let found = model.items.get_mut(key).map(|item| item.deadline = deadline).is_some();
            let exptime = Exptime::from_wire(*exptime);
            if *and_get {
                assert_eq!(store.gat(&patient(), now, &[*key], exptime).unwrap().is_some(), found);
            } else {
                assert_eq!(store.touch(&patient(), now, &[*key], exptime).unwrap(), found);
            }
        }
        Op::FlushAll { delay } => {
            let due = model.now + delay;
            store.flush_all(now, UnixTime::from_secs(due));
            model.flush_due = Some(due);
        }
        Op::Wait(secs) => model.now += secs,
        Op::Sweep(buckets) => _ = store.sweep(now, *buckets),
    }
}

/// Compares one key, and lets the model learn the number of its version.
fn check(store: &Store, model: &mut Model, key: u8) {
    model.expire();
    let found = store.get(&patient(), UnixTime::from_secs(model.now), &[key]).unwrap();
    let expected = model.items.get_mut(&key);
    assert_eq!(
        found.as_ref().map(|found| (&found.data[..], found.flags)),
        expected.as_ref().map(|item| (&item.value[..], item.flags)),
    );
    if let (Some(found), Some(item)) = (found, expected) {
        assert!(found.cas >= item.cas, "numbers of versions only grow");
        item.cas = found.cas;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn store_behaves_like_a_map(ops in vec(op(), 1..120), hash_power in 0..4u8) {
        let config = Config { hash_power, memory_limit_mib: 64, ..Config::default() };
        let store = Store::with_seed(&config, 3).unwrap();
        let mut model = Model { now: 1_700_000_000, ..Model::default() };
        for op in &ops {
            apply(&store, &mut model, op);
        }
        for key in 0..6 {
            check(&store, &mut model, key);
        }
        let now = UnixTime::from_secs(model.now);
        store.sweep(now, usize::MAX);
        let (audit, stats) = (store.audit(), store.stats());
        prop_assert_eq!(audit.items as usize, model.items.len());
        prop_assert_eq!((audit.items, audit.bytes), (stats.curr_items, stats.bytes));
        prop_assert!(audit.chunks_match_items && audit.slabs_balance);
        prop_assert_eq!(stats.evictions, 0);
    }
}
