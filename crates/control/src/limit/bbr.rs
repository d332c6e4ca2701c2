//! The shedder of go-zero and of kratos's aegis: while the CPU is busy, no more in flight than the
//! best throughput times the least latency.
//!
//! ```text
//!   busy:   moving average of the CPU's use ≥ 0.9, or was so less than a second ago
//!   most  = most requests served in 100 ms × least mean latency of 100 ms / 100 ms, over 5 s
//!   refuse  if busy and in flight > most × (1 - use)/(1 - 0.9), the factor from 0.1 to 1
//! ```
//!
//! It is named for TCP BBR, whose estimate of bandwidth × delay this is. `core/load` of go-zero
//! 1.10, and as a variant `ratelimit/bbr` of aegis 0.2.
//!
//! It asks for [`Signal::Cpu`]. Where nobody gives that, the CPU counts as idle, as it does to
//! go-zero where it cannot read it, and nothing is ever refused; `cpu_threshold = 0` makes it do
//! without. Nor does it see a queue that needs no CPU, such as that of a lock. Latencies count in
//! whole milliseconds, so that to a service that is quicker its least latency is one.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, LimitPolicy, Sample, Server};
use crate::client;
use crate::config::{ConfigError, duration};
use crate::controller::{Algorithm, ClientController, Init, ServerController, Signal};
use crate::estimate::Rolling;
use crate::time::{Instant, nanos};

/// Weight of what was known before in the moving average of the CPU's use.
const CPU_DECAY: f64 = 0.95;

/// All of the CPU, in the thousandths that both count in.
const CPU_MAX: u32 = 1000;

/// Steps of that average after which the rest makes no difference, however long nobody told it.
const CPU_STEPS_MAX: u64 = 500;

/// Weight of what was known before in the moving average of what is in flight (`flyingBeta`).
const IN_FLIGHT_DECAY: f64 = 0.9;

/// The least factor of the limit on a CPU that is fully busy (`overloadFactorLowerBound`).
const FACTOR_MIN: f64 = 0.1;

/// Least latency of a time without requests, in milliseconds (`defaultMinRt`).
const LATENCY_DEFAULT: f64 = 1000.0;

/// Parameters of the shedder. What is not given is as the variant's own code has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `go-zero`, or `aegis`, which differs in its numbers, has no factor for a busier CPU, looks
    /// at what is in flight and not also at its average, and cools off a second after it began to
    /// refuse. Default `go-zero`.
    pub variant: Variant,
    /// Use of the CPU, from 0 to 1, from which on it is too busy. Default 0.9; aegis has 0.8.
    pub cpu_threshold: Option<f64>,
    /// Over which time throughput and latency are looked at. Default 5s; aegis has 10s.
    #[serde(with = "duration::option")]
    pub window: Option<Duration>,
    /// Parts of that time, of which the best ones count. Default 50; aegis has 100.
    pub buckets: Option<u32>,
    /// Time between two steps of the moving average of the CPU's use, each of which makes up for a
    /// twentieth of the difference. Default 250ms; aegis has 500ms.
    #[serde(with = "duration::option")]
    pub cpu_interval: Option<Duration>,
    /// How long the shedder goes on when the CPU is not too busy any more. Default 1s.
    #[serde(with = "duration::option")]
    pub cool_off: Option<Duration>,
    /// Latencies are counted in whole numbers of this. Default 1ms. Set it to less for a service
    /// that is quicker.
    #[serde(with = "duration::option")]
    pub resolution: Option<Duration>,
}

/// Whose shedder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// That of go-zero.
    #[default]
    GoZero,
    /// That of aegis.
    Aegis,
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let p = Parameters::of(self);
        ConfigError::check_range("bbr.cpu_threshold", p.cpu_threshold, 0.0..=0.999)?;
        ConfigError::check_range("bbr.buckets", p.buckets, 2..=10_000)?;
        let times = [
            ("bbr.window", p.window / p.buckets),
            ("bbr.cpu_interval", p.cpu_interval),
            ("bbr.resolution", p.resolution),
        ];
        for (field, time) in times {
            if time < Duration::from_micros(1) {
                let problem = "must be 1us or more, the window that for each bucket";
                return Err(ConfigError::new(field, problem));
            }
        }
        Ok(())
    }
}

impl Algorithm for Config {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn bounds_waits(&self) -> bool {
        false
    }

    fn asks_for_cpu(&self) -> bool {
        true
    }

    fn server(self: Arc<Self>, init: Init) -> Box<dyn ServerController> {
        Box::new(Server::new(Shedder::new(&self, init)))
    }

