//! What the agent is told: one file, documented field by field.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use glob::Pattern;
use seawall_control::config::duration;
use seawall_control::scaling;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::actuator::kubernetes;
pub use super::responder::config::{PathWindow, Responder, Way};
use crate::responder::EXPECTED_MAX;

/// Everything that can be set. Only containers that something here asks for are touched.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How often containers are looked at and decided upon; the algorithm's own interval by
    /// default. A shorter one reacts sooner and costs more CPU. From 100us to 1m.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Thousandths of a CPU that one unit is: decisions move whole units. 100 by default; 1000
    /// where whole CPUs are given (`cpuset` takes nothing else).
    pub unit_milli: u32,
    /// Units that all containers together may have; by default what the machine's CPUs make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Who decides, and by what parameters.
    pub scaling: scaling::Config,
    /// What choices follow from that a policy makes at random.
    pub seed: u64,
    /// Where the host's files are: `/`, or where they are mounted in the agent's own container.
    pub root: PathBuf,
    /// The folder in which services publish their metrics.
    pub pages: PathBuf,
    /// The folder for what must outlive the agent: saved allocations and the lock.
    pub state: PathBuf,
    /// How long services obey orders after the agent has last renewed them. From 10ms to 1m.
    #[serde(with = "duration")]
    pub lease: Duration,
    /// How often the agent sets a container again whose CPU others have changed, before it leaves
    /// it alone. At most 1000.
    pub contests_max: u32,
    /// Which containers are looked for.
    pub discovery: Discovery,
    /// How they are given CPU.
    pub actuator: Actuators,
    /// Bounds of containers whose entry sets none.
    pub defaults: Bounds,
    /// Raises services by the packet.
    pub responder: Responder,
    /// Containers by name, with what is known of them.
    pub containers: Vec<Rule>,
    /// The log of decisions.
    pub audit: Audit,
    /// The metrics endpoint.
    pub metrics: Metrics,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: None,
            unit_milli: 100,
            units: None,
            scaling: scaling::Config::default(),
            seed: 1,
            root: PathBuf::from("/"),
            pages: PathBuf::from("/run/seawall/pages"),
            state: PathBuf::from("/var/lib/seawall"),
            lease: Duration::from_secs(1),
            contests_max: 3,
            discovery: Discovery::default(),
            actuator: Actuators::default(),
            defaults: Bounds::default(),
            responder: Responder::default(),
            containers: Vec::new(),
            audit: Audit::default(),
            metrics: Metrics::default(),
        }
    }
}

/// Which containers are looked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Discovery {
    /// How often containers are looked for. Those that go are noticed in every interval. From 10ms
    /// to 1m.
    #[serde(with = "duration")]
    pub every: Duration,
    /// Containers of Kubernetes' pods.
    pub kubernetes: bool,
    /// Containers of Docker.
    pub docker: bool,
    /// Units of systemd, as patterns: `web-*.service`.
    pub systemd: Vec<String>,
}

impl Default for Discovery {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            kubernetes: false,
            docker: false,
            systemd: Vec::new(),
        }
    }
}

/// What gives a container CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuActuator {
    /// The quota of its group: `cpu.cfs_quota_us` or `cpu.max`.
    #[default]
    Quota,
    /// Whole CPUs of its own: `cpuset.cpus`.
    Cpuset,
    /// The limit of its pod's container, by the API server of Kubernetes.
    Kubernetes,
    /// A number in its metrics page, for services that model their cores.
    Virtual,
}

/// What changes the frequency of a container's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrequencyActuator {
    /// Nothing.
    #[default]
    None,
    /// `scaling_setspeed` of the CPUs that it has by `cpuset`.
    Cpufreq,
    /// A speed in its metrics page.
    Virtual,
}

/// How containers are given CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Actuators {
    /// What gives CPU.
    pub cpu: CpuActuator,
    /// What gives speed.
    pub frequency: FrequencyActuator,
    /// The period over which a quota counts; each container's own by default. A shorter one makes
    /// throttled times shorter. From 1ms to 1s.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
    /// Unused quota that may be used later, as a share of the quota: 0 leaves the container's own
    /// setting alone where the kernel allows it. From 0 to 1.
    pub burst: f64,
    /// Speeds of `frequency = "virtual"` in thousandths of the base speed, slowest first.
    pub speeds_permille: Vec<u16>,
    /// The level among the speeds or frequencies that containers have when nothing is wrong.
    pub level_base: u16,
    /// The API server, for `cpu = "kubernetes"`.
    pub kubernetes: kubernetes::Settings,
}

