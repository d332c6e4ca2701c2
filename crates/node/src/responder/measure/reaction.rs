//! From the late packet to what it changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use seawall_control::Instant;

use super::super::{Boost, Config, Decision, FirstResponder, Slot, WorkerConfig, monotonic_now};
use super::MeasureError;
use super::link::{Link, late};
use super::throttled::Throttled;

/// Waits are given up after that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Times from the moment before the late packet was sent, of each trial.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reactions {
    /// Until the program had seen that it is late.
    pub seen: Vec<Duration>,
    /// Until a thread on another CPU had read the raised word.
    pub word: Vec<Duration>,
    /// Until the worker had been woken.
    pub told: Vec<Duration>,
    /// Until the quota had been written.
    pub written: Vec<Duration>,
    /// Until the throttled container ran again.
    pub running: Vec<Duration>,
    /// Trials with a quota that were spoilt, because its period ended at that very moment.
    pub spoilt: usize,
    /// Whether the worker had real-time priority.
    pub is_realtime: bool,
}

/// The most trials of a kind: each has a path of its own.
pub const TRIALS_MAX: u16 = u16::MAX / 2;

/// Makes so many trials of each kind, [`TRIALS_MAX`] at most.
///
/// # Errors
///
/// What is missing here.
pub fn reactions(trials: u16) -> Result<Reactions, MeasureError> {
    super::keep_to(false)?;
    let config = Config {
        // A packet that TCP sends again is not another trial.
        window: Duration::from_secs(3_600),
        // Each trial raises the word further, and none comes after the service's share of time.
        boost: Duration::from_secs(1_800),
        boosted_max: Duration::from_secs(3_600),
        late_max: Duration::from_secs(3_600),
        ..Config::default()
    };
    let mut responder = FirstResponder::load(&config)?;
    let mut link = Link::open()?;
    responder.set_services(&[link.service()?])?;
    let mut reactions = Reactions::default();
    let trials = trials.min(TRIALS_MAX);
    words(&responder, &mut link, trials, &mut reactions)?;
    quotas(&mut responder, &mut link, trials, &mut reactions)?;
    Ok(reactions)
}

/// Somebody looks at the word all the time.
fn words(
    responder: &FirstResponder,
    link: &mut Link,
    trials: u16,
    reactions: &mut Reactions,
) -> Result<(), MeasureError> {
    let boosts = responder.boosts()?;
    let slot = responder.slot("measured").ok_or(MeasureError::Lost("no service is watched"))?;
    let (seen, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| -> io::Result<()> {
            super::keep_to(true)?;
            let mut last = boosts.until(slot);
            while !stop.load(Ordering::Relaxed) {
                let until = boosts.until(slot);
                if until != last {
                    seen.store(monotonic_now().as_nanos(), Ordering::Release);
                    last = until;
                }
            }
            Ok(())
        });
        let mut trial = |path| {
            thread::sleep(Duration::from_millis(1));
            let packet = late(path);
            let began = monotonic_now();
            link.exchange(&packet, &[0])?;
            let word = wait(|| {
                let seen = Instant::from_nanos(seen.load(Ordering::Acquire));
                (seen > began).then_some(seen)
            })?;
            reactions.word.push(word.since(began));
            Ok(())
        };
        let result = (0..trials).try_for_each(&mut trial);
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")))?;
        result
    })
}

/// The worker raises the quota of a container that has used it up.
fn quotas(
    responder: &mut FirstResponder,
    link: &mut Link,
    trials: u16,
    reactions: &mut Reactions,
) -> Result<(), MeasureError> {
    let mut container = Throttled::start()?;
    let (tell, told) = channel();
    let raiser = Raiser { raise: Box::new(container.raiser()?), tell };
    responder.work(WorkerConfig::default(), Box::new(raiser))?;
    for path in 0..trials {
        container.throttle()?;
        let packet = late(TRIALS_MAX + path);
        let began = monotonic_now();
        link.exchange(&packet, &[0])?;
        let raised = raised(&told)?;
        let running = wait(|| container.resumed_after(began))?;
        if running < raised.told {
            reactions.spoilt += 1;
            continue;
        }
        reactions.seen.push(raised.seen.since(began));
        reactions.told.push(raised.told.since(began));
        reactions.written.push(raised.written.since(began));
        reactions.running.push(running.since(began));
    }
    reactions.is_realtime = responder.worker_stats().is_some_and(|it| it.is_realtime);
    responder.rest();
    Ok(())
}

struct Raised {
    seen: Instant,
    told: Instant,
    written: Instant,
}

/// Raises the quota and tells when.
struct Raiser {
    raise: Box<dyn FnMut() -> io::Result<()> + Send>,
    tell: Sender<Raised>,
}

impl Boost for Raiser {
    fn raise(&mut self, decision: &Decision) -> io::Result<()> {
        let told = monotonic_now();
        (self.raise)()?;
        let raised = Raised { seen: decision.at, told, written: monotonic_now() };
        self.tell.send(raised).map_err(io::Error::other)
    }

    /// The next trial does.
    fn lower(&mut self, _: Slot) -> io::Result<()> {
        Ok(())
    }
}

fn raised(told: &Receiver<Raised>) -> Result<Raised, MeasureError> {
    told.recv_timeout(PATIENCE).map_err(|_| MeasureError::Lost("the worker raises nothing"))
}

/// Sleeps in between, so that it takes no CPU from whom it waits for.
fn wait<T>(mut look: impl FnMut() -> Option<T>) -> Result<T, MeasureError> {
    let began = monotonic_now();
    while monotonic_now().since(began) < PATIENCE {
        if let Some(found) = look() {
            return Ok(found);
        }
        thread::sleep(Duration::from_micros(100));
    }
    Err(MeasureError::Lost("a late packet has changed nothing"))
}