    fn client(self: Arc<Self>, _init: Init) -> Box<dyn ClientController> {
        Box::new(client::Open)
    }
}

/// A configuration with nothing left open.
#[derive(Clone, Debug)]
struct Parameters {
    variant: Variant,
    cpu_threshold: f64,
    window: Duration,
    buckets: u32,
    cpu_interval: Duration,
    cool_off: Duration,
    resolution: Duration,
}

impl Parameters {
    fn of(config: &Config) -> Self {
        let (threshold, window_s, buckets, interval_ms) = match config.variant {
            Variant::GoZero => (0.9, 5, 50, 250),
            Variant::Aegis => (0.8, 10, 100, 500),
        };
        Self {
            variant: config.variant,
            cpu_threshold: config.cpu_threshold.unwrap_or(threshold),
            window: config.window.unwrap_or(Duration::from_secs(window_s)),
            buckets: config.buckets.unwrap_or(buckets),
            cpu_interval: config.cpu_interval.unwrap_or(Duration::from_millis(interval_ms)),
            cool_off: config.cool_off.unwrap_or(Duration::from_secs(1)),
            resolution: config.resolution.unwrap_or(Duration::from_millis(1)),
        }
    }
}

/// What is known of the CPU, of throughput and of latency.
#[derive(Debug)]
struct Shedder {
    p: Parameters,
    cpu: Cpu,
    served: Rolling<Served>,
    /// Of the buckets before this number: the most in flight that they allow.
    most: (u64, f64),
    /// Moving average of what is in flight when a request has just left.
    in_flight: f64,
    /// Something was refused since the CPU was last seen not to be busy any more.
    refused: bool,
    /// From when cooling off counts: when the CPU was last seen busy; to aegis, when it began to
    /// refuse.
    hot_since: Option<Instant>,
}

/// What was served in one bucket.
#[derive(Clone, Debug, Default)]
struct Served {
    count: u64,
    /// Sum of the latencies, in units of the resolution.
    latency: u64,
}

/// The moving average of the CPU's use.
#[derive(Debug)]
struct Cpu {
    interval: Duration,
    /// In thousandths.
    average: u32,
    /// Use × nanoseconds since the last step.
    used: f64,
    stepped_at: Instant,
    told_at: Instant,
}

impl Cpu {
    /// The CPU was in use to this part since it was told last.
    fn on_use(&mut self, now: Instant, part: f64) {
        if !part.is_finite() {
            return;
        }
        self.used += part.clamp(0.0, 1.0) * nanos(now.since(self.told_at)) as f64;
        self.told_at = self.told_at.max(now);
        let passed = now.since(self.stepped_at);
        let steps = nanos(passed) / nanos(self.interval).max(1);
        if steps == 0 {
            return;
        }
        let mean = (self.used / nanos(passed) as f64 * f64::from(CPU_MAX)) as u32;
        for _ in 0..steps.min(CPU_STEPS_MAX) {
            // Whole thousandths, rounded down, so that the average stays some below what it nears.
            let average = f64::from(self.average) * CPU_DECAY + f64::from(mean) * (1.0 - CPU_DECAY);
            self.average = average as u32;
        }
        (self.used, self.stepped_at) = (0.0, now);
    }

    /// From 0 to 1.
    fn part(&self) -> f64 {
        f64::from(self.average) / f64::from(CPU_MAX)
    }
}

impl Shedder {
    fn new(config: &Config, init: Init) -> Self {
        let p = Parameters::of(config);
        let now = init.now;
        Self {
            cpu: Cpu {
                interval: p.cpu_interval,
                average: 0,
                used: 0.0,
                stepped_at: now,
                told_at: now,
            },
            served: Rolling::new(now, p.window, p.buckets),
            most: (u64::MAX, 0.0),
            in_flight: 0.0,
            refused: false,
            hot_since: None,
            p,
        }
    }

    fn is_busy(&self) -> bool {
        self.cpu.part() >= self.p.cpu_threshold
    }

    fn cools_off(&self, now: Instant, until: Duration) -> bool {
        self.hot_since.is_some_and(|since| now.since(since) < until)
    }

    /// The most that may be in flight: what the best bucket served, times the least mean latency of
    /// one. Buckets that are complete do not change, so it is computed once for each.
    fn most(&mut self, now: Instant) -> f64 {
        let number = self.served.number(now);
        if self.most.0 != number {
            self.most = (number, self.compute_most(now));
        }
        self.most.1
    }

