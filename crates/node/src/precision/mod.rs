//! How precise predictions are: a thread that waits is chosen at random, its wait predicted, and
//! what it really waits is watched (LIBROS §VIII-B1).

mod aside;
mod groups;
mod mix;
mod work;

use std::io;
use std::time::Duration;

use seawall_control::Rng;
use seawall_control::predict::cpu::Features;
use thiserror::Error;

pub use mix::Mix;

use crate::{RunQueues, Sample, Unavailable, Watched};
use aside::Aside;

/// How long threads run before the first prediction, so that their habits are known.
const WARM_UP: Duration = Duration::from_secs(2);

/// Who does not get a CPU for so long is not waited for any longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether a watched thread runs. It does not affect what is measured.
const LOOK: Duration = Duration::from_millis(10);

/// Samples for each prediction asked for: there is not always somebody who waits.
const TRIES: usize = 10;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The threads that compete.
    pub mix: Mix,
    /// The CPUs that they may use.
    pub cpus: Vec<u32>,
    /// How many predictions.
    pub predictions: usize,
    /// The mean time between two of them. The paper's: 100 ms.
    pub every: Duration,
    /// What choices follow from.
    pub seed: u64,
}

/// One prediction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Point {
    /// What was predicted, in the order of [`Features::NAMED`].
    pub predicted: [Duration; 4],
    /// What it really waited.
    pub real: Duration,
    /// Threads and groups in the run queue, those expected to wake included.
    pub entities: usize,
    /// Whether another CPU took it over.
    pub moved: bool,
}

/// What came of a plan.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Measured {
    /// The predictions.
    pub points: Vec<Point>,
    /// Samples in which nobody waited.
    pub idle: usize,
    /// Threads that got no CPU within two seconds.
    pub lost: usize,
    /// Mean time to copy a run queue, and to predict a wait with everything known.
    pub copying: Duration,
    /// See `copying`.
    pub predicting: Duration,
}

/// Why a mix cannot be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Run queues cannot be copied.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Threads cannot be kept on these CPUs, or not be started.
    #[error("cannot start threads on CPUs {cpus:?}")]
    Threads {
        /// The CPUs.
        cpus: Vec<u32>,
        /// Why.
        source: io::Error,
    },
    /// There are no groups of threads.
    #[error(
        "cannot make groups of threads below {folder}: they need the cpu controller of cgroup v1, \
         mounted and writable"
    )]
    Groups {
        /// Where they were to be.
        folder: String,
        /// Why.
        source: io::Error,
    },
}

/// Runs the plan's threads, and predicts what they wait.
///
/// # Errors
///
/// If the threads cannot be run as the plan says.
pub fn measure(queues: &mut RunQueues, plan: &Plan) -> Result<Measured, MeasureError> {
    let aside = Aside::new(&plan.cpus)?;
    let running = mix::start(plan)?;
    std::thread::sleep(WARM_UP);
    let (mut measured, mut rng) = (Measured::default(), Rng::new(plan.seed));
    for _ in 0..plan.predictions.saturating_mul(TRIES) {
        if measured.points.len() >= plan.predictions {
            break;
        }
        // Not in step with ticks.
        std::thread::sleep(plan.every.mul_f64(0.5 + rng.uniform()));
        let cpu = plan.cpus[rng.below(plan.cpus.len() as u64) as usize];
        aside.leave(cpu)?;
        let before = std::time::Instant::now();
        let sample = queues.watch(cpu, std::process::id())?;
        measured.copying += before.elapsed();
        let before = std::time::Instant::now();
        let predicted = predict(&sample);
        measured.predicting += before.elapsed();
        match (predicted, sample.watched.is_some()) {
            (Some(predicted), _) => match until_it_runs(queues) {
                Some(ran) => measured.points.push(point(&sample, predicted, ran)),
                None => measured.lost += 1,
            },
            (None, true) => measured.lost += 1,
            (None, false) => measured.idle += 1,
        }
    }
    let samples = measured.points.len() + measured.lost + measured.idle;
    let samples = u32::try_from(samples.max(1)).unwrap_or(u32::MAX);
    measured.copying /= samples;
    measured.predicting /= samples;
    running.stop();
    Ok(measured)
}

fn predict(sample: &Sample) -> Option<[Duration; 4]> {
    let thread = sample.watched?;
    let mut predicted = [Duration::ZERO; 4];
    for (slot, (_, features)) in predicted.iter_mut().zip(Features::NAMED) {
        *slot = sample.shadow.wait(thread, features)?;
    }
    Some(predicted)
}

fn until_it_runs(queues: &RunQueues) -> Option<Watched> {
    let looks = PATIENCE.as_millis() / LOOK.as_millis();
    (0..looks).find_map(|_| {
        let watched = queues.watched();
        if watched.is_none() {
            std::thread::sleep(LOOK);
        }
        watched
    })
}

fn point(sample: &Sample, predicted: [Duration; 4], watched: Watched) -> Point {
    Point {
        predicted,
        real: watched.ran.since(sample.taken),
        entities: sample.shadow.entities.len(),
        moved: watched.cpu != sample.cpu,
    }
}
