//! A thread in a control group that has used up its quota.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::unistd::gettid;
use seawall_control::Instant;

use super::MeasureError;
use crate::agent::actuator::{Actuator, Quota, QuotaLever, Target};
use crate::agent::hierarchy::{Hierarchies, Hierarchy, Version};
use crate::responder::monotonic_now;

/// The group's period. Long, so that few trials meet the end of one.
const PERIOD: Duration = Duration::from_millis(100);

/// Thousandths of a CPU that it has.
const LOW: u32 = 50;

/// And while it is boosted: more than one thread can use.
const HIGH: u32 = 2_000;

/// Who has not run for that long is throttled: a few other threads on its CPU keep it off that for
/// some of their time slices, which are shorter.
const GAP: Duration = Duration::from_millis(30);

/// A group and the thread in it. Both end when this is dropped.
pub(super) struct Throttled {
    quota: Quota,
    target: Target,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// When it ran last, and when it last ran again after a gap; monotonic nanoseconds.
    ran: AtomicU64,
    resumed: AtomicU64,
}

impl Throttled {
    pub(super) fn start() -> Result<Self, MeasureError> {
        let hierarchies = Hierarchies::detect("/".as_ref());
        let cpu = hierarchies.map_err(|error| MeasureError::Group(error.to_string()))?.cpu;
        let folder = cpu.mount.join(format!("seawall-responder-{}", std::process::id()));
        let failed = |error: io::Error| {
            MeasureError::Group(format!("{} cannot be made: {error}", folder.display()))
        };
        fs::create_dir(&folder).map_err(failed)?;
        let shared = Arc::new(Shared::default());
        let target =
            Target { name: "measured".into(), cpu: Some(folder.clone()), ..Target::default() };
        let mut it = Self {
            quota: Quota::new(&cpu, Some(PERIOD), 0.0),
            target,
            shared: shared.clone(),
            thread: None,
        };
        it.apply(LOW)?;
        let (hierarchy, spinner) = (cpu, folder.clone());
        it.thread = Some(thread::spawn(move || spin(&hierarchy, &spinner, &shared)));
        Ok(it)
    }

    /// What a worker raises it with: as the agent's does.
    pub(super) fn raiser(
        &self,
    ) -> Result<impl FnMut() -> io::Result<()> + Send + use<>, MeasureError> {
        let lever = QuotaLever::open(&self.quota, &self.target);
        let mut lever = lever.map_err(|error| MeasureError::Group(error.to_string()))?;
        Ok(move || lever.write(HIGH).map(drop).map_err(io::Error::other))
    }

    /// Gives it its low quota, and waits until it has used that up.
    pub(super) fn throttle(&mut self) -> Result<(), MeasureError> {
        self.apply(LOW)?;
        for _ in 0..1_000 {
            thread::sleep(Duration::from_millis(2));
            let ran = self.shared.ran.load(Ordering::Relaxed);
            if ran > 0 && monotonic_now().since(Instant::from_nanos(ran)) >= GAP {
                return Ok(());
            }
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(MeasureError::Group("a thread cannot be put into it".into()));
            }
        }
        Err(MeasureError::Lost("a group with a quota of 5 % is never throttled"))
    }

    /// When it ran again, if that was after `since`.
    pub(super) fn resumed_after(&self, since: Instant) -> Option<Instant> {
        let resumed = Instant::from_nanos(self.shared.resumed.load(Ordering::Acquire));
        (resumed > since).then_some(resumed)
    }

    fn apply(&mut self, milli: u32) -> Result<(), MeasureError> {
        let applied = self.quota.apply(&self.target, milli);
        applied.map_err(|error| MeasureError::Group(error.to_string()))
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.apply(HIGH);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A thread that has just ended may still be counted for a moment.
        for _ in 0..50 {
            if self.target.cpu.as_ref().is_none_or(|folder| fs::remove_dir(folder).is_ok()) {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs in the group until told to stop.
fn spin(hierarchy: &Hierarchy, folder: &Path, shared: &Shared) -> io::Result<()> {
    super::keep_to(true)?;
    let entrance = if hierarchy.version == Version::V1 {
        "tasks"
    } else {
        fs::write(folder.join("cgroup.type"), "threaded")?;
        "cgroup.threads"
    };
    fs::write(folder.join(entrance), gettid().to_string())?;
    let mut last = monotonic_now();
    while !shared.stop.load(Ordering::Relaxed) {
        let now = monotonic_now();
        if now.since(last) >= GAP {
            shared.resumed.store(now.as_nanos(), Ordering::Release);
        }
        shared.ran.store(now.as_nanos(), Ordering::Relaxed);
        last = now;
    }
    Ok(())
}
