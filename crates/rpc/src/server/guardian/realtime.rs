//! Real-time priority for threads that serve, and no more of the CPU at it than is sensible.
//!
//! A thread that has used up its share of a period becomes an ordinary one for the rest of it. As
//! such it may not run before the period is over, or long after, so that another thread takes and
//! gives it its priority: the [`pacer`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use parking_lot::Mutex;
use seawall_control::Instant;
use thiserror::Error;
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadId, ThreadPriority,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

use super::GuardianConfig;
use crate::clock;

/// The time in which a thread may take its share.
const PERIOD: Duration = Duration::from_millis(10);

/// How long the pacer waits where nobody has used up its share.
const IDLE: Duration = Duration::from_secs(3600);

const FIFO: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
const OTHER: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);

thread_local! {
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

/// Why a server has no guardian.
#[derive(Clone, Debug, Error)]
#[error(
    "the system does not permit real-time priority {priority}: {problem}. It takes CAP_SYS_NICE, \
     or RLIMIT_RTPRIO of {} or more (`ulimit -r`, LimitRTPRIO= of systemd); where the kernel \
     groups real-time threads, a cgroup of the cpu controller also needs cpu.rt_runtime_us above \
     0. guardian.way = \"off\" does without",
    priority + 1
)]
pub struct RealtimeError {
    priority: u8,
    problem: String,
}

/// A thread that has used up its share, until its period ends.
#[derive(Debug)]
pub(in crate::server) struct Spent {
    until: Instant,
    thread: Arc<Mutex<Option<ThreadId>>>,
}

/// What a thread has taken of its share.
#[derive(Debug)]
struct Pace {
    /// Itself, until it ends.
    thread: Arc<Mutex<Option<ThreadId>>>,
    pacer: Sender<Spent>,
    share: Duration,
    /// When this period began.
    began: Instant,
    /// What of it was used until `counted`.
    used: Duration,
    counted: Instant,
    /// The pacer was told in this period.
    is_spent: bool,
}

/// Gives the thread that calls real-time priority. When it has used up its share, `pacer` is told.
pub(in crate::server) fn enter(
    config: &GuardianConfig,
    pacer: Sender<Spent>,
) -> Result<(), RealtimeError> {
    let refused = |problem: &dyn ToString| RealtimeError {
        priority: config.priority,
        problem: problem.to_string(),
    };
    let priority = ThreadPriority::try_from(config.priority).map_err(|why| refused(&why))?;
    set_thread_priority_and_policy(thread_native_id(), priority, FIFO)
        .map_err(|why| refused(&why))?;
    let now = clock::now();
    PACE.set(Some(Pace {
        thread: Arc::new(Mutex::new(Some(thread_native_id()))),
        pacer,
        share: PERIOD.mul_f64(config.share),
        began: now,
        used: Duration::ZERO,
        counted: now,
        is_spent: false,
    }));
    Ok(())
}

/// The thread goes on: called often, and before it sleeps.
pub(in crate::server) fn pace() {
    PACE.with_borrow_mut(|pace| {
        if let Some(pace) = pace {
            pace.count(clock::now());
        }
    });
}

/// The thread has slept until now.
pub(in crate::server) fn woken() {
    PACE.with_borrow_mut(|pace| {
        if let Some(pace) = pace {
            pace.counted = clock::now();
            pace.count(pace.counted);
        }
    });
}

