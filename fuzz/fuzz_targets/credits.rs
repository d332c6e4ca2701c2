//! Arbitrary histories of the credit mechanism, whose model checks all invariants after every step.
//!
//! The first four bytes choose seed, cores and window; every three after them are an operation.

#![no_main]

#[cfg(feature = "planted-bug")]
extern crate alloc;

#[cfg(feature = "planted-bug")]
#[path = "../planted/mod.rs"]
mod planted;

use libfuzzer_sys::fuzz_target;

#[cfg(feature = "planted-bug")]
use planted::{breakwater, client, controller, credit, model, random, request, time};
#[cfg(not(feature = "planted-bug"))]
use seawall_control::harness::model;

use model::{Model, Op};

/// Longer histories reach nothing new, and cost the fuzzer its speed.
const OPS_MAX: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let Some(([seed_low, seed_high, cores, window_max], mut ops)) = data.split_first_chunk() else {
        return;
    };
    let seed = u16::from_le_bytes([*seed_low, *seed_high]);
    let (cores, window_max) = (1 + u32::from(cores % 12), 1 + u32::from(window_max % 80));
    let mut model = Model::new(u64::from(seed), cores, window_max);
    for _ in 0..OPS_MAX {
        let Some(op) = Op::read(&mut ops) else { break };
        model.apply(op);
    }
    model.finish_all();
});