impl Default for Actuators {
    fn default() -> Self {
        Self {
            cpu: CpuActuator::default(),
            frequency: FrequencyActuator::default(),
            period: None,
            burst: 0.0,
            speeds_permille: vec![1_000, 1_250, 1_500, 1_750, 2_000],
            level_base: 0,
            kubernetes: kubernetes::Settings::default(),
        }
    }
}

/// How much CPU a container may have, in thousandths of a CPU.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    /// It never has less; by default what it has when the agent first sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_milli: Option<u32>,
    /// It never has more; by default everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_milli: Option<u32>,
    /// What it is given at first if it has no quota. Without this the agent leaves such a container
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_milli: Option<u32>,
}

/// What is known of containers that match a pattern.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// What the container is called in logs and metrics.
    pub name: String,
    /// Its group in the hierarchy of the `cpu` controller, as a pattern: `/web/*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The service that its metrics page names, as a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// It never has less, in thousandths of a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_milli: Option<u32>,
    /// It never has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_milli: Option<u32>,
    /// What it is given at first if it has no quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_milli: Option<u32>,
    /// Execution of a request without waits for connections when all is well, times two.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub expected_exec: Option<Duration>,
    /// From the start of a job to its arrival here when all is well, times two.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub expected_time_from_start: Option<Duration>,
    /// Services that a request passes before this one.
    pub depth: u16,
    /// Containers that it calls, by their names here: they are boosted with it, and those that they
    /// call.
    pub calls: Vec<String>,
    /// Whether its requests are Thrift's (docs/responder.md) rather than Seawall's own.
    pub thrift: bool,
}

/// The log of decisions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Where it is written, one decision in JSON a line; `audit.jsonl` in the folder of the state
    /// by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Bytes after which a new file is begun. From 4096.
    pub file_bytes_max: u64,
    /// Files that are kept beside the one that is written to. At most 100.
    pub files_max: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { file: None, file_bytes_max: 16 << 20, files_max: 4 }
    }
}

/// The metrics endpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Where to serve Prometheus metrics and the page that draws them; nowhere by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Host names under which they may be asked for, beside loopback names and addresses in
    /// digits; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
}

/// A field that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {value}; {allowed}")]
pub struct ConfigError {
    /// Its name, as in the file.
    pub field: String,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

pub(super) fn refuse<T>(
    field: impl Into<String>,
    value: &(impl ToString + ?Sized),
    allowed: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError { field: field.into(), value: value.to_string(), allowed: allowed.into() })
}

impl Config {
    /// Checks all ranges.
    ///
    /// # Errors
    ///
    /// Names the first field that is out of range, and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(interval) = self.interval {
            within("interval", interval, Duration::from_micros(100), Duration::from_secs(60))?;
        }
        within("lease", self.lease, Duration::from_millis(10), Duration::from_secs(60))?;
        let every = self.discovery.every;
        within("discovery.every", every, Duration::from_millis(10), Duration::from_secs(60))?;
        if self.unit_milli == 0 || self.unit_milli > 100_000 {
            return refuse("unit_milli", &self.unit_milli, "allowed: 1 to 100000");
        }
        if self.units == Some(0) {
            return refuse("units", &0, "there must be at least one unit to give");
        }
        if self.contests_max > 1_000 {
            return refuse("contests_max", &self.contests_max, "allowed: at most 1000");
        }
        for (place, glob) in self.discovery.systemd.iter().enumerate() {
            pattern(&format!("discovery.systemd[{place}]"), glob)?;
        }
        if self.audit.file_bytes_max < 4_096 {
            return refuse("audit.file_bytes_max", &self.audit.file_bytes_max, "at least 4096");
        }
        if self.audit.files_max > 100 {
            return refuse("audit.files_max", &self.audit.files_max, "allowed: at most 100");
        }
        if let Err(error) = self.scaling.validate() {
            let field = format!("scaling.{}", error.field);
            return Err(ConfigError { field, value: "refused".to_owned(), allowed: error.problem });
        }
        self.actuator.validate(self.unit_milli)?;
        let Bounds { floor_milli, limit_milli, initial_milli } = self.defaults;
        bounds("defaults", floor_milli, limit_milli, initial_milli)?;
        self.responder.validate()?;
        for (place, rule) in self.containers.iter().enumerate() {
            rule.validate(place)?;
            let names = || self.containers.iter().map(|rule| rule.name.as_str());
            let unknown = |call: &&String| names().all(|name| name != *call);
            if let Some(call) = rule.calls.iter().find(unknown) {
                let allowed =
                    format!("name containers: {}", names().collect::<Vec<_>>().join(", "));
                return refuse(format!("containers[{place}].calls"), call, allowed);
            }
        }
        Ok(())
    }

    /// Whether anything is looked for at all.
    pub fn looks_for_something(&self) -> bool {
        let Discovery { kubernetes, docker, systemd, .. } = &self.discovery;
        *kubernetes
            || *docker
            || !systemd.is_empty()
            || !self.containers.is_empty()
            || self.actuator.cpu == CpuActuator::Virtual
    }
}

