//! One definition of workload, arrivals, latency and goodput, for live and simulated runs.
//!
//! Two numbers compare only when they were counted the same way. The load generator that drives a
//! real server and the simulator that runs the same controllers at paper scale therefore share this
//! crate: what is offered, when, and what of it counts.
//!
//! ```text
//!  what is asked                 what happens                 what is reported
//!
//!  arrivals ── when, by whom ─┐                            ┌─► recorder ──► Summary
//!  service ─── how much work ─┼─► live run or simulation ──┤    one point: goodput, tail, drops
//!  keys ────── on what data ──┘    (one Outcome for each   └─► series ────► Bins, stable_after
//!                                    offered request)           how it went over time
//! ```
//!
//! Everything of that is a pure function of its arguments and a seed: the crate reads no clock,
//! takes no entropy from the system and iterates over no randomly ordered map. Time is an
//! [`Instant`](seawall_control::Instant) that the caller chooses, so that a simulation repeats
//! itself bit by bit and a live run can be replayed with the same arrivals. Apart from it stand
//! [`memory`], [`power`] and [`cpu`], which read what the hardware of a live run counts.
//!
//! The load is *open loop*: the schedule says when each request is due, and a slow server does not
//! slow the schedule down. Latency counts from the scheduled time, so that a request which had to
//! wait for its own generator, for a credit or in a queue is charged for that wait (and the
//! "coordinated omission" of closed loops cannot occur).
//!
//! ```
//! use std::time::Duration;
//!
//! use seawall_control::{Instant, Rng};
//! use seawall_measure::{
//!     Arrivals, Outcome, Process, Recorder, RecorderConfig, Schedule, ServiceTime, Window,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One worker that needs 10 us for each request can serve 100,000 requests per second.
//! let service: ServiceTime = "exp:10us".parse()?;
//! let capacity = 1.0 / service.mean().as_secs_f64();
//! let rates = "0.5x".parse::<Schedule>()?.rates(Some(capacity))?;
//!
//! let start = Instant::ORIGIN;
//! let window = Window::after_warm_up(start, Duration::from_millis(10), Duration::from_millis(90));
//! let slo = Duration::from_micros(200);
//! let mut recorder = Recorder::new(RecorderConfig::new(slo, window))?;
//!
//! let mut rng = Rng::new(7);
//! let mut worker_free = start;
//! for arrival in Arrivals::new(Process::Poisson, rates, start, 42) {
//!     if arrival.at >= window.end {
//!         break;
//!     }
//!     worker_free = worker_free.max(arrival.at) + service.sample(&mut rng);
//!     recorder.record(0, arrival.at, worker_free, Outcome::Success);
//! }
//!
//! let summary = recorder.summary();
//! assert!(summary.valid);
//! // A queue with Poisson arrivals that is half full takes 20 us on average (M/M/1).
//! assert!((summary.total.mean_us.unwrap() - 20.0).abs() < 2.0);
//! assert!(summary.total.goodput > 0.99 * summary.total.offered);
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not do
//!
//! It sends nothing, sleeps never and serves nothing: the generator of the live run lives in the
//! `seawall` command, the simulator in `seawall-sim`. It judges no controller; [`names`] is only
//! the vocabulary that live servers, simulator and dashboards share for the metrics they keep.

pub mod arrivals;
pub use seawall_control::config::duration;
pub mod cpu;
pub mod graph;
mod kernel;
pub mod keys;
pub mod latency;
pub mod memory;
pub mod names;
pub mod outcome;
pub mod paths;
pub mod power;
pub mod recorder;
pub mod series;
pub mod service;
pub mod spec;
pub mod utility;
pub mod violation;

pub use arrivals::{Arrivals, Load, Process, Rates, Schedule, ScheduleError, Scheduled};
pub use graph::Graph;
pub use keys::{KeyValueMix, Keys, Operation, Popularity, ValueSize};
pub use latency::Latencies;
pub use outcome::{DropReason, Outcome};
pub use paths::Paths;
pub use recorder::{ClassSummary, Figures, Recorder, RecorderConfig, Summary, Window};
pub use series::{Bin, Series, SeriesConfig, Settled, Stability};
pub use service::{ServiceTime, Shape};
pub use spec::SpecError;
pub use violation::{Violation, ViolationConfig};
