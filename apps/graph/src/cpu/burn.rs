//! CPU time on demand, for services whose control group bounds it.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The clock is read after so many rounds, some microseconds apart: reading it takes 0.2 µs.
const ROUNDS: u32 = 2_000;

/// Uses `work` of CPU time, counted by the kernel: what a service waits for its quota does not
/// count. After each `quantum` others get their turn on this thread.
pub(super) async fn burn(work: Duration, quantum: Duration) {
    let mut left = work;
    while !left.is_zero() {
        let turn = left.min(quantum);
        spin(turn);
        left -= turn;
        if !left.is_zero() {
            give_way().await;
        }
    }
}

fn spin(time: Duration) {
    let until = cpu_time() + time;
    while cpu_time() < until {
        let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..ROUNDS {
            x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 1;
        }
        black_box(x);
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("every thread has a clock of its own").into()
}

/// Goes to the end of the run queue.
async fn give_way() {
    let mut gone = false;
    poll_fn(|cx| {
        if gone {
            return Poll::Ready(());
        }
        gone = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_used_and_others_get_their_turn() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let began = cpu_time();
        let ms = Duration::from_millis;
        let order = parking_lot::Mutex::new(Vec::new());
        runtime.block_on(async {
            let job = async |name, work| {
                burn(work, ms(1)).await;
                order.lock().push(name);
            };
            futures_util::future::join(job("long", ms(5)), job("short", ms(1))).await;
        });
        assert!(cpu_time() - began >= ms(6));
        assert_eq!(*order.lock(), ["short", "long"]);
    }
}