impl Actuators {
    fn validate(&self, unit_milli: u32) -> Result<(), ConfigError> {
        if let Some(period) = self.period {
            let (least, most) = (Duration::from_millis(1), Duration::from_secs(1));
            within("actuator.period", period, least, most)?;
        }
        if !(0.0..=1.0).contains(&self.burst) {
            return refuse("actuator.burst", &self.burst, "allowed: 0 to 1");
        }
        if self.cpu == CpuActuator::Cpuset && !unit_milli.is_multiple_of(1_000) {
            let allowed = "actuator.cpu = \"cpuset\" gives whole CPUs: a multiple of 1000";
            return refuse("unit_milli", &unit_milli, allowed);
        }
        self.kubernetes.validate()?;
        if self.frequency == FrequencyActuator::Cpufreq && self.cpu != CpuActuator::Cpuset {
            let allowed = "a CPU's frequency is a container's only if the CPU is: it takes \
                           actuator.cpu = \"cpuset\"";
            return refuse("actuator.frequency", &"cpufreq", allowed);
        }
        if self.frequency == FrequencyActuator::Virtual {
            let speeds = &self.speeds_permille;
            let rises = speeds.windows(2).all(|pair| pair[0] < pair[1]);
            if speeds.is_empty() || speeds[0] == 0 || !rises {
                let allowed = "allowed: at least one speed, above 0, slowest first";
                return refuse("actuator.speeds_permille", &format!("{speeds:?}"), allowed);
            }
            if usize::from(self.level_base) >= speeds.len() {
                let allowed = format!("there are {} speeds; the first is 0", speeds.len());
                return refuse("actuator.level_base", &self.level_base, allowed);
            }
        }
        Ok(())
    }
}

impl Rule {
    fn validate(&self, place: usize) -> Result<(), ConfigError> {
        let field = |name: &str| format!("containers[{place}].{name}");
        if self.name.is_empty() {
            return refuse(field("name"), &"empty", "give the container a name");
        }
        if self.cgroup.is_none() && self.service.is_none() {
            let allowed = "say which group or service it is, or both: cgroup = \"/web/*\"";
            return refuse(field("cgroup"), &"missing", allowed);
        }
        for (name, glob) in [("cgroup", &self.cgroup), ("service", &self.service)] {
            if let Some(glob) = glob {
                pattern(&field(name), glob)?;
            }
        }
        if let Some(glob) = self.cgroup.as_ref().filter(|glob| !glob.starts_with('/')) {
            return refuse(field("cgroup"), &glob, "a group's path starts with a slash");
        }
        for (name, time) in [
            ("expected_exec", self.expected_exec),
            ("expected_time_from_start", self.expected_time_from_start),
        ] {
            if let Some(time) = time.filter(|time| time.is_zero() || *time > EXPECTED_MAX) {
                let allowed = "allowed: more than 0s and at most 60m; left out, it is learned";
                return refuse(field(name), &duration::format(time), allowed);
            }
        }
        let name = format!("containers[{place}]");
        bounds(&name, self.floor_milli, self.limit_milli, self.initial_milli)
    }
}

fn bounds(
    name: &str,
    floor: Option<u32>,
    limit: Option<u32>,
    initial: Option<u32>,
) -> Result<(), ConfigError> {
    let given = [("floor_milli", floor), ("limit_milli", limit), ("initial_milli", initial)];
    for (field, value) in given {
        if value == Some(0) {
            return refuse(format!("{name}.{field}"), &0, "a container needs some CPU: at least 1");
        }
    }
    let (least, most) = (floor.unwrap_or(0), limit.unwrap_or(u32::MAX));
    if least > most {
        let allowed = format!("at most {name}.limit_milli, which is {most}");
        return refuse(format!("{name}.floor_milli"), &least, allowed);
    }
    match initial.filter(|initial| !(least..=most).contains(initial)) {
        Some(initial) => {
            let allowed = format!("allowed: floor_milli to limit_milli, {least} to {most}");
            refuse(format!("{name}.initial_milli"), &initial, allowed)
        }
        None => Ok(()),
    }
}

fn pattern(field: &str, glob: &str) -> Result<(), ConfigError> {
    match Pattern::new(glob) {
        Ok(_) => Ok(()),
        Err(error) => refuse(field, &format!("`{glob}`"), format!("not a pattern: {error}")),
    }
}

