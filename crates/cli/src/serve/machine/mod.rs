//! What the machine's memory, power and CPU have to do with a server: what counts them, who is
//! told, and who sets the capacity of the memory semaphore.
//!
//! ```text
//!   meters ──┬─► Steering ─► capacity of the semaphore
//!            ├─► signals ──► the controller, if it or its utility asks
//!            └─► the metrics endpoint
//! ```
//!
//! All of it belongs to the process and not to a service: there is one semaphore and one memory.

mod config;
mod sensor;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use seawall_control::Instant;
use seawall_control::controller::Signal;
use seawall_control::predict::memory::MemoryPolicy;
use seawall_control::steer::{Meter, Rate};
use seawall_measure::cpu::Usage;
use seawall_measure::memory::{Declared, Detected, Source};
use seawall_measure::power::Energy;
use seawall_measure::{names, utility};
use seawall_rpc::clock;
use seawall_sync::MemorySemaphore;
use seawall_sync::memory::Steering;

use super::config::Config as Serve;
use super::running::Running;
pub(super) use config::Config;
use sensor::Sensor;

/// Microjoules of a joule.
const MICRO: f64 = 1e6;

/// Nanoseconds of a second.
const NANO: f64 = 1e9;

/// What a service has to do with memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// What its requests do that are about to use much of it.
    pub(super) policy: MemoryPolicy,
    /// Whether it declares the bytes that these move.
    pub(super) declares: bool,
}

/// Meters, and the semaphore's steering for as long as this lives.
#[derive(Debug)]
pub(super) struct Machine {
    memory: Option<(Source, Sensor)>,
    power: Option<Sensor>,
    told: Vec<Told>,
    gauges: Gauges,
    remarks: Vec<String>,
    _steering: Option<Steering>,
}

/// What the endpoint shows of it.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    has_semaphore: bool,
    gauges: Vec<Gauge>,
}

/// What the controller is told, and how often.
#[derive(Clone, Debug)]
struct Told {
    sensor: Sensor,
    period: Duration,
    signal: fn(f64) -> Signal,
}

/// What it shows of a meter.
#[derive(Debug)]
struct Gauge {
    sensor: Sensor,
    rate: Rate,
    show: fn(f64, &'static str),
    source: &'static str,
}

impl Machine {
    /// Opens what the configuration asks for, and begins to steer the semaphore if the service has
    /// one.
    ///
    /// # Errors
    ///
    /// Names the field, and why a source that it names does not work here.
    pub(super) fn start(config: &Serve, needs: Needs) -> Result<Self> {
        let admission = &config.server.admission;
        let asks = |metric| {
            admission.algorithm == "svalinn"
                && utility::asks_for(&admission.svalinn.utility, metric)
        };
        let has_semaphore = needs.policy != MemoryPolicy::None;
        let is_shown = config.metrics.listen.is_some();
        let mut machine = Self {
            memory: None,
            power: None,
            told: Vec::new(),
            gauges: Gauges { has_semaphore, gauges: Vec::new() },
            remarks: Vec::new(),
            _steering: None,
        };
        let steers = has_semaphore && config.memory.capacity.is_none();
        if steers || asks("bandwidth") {
            machine.open_memory(&config.memory, needs.declares)?;
            if asks("bandwidth") {
                machine.tell_bandwidth(&config.memory);
            }
        } else if is_shown {
            // What cannot be shown is not worth to fail for.
            machine.memory = config.memory.open(needs.declares).ok().and_then(taken);
        }
        if asks("power") || is_shown {
            machine.open_power(&config.memory, asks("power"));
        }
        if has_semaphore {
            machine.set_capacity(&config.memory)?;
        }
        if admission.build_with(utility::read).is_ok_and(|algorithm| algorithm.asks_for_cpu()) {
            machine.tell_cpu(config);
        }
        machine.show();
        for remark in &machine.remarks {
            tracing::info!("{remark}");
        }
        Ok(machine)
    }

