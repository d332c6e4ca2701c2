//! Real-time priority for threads that serve, and no more of the CPU at it than is sensible.
//!
//! A thread that has used up its share of a period becomes an ordinary one for the rest of it. As
//! such it may not run before the period is over, or long after, so that another thread gives it
//! its priority back: the [`pacer`].

use std::cell::RefCell;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
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

const FIFO: ThreadSchedulePolicy =
    ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
const OTHER: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);

thread_local! {
    static PACE: RefCell<Option<Pace>> = const { RefCell::new(None) };
}

/// Why a server has no guardian.
#[derive(Clone, Debug, Error)]
#[error(
    "the system does not permit real-time priority {priority}: {problem}. It takes CAP_SYS_NICE, or \
     RLIMIT_RTPRIO of {priority} or more (`ulimit -r`, LimitRTPRIO= of systemd); where the kernel \
     groups real-time threads, a cgroup of the cpu controller also needs cpu.rt_runtime_us above 0. \
     guardian.enabled = \"off\" does without"
)]
pub struct RealtimeError {
    priority: u8,
    problem: String,
}

/// A thread that is to have its priority back, and when.
#[derive(Debug)]
pub(in crate::server) struct Lowered {
    until: Instant,
    realtime: ThreadPriority,
    thread: Arc<Mutex<Option<ThreadId>>>,
}

/// What a thread has taken of its share.
#[derive(Debug)]
struct Pace {
    /// Itself, until it ends.
    thread: Arc<Mutex<Option<ThreadId>>>,
    pacer: Sender<Lowered>,
    realtime: ThreadPriority,
    normal: ThreadPriority,
    share: Duration,
    is_realtime: bool,
    /// When this period began.
    began: Instant,
    /// What of it was used until `counted`.
    used: Duration,
    counted: Instant,
}

/// Gives the thread that calls real-time priority. When it has used up its share, `pacer` is told.
pub(in crate::server) fn enter(
    config: &GuardianConfig,
    pacer: Sender<Lowered>,
) -> Result<(), RealtimeError> {
    let realtime =
        ThreadPriority::try_from(config.priority).map_err(|problem| refused(config, problem))?;
    let normal = normal().ok_or_else(|| refused(config, "the thread's niceness is not known"))?;
    set_thread_priority_and_policy(thread_native_id(), realtime, FIFO)
        .map_err(|error| refused(config, &error.to_string()))?;
    let now = clock::now();
    PACE.set(Some(Pace {
        thread: Arc::new(Mutex::new(Some(thread_native_id()))),
        pacer,
        realtime,
        normal,
        share: PERIOD.mul_f64(config.share),
        is_realtime: true,
        began: now,
        used: Duration::ZERO,
        counted: now,
    }));
    Ok(())
}