/// Takes the priority of threads that have used up their share, and gives it back at the ends of
/// their periods; until all have ended.
///
/// It is above them, so that it runs at once when one tells it, who then runs no longer.
pub(in crate::server) fn pacer(config: &GuardianConfig, told: &Receiver<Spent>) {
    let priority = |above: u8| ThreadPriority::try_from((config.priority + above).min(99));
    let (Ok(theirs), Ok(own)) = (priority(0), priority(1)) else { return };
    set(thread_native_id(), own, FIFO);
    let mut waiting: Vec<Spent> = Vec::new();
    loop {
        let now = clock::now();
        waiting.retain(|spent| {
            let is_over = spent.until <= now;
            if let (true, Some(thread)) = (is_over, *spent.thread.lock()) {
                set(thread, theirs, FIFO);
            }
            !is_over
        });
        let next = waiting.iter().map(|spent| spent.until.since(now)).min();
        match told.recv_timeout(next.unwrap_or(IDLE)) {
            Ok(spent) => {
                if let Some(thread) = *spent.thread.lock() {
                    // The lowest, which is the pacer's own niceness: theirs is not touched.
                    set(thread, ThreadPriority::Min, OTHER);
                }
                waiting.push(spent);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Pace {
    /// The thread did not sleep since it was last counted. Nobody takes the CPU from it at this
    /// priority, so that the time which has passed is what it has used.
    fn count(&mut self, now: Instant) {
        self.used += now.since(self.counted);
        self.counted = now;
        if now.since(self.began) >= PERIOD {
            (self.began, self.used, self.is_spent) = (now, Duration::ZERO, false);
        }
        if !self.is_spent && self.used >= self.share {
            self.is_spent = true;
            let spent = Spent { until: self.began + PERIOD, thread: self.thread.clone() };
            // Without a pacer the server is about to stop.
            _ = self.pacer.send(spent);
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        *self.thread.lock() = None; // the number of an ended thread means nothing
    }
}

fn set(thread: ThreadId, priority: ThreadPriority, policy: ThreadSchedulePolicy) {
    if let Err(error) = set_thread_priority_and_policy(thread, priority, policy) {
        // It was permitted before. If the process has given that up, it is an ordinary one now.
        tracing::debug!(%error, "cannot change a guardian's priority");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use thread_priority::thread_schedule_policy;

    fn new_pace(now: Instant, share: Duration) -> (Pace, Receiver<Spent>) {
        let (pacer, told) = channel();
        let used = Duration::ZERO;
        let thread = Arc::default();
        (Pace { thread, pacer, share, began: now, used, counted: now, is_spent: false }, told)
    }

    #[test]
    fn a_thread_has_its_share_of_each_period_at_most() {
        let at = Instant::from_micros;
        let (mut pace, told) = new_pace(at(0), PERIOD.mul_f64(0.3));
        let spent = [1_000, 2_999, 3_000, 9_999, 10_000, 12_999, 13_000, 14_000].map(|us| {
            pace.count(at(us));
            told.try_iter().map(|spent| spent.until).collect::<Vec<_>>()
        });
        let nothing = Vec::new;
        let (first, second) = (vec![at(10_000)], vec![at(20_000)]);
        let expected =
            [nothing(), nothing(), first, nothing(), nothing(), nothing(), second, nothing()];
        assert_eq!(spent, expected);
    }

    #[test]
    fn sleep_is_not_counted() {
        let at = |ms: u64| Instant::from_micros(ms * 1_000);
        let (mut pace, told) = new_pace(at(0), PERIOD / 2);
        pace.count(at(2));
        pace.counted = at(7); // it slept
        pace.count(at(9));
        assert_eq!(pace.used, Duration::from_millis(4));
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn who_has_used_its_share_is_an_ordinary_thread_until_the_period_ends() {
        let config = GuardianConfig { share: 0.01, ..GuardianConfig::default() };
        let (sender, told) = channel();
        let pacing = thread::spawn(move || pacer(&config, &told));
        let run = move || {
            if enter(&config, sender).is_err() {
                return; // not permitted here, which tests of the whole server tell of
            }
            let began = std::time::Instant::now();
            let patience = Duration::from_secs(30);
            while thread_schedule_policy().unwrap() == FIFO {
                pace();
                assert!(began.elapsed() < patience, "nobody took its priority");
            }
            while thread_schedule_policy().unwrap() == OTHER {
                assert!(began.elapsed() < patience, "nobody gave it back");
            }
        };
        thread::spawn(run).join().unwrap();
        pacing.join().unwrap(); // it ends when there is nobody to pace
    }

    #[test]
    fn a_refusal_says_what_it_takes() {
        let text = RealtimeError { priority: 10, problem: "EPERM".into() }.to_string();
        for word in ["CAP_SYS_NICE", "RLIMIT_RTPRIO of 11", "cpu.rt_runtime_us", "EPERM", "off"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
