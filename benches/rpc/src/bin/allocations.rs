//! Counts allocations: of one admission in the core, and of one call by each contestant.
//!
//! Counting costs time, so this is a command of its own.

use std::alloc::System;
use std::time::Duration;

use anyhow::Result;
use seawall_bench_rpc::closed_loop::Load;
use seawall_bench_rpc::contestants::Contestant;
use seawall_bench_rpc::cores::Cores;
use seawall_control::controller::{
    Arrival, Completion, Init, Outcome, SessionEvent, SessionId, Signal,
};
use seawall_control::request::Identity;
use seawall_control::{Instant, admission};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SESSIONS: u32 = 100;
const ADMISSIONS: u32 = 100_000;

fn main() -> Result<()> {
    println!("one admission, {SESSIONS} sessions in turn:");
    for name in admission::NAMES {
        admit(name, 0..ADMISSIONS)?;
    }
    println!("one call, client and server together, 16 outstanding:");
    let cores = Cores::divide();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for payload in [64, 1024] {
        for contestant in Contestant::ALL {
            let time = Duration::from_millis(500);
            let load = Load { payload, depth: 16, warm_up: time, time };
            let mut at = Vec::with_capacity(2);
            let turn = contestant.turn(&load, &cores, || at.push(ALLOCATOR.stats()));
            let calls = runtime.block_on(turn)?.calls;
            print(&format!("{contestant} of {payload} bytes"), at[1] - at[0], calls);
        }
    }
    Ok(())
}

/// Takes requests from arrival to completion, one at a time, and counts the later half of them.
fn admit(name: &str, requests: std::ops::Range<u32>) -> Result<()> {
    let algorithm = admission::Config::named(name).build()?;
    let mut server = algorithm.server(Init::new(Instant::ORIGIN, 1));
    let session = |slot| SessionId { slot, generation: 0 };
    for slot in 0..SESSIONS {
        let opened = SessionEvent::Opened(Identity::default());
        server.on_session(Instant::ORIGIN, session(slot), opened);
    }
    let half = requests.end / 2;
    let mut before = ALLOCATOR.stats();
    for request in requests {
        if request == half {
            before = ALLOCATOR.stats();
        }
        let now = Instant::from_micros(u64::from(request));
        let id = session(request % SESSIONS);
        _ = server.on_arrival(now, &Arrival::new(id));
        server.on_signal(now, Signal::QueueDelay(Duration::from_micros(u64::from(request % 9))));
        server.on_completion(now, &Completion::new(id, Outcome::Done, now));
        server.feedback(now, id);
        while server.poll_push(now).is_some() {}
    }
    print(name, ALLOCATOR.stats() - before, u64::from(half));
    Ok(())
}

fn print(what: &str, counted: Stats, of: u64) {
    let allocations = counted.allocations + counted.reallocations;
    let each = |count: usize| count as f64 / of as f64;
    let bytes = each(counted.bytes_allocated);
    println!("  {what:32} {:8.3} allocations {bytes:10.1} bytes", each(allocations));
}