/// Gives threads their priority back at the ends of their periods, until all have ended.
pub(in crate::server) fn pacer(config: &GuardianConfig, lowered: &Receiver<Lowered>) {
    let realtime = ThreadPriority::try_from(config.priority);
    if !realtime.is_ok_and(|realtime| set(thread_native_id(), realtime, FIFO)) {
        return; // then nobody else got it
    }
    while let Ok(Lowered { until, realtime, thread }) = lowered.recv() {
        thread::sleep(until.since(clock::now()));
        if let Some(thread) = *thread.lock() {
            set(thread, realtime, FIFO);
        }
    }
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

impl Pace {
    /// The thread did not sleep since it was last counted. Nobody takes the CPU from it at this
    /// priority, so that the time which has passed is what it has used.
    fn count(&mut self, now: Instant) {
        self.used += now.since(self.counted);
        self.counted = now;
        if now.since(self.began) >= PERIOD {
            (self.began, self.used) = (now, Duration::ZERO);
        }
        if self.is_realtime != (self.used < self.share) {
            self.set_realtime(!self.is_realtime);
        }
    }

    fn set_realtime(&mut self, is_realtime: bool) {
        let (priority, policy) =
            if is_realtime { (self.realtime, FIFO) } else { (self.normal, OTHER) };
        self.is_realtime = is_realtime;
        if !is_realtime {
            let (until, thread) = (self.began + PERIOD, self.thread.clone());
            // Before it may lose the CPU. If there is no pacer, it can still do so itself.
            _ = self.pacer.send(Lowered { until, realtime: self.realtime, thread });
        }
        set(thread_native_id(), priority, policy);
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        *self.thread.lock() = None; // the number of an ended thread means nothing
    }
}

/// True if it could be done.
fn set(thread: ThreadId, priority: ThreadPriority, policy: ThreadSchedulePolicy) -> bool {
    let set = set_thread_priority_and_policy(thread, priority, policy);
    // It was permitted before. If the process has given that up, it is tried again all the same.
    set.inspect_err(|error| tracing::debug!(%error, "cannot change a guardian's priority")).is_ok()
}

fn refused(config: &GuardianConfig, problem: &str) -> RealtimeError {
    RealtimeError { priority: config.priority, problem: problem.to_owned() }
}

/// The priority that the thread has as an ordinary one.
fn normal() -> Option<ThreadPriority> {
    let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    // The nineteenth of all fields, as proc(5) counts them.
    let niceness: i32 = fields.split_whitespace().nth(16)?.parse().ok()?;
    (0..100_u8)
        .filter_map(|value| ThreadPriority::try_from(value).ok())
        .find(|priority| priority.to_posix(OTHER).is_ok_and(|posix| posix == niceness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use thread_priority::thread_schedule_policy;

    #[test]
    fn a_thread_has_its_share_of_each_period_at_most() {
        let config = GuardianConfig { share: 0.3, ..GuardianConfig::default() };
        let run = move || {
            let (pacer, lowered) = channel();
            if enter(&config, pacer).is_err() {
                return; // not permitted here, which tests of the whole server tell of
            }
            let policies = PACE.with_borrow_mut(|pace| {
                let pace = pace.as_mut().unwrap();
                let began = pace.began;
                [1_000, 2_000, 3_000, 9_999, 10_000, 12_999, 13_000].map(|us| {
                    pace.count(began + Duration::from_micros(us));
                    thread_schedule_policy().unwrap() == FIFO
                })
            });
            assert_eq!(policies, [true, true, false, false, true, true, false]);
            assert_eq!(lowered.try_iter().count(), 2);
        };
        thread::spawn(run).join().unwrap();
    }

    #[test]
    fn who_cannot_run_gets_its_priority_back() {
        let config = GuardianConfig { share: 0.01, ..GuardianConfig::default() };
        let (sender, lowered) = channel();
        let pacing = thread::spawn(move || pacer(&config, &lowered));
        let run = move || {
            if enter(&config, sender).is_err() {
                return; // as above
            }
            let began = std::time::Instant::now();
            while thread_schedule_policy().unwrap() == FIFO {
                pace();
            }
            while thread_schedule_policy().unwrap() == OTHER {
                assert!(began.elapsed() < Duration::from_secs(30), "nobody gave it back");
            }
        };
        thread::spawn(run).join().unwrap();
        pacing.join().unwrap(); // it ends when there is nobody to pace
    }

    #[test]
    fn sleep_is_not_counted() {
        let now = Instant::from_micros(1);
        let priority = ThreadPriority::Min;
        let mut pace = Pace {
            thread: Arc::default(),
            pacer: channel().0,
            realtime: priority,
            normal: priority,
            share: PERIOD / 2,
            is_realtime: true,
            began: now,
            used: Duration::ZERO,
            counted: now,
        };
        pace.count(now + Duration::from_millis(2));
        pace.counted = now + Duration::from_millis(7); // it slept
        pace.count(now + Duration::from_millis(9));
        assert_eq!(pace.used, Duration::from_millis(4));
        assert!(pace.is_realtime);
    }

    #[test]
    fn a_refusal_says_what_it_takes() {
        let text = refused(&GuardianConfig::default(), "EPERM").to_string();
        for word in ["CAP_SYS_NICE", "RLIMIT_RTPRIO of 10", "cpu.rt_runtime_us", "EPERM", "off"] {
            assert!(text.contains(word), "{text}");
        }
    }
}