pub(super) fn within(
    field: &str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let [value, least, most] = [value, least, most].map(duration::format);
    refuse(field, &value, format!("allowed: {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(toml: &str) -> String {
        let config: Config = toml::from_str(toml).unwrap();
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_valid_and_touches_nothing() {
        let config = Config::default();
        assert_eq!(config.validate(), Ok(()));
        assert!(!config.looks_for_something());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let text = toml::to_string(&Config::default()).unwrap();
        let read: Config = toml::from_str(&text).unwrap();
        assert_eq!(toml::to_string(&read).unwrap(), text);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (toml, field) in [
            ("interval = '1us'", "interval is 1us; allowed: 100us to 1m"),
            ("unit_milli = 0", "unit_milli is 0"),
            ("units = 0", "units is 0"),
            ("lease = '1ms'", "lease is 1ms"),
            ("contests_max = 1001", "contests_max is 1001"),
            ("[discovery]\nevery = '1ms'", "discovery.every is 1ms"),
            ("[discovery]\nsystemd = ['[']", "discovery.systemd[0] is `[`"),
            ("[actuator]\nperiod = '2s'", "actuator.period is 2s"),
            ("[actuator]\nburst = 1.5", "actuator.burst is 1.5"),
            ("[actuator]\ncpu = 'cpuset'", "unit_milli is 100; actuator.cpu = \"cpuset\""),
            (
                "[actuator.kubernetes]\nurl = 'http://a'",
                "actuator.kubernetes.url is `http://a`; a token goes over TLS only",
            ),
            ("[actuator.kubernetes]\nnode = 'A/b'", "actuator.kubernetes.node is `A/b`"),
            ("[actuator.kubernetes]\ntimeout = '1m'", "actuator.kubernetes.timeout is 1m"),
            ("[actuator.kubernetes]\nsettle = '1ms'", "actuator.kubernetes.settle is 1ms"),
            ("[actuator.kubernetes]\nretries_max = 21", "actuator.kubernetes.retries_max is 21"),
            (
                "[actuator.kubernetes]\nrequests_per_second = 0",
                "actuator.kubernetes.requests_per_second is 0; allowed: 1 to 1000",
            ),
            ("[actuator]\nfrequency = 'cpufreq'", "actuator.frequency is cpufreq"),
            (
                "[actuator]\nfrequency = 'virtual'\nspeeds_permille = [2, 1]",
                "actuator.speeds_permille is [2, 1]",
            ),
            ("[actuator]\nfrequency = 'virtual'\nlevel_base = 9", "actuator.level_base is 9"),
            ("[audit]\nfile_bytes_max = 1", "audit.file_bytes_max is 1"),
            ("[audit]\nfiles_max = 101", "audit.files_max is 101"),
            ("[responder]\nboost = '1us'", "responder.boost is 1us; allowed: 1ms to 10s"),
            ("[responder]\nwindow = '1m'", "responder.window is 1m"),
            ("[responder]\nquota_factor = 0.5", "responder.quota_factor is 0.5"),
            ("[responder]\nquota_units = 0", "responder.quota_units is 0"),
            ("[responder]\nspeed_permille = 9", "responder.speed_permille is 9"),
            ("[[responder.paths]]\npath = 1\nwindow = '0s'", "responder.paths[0].window is 0s"),
            (
                "[[containers]]\nname = 'a'\nservice = 'a'\ncalls = ['b']",
                "containers[0].calls is b; name containers: a",
            ),
            ("[defaults]\nfloor_milli = 9\nlimit_milli = 3", "defaults.floor_milli is 9"),
            ("[[containers]]\ncgroup = '/a'", "containers[0].name is empty"),
            ("[[containers]]\nname = 'a'", "containers[0].cgroup is missing"),
            ("[[containers]]\nname = 'a'\ncgroup = 'a'", "containers[0].cgroup is a"),
            ("[[containers]]\nname = 'a'\nservice = '**a'", "containers[0].service is `**a`"),
            (
                "[[containers]]\nname = 'a'\nservice = 'a'\nexpected_exec = '0s'",
                "containers[0].expected_exec is 0s; allowed: more than 0s and at most 60m",
            ),
            (
                "[[containers]]\nname = 'a'\nservice = 'a'\nexpected_time_from_start = '61m'",
                "containers[0].expected_time_from_start is 61m",
            ),
            (
                "[[containers]]\nname = 'a'\nservice = 'a'\ninitial_milli = 5\nfloor_milli = 6",
                "containers[0].initial_milli is 5",
            ),
        ] {
            let error = refused(toml);
            assert!(error.starts_with(field), "{toml}: {error}");
        }
    }
}
