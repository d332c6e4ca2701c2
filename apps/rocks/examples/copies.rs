//! How fast large values are copied out of a store, beside a loop that does nothing but copy.
//!
//! ```console
//! $ seawall-rocks build store --keys 100000:1000
//! $ cargo run --release -p seawall-rocks --example copies -- store 100000:1000
//! ```

use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use seawall_control::Rng;
use seawall_control::request::{Claims, Context};
use seawall_rocks::data::{self, Counts};
use seawall_rocks::store::{Store, StoreConfig};

const TIME: Duration = Duration::from_secs(2);
const ROUNDS: u32 = 3;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("usage: copies FOLDER [SMALL:LARGE]")?;
    let counts: Counts = arguments.next().map_or(Ok(Counts::default()), |text| text.parse())?;
    let store = Store::open(Path::new(&folder), &StoreConfig::default())?;
    let values: Vec<Vec<u8>> = (0..counts.large).map(data::large_value).collect();
    println!("copied GB/s are bytes of values; memory carries them twice, in and out");
    for round in 1..=ROUNDS {
        for threads in [1, 2] {
            let lookups = measure(threads, counts.large, |number| {
                let length = store.value_len(&data::large_key(number));
                length.expect("it can be read").expect("it is there")
            });
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let handle = runtime.handle();
            let copies = measure(threads, counts.large, |number| {
                let ctx = Context::new(Claims::default(), seawall_control::Instant::ORIGIN);
                let key = data::large_key(number);
                handle.block_on(store.get(&ctx, &key)).expect("it can be read").len()
            });
            let plain = plain(threads, &values);
            println!(
                "round {round}, {threads} thread(s): lookup {:.2} us; get {:.1} us, {:.2} GB/s; \
                 plain copy {:.1} us, {:.2} GB/s",
                lookups.each_us, copies.each_us, copies.gb_s, plain.each_us, plain.gb_s,
            );
        }
    }
    Ok(())
}

struct Rate {
    each_us: f64,
    gb_s: f64,
}

/// Random values, copied one after the other into a buffer that each thread has.
fn plain(threads: u64, values: &[Vec<u8>]) -> Rate {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    measure(threads, values.len() as u64, |number| {
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            buffer.extend_from_slice(&values[number as usize]);
            black_box(&*buffer).len()
        })
    })
}

/// Calls `copy` with random numbers below `count`, on so many threads; it says how many bytes.
fn measure(threads: u64, count: u64, copy: impl Fn(u64) -> usize + Sync) -> Rate {
    let start = Instant::now();
    let (mut calls, mut bytes) = (0_u64, 0_usize);
    thread::scope(|scope| {
        let run = |thread| {
            let copy = &copy;
            move || {
                let mut rng = Rng::new(thread);
                let (mut calls, mut bytes) = (0, 0);
                while start.elapsed() < TIME {
                    bytes += black_box(copy(rng.below(count)));
                    calls += 1;
                }
                (calls, bytes)
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        for thread in running {
            let (of_thread, copied) = thread.join().expect("it does not panic");
            calls += of_thread;
            bytes += copied;
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    Rate {
        each_us: seconds * 1e6 * threads as f64 / calls.max(1) as f64,
        gb_s: bytes as f64 / seconds / 1e9,
    }
}