    fn compute_most(&self, now: Instant) -> f64 {
        let buckets = || self.served.complete(now);
        let count = buckets().map(|bucket| bucket.count).max().unwrap_or(0).max(1) as f64;
        let means = buckets().filter(|bucket| bucket.count > 0);
        let means = means.map(|bucket| bucket.latency as f64 / bucket.count as f64);
        let bucket = self.p.window / self.p.buckets;
        let unit = nanos(self.p.resolution) as f64 / nanos(bucket) as f64;
        match self.p.variant {
            Variant::GoZero => {
                let latency = means.map(libm::round).fold(LATENCY_DEFAULT, f64::min);
                (count * latency * unit).max(1.0)
            }
            Variant::Aegis => {
                // Without requests its conversion to an integer overflows, and gives 1 in the end.
                let least = means.reduce(f64::min).map_or(1.0, libm::ceil).max(1.0);
                libm::floor(count * least * unit)
            }
        }
    }

    /// go-zero: a busier CPU makes the limit smaller.
    fn factor(&self) -> f64 {
        match self.p.variant {
            Variant::GoZero => {
                let factor = (1.0 - self.cpu.part()) / (1.0 - self.p.cpu_threshold);
                factor.clamp(FACTOR_MIN, 1.0)
            }
            Variant::Aegis => 1.0,
        }
    }

    /// go-zero: whether the CPU is busy, or was so just now and something was refused.
    fn is_hot(&mut self, now: Instant) -> bool {
        if self.is_busy() {
            self.hot_since = Some(now);
            return true;
        }
        if !self.refused || self.hot_since.is_none() {
            return false;
        }
        self.refused = self.cools_off(now, self.p.cool_off);
        self.refused
    }

    fn admits_as_go_zero(&mut self, now: Instant, in_flight: f64) -> bool {
        if !self.is_hot(now) {
            return true;
        }
        let most = self.most(now) * self.factor();
        let refuses = self.in_flight > most && in_flight > most;
        self.refused |= refuses;
        !refuses
    }

    fn admits_as_aegis(&mut self, now: Instant, in_flight: f64) -> bool {
        let is_busy = self.is_busy();
        if !is_busy {
            let just = Duration::from_nanos(1);
            if !self.cools_off(now, self.p.cool_off.saturating_add(just)) {
                self.hot_since = None;
                return true;
            }
        }
        let refuses = in_flight > 1.0 && in_flight > self.most(now);
        if refuses && is_busy {
            self.hot_since.get_or_insert(now);
        }
        !refuses
    }

    /// A request was served after so long.
    fn count(&mut self, now: Instant, latency: Duration) {
        let (latency, unit) = (nanos(latency), nanos(self.p.resolution));
        let latency = match self.p.variant {
            Variant::GoZero => latency.div_ceil(unit),
            Variant::Aegis => latency / unit,
        };
        let bucket = self.served.current(now);
        bucket.count += 1;
        bucket.latency = bucket.latency.saturating_add(latency);
    }

    /// A request has left, and so many are still there.
    fn left(&mut self, in_flight: u32) {
        let in_flight = f64::from(in_flight);
        self.in_flight = self.in_flight * IN_FLIGHT_DECAY + in_flight * (1.0 - IN_FLIGHT_DECAY);
    }
}

impl LimitPolicy for Shedder {
    fn admits(&mut self, now: Instant, in_flight: u32) -> bool {
        match self.p.variant {
            Variant::GoZero => self.admits_as_go_zero(now, f64::from(in_flight)),
            Variant::Aegis => self.admits_as_aegis(now, f64::from(in_flight)),
        }
    }

    fn on_sample(&mut self, now: Instant, sample: &Sample) {
        self.left(sample.in_flight - 1);
        self.count(now, sample.latency);
    }

    /// aegis is told that a request is done, and does not ask how.
    fn on_failure(&mut self, now: Instant, failure: &Failure) {
        self.left(failure.in_flight - 1);
        if self.p.variant == Variant::Aegis {
            self.count(now, failure.latency);
        }
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        if let Signal::Cpu { utilization } = signal {
            self.cpu.on_use(now, utilization);
        }
    }