    /// What to tell the operator at the start, a line each.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Tells the controller of `running` what is measured while `work` lasts.
    /// `work` has the gauges meanwhile.
    pub(super) fn while_told<T>(
        &mut self,
        running: &Running,
        work: impl FnOnce(&mut Gauges) -> T,
    ) -> T {
        let Self { told, gauges, .. } = self;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let tell = |told: &Told| {
                let (told, stop) = (told.clone(), &stop);
                scope.spawn(move || told.run(running, stop))
            };
            let _end = End { stop: &stop, threads: told.iter().map(tell).collect() };
            work(gauges)
        })
    }

    fn open_memory(&mut self, config: &Config, declares: bool) -> Result<()> {
        let opened = config.open(declares).map_err(|reason| {
            let others = match declares {
                true => "auto takes the best that does, declared works everywhere",
                false => "auto takes the best that does",
            };
            let name = config.source.name();
            anyhow!("memory.source: {name} does not work here: {reason}; {others}")
        })?;
        self.remarks.push("what counts the bytes of memory:".into());
        self.remarks.extend(opened.to_string().lines().map(|line| format!("  {line}")));
        self.memory = taken(opened);
        Ok(())
    }

    fn tell_bandwidth(&mut self, config: &Config) {
        match &self.memory {
            Some((_, sensor)) => self.told.push(Told::new(sensor, config, |bytes_per_second| {
                Signal::Bandwidth { bytes_per_second }
            })),
            None => missing("bandwidth", self.remarks[1..].join(";").trim_start()),
        }
    }

    fn tell_cpu(&mut self, config: &Serve) {
        let cpu = Usage::new(config.server.workers());
        let sensor = Sensor::new(Box::new(cpu));
        self.told.push(Told::new(&sensor, &config.memory, |nanos_per_second| Signal::Cpu {
            utilization: nanos_per_second / NANO,
        }));
    }

    fn open_power(&mut self, config: &Config, is_asked_for: bool) {
        match Energy::open(&config.sysfs.join("class/powercap")) {
            Ok(energy) => {
                let sensor = Sensor::new(Box::new(energy));
                if is_asked_for {
                    self.told.push(Told::new(&sensor, config, |microwatts| Signal::Power {
                        watts: microwatts / MICRO,
                    }));
                }
                self.power = Some(sensor);
            }
            Err(reason) if is_asked_for => missing("power", &reason.to_string()),
            Err(reason) => tracing::debug!(%reason, "no power"),
        }
    }

    /// Gives the semaphore its capacity, or somebody who looks for it.
    fn set_capacity(&mut self, config: &Config) -> Result<()> {
        let semaphore = MemorySemaphore::shared();
        if let Some(capacity) = config.capacity {
            semaphore.resize(capacity);
            self.remarks.push(format!("memory semaphore: {capacity} at once, as configured"));
            return Ok(());
        }
        if let Some(most) = config.capacity_max {
            semaphore.resize(most);
        }
        let most = semaphore.capacity();
        let (source, sensor) =
            self.memory.as_ref().expect("services that have a semaphore declare their bytes");
        let steering = Steering::start(semaphore, &config.bandit, sensor.clone());
        self._steering = Some(steering.map_err(|error| anyhow!("memory.{error}"))?);
        let source = source.words();
        self.remarks.push(format!(
            "memory semaphore: 1 to {most} at once, as the bandit finds by {source}"
        ));
        Ok(())
    }

    fn show(&mut self) {
        let bandwidth = |bytes, source: &'static str| {
            metrics::gauge!(names::BANDWIDTH.name, "source" => source).set(bytes);
        };
        let gauges = &mut self.gauges.gauges;
        if let Some((source, sensor)) = &self.memory {
            gauges.push(Gauge::new(sensor.clone(), bandwidth, source.name()));
        }
        // Beside what the hardware counts, what of that the service knows of.
        if self.memory.as_ref().is_some_and(|(source, _)| *source != Source::Declared) {
            let declared = Sensor::new(Box::new(Declared::shared()));
            gauges.push(Gauge::new(declared, bandwidth, Source::Declared.name()));
        }
        if let Some(sensor) = &self.power {
            let watts = |microwatts, _| metrics::gauge!(names::POWER.name).set(microwatts / MICRO);
            gauges.push(Gauge::new(sensor.clone(), watts, ""));
        }
    }
}

/// Warns of a utility that counts on something.
fn missing(metric: &str, reason: &str) {
    tracing::warn!(
        "the configured utility asks for {metric}, which is not measured on this machine and \
         counts as 0: {reason}"
    );
}

/// The meter that was found, if any.
fn taken(detected: Detected) -> Option<(Source, Sensor)> {
    detected.source().zip(detected.meter.map(Sensor::new))
}

impl Gauges {
    /// Hands what was measured since the last time to the recorder of the `metrics` facade.
    pub(super) fn publish(&mut self) {
        if self.has_semaphore {
            let memory = MemorySemaphore::shared();
            metrics::gauge!(names::MEMORY_CAPACITY.name).set(f64::from(memory.capacity()));
            metrics::gauge!(names::MEMORY_HELD.name).set(f64::from(memory.holders()));
        }
        for gauge in &mut self.gauges {
            gauge.publish(clock::now());
        }
    }
}

impl Told {
    fn new(sensor: &Sensor, config: &Config, signal: fn(f64) -> Signal) -> Self {
        let sensor = sensor.clone();
        Self { period: config.bandit.interval.max(sensor.resolution()), sensor, signal }
    }

    fn run(self, running: &Running, stop: &AtomicBool) {
        let Self { mut sensor, period, signal } = self;
        let mut rate = Rate::default();
        while !stop.load(Relaxed) {
            if let Some(value) = rate.on_reading(clock::now(), sensor.total()) {
                running.signal(signal(value));
            }
            thread::park_timeout(period);
        }
    }
}

impl Gauge {
    fn new(sensor: Sensor, show: fn(f64, &'static str), source: &'static str) -> Self {
        Self { sensor, rate: Rate::default(), show, source }
    }

    fn publish(&mut self, now: Instant) {
        if let Some(value) = self.rate.on_reading(now, self.sensor.total()) {
            (self.show)(value, self.source);
        }
    }
}

/// Ends the threads that tell the controller, whatever happens meanwhile.
struct End<'a, 'scope> {
    stop: &'a AtomicBool,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
    }
}
