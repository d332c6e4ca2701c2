//! How long the two operations take, on one thread and on two.
//!
//! ```console
//! $ cargo run --release -p seawall-columns --example passes
//! ```

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use seawall_columns::native::Request;
use seawall_columns::series::{ROWS, SEED, Series};
use seawall_columns::store::{Store, StoreConfig};
use seawall_control::request::{Claims, Context};

const TIME: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 3;

/// Bytes of a column.
const COLUMN: f64 = (ROWS * size_of::<f64>()) as f64;

fn main() -> Result<()> {
    let store = Store::new(Series::generate(ROWS, SEED).close.into(), &StoreConfig::default());
    for round in 1..=ROUNDS {
        for threads in [1, 2] {
            let part = microseconds(&store, Request::Max { first: 9_000, rows: 20_000 }, threads)?;
            let most = microseconds(&store, Request::max(), threads)?;
            let smooth = microseconds(&store, Request::Smooth { span: 5 }, threads)?;
            let gb_s = |columns: f64, each: f64| f64::from(threads) * columns * COLUMN / each / 1e3;
            println!(
                "round {round}, {threads} thread(s): max of 20,000 rows {part:.1} us; \
                 of all {most:.0} us, reads {:.1} GB/s; \
                 smooth {smooth:.0} us, reads and writes {:.1} GB/s",
                gb_s(1.0, most),
                gb_s(2.0, smooth),
            );
        }
    }
    Ok(())
}

/// Mean time of `request` on each of so many threads.
fn microseconds(store: &Store, request: Request, threads: u32) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let handle = runtime.handle();
    let start = Instant::now();
    let calls: u64 = thread::scope(|scope| {
        let run = || {
            let ctx = Context::new(Claims::default(), seawall_control::Instant::ORIGIN);
            let mut calls = 0;
            while start.elapsed() < TIME {
                handle.block_on(store.compute(&ctx, request)).expect("nobody is refused");
                calls += 1;
            }
            calls
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    });
    Ok(start.elapsed().as_secs_f64() * 1e6 * f64::from(threads) / calls as f64)
}