    /// That of a CPU that is busy: while it is not, there is none.
    fn limit(&self) -> u32 {
        ((self.most.1 * self.factor()) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_micros(ms * 1_000)
    }

    fn shedder(text: &str) -> Shedder {
        let config: Config = toml::from_str(text).unwrap();
        config.validate().unwrap();
        Shedder::new(&config, Init::new(Instant::ORIGIN, 0))
    }

    /// So many requests a millisecond were served from this time to that, each in this time.
    fn serve(shedder: &mut Shedder, from: u64, to: u64, per_ms: usize, latency_us: u64) {
        for ms in from..to {
            for _ in 0..per_ms {
                let latency = Duration::from_micros(latency_us);
                shedder.on_sample(at(ms), &Sample::new(latency, 50));
            }
        }
    }

    /// The CPU is in use to this part from now on, as is told every 10 ms.
    fn busy(shedder: &mut Shedder, from: u64, to: u64, utilization: f64) {
        for ms in (from..=to).step_by(10) {
            shedder.on_signal(at(ms), Signal::Cpu { utilization });
        }
    }

    #[test]
    fn the_average_takes_eleven_seconds_to_see_a_busy_cpu() {
        let shedder = &mut shedder("");
        busy(shedder, 0, 11_200, 1.0);
        assert!(!shedder.is_busy(), "{:?}", shedder.cpu);
        busy(shedder, 11_210, 12_000, 1.0);
        assert!(shedder.is_busy(), "{:?}", shedder.cpu);
        // Rounding keeps it from 1000.
        busy(shedder, 12_010, 300_000, 1.0);
        assert_eq!(shedder.cpu.average, 981);
        // A silence counts with what is said after it.
        shedder.on_signal(at(900_000), Signal::Cpu { utilization: 0.0 });
        assert_eq!(shedder.cpu.average, 0);
    }

    #[test]
    fn the_most_is_throughput_times_latency_of_the_best_times() {
        let shedder = &mut shedder("cpu_threshold = 0.0\ncool_off = '0s'");
        assert_eq!(shedder.most(at(0)), 10.0, "a second, while nothing is known");
        // 200 in 100 ms at 20 ms, and 100 at 4.2 ms.
        serve(shedder, 100, 200, 2, 20_000);
        serve(shedder, 200, 300, 1, 4_200);
        assert_eq!(shedder.most(at(299)), 200.0 * 20.0 / 100.0, "what is under way does not count");
        assert_eq!(shedder.most(at(300)), 200.0 * 5.0 / 100.0, "whole milliseconds, rounded up");
        shedder.in_flight = 100.0;
        assert!(shedder.admits(at(300), 10) && !shedder.admits(at(300), 11));
        shedder.in_flight = 9.0;
        assert!(shedder.admits(at(300), 11), "the average is within it still");
        let most = [5_099, 5_199, 5_200].map(|ms| shedder.most(at(ms)));
        assert_eq!(most, [10.0, 5.0, 10.0], "they are forgotten one by one");
    }

    #[test]
    fn a_busy_cpu_opens_the_gate_which_closes_a_second_after() {
        let shedder = &mut shedder("cpu_interval = '10ms'");
        serve(shedder, 0, 1_000, 1, 10_000); // 100 in 100 ms at 10 ms: 10
        shedder.in_flight = 50.0;
        busy(shedder, 0, 1_000, 0.0);
        assert!(shedder.admits(at(1_000), 500), "an idle CPU");
        busy(shedder, 1_010, 2_000, 1.0);
        assert!(!shedder.admits(at(2_000), 11) && shedder.admits(at(2_000), 1));
        // 981 thousandths: the factor is 0.19.
        assert_eq!((shedder.limit(), shedder.admits(at(2_000), 2)), (1, false));
        busy(shedder, 2_010, 2_500, 0.5);
        assert!(!shedder.admits(at(2_990), 11) && shedder.admits(at(2_990), 10), "cooling off");
        assert!(shedder.admits(at(3_000), 500));
    }

    #[test]
    fn aegis_cools_off_since_it_began() {
        let shedder = &mut shedder("variant = 'aegis'\ncpu_interval = '10ms'");
        serve(shedder, 0, 1_000, 1, 10_900); // 100 in 100 ms at 10 ms, rounded down
        busy(shedder, 0, 1_000, 1.0);
        assert!(shedder.admits(at(1_000), 10) && !shedder.admits(at(1_000), 11));
        busy(shedder, 1_010, 1_900, 1.0);
        assert!(!shedder.admits(at(1_900), 11));
        busy(shedder, 1_910, 2_400, 0.0);
        assert!(shedder.admits(at(2_400), 11), "more than a second after the first refusal");
    }

    #[test]
    fn refuses_nonsense_by_name() {
        let field = |text: &str| toml::from_str::<Config>(text).unwrap().validate().unwrap_err();
        assert_eq!(field("cpu_threshold = 1.0").field, "bbr.cpu_threshold");
        assert_eq!(field("buckets = 1").field, "bbr.buckets");
        assert_eq!(field("window = '0s'").field, "bbr.window");
        assert_eq!(field("resolution = '0s'").field, "bbr.resolution");
    }
}
